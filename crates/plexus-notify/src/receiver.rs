//! Who is told: an entry of `[[webhooks]]` or `[[notify]]`, checked, with its secrets read.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use plexus_engine::hooks::HookReceiver;
use plexus_wire::{HookEvent, RiskLevel};
use serde::{Deserialize, Serialize};

use crate::http::Address;
use crate::kinds::{self, To};
use crate::message::Detail;
use crate::notify::{self, Notify};
use crate::quiet::Quiet;
use crate::secret;

/// The most receivers: each has a task and a connection.
const MAX_RECEIVERS: usize = 32;

/// The shortest secret of a webhook that is taken; a shorter one can be guessed.
const MIN_SECRET_BYTES: usize = 16;

/// The longest a receiver may be given to answer.
const MAX_TIMEOUT_SECS: u64 = 60;

/// One `[[webhooks]]` entry.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// Its name in logs, audit and metrics: letters, digits, `-` and `_`.
    pub name: String,
    /// Where messages go: `https://…` or `http://…`.
    pub url: String,
    /// The trusted certificate authorities for an `https://…` receiver, in PEM form; those of the
    /// machine by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The file that holds the secret messages are signed with; nobody else may read it (0600).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_file: Option<PathBuf>,
    /// Instead of a file: the variable that holds the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_env: Option<String>,
    /// The events that it is told; none named means all.
    #[serde(default)]
    pub events: Vec<HookEvent>,
    /// Whether it may decide: messages about pending approvals then hold a one-time token.
    #[serde(default)]
    pub answers: bool,
    /// How long it may take to answer, in seconds.
    #[serde(default = "default_timeout_secs")]
    pub timeout_secs: u64,
    /// After how many seconds a message that it does not take is given up.
    #[serde(default = "default_give_up_after_secs")]
    pub give_up_after_secs: u64,
}

pub(crate) fn default_timeout_secs() -> u64 {
    10
}

pub(crate) fn default_give_up_after_secs() -> u64 {
    24 * 3_600
}

/// A receiver, ready to be sent to.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// Its name.
    pub name: String,
    /// What it is and where it is reached.
    pub(crate) to: To,
    /// The events that it is told; none named means all.
    pub events: Vec<HookEvent>,
    /// Whether it may decide.
    pub answers: bool,
    /// The lowest risk of a request that it is told of.
    pub from_risk: Option<RiskLevel>,
    /// When it is left alone.
    pub(crate) quiet: Option<Quiet>,
    /// How long after a message the next one waits for others, to go with them as one.
    pub(crate) burst: Duration,
    /// How much of an input it may be told.
    pub detail: Detail,
    /// How long it may take to answer.
    pub timeout: Duration,
    /// When a message is given up.
    pub give_up_after: Duration,
}

/// Why an entry was not taken.
#[derive(Debug, thiserror::Error)]
pub enum ReceiverError {
    /// There are too many.
    #[error("use {0} webhooks and notify entries: at most {MAX_RECEIVERS} are allowed")]
    TooMany(usize),
    /// An entry is wrong.
    #[error("use the {kind} {name:?}: {problem}")]
    Entry {
        /// The table that it stands in.
        kind: &'static str,
        /// Which.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Receiver {
    /// Returns what the engine needs to know of it.
    #[must_use]
    pub fn wants(&self) -> HookReceiver {
        HookReceiver {
            name: self.name.clone(),
            events: self.events.clone(),
            answers: self.answers,
            from_risk: self.from_risk,
            via: self.to.word(),
        }
    }
}

/// Checks all entries and reads their secrets, from files or from `env`.
///
/// # Errors
/// With the first entry that is wrong, and what is wrong with it.
pub fn receivers(
    webhooks: &[Webhook],
    notify: &[Notify],
    env: &[(OsString, OsString)],
) -> Result<Vec<Receiver>, ReceiverError> {
    let count = webhooks.len() + notify.len();
    if count > MAX_RECEIVERS {
        return Err(ReceiverError::TooMany(count));
    }
    let mut receivers: Vec<Receiver> = Vec::with_capacity(count);
    let webhooks = webhooks.iter().map(|it| ("webhook", &it.name, of_webhook(it, env)));
    let notify = notify.iter().map(|it| ("notify entry", &it.name, notify::receiver(it, env)));
    for (kind, name, read) in webhooks.chain(notify) {
        let wrong = |problem: String| ReceiverError::Entry { kind, name: name.clone(), problem };
        if receivers.iter().any(|known| known.name == *name) {
            return Err(wrong("another one has this name".into()));
        }
        receivers.push(read.map_err(wrong)?);
    }
    Ok(receivers)
}

/// Checks what every entry has.
pub(crate) fn check(name: &str, timeout_secs: u64) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
        return Err("a name has 1 to 64 letters, digits, '-' and '_'".into());
    }
    if timeout_secs == 0 || timeout_secs > MAX_TIMEOUT_SECS {
        return Err(format!("timeout_secs is 1 to {MAX_TIMEOUT_SECS}"));
    }
    Ok(())
}

