//! A `[[notify]]` entry of the configuration: a service that shows messages to a person.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use plexus_confine::egress::HostPattern;
use plexus_core::SecretToken;
use plexus_wire::{HookEvent, RiskLevel};
use serde::{Deserialize, Serialize};

use crate::http::Address;
use crate::kinds::{To, command, ntfy, slack, telegram, webpush};
use crate::message::Detail;
use crate::quiet::Quiet;
use crate::receiver::{Receiver, check, default_give_up_after_secs, default_timeout_secs};
use crate::secret;

/// The longest that messages are gathered, in seconds.
const MAX_BURST_SECS: u64 = 3_600;

/// The longest topic, channel or contact, in bytes.
const MAX_WORD_BYTES: usize = 256;

/// One `[[notify]]` entry.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Notify {
    /// Its name in logs, audit and metrics: letters, digits, `-` and `_`.
    pub name: String,
    /// The service.
    pub to: Service,
    /// The events that it is told: requests that wait, by default.
    #[serde(default = "requests")]
    pub events: Vec<HookEvent>,
    /// The lowest risk of a request that it is told of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_risk: Option<RiskLevel>,
    /// A part of the day in which it is left alone: `22:00-07:00`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<String>,
    /// The lowest risk of a request that it is told of in its quiet hours too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet_except: Option<RiskLevel>,
    /// For so many seconds after a message, others are gathered and sent as one; 0 sends each.
    #[serde(default = "default_burst_secs")]
    pub burst_secs: u64,
    /// How much of an input a message may hold.
    #[serde(default)]
    pub detail: Detail,
    /// Whether it may decide: messages about pending approvals then have buttons.
    #[serde(default)]
    pub answers: bool,
    /// How long it may take to answer, in seconds.
    #[serde(default = "default_timeout_secs")]
    pub timeout_secs: u64,
    /// After how many seconds a message that it does not take is given up.
    #[serde(default = "default_give_up_after_secs")]
    pub give_up_after_secs: u64,
    /// The address of the service, where it is not the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The trusted certificate authorities of the service, in PEM form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The file that holds the token of the service; nobody else may read it (0600).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// Instead of a file: the variable that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_env: Option<String>,
    /// The topic of ntfy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// The channel of Slack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The file that holds Slack's app-level token, for buttons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_token_file: Option<PathBuf>,
    /// Instead of a file: the variable that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_token_env: Option<String>,
    /// The chat of Telegram.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<i64>,
    /// The users of Slack or Telegram who may decide.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<User>,
    /// The program and its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Whom a push service may write to about our messages: `mailto:…` or `https://…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contact: Option<String>,
    /// More push services that a browser may subscribe with, by their hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<HostPattern>,
}

/// A service that shows messages to a person.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// An ntfy server and its apps.
    Ntfy,
    /// A channel of Slack.
    Slack,
    /// A chat of Telegram.
    Telegram,
    /// Browsers that have subscribed.
    Webpush,
    /// The notification service of this desktop.
    Desktop,
    /// Any program.
    Command,
}

/// A user of a service: Slack names them by texts, Telegram by numbers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum User {
    /// `U012ABCDEF`.
    Text(String),
    /// `123456789`.
    Number(i64),
}

impl std::fmt::Display for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}

fn requests() -> Vec<HookEvent> {
    vec![HookEvent::ApprovalRequested, HookEvent::ApprovalEscalated]
}

fn default_burst_secs() -> u64 {
    10
}

/// Checks an entry and reads its secrets.
pub(crate) fn receiver(entry: &Notify, env: &[(OsString, OsString)]) -> Result<Receiver, String> {
    check(&entry.name, entry.timeout_secs)?;
    only_what_the_service_has(entry)?;
    if entry.burst_secs > MAX_BURST_SECS {
        return Err(format!("burst_secs is at most {MAX_BURST_SECS}"));
    }
    if entry.answers && entry.detail == Detail::None {
        return Err("answers = true needs detail = \"summary\" or \"full\": nobody should allow \
                    what they cannot see"
            .into());
    }
    let quiet = match (&entry.quiet, entry.quiet_except) {
        (Some(text), except) => Some(Quiet::new(text, except)?),
        (None, None) => None,
        (None, Some(_)) => return Err("quiet_except works only with quiet".into()),
    };
    Ok(Receiver {
        name: entry.name.clone(),
        to: to(entry, env)?,
        events: entry.events.clone(),
        answers: entry.answers,
        from_risk: entry.from_risk,
        quiet,
        burst: Duration::from_secs(entry.burst_secs),
        detail: entry.detail,
        timeout: Duration::from_secs(entry.timeout_secs),
        give_up_after: Duration::from_secs(entry.give_up_after_secs),
    })
}

