//! Rules of the control channel that no recorded run shows.

use serde_json::{Value, json};

use crate::driver::{Sandbox, allow, answer, deny, prompt, request, tool_results};

const FIRST: &str = "11111111-1111-4111-8111-111111111111";
const SECOND: &str = "22222222-2222-4222-8222-222222222222";
const TOUCH: &str = "sim:\ntool Bash {\"command\":\"touch a\",\"description\":\"t\"}";

#[test]
fn a_question_has_its_request_id_near_the_head_and_its_tool_use_id_at_the_end() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&[]);
    let long = "x".repeat(100_000);
    run.send(&[prompt(
        FIRST,
        &format!("sim:\ntool Write {{\"file_path\":\"a\",\"content\":\"{long}\"}}"),
    )]);
    let question = run.until_question();
    let line = run.last_raw().to_owned();
    let id = question["request_id"].as_str().unwrap();
    assert!(line.find(id).unwrap() < 100);
    let ends = format!("\"tool_use_id\":{}}}}}", question["request"]["tool_use_id"]);
    assert!(line.ends_with(&ends), "it ends with {}", &line[line.len() - 100..]);
}

#[test]
fn the_question_about_a_file_names_it_absolutely() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&[]);
    run.send(&[prompt(
        FIRST,
        "sim:\ntool Edit {\"file_path\":\"a\",\"old_string\":\"b\",\"new_string\":\"c\"}",
    )]);
    let question = run.until_question();
    let input = &question["request"]["input"];
    assert_eq!(input["file_path"], json!(sandbox.work().join("a")));
    assert_eq!(input["replace_all"], false);
}

#[test]
fn an_error_and_nonsense_are_denials_and_only_nonsense_is_written_back() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&[]);
    run.send(&[prompt(FIRST, &format!("{TOUCH}\ntool Bash {{\"command\":\"touch a\"}}"))]);
    let first = run.until_question();
    run.send(&[json!({"type": "control_response", "response": {
        "subtype": "error", "request_id": first["request_id"], "error": "the supervisor broke",
    }})]);
    let second = run.until_question();
    run.send(&[answer(&second, &json!({"behavior": "maybe"}))]);
    run.until_idle();
    let texts: Vec<&Value> = tool_results(&run.seen)
        .into_iter()
        .map(|line| &line["message"]["content"][0]["content"])
        .collect();
    assert_eq!(texts[0], "Tool permission request failed: Error: the supervisor broke");
    assert!(
        texts[1]
            .as_str()
            .unwrap()
            .starts_with("The canUseTool callback returned an invalid permission result.")
    );
    let echoed: Vec<&Value> =
        run.seen.iter().filter(|line| line["type"] == "control_response").collect();
    assert_eq!(echoed, [&answer(&second, &json!({"behavior": "maybe"}))]);
    let result = run.seen.iter().find(|line| line["type"] == "result").unwrap();
    assert_eq!(result["permission_denials"].as_array().unwrap().len(), 2);
    assert!(!sandbox.work().join("a").exists());
}

#[test]
fn a_denial_that_interrupts_ends_the_turn_and_the_process_lives_on() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&[]);
    run.send(&[prompt(FIRST, TOUCH)]);
    let question = run.until_question();
    run.send(&[answer(
        &question,
        &json!({"behavior": "deny", "message": "lost", "interrupt": true}),
    )]);
    let result = run.until_result();
    assert_eq!(result["subtype"], "error_during_execution");
    assert!(!run.seen.iter().any(|line| line.to_string().contains("\"content\":\"lost\"")));
    run.until_idle();
    run.send(&[prompt(SECOND, "sim:\nsay alive")]);
    assert_eq!(run.until_result()["result"], "alive");
}

#[test]
fn an_answer_may_bring_a_rule_that_spares_the_next_question() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&[]);
    run.send(&[prompt(
        FIRST,
        &format!("{TOUCH}\ntool Bash {{\"command\":\"touch a\"}}\nsay done"),
    )]);
    let question = run.until_question();
    let rule = json!({"type": "addRules", "behavior": "allow", "destination": "session",
        "rules": [{"toolName": "Bash", "ruleContent": "touch a"}]});
    run.send(&[answer(&question, &json!({"behavior": "allow", "updatedPermissions": [rule]}))]);
    run.until_idle();
    let sources: Vec<&Value> = tool_results(&run.seen)
        .into_iter()
        .map(|line| &line["tool_result_meta"][0]["permission_decision"]["source"])
        .collect();
    assert_eq!(sources, ["user_temporary", "config"]);
}

#[test]
fn bash_calls_ask_one_after_the_other() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&[]);
    run.send(&[prompt(
        FIRST,
        "sim:\nparallel Bash {\"command\":\"touch a\"} ;; Bash {\"command\":\"touch b\"}",
    )]);
    let first = run.until_question();
    run.send(&[request("init", &json!({"subtype": "initialize"}))]);
    let initialized =
        run.until("the answer to initialize", |line| line["response"]["request_id"] == "init");
    assert_eq!(initialized["response"]["pending_permission_requests"], json!([first]));
    run.send(&[allow(&first)]);
    let second = run.until_question();
    run.send(&[deny(&second, "no")]);
    run.until_idle();
    assert!(sandbox.work().join("a").exists());
    assert!(!sandbox.work().join("b").exists());
}

