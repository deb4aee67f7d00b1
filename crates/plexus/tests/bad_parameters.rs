//! Bad parameters of every method at a real door: each is `invalid` with the path of its field, and
//! leaves nothing behind.
//!
//! The first table is made from the schemas that the server shows, so a parameter that is added
//! later is in it. The second holds what a schema cannot say.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "support/socket.rs"]
mod socket;

use serde_json::{Value, json};
use testkit::server::{RpcError, ServerOptions, TestServer};

/// Methods that take fields that they do not know: the CLI sends more to them with every version.
const TAKES_UNKNOWN_FIELDS: &[&str] = &["loopback.permit"];

/// Texts that may be longer are tried by the suite of their activation: one call takes a second.
const LONG: u64 = 1024 * 1024;

const NOBODY: &str = "00000000-0000-7000-8000-000000000000";

/// A server with one session, and the token of its child.
struct ServerWithSession {
    server: TestServer,
    operator: String,
    child: String,
    session: String,
    work: String,
    _folder: tempfile::TempDir,
}

impl ServerWithSession {
    async fn new() -> Self {
        let options = ServerOptions {
            plexus_bin: Some(env!("CARGO_BIN_EXE_plexus").into()),
            ..ServerOptions::default()
        };
        let server = TestServer::with(options).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().to_str().unwrap().to_owned();
        let params = json!({"name": "s", "working_dir": work});
        let session = server.call("claudecode.create", params).await.unwrap()["id"].clone();
        let configured =
            server.call("loopback.configure", json!({"session_id": session})).await.unwrap();
        let headers = &configured["mcp_config"]["mcpServers"]["plexus"]["headers"];
        let child = headers["Authorization"].as_str().unwrap().strip_prefix("Bearer ").unwrap();
        Self {
            operator: server.token().unwrap().to_owned(),
            child: child.to_owned(),
            session: session.as_str().unwrap().to_owned(),
            work,
            server,
            _folder: folder,
        }
    }

    async fn refused(&self, method: &str, params: &Value) -> RpcError {
        if method.ends_with(".follow") {
            let message = socket::first_message(&self.server, method, params.clone()).await;
            return serde_json::from_value(message["error"].clone())
                .unwrap_or_else(|_| panic!("{method} took {params:.300}: {message}"));
        }
        let token = if method == "loopback.permit" { &self.child } else { &self.operator };
        let came = self.server.call_as(token, method, params.clone()).await.unwrap();
        came.expect_err(&format!("{method} took {params:.300}"))
    }

    /// The counts that a partly executed call would change.
    async fn counts(&self) -> Value {
        let state = self.server.call("health.state", json!({})).await.unwrap();
        let rules = self.server.call("loopback.rules", json!({})).await.unwrap();
        let parents = self.server.call("identity.parents", json!({})).await.unwrap();
        let readers = json!({"session_id": self.session});
        let readers = self.server.call("claudecode.cursors", readers).await.unwrap();
        let trees = self.server.call("arbor.tree_list", json!({})).await.unwrap();
        let counts = &state["counts"];
        json!([
            counts["sessions"],
            counts["events"],
            counts["chats_running"],
            counts["runs_open"],
            counts["approvals_pending"],
            state["children"],
            rules,
            parents,
            readers,
            trees,
        ])
    }
}

/// Parameters that must be refused, and the path that the refusal must name.
struct Bad {
    params: Value,
    field: String,
}