fn of_webhook(webhook: &Webhook, env: &[(OsString, OsString)]) -> Result<Receiver, String> {
    check(&webhook.name, webhook.timeout_secs)?;
    let at = Address::new(&webhook.url, webhook.ca_file.as_deref())?;
    let secret =
        secret::read("secret", webhook.secret_file.as_deref(), webhook.secret_env.as_deref(), env)?;
    if secret.expose().len() < MIN_SECRET_BYTES {
        return Err(format!(
            "its secret has less than {MIN_SECRET_BYTES} bytes; `openssl rand -hex 32` makes one"
        ));
    }
    Ok(Receiver {
        name: webhook.name.clone(),
        to: To::Webhook(kinds::webhook::Webhook { at, secret }),
        events: webhook.events.clone(),
        answers: webhook.answers,
        from_risk: None,
        quiet: None,
        burst: Duration::ZERO,
        // A program reads it.
        detail: Detail::Full,
        timeout: Duration::from_secs(webhook.timeout_secs),
        give_up_after: Duration::from_secs(webhook.give_up_after_secs),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn webhook(change: impl FnOnce(&mut Webhook)) -> Webhook {
        let text =
            "name = \"phone\"\nurl = \"http://127.0.0.1:9/hook\"\nsecret_env = \"HOOK_SECRET\"\n";
        let mut webhook: Webhook = toml::from_str(text).unwrap();
        change(&mut webhook);
        webhook
    }

    fn env() -> Vec<(OsString, OsString)> {
        vec![("HOOK_SECRET".into(), "0123456789abcdef".into()), ("SHORT".into(), "short".into())]
    }

    #[test]
    fn a_faulty_entry_is_explained() {
        assert_eq!(
            receivers(&[webhook(|_| {})], &[], &env()).unwrap()[0].timeout,
            Duration::from_secs(10)
        );
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open");
        std::fs::write(&open, "0123456789abcdef\n").unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o640)).unwrap();
        let file = |path: &std::path::Path| {
            webhook(|it| (it.secret_file, it.secret_env) = (Some(path.to_owned()), None))
        };
        let over_tls = |ca_file: &std::path::Path| {
            webhook(|it| {
                (it.url, it.ca_file) = ("https://127.0.0.1:9/".into(), Some(ca_file.to_owned()))
            })
        };
        for (entry, expected) in [
            (webhook(|it| it.name = "a b".into()), "letters"),
            (webhook(|it| it.url = "ftp://x/".into()), "http://"),
            (webhook(|it| it.ca_file = Some(open.clone())), "only with https://"),
            (over_tls(&open), "no certificate"),
            (over_tls(&folder.path().join("gone.pem")), "gone.pem"),
            (webhook(|it| it.url = "nowhere".into()), "url"),
            (webhook(|it| it.url = "http://me:secret@host/".into()), "password"),
            (webhook(|it| it.timeout_secs = 0), "timeout_secs"),
            (webhook(|it| it.secret_env = Some("UNSET".into())), "UNSET"),
            (webhook(|it| it.secret_env = Some("SHORT".into())), "16 bytes"),
            (webhook(|it| it.secret_env = None), "secret_file"),
            (file(&open), "chmod 600"),
            (file(&folder.path().join("none")), "none"),
        ] {
            let error = receivers(&[entry], &[], &env()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o600)).unwrap();
        let To::Webhook(read) = &receivers(&[file(&open)], &[], &[]).unwrap()[0].to else {
            panic!()
        };
        assert_eq!(read.secret.expose(), "0123456789abcdef");
        let twice =
            receivers(&[webhook(|_| {}), webhook(|_| {})], &[], &env()).unwrap_err().to_string();
        assert!(twice.contains("another one"), "{twice}");
    }

    #[test]
    fn an_event_that_is_none_is_refused_by_name() {
        let text = "name = \"a\"\nurl = \"http://h/\"\nevents = [\"approval.requested\", \"approval.imagined\"]\n";
        let error = toml::from_str::<Webhook>(text).unwrap_err().to_string();
        assert!(error.contains("approval.imagined"), "{error}");
    }
}
