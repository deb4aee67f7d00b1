//! How rules decide together: precedence, scopes and bounds, denies of wrapped commands, examples,
//! suggestions and files.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed test is allowed to stop loudly"
)]

mod common;

use std::path::Path;

use common::{bash, decide, links, rule, session, with_call};
use plexus_rules::{
    Author, Decision, ExampleContext, ExampleError, Pattern, Rule, RuleFile, RuleSet, Scope,
    covers, narrowest, suggest,
};
use serde_json::json;

use Decision::{Allow, Ask, Deny};

fn set(rules: &[(Decision, &str)]) -> RuleSet {
    RuleSet::new(rules.iter().map(|(decision, pattern)| rule(*decision, pattern)))
}

#[test]
fn deny_beats_ask_beats_allow() {
    let rules =
        set(&[(Allow, "Bash(git:*)"), (Ask, "Bash(git push:*)"), (Deny, "Bash(git push --force)")]);
    assert_eq!(bash(&rules, "git fetch").decision, Allow);
    assert_eq!(bash(&rules, "git push").decision, Ask);
    assert_eq!(bash(&rules, "git push --force").decision, Deny);
    let verdict = bash(&rules, "ls");
    assert_eq!((verdict.decision, verdict.rule), (Ask, None));
}

#[test]
fn the_verdict_names_every_rule_it_rests_on() {
    let rules = set(&[(Allow, "Bash(git status:*)"), (Allow, "Bash(npm test)")]);
    let ids: Vec<_> = rules.rules().iter().map(|rule| rule.id).collect();
    let verdict = bash(&rules, "git status && npm test && git status -s");
    assert_eq!((verdict.decision, verdict.rule, verdict.used), (Allow, Some(ids[0]), ids));
}

#[test]
fn a_prefix_ends_at_a_word_and_an_exact_rule_at_the_last_one() {
    let rules = set(&[(Allow, "Bash(git diff:*)"), (Allow, "Bash(npm test)")]);
    for (command, decision) in [
        ("git diff", Allow),
        ("git diff --stat", Allow),
        ("git difftool", Ask),
        ("git diff-files", Ask),
        ("npm test", Allow),
        ("npm test --watch", Ask),
    ] {
        assert_eq!(bash(&rules, command).decision, decision, "{command}");
    }
}

#[test]
fn a_deny_finds_its_command_wherever_it_runs() {
    let rules = set(&[(Allow, "Bash"), (Deny, "Bash(rm:*)")]);
    for command in [
        "rm x",
        "git status; rm x",
        "/bin/rm x",
        "\\rm x",
        "'r'm x",
        "RM x",
        "(rm x)",
        "echo $(rm x)",
        "echo \"`rm x`\"",
        "cat <(rm x)",
        "if true; then rm x; fi",
        "f() { rm x; }",
        "X=1 rm x",
        "rm x > log",
        "sudo rm x",
        "sudo -u root rm x",
        "env -i A=1 rm x",
        "xargs rm",
        "ls | xargs -n1 rm -f",
        "find . -name x -exec rm {} +",
        "sh -c 'rm x'",
        "bash -xc 'true; rm x'",
        "eval 'rm x'",
        "ssh host 'rm x'",
        "sudo sh -c 'cd /; rm x'",
        "timeout 5 rm x",
        "watch 'rm x'",
        "for x in a; do rm x; done",
        "cat <<EOF | sh\nrm x\nEOF",
        "((1)); rm x",
    ] {
        assert_eq!(bash(&rules, command).decision, Deny, "{command}");
    }
    // When it is uncertain whether a deny fits, somebody is asked, although the whole tool is
    // allowed.
    for command in [
        "$X x",
        "r$Y x",
        "echo rm",
        "git -c alias.x='!rm' x",
        "GIT_PAGER=rm git log",
        "$'\\x72m' x",
    ] {
        assert_eq!(bash(&rules, command).decision, Ask, "{command}");
    }
    for command in [
        "ls",
        "rmdir x",
        "echo $HOME",
        "git commit -m 'rm it all'",
        "cat file > other",
        "grep -r farm .",
    ] {
        assert_eq!(bash(&rules, command).decision, Allow, "{command}");
    }
}

