//! Connections: how one is made and set up, and how long callers wait for one.

use std::time::Duration;

use futures::future::poll_fn;
use tokio::sync::mpsc;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::TlsStream;
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, NoTls, Notification, SimpleQueryMessage, Socket,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::sql::{Conn, store_error, text_of};
use super::tls::{self, Encryption};
use crate::contract::StoreError;

/// The schema of our tables, which keeps them apart from other uses of the database.
pub(super) const SCHEMA: &str = "plexus";

/// The schemes that a URL may have.
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// How long making a connection may take, TLS included: a healthy database answers at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the kernel waits for an answer before it drops a connection, so that a machine that
/// vanished is noticed.
const PEER_TIMEOUT: Duration = Duration::from_secs(10);

/// How many notifications may be queued. Beyond that, all subscribers are woken.
const NOTIFICATIONS: usize = 1_024;

/// The settings of every connection: where the tables are, timeouts so that it does not delay
/// others, and no acknowledgement before the data is on disk.
const SETUP: &str = "SET search_path = plexus; SET lock_timeout = '8s'; SET statement_timeout = \
    '30s';
    SET idle_in_transaction_session_timeout = '20s'; SET tcp_user_timeout = '10s'; SET \
    tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2;
    SELECT set_config('synchronous_commit', 'on', false) WHERE \
    current_setting('synchronous_commit') IN ('off', 'local');
    SELECT pid, pid || '@' || backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid();";

/// Makes connections.
#[derive(Clone)]
pub(super) struct Connector {
    config: Config,
    /// Encrypts each of them; `None` when the URL does not ask for it.
    encryption: Option<MakeRustlsConnect>,
}

impl std::fmt::Debug for Connector {
    /// Leaves out the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector")
            .field("hosts", &self.config.get_hosts())
            .field("database", &self.config.get_dbname())
            .field("encrypted", &self.encrypted())
            .finish()
    }
}

impl Connector {
    /// Parses a URL (`postgres://user:password@host:port/database`). Errors quote nothing of it
    /// except its encryption settings, because it holds a password.
    pub(super) fn new(url: &str) -> Result<Self, StoreError> {
        let none = || {
            StoreError::invalid(
                "read the database's URL: it has the form \
                 postgres://user:password@host:port/database",
            )
        };
        // The parser also accepts another notation, in which encryption is requested in another
        // way.
        if !SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
            return Err(none());
        }
        let (url, encryption) = tls::read(url)?;
        let mut config: Config = url.parse().map_err(|_| none())?;
        // Set explicitly: the parser's default leaves encryption to the server.
        config.ssl_mode(match encryption {
            Encryption::Off => SslMode::Disable,
            Encryption::Verified { .. } => SslMode::Require,
        });
        config.application_name("plexus");
        config.connect_timeout(CONNECT_TIMEOUT);
        config.keepalives_idle(PEER_TIMEOUT / 2);
        config.tcp_user_timeout(PEER_TIMEOUT);
        Ok(Self { config, encryption: encryption.connector()? })
    }

    /// Returns whether its connections are encrypted.
    pub(super) fn encrypted(&self) -> bool {
        self.encryption.is_some()
    }

    /// Makes a connection and a task that drives it.
    pub(super) async fn connect(&self) -> Result<Conn, StoreError> {
        self.open(None).await
    }

    /// Makes a connection whose notifications go into a queue; the queue closes with the
    /// connection.
    pub(super) async fn connect_listening(
        &self,
    ) -> Result<(Conn, mpsc::Receiver<Heard>), StoreError> {
        let (told, heard) = mpsc::channel(NOTIFICATIONS);
        Ok((self.open(Some(told)).await?, heard))
    }

    async fn open(&self, told: Option<mpsc::Sender<Heard>>) -> Result<Conn, StoreError> {
        let late = |_| StoreError::Unavailable {
            message: format!("the database did not answer within {CONNECT_TIMEOUT:?}"),
            source: None,
        };
        let connecting = async {
            Ok(match &self.encryption {
                None => carried(self.config.connect(NoTls).await?, told),
                Some(tls) => carried(self.config.connect(tls.clone()).await?, told),
            })
        };
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, connecting);
        let client = connecting.await.map_err(late)?.map_err(tls::refusal)?;
        let setup = tokio::time::timeout(CONNECT_TIMEOUT, client.simple_query(SETUP));
        let answers = setup.await.map_err(late)?.map_err(store_error)?;
        let process = answers.iter().rev().find_map(|message| match message {
            SimpleQueryMessage::Row(row) if row.len() == 2 => {
                Some((row.get(0)?.parse().ok()?, row.get(1)?.to_owned()))
            }
            _ => None,
        });
        // Without the process, the remains of this connection could not be found after it is lost.
        let (pid, process) = process.ok_or_else(|| StoreError::Unavailable {
            message: "the database does not say which process serves us".to_owned(),
            source: None,
        })?;
        Ok(Conn::new(client, pid, process))
    }
}