/// Makes the bad values of everything below `schema`, which is found at `path`.
fn bad_values(root: &Value, schema: &Value, path: &str, wrap: &dyn Fn(Value) -> Value) -> Vec<Bad> {
    let schema = meant(root, schema);
    let bad = |value: Value| Bad { params: wrap(value), field: path.to_owned() };
    let mut all = Vec::new();
    let kinds = kinds(schema);
    // A number is the wrong type for everything but numbers; a text is wrong for those.
    match kinds.iter().any(|kind| kind == "integer" || kind == "number") {
        true => all.push(bad(json!("seven"))),
        false if !kinds.is_empty() || schema.get("enum").is_some() => all.push(bad(json!(7))),
        false => {}
    }
    if schema.get("enum").is_some() {
        all.push(bad(json!("no such word")));
    }
    if let Some(least) = schema["minimum"].as_f64() {
        all.push(bad(json!((least as i64) - 1)));
    }
    if let Some(most) = schema["maximum"].as_u64() {
        all.push(bad(json!(most + 1)));
        all.push(bad(json!(u64::MAX)));
    }
    if schema["minLength"].as_u64().is_some_and(|least| least > 0) {
        all.push(bad(json!("")));
    }
    if let Some(most) = schema["maxLength"].as_u64().filter(|most| *most <= LONG) {
        all.push(bad(json!("x".repeat(most as usize + 1))));
    }
    if schema["format"] == "uuid" {
        all.push(bad(json!("not-an-id")));
    }
    if schema["minItems"].as_u64().is_some_and(|least| least > 0) {
        all.push(bad(json!([])));
    }
    if let Some(most) = schema["maxItems"].as_u64() {
        // Valid items, so that only their count is wrong.
        let of = meant(root, &schema["items"]);
        let item = match (of["type"].as_str(), of["format"].as_str()) {
            (Some("object"), _) => json!({"mime_type": "image/png", "data": "AA=="}),
            (_, Some("uuid")) => json!(NOBODY),
            // Some of these are directories.
            _ => json!("/"),
        };
        all.push(bad(json!(vec![item; most as usize + 1])));
    }
    if let Some(items) = schema.get("items") {
        let each = |value: Value| wrap(json!([value]));
        all.extend(bad_values(root, items, &format!("{path}[0]"), &each));
    }
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        let each = |value: Value| wrap(json!({"KEY": value}));
        all.extend(bad_values(root, values, &format!("{path}.KEY"), &each));
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let each = |value: Value| wrap(json!({name: value}));
        all.extend(bad_values(root, inner, &below(path, name), &each));
    }
    if schema["additionalProperties"] == false {
        let field = below(path, "no_such_parameter");
        all.push(Bad { params: wrap(json!({"no_such_parameter": 1})), field });
    }
    all
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Follows references; of an optional value, returns the schema that is not `null`.
fn meant<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    if let Some(to) = schema["$ref"].as_str() {
        return meant(root, root.pointer(to.trim_start_matches('#')).expect("it leads somewhere"));
    }
    let forms = schema["anyOf"].as_array().map(Vec::as_slice).unwrap_or_default();
    match forms {
        [one, null] if null["type"] == "null" => meant(root, one),
        _ => schema,
    }
}