fn to(entry: &Notify, env: &[(OsString, OsString)]) -> Result<To, String> {
    let at =
        |usual: &str| Address::new(entry.url.as_deref().unwrap_or(usual), entry.ca_file.as_deref());
    let token = || {
        secret::read("token", entry.token_file.as_deref(), entry.token_env.as_deref(), env)
            .and_then(as_header)
    };
    Ok(match entry.to {
        Service::Ntfy => {
            let token = secret::maybe(
                "token",
                entry.token_file.as_deref(),
                entry.token_env.as_deref(),
                env,
            )?;
            let token = token.map(as_header).transpose()?;
            let topic = word("topic", entry.topic.as_deref())?;
            let at = at("https://ntfy.sh")?;
            if at.url.path() != "/" || at.url.query().is_some() {
                return Err("its url has a path: name the server alone, and its topic with \
                            topic = \"…\""
                    .into());
            }
            To::Ntfy(ntfy::Ntfy { at, topic, token })
        }
        Service::Slack => {
            let channel = word("channel", entry.channel.as_deref())?;
            let app_token = secret::maybe(
                "app_token",
                entry.app_token_file.as_deref(),
                entry.app_token_env.as_deref(),
                env,
            )?;
            let app_token = app_token.map(as_header).transpose()?;
            let users: Vec<String> = entry.users.iter().map(User::to_string).collect();
            if entry.answers && (app_token.is_none() || users.is_empty()) {
                return Err("answers = true needs app_token_file or app_token_env, through which \
                            buttons come back, and users: who may decide"
                    .into());
            }
            let at = at("https://slack.com/api")?;
            To::Slack(slack::Slack { at, channel, token: token()?, app_token, users })
        }
        Service::Telegram => {
            let chat = entry.chat.ok_or("name the chat: its number")?;
            let mut users = Vec::new();
            for user in &entry.users {
                match user {
                    User::Number(number) => users.push(*number),
                    User::Text(text) => {
                        return Err(format!("users of Telegram are numbers, not {text:?}"));
                    }
                }
            }
            if entry.answers && users.is_empty() {
                // A private chat has the number of its person; a group's is negative.
                if chat < 0 {
                    return Err("answers = true in a group needs users: who may decide".into());
                }
                users.push(chat);
            }
            let token = token()?;
            let is_token = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '-' | '_');
            if !token.expose().chars().all(is_token) {
                return Err(
                    "its token is not one of Telegram, which look like 123456:ABC-def".into()
                );
            }
            To::Telegram(telegram::Telegram {
                at: at("https://api.telegram.org")?,
                chat,
                token,
                users,
            })
        }
        Service::Webpush => {
            let contact = entry.contact.clone();
            let is_known = |it: &String| it.starts_with("mailto:") || it.starts_with("https://");
            if contact.as_ref().is_some_and(|it| !is_known(it) || it.len() > MAX_WORD_BYTES) {
                return Err("its contact begins with mailto: or https://".into());
            }
            if entry.answers {
                return Err("webpush does not use answers: the page that it opens decides".into());
            }
            let services = entry.services.clone();
            To::Webpush(webpush::Webpush::new(contact, services, entry.ca_file.as_deref())?)
        }
        Service::Desktop => {
            if entry.answers {
                return Err("desktop does not use answers: its messages have no buttons".into());
            }
            To::Desktop
        }
        Service::Command => To::Command(command::Command::new(&entry.command)?),
    })
}

fn word(field: &str, text: Option<&str>) -> Result<String, String> {
    let text =
        text.filter(|text| !text.trim().is_empty()).ok_or_else(|| format!("name its {field}"))?;
    if text.len() > MAX_WORD_BYTES {
        return Err(format!("its {field} has more than {MAX_WORD_BYTES} bytes"));
    }
    Ok(text.to_owned())
}

/// A token that fits into a header.
fn as_header(token: SecretToken) -> Result<SecretToken, String> {
    if token.expose().bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(token);
    }
    Err("its token has characters that no token has: spaces, line breaks or letters beyond ASCII"
        .into())
}