/// Starts the task that drives a connection for as long as its client exists.
fn carried<T>(
    (client, mut connection): (Client, Connection<Socket, T>),
    told: Option<mpsc::Sender<Heard>>,
) -> Client
where
    T: TlsStream + Unpin + Send + 'static,
{
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
    client
}

/// What arrived on a listening connection.
#[derive(Debug)]
pub(super) enum Heard {
    /// A notification.
    Note(Notification),
    /// More notifications than the queue holds; some were dropped.
    TooMuch,
}

async fn tell(told: &mpsc::Sender<Heard>, note: Notification) {
    match told.try_send(Heard::Note(note)) {
        Ok(()) => {}
        // The reader lags. It is told so as soon as there is room; meanwhile nothing else is read
        // from this connection.
        Err(mpsc::error::TrySendError::Full(_)) => drop(told.send(Heard::TooMuch).await),
        Err(mpsc::error::TrySendError::Closed(_)) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_encrypted_exactly_when_the_url_asks_for_it() {
        for (url, mode) in [
            ("postgres://u:p@h/d", SslMode::Disable),
            ("postgres://u:p@h/d?sslmode=disable", SslMode::Disable),
            ("postgres://u:p?sslmode=require@h/d", SslMode::Disable),
        ] {
            let connector = Connector::new(url).unwrap();
            assert_eq!(
                (connector.config.get_ssl_mode(), connector.encrypted()),
                (mode, false),
                "{url}"
            );
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        let authority = rcgen::generate_simple_self_signed(Vec::new()).unwrap();
        std::fs::write(&file, authority.cert.pem()).unwrap();
        for mode in ["require", "verify-full"] {
            let url = format!("postgresql://u:p@h/d?sslrootcert={}&sslmode={mode}", file.display());
            let connector = Connector::new(&url).unwrap();
            assert_eq!(
                (connector.config.get_ssl_mode(), connector.encrypted()),
                (SslMode::Require, true),
                "{url}"
            );
        }
    }

    #[test]
    fn an_address_that_is_not_a_url_is_refused_and_not_shown() {
        for text in ["host=h password=s3cret sslmode=prefer", "host=h password=s3cret", "s3cret"] {
            match Connector::new(text) {
                Err(StoreError::Invalid { message }) => {
                    assert!(
                        message.contains("postgres://") && !message.contains("s3cret"),
                        "{message}"
                    );
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn authorities_that_cannot_be_read_are_refused_by_the_name_of_their_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("empty.pem"), "").unwrap();
        for (name, why) in [("missing.pem", "No such file"), ("empty.pem", "no certificate")] {
            let file = folder.path().join(name);
            let url = format!(
                "postgres://u:s3cret@h/d?sslmode=verify-full&sslrootcert={}",
                file.display()
            );
            match Connector::new(&url) {
                Err(StoreError::Invalid { message }) => {
                    let told = ["sslrootcert", name, why].iter().all(|word| message.contains(word));
                    assert!(told && !message.contains("s3cret"), "{message}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
