//! Decides whether one pattern includes another: every call that fits the second also fits the
//! first. The answer is no when that cannot be proved.
//!
//! Grants are compared with this when a session passes one on. The comparison uses patterns as
//! written; links are followed when a call is decided.

use std::path::Path;

use plexus_wire::{ShellLanguage, ToolCall, ToolTarget};
use uuid::Uuid;

use super::call::Call;
use super::files::Family;
use super::notation::NETWORK_TOOL;
use super::paths::PathResolver;
use super::pattern::{CommandPattern, Kind, Pattern};
use super::rule::{Decision, Rule};
use super::set::fits;

/// A pattern and the directory in which its relative paths start; `None` when it is used in
/// several.
#[derive(Clone, Copy)]
pub struct Placed<'a> {
    /// The pattern.
    pub pattern: &'a Pattern,
    /// Where relative paths start.
    pub dir: Option<&'a Path>,
}

/// Says whether `outer` certainly includes every call of `inner`.
#[must_use]
pub fn includes(outer: Placed<'_>, inner: Placed<'_>, paths: &dyn PathResolver) -> bool {
    match (outer.pattern.kind(), inner.pattern.kind()) {
        (Kind::Tools(tools), inner) => {
            tools_of(inner).is_some_and(|used| used.iter().all(|tool| tools.contains(tool)))
        }
        (Kind::McpPrefix { prefix, .. }, Kind::Tools(tools)) => {
            tools.iter().all(|tool| tool.starts_with(prefix))
        }
        (Kind::McpPrefix { prefix, .. }, Kind::McpPrefix { prefix: inner, .. }) => {
            inner.starts_with(prefix)
        }
        (Kind::Command(_), Kind::Command(command)) => {
            // Without a directory of its own, `inner` is compared in the directory of `outer`.
            let dir = inner.dir.or(outer.dir).unwrap_or(Path::new("/"));
            command_included(outer.pattern, command, dir, paths)
        }
        (Kind::Path(family, path), Kind::Path(inner_family, inner_path)) => {
            within(*inner_family, *family)
                && path.includes(*inner_family, outer.dir, inner_path, inner.dir)
        }
        (
            Kind::Domain { ascii, written },
            Kind::Domain { ascii: inner, written: inner_written },
        ) => ascii == inner && written == inner_written,
        (Kind::Reach(reach), Kind::Reach(inner)) => reach.includes(inner),
        (
            Kind::McpPrefix { .. }
            | Kind::Command(_)
            | Kind::Path(..)
            | Kind::Domain { .. }
            | Kind::Reach(_),
            _,
        ) => false,
    }
}

/// Returns the tools that a pattern covers, when they can be listed.
fn tools_of(kind: &Kind) -> Option<Vec<String>> {
    let named = |tools: &[&str]| tools.iter().map(|&tool| tool.to_owned()).collect();
    match kind {
        Kind::Tools(tools) => Some(tools.clone()),
        Kind::Command(_) => Some(named(&["Bash"])),
        Kind::Domain { .. } => Some(named(&["WebFetch"])),
        Kind::Reach(_) => Some(named(&[NETWORK_TOOL])),
        Kind::Path(family, _) => Some(named(family.tools())),
        Kind::McpPrefix { .. } => None,
    }
}

fn within(inner: Family, outer: Family) -> bool {
    inner.tools().iter().all(|tool| outer.tools().contains(tool))
}

