//! A rule means the same for every agent: it reads the target of a call, whatever its agent calls
//! the tool.

#![allow(clippy::expect_used, reason = "a failed test is allowed to stop loudly")]

mod common;

use common::{allows, rule, with_tool};
use plexus_rules::{Decision, RuleSet, is_edit_inside, narrowest, suggest};
use plexus_wire::{FileChange, FileEdit, ShellLanguage, ToolCall, ToolTarget};

fn decide(rules: &RuleSet, tool: &ToolCall) -> Decision {
    with_tool(tool, |call| rules.decide(call).decision)
}

fn shell(command: &str, cwd: Option<&str>) -> ToolCall {
    let (command, cwd) = (command.to_owned(), cwd.map(Into::into));
    let language = ShellLanguage::Posix;
    ToolCall::new("execute", ToolTarget::Shell { command, cwd, language })
}

fn patch(paths: &[&str]) -> ToolCall {
    let change = |path: &&str| FileChange {
        path: (*path).to_owned(),
        edit: FileEdit::Diff { diff: "/diff".to_owned() },
    };
    ToolCall::new("apply_patch", ToolTarget::Write { changes: paths.iter().map(change).collect() })
}

fn one_of(decision: Decision, pattern: &str) -> RuleSet {
    RuleSet::new([rule(decision, pattern)])
}

#[test]
fn a_rule_for_commands_fits_the_shell_of_any_agent() {
    let rules = allows(&["Bash(git diff:*)".to_owned()]);
    assert_eq!(decide(&rules, &shell("git diff --stat", None)), Decision::Allow);
    assert_eq!(decide(&rules, &shell("git push", None)), Decision::Ask);
    for pattern in ["Bash", "Bash(rm:*)", "execute"] {
        let rules = one_of(Decision::Deny, pattern);
        assert_eq!(decide(&rules, &shell("rm a", None)), Decision::Deny, "{pattern}");
    }
}

#[test]
fn no_rule_allows_a_command_that_starts_in_another_directory() {
    let rules = allows(&["Bash(git diff:*)".to_owned(), "Bash(make)".to_owned()]);
    for (command, cwd, decision) in [
        ("git diff", "/home/dev/project", Decision::Allow),
        ("git diff", "/home/dev/project/", Decision::Allow),
        ("git diff", ".", Decision::Allow),
        ("git diff", "/etc", Decision::Ask),
        ("git diff", "deep", Decision::Ask),
        ("make", "/etc", Decision::Ask),
    ] {
        assert_eq!(decide(&rules, &shell(command, Some(cwd))), decision, "{command} in {cwd}");
    }
    let denied = one_of(Decision::Deny, "Bash(git diff:*)");
    assert_eq!(decide(&denied, &shell("git diff", Some("/etc"))), Decision::Deny);
}

#[test]
fn no_rule_for_commands_reads_another_language() {
    let language = ShellLanguage::PowerShell;
    let target = ToolTarget::Shell { command: "git diff".into(), cwd: None, language };
    let call = ToolCall::new("execute", target);
    assert_eq!(decide(&allows(&["Bash(git diff:*)".to_owned()]), &call), Decision::Ask);
    assert_eq!(decide(&allows(&["PowerShell".to_owned()]), &call), Decision::Allow);
}

#[test]
fn every_file_of_a_patch_needs_a_rule_and_one_denied_file_denies_it() {
    let src = allows(&["Edit(/src/**)".to_owned()]);
    assert_eq!(decide(&src, &patch(&["/src/a.rs", "/src/deep/b.rs"])), Decision::Allow);
    assert_eq!(decide(&src, &patch(&["/src/a.rs", "/etc/passwd"])), Decision::Ask);
    assert_eq!(decide(&src, &patch(&["/src/a.rs", "/src/out/passwd"])), Decision::Ask);
    assert_eq!(decide(&src, &patch(&[])), Decision::Ask);

    let both = allows(&["Edit(/src/**)".to_owned(), "Edit(/etc/passwd)".to_owned()]);
    with_tool(&patch(&["/src/a.rs", "/etc/passwd"]), |call| {
        let ruling = both.decide(call);
        assert_eq!((ruling.decision, ruling.used.len()), (Decision::Allow, 2), "{}", ruling.why);
    });
    let denied = one_of(Decision::Deny, "Edit(/etc/**)");
    assert_eq!(decide(&denied, &patch(&["/src/a.rs", "/src/out/passwd"])), Decision::Deny);
}

