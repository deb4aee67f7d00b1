//! The MCP channel: the permit call, every form of its answer, and lost connections.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::driver::{Finished, Sandbox, tool_results};
use crate::permit_server::{PermitServer, Reply, permit_flags, text_result};

const TOUCH: &str = "sim:\ntool Bash {\"command\":\"touch a\",\"description\":\"t\"}\nsay done";

fn run(sandbox: &Sandbox, server: &PermitServer, script: &str) -> Finished {
    sandbox.run(&permit_flags(&server.config()), script)
}

fn result_text(run: &Finished) -> &str {
    tool_results(&run.lines)[0]["message"]["content"][0]["content"].as_str().unwrap()
}

#[test]
fn the_permit_call_carries_exactly_what_the_cli_sends() {
    let server = PermitServer::allowing();
    let sandbox = Sandbox::new();
    let run = run(&sandbox, &server, TOUCH);
    assert!(sandbox.work().join("a").exists());
    let calls = server.tool_calls();
    let [call] = calls.as_slice() else { panic!("{calls:?}") };
    let tool_use =
        run.lines.iter().find(|line| line["message"]["content"][0]["type"] == "tool_use").unwrap();
    let id = &tool_use["message"]["content"][0]["id"];
    assert_eq!(call.tool(), "loopback.permit", "a dotted tool is called by its own name");
    assert_eq!(
        *call.arguments(),
        json!({"tool_name": "Bash", "input": {"command": "touch a", "description": "t"}, "tool_use_id": id})
    );
    let meta = &call.message["params"]["_meta"];
    assert_eq!(meta["claudecode/toolUseId"], *id);
    assert!(!meta["progressToken"].is_null());
    assert_eq!(call.header("authorization"), Some("Bearer token-of-the-test"));
    assert_eq!(server.all_calls()[0].message["method"], "server/discover");
}

#[test]
fn every_answer_that_is_no_permission_result_is_a_listed_denial() {
    for text in [
        r#"{"behavior":"allow","updatedInput":null}"#,
        r#"{"behavior":"allow","updatedInput":"x"}"#,
        r#"{"behavior":"deny"}"#,
        r#"Sure: {"behavior":"allow"}"#,
    ] {
        let server = PermitServer::saying(move |_| text.to_owned());
        let sandbox = Sandbox::new();
        let run = run(&sandbox, &server, TOUCH);
        assert!(
            result_text(&run)
                .starts_with("The permission prompt tool returned an invalid permission result.")
        );
        assert_eq!(run.result()["permission_denials"].as_array().unwrap().len(), 1, "{text}");
        assert_eq!(run.result()["subtype"], "success");
        assert!(!sandbox.work().join("a").exists());
    }
}

