//! The driver as the engine uses it: what is started, what is said, what is refused.

use std::path::Path;

use agent_lines::journal::LineContent;
use plexus_engine::driver::step::Hidden;
use plexus_engine::driver::{Conversation, McpDoor, Memory as _, Stdin};
use plexus_engine::session::SessionConfig;
use plexus_wire::{PermitAnswer, SecretToken};
use serde_json::json;
use uuid::Uuid;

use super::*;

const THREAD: &str = "01a1e1d8-b369-7831-92ac-b577aea7f322";

fn config(more: &Value) -> SessionConfig {
    let mut config = json!({
        "working_dir": "/w", "loopback_enabled": true, "loopback_timeout_secs": 300,
        "supervise": "all", "can_spawn": false, "may_decide": [], "project_settings": "ignore",
        "channel": "auto", "allowed_tools": [], "disallowed_tools": [], "add_dirs": [], "env": {},
    });
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    serde_json::from_value(config).unwrap()
}

fn codex() -> Codex {
    Codex::new(CodexOptions { home: "/data/codex".into(), ..CodexOptions::default() })
}

fn begun(more: &Value, conversation: &Conversation) -> CodexMemory {
    let begin =
        Begin { config: &config(more), channel: Channel::Control, conversation, cost_usd: 0.0 };
    let mut memory = codex().begin(&begin);
    memory.begin_turn(Some(Uuid::nil()));
    memory
}

fn reads(memory: &mut CodexMemory, line: &Value) -> Vec<Step> {
    codex().read(memory, &LineContent::Whole(line.to_string().into_bytes()))
}

fn said(lines: &[OutLine]) -> Vec<Value> {
    lines.iter().map(|line| serde_json::from_slice(line.as_bytes()).unwrap()).collect()
}

fn opened(policy: &str, sandbox: &str) -> Value {
    json!({"id": "plexus-thread", "result": {
        "thread": {"id": THREAD}, "model": "gpt-5.5", "approvalPolicy": policy,
        "sandbox": {"type": sandbox}, "approvalsReviewer": "user",
    }})
}

/// A run that asks about everything, in its turn `t1`.
fn running() -> CodexMemory {
    let mut memory = begun(&json!({}), &Conversation::New);
    assert_eq!(reads(&mut memory, &opened("untrusted", "dangerFullAccess")), [Step::Ready]);
    reads(
        &mut memory,
        &notification("turn/started", json!({"threadId": THREAD, "turn": {"id": "t1"}})),
    );
    memory
}

/// A run whose turn has asked whether `echo` may run, as question 7.
fn asked() -> CodexMemory {
    let mut memory = running();
    let at = json!({"threadId": THREAD, "turnId": "t1"});
    let item = json!({"type": "commandExecution", "id": "call", "command": "echo", "status": "inProgress"});
    let mut started = at.clone();
    started["item"] = item;
    reads(&mut memory, &notification("item/started", started));
    let question = json!({
        "method": "item/commandExecution/requestApproval", "id": 7,
        "params": {"kind": "command", "threadId": THREAD, "turnId": "t1", "itemId": "call", "command": "echo", "cwd": "/w"},
    });
    assert!(matches!(reads(&mut memory, &question)[..], [Step::Asked(_)]));
    memory
}

fn notification(method: &str, params: Value) -> Value {
    json!({"method": method, "params": params})
}

#[test]
fn a_reason_is_said_before_the_denial() {
    let mut memory = asked();
    let answer = PermitAnswer::deny("use make");
    let lines = said(&codex().write(&memory, &Say::Answer { request_id: "7", answer: &answer }));
    let [steer] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&steer["method"], &steer["id"]), (&json!("turn/steer"), &json!("plexus-reason-7")));
    assert_eq!(steer["params"]["expectedTurnId"], "t1");
    assert_eq!(steer["params"]["input"][0]["text"], "denied by the supervisor: use make");
    // The denial follows whether or not the agent could take the reason.
    let answers =
        [json!({"result": {"turnId": "t1"}}), json!({"error": {"code": -1, "message": "x"}})];
    for mut answer in answers {
        answer["id"] = json!("plexus-reason-7");
        let steps = reads(&mut memory, &answer);
        let [Step::Send(lines)] = &steps[..] else { panic!("{steps:?}") };
        assert_eq!(said(lines), [json!({"id": 7, "result": {"decision": "decline"}})]);
    }
    // A closed question gets no denial.
    let resolved =
        notification("serverRequest/resolved", json!({"threadId": THREAD, "requestId": 7}));
    assert_eq!(reads(&mut memory, &resolved), [Step::Settled { request_id: "7".into() }]);
    assert_eq!(reads(&mut memory, &json!({"id": "plexus-reason-7", "result": {}})), []);
}

