//! Calls that are generated from the server's own schemas, valid and broken, by every kind of
//! caller at both doors.
//!
//! Whatever is sent, the server lives, is never at fault (`internal`, HTTP 5xx), and does nothing
//! for a caller that may not ask for it; and each answer is what the schema of its method says. The
//! calls are random and their seed is printed: `PLEXUS_TEST_SEED=N` plays the same ones again.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "schema_calls/answers.rs"]
mod answers;
#[path = "schema_calls/generate.rs"]
mod generate;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use generate::{Pool, Random};
use serde_json::{Value, json};
use testkit::server::{ServerOptions, TestServer};
use testkit::wait::PATIENCE;

/// Calls at least this many; a loaded machine stops there, a free one goes on to [`MOST_CALLS`].
const LEAST_CALLS: usize = 300;
const MOST_CALLS: usize = 1_200;

/// How long new calls are begun once there were [`LEAST_CALLS`].
const LONG_ENOUGH: Duration = Duration::from_secs(8);

/// How long a call that waits by design (a permission request) is listened to before its client
/// hangs up, if the caller may make it. Otherwise the call is refused, which may take longer.
const HANG_UP: Duration = Duration::from_millis(300);

/// Methods that would stop the server or end the tokens that the test uses.
const NOT_BY_THE_OPERATOR: &[&str] = &["server.stop", "identity.parent", "identity.revoke"];

/// A caller, and what the server says it may call.
struct Who {
    name: &'static str,
    token: String,
    may: BTreeSet<String>,
}

/// A method with the schemas of its parameters and of its answer.
struct Target {
    name: String,
    params: Value,
    result: Value,
}

/// The outcome of a call.
enum Came {
    Result(Value),
    Refusal(Value),
    HungUp,
}

/// A server with the tokens of an operator, a parent and a child, and the methods to call.
struct ServerWithCallers {
    server: TestServer,
    http: reqwest::Client,
    callers: Vec<Who>,
    targets: Vec<Target>,
    pool: Pool,
    _folder: tempfile::TempDir,
}

