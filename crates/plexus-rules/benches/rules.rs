//! Measures a decision with 1,000 rules against a naive matcher that compares strings with every
//! rule in turn.
//!
//! The naive matcher is the baseline for speed, not for safety: it allows `git status; evil`, as an
//! assertion below shows.

use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, criterion_group, criterion_main};
use plexus_rules::{Call, Decision, RealPaths, Rule, RuleSet, notation};
use plexus_wire::SessionId;
use serde_json::{Value, json};

const RULES: usize = 1_000;

/// Returns the mix that months of `remember` produce: mostly commands, some paths and hosts, a few
/// denies.
fn patterns() -> Vec<(Decision, String)> {
    let mut patterns: Vec<(Decision, String)> = (0..RULES - 4)
        .map(|n| match n % 10 {
            0..=3 => (Decision::Allow, format!("Bash(tool{n} sub{n}:*)")),
            4 | 5 => (Decision::Allow, format!("Bash(git sub{n}:*)")),
            6 => (Decision::Allow, format!("Bash(npm run task{n})")),
            7 => (Decision::Allow, format!("Read(/srv/project{n}/**)")),
            8 => (Decision::Allow, format!("WebFetch(domain:host{n}.example)")),
            _ => (Decision::Deny, format!("Bash(danger{n}:*)")),
        })
        .collect();
    patterns.extend([
        (Decision::Allow, "Bash(git status:*)".to_owned()),
        (Decision::Allow, "Bash(npm test)".to_owned()),
        (Decision::Allow, "Read(/usr/**)".to_owned()),
        (Decision::Allow, "WebFetch(domain:example.org)".to_owned()),
    ]);
    patterns
}

/// Returns only wildcard denies in one directory, so that the index by directory cannot skip any.
fn wildcard_patterns() -> Vec<(Decision, String)> {
    let place = |n: usize| match n % 2 {
        0 => (Decision::Deny, format!("Read(/usr/share/**/secret{n}/*)")),
        _ => (Decision::Ask, format!("Read(/usr/share/*/*.key{n})")),
    };
    (0..RULES - 1)
        .map(place)
        .chain([(Decision::Allow, "Read(/usr/share/doc/**)".to_owned())])
        .collect()
}

/// Returns only path rules: many places below one directory, some denies among them.
fn path_patterns() -> Vec<(Decision, String)> {
    let place = |n: usize| match n % 10 {
        0 => (Decision::Deny, format!("Read(/usr/secret{n}/**)")),
        1 => (Decision::Allow, format!("Read(src{n}/**)")),
        _ => (Decision::Allow, format!("Read(/usr/share/part{n}/**)")),
    };
    (0..RULES - 1)
        .map(place)
        .chain([(Decision::Allow, "Read(/usr/share/doc/**)".to_owned())])
        .collect()
}

/// Compares the text of the call with the text of each rule.
fn naive(patterns: &[(Decision, String)], tool: &str, argument: &str) -> Decision {
    let mut decision = Decision::Ask;
    for (says, pattern) in patterns {
        let Some(body) = pattern
            .strip_prefix(tool)
            .and_then(|rest| rest.strip_prefix('('))
            .and_then(|rest| rest.strip_suffix(')'))
        else {
            continue;
        };
        let fits = match body.strip_suffix(":*").or_else(|| body.strip_suffix("**")) {
            Some(prefix) => argument.starts_with(prefix),
            None => {
                argument == body
                    || body.strip_prefix("domain:").is_some_and(|host| argument.contains(host))
            }
        };
        match (fits, says) {
            (true, Decision::Deny) => return Decision::Deny,
            (true, says) => decision = *says,
            (false, _) => {}
        }
    }
    decision
}

fn bench(criterion: &mut Criterion) {
    let cases: [(&str, &str, &str, Value); 6] = [
        ("command", "Bash", "git status -s", json!({ "command": "git status -s" })),
        (
            "compound",
            "Bash",
            "git status && npm test 2>&1",
            json!({ "command": "git status && npm test 2>&1" }),
        ),
        ("command, asked", "Bash", "git status; evil", json!({ "command": "git status; evil" })),
        ("path", "Read", "/usr/share/doc/readme", json!({ "file_path": "/usr/share/doc/readme" })),
        ("path, asked", "Read", "/opt/none/readme", json!({ "file_path": "/opt/none/readme" })),
        (
            "host",
            "WebFetch",
            "https://example.org/page",
            json!({ "url": "https://example.org/page" }),
        ),
    ];
    measure(criterion, &patterns(), &cases);
    let readme = json!({ "file_path": "/usr/share/doc/readme" });
    let read = |name| [(name, "Read", "/usr/share/doc/readme", readme.clone())];
    measure(criterion, &path_patterns(), &read("path, all rules are paths"));
    measure(criterion, &wildcard_patterns(), &read("path, all rules are wildcards"));
    let search = json!({ "path": "/usr/share", "pattern": "x" });
    measure(criterion, &path_patterns(), &[("directory, all rules are paths", "Grep", "", search)]);
}

fn measure(
    criterion: &mut Criterion,
    patterns: &[(Decision, String)],
    cases: &[(&str, &str, &str, Value)],
) {
    let parse = |(decision, text): &(Decision, String)| {
        text.parse().ok().map(|pattern| Rule::new(*decision, pattern))
    };
    let rules = RuleSet::new(patterns.iter().filter_map(parse));
    assert_eq!(rules.rules().len(), RULES, "every pattern parses");
    for (name, tool, argument, input) in cases {
        let call = Call {
            tool: &notation::read(tool, input),
            working_dir: Path::new("/srv/project"),
            home: Some(Path::new("/home/dev")),
            session: SessionId::generate(),
            ancestors: &[],
            now: 0,
            paths: &RealPaths,
        };
        let mut group = criterion.benchmark_group(format!("{name}, {RULES} rules (limit 50 µs)"));
        group.bench_function("rules", |bencher| {
            bencher.iter(|| black_box(rules.decide(black_box(&call))))
        });
        group.bench_function("naive", |bencher| {
            bencher.iter(|| black_box(naive(patterns, tool, black_box(argument))))
        });
        group.finish();
        let (ours, theirs) = (rules.decide(&call).decision, naive(patterns, tool, argument));
        assert!(
            ours == theirs || (ours, theirs) == (Decision::Ask, Decision::Allow),
            "{name}: {ours:?}, naive {theirs:?}"
        );
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