#[test]
fn an_allow_is_one_word_and_an_unread_question_is_refused() {
    let memory = asked();
    let input = serde_json::from_value(json!({"command": "something else"})).unwrap();
    let allow = PermitAnswer::Allow { updated_input: input };
    let lines = codex().write(&memory, &Say::Answer { request_id: "7", answer: &allow });
    assert_eq!(said(&lines), [json!({"id": 7, "result": {"decision": "accept"}})]);
    // Even an allow becomes a denial: nobody has seen what it would allow.
    let lines = said(&codex().write(&memory, &Say::Answer { request_id: "8", answer: &allow }));
    assert_eq!(lines[0]["id"], 8);
    assert!(lines[0]["error"].is_object(), "{lines:?}");
}

/// A question about the command `ls`, with more parameters.
fn command_question(more: &Value) -> Value {
    let mut params = json!({"threadId": THREAD, "turnId": "t1", "itemId": "call", "command": "ls",
        "cwd": "/w", "environmentId": "local", "additionalPermissions": null});
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    json!({"method": "item/commandExecution/requestApproval", "id": 8, "params": params})
}

/// What is asked, without its input.
fn only_ask(steps: &[Step]) -> &plexus_engine::driver::Ask {
    let [Step::Asked(ask)] = steps else { panic!("{steps:?}") };
    ask
}

#[test]
fn unknown_command_questions_are_left_to_a_person() {
    let person_only = |more: Value| {
        let steps = reads(&mut running(), &command_question(&more));
        let ask = only_ask(&steps);
        let input: Value = serde_json::from_str(ask.input.get()).unwrap();
        assert_eq!(input["command"], "ls");
        let doubted = codex().tool_call(&ask.tool_name, &input).doubt.is_some();
        assert_eq!(doubted, ask.person_only.is_some(), "{input}");
        (ask.person_only.clone(), input)
    };
    for more in [json!({}), json!({"kind": "command"}), json!({"kind": null})] {
        assert_eq!(person_only(more).0, None);
    }
    let (why, input) = person_only(json!({"kind": "humanCommand", "approvalId": "a"}));
    assert_eq!(why.as_deref(), Some("a managed rule of Codex asks a person"));
    assert_eq!((&input["kind"], &input["approval_id"]), (&json!("humanCommand"), &json!("a")));
    for kind in [json!("teleport"), json!({"type": "command"}), json!(5)] {
        let (why, input) = person_only(json!({"kind": kind}));
        assert!(why.is_some_and(|why| why.contains("unknown kind")));
        assert_eq!(input["kind"], kind);
    }
    for (name, shown, value) in [
        ("environmentId", "environment", json!(["local"])),
        ("environmentId", "environment", json!("cloud-1")),
        ("additionalPermissions", "additional_permissions", json!({"network": {"enabled": true}})),
        ("networkApprovalContext", "network", json!({"host": "evil.test", "protocol": "https"})),
    ] {
        let (why, input) = person_only(json!({name: value}));
        assert!(why.is_some_and(|why| why.contains(shown)));
        assert_eq!(input[shown], value);
    }
}

