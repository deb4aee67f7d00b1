//! Services that show messages to people, against stand-ins that are as strict as the real ones.

mod command;
mod minute;
mod ntfy;
mod slack;
mod telegram;
mod webpush;

use serde_json::{Value, json};
use testkit::wait::{PATIENCE, eventually_async};

use crate::server_with_receivers::ServerWithReceivers;

/// What the service of a test wants to see.
const TOKEN: &str = "123456:AA-token_of_these_tests";

/// What Slack's socket wants to see.
const APP_TOKEN: &str = "xapp-1-of-these-tests";

/// A `[[notify]]` entry that sends each message by itself.
fn entry(name: &str, to: &str, more: &str) -> String {
    format!("[[notify]]\nname = \"{name}\"\nto = \"{to}\"\nburst_secs = 0\n{more}\n")
}

/// A server with this configuration, and the tokens of the services in its environment.
async fn server_with_tokens(config: &str) -> ServerWithReceivers {
    ServerWithReceivers::with_env(
        config,
        &[("NOTIFY_TOKEN", TOKEN), ("NOTIFY_APP_TOKEN", APP_TOKEN), ("WRONG_TOKEN", "1:wrong")],
    )
    .await
}

/// Runs a command of `plexus` against the server.
async fn output(setup: &ServerWithReceivers, arguments: &[&str]) -> std::process::Output {
    tokio::process::Command::new(env!("CARGO_BIN_EXE_plexus"))
        .arg("--data-dir")
        .arg(setup.server.data_dir())
        .args(arguments)
        .output()
        .await
        .unwrap()
}

/// The same. Returns whether it went well, and its words.
async fn plexus(setup: &ServerWithReceivers, arguments: &[&str]) -> (bool, String) {
    let output = output(setup, arguments).await;
    let words = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(words).unwrap())
}

/// What `plexus doctor` finds about a receiver.
async fn doctor(setup: &ServerWithReceivers, receiver: &str) -> Value {
    let output = output(setup, &["doctor", "--json"]).await;
    let words = String::from_utf8(output.stdout).unwrap();
    let findings: Value = serde_json::from_str(&words).unwrap_or_else(|_| panic!("{words}"));
    let about =
        |it: &&Value| it["what"] == "notify" && it["words"].as_str().unwrap().starts_with(receiver);
    let found = findings.as_array().unwrap().iter().find(about);
    found.cloned().unwrap_or_else(|| panic!("nothing about {receiver} in {words}"))
}

/// Waits until the log says this.
async fn wait_for_log(setup: &ServerWithReceivers, wanted: &str) {
    eventually_async(&format!("a line of the log with {wanted:?}"), PATIENCE, || {
        std::future::ready(setup.server.log().contains(wanted).then_some(()))
    })
    .await;
}

/// The only decision of a session.
async fn decision(setup: &ServerWithReceivers, session: &str) -> Value {
    let history = setup.call("loopback.history", json!({"session_id": session})).await;
    assert_eq!(history["decisions"].as_array().unwrap().len(), 1, "{history:#}");
    history["decisions"][0].clone()
}

/// Says that exactly these approvals wait.
async fn assert_waiting(setup: &ServerWithReceivers, expected: &[&Value]) {
    let pending = setup.call("loopback.pending", json!({})).await["approvals"].clone();
    let ids: Vec<&Value> = pending.as_array().unwrap().iter().map(|it| &it["id"]).collect();
    let expected: Vec<&Value> = expected.iter().map(|it| &it["id"]).collect();
    assert_eq!(ids, expected);
}