impl ServerWithCallers {
    async fn new() -> Self {
        let options = ServerOptions {
            plexus_bin: Some(env!("CARGO_BIN_EXE_plexus").into()),
            ..ServerOptions::default()
        };
        let server = TestServer::with(options).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().to_str().unwrap().to_owned();
        let parent = server.call("identity.parent", json!({"name": "parent"})).await.unwrap();
        let parent_token = parent["token"].as_str().unwrap().to_owned();
        // A session of each: the operator's own, and one below the parent that acts as a child.
        let create =
            |name: &str| json!({"name": name, "working_dir": work, "loopback_timeout_secs": 1});
        let own = server.call("claudecode.create", create("own")).await.unwrap();
        let below = server
            .call_as(&parent_token, "claudecode.create", create("below"))
            .await
            .unwrap()
            .unwrap();
        let configured =
            server.call("loopback.configure", json!({"session_id": below["id"]})).await.unwrap();
        let header = configured["mcp_config"]["mcpServers"]["plexus"]["headers"]["Authorization"]
            .as_str()
            .unwrap();
        let child_token = header.strip_prefix("Bearer ").unwrap().to_owned();
        let started = json!({"session_id": own["id"], "prompt": "sim:\nsay hello"});
        server.call("claudecode.chat_async", started).await.unwrap();
        let polled = server
            .call("claudecode.poll", json!({"session_id": own["id"], "wait_ms": 20_000}))
            .await
            .unwrap();

        let tokens = [
            ("operator", server.token().unwrap().to_owned()),
            ("parent", parent_token),
            ("child", child_token),
        ];
        let (mut callers, mut targets) = (Vec::new(), Vec::<Target>::new());
        for (name, token) in tokens {
            let listed = server.call_as(&token, "plexus.schema", json!({})).await.unwrap().unwrap();
            let mut may = BTreeSet::new();
            for method in listed["methods"].as_array().expect("plexus.schema lists methods") {
                let full = method["name"].as_str().unwrap().to_owned();
                if !targets.iter().any(|target| target.name == full) {
                    let [params, result] = ["params", "result"].map(|part| method[part].clone());
                    targets.push(Target { name: full.clone(), params, result });
                }
                may.insert(full);
            }
            callers.push(Who { name, token, may });
        }
        let pool = Pool::new(&[&own, &below, &parent, &polled], &work);
        // A connection for each call: a connection that breaks is then this call's own, not one
        // that was closed after the call before.
        let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0);
        let http = http.timeout(Duration::from_secs(120)).build().unwrap();
        Self { server, http, callers, targets, pool, _folder: folder }
    }

    /// Makes one call and returns what came of it; fails when the server is at fault.
    async fn call(&self, who: &Who, door: &str, target: &Target, params: Value) -> Came {
        let what = || {
            format!(
                "{} called {} at {door} with {:.600}",
                who.name,
                target.name,
                params.to_string()
            )
        };
        let body = match door {
            "rpc" => json!({"jsonrpc": "2.0", "id": 1, "method": target.name, "params": params}),
            _ => json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": target.name.replacen('.', "_", 1), "arguments": params,
                    "_meta": {"io.modelcontextprotocol/protocolVersion": "2025-11-25"}}}),
        };
        let mut request = self
            .http
            .post(format!("{}/{door}", self.server.url().unwrap()))
            .bearer_auth(&who.token);
        if door == "mcp" {
            request = request
                .header("accept", "application/json, text/event-stream")
                .header("mcp-session-id", self.pool.mcp_session(who.name))
                .header("mcp-protocol-version", "2025-11-25");
        }
        let answered = async {
            let response = request.json(&body).send().await.unwrap_or_else(|error| {
                let log = self.server.log();
                let tail = log.len().saturating_sub(3_000);
                panic!(
                    "{}: {error:?}; the server said at last: {}",
                    what(),
                    log.get(tail..).unwrap_or_default()
                )
            });
            (response.status().as_u16(), response.text().await.unwrap_or_default())
        };
        let (status, text) = if target.name == "loopback.permit" {
            let may = who.may.contains(&target.name);
            match tokio::time::timeout(if may { HANG_UP } else { PATIENCE }, answered).await {
                Ok(answer) => answer,
                Err(_elapsed) => return Came::HungUp,
            }
        } else {
            answered.await
        };
        assert!(status < 500 || status == 503, "{}: HTTP {status} {text:.600}", what());
        let Some(answer) = answer_in(&text) else {
            assert!(
                (400..500).contains(&status) || status == 503,
                "{}: HTTP {status} {text:.600}",
                what()
            );
            return Came::Refusal(json!({"kind": "invalid", "http": status}));
        };
        let came = understood(&answer);
        if let Came::Refusal(error) = &came {
            assert!(error["kind"] != "internal" && error["code"] != -32603, "{}: {error}", what());
        }
        came
    }
}

/// Finds the JSON-RPC answer in a body that is JSON, or a stream of events whose last one it is.
fn answer_in(text: &str) -> Option<Value> {
    let is_answer =
        |message: &Value| message.get("result").is_some() || message.get("error").is_some();
    let whole = serde_json::from_str::<Value>(text).ok().filter(is_answer);
    whole.or_else(|| {
        let lines = text.lines().rev().filter_map(|line| line.strip_prefix("data:"));
        lines.filter_map(|data| serde_json::from_str(data).ok()).find(is_answer)
    })
}

/// Reads both doors the same way: over MCP a failure is a tool result, and a failed permission
/// request a denial.
fn understood(answer: &Value) -> Came {
    if let Some(error) = answer.get("error") {
        let mut data = error["data"].clone();
        if !data.is_object() {
            data = json!({"kind": "invalid"});
        }
        data["code"] = error["code"].clone();
        return Came::Refusal(data);
    }
    let result = &answer["result"];
    let Some(text) = result["content"][0]["text"].as_str() else {
        return Came::Result(result.clone());
    };
    let said: Value = serde_json::from_str(text).unwrap_or_default();
    if result["isError"] == true || said["behavior"] == "deny" {
        Came::Refusal(said)
    } else {
        Came::Result(said)
    }
}

async fn begin_mcp(setup: &ServerWithCallers, who: &Who) -> String {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}});
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let post = |body: Value| {
        let request =
            setup.http.post(format!("{}/mcp", setup.server.url().unwrap())).bearer_auth(&who.token);
        request.header("accept", "application/json, text/event-stream").json(&body)
    };
    let response = post(body).send().await.unwrap();
    let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    response.bytes().await.unwrap();
    let initialized = post(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let status = initialized.header("mcp-session-id", &session).send().await.unwrap().status();
    assert!(status.is_success(), "{status}");
    session
}