#[test]
fn unknown_questions_of_mcp_servers_never_run_by_a_mode() {
    let at = json!({"threadId": THREAD, "turnId": "t1"});
    let question = |more: Value| {
        let mut params = at.clone();
        params["serverName"] = json!("s");
        params["message"] = json!("Sure?");
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"method": "mcpServer/elicitation/request", "id": 8, "params": params})
    };
    let no_fields = json!({"type": "object", "properties": {}});
    let agree = question(json!({"mode": "form", "requestedSchema": no_fields}));
    assert!(only_ask(&reads(&mut running(), &agree)).person_only.is_some());
    let colour = json!({"properties": {"colour": {"type": "string"}}});
    let form = question(json!({"mode": "form", "requestedSchema": colour}));
    assert_eq!(only_ask(&reads(&mut running(), &form)).person_only, None);
    // Parts that text cannot answer.
    for mode in ["url", "openai/form", "openai/userVerification", "new"] {
        let more = json!({"mode": mode, "requestedSchema": no_fields, "_meta": {}});
        let steps = reads(&mut running(), &question(more));
        let [Step::Refused { reply, .. }] = &steps[..] else { panic!("{mode}: {steps:?}") };
        let declined = json!({"id": 8, "result": {"action": "decline"}});
        assert_eq!(said(std::slice::from_ref(reply)), [declined], "{mode}");
    }
    // A call of a tool, which is asked about as something that this version does not know.
    for (kind, unknown) in [("mcp_tool_call", false), ("mcp_tool_verification", true)] {
        let mut memory = running();
        let mut started = at.clone();
        started["item"] =
            json!({"type": "mcpToolCall", "id": "m", "server": "s", "tool": "t", "arguments": {}});
        reads(&mut memory, &notification("item/started", started));
        let meta = json!({"codex_approval_kind": kind, "tool_params": {}});
        let steps = reads(&mut memory, &question(json!({"mode": "form", "_meta": meta})));
        assert_eq!(only_ask(&steps).person_only.is_some(), unknown, "{kind}");
    }
}

#[test]
fn a_command_that_a_person_denied_must_not_start() {
    let started = json!({"threadId": THREAD, "turnId": "t1", "item": {"type": "commandExecution",
        "id": "call", "command": "ls", "processId": "1", "status": "inProgress"}});
    let started = notification("item/started", started);
    let ran = |steps: &[Step]| {
        let ran = steps.iter().find_map(|step| match step {
            Step::Ran { request_id, .. } => Some(request_id.clone()),
            _ => None,
        });
        ran.unwrap_or_else(|| panic!("{steps:?}"))
    };
    let mut memory = running();
    let question = command_question(&json!({"kind": "humanCommand", "approvalId": "a"}));
    reads(&mut memory, &question);
    // The engine compares it with the decision: it counts only if it was allowed.
    assert_eq!(ran(&reads(&mut memory, &started)), Some("8".to_owned()));
    // Nobody was asked about this one.
    assert_eq!(ran(&reads(&mut running(), &started)), None);
}

#[test]
fn a_second_question_about_an_unannounced_command_is_refused() {
    let mut memory = running();
    let mut question = command_question(&json!({"kind": "humanCommand", "approvalId": "a"}));
    only_ask(&reads(&mut memory, &question));
    let resolved =
        notification("serverRequest/resolved", json!({"threadId": THREAD, "requestId": 8}));
    reads(&mut memory, &resolved);
    question["id"] = json!(9);
    question["params"]["approvalId"] = json!("b");
    let steps = reads(&mut memory, &question);
    assert!(matches!(&steps[..], [Step::Refused { .. }]), "{steps:?}");
    // The next turn has calls of its own.
    let turn = json!({"threadId": THREAD, "turn": {"id": "t1", "status": "completed"}});
    reads(&mut memory, &notification("turn/completed", turn));
    question["params"]["turnId"] = json!("t2");
    only_ask(&reads(&mut memory, &question));
}

#[test]
fn the_handshake_says_that_persons_can_be_asked() {
    let plan = codex().launch(&launch(&config(&json!({})), Conversation::New)).unwrap();
    let Stdin::Lines(lines) = &plan.stdin else { panic!("no lines") };
    let initialize = said(lines).remove(0);
    assert_eq!(initialize["method"], "initialize");
    assert_eq!(initialize["params"]["capabilities"]["requiredHumanApproval"], true);
    assert_eq!(initialize["params"]["capabilities"]["experimentalApi"], true);
}

