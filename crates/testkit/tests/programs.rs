//! The places of our code that start programs. A program obeys files of the directory that it
//! starts in, so none may start where an agent can write, unless a wall stands around it or it is
//! the agent itself. A new place is a design decision: say here why that holds.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// The files that may name `std::process::Command` or `tokio::process::Command`.
const ALLOWED: &[(&str, &str)] = &[
    ("agent_lines/src/child/mod.rs", "a library; its callers name the program and the directory"),
    ("agent_lines/src/process/linux.rs", "spawns commands that others of this list have made"),
    ("agent_lines/src/process/mod.rs", "spawns commands that others of this list have made"),
    ("agent_lines/src/process/unix.rs", "spawns commands that others of this list have made"),
    ("agent_lines/src/process/windows.rs", "spawns commands that others of this list have made"),
    ("agent_lines/src/version.rs", "asks an agent for its version, in /"),
    ("plexus-confine/src/network.rs", "the egress process: the words of a plan, which we wrote"),
    ("plexus-confine/src/probe.rs", "the stage of a wall, which is this program"),
    ("plexus-confine/src/ring.rs", "a shell within the wall"),
    ("plexus-confine/src/stage.rs", "becomes the program within the wall"),
    ("plexus-engine/src/home.rs", "the first start of an agent, in its home"),
    ("plexus-engine/src/start.rs", "the shim, which is this program"),
    ("plexus-shim/src/start.rs", "the stage of a wall, or an agent that has none"),
    ("plexus-server/src/confine.rs", "the stage of a wall, as the person asked for"),
    ("plexus-cli/src/demo/server.rs", "this program"),
    ("plexus-cli/src/program.rs", "programs of the person: an editor, a pager, a browser, in /"),
    ("plexus-cli/src/server.rs", "this program, in /"),
    ("plexus-notify/src/kinds/command.rs", "a program of the operator's settings, in /"),
    ("plexus-notify/src/kinds/desktop.rs", "notify-send, in /"),
    ("plexus-server/src/wall/guard.rs", "this program"),
];

/// Crates that are in no build for use.
const FOR_TESTS: [&str; 3] = ["plexus-bench", "plexus-sim", "testkit"];

/// Matches a text that names a type that starts programs, or all of its module.
fn starts() -> Regex {
    Regex::new(
        r"(?x)
        \b process \s*::\s* (Command\b | \*)
        | \b process \s*::\s* \{ [^}]* \b Command \b
        | \b (std|tokio) \s*::\s* process \s* (;|\bas\b)
        | \b (std|tokio) \s*::\s* \{ [^;]* \b process \s* ([,}]|\bas\b)
        | \b portable_pty \b",
    )
    .unwrap()
}

/// A source without comments and without the modules for tests at its end.
fn production(source: &str) -> String {
    let tests =
        Regex::new(r"(?ms)^#\[cfg\((test|all\(test[^\]]*)\)\]\nmod \w+ \{$.*?^\}$").unwrap();
    let comments = Regex::new(r"(?m)//.*$").unwrap();
    comments.replace_all(&tests.replace_all(source, ""), "").into_owned()
}

/// The Rust files of a directory, without those that are modules for tests.
fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") && name != "tests" {
            found.push(path);
        }
    }
}

#[test]
fn only_listed_files_start_programs() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for member in fs::read_dir(crates).unwrap() {
        let member = member.unwrap().path();
        let is_for_tests = FOR_TESTS.iter().any(|name| member.ends_with(name));
        if !is_for_tests && member.join("src").is_dir() {
            sources(&member.join("src"), &mut files);
        }
    }
    assert!(files.len() > 300, "only {} files were found", files.len());
    let (starts, mut left) = (starts(), ALLOWED.iter().copied().collect::<BTreeMap<_, _>>());
    let mut wrong = Vec::new();
    for file in files {
        let source = fs::read_to_string(&file).unwrap();
        let is_candidate = source.contains("process") || source.contains("portable_pty");
        if is_candidate && starts.is_match(&production(&source)) {
            let name = file.strip_prefix(crates).unwrap().to_str().unwrap();
            if left.remove(name).is_none() {
                wrong.push(name.to_owned());
            }
        }
    }
    assert!(wrong.is_empty(), "these start programs and are not in the list: {wrong:?}");
    assert!(left.is_empty(), "these start no programs any more: {left:?}");
}

#[test]
fn every_way_to_name_the_type_is_seen() {
    let starts = starts();
    for source in [
        "use std::process::Command;",
        "use tokio::process::{Child, Command as Program};",
        "use std::process::{\n    Child,\n    Command,\n};",
        "let child = std::process::Command::new(\"git\");",
        "use std::process;",
        "use std::process as p;",
        "use tokio::process::*;",
        "use std::{io, process};",
        "use std::{io, process::Command};",
        "use std::{\n    io,\n    process::{Child, Command},\n};",
        "select! { _ = process::Command::new(\"git\").status() => {} }",
        "use portable_pty::CommandBuilder;",
    ] {
        assert!(starts.is_match(&production(source)), "{source}");
    }
    for source in [
        "use std::process::{Child, ExitCode, Stdio};",
        "use std::os::unix::process::CommandExt as _;",
        "use clap::Command;\nstd::process::exit(1);",
        "// std::process::Command\n",
        "#[cfg(test)]\nmod tests {\n    use std::process::Command;\n}\n",
    ] {
        assert!(!starts.is_match(&production(source)), "{source}");
    }
    // What follows the tests counts.
    let source = "#[cfg(test)]\nmod tests {\n}\nuse std::process::Command;\n";
    assert!(starts.is_match(&production(source)));
}
