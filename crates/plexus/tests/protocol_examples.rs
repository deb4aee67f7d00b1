//! The examples of `docs/protocol.md`, played against a real server in one story: each request is
//! sent as it stands there, and each answer has the shape that is shown. The examples of the page
//! of the first stage (`fixtures/protocol-first-stage.md`) are played too; [`ADDED`] lists what
//! answers have gained since then.
//!
//! Every handle in an answer resolves for the caller that got it, and not for another one.
//!
//! An id of the page stands for one of the story: what an answer shows under a name is what a later
//! request means by it. What the page cuts short (`…`) is not looked at.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "support/handles.rs"]
mod handles;
#[path = "protocol_examples/page.rs"]
mod page;
#[path = "protocol_examples/shape.rs"]
mod shape;
#[path = "support/socket.rs"]
mod socket;

use std::collections::{BTreeMap, BTreeSet};

use page::Example;
use serde_json::{Value, json};
use shape::Names;
use testkit::server::{ServerOptions, TestServer};
use testkit::wait::{PATIENCE, within};

/// The methods whose examples depend on each other, in the order of the story. Those of `agents`
/// have the names of `claudecode` on the page of the first stage. A step in capitals is what
/// happens between two examples. A method that stands on the page and not here is played at
/// [`OTHER_METHODS`].
const STORY: &[&str] = &[
    "plexus.version",
    "plexus.health",
    "plexus.methods",
    "plexus.schema",
    "plexus.plugins",
    "agents.kinds",
    "agents.create",
    "agents.chat_async",
    "loopback.wait_for_approval",
    "loopback.pending",
    "loopback.files",
    "loopback.preview",
    "loopback.rule_preview",
    // Before `poll`, so that its cursor is after the message.
    "agents.send",
    "agents.poll",
    "agents.wait",
    "loopback.respond",
    "WAIT UNTIL docs HAS ENDED",
    "agents.follow",
    "loopback.history",
    "loopback.rule_suggest",
    "agents.get",
    "agents.list",
    "agents.streams",
    "agents.get_tree",
    "agents.render_context",
    "agents.search",
    "agents.changes",
    "agents.cursor_set",
    "agents.cursors",
    "agents.cursor_delete",
    "agents.fork",
    "agents.rename",
    "plexus.resolve_handle",
    "arbor.tree_create",
    "arbor.node_create_text",
    "arbor.node_create_external",
    "arbor.tree_get",
    "arbor.tree_list",
    "arbor.tree_render",
    "arbor.node_get",
    "arbor.node_get_parent",
    "arbor.node_get_children",
    "arbor.node_get_path",
    "arbor.node_get_path_between",
    "arbor.context_list_leaves",
    "arbor.context_get_path",
    "arbor.context_get_handles",
    "agents.chat",
    "loopback.respond_many",
    "WAIT UNTIL docs HAS ENDED",
    "START A CHAT THAT HANGS",
    "agents.cancel",
    "WAIT UNTIL docs HAS ENDED",
    "loopback.rule_add",
    "loopback.rules",
    "loopback.rule_test",
    "loopback.rule_remove",
    "loopback.mode_set",
    "loopback.configure",
    "loopback.permit",
    "identity.parent",
    "identity.parents",
    "identity.revoke",
    "identity.code",
    "identity.pair",
    "identity.devices",
    "identity.unpair",
    "TRY WHAT IS FORBIDDEN",
    "loopback.audit",
    "cone.create",
    "cone.get",
    "cone.list",
    "cone.chat_async",
    "cone.poll",
    "cone.delete",
    "health.state",
    "notify.test",
    "notify.push_key",
    "notify.push_subscribe",
    "notify.push_unsubscribe",
    "notify.receivers",
    OTHER_METHODS,
    "server.backup",
    "server.prune",
    "agents.budget_set",
    "agents.delete",
    "server.stop",
];

/// The step at which the methods are played that the story does not name, in the order of their
/// names: before the server is pruned and stopped.
const OTHER_METHODS: &str = "PLAY THE OTHER METHODS";

/// Which methods a page must show.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shows {
    /// Every method of the server.
    All,
    /// Those that an earlier version had.
    Earlier,
}

/// The receivers of the server. Nothing of the story is told to them.
const RECEIVERS: &str = r#"
[[notify]]
name = "desk"
to = "command"
command = ["/bin/cat"]
events = ["breach"]

