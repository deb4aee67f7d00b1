//! Which rules are proposed from decisions, and which never are.
#![expect(clippy::expect_used, reason = "tests")]

mod common;

use common::{allows, links, session};
use plexus_rules::{Call, Decided, Decision, RuleSet, notation, propose};
use plexus_wire::ToolCall;
use serde_json::{Value, json};

/// Proposes from calls and whether each was allowed; returns each pattern with its evidence.
fn proposed(decisions: &[(&str, Value, bool)], in_force: &RuleSet) -> Vec<(String, Vec<usize>)> {
    let paths = links();
    let tools: Vec<ToolCall> =
        decisions.iter().map(|(tool, input, _)| notation::read(tool, input)).collect();
    let decided: Vec<Decided<'_>> = tools
        .iter()
        .zip(decisions)
        .map(|(tool, (_, _, allowed))| Decided {
            call: Call {
                tool,
                working_dir: std::path::Path::new("/home/dev/project"),
                home: None,
                session: session(2),
                ancestors: &[],
                now: 1000,
                paths: &paths,
            },
            allowed: *allowed,
        })
        .collect();
    let proposals = propose(&decided, in_force);
    // Each proposal allows all of its evidence, and no call that was denied.
    for proposal in &proposals {
        let rules = allows(&[proposal.pattern.to_string()]);
        for (at, one) in decided.iter().enumerate() {
            let decides = rules.decide(&one.call).decision == Decision::Allow;
            assert!(!decides || one.allowed, "{} covers a denied call", proposal.pattern);
            assert!(!proposal.answers.contains(&at) || decides, "{}", proposal.pattern);
        }
    }
    proposals.into_iter().map(|one| (one.pattern.to_string(), one.answers)).collect()
}

fn bash(command: &str, allowed: bool) -> (&'static str, Value, bool) {
    ("Bash", json!({"command": command}), allowed)
}

fn none() -> RuleSet {
    RuleSet::new([])
}

#[test]
fn the_narrowest_rule_comes_first_and_a_wider_one_only_with_more_evidence() {
    let decisions =
        [bash("git diff --stat", true), bash("git diff --stat", true), bash("git diff HEAD", true)];
    assert_eq!(
        proposed(&decisions, &none()),
        [
            ("Bash(git diff --stat)".to_owned(), vec![0, 1]),
            ("Bash(git diff:*)".to_owned(), vec![0, 1, 2]),
        ]
    );
    // The wider rule has no more evidence than the narrow one, so it is left out.
    let same = [bash("git diff --stat", true), bash("git diff --stat", true)];
    assert_eq!(proposed(&same, &none()), [("Bash(git diff --stat)".to_owned(), vec![0, 1])]);
}

#[test]
fn nothing_is_proposed_that_would_have_allowed_what_was_denied() {
    let decisions =
        [bash("git diff HEAD", true), bash("git diff main", true), bash("git diff secret", false)];
    assert_eq!(proposed(&decisions, &none()), []);
    // The parser sees that this is another command, though it begins with the same words.
    let other = [
        bash("git diff HEAD", true),
        bash("git diff main", true),
        bash("git diff main && rm -rf /", false),
    ];
    assert_eq!(proposed(&other, &none()), [("Bash(git diff:*)".to_owned(), vec![0, 1])]);
}

#[test]
fn single_or_answered_requests_are_no_evidence() {
    assert_eq!(proposed(&[bash("git diff HEAD", true)], &none()), []);
    let twice = [bash("git diff HEAD", true), bash("git diff main", true)];
    assert_eq!(proposed(&twice, &allows(&["Bash(git diff:*)".to_owned()])), []);
}

#[test]
fn a_whole_tool_is_never_proposed_but_one_tool_of_a_server_is() {
    let commands = [bash("./a.sh $X", true), bash("./b.sh $X", true), bash("./c.sh $X", true)];
    assert_eq!(proposed(&commands, &none()), []);
    let write = |path: &str| ("Write", json!({"file_path": path, "content": "x"}), true);
    let files = [write("/home/dev/project/src/a.rs"), write("/home/dev/project/src/b.rs")];
    let expected = "Write(/home/dev/project/src/**)".to_owned();
    assert_eq!(proposed(&files, &none()), [(expected, vec![0, 1])]);
    let server = [("mcp__issues__list", json!({}), true), ("mcp__issues__list", json!({}), true)];
    assert_eq!(proposed(&server, &none()), [("mcp__issues__list".to_owned(), vec![0, 1])]);
    let several = [("mcp__issues__list", json!({}), true), ("mcp__issues__add", json!({}), true)];
    assert_eq!(proposed(&several, &none()), []);
}