#[test]
fn a_wrapper_is_allowed_with_what_it_runs() {
    let rules = set(&[
        (Allow, "Bash(timeout:*)"),
        (Allow, "Bash(sh -c:*)"),
        (Allow, "Bash(git status:*)"),
        (Allow, "Bash(xargs:*)"),
    ]);
    for (command, decision) in [
        ("timeout 5 git status", Allow),
        ("timeout 5 evil", Ask),
        ("timeout -s KILL 5 git status", Ask),
        ("sh -c 'git status; timeout 1 git status'", Allow),
        ("sh -c 'git status; evil'", Ask),
        ("sh -c 'git status > f'", Ask),
        ("sh -c 'git status' evil", Ask),
        ("timeout 5 sh -c 'git status'", Allow),
        ("xargs git status", Ask),
    ] {
        assert_eq!(bash(&rules, command).decision, decision, "{command}");
    }
}

#[test]
fn a_rule_for_the_exact_text_needs_no_understanding_of_it() {
    let command = "cd /tmp && make > log 2>&1; echo $? *";
    let rules = set(&[(Allow, "Bash(cd /tmp && make > log 2>&1; echo $? \\*)")]);
    assert_eq!(bash(&rules, command).decision, Allow);
    assert_eq!(bash(&rules, &format!(" {command}\n")).decision, Allow);
    assert_eq!(bash(&rules, &format!("{command}; evil")).decision, Ask);
}

#[test]
fn paths_are_anchored_at_the_root_the_home_and_the_working_directory() {
    let rules = set(&[
        (Allow, "Read(/src/*.rs)"),
        (Allow, "Read(~/notes/**)"),
        (Allow, "Read(docs/*.md)"),
        (Allow, "Read(/linked/**)"),
    ]);
    for (path, decision) in [
        ("/src/a.rs", Allow),
        ("/src/deep/b.rs", Ask),
        ("/src/a.txt", Ask),
        ("/home/dev/notes/x", Allow),
        ("~/notes/x/y", Allow),
        ("/home/other/notes/x", Ask),
        ("docs/a.md", Allow),
        ("/home/dev/project/docs/a.md", Allow),
        ("docs/../docs/a.md", Ask),
        ("/docs/a.md", Ask),
        // The rule's own directory is a link: the rule means its destination.
        ("/linked/x", Allow),
        ("/data/real/x", Ask),
    ] {
        assert_eq!(
            decide(&rules, "Read", &json!({ "file_path": path })).decision,
            decision,
            "{path}"
        );
    }
}

#[test]
fn an_edit_rule_covers_every_tool_that_edits_and_none_that_reads() {
    let rules = set(&[(Allow, "Edit(/src/**)")]);
    for (tool, field, decision) in [
        ("Edit", "file_path", Allow),
        ("Write", "file_path", Allow),
        ("MultiEdit", "file_path", Allow),
        ("NotebookEdit", "notebook_path", Allow),
        ("Read", "file_path", Ask),
    ] {
        assert_eq!(
            decide(&rules, tool, &json!({ field: "/src/new.rs" })).decision,
            decision,
            "{tool}"
        );
    }
    for path in ["/src/out/new", "/src/dangling", "/src/tohome/.bashrc"] {
        let verdict = decide(&rules, "Write", &json!({ "file_path": path, "content": "x" }));
        assert_eq!(verdict.decision, Ask, "a Write through {path} is not inside");
    }
}

