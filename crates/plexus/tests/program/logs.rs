//! What the log never holds, at any level: inputs of tool calls, prompts, settings of a session,
//! tokens.

use serde_json::{Value, json};

use crate::installation::{Installation, eventually};
use crate::serve::{Server, log_of, token};

/// Words that are nowhere else.
const CANARIES: [&str; 8] = [
    "canary-command",
    "canary-prompt",
    "canary-system",
    "canary-variable",
    "canary-metadata",
    "canary-edit",
    "canary-parameter",
    "canary-answer",
];

fn ended(installation: &Installation, session: &str) -> bool {
    let shown = installation.call("claudecode.get", &json!({"session_id": session}));
    shown["session"]["status"] == "complete"
}

/// Plays one supervised chat with a canary in everything that a caller or an agent says.
fn supervised(installation: &Installation, channel: &str) {
    let session = installation.call(
        "claudecode.create",
        &json!({
            "name": channel, "working_dir": installation.work(), "channel": channel,
            "system_prompt": "canary-system", "env": {"CANARY": "canary-variable"},
            "metadata": {"note": "canary-metadata"},
        }),
    )["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let command = json!({"command": "echo canary-command; [ -n \"$X\" ] && cat < /dev/null"});
    let prompt = format!("sim:\n# canary-prompt\ntool Bash {command}\nsay canary-answer");
    installation.call("claudecode.chat_async", &json!({"session_id": session, "prompt": prompt}));
    let approval: Value = installation.pending();
    let edit = json!({"command": "echo canary-edit"});
    installation.call(
        "loopback.respond",
        &json!({"approval_id": approval["id"], "approve": true, "updated_input": edit}),
    );
    eventually("the end of the chat", || ended(installation, &session).then_some(()));
}

#[test]
fn no_input_prompt_or_token_reaches_the_log_at_any_level() {
    let installation = Installation::new();
    let server = Server::start(&installation, &["--set", "log=trace"]);
    // With a rule for commands, each of them is parsed.
    let rule = json!({"decision": "deny", "pattern": "Bash(curl:*)"});
    installation.call("loopback.rule_add", &rule);
    for channel in ["control", "mcp"] {
        supervised(&installation, channel);
    }
    let parent = installation.call("identity.parent", &json!({"name": "outside"}));
    installation.fails(&["call", "claudecode.get", r#"{"canary-parameter": "canary-parameter"}"#]);
    installation.fails(&["call", "claudecode.get", r#"{"session_id": "canary-parameter"}"#]);
    let operator = token(&installation);
    // Our own lines below `info` tell of what is unusual, and of the store's end.
    server.signal(rustix::process::Signal::TERM);
    server.wait();
    let log = log_of(&installation);
    assert!(log.contains("DEBUG"), "the log is not at its lowest level:\n{log}");
    for canary in CANARIES {
        let line = log.lines().find(|line| line.contains(canary));
        assert_eq!(line, None, "{canary} is in the log");
    }
    for secret in [operator, parent["token"].as_str().unwrap().to_owned()] {
        assert!(!log.contains(&secret), "a token is in the log");
    }
    assert!(!log.contains("plx_"), "a token is in the log");
}
