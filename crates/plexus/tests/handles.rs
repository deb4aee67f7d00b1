//! Handles and trees through the doors: who may follow them, and what a tree looks like.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "support/parent.rs"]
mod parent;

use parent::Parent;
use serde_json::{Value, json};
use testkit::server::{ServerOptions, TestServer};
use testkit::wait::{PATIENCE, eventually_async};

async fn server() -> TestServer {
    let options = ServerOptions {
        plexus_bin: Some(env!("CARGO_BIN_EXE_plexus").into()),
        ..ServerOptions::default()
    };
    TestServer::with(options).await.unwrap()
}

/// Gives a session a prompt, and waits until the chat has ended.
async fn chat(server: &TestServer, session: &str, prompt: &str) {
    let params = json!({"session_id": session, "prompt": prompt});
    server.call("claudecode.chat_async", params).await.unwrap();
    eventually_async("the end of the chat", PATIENCE, || async {
        let got = server.call("claudecode.get", json!({"session_id": session})).await.unwrap();
        (got["session"]["status"] == "complete").then_some(())
    })
    .await;
}

impl Parent<'_> {
    /// Calls a tool over MCP; an error is its `kind`.
    async fn tool(&self, name: &str, arguments: Value) -> Result<Value, String> {
        let answer = self.ask("tools/call", json!({"name": name, "arguments": arguments})).await;
        let result = &answer["result"];
        if result["isError"] == true {
            let error: Value =
                serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
            return Err(error["kind"].as_str().unwrap().to_owned());
        }
        Ok(result["structuredContent"].clone())
    }
}

#[tokio::test]
async fn a_parent_walks_the_tree_of_its_child_over_mcp_and_a_stranger_cannot() {
    let server = server().await;
    let work = tempfile::tempdir().unwrap();
    let parent = Parent::begin(&server, "parent").await;
    let stranger = Parent::begin(&server, "stranger").await;
    let child = parent.create(work.path().to_str().unwrap()).await;
    chat(&server, &child, "sim:\nsay one\nsay two\nsay three").await;

    // From a cursor, the node of an event that was read, to the head.
    let page = json!({"session_id": child, "from_seq": 0, "limit": 2});
    let read = parent.tool("claudecode_poll", page).await.unwrap();
    let cursor = read["events"][1]["node_id"].clone();
    let tree = parent.tool("claudecode_get_tree", json!({"session_id": child})).await.unwrap();
    let (tree_id, head) = (tree["tree_id"].clone(), tree["head"]["node_id"].clone());
    let between = json!({"from": cursor, "to": head});
    let path = parent.tool("arbor_node_get_path_between", between.clone()).await.unwrap();
    let nodes = path["nodes"].as_array().unwrap();
    let mut said = Vec::new();
    for node in nodes {
        let handle = json!({"handle": node["data"]["handle"]});
        let event = parent.tool("plexus_resolve_handle", handle.clone()).await.unwrap();
        said.extend(event["event"]["text"].as_str().map(str::to_owned));
        assert_eq!(stranger.tool("plexus_resolve_handle", handle).await, Err("not_found".into()));
        // The node has a handle of its own.
        let own = json!({"handle": node["handle"]});
        let shown = parent.tool("plexus_resolve_handle", own.clone()).await.unwrap();
        assert_eq!(&shown["node"], node);
        assert_eq!(stranger.tool("plexus_resolve_handle", own).await, Err("not_found".into()));
    }
    assert_eq!(said, ["one", "two", "three"]);
    assert_eq!(nodes.last().unwrap()["id"], head);

    let reading = [
        ("arbor_tree_get", json!({"tree_id": tree_id})),
        ("arbor_tree_render", json!({"tree_id": tree_id})),
        ("arbor_context_list_leaves", json!({"tree_id": tree_id})),
        ("arbor_node_get", json!({"node_id": head})),
        ("arbor_node_get_parent", json!({"node_id": head})),
        ("arbor_node_get_children", json!({"node_id": cursor})),
        ("arbor_node_get_path", json!({"node_id": head})),
        ("arbor_node_get_path_between", between),
        ("arbor_context_get_path", json!({"node_id": head})),
        ("arbor_context_get_handles", json!({"node_id": head})),
    ];
    for (tool, params) in reading {
        assert!(parent.tool(tool, params.clone()).await.is_ok(), "{tool}");
        assert_eq!(stranger.tool(tool, params).await, Err("not_found".into()), "{tool}");
    }
    let listed = parent.tool("arbor_tree_list", json!({})).await.unwrap();
    assert_eq!(listed["trees"][0]["id"], tree_id);
    let listed = stranger.tool("arbor_tree_list", json!({})).await.unwrap();
    assert_eq!(listed["trees"], json!([]));
    // Writing into trees is the operator's.
    let node = json!({"tree_id": tree_id, "content": "a word"});
    assert_eq!(parent.tool("arbor_node_create_text", node).await, Err("forbidden".into()));
}