#[test]
fn a_pattern_covers_obeyed_files_only_by_their_names() {
    let edit = |pattern: &str, path: &str| {
        let input = json!({ "file_path": path, "old_string": "a", "new_string": "b" });
        decide(&set(&[(Allow, pattern)]), "Edit", &input).decision
    };
    for (pattern, path, expected) in [
        ("Edit(/src/**)", "/src/deep/b.rs", Allow),
        ("Edit(/src/**)", "/src/.git/config", Ask),
        ("Edit(/src/deep/**)", "/src/deep/x/.git/config", Ask),
        ("Edit(/src/deep/)", "/src/deep/.vscode/tasks.json", Ask),
        ("Edit(/src/deep/*)", "/src/deep/package.json", Ask),
        ("Edit(/src/**/*.md)", "/src/deep/CLAUDE.md", Ask),
        ("Edit(//**)", "/src/.claude/settings.json", Ask),
        ("Edit(/src/**)", "/src/deep/.never-heard-of", Ask),
        ("Edit(/src/**)", "/src/inner/.envrc", Ask),
        // Named literally, by the directory or among the wildcards.
        ("Edit(/src/.git/config)", "/src/.git/config", Allow),
        ("Edit(/src/.claude/**)", "/src/.claude/settings.json", Allow),
        ("Edit(/src/.claude/**)", "/src/.claude/package.json", Ask),
        ("Edit(/src/**/CLAUDE.md)", "/src/deep/CLAUDE.md", Allow),
        ("Edit(/src/**/CLAUDE.md)", "/src/.x/CLAUDE.md", Ask),
        ("Edit(/src/**/.github/*.yml)", "/src/.github/x.yml", Allow),
        ("Edit(/src/*.json)", "/src/package.json", Ask),
        ("Edit", "/src/.git/config", Allow),
    ] {
        assert_eq!(edit(pattern, path), expected, "{pattern} {path}");
    }
    // Reading is not obeying, and a deny needs no name.
    let read = |decision| {
        let input = json!({ "file_path": "/src/.git/config" });
        decide(&set(&[(decision, "Read(/src/**)")]), "Read", &input).decision
    };
    assert_eq!((read(Allow), read(Deny)), (Allow, Deny));
    let denied = set(&[(Deny, "Edit(/src/**)")]);
    let input = json!({ "file_path": "/src/.git/config", "old_string": "a", "new_string": "b" });
    assert_eq!(decide(&denied, "Edit", &input).decision, Deny);
}

#[test]
fn a_path_deny_looks_at_both_ends_of_a_link() {
    let rules = set(&[
        (Allow, "Read"),
        (Deny, "Read(/etc/**)"),
        (Deny, "Read(/src/out/**)"),
        (Deny, "Read(**/.env)"),
    ]);
    let read = |path: &str| decide(&rules, "Read", &json!({ "file_path": path })).decision;
    assert_eq!(read("/etc/passwd"), Deny);
    assert_eq!(read("/src/deep/out/passwd"), Deny, "leads into a denied directory");
    assert_eq!(read("/src/out/passwd"), Deny, "is written as a denied path");
    assert_eq!(read("/ETC/passwd"), Ask, "the same file where case is ignored");
    assert_eq!(read("/proc/self/root/etc/passwd"), Ask, "cannot be followed");
    assert_eq!(read(".env"), Deny);
    assert_eq!(read("/src/a.rs"), Allow);
    let grep =
        |path: &str| decide(&rules, "Grep", &json!({ "path": path, "pattern": "x" })).decision;
    assert_eq!(grep("/etc"), Deny);
    assert_eq!(grep("/"), Ask, "a denied directory is below");
    assert_eq!(grep("/src/deep"), Allow);
}

#[test]
fn mcp_patterns_name_a_tool_a_prefix_or_a_server() {
    let rules =
        set(&[(Allow, "mcp__github__get_*"), (Allow, "mcp__files"), (Deny, "mcp__files__delete")]);
    for (tool, decision) in [
        ("mcp__github__get_issue", Allow),
        ("mcp__github__delete_repo", Ask),
        ("mcp__githubx__get_issue", Ask),
        ("mcp__files__read", Allow),
        ("mcp__files__delete", Deny),
        ("mcp__files", Ask),
        ("mcp__files_evil__read", Ask),
        ("mcp__files__Delete", Ask),
        ("mcp__files__delete ", Ask),
        ("mcp__files__d\u{435}lete", Ask),
    ] {
        assert_eq!(decide(&rules, tool, &json!({})).decision, decision, "{tool}");
    }
}

#[test]
fn underscores_of_a_server_do_not_hide_it_from_a_deny() {
    let rules = set(&[(Allow, "mcp__files"), (Deny, "mcp__files_")]);
    for (tool, decision) in [
        ("mcp__files__read", Allow),
        ("mcp__files___read", Deny),
        ("mcp__files____read", Deny),
        ("mcp__filesx__read", Ask),
    ] {
        assert_eq!(decide(&rules, tool, &json!({})).decision, decision, "{tool}");
    }
}

