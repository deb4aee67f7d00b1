//! Agents that were parked by a server that went away: one of the others wakes each of them, where
//! its directory is the same.

use serde_json::{Value, json};
use testkit::postgres;
use testkit::server::TestServer;

use crate::cluster::{Cluster, DEADLINE, LONG_LEASE, SHORT_LEASE, options, texts};

/// A command whose runs can be counted.
fn runs_once(name: &str) -> String {
    let run = json!({"command": format!("echo ran >> {name}")});
    format!("sim:\nsay before\ntool Bash {run}\nsay after")
}

/// Servers that park soon, each with a home of its own: a transcript reaches another one through
/// the store alone.
async fn start(url: &str, count: usize) -> Cluster {
    start_with(url, count, &[]).await
}

/// The same with more variables of the first server, the only one that loses its lease.
async fn start_with(url: &str, count: usize, first: &[(&str, &str)]) -> Cluster {
    let mut cluster = Cluster::with_leases(&[]).await;
    for n in 0..count {
        let lease_secs = if n == 0 && count > 1 { SHORT_LEASE } else { LONG_LEASE };
        let mut options = options(n, url, lease_secs, cluster.folder());
        let home = cluster.folder().join(format!("home-{n}"));
        options.env.push(("CLAUDE_CONFIG_DIR".to_owned(), home.display().to_string()));
        options.arguments.extend(["--set".into(), "park_after_secs=1".into()]);
        let more = first.iter().filter(|_| n == 0);
        options.env.extend(more.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        cluster.nodes.push(TestServer::with(options).await.unwrap());
    }
    cluster
}

impl Cluster {
    /// Starts a session in a directory of its own, and waits until its agent is parked there.
    async fn parks(&self, name: &str) -> (String, Value) {
        let work = self.work().join(name);
        std::fs::create_dir(&work).unwrap();
        std::fs::write(work.join("file"), "as it was").unwrap();
        let create = json!({"name": name, "working_dir": work, "loopback_timeout_secs": 0});
        let created = self.call(0, "claudecode.create", create).await;
        let session = created["id"].as_str().unwrap().to_owned();
        self.chat(0, &session, &runs_once("ran")).await;
        let is_parked = |page: &Value| page["pending_approvals"][0]["parked"] == json!(true);
        let page = self.wait_for(1, &session, "its agent is parked", is_parked).await;
        (session, page["pending_approvals"][0].clone())
    }

    /// How often the command of a session ran.
    fn ran(&self, name: &str) -> usize {
        let text = std::fs::read_to_string(self.work().join(name).join("ran")).unwrap_or_default();
        text.lines().count()
    }

    /// Waits for a notice in the newest chat of a session.
    async fn notice(&self, node: usize, session: &str, words: &str) {
        let has = |page: &Value| {
            let mut events = page["events"].as_array().unwrap().iter();
            events.any(|it| it["event"]["type"] == "notice" && it.to_string().contains(words))
        };
        self.wait_for(node, session, words, has).await;
    }
}

pub(crate) async fn an_agent_that_a_dead_server_parked_is_woken_once_by_one_of_the_others() {
    let postgres = postgres::shared();
    let url = postgres.fresh_database().unwrap();
    let mut cluster = start(&url, 3).await;
    let names = ["one", "two", "three", "four", "denied"];
    let mut parked = Vec::new();
    for name in names {
        parked.push((name, cluster.parks(name).await));
    }
    cluster.nodes[0].kill_9().unwrap();
    for (_, (session, _)) in &parked {
        cluster.notice(1, session, "the agent stays parked").await;
    }
    assert!(names.iter().all(|name| cluster.ran(name) == 0), "something ran unasked");
    // Both servers hear of each decision in the same moment.
    for (name, (_, approval)) in &parked {
        let answer = json!({"approval_id": approval["id"], "approve": *name != "denied"});
        cluster.call(1, "loopback.respond", answer).await;
    }
    for (name, (session, _)) in &parked {
        let (status, events) = cluster.end(2, session).await;
        assert_eq!((status.as_str(), texts(&events)), ("complete", vec!["before", "after"]));
        assert_eq!(cluster.ran(name), usize::from(*name != "denied"), "{name}: {events:#?}");
        let runs = events.iter().filter(|it| it.to_string().contains("asking over the")).count();
        assert_eq!(runs, 2, "one process asked, and one was woken: {events:#?}");
    }
    // Later chats run on the server that woke the agent, whichever server is asked. That holds also
    // when the first server is back, which has an older transcript.
    cluster.nodes[0].start_again().await.unwrap();
    let (_, (session, _)) = &parked[0];
    cluster.chat(0, session, "sim:\nrecall").await;
    let (status, events) = cluster.end(0, session).await;
    assert_eq!(status, "complete");
    assert!(texts(&events).concat().contains("say after"), "{events:#?}");
    assert_eq!(cluster.ran("one"), 1);
}

pub(crate) async fn another_server_wakes_no_agent_whose_directory_is_not_the_same() {
    let postgres = postgres::shared();
    let url = postgres.fresh_database().unwrap();
    let mut cluster = start(&url, 2).await;
    let (changed, approval) = cluster.parks("changed").await;
    let (cancelled, _) = cluster.parks("cancelled").await;
    cluster.nodes[0].kill_9().unwrap();
    cluster.notice(1, &changed, "the agent stays parked").await;
    std::fs::write(cluster.work().join("changed/file"), "something else").unwrap();
    cluster.allow(1, &approval).await;
    cluster.notice(1, &changed, "the server n1 does not wake it").await;
    cluster.notice(1, &changed, "does not hold the same files here").await;
    assert_eq!(cluster.ran("changed"), 0);
    // Any server ends the chat of an agent that belongs to nobody.
    cluster.call(1, "claudecode.cancel", json!({"session_id": cancelled})).await;
    assert_eq!(cluster.end(1, &cancelled).await.0, "cancelled");
    // The server that parked it has the very directory.
    cluster.nodes[0].start_again().await.unwrap();
    let (status, events) = cluster.end(1, &changed).await;
    assert_eq!((status.as_str(), texts(&events)), ("complete", vec!["before", "after"]));
    assert_eq!((cluster.ran("changed"), cluster.ran("cancelled")), (1, 0));
}

pub(crate) async fn an_agent_that_a_server_was_waking_when_it_died_is_woken_by_another() {
    let postgres = postgres::shared();
    let url = postgres.fresh_database().unwrap();
    let faults = tempfile::tempdir().unwrap();
    let dir = faults.path().display().to_string();
    let env = [("PLEXUS_FAULT", "wake.marked:kill@1"), ("PLEXUS_FAULT_DIR", dir.as_str())];
    let mut cluster = start_with(&url, 2, &env).await;
    let (session, approval) = cluster.parks("waking").await;
    // The first server wakes it, marks its own transcript, and dies.
    cluster.allow(1, &approval).await;
    let (status, events) = cluster.end(1, &session).await;
    assert_eq!((status.as_str(), texts(&events)), ("complete", vec!["before", "after"]));
    assert_eq!(cluster.ran("waking"), 1, "{events:#?}");
    assert!(cluster.nodes[0].has_ended().unwrap(), "the first server was not struck");
    // Its transcript is still marked. It runs nothing of it when it is back.
    cluster.nodes[0].kill_9().unwrap();
    cluster.nodes[0].start_again().await.unwrap();
    cluster.chat(0, &session, "sim:\nsay again").await;
    let (status, events) = cluster.end(0, &session).await;
    assert_eq!((status.as_str(), texts(&events)), ("complete", vec!["again"]));
    assert_eq!(cluster.ran("waking"), 1);
}

pub(crate) async fn the_copy_of_a_transcript_goes_when_its_call_is_over() {
    let url = postgres::shared().fresh_database().unwrap();
    let cluster = start(&url, 1).await;
    let copies = || {
        let folder = std::fs::read_dir(cluster.nodes[0].data_dir().join("parked"));
        let names = folder.into_iter().flatten().map(|copy| copy.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect::<Vec<_>>()
    };
    let only = async |wanted: &[&Value]| {
        let name = |call: &&Value| format!("{}.jsonl", call.as_str().unwrap());
        let wanted: Vec<String> = wanted.iter().map(name).collect();
        let what = format!("nothing but the copies {wanted:?}");
        let look = || std::future::ready((copies() == wanted).then_some(()));
        testkit::eventually_async(&what, DEADLINE, look).await;
    };
    let parked = async |session: &str, but: &Value| {
        let is_parked = |page: &Value| {
            let waits = &page["pending_approvals"][0];
            waits["parked"] == true && waits["id"] != *but
        };
        let page = cluster.wait_for(0, session, "a parked question", is_parked).await;
        page["pending_approvals"][0]["id"].clone()
    };
    let session = cluster.create(0, "parks").await;
    // Without the redirection it would run unasked.
    let bash = |word: &str| {
        let run = json!({"command": format!("echo {word} >> ran")});
        format!("tool Bash {run}")
    };
    cluster.chat(0, &session, &format!("sim:\n{}\n{}\nsay done", bash("a"), bash("b"))).await;
    // The process that was woken for the first call is parked with the second.
    let first = parked(&session, &Value::Null).await;
    only(&[&first]).await;
    cluster.call(0, "loopback.respond", json!({"approval_id": first, "approve": true})).await;
    let second = parked(&session, &first).await;
    only(&[&second]).await;
    cluster.call(0, "loopback.respond", json!({"approval_id": second, "approve": true})).await;
    assert_eq!(cluster.end(0, &session).await.0, "complete");
    only(&[]).await;
    // A chat that is cancelled while it is parked, and a session that is deleted so, leave none.
    for end in ["claudecode.cancel", "claudecode.delete"] {
        cluster.chat(0, &session, &format!("sim:\n{}", bash("c"))).await;
        let call = parked(&session, &Value::Null).await;
        only(&[&call]).await;
        cluster.call(0, end, json!({"session_id": session})).await;
        only(&[]).await;
    }
}