#[test]
fn a_failed_permit_call_is_a_tool_error_and_no_denial() {
    let allow = text_result(r#"{"behavior":"allow"}"#);
    let with = |key: &str, value: Value| {
        let mut result = allow.clone();
        result[key] = value;
        result
    };
    for (result, expected) in [
        (Some(with("structuredContent", json!({}))), "Expected a single text block param"),
        (Some(json!({"content": []})), "Expected a single text block param"),
        (Some(with("isError", json!(true))), "{\"behavior\":\"allow\"}"),
        (None, "permit broke"),
    ] {
        let server = PermitServer::start(move |_| match &result {
            Some(result) => Reply::Result(result.clone()),
            None => Reply::Error("permit broke"),
        });
        let sandbox = Sandbox::new();
        let run = run(&sandbox, &server, TOUCH);
        let text = result_text(&run);
        assert!(
            text.starts_with("<tool_use_error>Error calling tool (Bash): ")
                && text.contains(expected),
            "{text}"
        );
        assert_eq!(run.result()["permission_denials"], json!([]));
        assert!(!sandbox.work().join("a").exists());
    }
}

#[test]
fn a_bare_allow_runs_the_original_input() {
    for text in [r#"{"behavior":"allow"}"#, r#"{"behavior":"allow","updatedInput":{}}"#] {
        let server = PermitServer::saying(move |_| text.to_owned());
        let sandbox = Sandbox::new();
        run(&sandbox, &server, TOUCH);
        assert!(sandbox.work().join("a").exists(), "{text}");
    }
}

#[test]
fn a_denial_that_interrupts_ends_the_run_with_1() {
    let server = PermitServer::saying(|_| {
        r#"{"behavior":"deny","message":"m","interrupt":true}"#.to_owned()
    });
    let run = run(&Sandbox::new(), &server, TOUCH);
    assert_eq!(run.result()["subtype"], "error_during_execution");
    assert_eq!(run.code(), Some(1));
}

#[test]
fn reads_ask_at_the_same_time_and_bash_one_after_the_other() {
    // Each call waits for a second one; only concurrent calls ever see it.
    for (tool, input, together) in [
        ("Read", r#"{"file_path":"/etc/hosts"}"#, true),
        ("Bash", r#"{"command":"touch a"}"#, false),
    ] {
        let open = AtomicUsize::new(0);
        let server = PermitServer::start(move |call| {
            let before = open.fetch_add(1, Ordering::SeqCst);
            let deadline = std::time::Instant::now()
                + std::time::Duration::from_millis(if together { 20_000 } else { 300 });
            while open.load(Ordering::SeqCst) < 2
                && before == 0
                && std::time::Instant::now() < deadline
            {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            let message =
                if open.load(Ordering::SeqCst) >= 2 && before == 0 { "together" } else { "alone" };
            assert_eq!(call.tool(), "loopback.permit");
            Reply::Result(text_result(&json!({"behavior": "deny", "message": message}).to_string()))
        });
        let run = run(
            &Sandbox::new(),
            &server,
            &format!("sim:\nparallel {tool} {input} ;; {tool} {input}"),
        );
        let met = tool_results(&run.lines)
            .iter()
            .any(|line| line["message"]["content"][0]["content"] == "together");
        assert_eq!(met, together, "{tool}");
    }
}

#[test]
fn other_tools_of_the_server_are_really_called_and_the_permit_is_hidden() {
    let server = PermitServer::start(|call| match call.tool() {
        "status" => Reply::Result(text_result(r#"{"load":0.5}"#)),
        _ => Reply::Result(text_result(r#"{"behavior":"allow"}"#)),
    });
    let run = run(
        &Sandbox::new(),
        &server,
        "sim:\ntool mcp__plexus__status {\"x\":1}\nsay load ${last.load}",
    );
    assert_eq!(run.result()["result"], "load 0.5");
    let init = run.lines.iter().find(|line| line["subtype"] == "init").unwrap();
    let tools = init["tools"].as_array().unwrap();
    assert!(tools.contains(&json!("mcp__plexus__status")));
    assert!(!tools.contains(&json!("mcp__plexus__loopback_permit")));
    assert_eq!(
        init["mcp_servers"],
        json!([{"name": "plexus", "status": "connected", "source": "dynamic"}])
    );
}

#[test]
fn a_server_that_cannot_be_reached_ends_the_run_at_the_first_question() {
    let config = r#"{"mcpServers":{"plexus":{"type":"http","url":"http://127.0.0.1:1/mcp"}}}"#;
    let run = Sandbox::new().run(&permit_flags(config), TOUCH);
    let init = run.lines.iter().find(|line| line["subtype"] == "init").unwrap();
    assert_eq!(init["mcp_servers"][0]["status"], "failed");
    assert!(result_text(&run).contains("not found"));
    assert!(!run.lines.iter().any(|line| line["type"] == "result"));
    assert_eq!(run.code(), Some(1));
}

#[test]
fn a_stream_that_is_lost_is_taken_up_again_after_its_last_event() {
    const EVENT_STREAM: &str =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
    let waiting = Mutex::new(Value::Null);
    let server = PermitServer::start(move |call| match call.http_method.as_str() {
        // The call gets a stream with an event id to resume from, and then the connection is lost.
        "POST" => {
            *waiting.lock().unwrap() = call.message["id"].clone();
            Reply::Raw(format!("{EVENT_STREAM}id: first\nretry: 10\ndata:\n\n"))
        }
        _ if call.header("last-event-id") == Some("first") => {
            let id = waiting.lock().unwrap().clone();
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": text_result(r#"{"behavior":"allow"}"#)});
            Reply::Raw(format!("{EVENT_STREAM}id: second\ndata: {answer}\n\n"))
        }
        _ => Reply::Raw(
            "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                .to_owned(),
        ),
    });
    let sandbox = Sandbox::new();
    let run = run(&sandbox, &server, TOUCH);
    assert!(sandbox.work().join("a").exists(), "{:?}", tool_results(&run.lines));
    assert_eq!(server.tool_calls().len(), 1, "the call is not made again");
}

#[test]
fn a_forgotten_session_is_opened_again_and_the_call_made_again() {
    let calls = AtomicUsize::new(0);
    let server = PermitServer::with_session(move |call| {
        // A session also has its own stream, which this server does not offer.
        let status = match call.http_method.as_str() {
            "POST" if calls.fetch_add(1, Ordering::SeqCst) > 0 => {
                return Reply::Result(text_result(r#"{"behavior":"allow"}"#));
            }
            "POST" => "404 Not Found",
            _ => "405 Method Not Allowed",
        };
        Reply::Raw(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
    });
    let sandbox = Sandbox::new();
    let run = run(&sandbox, &server, TOUCH);
    assert!(sandbox.work().join("a").exists(), "{:?}", tool_results(&run.lines));
    let calls = server.tool_calls();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0].arguments(), calls[1].arguments());
}

#[test]
fn a_stdio_server_is_started_and_asked() {
    let sandbox = Sandbox::new();
    let script = r#"while read -r line; do
id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
case "$line" in
*'"initialize"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}}";;
*'"tools/list"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"tools\":[{\"name\":\"loopback_permit\",\"inputSchema\":{\"type\":\"object\"}}]}}";;
*'"tools/call"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"{\\\"behavior\\\":\\\"allow\\\"}\"}]}}";;
*'"server/discover"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"no\"}}";;
esac
done"#;
    let file = sandbox.work().join("server.sh");
    std::fs::write(&file, script).unwrap();
    let config = json!({"mcpServers": {"plexus": {"command": "sh", "args": [file]}}}).to_string();
    let run = sandbox.run(&permit_flags(&config), TOUCH);
    assert!(sandbox.work().join("a").exists(), "{:?} {}", tool_results(&run.lines), run.stderr);
}
