//! Data of earlier releases, opened by this one: readers are told what they were told then, and the
//! rest of each journal is read.
//!
//! Each folder of `fixtures/golden` is the data directory that a release left behind when it was
//! killed, with `expected.json`: what its own next start said of it. A release adds a folder with
//! `UPDATE_GOLDEN=1 cargo test -p plexus --test golden` and changes none of the old ones.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "support/handles.rs"]
mod handles;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::fixtures::workspace_root;
use testkit::server::{ServerOptions, TestServer};
use testkit::wait::{PATIENCE, eventually_async};

/// What a data directory is made of; the rest (token, lock, announcement) belongs to one machine.
const KEPT: [&str; 3] = ["plexus.db", "plexus.db-wal", "runs"];

fn golden() -> PathBuf {
    workspace_root().join("fixtures").join("golden")
}

async fn server() -> TestServer {
    let options = ServerOptions {
        plexus_bin: Some(env!("CARGO_BIN_EXE_plexus").into()),
        ..ServerOptions::default()
    };
    TestServer::with(options).await.unwrap()
}

/// Replaces the data of a server that does not run.
fn put_data(from: &Path, to: &Path) {
    for name in KEPT {
        let (from, to) = (from.join(name), to.join(name));
        if to.is_dir() {
            std::fs::remove_dir_all(&to).unwrap();
        } else if to.exists() {
            std::fs::remove_file(&to).unwrap();
        }
        if from.exists() {
            copy(&from, &to);
        }
    }
    // The index of the log that is gone.
    drop(std::fs::remove_file(to.join("plexus.db-shm")));
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else if from.is_file() {
        std::fs::copy(from, to).unwrap();
    }
}

/// Everything that readers are told of the data: sessions, every event of every chat, trees,
/// decisions, rules, readers.
async fn told(server: &TestServer) -> Value {
    let call = async |method: &str, params: Value| server.call(method, params).await.unwrap();
    let listed = call("claudecode.list", json!({"limit": 100})).await;
    let mut sessions = serde_json::Map::new();
    for session in listed["sessions"].as_array().expect("a list of sessions") {
        let id = &session["id"];
        let mut chats = Vec::new();
        for chat in 0..=session["chat"].as_u64().unwrap_or(0) {
            let page = json!({"session_id": id, "chat": chat, "from_seq": 0, "limit": 1000});
            let polled = call("claudecode.poll", page).await;
            chats.push(json!({"status": polled["status"], "events": polled["events"]}));
        }
        let tree = call("claudecode.get_tree", json!({"session_id": id})).await;
        let readers = call("claudecode.cursors", json!({"session_id": id})).await;
        let name = session["name"].as_str().unwrap().to_owned();
        sessions.insert(
            name,
            json!({"session": session, "chats": chats, "tree": tree, "readers": readers}),
        );
    }
    let history = call("loopback.history", json!({"limit": 100})).await;
    let rules = call("loopback.rules", json!({})).await;
    json!({"sessions": sessions, "history": history, "rules": rules})
}

/// Waits until no chat runs: what the journals still hold is in the store then.
async fn settled(server: &TestServer) -> Value {
    eventually_async("the end of every chat", PATIENCE, || async {
        let listed = server.call("claudecode.list", json!({"limit": 100})).await.unwrap();
        let sessions = listed["sessions"].as_array().unwrap();
        (!sessions.is_empty() && sessions.iter().all(|session| session["status"] != "running"))
            .then_some(())
    })
    .await;
    told(server).await
}

/// Says where `now` does not hold what `then` held. A release may add to `now`.
fn differences(at: &str, then: &Value, now: &Value, found: &mut Vec<String>) {
    match (then, now) {
        (Value::Object(then), Value::Object(now)) => {
            for (key, then) in then {
                differences(
                    &format!("{at}.{key}"),
                    then,
                    now.get(key).unwrap_or(&Value::Null),
                    found,
                );
            }
        }
        (Value::Array(then), Value::Array(now)) if then.len() == now.len() => {
            for (i, (then, now)) in then.iter().zip(now).enumerate() {
                differences(&format!("{at}[{i}]"), then, now, found);
            }
        }
        _ if is_made_anew(at) => {}
        _ if then != now => found.push(format!("{at}: {then} became {now}")),
        _ => {}
    }
}

/// Whether the start that reads the rest of a journal makes this value itself: a time, or a node of
/// one of those events.
fn is_made_anew(at: &str) -> bool {
    let in_unread = at.starts_with(".sessions.unread.");
    at.ends_with(".updated_at")
        || (in_unread
            && [".timestamp", ".wall_ms", "node_id", ".handle.", ".tree."]
                .iter()
                .any(|part| at.contains(part)))
}