#[tokio::test]
async fn an_approval_is_resolved_by_those_who_may_decide_it() {
    let server = server().await;
    let work = tempfile::tempdir().unwrap();
    let parent = Parent::begin(&server, "parent").await;
    let stranger = Parent::begin(&server, "stranger").await;
    let child = parent.create(work.path().to_str().unwrap()).await;
    let prompt = "sim:\ntool Bash {\"command\":\"make\"}\nsay done";
    let params = json!({"session_id": child, "prompt": prompt});
    parent.tool("claudecode_chat_async", params).await.unwrap();
    let waiting =
        parent.tool("loopback_wait_for_approval", json!({"wait_ms": 60_000})).await.unwrap();
    let approval = &waiting["approvals"][0];
    let handle = json!({"handle": approval["handle"]});
    let resolved = parent.tool("plexus_resolve_handle", handle.clone()).await.unwrap();
    assert_eq!(resolved["approval_id"], approval["id"]);
    assert_eq!(resolved["status"], "pending");
    assert_eq!(
        stranger.tool("plexus_resolve_handle", handle.clone()).await,
        Err("not_found".into())
    );
    let answer = json!({"approval_id": approval["id"], "approve": false});
    parent.tool("loopback_respond", answer).await.unwrap();
    let resolved = parent.tool("plexus_resolve_handle", handle).await.unwrap();
    assert_eq!(resolved["status"], "denied");
}

#[tokio::test]
async fn a_fork_is_drawn_where_it_forks_and_tells_both_parents() {
    let server = server().await;
    let work = tempfile::tempdir().unwrap();
    let parent = Parent::begin(&server, "parent").await;
    let child = parent.create(work.path().to_str().unwrap()).await;
    chat(&server, &child, "sim:\nsay one").await;
    let fork = json!({"session_id": child, "new_name": "other way"});
    let fork = parent.tool("claudecode_fork", fork).await.unwrap();
    let fork_id = fork["id"].as_str().unwrap();
    chat(&server, &child, "sim:\nsay two").await;
    chat(&server, fork_id, "sim:\nsay three").await;

    let tree = json!({"tree_id": fork["head"]["tree_id"]});
    let text = parent.tool("arbor_tree_render", tree).await.unwrap()["text"].clone();
    let text = text.as_str().unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let at = |line: &str| {
        let found = lines.iter().position(|it| it.starts_with(line));
        found.unwrap_or_else(|| panic!("no {line:?} in\n{text}"))
    };
    let order = [
        at("sim: say one"),
        at("  chat 0 of child · complete"),
        at("  said one"),
        at("  completed"),
        at("  └ sim: say three"),
        at("      chat 0 of other way · complete"),
        at("      said three"),
        at("sim: say two"),
        at("  said two"),
    ];
    assert!(order.is_sorted(), "{order:?}\n{text}");

    let rendered = json!({"session_id": fork_id});
    let rendered = parent.tool("claudecode_render_context", rendered).await.unwrap();
    let session = parent.tool("claudecode_get", json!({"session_id": fork_id})).await.unwrap();
    assert_eq!(rendered["parent"], session["session"]["parent"]);
    assert_eq!(rendered["forked_from"]["session_id"], json!(child));
    assert_eq!(rendered["forked_from"]["name"], "child");
    for message in rendered["messages"].as_array().unwrap() {
        let blocks = message["content"].as_array().unwrap().len();
        assert_eq!(message["handles"].as_array().unwrap().len(), blocks, "{message}");
    }
    let source = parent.tool("claudecode_render_context", json!({"session_id": child})).await;
    assert_eq!(source.unwrap().get("forked_from"), None);
}

#[tokio::test]
async fn handles_of_what_is_gone_are_not_found() {
    let server = server().await;
    let work = tempfile::tempdir().unwrap();
    let params = json!({"name": "short", "working_dir": work.path()});
    let created = server.call("claudecode.create", params).await.unwrap();
    let session = created["id"].as_str().unwrap();
    chat(&server, session, "sim:\nsay one").await;
    let got = server.call("claudecode.get", json!({"session_id": session})).await.unwrap();
    let streams = server.call("claudecode.streams", json!({})).await.unwrap();
    let page = json!({"session_id": session, "from_seq": 0});
    let events = server.call("claudecode.poll", page).await.unwrap();
    let head = json!({"node_id": got["session"]["head"]["node_id"]});
    let node = server.call("arbor.node_get", head).await.unwrap();
    server.call("claudecode.delete", json!({"session_id": session})).await.unwrap();
    for handle in [
        &got["session"]["handle"],
        &streams["streams"][0]["handle"],
        &events["events"][0]["handle"],
        &node["node"]["handle"],
    ] {
        assert!(handle.is_object(), "{handle}");
        let params = json!({"handle": handle});
        let gone = server.call_as(server.token().unwrap(), "plexus.resolve_handle", params).await;
        assert_eq!(gone.unwrap().unwrap_err().kind(), "not_found", "{handle}");
    }
}