#[test]
fn a_deny_of_a_host_sees_each_of_its_spellings() {
    let rules = set(&[
        (Allow, "Network"),
        (Deny, "Network(domain:169.254.169.254)"),
        (Deny, "Network(domain:example.org)"),
    ]);
    for (host, decision) in [
        ("example.net", Allow),
        ("EXAMPLE.org.", Deny),
        ("2852039166", Deny),
        ("0xa9.0xfe.43518", Deny),
        ("::ffff:169.254.169.254", Deny),
        ("example\u{3002}org", Deny),
        ("example org", Ask),
    ] {
        let verdict = decide(&rules, "Network", &json!({ "host": host, "port": 80 }));
        assert_eq!(verdict.decision, decision, "{host}");
    }
}

/// A pattern with more wildcards than fit a matcher ended the process that read it, and a path of a
/// megabyte took minutes.
#[test]
fn texts_of_any_length_are_judged() {
    let rules = set(&[
        (Allow, "Read"),
        (Allow, "Glob"),
        (Allow, "mcp__files"),
        (Deny, "Read(/src/secret/**)"),
        (Deny, "mcp__files_"),
    ]);
    let step = "src/".repeat(300_000);
    let up = format!("/{}src/secret/x", "a/../".repeat(300_000));
    let stars = "*".repeat(1_000_000);
    let tool = format!("mcp__files{}read", "_".repeat(1_000_000));
    for (tool, input, decision) in [
        ("Read", json!({ "file_path": format!("/{step}") }), Ask),
        ("Read", json!({ "file_path": up }), Ask),
        ("Read", json!({ "file_path": "/src/a" }), Allow),
        ("Glob", json!({ "pattern": stars, "path": "/src" }), Ask),
        (&tool, json!({}), Deny),
    ] {
        let verdict = decide(&rules, tool, &input);
        assert_eq!(verdict.decision, decision, "{tool:.20}: {:.300}", verdict.why);
    }
    let wild = |bytes: usize| format!("Read(/src/{}x)", "[!a]?{b,c}*".repeat(bytes / 11));
    wild(4096 - 11).parse::<Pattern>().unwrap();
    let refused = wild(1_000_000).parse::<Pattern>().unwrap_err().to_string();
    assert!(refused.contains("no path is longer than 4096 bytes"), "{refused:.300}");
}

#[test]
fn a_path_deny_sees_letters_that_some_file_systems_take_for_the_same() {
    let rules = set(&[(Allow, "Read"), (Deny, "Read(/src/secrets/**)")]);
    for path in ["/src/\u{17f}ecrets/x", "/SRC/SECRETS/x", "/\u{17f}rc/secrets/x"] {
        assert_eq!(decide(&rules, "Read", &json!({ "file_path": path })).decision, Ask, "{path}");
    }
}

/// The call of these tests comes from session 2, a child of session 1, at second 1000.
#[test]
fn a_rule_holds_for_its_scope_its_time_and_its_uses() {
    let base = || rule(Allow, "Bash(ls)");
    for (what, rule, decision) in [
        ("all", base(), Allow),
        ("its session", Rule { scope: Scope::Session(session(2)), ..base() }, Allow),
        ("another session", Rule { scope: Scope::Session(session(1)), ..base() }, Ask),
        ("its own subtree", Rule { scope: Scope::Subtree(session(2)), ..base() }, Allow),
        ("its parent's subtree", Rule { scope: Scope::Subtree(session(1)), ..base() }, Allow),
        ("another subtree", Rule { scope: Scope::Subtree(session(3)), ..base() }, Ask),
        ("made by its parent", Rule { author: Author::Session(session(1)), ..base() }, Allow),
        ("made by itself", Rule { author: Author::Session(session(2)), ..base() }, Ask),
        ("made by a stranger", Rule { author: Author::Session(session(3)), ..base() }, Ask),
        ("ends later", Rule { expires_at: Some(1001), ..base() }, Allow),
        ("ends now", Rule { expires_at: Some(1000), ..base() }, Ask),
        ("one use left", Rule { uses_left: Some(1), ..base() }, Allow),
        ("used up", Rule { uses_left: Some(0), ..base() }, Ask),
    ] {
        let covered = with_call("Bash", &json!({ "command": "ls" }), |call| covers(&rule, call));
        assert_eq!(covered, decision == Allow, "covers, {what}");
        assert_eq!(bash(&RuleSet::new([rule]), "ls").decision, decision, "{what}");
    }
}