[[notify]]
name = "browsers"
to = "webpush"
events = ["breach"]
"#;

/// Why most shapes have gained a field.
const HAS_A_HANDLE: &str = "everything that is shown has a handle";

/// Fields that answers have gained since the first stage, and why.
const ADDED: &[(&str, &str)] = &[
    ("arbor.node_get .node.handle", HAS_A_HANDLE),
    ("arbor.node_get_children .nodes[].handle", HAS_A_HANDLE),
    ("arbor.tree_get .tree.handle", HAS_A_HANDLE),
    ("arbor.tree_list .trees[].handle", HAS_A_HANDLE),
    ("claudecode.get .session.handle", HAS_A_HANDLE),
    ("claudecode.render_context .messages[].handles", HAS_A_HANDLE),
    ("claudecode.streams .streams[].handle", HAS_A_HANDLE),
    ("loopback.audit .lines[].handle", HAS_A_HANDLE),
    ("loopback.history .decisions[].handle", HAS_A_HANDLE),
    ("loopback.pending .approvals[].handle", HAS_A_HANDLE),
    ("loopback.rules .rules[].handle", HAS_A_HANDLE),
    ("loopback.audit .cursor", "the story has more refused attempts than a page holds"),
    ("claudecode.chat_async .status", "a chat that its idempotency key found may have ended"),
    ("claudecode.get .session.agent", "a session says which agent it has"),
    ("claudecode.get .session.confine", "a session says which wall its children have"),
    (
        "claudecode.get .session.answer",
        "the last answer of a chat that ended comes with its session",
    ),
    ("claudecode.poll .events[].chat", "a page after a cursor may span chats"),
    ("loopback.history .decisions[].target", "tool calls have one form for every agent"),
    ("loopback.pending .approvals[].risk", "whoever decides sees how much harm a call could do"),
    ("loopback.pending .approvals[].target", "tool calls have one form for every agent"),
    ("loopback.pending .approvals[].working_dir", "whoever decides sees where a command starts"),
    ("plexus.health .activations.acp", "each activation says how it is"),
    ("plexus.health .activations.agents", "each activation says how it is"),
    ("plexus.health .activations.arbor", "each activation says how it is"),
    ("plexus.health .activations.claudecode", "each activation says how it is"),
    ("plexus.health .activations.codex", "each activation says how it is"),
    ("plexus.health .activations.cone", "each activation says how it is"),
    ("plexus.health .activations.health", "each activation says how it is"),
    ("plexus.health .activations.identity", "each activation says how it is"),
    ("plexus.health .activations.loopback", "each activation says how it is"),
    ("plexus.health .activations.notify", "each activation says how it is"),
    ("plexus.health .activations.server", "each activation says how it is"),
    ("server.prune .prompts", "prompts are pruned only when that is asked for"),
];

/// A server on which the examples of a page are played, with what is needed to compare them.
struct ServerOfExamples {
    server: TestServer,
    folder: tempfile::TempDir,
    names: Names,
    /// The token of a parent that has no sessions.
    stranger: String,
    /// How many handles were handed out.
    handles: usize,
    /// The token of a child, once `configure` has told it.
    child: Option<String>,
}