#[test]
fn questions_that_cannot_be_bound_to_a_call_are_refused() {
    let questions = [
        json!({"method": "item/fileChange/requestApproval", "id": 8,
               "params": {"threadId": THREAD, "turnId": "t1", "itemId": "unseen"}}),
        // A server can forge the agent's words, but the agent announced no call of it.
        json!({"method": "mcpServer/elicitation/request", "id": 8,
               "params": {"threadId": THREAD, "turnId": "t1", "serverName": "evil", "message": "Allow?",
                          "_meta": {"codex_approval_kind": "mcp_tool_call", "tool_params": {}}}}),
        json!({"method": "item/tool/call", "id": 8, "params": {}}),
        json!({"method": "something/new", "id": 8, "params": {}}),
    ];
    for question in questions {
        let mut memory = asked();
        let steps = reads(&mut memory, &question);
        let [Step::Refused { request_id, reply, .. }] = &steps[..] else { panic!("{steps:?}") };
        assert_eq!(request_id.as_deref(), Some("8"));
        let reply = said(std::slice::from_ref(reply)).remove(0);
        let accepted = reply.to_string().contains("accept");
        assert!(reply["id"] == 8 && !accepted, "{reply}");
    }
}

#[test]
fn settings_that_are_not_those_that_were_asked_for_are_noticed() {
    // Before the first prompt: no prompt is sent.
    for (policy, sandbox) in [("never", "dangerFullAccess"), ("untrusted", "workspaceWrite")] {
        let mut memory = begun(&json!({}), &Conversation::New);
        assert_eq!(reads(&mut memory, &opened(policy, sandbox)), [Step::TurnEnded]);
        let report = memory.report();
        assert!(report.spent && report.turn.unwrap().outcome.unwrap().is_err());
    }
    // Later: the run is stopped.
    let mut memory = asked();
    let settings = |policy: &str| {
        let now = json!({"approvalPolicy": policy, "sandboxPolicy": {"type": "dangerFullAccess"}, "approvalsReviewer": "user"});
        notification("thread/settings/updated", json!({"threadId": THREAD, "threadSettings": now}))
    };
    assert_eq!(reads(&mut memory, &settings("untrusted")), []);
    assert!(matches!(reads(&mut memory, &settings("never"))[..], [Step::Breach(_)]));
}

#[test]
fn an_answer_that_we_did_not_give_is_a_breach() {
    let review = notification("item/autoApprovalReview/started", json!({"threadId": THREAD}));
    let hook = notification(
        "hook/completed",
        json!({"threadId": THREAD, "run": {"eventName": "permissionRequest"}}),
    );
    for line in [review, hook] {
        assert!(matches!(reads(&mut asked(), &line)[..], [Step::Breach(_)]), "{line}");
    }
}

#[test]
fn a_missing_login_is_told_before_the_first_prompt() {
    let mut memory = begun(&json!({}), &Conversation::New);
    let account =
        json!({"id": "plexus-account", "result": {"account": null, "requiresOpenaiAuth": true}});
    assert_eq!(reads(&mut memory, &account), []);
    assert_eq!(reads(&mut memory, &opened("untrusted", "dangerFullAccess")), [Step::TurnEnded]);
    let outcome = memory.report().turn.unwrap().outcome.unwrap();
    assert!(outcome.unwrap_err().contains("codex login"));
}

#[test]
fn a_run_is_beginning_until_its_conversation_is_open() {
    let mut memory = begun(&json!({}), &Conversation::New);
    assert!(memory.report().is_beginning, "the engine bounds how long this may take");
    reads(&mut memory, &opened("untrusted", "dangerFullAccess"));
    assert!(!memory.report().is_beginning);
}