/// `plexus-activations` holds the other files of `schemas/` to its code; those of `server` are
/// wired in by the program. `UPDATE_SCHEMAS=1` writes them anew.
#[tokio::test]
async fn plexus_schema_covers_every_method_of_the_wire() {
    let options = ServerOptions {
        plexus_bin: Some(env!("CARGO_BIN_EXE_plexus").into()),
        ..ServerOptions::default()
    };
    let server = TestServer::with(options).await.unwrap();
    let shown = server.call("plexus.schema", json!({})).await.unwrap();
    let shown = shown["methods"].as_array().unwrap();
    let names: BTreeSet<&str> = shown.iter().map(|it| it["name"].as_str().unwrap()).collect();
    let document = plexus_wire::document::document();
    let mut of_the_wire: BTreeSet<&str> =
        document["methods"].as_object().unwrap().keys().map(String::as_str).collect();
    // Only children may call it.
    of_the_wire.remove("loopback.permit");
    assert_eq!(names, of_the_wire);

    let folder = testkit::fixtures::workspace_root().join("schemas");
    for method in shown {
        let name = method["name"].as_str().unwrap();
        if !name.starts_with("server.") && !name.starts_with("notify.") {
            continue;
        }
        let (params, result) = (&method["params"], &method["result"]);
        let file = json!({"method": name, "description": method["description"], "shape": "unary", "params": params, "result": result});
        let (path, text) = (folder.join(format!("{name}.json")), format!("{file:#}\n"));
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(found, text, "{name}: run with UPDATE_SCHEMAS=1");
    }
}

#[tokio::test]
async fn no_generated_call_is_the_servers_fault_or_goes_beyond_its_caller() {
    let mut random = Random::seeded();
    let mut setup = ServerWithCallers::new().await;
    let mut sessions = Vec::new();
    for who in &setup.callers {
        sessions.push((who.name, begin_mcp(&setup, who).await));
    }
    setup.pool.set_mcp_sessions(sessions);
    let pid = setup.server.pid().unwrap();
    let started = Instant::now();
    let (mut made, mut succeeded, mut beyond) = (0, BTreeSet::new(), 0);
    while made < LEAST_CALLS || (made < MOST_CALLS && started.elapsed() < LONG_ENOUGH) {
        let who = &setup.callers[random.below(setup.callers.len())];
        let target = &setup.targets[random.below(setup.targets.len())];
        if who.name == "operator" && NOT_BY_THE_OPERATOR.contains(&target.name.as_str()) {
            continue;
        }
        let door = ["rpc", "mcp"][random.below(2)];
        let params = generate::call(&mut random, &setup.pool, &target.params);
        let came = setup.call(who, door, target, params.clone()).await;
        made += 1;
        let may = who.may.contains(&target.name);
        beyond += usize::from(!may);
        match came {
            Came::Result(result) => {
                assert!(
                    may,
                    "{} got {result} from {} at {door}, which is not on its list",
                    who.name, target.name
                );
                if let Err(wrong) = answers::fits(&target.result, &target.result, &result, "") {
                    panic!(
                        "{} called with {params} is not as its schema says: {wrong}\n{result}",
                        target.name
                    );
                }
                succeeded.insert(&target.name);
            }
            Came::Refusal(_) => {}
            Came::HungUp => assert!(may, "{} was let wait at {door} by {}", who.name, target.name),
        }
    }
    let health = setup.server.call("plexus.health", json!({})).await.unwrap();
    assert_eq!(setup.server.pid().unwrap(), pid);
    assert!(health.is_object(), "{health}");
    assert!(!setup.server.log().contains("panicked"), "{}", setup.server.log());
    // Calls that were all refused would prove little.
    assert!(beyond > made / 20, "{beyond} of {made} calls were beyond their caller");
    assert!(
        succeeded.len() * 5 > setup.targets.len(),
        "only {succeeded:?} of {} methods succeeded",
        setup.targets.len()
    );
    println!(
        "{made} calls in {:?}; {} of {} methods succeeded",
        started.elapsed(),
        succeeded.len(),
        setup.targets.len()
    );
}
