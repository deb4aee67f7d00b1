//! Shared by the tests of rules: a small file system, a caller, and short ways to write rules and
//! calls.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part of this module")]

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use plexus_rules::{Call, Decision, Entry, PathResolver, Rule, RuleSet, Ruling, notation};
use plexus_wire::{SessionId, ToolCall};
use serde_json::{Value, json};
use uuid::Uuid;

/// A file system of links and plain entries; everything else is missing.
pub struct Links(HashMap<PathBuf, Entry>);

impl PathResolver for Links {
    fn look(&self, path: &Path) -> io::Result<Entry> {
        if path == Path::new("/locked/door") {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        Ok(self.0.get(path).cloned().unwrap_or(Entry::Missing))
    }

    fn names(&self, path: &Path, _most: usize) -> io::Result<Vec<OsString>> {
        if !self.0.contains_key(path) {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        let children = self.0.keys().filter(|it| it.parent() == Some(path));
        Ok(children.filter_map(|it| it.file_name()).map(OsString::from).collect())
    }
}

/// Returns `/src` with files, and with links that lead out of it and into it.
pub fn links() -> Links {
    let plain = [
        "/src",
        "/src/a.rs",
        "/src/deep",
        "/src/deep/b.rs",
        "/etc",
        "/etc/passwd",
        "/home",
        "/home/dev",
        "/elsewhere",
        "/SRC",
    ];
    let links = [
        ("/src/out", "/etc"),
        ("/src/dangling", "../etc/unborn"),
        ("/src/deep/out", "../../etc"),
        ("/src/loop", "loop"),
        ("/src/up", ".."),
        ("/src/inner", "deep/.."),
        ("/src/tohome", "/home/dev"),
        ("/src/chain", "deep/out"),
        ("/src/proc", "/proc"),
        ("/src/fd", "/proc/self/fd"),
        ("/elsewhere/into", "/src"),
        ("/linked", "/data/real"),
    ];
    let mut map: HashMap<PathBuf, Entry> =
        plain.iter().map(|path| (PathBuf::from(path), Entry::Plain)).collect();
    map.extend(
        links.iter().map(|(from, to)| (PathBuf::from(from), Entry::Link(PathBuf::from(to)))),
    );
    Links(map)
}

/// Returns the session of a test, by number.
pub fn session(number: u128) -> SessionId {
    SessionId::from_uuid(Uuid::from_u128(number))
}

/// Makes an operator's rule for all sessions.
pub fn rule(decision: Decision, pattern: &str) -> Rule {
    Rule::new(decision, pattern.parse().expect(pattern))
}

/// Makes a set of allows.
pub fn allows(patterns: &[String]) -> RuleSet {
    RuleSet::new(patterns.iter().map(|pattern| rule(Decision::Allow, pattern)))
}

/// Runs `body` with a call of session 2, a child of session 1, whose working directory is
/// `/home/dev/project`.
pub fn with_call<T>(tool_name: &str, input: &Value, body: impl FnOnce(&Call<'_>) -> T) -> T {
    with_tool(&notation::read(tool_name, input), body)
}

/// The same for a call that an agent's driver has already read.
pub fn with_tool<T>(tool: &ToolCall, body: impl FnOnce(&Call<'_>) -> T) -> T {
    let paths = links();
    body(&Call {
        tool,
        working_dir: Path::new("/home/dev/project"),
        home: Some(Path::new("/home/dev")),
        session: session(2),
        ancestors: &[session(1)],
        now: 1000,
        paths: &paths,
    })
}

/// Decides a call.
pub fn decide(rules: &RuleSet, tool_name: &str, input: &Value) -> Ruling {
    with_call(tool_name, input, |call| rules.decide(call))
}

/// Decides a command.
pub fn bash(rules: &RuleSet, command: &str) -> Ruling {
    decide(rules, "Bash", &json!({ "command": command }))
}