#[test]
fn a_conversation_that_is_refused_ends_the_chat_and_the_process() {
    let mut memory = begun(&json!({}), &Conversation::New);
    let error = json!({"code": -32600, "message": "requirements.toml does not allow untrusted"});
    let refused = json!({"id": "plexus-thread", "error": error});
    assert_eq!(reads(&mut memory, &refused), [Step::TurnEnded]);
    let report = memory.report();
    let outcome = report.turn.unwrap().outcome.unwrap();
    assert!(report.spent && outcome.unwrap_err().contains("requirements.toml"));
}

#[test]
fn a_prompt_that_is_refused_ends_the_chat_and_not_the_process() {
    let mut memory = begun(&json!({}), &Conversation::New);
    reads(&mut memory, &opened("untrusted", "dangerFullAccess"));
    let error = json!({"code": -32602, "message": "Input exceeds the maximum length"});
    let refused = json!({"id": format!("plexus-prompt-{}", Uuid::nil()), "error": error});
    assert_eq!(reads(&mut memory, &refused), [Step::TurnEnded]);
    let report = memory.report();
    assert!(!report.spent && report.turn.unwrap().outcome.unwrap().is_err());
}

#[test]
fn a_message_that_comes_too_late_begins_a_turn_of_the_same_chat() {
    let mut memory = asked();
    let message = Uuid::from_u128(5);
    memory.steered(message);
    let over = |turn: &str| {
        let turn = json!({"id": turn, "status": "completed"});
        notification("turn/completed", json!({"threadId": THREAD, "turn": turn}))
    };
    // The question of the turn is over with it; the chat is not.
    assert_eq!(reads(&mut memory, &over("t1")), [Step::Withdrawn { request_id: "7".into() }]);
    let taken = json!({"id": format!("plexus-steer-{message}"), "result": {"turn": {"id": "t2"}}});
    assert_eq!(reads(&mut memory, &taken), []);
    reads(
        &mut memory,
        &notification("turn/started", json!({"threadId": THREAD, "turn": {"id": "t2"}})),
    );
    let item = json!({"type": "userMessage", "id": "m", "clientId": message.to_string()});
    reads(
        &mut memory,
        &notification("item/completed", json!({"threadId": THREAD, "turnId": "t2", "item": item})),
    );
    assert_eq!(reads(&mut memory, &over("t2")), [Step::TurnEnded]);
}

