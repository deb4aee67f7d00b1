//! Receivers outside: whether their entries can be read, which failed last, and why.

use std::path::Path;

use plexus_client::Client;
use plexus_wire::NotifyReceiver;

use super::Finding;
use crate::config::Config;

const WHAT: &str = "notify";

/// Looks at every receiver: as the server sees it, or at its entry where none runs.
pub(super) async fn look(dir: &Path, config: &Config, server_runs: bool) -> Vec<Finding> {
    let count = config.webhooks.len() + config.notify.len();
    if server_runs {
        let asked = Client::from_data_dir(dir).notify().receivers().await;
        return match asked {
            Ok(listed) => listed.receivers.iter().map(finding).collect(),
            Err(error) => vec![Finding::odd(WHAT, error.to_string(), error.hint())],
        };
    }
    if count == 0 {
        return Vec::new();
    }
    let env: Vec<_> = std::env::vars_os().collect();
    vec![match plexus_notify::receiver::receivers(&config.webhooks, &config.notify, &env) {
        Ok(read) => Finding::good(WHAT, format!("{} receivers are configured", read.len())),
        Err(error) => Finding::bad(
            WHAT,
            format!("could not {error}"),
            "repair its entry in plexus.toml, or set its variable where the server starts",
        ),
    }]
}

/// A failure counts until a later message arrives.
fn finding(receiver: &NotifyReceiver) -> Finding {
    let words = format!("{} ({})", receiver.name, plexus_render::receiver::state(receiver));
    let fails = receiver
        .last_failure
        .as_ref()
        .is_some_and(|failure| receiver.delivered_at.is_none_or(|at| at <= failure.at));
    if fails || receiver.deaf.is_some() {
        let next = format!("repair it, then: plexus notify test {}", receiver.name);
        return Finding::odd(WHAT, words, next);
    }
    match (&receiver.hint, receiver.subscriptions) {
        (Some(hint), _) => Finding::odd(WHAT, words, hint.as_str()),
        (None, Some(0)) => {
            Finding::odd(WHAT, words, "open the dashboard in a browser and allow notifications")
        }
        (None, _) => Finding::good(WHAT, words),
    }
}