#[tokio::test]
async fn data_of_earlier_releases_reads_as_it_did() {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        record(&golden().join(env!("CARGO_PKG_VERSION"))).await;
    }
    let mut releases = 0;
    for entry in std::fs::read_dir(golden()).expect("fixtures/golden") {
        let release = entry.unwrap().path();
        let expected = std::fs::read_to_string(release.join("expected.json")).unwrap();
        let mut server = server().await;
        server.stop().await.unwrap();
        put_data(&release, &server.data_dir());
        server.start_again().await.unwrap();
        let now = settled(&server).await;
        let mut found = Vec::new();
        let mut expected: Value = serde_json::from_str(&expected).unwrap();
        differences("", &expected, &now, &mut found);
        assert!(found.is_empty(), "{}: {}\n{}", release.display(), found.join("\n"), server.log());
        // The session `unread` had events that were only in its journal. This start stored them
        // under new ids, so the handles that the release recorded for them do not resolve.
        expected["sessions"].as_object_mut().unwrap().remove("unread");
        let handed_out = handles::handles_in(&json!([expected, now]));
        assert!(handed_out.len() > 20, "{handed_out:?}");
        for handle in handed_out {
            let resolved = server.call("plexus.resolve_handle", json!({"handle": handle})).await;
            assert!(resolved.is_ok(), "{handle}: {resolved:?}");
        }
        let wrong = server.call("plexus.health", json!({})).await.unwrap();
        assert_eq!(wrong["type"], "ok", "{wrong}");
        releases += 1;
    }
    assert!(releases > 0, "there is no earlier release to be held against");
}

/// Leaves the data of a killed server behind: a session that has seen much, and one whose last
/// lines nobody has read.
async fn record(folder: &Path) {
    let mut server = server().await;
    let work = tempfile::tempdir().unwrap();
    let call = async |server: &TestServer, method: &str, params: Value| {
        server.call(method, params).await.unwrap()
    };
    let create = json!({"name": "much", "working_dir": work.path(), "metadata": {"ticket": 7}});
    let much = call(&server, "claudecode.create", create).await["id"].clone();
    let rule = json!({"decision": "deny", "pattern": "WebFetch", "scope": "all", "reason": "no network here"});
    call(&server, "loopback.rule_add", rule).await;
    for (verdict, prompt) in [
        (
            true,
            "sim:\nthink what to do\nsay I write a file\ntool Write {\"file_path\":\"a.txt\",\"content\":\"ä ☃\"}\nsay done",
        ),
        (
            false,
            "sim:\ntool Bash {\"command\":\"rm -rf nothing\"}\nunknown\nstderr a word aside\nsay I was not allowed",
        ),
    ] {
        call(&server, "claudecode.chat_async", json!({"session_id": much, "prompt": prompt})).await;
        let pending = call(
            &server,
            "loopback.wait_for_approval",
            json!({"session_id": much, "wait_ms": 30_000}),
        )
        .await;
        let approval = &pending["approvals"][0];
        let mut answer =
            json!({"approval_id": approval["id"], "approve": verdict, "message": "as recorded"});
        answer["input_digest"] = approval["input_digest"].clone();
        call(&server, "loopback.respond", answer).await;
        eventually_async("the end of a chat", PATIENCE, || async {
            let shown = server.call("claudecode.get", json!({"session_id": much})).await.unwrap();
            (shown["session"]["status"] == "complete").then_some(())
        })
        .await;
    }
    call(
        &server,
        "claudecode.poll",
        json!({"session_id": much, "consumer": "a reader", "limit": 3}),
    )
    .await;
    let create = json!({"name": "unread", "working_dir": work.path()});
    let unread = call(&server, "claudecode.create", create).await["id"].clone();
    let prompt = "sim:\nsay before the crash\nsleep 3000\nburst 40 200\nsay after the crash";
    call(&server, "claudecode.chat_async", json!({"session_id": unread, "prompt": prompt})).await;
    eventually_async("the first words", PATIENCE, || async {
        let polled = server
            .call("claudecode.poll", json!({"session_id": unread, "from_seq": 0}))
            .await
            .unwrap();
        polled.to_string().contains("before the crash").then_some(())
    })
    .await;
    server.kill_9().unwrap();
    let run = server.data_dir().join("runs").join(unread.as_str().unwrap());
    eventually_async("the rest of the journal", PATIENCE, || {
        std::future::ready(journals(&run).contains("\"type\":\"result\"").then_some(()))
    })
    .await;
    if folder.exists() {
        std::fs::remove_dir_all(folder).unwrap();
    }
    std::fs::create_dir_all(folder).unwrap();
    put_data(&server.data_dir(), folder);
    server.start_again().await.unwrap();
    let told = serde_json::to_string_pretty(&settled(&server).await).unwrap();
    std::fs::write(folder.join("expected.json"), told + "\n").unwrap();
}

fn journals(folder: &Path) -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            all += &journals(&path);
        } else if path.extension().is_some_and(|ending| ending == "jsonl") {
            all += &std::fs::read_to_string(&path).unwrap_or_default();
        }
    }
    all
}
