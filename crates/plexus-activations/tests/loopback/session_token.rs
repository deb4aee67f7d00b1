//! A real server, and the token of a child with `can_spawn`: over HTTP it reaches what is below its
//! own session and nothing else, and nothing at all once its run has ended.

use std::path::Path;

use serde_json::{Value, json};
use testkit::server::{ServerOptions, TestServer};

use crate::childless_hub::within;
use crate::common::DEADLINE;
use crate::http::{asks, child_token, create};

/// A family: `boss` is the parent of `me` and `sibling`, `stranger` has nothing to do with them.
/// Each of them has asked for something.
struct Family {
    server: TestServer,
    folder: tempfile::TempDir,
    me: String,
    token: String,
    others: Vec<Other>,
    own_question: Value,
}

/// Somebody who is not below `me`.
struct Other {
    session: String,
    question: Value,
    tree: Value,
    node: Value,
}

impl Family {
    async fn new() -> Self {
        // A child leaves with its chat, and its token with it.
        let options = ServerOptions {
            arguments: vec!["--set".into(), "warm.max=0".into()],
            ..ServerOptions::default()
        };
        let server = TestServer::with(options).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        for name in ["mine", "theirs"] {
            std::fs::create_dir(dir.join(name)).unwrap();
        }
        let spawner = json!({"can_spawn": true, "may_decide": ["Read"], "allowed_tools": ["Read"]});
        let boss = create(&server, dir, "boss", spawner.clone()).await;
        let mut below_boss = spawner;
        below_boss["parent"] = json!(boss);
        below_boss["working_dir"] = json!(dir.join("mine"));
        let me = create(&server, dir, "me", below_boss).await;
        let sibling = create(&server, dir, "sibling", json!({"parent": boss})).await;
        let stranger = create(&server, dir, "stranger", json!({})).await;
        let mut others = Vec::new();
        for session in [boss, sibling, stranger] {
            let question = asked(&server, &session).await;
            let head =
                server.call("claudecode.get_tree", json!({"session_id": session})).await.unwrap();
            others.push(Other {
                tree: head["tree_id"].clone(),
                node: head["head"]["node_id"].clone(),
                session,
                question,
            });
        }
        let own_question = asked(&server, &me).await;
        let prompt = json!({"session_id": me, "prompt": "sim:\nsay here\nhang"});
        server.call("claudecode.chat_async", prompt).await.unwrap();
        let token = session_token(&server, &me).await;
        Self { server, folder, me, token, others, own_question }
    }

    /// Calls a method with the token of `me`.
    async fn call(&self, method: &str, params: Value) -> Result<Value, String> {
        let answer = self.server.call_as(&self.token, method, params).await.unwrap();
        answer.map_err(|error| error.kind().to_owned())
    }

    /// Tries to listen to a session's events with the token of `me`; returns the HTTP status.
    async fn listen(&self, session: &str) -> u16 {
        let url = format!("{}/events?session_id={session}", self.server.url().unwrap());
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        within("an answer", http.get(url).bearer_auth(&self.token).send())
            .await
            .unwrap()
            .status()
            .as_u16()
    }

    /// A call of every method that takes an id, with ids of somebody else.
    async fn attempts(&self, other: &Other) -> Vec<(String, Value)> {
        let mut attempts = about(other);
        let listed = self.server.call("plexus.schema", json!({})).await.unwrap();
        for method in listed["methods"].as_array().unwrap() {
            let name = method["name"].as_str().unwrap();
            if ABOUT_NOBODY.contains(&name) || attempts.iter().any(|(named, _)| named == name) {
                continue;
            }
            let params = by_id_alone(&method["params"], other);
            let params = params.unwrap_or_else(|| panic!("add {name} to about or ABOUT_NOBODY"));
            attempts.push((name.to_owned(), params));
        }
        attempts
    }

    fn dir(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }
}

/// Has a session ask, and returns the request.
async fn asked(server: &TestServer, session: &str) -> Value {
    let token = child_token(server, session).await;
    // Nobody reads the answer; the question stays.
    drop(asks(
        server,
        &token,
        json!({"tool_name": "Bash", "input": {"command": "make"}, "tool_use_id": "t"}),
    ));
    let wait = json!({"session_id": session, "wait_ms": 60_000});
    server.call("loopback.wait_for_approval", wait).await.unwrap()["approvals"][0].clone()
}