fn check(rule: &Rule) -> Result<(), ExampleError> {
    let paths = links();
    rule.check_examples(&ExampleContext {
        working_dir: Path::new("/src"),
        home: None,
        paths: &paths,
    })
}

#[test]
fn examples_are_checked_and_a_contradiction_is_named() {
    let good = Rule {
        matches: vec!["Bash(git status -s)".into(), "Bash(git status)".into()],
        does_not_match: vec![
            "Bash(git stash)".into(),
            "Bash(git status; rm x)".into(),
            "Read(/src/a.rs)".into(),
        ],
        ..rule(Allow, "Bash(git status:*)")
    };
    assert_eq!(check(&good), Ok(()));
    let error =
        check(&Rule { matches: vec!["Bash(git stash)".into()], ..good.clone() }).unwrap_err();
    assert!(
        matches!(&error, ExampleError::DoesNotMatch { example, .. } if example == "Bash(git stash)"),
        "{error}"
    );
    let error = check(&Rule { does_not_match: vec!["Bash(git status -s)".into()], ..good.clone() })
        .unwrap_err();
    assert!(
        matches!(&error, ExampleError::Matches { example, .. } if example == "Bash(git status -s)"),
        "{error}"
    );
    let error = check(&Rule { matches: vec!["git status".into()], ..good }).unwrap_err();
    assert!(matches!(error, ExampleError::NotACall(_)), "{error}");
    let deny = Rule {
        matches: vec!["Bash(ls; rm x)".into()],
        does_not_match: vec!["Bash(ls)".into()],
        ..rule(Deny, "Bash(rm:*)")
    };
    assert_eq!(check(&deny), Ok(()));
}

#[test]
fn every_suggestion_covers_its_call_and_the_narrowest_comes_first() {
    for (tool, input, expected) in [
        (
            "Bash",
            json!({"command": "git status -s"}),
            &["Bash(git status -s)", "Bash(git status:*)", "Bash"][..],
        ),
        (
            "Bash",
            json!({"command": "npm run build --silent"}),
            &["Bash(npm run build --silent)", "Bash(npm run build:*)", "Bash"],
        ),
        ("Bash", json!({"command": "rm -rf x"}), &["Bash(rm -rf x)", "Bash"]),
        ("Bash", json!({"command": "sudo ls"}), &["Bash(sudo ls)", "Bash"]),
        ("Bash", json!({"command": "git -c a=b status"}), &["Bash(git -c a=b status)", "Bash"]),
        ("Bash", json!({"command": "find . -delete"}), &["Bash(find . -delete)", "Bash"]),
        ("Bash", json!({"command": "ls *.rs > a\\b"}), &["Bash(ls \\*.rs > a\\\\b)", "Bash"]),
        ("Bash", json!({"command": "echo :*"}), &["Bash(echo :\\*)", "Bash"]),
        ("Bash", json!({"command": "a; b\nc"}), &["Bash(a; b\nc)", "Bash"]),
        ("Read", json!({"file_path": "/src/a.rs"}), &["Read(/src/a.rs)", "Read(/src/**)", "Read"]),
        (
            "Write",
            json!({"file_path": "/src/[x]*.rs"}),
            &["Write(/src/\\[x\\]\\*.rs)", "Write(/src/**)", "Write"],
        ),
        (
            "Write",
            json!({"file_path": "/src/out/x"}),
            &["Write(/etc/x)", "Write(/etc/**)", "Write"],
        ),
        (
            "Grep",
            json!({"path": "/src/deep", "pattern": "x"}),
            &["Grep(/src/deep/**)", "Grep(/src/**)", "Grep"],
        ),
        (
            "WebFetch",
            json!({"url": "https://example.org/x"}),
            &["WebFetch(domain:example.org)", "WebFetch"],
        ),
        ("WebFetch", json!({"url": "https://example.org:8443/x"}), &["WebFetch"]),
        ("mcp__github__get_issue", json!({}), &["mcp__github__get_issue", "mcp__github__*"]),
        ("WebSearch", json!({"query": "x"}), &["WebSearch"]),
    ] {
        with_call(tool, &input, |call| {
            let suggestions = suggest(call);
            let patterns: Vec<&str> =
                suggestions.iter().map(|suggestion| suggestion.pattern.as_str()).collect();
            assert_eq!(patterns, expected);
            for suggestion in suggestions {
                let rule = Rule::new(Allow, suggestion.pattern);
                assert!(covers(&rule, call), "{} does not cover {input}", rule.pattern);
            }
            let distinguishes = !matches!(tool, "WebSearch" | "mcp__github__get_issue");
            let first = expected
                .first()
                .filter(|first| !(distinguishes && **first == tool))
                .map(|first| (*first).to_owned());
            assert_eq!(narrowest(call).map(|pattern| pattern.to_string()), first);
        });
    }
}