impl ServerOfExamples {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("plexus.toml");
        std::fs::write(&config, RECEIVERS).unwrap();
        let options = ServerOptions {
            plexus_bin: Some(env!("CARGO_BIN_EXE_plexus").into()),
            arguments: vec!["--config".into(), config.into()],
            ..ServerOptions::default()
        };
        let server = TestServer::with(options).await.unwrap();
        std::fs::create_dir(folder.path().join("project")).unwrap();
        let names = Names::new("/home/me", folder.path().to_str().unwrap());
        let identity = server.call("identity.parent", json!({"name": "stranger"})).await.unwrap();
        let stranger = identity["token"].as_str().unwrap().to_owned();
        Self { server, folder, names, stranger, handles: 0, child: None }
    }

    /// Plays one example and returns what is wrong with it.
    async fn play(&mut self, method: &str, example: &Example) -> Result<(), String> {
        let params = self.names.meant(&example.params);
        let answer = match method {
            "agents.follow" | "claudecode.follow" => self.first_item(method, params).await,
            "loopback.permit" => self.permit(params).await,
            "loopback.preview" => match self.preview().await {
                Some(answer) => answer,
                None => return Ok(()),
            },
            _ => self.server.call(method, params).await.map_err(|error| error.to_string()),
        }?;
        if method == "identity.pair" {
            // The device exists once it has used its code.
            let url = format!("{}/auth/exchange", self.server.url().unwrap());
            let code = json!({"code": answer["code"]});
            let http = reqwest::Client::builder().no_proxy().build().unwrap();
            let exchanged = http.post(url).json(&code).send().await.unwrap();
            assert_eq!(exchanged.status(), 200);
        }
        if method == "loopback.configure" {
            self.child = Some(token_of(&answer));
        }
        self.resolve(&answer).await?;
        self.names
            .learn(method, &example.answer, &answer)
            .map_err(|wrong| format!("{wrong}\n  the answer was {answer}"))
    }

    /// Resolves every handle of an answer, as the caller that got it and as one that may not.
    async fn resolve(&mut self, answer: &Value) -> Result<(), String> {
        for handle in handles::handles_in(answer) {
            let params = json!({"handle": handle});
            let resolved = self.server.call("plexus.resolve_handle", params.clone()).await;
            let resolved = resolved.map_err(|error| format!("{handle}: {error}"))?;
            if !resolved["type"].is_string() {
                return Err(format!("{handle} is {resolved}"));
            }
            let strange = self.server.call_as(&self.stranger, "plexus.resolve_handle", params);
            match strange.await.unwrap() {
                Err(refused) if refused.kind() == "not_found" => {}
                other => return Err(format!("{handle} is {other:?} for a stranger")),
            }
            self.handles += 1;
        }
        Ok(())
    }

    /// Calls a streaming method and returns its first item.
    async fn first_item(&self, method: &str, params: Value) -> Result<Value, String> {
        let mut heard = socket::first_message(&self.server, method, params).await;
        match heard["method"].as_str() {
            Some("stream") => Ok(heard["params"]["event"].take()),
            _ => Err(format!("no item: {heard}")),
        }
    }

    /// Asks as a child, and has the operator allow it.
    async fn permit(&self, params: Value) -> Result<Value, String> {
        let child = self.child.as_deref().expect("configure comes first");
        let asking = self.server.call_as(child, "loopback.permit", params.clone());
        let deciding = async {
            let waiting = self
                .server
                .call("loopback.wait_for_approval", json!({"wait_ms": 60_000}))
                .await
                .unwrap();
            let id = &waiting["approvals"][0]["id"];
            self.server
                .call("loopback.respond", json!({"approval_id": id, "approve": true}))
                .await
                .unwrap();
        };
        let (answer, ()) = tokio::join!(asking, deciding);
        answer.unwrap().map_err(|error| error.to_string())
    }

    /// Tries a command that a session with a wall asks about; `None` where this machine can build
    /// no wall for a dry run.
    async fn preview(&self) -> Option<Result<Value, String>> {
        let stage = plexus_confine::StageProgram {
            program: env!("CARGO_BIN_EXE_plexus").into(),
            arguments: ["confine", "--stage"].map(Into::into).to_vec(),
        };
        if plexus_confine::probe(&stage).unwrap().dry_run.is_some() {
            return None;
        }
        let work = self.folder.path().join("walled");
        std::fs::create_dir(&work).unwrap();
        let params = json!({"name": "walled", "working_dir": work, "confine": "workspace"});
        let session = self.server.call("agents.create", params).await.unwrap()["id"].clone();
        let configured = self.server.call("loopback.configure", json!({"session_id": session}));
        let configured = configured.await.unwrap();
        let token = token_of(&configured);
        let input = json!({"command": "echo over the wall > haiku.txt; echo done"});
        let params = json!({"tool_name": "Bash", "input": input, "tool_use_id": "tried"});
        let asking = self.server.call_as(&token, "loopback.permit", params);
        let trying = async {
            let params = json!({"session_id": session, "wait_ms": 60_000});
            let waiting = self.server.call("loopback.wait_for_approval", params).await.unwrap();
            let approval = &waiting["approvals"][0];
            assert_eq!(approval["preview"], true, "{approval:#}");
            let params = json!({"approval_id": approval["id"]});
            let answer = self.server.call("loopback.preview", params).await;
            assert!(!work.join("haiku.txt").exists(), "the real directory was changed");
            self.server.call("agents.delete", json!({"session_id": session})).await.unwrap();
            answer.map_err(|error| error.to_string())
        };
        let (_, answer) = tokio::join!(asking, trying);
        Some(answer)
    }

    /// Does a step that stands between two examples.
    async fn between(&self, step: &str) {
        match step {
            "WAIT UNTIL docs HAS ENDED" => {
                let ended = async {
                    loop {
                        let got = self
                            .server
                            .call("claudecode.get", json!({"name": "docs"}))
                            .await
                            .unwrap();
                        match got["session"]["status"].as_str().unwrap() {
                            "running" | "awaiting_permission" => {
                                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                            }
                            _ => return,
                        }
                    }
                };
                within("the end of the chat", PATIENCE, ended).await;
            }
            "START A CHAT THAT HANGS" => {
                let params = json!({"name": "docs", "prompt": "sim:\nhang"});
                self.server.call("claudecode.chat_async", params).await.unwrap();
            }
            "TRY WHAT IS FORBIDDEN" => {
                let child = self.child.as_deref().expect("configure comes first");
                self.server
                    .call_as(child, "claudecode.list", json!({}))
                    .await
                    .unwrap()
                    .unwrap_err();
            }
            other => panic!("nobody knows how to {other}"),
        }
    }
}