fn kinds(schema: &Value) -> Vec<String> {
    match &schema["type"] {
        Value::String(kind) => vec![kind.clone()],
        kinds => serde_json::from_value(kinds.clone()).unwrap_or_default(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_parameter_of_every_method_is_refused_by_its_path() {
    let setup = ServerWithSession::new().await;
    let before = setup.counts().await;
    let (mut methods, mut tried) = (0, 0);
    for token in [&setup.operator, &setup.child] {
        let listed = setup.server.call_as(token, "plexus.schema", json!({})).await.unwrap();
        for listed in listed.unwrap()["methods"].as_array().unwrap() {
            let method = listed["name"].as_str().unwrap();
            if *token == setup.child && method != "loopback.permit" {
                continue;
            }
            methods += 1;
            let root = &listed["params"];
            let unknown = root["additionalProperties"] == false;
            assert_ne!(unknown, TAKES_UNKNOWN_FIELDS.contains(&method), "{method}: {root}");
            for bad in bad_values(root, root, "", &|value| value) {
                // Parameters that are not an object have no path.
                if bad.field.is_empty() {
                    continue;
                }
                tried += 1;
                let error = setup.refused(method, &bad.params).await;
                let shown = format!("{method} with {:.300}: {error:?}", bad.params.to_string());
                assert_eq!(error.kind(), "invalid", "{shown}");
                assert_eq!(error.data["field"], bad.field.as_str(), "{shown}");
            }
        }
    }
    println!("{tried} bad parameters of {methods} methods");
    assert!(methods >= 58 && tried >= 250, "only {tried} of {methods} methods");
    assert_eq!(setup.counts().await, before, "something was done by halves");
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_beyond_the_schema_are_refused_with_their_path_too() {
    let setup = ServerWithSession::new().await;
    let before = setup.counts().await;
    let (session, work) = (setup.session.as_str(), setup.work.as_str());
    let with = |base: Value, more: Value| {
        let mut all = base;
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let create =
        |more| ("claudecode.create", with(json!({"name": "n", "working_dir": work}), more));
    let chat = |more| {
        ("claudecode.chat_async", with(json!({"session_id": session, "prompt": "sim:"}), more))
    };
    let poll = |more| ("claudecode.poll", with(json!({"session_id": session}), more));
    let rule = |more| {
        ("loopback.rule_add", with(json!({"decision": "deny", "pattern": "Bash(ls:*)"}), more))
    };
    let cases = [
        (create(json!({"name": " "})), "name"),
        (create(json!({"name": "a\nb"})), "name"),
        (create(json!({"name": "ü".repeat(129)})), "name"),
        (create(json!({"working_dir": "relative"})), "working_dir"),
        (create(json!({"working_dir": "/no/such/folder"})), "working_dir"),
        (create(json!({"add_dirs": [work, "relative"]})), "add_dirs[1]"),
        (create(json!({"add_dirs": ["/no/such/folder"]})), "add_dirs[0]"),
        (create(json!({"model": "a\0b"})), "model"),
        (create(json!({"system_prompt": "x".repeat(1024 * 1024 + 1)})), "system_prompt"),
        (create(json!({"env": {"KEY": "a\0b"}})), "env.KEY"),
        (create(json!({"env": {"A=B": "c"}})), "env.A=B"),
        (create(json!({"allowed_tools": ["Read", "Wr\0te"]})), "allowed_tools[1]"),
        (create(json!({"allowed_tools": ["Read", "Read Bash"]})), "allowed_tools[1]"),
        (create(json!({"disallowed_tools": ["X("]})), "disallowed_tools[0]"),
        (create(json!({"may_decide": ["*", "Bash(("]})), "may_decide[1]"),
        (create(json!({"budget": {"cost_usd": -0.01}})), "budget.cost_usd"),
        (chat(json!({"prompt": " \n"})), "prompt"),
        (chat(json!({"prompt": "a\0b"})), "prompt"),
        (chat(json!({"wait_ms": 1})), "wait_ms"),
        (chat(json!({"name": "s"})), "name"),
        (("claudecode.chat_async", json!({"prompt": "x"})), "session_id"),
        (("claudecode.send", json!({"session_id": session, "text": "\0"})), "text"),
        (("claudecode.cancel", json!({"session_id": session, "reason": "\0"})), "reason"),
        (("claudecode.get", json!({"name": "\0"})), "name"),
        (poll(json!({"cursor": "nonsense"})), "cursor"),
        (poll(json!({"consumer": "a\tb"})), "consumer"),
        (poll(json!({"from_seq": 0, "consumer": "c"})), "from_seq"),
        (poll(json!({"chat": 0, "consumer": "c"})), "chat"),
        (("claudecode.list", json!({"cursor": "nonsense"})), "cursor"),
        (rule(json!({"pattern": "Bash(("})), "pattern"),
        (rule(json!({"reason": "\0"})), "reason"),
        (rule(json!({"matches": ["Bash(ls)", "Bash(pwd)"]})), "matches[1]"),
        (rule(json!({"does_not_match": ["Bash(ls)"]})), "does_not_match[0]"),
        (rule(json!({"does_not_match": ["Bash("]})), "does_not_match[0]"),
        (
            ("loopback.rule_test", json!({"tool_name": "B", "input": {}, "working_dir": "x"})),
            "working_dir",
        ),
        (("server.backup", json!({"path": "relative.db"})), "path"),
        (("server.backup", json!({"path": "/no/such/folder/plexus.db"})), "path"),
        (("server.backup", json!({"path": "/etc/hostname/plexus.db"})), "path"),
        (("server.backup", json!({"path": "/etc"})), "path"),
        (("identity.parent", json!({"name": "\t"})), "name"),
    ];
    for ((method, params), field) in cases {
        let error = setup.refused(method, &params).await;
        let shown = format!("{method} with {:.300}: {error:?}", params.to_string());
        assert_eq!(error.kind(), "invalid", "{shown}");
        assert_eq!(error.data["field"], field, "{shown}");
    }
    assert_eq!(setup.counts().await, before, "something was done by halves");
}
