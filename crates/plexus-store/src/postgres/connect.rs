//! Connections: how one is made, what every one of them is told first, and how long anybody waits for one.

use std::time::Duration;

use futures::future::poll_fn;
use tokio::sync::mpsc;
use tokio_postgres::config::SslMode;
use tokio_postgres::{AsyncMessage, Config, NoTls, Notification, SimpleQueryMessage};

use super::sql::{Conn, store_error, text_of};
use crate::contract::StoreError;

/// The schema that holds our tables, apart from what else the database is used for.
pub(super) const SCHEMA: &str = "plexus";

/// How long making a connection may take: a database that is there answers at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// After how long without an answer the kernel gives a connection up, so that a machine that vanished is noticed.
const PEER_TIMEOUT: Duration = Duration::from_secs(10);

/// How many notifications wait to be looked at. More than that, and everybody is told to look.
const NOTIFICATIONS: usize = 1_024;

/// What every connection is told: where the tables are, to give up instead of holding others up, and not to say "done" before it is on disk.
const SETUP: &str = "SET search_path = plexus; SET lock_timeout = '8s'; SET statement_timeout = '30s';
    SET idle_in_transaction_session_timeout = '20s'; SET tcp_user_timeout = '10s'; SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2;
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', 'local');
    SELECT pid, pid || '@' || backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid();";

/// Makes connections.
#[derive(Clone)]
pub(super) struct Connector(Config);

impl std::fmt::Debug for Connector {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").field("hosts", &self.0.get_hosts()).field("database", &self.0.get_dbname()).finish()
    }
}

impl Connector {
    /// Reads a URL (`postgres://user:password@host:port/database`). Nothing of it is in the error: it holds a password.
    pub(super) fn new(url: &str) -> Result<Self, StoreError> {
        refuse_encryption(url)?;
        let mut config: Config = url.parse().map_err(|_| {
            StoreError::invalid("read the database's URL: it has the form postgres://user:password@host:port/database")
        })?;
        // Also when the word was written in a way that only the parser reads. `Prefer` is what it takes when nothing was said.
        if config.get_ssl_mode() == SslMode::Require {
            return Err(not_encrypted());
        }
        config.ssl_mode(SslMode::Disable);
        config.application_name("plexus");
        config.connect_timeout(CONNECT_TIMEOUT);
        config.keepalives_idle(PEER_TIMEOUT / 2);
        config.tcp_user_timeout(PEER_TIMEOUT);
        Ok(Self(config))
    }

    /// Makes a connection and a task that carries what it says.
    pub(super) async fn connect(&self) -> Result<Conn, StoreError> {
        self.open(None).await
    }

    /// Makes a connection whose notifications come out of a queue; the queue ends with the connection.
    pub(super) async fn connect_listening(&self) -> Result<(Conn, mpsc::Receiver<Heard>), StoreError> {
        let (told, heard) = mpsc::channel(NOTIFICATIONS);
        Ok((self.open(Some(told)).await?, heard))
    }

    async fn open(&self, told: Option<mpsc::Sender<Heard>>) -> Result<Conn, StoreError> {
        let late = |_| StoreError::Unavailable {
            message: format!("the database did not answer within {CONNECT_TIMEOUT:?}"),
            source: None,
        };
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, self.0.connect(NoTls));
        let (client, mut connection) = connecting.await.map_err(late)?.map_err(store_error)?;
        tokio::spawn(async move {
            loop {
                match poll_fn(|cx| connection.poll_message(cx)).await {
                    None => return,
                    Some(Ok(AsyncMessage::Notification(note))) => {
                        if let Some(told) = &told {
                            tell(told, note).await;
                        }
                    }
                    Some(Ok(_notice)) => {}
                    Some(Err(error)) => {
                        tracing::debug!(error = text_of(&error), "a connection to the database ended");
                        return;
                    }
                }
            }
        });
        let setup = tokio::time::timeout(CONNECT_TIMEOUT, client.simple_query(SETUP));
        let answers = setup.await.map_err(late)?.map_err(store_error)?;
        let process = answers.iter().rev().find_map(|message| match message {
            SimpleQueryMessage::Row(row) if row.len() == 2 => Some((row.get(0)?.parse().ok()?, row.get(1)?.to_owned())),
            _ => None,
        });
        // Without it, what is left of this connection could not be found again.
        let (pid, process) = process.ok_or_else(|| StoreError::Unavailable {
            message: "the database does not say which process serves us".to_owned(),
            source: None,
        })?;
        Ok(Conn::new(client, pid, process))
    }
}

/// Refuses a URL that asks for encryption, or leaves it to the server: connections here are not encrypted, and nobody who asks for that must get
/// one that is not.
fn refuse_encryption(url: &str) -> Result<(), StoreError> {
    // A password that is not encoded may hold a question mark.
    let behind_password = url.split_once('@').map_or(url, |(_, behind)| behind);
    let query = behind_password.split_once('?').map_or("", |(_, query)| query);
    for (name, value) in query.split('&').filter_map(|part| part.split_once('=')) {
        if name.starts_with("ssl") && (name, value) != ("sslmode", "disable") {
            return Err(not_encrypted());
        }
    }
    Ok(())
}

fn not_encrypted() -> StoreError {
    StoreError::invalid(
        "use the database's URL: it asks for encryption (sslmode), which connections here do not have; put a tunnel in between, and leave it out or say sslmode=disable",
    )
}

/// What a listening connection heard.
#[derive(Debug)]
pub(super) enum Heard {
    /// A notification.
    Note(Notification),
    /// More than the queue holds.
    TooMuch,
}

async fn tell(told: &mpsc::Sender<Heard>, note: Notification) {
    match told.try_send(Heard::Note(note)) {
        Ok(()) => {}
        // The reader is behind. It is told so as soon as there is room; nothing else is read from this connection meanwhile.
        Err(mpsc::error::TrySendError::Full(_)) => drop(told.send(Heard::TooMuch).await),
        Err(mpsc::error::TrySendError::Closed(_)) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_asks_for_encryption_is_refused_and_never_goes_without() {
        for query in [
            "sslmode=require",
            "sslmode=verify-full",
            "sslmode=verify-ca",
            "sslmode=prefer",
            "sslmode=allow",
            "connect_timeout=3&sslmode=require",
            "sslmode=disable&sslmode=require",
            "sslrootcert=/ca.pem",
            "ssl%6Dode=require",
        ] {
            match Connector::new(&format!("postgres://u:s3cret@h/d?{query}")) {
                Err(StoreError::Invalid { message }) => {
                    assert!(message.contains("sslmode") && !message.contains("s3cret"), "{query}: {message}");
                }
                other => panic!("{query}: {other:?}"),
            }
        }
        for url in ["postgres://u:p@h/d", "postgres://u:p@h/d?sslmode=disable", "postgres://u:p?sslmode=require@h/d"] {
            let connector = Connector::new(url).unwrap();
            assert_eq!(connector.0.get_ssl_mode(), SslMode::Disable, "{url}");
        }
    }
}
