//! An approval on one server, its answer on another, readers on all; and calls that only the server
//! with the child can serve.

use serde_json::{Value, json};
use testkit::postgres;

use crate::cluster::{Cluster, DEADLINE, LONG_LEASE, texts, writes};
use crate::history::{self, Told};

pub(crate) async fn a_question_on_one_server_is_answered_on_another_and_read_on_all_three() {
    let postgres = postgres::shared();
    let url = postgres.fresh_database().unwrap();
    let cluster = Cluster::start(&[&url, &url, &url], LONG_LEASE).await;
    let mut sessions = Vec::new();
    let mut told = Vec::new();
    for (n, channel) in ["control", "mcp"].into_iter().enumerate() {
        let params = json!({"name": channel, "working_dir": cluster.work(), "channel": channel});
        let session =
            cluster.call(n, "claudecode.create", params).await["id"].as_str().unwrap().to_owned();
        cluster.chat(0, &session, &writes(&format!("{channel}.txt"))).await;
        let approval = cluster.approval(1, &session).await;
        let seen = cluster.call(2, "loopback.pending", json!({"session_id": session})).await;
        assert_eq!(seen["approvals"][0]["id"], approval["id"]);
        cluster.allow(2, &approval).await;
        // The same answer again is fine, anywhere; another one is a conflict that names what
        // stands.
        cluster.allow(1, &approval).await;
        let other = json!({"approval_id": approval["id"], "approve": false});
        let error = cluster.nodes[0].call("loopback.respond", other).await.unwrap_err();
        assert!(format!("{error:#}").contains("allowed"), "{error:#}");
        for reader in 0..3 {
            let (status, events) = cluster.end(reader, &session).await;
            assert_eq!(
                (status.as_str(), texts(&events)),
                ("complete", vec!["before", "after"]),
                "{channel} at {reader}"
            );
        }
        assert_eq!(
            std::fs::read_to_string(cluster.work().join(format!("{channel}.txt"))).unwrap(),
            "hello"
        );
        told.push(Told {
            approval: approval["id"].as_str().unwrap().to_owned(),
            approve: true,
            ok: true,
        });
        sessions.push(session);
    }
    history::check(&cluster, 1, &sessions, &told).await;
}

pub(crate) async fn prompts_messages_and_ends_reach_the_child_through_any_server() {
    let postgres = postgres::shared();
    let url = postgres.fresh_database().unwrap();
    let cluster = Cluster::start(&[&url, &url], LONG_LEASE).await;
    let session = cluster.create(0, "steered").await;
    cluster.chat(0, &session, "sim:\nsay one").await;
    cluster.end(1, &session).await;

    // The child is warm on the first server, and gets the next prompt of the second.
    cluster.chat(1, &session, "sim:\nrecall\nsay two\nhang").await;
    let begun = |page: &Value| page.to_string().contains("two");
    cluster.wait_for(1, &session, "the second chat", begun).await;
    let busy = cluster.nodes[1]
        .call("claudecode.chat_async", json!({"session_id": session, "prompt": "no"}))
        .await;
    assert!(format!("{:#}", busy.unwrap_err()).contains("busy"));
    assert_eq!(
        cluster.call(1, "claudecode.send", json!({"session_id": session, "text": "go on"})).await["type"],
        "sent"
    );
    cluster.call(1, "claudecode.cancel", json!({"session_id": session, "reason": "enough"})).await;
    let (status, _) = cluster.end(0, &session).await;
    assert_eq!(status, "cancelled");
    let runs = cluster.call(0, "health.state", json!({})).await;
    assert_eq!(runs["nodes"].as_array().unwrap().len(), 2, "{runs}");

    // Deleting it through the second ends the child of the first.
    let doomed = cluster.create(0, "doomed").await;
    cluster.chat(0, &doomed, "sim:\nsay three\nhang").await;
    cluster.wait_for(1, &doomed, "its only words", |page| page.to_string().contains("three")).await;
    let pids = cluster.pids(0, &doomed, 0);
    cluster.call(1, "claudecode.delete", json!({"session_id": doomed})).await;
    assert!(!pids.iter().any(|pid| testkit::process::is_alive(*pid)), "deleted with its child");
}

pub(crate) async fn a_rule_that_comes_through_another_server_holds_at_once_and_answers_what_waits()
{
    let postgres = postgres::shared();
    let url = postgres.fresh_database().unwrap();
    let cluster = Cluster::start(&[&url, &url], LONG_LEASE).await;
    let session = cluster.create(0, "ruled").await;
    cluster.chat(0, &session, &writes("waits.txt")).await;
    let approval = cluster.approval(1, &session).await;
    cluster.call(1, "loopback.rule_add", json!({"decision": "allow", "pattern": "Write"})).await;
    let (status, events) = cluster.end(0, &session).await;
    assert_eq!(status, "complete");
    let resolved = events.iter().find(|event| event["type"] == "approval_resolved").unwrap();
    assert_eq!((&resolved["approval_id"], &resolved["approved"]), (&approval["id"], &json!(true)));

    cluster
        .call(
            1,
            "loopback.rule_add",
            json!({"decision": "deny", "pattern": "Write(forbidden.txt)"}),
        )
        .await;
    cluster.chat(0, &session, &writes("forbidden.txt")).await;
    let (_, events) = cluster.end(1, &session).await;
    let resolved = events.iter().find(|event| event["type"] == "approval_resolved").unwrap();
    assert_eq!(resolved["approved"], json!(false), "{resolved}");
    assert!(!cluster.work().join("forbidden.txt").exists());
}

