//! Calls that try to get past a rule, and harmless ones that must not be stopped. The cases are in
//! `tests/data`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed test is allowed to stop loudly"
)]

mod common;

use std::collections::BTreeMap;

use common::{allows, bash, decide};
use plexus_rules::{Decision, RuleSet};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Input {
    tool: String,
    json: String,
}

#[derive(Deserialize)]
struct Bypasses {
    rules: Vec<String>,
    bash: BTreeMap<String, Vec<String>>,
    read: BTreeMap<String, Vec<String>>,
    web: BTreeMap<String, Vec<String>>,
    input: Vec<Input>,
}

#[derive(Deserialize)]
struct Harmless {
    rules: Vec<String>,
    bash: Vec<String>,
    read: Vec<String>,
    web: Vec<String>,
    input: Vec<Input>,
}

fn inputs(
    bash: &[String],
    read: &[String],
    web: &[String],
    whole: &[Input],
) -> Vec<(String, Value)> {
    let mut calls: Vec<(String, Value)> = Vec::new();
    calls.extend(bash.iter().map(|command| ("Bash".to_owned(), json!({ "command": command }))));
    calls.extend(read.iter().map(|path| ("Read".to_owned(), json!({ "file_path": path }))));
    calls.extend(
        web.iter().map(|url| ("WebFetch".to_owned(), json!({ "url": url, "prompt": "x" }))),
    );
    calls.extend(
        whole.iter().map(|input| (input.tool.clone(), serde_json::from_str(&input.json).unwrap())),
    );
    calls
}

fn flat(lists: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    lists.values().flatten().cloned().collect()
}

fn bypasses() -> (RuleSet, Vec<(String, Value)>) {
    let data: Bypasses = toml::from_str(include_str!("data/bypasses.toml")).unwrap();
    (
        allows(&data.rules),
        inputs(&flat(&data.bash), &flat(&data.read), &flat(&data.web), &data.input),
    )
}

#[test]
fn no_call_gets_past_the_rules() {
    let (rules, calls) = bypasses();
    assert!(calls.len() >= 180, "only {} cases", calls.len());
    let passed: Vec<_> = calls
        .iter()
        .map(|(tool, input)| (tool, input, decide(&rules, tool, input)))
        .filter(|(_, _, verdict)| verdict.decision != Decision::Ask || verdict.rule.is_some())
        .collect();
    assert!(passed.is_empty(), "{} of {} got past: {passed:#?}", passed.len(), calls.len());
}

#[test]
fn every_harmless_call_is_allowed() {
    let data: Harmless = toml::from_str(include_str!("data/harmless.toml")).unwrap();
    let rules = allows(&data.rules);
    let calls = inputs(&data.bash, &data.read, &data.web, &data.input);
    assert!(calls.len() >= 50, "only {} cases", calls.len());
    let stopped: Vec<_> = calls
        .iter()
        .map(|(tool, input)| (tool, input, decide(&rules, tool, input)))
        .filter(|(_, _, verdict)| verdict.decision != Decision::Allow)
        .collect();
    assert!(stopped.is_empty(), "{} of {} were stopped: {stopped:#?}", stopped.len(), calls.len());
}

#[test]
fn a_command_that_cannot_be_read_is_never_more_than_asked_while_a_deny_may_be_meant() {
    // A rule for the whole tool allows what the rules above ask about. Even then, a command that
    // cannot be parsed must not get past a deny.
    let rules = allows(&["Bash".into()]);
    let guarded = RuleSet::new(
        rules.rules().iter().cloned().chain([common::rule(Decision::Deny, "Bash(evil:*)")]),
    );
    let data: Bypasses = toml::from_str(include_str!("data/bypasses.toml")).unwrap();
    for command in flat(&data.bash).iter().filter(|command| command.contains("evil")) {
        assert_eq!(bash(&rules, command).decision, Decision::Allow, "{command}");
        // Where `evil` is only an argument or a directory, nothing is to be denied.
        let runs_it = shell_words(command).any(|word| word == "evil");
        if runs_it {
            assert_ne!(bash(&guarded, command).decision, Decision::Allow, "{command}");
        }
    }
}

fn shell_words(command: &str) -> impl Iterator<Item = &str> {
    command.split(|c: char| !(c.is_alphanumeric() || "/._-".contains(c)))
}

#[test]
fn texts_made_to_exhaust_a_parser_are_asked() {
    let rules = allows(&["Bash(git status:*)".into(), "Bash(npm test)".into()]);
    for command in [
        "(".repeat(3000),
        format!("{}git status{}", "(".repeat(40), ")".repeat(40)),
        format!("{}git status{}", "( ".repeat(40), ") ".repeat(40)),
        format!("git status {}evil{}", "$(".repeat(60), ")".repeat(60)),
        format!("{}git status{}", "{ ".repeat(400), "; }".repeat(400)),
        "if ".repeat(400) + "git status",
        "case x in x) ".repeat(40),
        "git status ".to_owned() + &"$((=".repeat(20),
        "git status <<-E$( #\ttime }f(); do function f".to_owned(),
        "a[`\\\n".repeat(40),
        "git status ".to_owned() + &"a[\"".repeat(80),
        "git status ".to_owned() + &"x".repeat(9000),
        "git status ".to_owned() + &"`".repeat(50),
        "! ".repeat(2000) + "evil",
        "time ".repeat(1500) + "evil",
    ] {
        assert_eq!(bash(&rules, &command).decision, Decision::Ask, "{command:.60}");
    }
}
