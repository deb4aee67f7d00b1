//! A real server and real tokens: what a child that has its token can do over every door, and the
//! MCP channel through restarts.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::server::{ServerOptions, TestServer, lasting_address};

use crate::common::DEADLINE;

pub(crate) async fn create(server: &TestServer, dir: &Path, name: &str, more: Value) -> String {
    let mut params = json!({"name": name, "working_dir": dir, "env": {"CLAUDE_CONFIG_DIR": dir.join(".config")}});
    for (key, value) in more.as_object().unwrap() {
        params[key] = value.clone();
    }
    server.call("claudecode.create", params).await.unwrap()["id"].as_str().unwrap().to_owned()
}

/// The token of a child that somebody else starts.
pub(crate) async fn child_token(server: &TestServer, session: &str) -> String {
    let made = server.call("loopback.configure", json!({"session_id": session})).await.unwrap();
    let header = &made["mcp_config"]["mcpServers"]["plexus"]["headers"]["Authorization"];
    header.as_str().unwrap().strip_prefix("Bearer ").unwrap().to_owned()
}

/// Asks for permission as a child would, in a task of its own, which gets the answer.
pub(crate) fn asks(
    server: &TestServer,
    token: &str,
    request: Value,
) -> tokio::task::JoinHandle<String> {
    let (url, token) = (format!("{}/rpc", server.url().unwrap()), token.to_owned());
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "loopback.permit", "params": request});
    tokio::spawn(async move {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let answer = http.post(url).bearer_auth(token).json(&body).send().await;
        // A question that is still open when its test is over ends with the server.
        match answer {
            Ok(answer) => answer.text().await.unwrap_or_default(),
            Err(_) => String::new(),
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_childs_token_opens_nothing_but_its_own_question() {
    let server = TestServer::start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (me, sibling) = (
        create(&server, folder.path(), "me", json!({})).await,
        create(&server, folder.path(), "sibling", json!({})).await,
    );
    let (mine, siblings) = (child_token(&server, &me).await, child_token(&server, &sibling).await);
    for (method, params) in [
        ("loopback.respond", json!({"approval_id": uuid::Uuid::now_v7(), "approve": true})),
        ("loopback.pending", json!({})),
        ("loopback.history", json!({})),
        ("loopback.configure", json!({"session_id": me})),
        (
            "loopback.mode_set",
            json!({"session_id": me, "mode": "allow_all", "expires_in_secs": 60}),
        ),
        ("claudecode.create", json!({"name": "x", "working_dir": folder.path()})),
        ("claudecode.chat_async", json!({"session_id": sibling, "prompt": "x"})),
        ("claudecode.poll", json!({"session_id": me})),
        ("identity.code", json!({})),
    ] {
        for token in [&mine, &siblings] {
            let refused = server.call_as(token, method, params.clone()).await.unwrap().unwrap_err();
            assert_eq!(refused.kind(), "forbidden", "{method}");
        }
    }
    // A session named in the arguments changes nothing: whoever holds the sibling's token asks for
    // the sibling.
    let smuggled = json!({"tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "t", "session_id": me});
    let asking = asks(&server, &siblings, smuggled);
    let waited =
        server.call("loopback.wait_for_approval", json!({"wait_ms": 30_000})).await.unwrap();
    let asked = waited["approvals"][0].clone();
    assert_eq!(asked["session_id"], json!(sibling));
    // Neither of them can answer it.
    for token in [&mine, &siblings] {
        let answer = json!({"approval_id": asked["id"], "approve": true});
        assert_eq!(
            server.call_as(token, "loopback.respond", answer).await.unwrap().unwrap_err().kind(),
            "forbidden"
        );
    }
    server
        .call(
            "loopback.respond",
            json!({"approval_id": asked["id"], "approve": false, "message": "no"}),
        )
        .await
        .unwrap();
    let told = tokio::time::timeout(DEADLINE, asking).await.expect("the answer").unwrap();
    assert!(told.contains("deny") && told.contains("no"), "{told}");
    // After its end a token is worth nothing.
    server.call("claudecode.delete", json!({"session_id": sibling})).await.unwrap();
    let late = json!({"tool_name": "Bash", "input": {}, "tool_use_id": "u"});
    for token in [siblings.as_str(), "plx_guess", ""] {
        let refused = server.call_as(token, "loopback.permit", late.clone()).await;
        assert!(!matches!(&refused, Ok(Ok(_))), "{refused:?}");
    }
    let lines =
        server.call("loopback.audit", json!({"limit": 1000})).await.unwrap()["lines"].clone();
    let refused: Vec<&Value> =
        lines.as_array().unwrap().iter().filter(|line| line["kind"] == "refused").collect();
    assert!(refused.len() >= 21, "{lines:#}");
    assert!(!lines.to_string().contains(&mine[8..24]), "no token is in the audit");
}

/// Waits for the one pending request of a session.
async fn pending(server: &TestServer, session: &str) -> Value {
    let params = json!({"session_id": session, "wait_ms": 30_000});
    let waited = server.call("loopback.wait_for_approval", params).await.unwrap();
    assert_eq!(waited["type"], "ok", "no request came; the log says {}", server.log());
    waited["approvals"][0].clone()
}

/// Waits for the end of a session's newest chat.
async fn ended(server: &TestServer, session: &str) -> Value {
    let began = std::time::Instant::now();
    loop {
        let page = json!({"session_id": session, "from_seq": 0, "limit": 1000});
        let page = server.call("claudecode.poll", page).await.unwrap();
        if matches!(page["status"].as_str().unwrap(), "complete" | "failed" | "cancelled") {
            return page;
        }
        assert!(began.elapsed() < 2 * DEADLINE, "the chat did not end: {page:#}");
        let rest =
            json!({"session_id": session, "from_seq": page["total_events"], "wait_ms": 1_000});
        server.call("claudecode.poll", rest).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_mcp_a_child_is_allowed_denied_edited_and_asks_in_parallel() {
    let server = TestServer::start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let session = create(&server, folder.path(), "s", json!({"channel": "mcp"})).await;
    let file = |name: &str| folder.path().join(name);
    let script = "sim:\nparallel Write {\"file_path\":\"a.txt\",\"content\":\"a\"} ;; Write {\"file_path\":\"b.txt\",\"content\":\"b\"} ;; Write {\"file_path\":\"c.txt\",\"content\":\"c\"}\nsay done";
    server
        .call("claudecode.chat_async", json!({"session_id": session, "prompt": script}))
        .await
        .unwrap();
    for _ in 0..3 {
        let asked = pending(&server, &session).await;
        let answer = match asked["input"]["file_path"].as_str().unwrap().rsplit('/').next().unwrap()
        {
            "a.txt" => json!({"approval_id": asked["id"], "approve": true}),
            "b.txt" => json!({"approval_id": asked["id"], "approve": false, "message": "not b"}),
            _ => {
                let mut input = asked["input"].clone();
                input["content"] = json!("edited");
                json!({"approval_id": asked["id"], "approve": true, "updated_input": input, "input_digest": asked["input_digest"]})
            }
        };
        server.call("loopback.respond", answer).await.unwrap();
    }
    let page = ended(&server, &session).await;
    assert_eq!(page["status"], "complete", "{page:#}");
    assert_eq!(std::fs::read_to_string(file("a.txt")).unwrap(), "a");
    assert!(!file("b.txt").exists());
    assert_eq!(std::fs::read_to_string(file("c.txt")).unwrap(), "edited");
    assert!(page.to_string().contains("not b"));
    let history = server.call("loopback.history", json!({"session_id": session})).await.unwrap();
    assert!(
        history["decisions"].as_array().unwrap().iter().all(|it| it["delivered_at"].is_number()),
        "{history:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_over_mcp_survives_a_server_that_is_killed_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    // A child comes back to the address it knows.
    let options =
        ServerOptions { listen: Some(lasting_address().unwrap()), ..ServerOptions::default() };
    let mut server = TestServer::with(options).await.unwrap();
    let session = create(&server, folder.path(), "s", json!({"channel": "mcp"})).await;
    let script = "sim:\ntool Write {\"file_path\":\"made.txt\",\"content\":\"x\"}\nsay done";
    server
        .call("claudecode.chat_async", json!({"session_id": session, "prompt": script}))
        .await
        .unwrap();
    let asked = pending(&server, &session).await;
    server.kill_9().unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    server.start_again().await.unwrap();
    let still = pending(&server, &session).await;
    assert_eq!(still["id"], asked["id"]);
    server
        .call("loopback.respond", json!({"approval_id": asked["id"], "approve": true}))
        .await
        .unwrap();
    let page = ended(&server, &session).await;
    assert_eq!(page["status"], "complete", "{page:#}");
    assert_eq!(std::fs::read_to_string(folder.path().join("made.txt")).unwrap(), "x");
    let history = server.call("loopback.history", json!({"session_id": session})).await.unwrap();
    assert_eq!(history["decisions"].as_array().unwrap().len(), 1);
}