/// The token that `configure` made.
fn token_of(configured: &Value) -> String {
    let headers = &configured["mcp_config"]["mcpServers"]["plexus"]["headers"];
    let header = headers["Authorization"].as_str().unwrap();
    header.strip_prefix("Bearer ").unwrap().to_owned()
}

/// Plays every example of a page. A field of an answer that the page does not show must be in
/// `added`, with the reason.
async fn play(page: &str, sessions: &str, shows: Shows, added: &[(&str, &str)]) {
    let examples = page::read(page);
    let mut setup = ServerOfExamples::new().await;
    let listed = setup.server.call("plexus.methods", json!({})).await.unwrap();
    let mut methods: BTreeSet<String> = listed["methods"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap().to_owned())
        .collect();
    // Only children may call it, so the operator's list does not have it.
    methods.insert("loopback.permit".to_owned());
    for method in examples.keys() {
        assert!(methods.contains(method), "{method} is shown and no longer there");
    }

    let mut wrong = BTreeMap::new();
    if shows == Shows::All {
        // The methods of sessions are shown under one of their two names.
        let unshown = methods.iter().filter(|it| !it.starts_with("claudecode."));
        for method in unshown.filter(|it| !examples.contains_key(*it)) {
            wrong.insert(method.clone(), "the page shows no request with its answer".to_owned());
        }
    }
    let in_story: BTreeSet<String> = STORY.iter().map(|step| named(step, sessions)).collect();
    let others: Vec<&str> =
        examples.keys().map(String::as_str).filter(|it| !in_story.contains(*it)).collect();
    let steps = STORY.iter().copied().flat_map(|step| match step {
        OTHER_METHODS => others.clone(),
        _ => vec![step],
    });
    for step in steps {
        let name = named(step, sessions);
        match examples.get(&name) {
            // A method that the page need not show, or the report says so already.
            None if step.contains('.') => {}
            None => setup.between(step).await,
            Some(example) => {
                if let Err(problem) = setup.play(&name, example).await {
                    wrong.insert(name, problem);
                }
            }
        }
    }
    let report: Vec<String> =
        wrong.iter().map(|(method, problem)| format!("{method}: {problem}")).collect();
    assert!(wrong.is_empty(), "{}\nin {}", report.join("\n"), setup.folder.path().display());
    assert!(setup.handles > 20, "only {} handles were handed out", setup.handles);
    let listed: BTreeSet<String> = added.iter().map(|(place, _)| (*place).to_owned()).collect();
    assert_eq!(setup.names.added, listed, "fields that are not shown, and those that are listed");
}

/// The name of a method, with the methods of sessions in this namespace. `kinds` is in one alone.
fn named(method: &str, sessions: &str) -> String {
    match method.strip_prefix("agents.") {
        Some(name) if name != "kinds" => format!("{sessions}.{name}"),
        _ => method.to_owned(),
    }
}

#[tokio::test]
async fn every_example_of_the_protocol_is_answered_as_it_is_shown() {
    play("docs/protocol.md", "agents", Shows::All, &[]).await;
}

#[tokio::test]
async fn every_example_of_the_first_stage_still_means_the_same() {
    let page = "crates/plexus/tests/fixtures/protocol-first-stage.md";
    play(page, "claudecode", Shows::Earlier, ADDED).await;
}