/// Refuses settings that mean nothing for the service: they would be a mistake.
fn only_what_the_service_has(entry: &Notify) -> Result<(), String> {
    use Service::{Command, Desktop, Ntfy, Slack, Telegram, Webpush};
    let fields: [(&str, bool, &[Service]); 13] = [
        ("url", entry.url.is_some(), &[Ntfy, Slack, Telegram]),
        ("ca_file", entry.ca_file.is_some(), &[Ntfy, Slack, Telegram, Webpush]),
        ("token_file", entry.token_file.is_some(), &[Ntfy, Slack, Telegram]),
        ("token_env", entry.token_env.is_some(), &[Ntfy, Slack, Telegram]),
        ("topic", entry.topic.is_some(), &[Ntfy]),
        ("channel", entry.channel.is_some(), &[Slack]),
        ("app_token_file", entry.app_token_file.is_some(), &[Slack]),
        ("app_token_env", entry.app_token_env.is_some(), &[Slack]),
        ("chat", entry.chat.is_some(), &[Telegram]),
        ("users", !entry.users.is_empty(), &[Slack, Telegram]),
        ("command", !entry.command.is_empty(), &[Command]),
        ("contact", entry.contact.is_some(), &[Webpush]),
        ("services", !entry.services.is_empty(), &[Webpush]),
    ];
    let _every_service = [Ntfy, Slack, Telegram, Webpush, Desktop, Command];
    for (field, is_set, services) in fields {
        if is_set && !services.contains(&entry.to) {
            return Err(format!("this service does not use {field}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Receiver, String> {
        let entry: Notify =
            toml::from_str(&format!("name = \"me\"\n{text}")).map_err(|error| error.to_string())?;
        let env = [
            ("TOKEN".into(), "a-token:1".into()),
            ("TWO_LINES".into(), "a\nb".into()),
            ("EMPTY".into(), "".into()),
        ];
        receiver(&entry, &env)
    }

    #[test]
    fn good_entries_are_taken() {
        for text in [
            "to = \"ntfy\"\ntopic = \"t\"",
            "to = \"ntfy\"\ntopic = \"t\"\nurl = \"https://ntfy.example.org/\"",
            "to = \"ntfy\"\ntopic = \"t\"\ntoken_env = \"TOKEN\"\nanswers = true\ndetail = \"full\"",
            "to = \"slack\"\nchannel = \"C1\"\ntoken_env = \"TOKEN\"",
            "to = \"telegram\"\nchat = 5\ntoken_env = \"TOKEN\"\nanswers = true\ndetail = \"summary\"",
            "to = \"webpush\"\ncontact = \"mailto:me@example.org\"",
            "to = \"desktop\"\nquiet = \"22:00-07:00\"\nquiet_except = \"critical\"",
            "to = \"command\"\ncommand = [\"/bin/cat\", \"-\"]\nfrom_risk = \"high\"",
        ] {
            read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        let quiet_by_default = read("to = \"desktop\"").unwrap();
        assert_eq!((quiet_by_default.detail, quiet_by_default.answers), (Detail::None, false));
    }

    #[test]
    fn a_faulty_entry_is_explained() {
        for (text, expected) in [
            ("to = \"pigeon\"", "pigeon"),
            ("to = \"ntfy\"", "topic"),
            ("to = \"ntfy\"\ntopic = \"t\"\nchat = 5", "does not use chat"),
            ("to = \"ntfy\"\ntopic = \"t\"\nurl = \"ftp://x\"", "https://"),
            ("to = \"ntfy\"\ntopic = \"t\"\nurl = \"https://ntfy.sh/t\"", "topic = "),
            ("to = \"ntfy\"\ntopic = \"t\"\nurl = \"https://ntfy.sh/?t\"", "topic = "),
            ("to = \"ntfy\"\ntopic = \"t\"\nanswers = true", "detail"),
            ("to = \"ntfy\"\ntopic = \"t\"\ntoken_env = \"UNSET\"", "UNSET"),
            ("to = \"ntfy\"\ntopic = \"t\"\ntoken_env = \"TWO_LINES\"", "line breaks"),
            ("to = \"ntfy\"\ntopic = \"t\"\ntoken_env = \"EMPTY\"", "empty"),
            ("to = \"ntfy\"\ntopic = \"t\"\nfrom_risk = \"huge\"", "huge"),
            ("to = \"ntfy\"\ntopic = \"t\"\nevents = [\"approval.dreamt\"]", "approval.dreamt"),
            ("to = \"slack\"\nchannel = \"C\"", "token_file"),
            (
                "to = \"slack\"\nchannel = \"C\"\ntoken_env = \"TOKEN\"\nanswers = true\ndetail = \"full\"",
                "app_token",
            ),
            ("to = \"telegram\"\ntoken_env = \"TOKEN\"", "chat"),
            (
                "to = \"telegram\"\ntoken_env = \"TOKEN\"\nchat = -5\nanswers = true\ndetail = \"full\"",
                "users",
            ),
            ("to = \"telegram\"\ntoken_env = \"TOKEN\"\nchat = 5\nusers = [\"me\"]", "numbers"),
            ("to = \"webpush\"\ncontact = \"me\"", "mailto:"),
            ("to = \"webpush\"\nanswers = true\ndetail = \"full\"", "page"),
            ("to = \"desktop\"\nanswers = true\ndetail = \"full\"", "no buttons"),
            ("to = \"desktop\"\nquiet = \"always\"", "22:00-07:00"),
            ("to = \"desktop\"\nquiet_except = \"high\"", "only with quiet"),
            ("to = \"desktop\"\nburst_secs = 9999", "burst_secs"),
            ("to = \"desktop\"\ntimeout_secs = 0", "timeout_secs"),
            ("to = \"command\"", "command"),
            ("to = \"command\"\ncommand = [\"cat\"]", "absolute"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_token_is_in_no_text() {
        let receiver = read("to = \"ntfy\"\ntopic = \"t\"\ntoken_env = \"TOKEN\"").unwrap();
        assert!(!format!("{receiver:?}").contains("a-token"), "{receiver:?}");
    }
}
