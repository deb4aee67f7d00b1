//! Who is told: a `[[webhooks]]` entry of the configuration, checked, with its secret read.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plexus_core::SecretToken;
use plexus_engine::hooks::HookReceiver;
use plexus_wire::HookEvent;
use rustls::ClientConfig;
use serde::{Deserialize, Serialize};
use url::Url;

/// The most receivers: each has a task and a connection.
const MAX_RECEIVERS: usize = 32;

/// The shortest secret that is taken; a shorter one can be guessed.
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

fn default_timeout_secs() -> u64 {
    10
}

fn default_give_up_after_secs() -> u64 {
    24 * 3_600
}

/// A receiver, ready to be sent to.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// Its name.
    pub name: String,
    /// Where messages go.
    pub url: Url,
    /// How it is spoken to over TLS; nothing for `http://…`.
    pub tls: Option<Arc<ClientConfig>>,
    /// What they are signed with.
    pub secret: SecretToken,
    /// The events that it is told; none named means all.
    pub events: Vec<HookEvent>,
    /// Whether it may decide.
    pub answers: bool,
    /// How long it may take to answer.
    pub timeout: Duration,
    /// When a message is given up.
    pub give_up_after: Duration,
}

/// Why a `[[webhooks]]` entry was not taken.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// There are too many.
    #[error("take {0} webhooks: at most {MAX_RECEIVERS}")]
    TooMany(usize),
    /// An entry is wrong.
    #[error("take the webhook {name:?}: {problem}")]
    Entry {
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
        HookReceiver { name: self.name.clone(), events: self.events.clone(), answers: self.answers }
    }
}

/// Checks all entries and reads their secrets, from files or from `env`.
///
/// # Errors
/// With the first entry that is wrong, and what is wrong with it.
pub fn receivers(
    webhooks: &[Webhook],
    env: &[(OsString, OsString)],
) -> Result<Vec<Receiver>, WebhookError> {
    if webhooks.len() > MAX_RECEIVERS {
        return Err(WebhookError::TooMany(webhooks.len()));
    }
    let mut receivers: Vec<Receiver> = Vec::with_capacity(webhooks.len());
    for webhook in webhooks {
        let wrong = |problem: String| WebhookError::Entry { name: webhook.name.clone(), problem };
        if receivers.iter().any(|known| known.name == webhook.name) {
            return Err(wrong("another one has this name".into()));
        }
        receivers.push(receiver(webhook, env).map_err(wrong)?);
    }
    Ok(receivers)
}

fn receiver(webhook: &Webhook, env: &[(OsString, OsString)]) -> Result<Receiver, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if webhook.name.is_empty() || webhook.name.len() > 64 || !webhook.name.chars().all(plain) {
        return Err("a name has 1 to 64 letters, digits, '-' and '_'".into());
    }
    let url: Url = webhook.url.parse().map_err(|error| format!("its url is none: {error}"))?;
    let tls = match (url.scheme(), &webhook.ca_file) {
        ("https", ca_file) => {
            let trusted = plexus_tls::trust(ca_file.as_deref(), "ca_file")
                .map_err(|error| error.to_string())?;
            Some(Arc::new(trusted))
        }
        ("http", None) => None,
        ("http", Some(_)) => return Err("its ca_file is of use only with https://".into()),
        _ => return Err("its url must begin with https:// or http://".into()),
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Err("its url holds a name or password; the signature says who sends".into());
    }
    if webhook.timeout_secs == 0 || webhook.timeout_secs > MAX_TIMEOUT_SECS {
        return Err(format!("timeout_secs is 1 to {MAX_TIMEOUT_SECS}"));
    }
    let secret = secret(webhook, env)?;
    if secret.expose().len() < MIN_SECRET_BYTES {
        return Err(format!(
            "its secret has less than {MIN_SECRET_BYTES} bytes; `openssl rand -hex 32` makes one"
        ));
    }
    Ok(Receiver {
        name: webhook.name.clone(),
        url,
        tls,
        secret,
        events: webhook.events.clone(),
        answers: webhook.answers,
        timeout: Duration::from_secs(webhook.timeout_secs),
        give_up_after: Duration::from_secs(webhook.give_up_after_secs),
    })
}

fn secret(webhook: &Webhook, env: &[(OsString, OsString)]) -> Result<SecretToken, String> {
    match (&webhook.secret_file, &webhook.secret_env) {
        (Some(path), None) => {
            let read = |error: std::io::Error| format!("read {}: {error}", path.display());
            let mode = std::fs::metadata(path).map_err(read)?.permissions().mode() & 0o777;
            if mode & 0o077 != 0 {
                return Err(format!(
                    "{} can be read by others (mode {mode:o}); chmod 600 it",
                    path.display()
                ));
            }
            Ok(SecretToken::new(
                std::fs::read_to_string(path).map_err(read)?.trim_end_matches(['\r', '\n']),
            ))
        }
        (None, Some(name)) => {
            let value = env
                .iter()
                .find(|(variable, _)| *variable == **name)
                .and_then(|(_, value)| value.to_str());
            value
                .map(SecretToken::new)
                .ok_or_else(|| format!("the variable {name} is not set, or is no text"))
        }
        (None, None) | (Some(_), Some(_)) => Err("name either secret_file or secret_env".into()),
    }
}

#[cfg(test)]
mod tests {
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
    fn what_is_wrong_with_an_entry_is_said() {
        assert_eq!(
            receivers(&[webhook(|_| {})], &env()).unwrap()[0].timeout,
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
            let error = receivers(&[entry], &env()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(receivers(&[file(&open)], &[]).unwrap()[0].secret.expose(), "0123456789abcdef");
        let twice = receivers(&[webhook(|_| {}), webhook(|_| {})], &env()).unwrap_err().to_string();
        assert!(twice.contains("another one"), "{twice}");
    }

    #[test]
    fn an_event_that_is_none_is_refused_by_name() {
        let text = "name = \"a\"\nurl = \"http://h/\"\nevents = [\"approval.requested\", \"approval.imagined\"]\n";
        let error = toml::from_str::<Webhook>(text).unwrap_err().to_string();
        assert!(error.contains("approval.imagined"), "{error}");
    }
}