#[test]
fn two_prompts_at_once_are_two_turns_and_one_idle() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&[]);
    run.send(&[prompt(FIRST, "sim:\nsay one"), prompt(SECOND, "sim:\nsay two")]);
    run.until_idle();
    let results: Vec<&Value> = run
        .seen
        .iter()
        .filter(|line| line["type"] == "result")
        .map(|line| &line["result"])
        .collect();
    assert_eq!(results, ["one", "two"]);
    assert_eq!(run.seen.iter().filter(|line| line["subtype"] == "init").count(), 2);
}

#[test]
fn a_script_steers_the_running_turn() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&[]);
    run.send(&[prompt(FIRST, &format!("{TOUCH}\nsay the end"))]);
    let question = run.until_question();
    run.send(&[prompt(SECOND, "sim:\nsay first this"), allow(&question)]);
    run.until_idle();
    let said: Vec<&Value> = run
        .seen
        .iter()
        .filter(|line| line["message"]["content"][0]["type"] == "text")
        .map(|line| &line["message"]["content"][0]["text"])
        .collect();
    assert_eq!(said, ["first this", "the end"]);
}

#[test]
fn a_queued_prompt_can_be_withdrawn() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&[]);
    run.send(&[
        prompt(FIRST, "sim:\nsay never"),
        request("cam", &json!({"subtype": "cancel_async_message", "message_uuid": FIRST})),
    ]);
    let receipt = run.until("the receipt", |line| line["type"] == "control_response");
    assert_eq!(receipt["response"]["response"], json!({"cancelled": true}));
    run.send(&[prompt(SECOND, "sim:\nsay instead")]);
    assert_eq!(run.until_result()["result"], "instead");
}

#[test]
fn accepted_edits_do_not_ask() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&["--permission-mode", "acceptEdits"]);
    run.send(&[prompt(FIRST, "a plain story")]);
    run.until_idle();
    assert!(!run.seen.iter().any(|line| line["type"] == "control_request"));
    assert!(sandbox.work().join("plexus-sim.txt").exists());
}

#[test]
fn mcp_status_names_the_servers() {
    let sandbox = Sandbox::new();
    let config = r#"{"mcpServers":{"gone":{"type":"http","url":"http://127.0.0.1:1/mcp"}}}"#;
    let mut run = sandbox.control(&["--mcp-config", config]);
    run.send(&[prompt(FIRST, "sim:\nsay x")]);
    run.until_idle();
    run.send(&[request("s", &json!({"subtype": "mcp_status"}))]);
    let status = run.until("the status", |line| line["type"] == "control_response");
    assert_eq!(
        status["response"]["response"]["mcpServers"],
        json!([{"name": "gone", "status": "failed"}])
    );
}

#[test]
fn a_script_can_overrule_and_break_the_rules() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&[]);
    let script =
        "sim:\noverrule Bash {\"command\":\"touch a\"}\nbreach Bash {\"command\":\"touch b\"}";
    run.send(&[prompt(FIRST, script)]);
    run.until_idle();
    let questions: Vec<&Value> =
        run.seen.iter().filter(|line| line["type"] == "control_request").collect();
    let withdrawn: Vec<&Value> =
        run.seen.iter().filter(|line| line["type"] == "control_cancel_request").collect();
    assert_eq!(questions.len(), 1);
    assert_eq!(withdrawn[0]["request_id"], questions[0]["request_id"]);
    let sources: Vec<&Value> = tool_results(&run.seen)
        .into_iter()
        .map(|line| &line["tool_result_meta"][0]["permission_decision"]["source"])
        .collect();
    assert_eq!(sources, ["hook", "user_temporary"]);
    assert!(sandbox.work().join("a").exists() && sandbox.work().join("b").exists());
}

#[test]
fn a_script_can_send_a_request_that_nobody_knows() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&[]);
    run.send(&[prompt(FIRST, "sim:\nrequest from_the_future")]);
    let asked = run.until_question();
    assert_eq!(asked["request"], json!({"subtype": "from_the_future"}));
    let refusal =
        json!({"subtype": "error", "request_id": asked["request_id"], "error": "unknown request"});
    run.send(&[json!({"type": "control_response", "response": refusal})]);
    let result = run.until_result()["result"].clone();
    assert_eq!(serde_json::from_str::<Value>(result.as_str().unwrap()).unwrap(), refusal);
    run.send(&[prompt(SECOND, "sim:\nrequest from_the_future")]);
    run.until_question();
    run.close_stdin();
    assert_eq!(run.until_result()["result"], "nobody answered");
}