pub(crate) async fn a_conversation_is_not_begun_anew_where_its_transcript_is_not() {
    let postgres = postgres::shared();
    let url = postgres.fresh_database().unwrap();
    let mut cluster = Cluster::start(&[&url], LONG_LEASE).await;
    // The second server has another home, as on another machine.
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::create_dir(elsewhere.path().join("home")).unwrap();
    let options = crate::cluster::options(1, &url, LONG_LEASE, elsewhere.path());
    cluster.nodes.push(testkit::server::TestServer::with(options).await.unwrap());
    let session = cluster.create(0, "moves").await;
    cluster.chat(0, &session, "sim:\nsay here").await;
    cluster.end(0, &session).await;
    cluster.nodes[0].call("server.stop", json!({"children": true})).await.unwrap();
    testkit::eventually_async("the end of the first server", DEADLINE, || {
        let state = cluster.nodes[1].call("health.state", json!({}));
        async { state.await.ok().filter(|state| state["nodes"][0]["state"] == "retired") }
    })
    .await;
    let refused = cluster.nodes[1]
        .call("claudecode.chat_async", json!({"session_id": session, "prompt": "sim:\nrecall"}));
    let error = format!("{:#}", refused.await.unwrap_err());
    assert!(error.contains("is not on this server") && error.contains("transcript"), "{error}");
    cluster.nodes[0].kill_9().unwrap();
    cluster.nodes[0].start_again().await.unwrap();
    cluster.chat(1, &session, "sim:\nrecall").await;
    let (status, events) = cluster.end(1, &session).await;
    assert_eq!(status, "complete");
    assert!(texts(&events).concat().contains("say here"), "{events:#?}");
}

/// Codex and agents of the Agent Client Protocol keep their conversations where only they know; an
/// agent within a wall keeps them in a directory of its session.
pub(crate) async fn every_agent_goes_on_with_its_conversation_where_it_was() {
    let url = postgres::shared().fresh_database().unwrap();
    let mut cluster = Cluster::start(&[], LONG_LEASE).await;
    let config = cluster.folder().join("plexus.toml");
    let acp = format!(
        "[agents.sim_acp]\nlabel = \"ACP\"\nprogram = {:?}\nargs = [\"sim\", \"--as\", \"acp\"]\n\
         modes = [\"ask\"]\nresume = \"resume\"\n",
        env!("CARGO_BIN_EXE_plexus")
    );
    std::fs::write(&config, acp).unwrap();
    let mut options = crate::cluster::options(0, &url, LONG_LEASE, cluster.folder());
    options.arguments.extend(["--codex-bin".into(), "sim".into()]);
    options.arguments.extend(["--config".into(), config.into()]);
    cluster.nodes.push(testkit::server::TestServer::with(options).await.unwrap());
    let mut sessions = Vec::new();
    for (name, more) in [
        ("plain", json!({})),
        ("codex", json!({"agent": "codex", "supervise": "all"})),
        ("acp", json!({"agent": "sim_acp"})),
    ] {
        let mut params = json!({"name": name, "working_dir": cluster.work()});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let created = cluster.call(0, "agents.create", params).await;
        sessions.push(created["id"].as_str().unwrap().to_owned());
    }
    for session in &sessions {
        cluster.chat(0, session, "sim:\nsay here").await;
        assert_eq!(cluster.end(0, session).await.0, "complete");
    }
    // Without warm children, each goes on from what it keeps.
    cluster.nodes[0].call("server.stop", json!({"children": true})).await.unwrap();
    cluster.nodes[0].kill_9().unwrap();
    cluster.nodes[0].start_again().await.unwrap();
    for session in &sessions {
        cluster.chat(0, session, "sim:\nrecall").await;
        let (status, events) = cluster.end(0, session).await;
        assert_eq!(status, "complete", "{events:#?}");
        assert!(texts(&events).concat().contains("say here"), "{events:#?}");
    }
}

pub(crate) async fn nobody_reads_the_password_in_a_log_a_page_or_an_argument() {
    let postgres = postgres::shared();
    let url = postgres.fresh_database().unwrap();
    let cluster = Cluster::start(&[&url], LONG_LEASE).await;
    let session = cluster.create(0, "curious").await;
    cluster.chat(0, &session, "sim:\ntool Bash {\"command\":\"env\"}").await;
    let approval = cluster.approval(0, &session).await;
    cluster.allow(0, &approval).await;
    let (_, events) = cluster.end(0, &session).await;
    let doctor = std::process::Command::new(env!("CARGO_BIN_EXE_plexus"))
        .args(["doctor", "--json", "--data-dir"])
        .arg(cluster.nodes[0].data_dir())
        .env("DATABASE_URL", &url)
        .output()
        .unwrap();
    let doctor = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(doctor.contains("n0 (this one)"), "{doctor}");
    let client = reqwest::Client::new();
    let metrics = client
        .get(format!("{}/metrics", cluster.nodes[0].url().unwrap()))
        .bearer_auth(cluster.nodes[0].token().unwrap());
    let metrics = metrics.send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("plexus_node_alive{node=\"n0\""), "{metrics}");
    let commits =
        metrics.lines().find_map(|line| line.strip_prefix("plexus_store_commit_seconds_count "));
    assert!(
        commits.is_some_and(|count| count != "0"),
        "how long commits take is told here too: {metrics}"
    );
    let pid = cluster.nodes[0].pid().unwrap();
    let arguments =
        String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/cmdline")).unwrap())
            .into_owned();
    for text in [cluster.nodes[0].log(), format!("{events:?}"), doctor, metrics, arguments] {
        assert!(!text.contains(postgres.password()), "{text}");
    }
}