/// Asks the rule engine itself about the words that `inner` begins with. A command that the engine
/// would not allow is not included.
fn command_included(
    outer: &Pattern,
    inner: &CommandPattern,
    dir: &Path,
    paths: &dyn PathResolver,
) -> bool {
    let text = match inner {
        CommandPattern::Exact { text, .. } => text.clone(),
        CommandPattern::Prefix { words } => {
            // Any arguments may follow, so an exact pattern never suffices.
            let Kind::Command(CommandPattern::Prefix { words: outer_words }) = outer.kind() else {
                return false;
            };
            if !words.starts_with(outer_words) {
                return false;
            }
            words
                .iter()
                .map(|word| format!("'{}'", word.replace('\'', r"'\''")))
                .collect::<Vec<_>>()
                .join(" ")
        }
    };
    let (cwd, language) = (None, ShellLanguage::Posix);
    let tool = ToolCall::new("Bash", ToolTarget::Shell { command: text, cwd, language });
    let call = Call {
        tool: &tool,
        working_dir: dir,
        home: None,
        session: plexus_wire::SessionId::from_uuid(Uuid::nil()),
        ancestors: &[],
        now: 0,
        paths,
    };
    fits(&Rule::new(Decision::Allow, outer.clone()), &call).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealPaths;

    fn included(outer: &str, outer_dir: &str, inner: &str, inner_dir: Option<&str>) -> bool {
        let (outer, inner): (Pattern, Pattern) = (outer.parse().unwrap(), inner.parse().unwrap());
        let outer = Placed { pattern: &outer, dir: Some(Path::new(outer_dir)) };
        includes(outer, Placed { pattern: &inner, dir: inner_dir.map(Path::new) }, &RealPaths)
    }

    #[test]
    fn a_pattern_takes_in_what_is_narrower() {
        for (outer, inner) in [
            ("Bash", "Bash(git status)"),
            ("Bash", "Bash(git:*)"),
            ("Bash(git:*)", "Bash(git status:*)"),
            ("Bash(git status:*)", "Bash(git status -s)"),
            ("Bash(git status:*)", "Bash(git status:*)"),
            ("Bash(npm test)", "Bash(npm test)"),
            ("Read", "Read(/src/**)"),
            ("Read", "Grep"),
            ("Edit", "Write"),
            ("Edit(/src/**)", "Write(/src/a/**)"),
            ("Read(/src/**)", "Read(/src/a.rs)"),
            ("Read(/src/**)", "Read(/src/*.rs)"),
            ("Read(src/**)", "Read(/w/src/a/**)"),
            ("Read(src/**)", "Read(src/a)"),
            ("Read(/src/*.rs)", "Read(/src/*.rs)"),
            ("Read(/src/**)", "Read(/src/.git/config)"),
            ("Edit(/src/.claude/**)", "Edit(/src/.claude/agents/**)"),
            ("Edit(/src/**/CLAUDE.md)", "Edit(/src/a/CLAUDE.md)"),
            ("WebFetch", "WebFetch(domain:example.org)"),
            ("WebFetch(domain:example.org)", "WebFetch(domain:example.org)"),
            ("mcp__github", "mcp__github__get_issue"),
            ("mcp__github__get_*", "mcp__github__get_issue"),
            ("mcp__github", "mcp__github__*"),
            ("WebSearch", "WebSearch"),
        ] {
            assert!(included(outer, "/w", inner, Some("/w")), "{outer} takes in {inner}");
        }
    }

    #[test]
    fn a_pattern_does_not_take_in_what_is_wider_or_elsewhere() {
        for (outer, inner) in [
            ("Bash(git status)", "Bash(git status:*)"),
            ("Bash(git status:*)", "Bash(git:*)"),
            ("Bash(git status:*)", "Bash"),
            ("Bash(git:*)", "Bash(git status; rm -rf x)"),
            ("Bash(git:*)", "Bash(git -c core.pager=x log:*)"),
            ("Bash(git:*)", "Bash(gitk:*)"),
            ("Read", "Write"),
            ("Write", "Edit"),
            ("Read(/src/**)", "Read(/srcs/**)"),
            ("Read(/src/**)", "Read(/**)"),
            ("Read(/src/**)", "Read(~/src/a)"),
            ("Read(/src/*.rs)", "Read(/src/**)"),
            ("Read(/src/a)", "Read(/src/a/**)"),
            ("Grep(/src/**)", "Read(/src/**)"),
            ("Edit(/src/**)", "Edit(/src/.git/config)"),
            ("Edit(/src/**)", "Edit(/src/.claude/**)"),
            ("Edit(/src/**)", "Edit(/src/**/CLAUDE.md)"),
            ("Edit(/src/*.json)", "Edit(/src/package.json)"),
            ("WebFetch(domain:example.org)", "WebFetch(domain:evil.example.org)"),
            ("WebFetch(domain:example.org)", "WebFetch"),
            ("mcp__github__get_issue", "mcp__github"),
            ("mcp__github", "mcp__githubx__a"),
            ("Bash", "mcp__bash__run"),
        ] {
            assert!(!included(outer, "/w", inner, Some("/w")), "{outer} takes in {inner}");
        }
        assert!(
            !included("Read(src/**)", "/w", "Read(src/**)", Some("/w/deeper")),
            "relative to another directory"
        );
        assert!(
            !included("Read(src/**)", "/w", "Read(src/**)", None),
            "relative to whatever directory"
        );
        assert!(included("Read", "/w", "Read(src/**)", None), "everything is everything");
    }
}
