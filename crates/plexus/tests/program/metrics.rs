//! `/metrics`: what an operator watches, after something has happened.

use std::collections::BTreeMap;

use serde_json::json;

use crate::installation::{Installation, eventually};
use crate::serve::{Server, token};

/// Every sample of the page, by its name with labels.
fn samples(installation: &Installation, server: &Server) -> BTreeMap<String, f64> {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let page = runtime.block_on(async {
        let response = http
            .get(format!("{}/metrics", server.url))
            .bearer_auth(token(installation))
            .send()
            .await
            .unwrap();
        assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
        response.text().await.unwrap()
    });
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) =
                line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
            (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("no number: {line}")))
        })
        .collect()
}

#[test]
fn they_tell_of_a_decision_of_commits_of_what_waits_and_of_connections() {
    let installation = Installation::new();
    let server = Server::start(&installation, &[]);
    for name in ["decided", "waiting"] {
        installation
            .call("claudecode.create", &json!({"name": name, "working_dir": installation.work()}));
    }
    installation.call("claudecode.chat_async", &json!({"name": "decided", "prompt": "hello"}));
    let asked = installation.pending();
    installation.works(&["approve", asked["id"].as_str().unwrap()]);
    eventually("the end of the chat", || {
        (installation.call("claudecode.get", &json!({"name": "decided"}))["session"]["status"]
            == "complete")
            .then_some(())
    });
    installation.call("claudecode.chat_async", &json!({"name": "waiting", "prompt": "hello"}));
    installation.pending();

    let samples = samples(&installation, &server);
    let value =
        |name: &str| *samples.get(name).unwrap_or_else(|| panic!("{name} is not in {samples:?}"));
    assert_eq!(value("plexus_decision_seconds_count{by=\"operator\"}"), 1.0);
    assert_eq!(value("plexus_decision_seconds_bucket{by=\"operator\",le=\"+Inf\"}"), 1.0);
    assert_eq!(value("plexus_decision_seconds_bucket{by=\"operator\",le=\"86400\"}"), 1.0);
    assert_eq!(value("plexus_decision_seconds_count{by=\"deadline\"}"), 0.0);
    assert!(value("plexus_store_commit_seconds_count") >= 10.0);
    assert!(value("plexus_store_commit_seconds_sum") > 0.0);
    assert_eq!(
        value("plexus_store_commit_seconds_count"),
        value("plexus_store_commit_seconds_bucket{le=\"+Inf\"}"),
    );
    assert_eq!(value("plexus_approvals{state=\"pending\"}"), 1.0);
    assert_eq!(value("plexus_approvals{state=\"allowed\"}"), 1.0);
    assert_eq!(value("plexus_approvals_pending_older{age_seconds=\"3600\"}"), 0.0);
    assert_eq!(value("plexus_chats{status=\"running\"}"), 1.0);
    assert_eq!(value("plexus_chats{status=\"complete\"}"), 1.0);
    assert!(value("plexus_connections") >= 1.0, "the one that asks is open");
    assert!(value("plexus_events_total") > 5.0);
    assert!(value("plexus_children") >= 1.0);
    server.kill_9();
}
