//! `plexus migrate`: everything that can be read from the SQLite store reads the same from the
//! database.

use std::path::Path;
use std::process::Output;

use plexus_store::{
    ApprovalFilter, Counts, PageRequest, PostgresOptions, PostgresStore, ReadLimit, SessionFilter,
    SqliteOptions, SqliteStore, Store,
};
use serde_json::json;
use testkit::postgres;

use crate::cluster::{Cluster, LONG_LEASE, options, texts, writes};

fn migrate(data_dir: &Path, url: &str) -> Output {
    std::process::Command::new(env!("CARGO_BIN_EXE_plexus"))
        .args(["migrate", "--from", "sqlite", "--to", "postgres", "--data-dir"])
        .arg(data_dir)
        .env("DATABASE_URL", url)
        .output()
        .unwrap()
}

/// Everything that can be read, a line each.
async fn everything(store: &dyn Store) -> Vec<String> {
    let all = PageRequest::first(1_000);
    let mut lines = Vec::new();
    for session in store.sessions(SessionFilter::default(), all).await.unwrap().items {
        lines.push(format!("{session:?}"));
        lines.push(format!("{:?}", store.ancestors(session.id).await.unwrap()));
        lines.push(format!("{:?}", store.spend(session.id).await.unwrap()));
        lines.push(format!("{:?}", store.runs(session.id).await.unwrap()));
        lines.push(format!("{:?}", store.consumers(session.id).await.unwrap()));
        lines.push(format!("{:?}", store.path(session.head, 1_000).await.unwrap()));
        for chat in store.chats(Some(session.id), None, all).await.unwrap().items {
            lines.push(format!(
                "{:?}",
                store
                    .read_events(session.id, chat.number, 0, ReadLimit::events(1_000))
                    .await
                    .unwrap()
            ));
            lines.push(format!("{chat:?}"));
        }
    }
    for tree in store.trees(all).await.unwrap().items {
        lines.push(format!("{:?}", store.tree_outline(tree.id, 1_000).await.unwrap()));
        lines.push(format!("{:?}", store.leaves(tree.id, all).await.unwrap().items));
        lines.push(format!("{tree:?}"));
    }
    lines.push(format!(
        "{:?}",
        store.approvals(ApprovalFilter::default(), all).await.unwrap().items
    ));
    lines.push(format!("{:?}", store.rules(all).await.unwrap().items));
    lines.push(format!("{:?}", store.audit(None, all).await.unwrap().items));
    lines.push(format!("{:?}", store.read_commits(0, ReadLimit::events(1_000)).await.unwrap()));
    lines.push(format!("{:?}", store.newest_commit().await.unwrap()));
    let counts = Counts { bytes_on_disk: 0, queue_entries: 0, ..store.counts().await.unwrap() };
    lines.push(format!("{counts:?}"));
    lines
}

pub(crate) async fn a_store_that_moved_holds_everything_and_goes_on() {
    let postgres = postgres::shared();
    let url = postgres.fresh_database().unwrap();
    // The variable is empty: a server with a file of its own.
    let mut cluster = Cluster::start(&[""], LONG_LEASE).await;
    let parent = cluster.create(0, "it's the parent").await;
    let params = json!({"name": "child", "working_dir": cluster.work(), "parent": parent});
    let child =
        cluster.call(0, "claudecode.create", params).await["id"].as_str().unwrap().to_owned();
    for (session, approve) in [(&parent, true), (&child, false)] {
        cluster.chat(0, session, &writes("moves.txt")).await;
        let approval = cluster.approval(0, session).await;
        cluster
            .call(0, "loopback.respond", json!({"approval_id": approval["id"], "approve": approve}))
            .await;
        cluster.end(0, session).await;
        cluster
            .call(0, "claudecode.poll", json!({"session_id": session, "consumer": "reader"}))
            .await;
    }
    cluster
        .call(
            0,
            "loopback.rule_add",
            json!({"decision": "deny", "pattern": "Bash(rm:*)", "reason": "no \\ '"}),
        )
        .await;
    cluster.call(0, "claudecode.fork", json!({"session_id": parent, "new_name": "fork"})).await;

    let refused = migrate(&cluster.nodes[0].data_dir(), &url);
    assert!(!refused.status.success(), "a store that a server has open is not moved");
    cluster.call(0, "server.stop", json!({"children": true})).await;
    let data_dir = cluster.nodes[0].data_dir();
    let moved = testkit::eventually_async("the move", crate::cluster::DEADLINE, || {
        let output = migrate(&data_dir, &url);
        // The server may still be on its way out.
        let busy = String::from_utf8_lossy(&output.stderr).contains("has it open");
        std::future::ready((!busy).then_some(output))
    })
    .await;
    let said = String::from_utf8_lossy(&moved.stderr).into_owned();
    assert!(moved.status.success() && !said.contains(postgres.password()), "{said}");
    let again = migrate(&data_dir, &url);
    assert!(
        String::from_utf8_lossy(&again.stderr).contains("in use"),
        "a database that holds something is left alone"
    );

    let file = SqliteStore::open(&SqliteOptions::new(&data_dir)).unwrap();
    let database = PostgresStore::open(&PostgresOptions::new(&url)).await.unwrap();
    let (before, after) = (everything(&file).await, everything(&database).await);
    assert_eq!(before.len(), after.len());
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before, after);
    }
    assert_eq!(database.integrity().await.unwrap(), Vec::<String>::new());
    file.close().await.unwrap();
    database.close().await.unwrap();

    // The same server goes on with the database: new rows come after the migrated ones.
    cluster.nodes[0].kill_9().unwrap();
    let env = options(0, &url, LONG_LEASE, cluster.folder()).env;
    cluster.nodes[0].set_env(env);
    cluster.nodes[0].start_again().await.unwrap();
    cluster.chat(0, &parent, "sim:\nrecall\nsay moved").await;
    let (status, events) = cluster.end(0, &parent).await;
    assert_eq!(status, "complete");
    assert!(texts(&events).concat().contains("moves.txt"), "the conversation goes on: {events:#?}");
}
