//! Recorded runs with the permit tool of an MCP server, replayed with the simulator.

use serde_json::json;

use crate::driver::{Sandbox, Stdin, UNTIL_TOLD};
use crate::permit_server::{PermitServer, Reply, permit_flags, text_result};
use crate::shape::assert_same_shape;

const RUN_IT: &str = r#"sim:
say I will run it.
tool Bash {"command":"touch made.txt && echo RAN-OK","description":"test"}
say done"#;

#[test]
fn a_plain_answer_looks_like_the_recorded_one() {
    let server = PermitServer::allowing();
    let run = Sandbox::new().run(&permit_flags(&server.config()), "sim:\nsay hello");
    assert_same_shape("text", None, &without_state(&run.lines));
}

#[test]
fn an_allowed_tool_looks_like_the_recorded_one() {
    let server = PermitServer::allowing();
    let run = Sandbox::new().run(&permit_flags(&server.config()), RUN_IT);
    assert_same_shape("allow", None, &without_state(&run.lines));
    let server = PermitServer::saying(|asked| {
        let mut input = asked["input"].clone();
        input["command"] = json!("echo CHANGED-BY-SUPERVISOR");
        json!({"behavior": "allow", "updatedInput": input}).to_string()
    });
    let run = Sandbox::new().run(&permit_flags(&server.config()), RUN_IT);
    assert_same_shape("r_allow_changed", None, &without_state(&run.lines));
}