#[tokio::test]
async fn a_node_without_a_parent_stands_right_after_the_root() {
    let server = server().await;
    let tree = server.call("arbor.tree_create", json!({})).await.unwrap();
    let (tree_id, root) = (&tree["tree_id"], &tree["node_id"]);
    let text = json!({"tree_id": tree_id, "content": "a word"});
    let text = server.call("arbor.node_create_text", text).await.unwrap();
    let hub = json!({"tree_id": tree_id, "handle": hub_handle(&server).await});
    let external = server.call("arbor.node_create_external", hub).await.unwrap();
    for made in [text, external] {
        let node = json!({"node_id": made["node_id"]});
        let node = server.call("arbor.node_get", node).await.unwrap();
        assert_eq!(&node["node"]["parent"], root);
    }
    let drawn = server.call("arbor.tree_render", json!({"tree_id": tree_id})).await.unwrap();
    assert_eq!(drawn["text"], "a word\n  the hub plexus");
}

#[tokio::test]
async fn each_kind_of_agent_owns_what_its_sessions_show() {
    let options = ServerOptions {
        plexus_bin: Some(env!("CARGO_BIN_EXE_plexus").into()),
        arguments: vec!["--codex-bin".into(), "sim".into()],
        ..ServerOptions::default()
    };
    let server = TestServer::with(options).await.unwrap();
    let work = tempfile::tempdir().unwrap();
    let plugins = server.call("plexus.plugins", json!({})).await.unwrap();
    let id_of = |path: &str| {
        let plugins = plugins["plugins"].as_array().unwrap();
        plugins.iter().find(|it| it["path"] == path).unwrap()["plugin_id"].clone()
    };
    let resolve = async |handle: &Value| {
        let params = json!({"handle": handle});
        let token = server.token().unwrap();
        server.call_as(token, "plexus.resolve_handle", params).await.unwrap()
    };
    let owners = ["claudecode", "codex", "acp"];
    for (agent, owner) in [("claude_code", "claudecode"), ("codex", "codex"), ("goose", "acp")] {
        let params = json!({"name": agent, "working_dir": work.path(), "agent": agent});
        let created = server.call("agents.create", params).await.unwrap();
        let session = created["id"].as_str().unwrap();
        let got = server.call("agents.get", json!({"session_id": session})).await.unwrap();
        let mut handles = vec![got["session"]["handle"].clone()];
        // Goose is not installed where this test runs; the session has its owner all the same.
        if agent != "goose" {
            chat(&server, session, "sim:\nsay one").await;
            let page = json!({"session_id": session, "from_seq": 0});
            let page = server.call("agents.poll", page).await.unwrap();
            handles.push(page["events"][1]["handle"].clone());
            let streams = json!({"session_id": session});
            let streams = server.call("agents.streams", streams).await.unwrap();
            handles.push(streams["streams"][0]["handle"].clone());
            let head =
                server.call("agents.get_tree", json!({"session_id": session})).await.unwrap();
            let head = json!({"node_id": head["head"]["node_id"]});
            let path = server.call("arbor.context_get_handles", head).await.unwrap();
            handles.extend(path["handles"].as_array().unwrap().iter().cloned());
        }
        for handle in handles {
            assert_eq!(handle["plugin_id"], id_of(owner), "{agent}: {handle}");
            resolve(&handle).await.unwrap();
            for other in owners {
                let mut foreign = handle.clone();
                foreign["plugin_id"] = id_of(other);
                // The first owner resolves everything: its handles are older than the others.
                let expected = other == owner || other == "claudecode";
                assert_eq!(resolve(&foreign).await.is_ok(), expected, "{other}: {foreign}");
            }
        }
    }
}

/// The handle of the topmost hub.
async fn hub_handle(server: &TestServer) -> Value {
    let plugins = server.call("plexus.plugins", json!({})).await.unwrap();
    let hub = plugins["plugins"].as_array().unwrap().iter().find(|it| it["path"] == "plexus");
    let id = &hub.unwrap()["plugin_id"];
    let handle = json!({"plugin_id": id, "version": "1.0.0", "method": "hub", "meta": []});
    let resolved = server.call("plexus.resolve_handle", json!({"handle": handle})).await.unwrap();
    assert_eq!((&resolved["type"], &resolved["path"]), (&json!("hub"), &json!("plexus")));
    handle
}