/// The token that a running child with `can_spawn` finds in its configuration.
async fn session_token(server: &TestServer, session: &str) -> String {
    let path = server.data_dir().join("runs").join(session).join("0/mcp.json");
    let read = || std::future::ready(token_in(&path));
    testkit::eventually_async("the child's configuration", DEADLINE, read).await
}

fn token_in(path: &Path) -> Option<String> {
    let config: Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    let header = config["mcpServers"]["plexus_hub"]["headers"]["Authorization"].as_str()?;
    header.strip_prefix("Bearer ").map(str::to_owned)
}

/// Methods that take the id of something of somebody else's, and more than that. Those that need
/// nothing but an id are found by their schemas: [`by_id_alone`].
fn about(other: &Other) -> Vec<(String, Value)> {
    let id = &other.session;
    let (approval, tree, node) = (&other.question["id"], &other.tree, &other.node);
    let all = vec![
        ("loopback.respond", json!({"approval_id": approval, "approve": true})),
        ("loopback.respond", json!({"approval_id": approval, "approve": false})),
        ("loopback.wait_for_approval", json!({"session_id": id, "wait_ms": 0})),
        (
            "loopback.mode_set",
            json!({"session_id": id, "mode": "allow_all", "expires_in_secs": 60}),
        ),
        (
            "loopback.rule_add",
            json!({"decision": "allow", "pattern": "Read", "scope": {"session": id}}),
        ),
        (
            "loopback.rule_add",
            json!({"decision": "allow", "pattern": "Read", "scope": {"subtree": id}}),
        ),
        ("loopback.rule_test", json!({"session_id": id, "tool_name": "Read", "input": {}})),
        (
            "loopback.rule_preview",
            json!({"approval_id": approval, "approve": true, "remember": {"scope": {"session": id}}}),
        ),
        ("claudecode.budget_set", json!({"session_id": id, "budget": {"cost_usd": 1000.0}})),
        ("claudecode.chat", json!({"session_id": id, "prompt": "x", "wait_ms": 0})),
        ("claudecode.chat_async", json!({"session_id": id, "prompt": "x"})),
        ("claudecode.follow", json!({"session_id": id})),
        ("claudecode.wait", json!({"session_ids": [id], "wait_ms": 0})),
        ("claudecode.send", json!({"session_id": id, "text": "x"})),
        ("claudecode.list", json!({"parent": id})),
        ("claudecode.fork", json!({"session_id": id, "new_name": "copy"})),
        ("claudecode.rename", json!({"session_id": id, "new_name": "other"})),
        ("claudecode.cursor_set", json!({"session_id": id, "consumer": "c", "cursor": node})),
        ("claudecode.cursor_delete", json!({"session_id": id, "consumer": "c"})),
        ("cone.chat_async", json!({"session_id": id, "prompt": "x"})),
        ("cone.list", json!({"parent": id})),
        ("arbor.node_create_text", json!({"tree_id": tree, "parent": node, "content": "x"})),
        (
            "arbor.node_create_external",
            json!({"tree_id": tree, "parent": node, "handle": "a@1.0.0::b"}),
        ),
        ("arbor.node_get_path_between", json!({"from": node, "to": node})),
        ("plexus.resolve_handle", handle("claudecode", "session", &json!(id))),
        ("plexus.resolve_handle", handle("loopback", "approval", approval)),
        ("plexus.resolve_handle", handle("arbor", "tree", &json!(tree))),
        ("plexus.resolve_handle", handle("arbor", "node", &json!(node))),
    ];
    // Sessions have a second name for each of their methods.
    let agents = |(method, params): &(&str, Value)| {
        Some((format!("agents.{}", method.strip_prefix("claudecode.")?), params.clone()))
    };
    let second: Vec<_> = all.iter().filter_map(agents).collect();
    let first = all.into_iter().map(|(method, params)| (method.to_owned(), params));
    first.chain(second).collect()
}

/// The parameters for a method that takes an id and requires nothing else, with an id of somebody
/// else.
fn by_id_alone(schema: &Value, other: &Other) -> Option<Value> {
    let ids = [
        ("session_id", json!(other.session)),
        ("approval_id", other.question["id"].clone()),
        ("tree_id", other.tree.clone()),
        ("node_id", other.node.clone()),
    ];
    let (name, id) = ids.into_iter().find(|(name, _)| schema["properties"].get(name).is_some())?;
    let mut required = schema["required"].as_array().into_iter().flatten();
    required.all(|field| field == name).then(|| json!({name: id}))
}

/// A handle as somebody would make it who has guessed an id.
fn handle(owner: &str, method: &str, id: &Value) -> Value {
    let plugin_id = plexus_core::PluginId::of(owner, 1);
    json!({"handle": {"plugin_id": plugin_id, "version": "1.0.0", "method": method, "meta": [id]}})
}