#[test]
fn a_denied_tool_looks_like_the_recorded_one() {
    let server = PermitServer::saying(|_| r#"{"behavior":"deny","message":"no"}"#.to_owned());
    let run = Sandbox::new().run(&permit_flags(&server.config()), RUN_IT);
    assert_same_shape("h_denied", None, &without_state(&run.lines));
    assert_same_shape("r_deny", None, &without_state(&run.lines));
}

#[test]
fn a_tool_error_of_the_permit_looks_like_the_recorded_one() {
    let server = PermitServer::start(|_| {
        let mut result = text_result(r#"{"behavior":"allow"}"#);
        result["structuredContent"] = json!({"behavior": "allow"});
        Reply::Result(result)
    });
    let run = Sandbox::new().run(&permit_flags(&server.config()), RUN_IT);
    assert_same_shape("r_structured", None, &without_state(&run.lines));
}

#[test]
fn a_missing_permit_tool_looks_like_the_recorded_one() {
    let server = PermitServer::allowing();
    let config = server.config();
    let flags = ["--mcp-config", &config, "--permission-prompt-tool", "mcp__plexus__nope"];
    let run = Sandbox::new().run(&flags, RUN_IT);
    assert_same_shape("n_missing", None, &without_state(&run.lines));
    assert_eq!(run.code(), Some(1));
}

#[test]
fn no_approval_surface_looks_like_the_recorded_one() {
    let server = PermitServer::allowing();
    let run = Sandbox::new().run(&["--mcp-config", &server.config()], RUN_IT);
    assert_same_shape("f_prompts_none", None, &without_state(&run.lines));
}

#[test]
fn parallel_tools_look_like_the_recorded_ones() {
    let server = PermitServer::allowing();
    let script = r#"sim:
say two
parallel Bash {"command":"touch a.txt; echo RAN-A","description":"t"} ;; Bash {"command":"touch b.txt; echo RAN-B","description":"t"}
say done"#;
    let run = Sandbox::new().run(&permit_flags(&server.config()), script);
    assert_same_shape("h_parallel", None, &without_state(&run.lines));
    let script = r#"sim:
parallel Read {"file_path":"/etc/hosts"} ;; Read {"file_path":"/etc/passwd"}
say done"#;
    let run = Sandbox::new().run(&permit_flags(&server.config()), script);
    assert_same_shape("h_parallel_rw", None, &without_state(&run.lines));
}

#[test]
fn partial_messages_look_like_the_recorded_ones() {
    let server = PermitServer::allowing();
    let config = server.config();
    let mut flags = permit_flags(&config).to_vec();
    flags.push("--include-partial-messages");
    let script = r#"sim:
think let me think
say I will run it.
tool Bash {"command":"touch made.txt; echo RAN-OK","description":"test"}
say many small deltas here"#;
    let run = Sandbox::new().run(&flags, script);
    assert_same_shape("h_partial", None, &without_state(&run.lines));
}

#[test]
fn thinking_looks_like_the_recorded_one() {
    let server = PermitServer::allowing();
    let run =
        Sandbox::new().run(&permit_flags(&server.config()), "sim:\nthink let me think\nsay answer");
    assert_same_shape("h_thinking", None, &without_state(&run.lines));
}

#[test]
fn too_many_turns_look_like_the_recorded_ones() {
    let server = PermitServer::allowing();
    let config = server.config();
    let mut flags = permit_flags(&config).to_vec();
    flags.extend(["--max-turns", "1"]);
    let script = "sim:\ntool Bash {\"command\":\"touch a.txt && echo RAN-A\",\"description\":\"test\"}\nsay never";
    let run = Sandbox::new().run(&flags, script);
    assert_same_shape("h_maxturns", None, &without_state(&run.lines));
    assert_eq!(run.code(), Some(1));
}

#[test]
fn a_background_task_looks_like_the_recorded_one() {
    let sandbox = Sandbox::new();
    let server = PermitServer::allowing();
    let config = server.config();
    let input = json!({"command": UNTIL_TOLD, "description": "bg", "run_in_background": true});
    let script = format!("sim:\ntool Bash {input}\nsay main finished");
    let mut args = vec!["--print", "--output-format", "stream-json", "--verbose"];
    args.extend(permit_flags(&config));
    args.extend(["--allowedTools", "Bash", "--", &script]);
    let mut run = sandbox.start(&args, Stdin::Closed);
    run.until_result();
    sandbox.tell();
    assert_same_shape("h_bg", None, &without_state(&run.finish().lines));
}

#[test]
fn resumed_and_forked_conversations_look_like_the_recorded_ones() {
    let sandbox = Sandbox::new();
    let server = PermitServer::allowing();
    let config = server.config();
    let first = sandbox.run(&permit_flags(&config), "sim:\nsay first");
    let id = first.result()["session_id"].as_str().unwrap().to_owned();
    let mut flags = permit_flags(&config).to_vec();
    flags.extend(["--resume", &id]);
    let resumed = sandbox.run(&flags, "sim:\nsay second");
    assert_same_shape("i_resume", None, &without_state(&resumed.lines));
    flags.push("--fork-session");
    let forked = sandbox.run(&flags, "sim:\nsay third");
    assert_same_shape("i_fork", None, &without_state(&forked.lines));
}

#[test]
fn an_unknown_conversation_looks_like_the_recorded_one() {
    let run = Sandbox::new().run(&["--resume", "33333333-3333-4333-8333-333333333333"], "hello");
    assert_same_shape("i_resume_unknown", None, &run.lines);
    assert_eq!(run.code(), Some(1));
    assert!(
        run.stderr.contains("No conversation found with session ID: 33333333"),
        "{}",
        run.stderr
    );
}

#[test]
fn several_prompts_to_one_process_look_like_the_recorded_ones() {
    let server = PermitServer::allowing();
    let config = server.config();
    let mut flags = vec![
        "--print",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
    ];
    flags.extend(permit_flags(&config));
    flags.push("--replay-user-messages");
    let sandbox = Sandbox::new();
    let mut run = sandbox.start(&flags, Stdin::Piped);
    for text in ["sim:\nsay first answer", RUN_IT] {
        run.send(&[json!({
            "type": "user", "message": {"role": "user", "content": text}, "parent_tool_use_id": null,
            "session_id": "default",
        })]);
        run.until_result();
    }
    assert_same_shape("i_multi", None, &without_state(&run.finish().lines));
}

/// Removes state events, because the recorded runs of this channel have none.
fn without_state(lines: &[serde_json::Value]) -> Vec<serde_json::Value> {
    lines.iter().filter(|line| line["subtype"] != "session_state_changed").cloned().collect()
}

#[cfg(unix)]
#[test]
fn sigint_in_a_text_looks_like_the_recorded_one() {
    let server = PermitServer::allowing();
    let config = server.config();
    let mut flags = vec![
        "--print",
        "--output-format",
        "stream-json",
        "--verbose",
        "--include-partial-messages",
    ];
    flags.extend(permit_flags(&config));
    flags.extend(["--", "sim:\nslowly 60000 word word"]);
    let sandbox = Sandbox::new();
    let mut run = sandbox.start(&flags, Stdin::Closed);
    run.until("the first word", |line| line["event"]["type"] == "content_block_delta");
    crate::process::signal(run.pid(), rustix::process::Signal::INT);
    let finished = run.finish();
    assert_same_shape("h_stream_SIGINT", None, &without_state(&finished.lines));
    assert_eq!(finished.code(), Some(0));
}