#[test]
fn a_patch_that_also_writes_a_whole_file_is_denied_as_a_write() {
    let mut call = patch(&["/src/a.rs", "/src/secret/new"]);
    let ToolTarget::Write { changes } = &mut call.target else { panic!("no write") };
    changes[1].edit = FileEdit::Whole { after: "/after".to_owned() };
    for (pattern, decision) in [
        ("Write(/src/secret/**)", Decision::Deny),
        ("Write", Decision::Deny),
        ("Write(/src/a.rs)", Decision::Allow),
        ("Write(/etc/**)", Decision::Allow),
    ] {
        let rules = RuleSet::new([rule(Decision::Allow, "Edit"), rule(Decision::Deny, pattern)]);
        assert_eq!(decide(&rules, &call), decision, "deny {pattern}");
    }
}

#[test]
fn accepted_edits_are_those_whose_files_are_all_inside() {
    let inside = |paths: &[&str]| {
        with_tool(&patch(paths), |call| is_edit_inside(call, [std::path::Path::new("/src")]))
    };
    assert!(inside(&["/src/a.rs", "/src/new"]));
    assert!(!inside(&["/src/a.rs", "/etc/passwd"]));
    assert!(!inside(&["/src/a.rs", "/src/.git/hooks/pre-commit"]));
    assert!(!inside(&[]));
}

#[test]
fn a_doubt_of_the_driver_is_asked_and_denied_but_never_allowed() {
    for (call, pattern) in [
        (shell("git diff", None), "Bash(git diff:*)"),
        (shell("git diff", None), "Bash(git diff)"),
        (patch(&["/src/a.rs"]), "Edit(/src/**)"),
        (
            ToolCall::new("fetch", ToolTarget::Fetch { url: Some("https://a.org/".into()) }),
            "WebFetch(domain:a.org)",
        ),
    ] {
        let doubted = call.clone().doubted(Some("it wants to leave the sandbox"));
        for (call, allowed) in [(&call, Decision::Allow), (&doubted, Decision::Ask)] {
            assert_eq!(decide(&one_of(Decision::Allow, pattern), call), allowed, "{pattern}");
            assert_ne!(decide(&one_of(Decision::Deny, pattern), call), Decision::Allow);
        }
    }
}

#[test]
fn the_own_name_of_a_tool_allows_nothing_that_its_target_does_not() {
    let mut call = patch(&["/etc/passwd"]);
    call.tool_name = "Read".to_owned();
    assert_eq!(decide(&allows(&["Read".to_owned()]), &call), Decision::Ask);
    assert_eq!(decide(&allows(&["Read(/etc/**)".to_owned()]), &call), Decision::Ask);
    assert_eq!(decide(&one_of(Decision::Deny, "Read"), &call), Decision::Deny);
    assert_eq!(decide(&allows(&["Edit".to_owned()]), &call), Decision::Allow);
}

#[test]
fn suggestions_are_written_in_the_notation_of_rules() {
    let patterns = |call: &ToolCall| -> Vec<String> {
        with_tool(call, |call| suggest(call).iter().map(|it| it.pattern.to_string()).collect())
    };
    let command = ["Bash(git diff)", "Bash(git diff:*)", "Bash"];
    assert_eq!(patterns(&shell("git diff", None)), command);
    let file = ["Edit(/src/a.rs)", "Edit(/src/a.rs/**)", "Edit(/src/**)", "Edit"];
    let offered = patterns(&patch(&["/src/a.rs"]));
    assert!(offered.iter().all(|it| file.contains(&it.as_str())), "{offered:?}");
    assert_eq!(offered.first().map(String::as_str), Some("Edit(/src/a.rs)"));
    // No narrow rule covers several files, and the whole tool is never remembered unasked.
    assert_eq!(with_tool(&patch(&["/src/a.rs", "/src/b.rs"]), narrowest), None);
    let mcp = ToolTarget::Mcp { server: "hub".into(), tool: "open".into() };
    assert_eq!(patterns(&ToolCall::new("open", mcp)), ["mcp__hub__open", "mcp__hub__*"]);
}
