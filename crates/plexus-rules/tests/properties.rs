//! Properties of rule sets, for random rules and random calls.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed test is allowed to stop loudly"
)]

mod common;

use common::{decide, session};
use plexus_rules::{Author, Decision, Rule, RuleSet, Scope};
use plexus_wire::RuleId;
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

const PATTERNS: &[&str] = &[
    "Bash",
    "Bash(git:*)",
    "Bash(git status:*)",
    "Bash(git push:*)",
    "Bash(npm test)",
    "Bash(rm:*)",
    "Bash(sudo:*)",
    "Bash(sh -c:*)",
    "Bash(echo hello)",
    "Bash(git status && rm x)",
    "Read",
    "Read(/src/**)",
    "Read(/src/secret/**)",
    "Read(/etc/passwd)",
    "Read(~/notes/*.md)",
    "Edit",
    "Edit(/src/**)",
    "Write(/src/*.rs)",
    "WebFetch",
    "WebFetch(domain:example.org)",
    "mcp__github",
    "mcp__github__get_*",
    "mcp__github__get_issue",
];

const COMMANDS: &[&str] = &[
    "git status",
    "git status -s",
    "git push origin",
    "git $SUB",
    "npm test",
    "rm x",
    "sudo rm x",
    "sh -c 'rm x'",
    "sh -c 'git status'",
    "echo hello",
    "echo $(rm x)",
    "git status && rm x",
    "git status; npm test",
    "$X y",
    "git status > f",
    "((",
    "echo rm",
];

fn calls() -> impl Strategy<Value = (String, Value)> {
    let command = prop::sample::select(COMMANDS)
        .prop_map(|command| ("Bash".to_owned(), json!({ "command": command })));
    let compound = (
        prop::sample::select(COMMANDS),
        prop::sample::select(&["; ", " && ", " | "][..]),
        prop::sample::select(COMMANDS),
    )
        .prop_map(|(a, operator, b)| {
            ("Bash".to_owned(), json!({ "command": format!("{a}{operator}{b}") }))
        });
    let path = (
        prop::sample::select(&["Read", "Write", "Edit"][..]),
        prop::sample::select(
            &[
                "/src/a.rs",
                "/src/secret/k",
                "/src/out/passwd",
                "/etc/passwd",
                "~/notes/a.md",
                "/proc/self/x",
                "/SRC/secret/k",
                "",
            ][..],
        ),
    )
        .prop_map(|(tool, path)| (tool.to_owned(), json!({ "file_path": path })));
    let tree = prop::sample::select(&["/src", "/src/secret", "/", "/etc"][..])
        .prop_map(|path| ("Grep".to_owned(), json!({ "path": path, "pattern": "x" })));
    let url = prop::sample::select(
        &["https://example.org/", "https://evil.example/", "https://a@example.org/", "x"][..],
    )
    .prop_map(|url| ("WebFetch".to_owned(), json!({ "url": url })));
    let mcp = prop::sample::select(
        &["mcp__github__get_issue", "mcp__github__delete", "mcp__other__x"][..],
    )
    .prop_map(|tool| (tool.to_owned(), json!({})));
    prop_oneof![3 => command, 3 => compound, 3 => path, 1 => tree, 1 => url, 1 => mcp]
}

fn rules(decision: impl Strategy<Value = Decision>) -> impl Strategy<Value = Rule> {
    let scope = prop_oneof![
        5 => Just(Scope::All),
        1 => (1..4_u128).prop_map(|n| Scope::Session(session(n))),
        1 => (1..4_u128).prop_map(|n| Scope::Subtree(session(n))),
    ];
    let author = prop_oneof![5 => Just(Author::Operator), 1 => (1..4_u128).prop_map(|n| Author::Session(session(n)))];
    let expires_at = prop_oneof![5 => Just(None), 1 => (999..1002_i64).prop_map(Some)];
    let uses_left = prop_oneof![5 => Just(None), 1 => (0..2_u32).prop_map(Some)];
    (any::<u128>(), decision, prop::sample::select(PATTERNS), scope, author, expires_at, uses_left)
        .prop_map(|(id, decision, pattern, scope, author, expires_at, uses_left)| Rule {
            id: RuleId::from_uuid(Uuid::from_u128(id)),
            scope,
            author,
            expires_at,
            uses_left,
            ..common::rule(decision, pattern)
        })
}

fn any_decision() -> impl Strategy<Value = Decision> {
    prop_oneof![3 => Just(Decision::Allow), 1 => Just(Decision::Deny), 1 => Just(Decision::Ask)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn adding_a_deny_never_allows_more(
        before in prop::collection::vec(rules(any_decision()), 0..8),
        deny in rules(Just(Decision::Deny)),
        (tool, input) in calls(),
    ) {
        let without = decide(&RuleSet::new(before.clone()), &tool, &input).decision;
        let with = decide(&RuleSet::new(before.into_iter().chain([deny])), &tool, &input).decision;
        prop_assert!(with != Decision::Allow || without == Decision::Allow, "{without:?} became {with:?}");
        prop_assert!(without != Decision::Deny || with == Decision::Deny, "{without:?} became {with:?}");
    }

    #[test]
    fn adding_an_allow_never_denies_more(
        before in prop::collection::vec(rules(any_decision()), 0..8),
        allow in rules(Just(Decision::Allow)),
        (tool, input) in calls(),
    ) {
        let without = decide(&RuleSet::new(before.clone()), &tool, &input).decision;
        let with = decide(&RuleSet::new(before.into_iter().chain([allow])), &tool, &input).decision;
        prop_assert_eq!(with == Decision::Deny, without == Decision::Deny);
        // Nor does it remove an allow.
        prop_assert!(without != Decision::Allow || with == Decision::Allow, "{without:?} became {with:?}");
    }

    #[test]
    fn the_order_of_rules_does_not_matter(
        (ordered, shuffled) in prop::collection::vec(rules(any_decision()), 0..8)
            .prop_flat_map(|rules| (Just(rules.clone()), Just(rules).prop_shuffle())),
        (tool, input) in calls(),
    ) {
        prop_assert_eq!(decide(&RuleSet::new(ordered), &tool, &input), decide(&RuleSet::new(shuffled), &tool, &input));
    }
}