#[test]
fn a_command_that_cannot_be_written_down_does_not_become_a_rule_for_all_of_bash() {
    with_call("Bash", &json!({"command": "ls\r; x"}), |call| assert_eq!(narrowest(call), None));
}

fn parse_file(text: &str) -> Result<RuleFile, String> {
    let paths = links();
    let context = ExampleContext { working_dir: Path::new("/src"), home: None, paths: &paths };
    RuleFile::parse(Path::new("loopback.toml"), text, 1000, &context)
        .map_err(|error| error.to_string())
}

#[test]
fn a_rule_file_becomes_rules_with_lasting_ids() {
    let text = r#"
[[rule]]
decision = "allow"
pattern = "Bash(git status:*)"
expires_in_secs = 60
uses = 3
reason = "shows, changes nothing"
matches = ["Bash(git status -s)"]
does_not_match = ["Bash(git stash)"]

[[rule]]
decision = "deny"
pattern = "Read(/etc/**)"
scope = { subtree = "00000000-0000-0000-0000-000000000001" }

[[rule]]
decision = "deny"
pattern = "Read(/etc/**)"
scope = { subtree = "00000000-0000-0000-0000-000000000001" }
"#;
    let rules = parse_file(text).unwrap().rules;
    let [first, second, third] = rules.as_slice() else { panic!("{rules:?}") };
    assert_eq!(
        (first.expires_at, first.uses_left, first.scope, first.author),
        (Some(1060), Some(3), Scope::All, Author::Operator)
    );
    assert_eq!((second.decision, second.scope), (Deny, Scope::Subtree(session(1))));
    assert_ne!(second.id, third.id);
    assert_eq!(parse_file(text).unwrap().rules, rules, "a reload gives the same ids");
    assert!(parse_file("").unwrap().rules.is_empty());
}

#[test]
fn a_bad_rule_is_refused_with_file_and_line() {
    let start = "[[rule]]\ndecision = \"allow\"\n";
    for (text, line, what) in [
        ("[[rule]]\ndecision = \"maybe\"\npattern = \"Bash\"\n".to_owned(), 2, "maybe"),
        (format!("{start}pattern = \"Bash(\"\n"), 3, "not closed"),
        (format!("{start}pattern = \"Bash\"\nuses = 0\n"), 4, "at least 1"),
        (format!("{start}pattern = \"Bash\"\ncolour = 1\n"), 4, "colour"),
        (
            format!(
                "{start}pattern = \"Bash(ls)\"\nmatches = [\n  \"Bash(ls)\",\n  \"Bash(rm)\",\n]\n"
            ),
            6,
            "does not match",
        ),
        (
            format!("{start}pattern = \"Bash(ls)\"\ndoes_not_match = [\"Bash(ls)\"]\n"),
            4,
            "counterexample",
        ),
        (format!("{start}pattern = \"Bash(ls)\"\nmatches = [\"ls -l\"]\n"), 4, "not a call"),
        (format!("{start}pattern = \n"), 3, ""),
    ] {
        let error = parse_file(&text).expect_err(&text);
        assert!(
            error.starts_with(&format!("loopback.toml, line {line}: ")) && error.contains(what),
            "{error}"
        );
    }
}