/// Methods whose parameters name no session, approval or other thing of somebody else's.
const ABOUT_NOBODY: &[&str] = &[
    "agents.create",
    "agents.kinds",
    "claudecode.create",
    "cone.create",
    "loopback.permit",
    "loopback.respond_many",
    "loopback.rules",
    "loopback.rule_remove",
    "loopback.rule_suggest",
    "identity.code",
    "identity.parent",
    "identity.parents",
    "identity.revoke",
    "identity.pair",
    "identity.devices",
    "identity.unpair",
    "health.state",
    "arbor.tree_create",
    "arbor.tree_list",
    "plexus.health",
    "plexus.methods",
    "plexus.plugins",
    "plexus.schema",
    "plexus.version",
    "notify.push_key",
    "notify.push_subscribe",
    "notify.push_unsubscribe",
    "notify.receivers",
    "notify.test",
    "server.prune",
    "server.backup",
    "server.stop",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_session_token_reaches_nobody_but_those_below_it() {
    let family = Family::new().await;
    let mut attempts = 0;
    for other in &family.others {
        for (method, params) in family.attempts(other).await {
            let refused = family.call(&method, params).await.expect_err(&method);
            if method.ends_with(".follow") {
                // A stream has doors of its own.
                assert_eq!(refused, "invalid");
                assert_eq!(family.listen(&other.session).await, 404);
            } else {
                assert!(
                    ["not_found", "forbidden"].contains(&refused.as_str()),
                    "{method}: {refused}"
                );
            }
            attempts += 1;
        }
    }
    // It may not answer its own question either, alone or among others; nor guess an id.
    let mut questions: Vec<Value> =
        family.others.iter().map(|other| other.question["id"].clone()).collect();
    questions.push(family.own_question["id"].clone());
    questions.push(json!(uuid::Uuid::now_v7()));
    for question in &questions[questions.len() - 2..] {
        for approve in [true, false] {
            let refused = family
                .call("loopback.respond", json!({"approval_id": question, "approve": approve}))
                .await;
            assert_eq!(refused.unwrap_err(), "not_found");
            attempts += 1;
        }
    }
    let many = family
        .call("loopback.respond_many", json!({"approval_ids": questions, "approve": true}))
        .await
        .unwrap();
    for outcome in many["outcomes"].as_array().unwrap() {
        assert_eq!(
            (&outcome["ok"], &outcome["error"]["kind"]),
            (&json!(false), &json!("not_found")),
            "{many:#}"
        );
        attempts += 1;
    }
    for (method, params) in [
        ("loopback.pending", json!({})),
        ("loopback.history", json!({})),
        ("claudecode.list", json!({})),
        ("arbor.tree_list", json!({})),
    ] {
        let page = family.call(method, params).await.unwrap().to_string();
        for other in &family.others {
            assert!(!page.contains(&other.session), "{method} shows somebody else: {page}");
            let tree = other.tree.as_str().unwrap();
            assert!(!page.contains(tree), "{method} shows the tree of somebody else: {page}");
        }
    }
    // Nothing had an effect, and every attempt is on record.
    let pending = family.server.call("loopback.pending", json!({})).await.unwrap();
    assert_eq!(pending["approvals"].as_array().unwrap().len(), 4, "{pending:#}");
    assert_eq!(refusals(&family).await, attempts);
}

/// How many refused attempts of `me` are on record.
async fn refusals(family: &Family) -> usize {
    let audit = json!({"session_id": family.me, "limit": 1000});
    let lines = family.server.call("loopback.audit", audit).await.unwrap()["lines"].clone();
    assert!(!lines.to_string().contains(&family.token[8..24]), "no token is in the audit");
    lines.as_array().unwrap().iter().filter(|line| line["kind"] == "refused").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_token_gives_nobody_more_than_its_session_has() {
    let family = Family::new().await;
    let (mine, theirs) = (family.dir("mine"), family.dir("theirs"));
    let with = |more: Value| {
        let mut params = json!({"name": "grandchild", "working_dir": mine});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    let mut attempts = 0;
    for too_much in [
        json!({"working_dir": theirs}),
        json!({"working_dir": "/usr"}),
        json!({"add_dirs": [theirs]}),
        json!({"allowed_tools": ["Bash"]}),
        json!({"may_decide": ["*"]}),
        json!({"may_decide": ["Bash"]}),
        json!({"env": {"OTHER": "x"}}),
        json!({"loopback_timeout_secs": 0}),
        json!({"project_settings": "trust"}),
        json!({"parent": family.others[0].session}),
        json!({"parent": family.others[2].session}),
    ] {
        let refused = family.call("claudecode.create", with(too_much.clone())).await;
        assert_eq!(refused, Err("forbidden".to_owned()), "{too_much}");
        attempts += 1;
    }
    // What is below it is its own; from there nothing can be widened either.
    let below =
        family.call("claudecode.create", with(json!({"can_spawn": true}))).await.unwrap()["id"]
            .clone();
    let rule = |pattern: &str, scope: Value| json!({"decision": "allow", "pattern": pattern, "scope": scope});
    for (method, params) in [
        ("loopback.rule_add", rule("Read", json!("all"))),
        ("loopback.rule_add", rule("Bash", json!({"session": below}))),
        ("loopback.rule_add", rule("Write", json!({"subtree": below}))),
        (
            "loopback.mode_set",
            json!({"session_id": below, "mode": "allow_all", "expires_in_secs": 60}),
        ),
        ("loopback.configure", json!({"session_id": below})),
        ("loopback.audit", json!({})),
        ("identity.code", json!({})),
        ("identity.parent", json!({"name": "me too"})),
        ("identity.parents", json!({})),
        ("identity.revoke", json!({"name": "me too"})),
        ("identity.pair", json!({})),
        ("identity.devices", json!({})),
        ("identity.unpair", json!({"name": "me too"})),
        ("health.state", json!({})),
    ] {
        assert_eq!(
            family.call(method, params.clone()).await.unwrap_err(),
            "forbidden",
            "{method} {params}"
        );
        attempts += 1;
    }
    let for_itself =
        family.call("loopback.rule_add", rule("Read", json!({"session": family.me}))).await;
    assert_eq!(for_itself, Err("not_found".to_owned()));
    attempts += 1;
    // Its own subtree is what is below it, and not itself.
    let below_me = family
        .call("loopback.rule_add", rule("Read", json!({"subtree": family.me})))
        .await
        .unwrap();
    for (session, covered) in [(json!(family.me), false), (below.clone(), true)] {
        let test = json!({"session_id": session, "tool_name": "Read", "input": {"file_path": mine.join("a")}});
        let would = family.server.call("loopback.rule_test", test).await.unwrap();
        assert_eq!(would["rule_id"] == below_me["rule_id"], covered, "{would:#}");
    }
    // A copy has no more than what it was copied from.
    let copy = family
        .call("claudecode.fork", json!({"session_id": below, "new_name": "copy"}))
        .await
        .unwrap();
    let shown = |id: &Value| json!({"session_id": id});
    let (of, copied) = (
        family.call("claudecode.get", shown(&below)).await.unwrap()["session"].clone(),
        family.call("claudecode.get", shown(&copy["id"])).await.unwrap()["session"].clone(),
    );
    for field in ["parent", "working_dir", "can_spawn", "loopback_enabled", "channel"] {
        assert_eq!(of[field], copied[field], "{field}");
    }
    // It may deny what its child asks for, and allow only what was listed for it.
    let question = asked(&family.server, below.as_str().unwrap()).await;
    let answer = |approve: bool| json!({"approval_id": question["id"], "approve": approve});
    assert_eq!(family.call("loopback.respond", answer(true)).await.unwrap_err(), "forbidden");
    attempts += 1;
    family.call("loopback.respond", answer(false)).await.unwrap();
    assert_eq!(refusals(&family).await, attempts);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_token_ends_with_its_run() {
    let family = Family::new().await;
    family.call("claudecode.list", json!({})).await.unwrap();
    family.server.call("claudecode.cancel", json!({"session_id": family.me})).await.unwrap();
    let ended =
        || async { (family.call("claudecode.list", json!({})).await.ok().is_none()).then_some(()) };
    testkit::eventually_async("the end of the token", DEADLINE, ended).await;
    let create = json!({"name": "late", "working_dir": family.dir("mine")});
    let own = json!({"approval_id": family.own_question["id"], "approve": true});
    for (method, params) in
        [("claudecode.create", create), ("loopback.respond", own), ("loopback.pending", json!({}))]
    {
        assert_eq!(family.call(method, params).await.unwrap_err(), "unauthorized", "{method}");
    }
    for other in &family.others {
        for (method, params) in family.attempts(other).await {
            assert_eq!(family.call(&method, params).await.unwrap_err(), "unauthorized", "{method}");
        }
    }
}