#[test]
fn a_line_that_cannot_be_read_is_judged_by_its_head() {
    let hides = |head: &str| {
        let line = LineContent::TooLong { head: head.as_bytes().to_vec(), size: 1 << 30 };
        let steps = codex().read(&mut asked(), &line);
        steps.into_iter().find_map(|step| match step {
            Step::Unreadable { hides, .. } => Some(hides),
            _ => None,
        })
    };
    let question = r#"{"method":"item/commandExecution/requestApproval","id":12,"params":{"#;
    assert_eq!(hides(question), Some(Hidden::Question("12".into())));
    assert_eq!(hides(r#"{"id":"plexus-thread","result":{"#), Some(Hidden::OwnAnswer));
    assert_eq!(hides(r#"{"method":"item/completed","params":{"#), Some(Hidden::Anything));
    assert_eq!(hides(r#"{"method":"turn/diff/updated","params":{"#), None);
    assert_eq!(hides("garbage"), Some(Hidden::Anything));
}

fn launch<'a>(config: &'a SessionConfig, conversation: Conversation) -> Launch<'a> {
    Launch {
        config,
        channel: Channel::Control,
        conversation,
        reads_instructions: false,
        permit_door: None,
        hub_door: None,
        run_dir: Path::new("/r"),
        own_home: None,
        live_text: true,
        prompt: None,
    }
}

fn thread_request(plan: &Plan) -> Value {
    let Stdin::Lines(lines) = &plan.stdin else { panic!("no lines") };
    said(lines).pop().unwrap()
}

#[test]
fn supervision_decides_the_policy_and_the_sandbox() {
    let cases = [
        (json!({}), ("untrusted", "danger-full-access")),
        (json!({"supervise": "default"}), ("on-request", "workspace-write")),
        (json!({"loopback_enabled": false}), ("never", "workspace-write")),
        // A wall forbids the mounts that Codex's own sandbox needs.
        (json!({"confine": "workspace"}), ("untrusted", "danger-full-access")),
        (
            json!({"confine": "workspace", "supervise": "default"}),
            ("on-request", "danger-full-access"),
        ),
        (
            json!({"confine": "workspace", "loopback_enabled": false}),
            ("never", "danger-full-access"),
        ),
    ];
    for (more, (policy, sandbox)) in cases {
        let config = config(&more);
        let plan = codex().launch(&launch(&config, Conversation::New)).unwrap();
        let request = thread_request(&plan);
        assert_eq!(request["method"], "thread/start");
        assert_eq!(request["params"]["approvalPolicy"], policy, "{more}");
        assert_eq!(request["params"]["sandbox"], sandbox, "{more}");
        assert_eq!(request["params"]["approvalsReviewer"], "user");
        assert!(!format!("{:?}", plan.args).contains("--do it"), "the prompt is no argument");
        let untrusted = "projects={\"/w\"={trust_level=\"untrusted\"}}";
        assert!(plan.args.iter().any(|arg| arg == untrusted), "{:?}", plan.args);
    }
}

#[test]
fn conversations_are_resumed_and_forked_at_a_turn() {
    let config = config(&json!({}));
    let resume = launch(&config, Conversation::Resume(THREAD.to_owned()));
    let request = thread_request(&codex().launch(&resume).unwrap());
    assert_eq!(
        (&request["method"], &request["params"]["threadId"]),
        (&json!("thread/resume"), &json!(THREAD))
    );
    let fork = Conversation::Fork { of: THREAD.to_owned(), up_to: Some(Uuid::nil()) };
    let request = thread_request(&codex().launch(&launch(&config, fork)).unwrap());
    assert_eq!(request["method"], "thread/fork");
    assert_eq!(request["params"]["lastTurnId"], Uuid::nil().to_string());
    assert_eq!(request["params"]["approvalPolicy"], "untrusted", "it is said again");
}

#[test]
fn a_child_that_supervises_reaches_the_hub_with_a_token_that_is_no_argument() {
    let config = config(&json!({"can_spawn": true}));
    let token = SecretToken::new("plx_secret".to_owned());
    let hub_door = Some(McpDoor { url: "http://here".to_owned(), token });
    let plan = codex().launch(&Launch { hub_door, ..launch(&config, Conversation::New) }).unwrap();
    let args = format!("{:?}", plan.args);
    assert!(args.contains("http://here/mcp") && args.contains("prompt"), "{args}");
    assert!(!args.contains("plx_secret"), "{args}");
    assert!(plan.env.iter().any(|(_, value)| value == "plx_secret"));
}

#[test]
fn mcp_servers_of_a_session_are_settings_of_its_thread_and_no_arguments() {
    let config = config(&json!({"mcp_servers": {
        "one": {"type": "stdio", "command": "run", "args": ["a"], "env": {"KEY": "secret"}},
        "two": {"type": "http", "url": "http://there", "headers": {"X": "secret"}},
    }}));
    for conversation in [Conversation::New, Conversation::Resume(THREAD.to_owned())] {
        let plan = codex().launch(&launch(&config, conversation)).unwrap();
        assert!(!format!("{:?}{:?}", plan.args, plan.env).contains("secret"));
        let servers = thread_request(&plan)["params"]["config"]["mcp_servers"].clone();
        assert_eq!(servers["one"]["env"]["KEY"], "secret");
        assert_eq!(servers["two"]["http_headers"]["X"], "secret");
        for name in ["one", "two"] {
            assert_eq!(servers[name]["default_tools_approval_mode"], "prompt");
        }
    }
}

#[test]
fn settings_that_codex_cannot_do_are_refused_before_it_starts() {
    let with_tools = config(&json!({"disallowed_tools": ["Bash"]}));
    let error = codex().launch(&launch(&with_tools, Conversation::New)).unwrap_err();
    assert!(error.to_string().contains("rules"), "{error}");
    let config = config(&json!({}));
    let over_mcp = Launch { channel: Channel::Mcp, ..launch(&config, Conversation::New) };
    assert!(codex().launch(&over_mcp).is_err());
}
