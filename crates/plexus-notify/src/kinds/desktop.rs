//! The notification service of this desktop, through `notify-send`, which every desktop of
//! freedesktop.org has. A client of the session bus in the program would be forty more crates.

use std::time::Duration;

use plexus_wire::RiskLevel;
use tokio::process::Command as Program;

use super::{Attempt, command};
use crate::message::Message;

/// The longest text for a desktop, in bytes: the names of a whole burst fit, and few details.
pub(super) const MAX_TEXT_BYTES: usize = 2_000;

/// Shows a message.
pub(super) async fn send(message: &Message, within: Duration) -> Attempt {
    let mut program = Program::new("notify-send");
    let urgency = match message.level {
        Some(RiskLevel::Critical | RiskLevel::High) => "critical",
        Some(RiskLevel::Medium | RiskLevel::Low) | None => "normal",
    };
    let mut body = escaped(&message.body);
    if let Some(url) = &message.url {
        body = format!("{body}\n{}", escaped(url));
    }
    program
        .args(["--app-name=Plexus", &format!("--urgency={urgency}"), "--"])
        .arg(&message.title)
        .arg(body);
    match command::run(program, &[], within).await {
        Attempt::Refused(why) if why.contains("cannot be started") => {
            Attempt::Refused(format!("{why}; install notify-send (libnotify)"))
        }
        other => other,
    }
}

/// The service reads a body as markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
