//! Calls that try to get past a rule, and harmless ones that must not be stopped. The cases are in
//! `tests/data`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed test is allowed to stop loudly"
)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use common::{allows, bash, decide};
use plexus_rules::{Call, Decision, RealPaths, RuleSet, Ruling, notation};
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
    ordinary: Ordinary,
    input: Vec<Input>,
}

#[derive(Deserialize)]
struct Ordinary {
    rules: Vec<String>,
    bash: BTreeMap<String, Vec<String>>,
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

/// Makes the project of the calls that try to get past rules for ordinary work.
fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    for path in [
        "f",
        "src/a.rs",
        "src/b.rs",
        "linked/plain",
        "odd/x ../../secret",
        "vendor/.git/HEAD",
        ".git/HEAD",
        "node_modules/.bin/jest",
    ] {
        let path = work.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "text\n").unwrap();
    }
    fs::write(folder.path().join("secret"), "secret\n").unwrap();
    symlink(folder.path().join("secret"), work.join("linked/out")).unwrap();
    symlink(folder.path(), work.join("up")).unwrap();
    folder
}

fn decide_in(rules: &RuleSet, command: &str, work: &Path) -> Ruling {
    rules.decide(&Call {
        tool: &notation::read("Bash", &json!({ "command": command })),
        working_dir: work,
        home: None,
        session: common::session(2),
        ancestors: &[],
        now: 1000,
        paths: &RealPaths,
    })
}

#[test]
fn no_call_gets_past_rules_for_ordinary_work() {
    let data: Bypasses = toml::from_str(include_str!("data/bypasses.toml")).unwrap();
    let (rules, place) = (allows(&data.ordinary.rules), project());
    let work = place.path().join("work");
    let commands = flat(&data.ordinary.bash);
    assert!(commands.len() >= 300, "only {} cases", commands.len());
    let passed: Vec<_> = commands
        .iter()
        .filter(|command| decide_in(&rules, command, &work).decision != Decision::Ask)
        .collect();
    assert!(passed.is_empty(), "{} of {} got past: {passed:#?}", passed.len(), commands.len());
}

#[test]
fn ordinary_forms_are_allowed_by_the_same_rules() {
    let data: Bypasses = toml::from_str(include_str!("data/bypasses.toml")).unwrap();
    let (rules, place) = (allows(&data.ordinary.rules), project());
    let work = place.path().join("work");
    for command in [
        "CI=1 npm test",
        "LANG=C.UTF-8 sort f",
        "RUST_LOG=a=b,c::d=e cargo test",
        "git commit -m \"$(cat <<'EOF'\nfix: don't (see #1)\n\n`a` and $b \"c\"\nEOF\n)\"",
        "echo \"$(ls src | wc -l) files\"",
        "npm test; echo $?",
        "npm test; echo \"exit: $?\"",
        "[ -n \"$(git status --short)\" ] && git diff",
        "[ \"$(cat f)\" = x ] && ls",
        "[[ -f f && ! -d x ]] && cat f",
        "[[ \"$(ls)\" == a* ]] || ls",
        "if [ -d src ]; then ls src; else echo none; fi",
        "for f in src/*.rs; do echo \"== $f\"; cat \"$f\"; done",
        "for name in a b; do cat src/$name.rs; done",
        "for i in {1..3}; do npm test || break; done",
        "cat < f",
        "diff <(sort f) <(sort src/a.rs)",
        "find src -name '*.rs' | xargs grep -l x",
        "find src -type f -print0 | xargs -0 wc -l",
        "rg -l x src | sort | head -n 5 | xargs cat",
        "cd src && ls && cat a.rs",
        "(cd src && wc -l *.rs); cat f",
        "set -euo pipefail; npm test || exit 1",
        "awk '$3 > 100 || $1 <= 2 {print $1}' f",
        "awk '{ if ($1 > 3) print $2 }' f",
        "sed -i 's/a/b/' src/a.rs",
        "sed -E 's/((a|b))/c/' f",
        "cp f src/c.rs",
        "diff -r src src",
        "tail -f f",
        "npx jest src",
        "curl -s -o /dev/null -w '%{http_code}\\n' http://localhost:3000",
        "cargo test -- --nocapture name",
    ] {
        let ruling = decide_in(&rules, command, &work);
        assert_eq!(ruling.decision, Decision::Allow, "{command}: {}", ruling.why);
    }
    let here = format!("cd {} && git status && npm test", work.display());
    assert_eq!(decide_in(&rules, &here, &work).decision, Decision::Allow);
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
