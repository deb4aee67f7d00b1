//! The cargo commands in documents: each names a package, a target and a test that exist. CI runs
//! the targets themselves with one command for all of them.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Fewer commands than this mean that they were not found.
const LEAST_COMMANDS: usize = 40;

#[test]
fn every_cargo_command_of_a_document_names_what_exists() {
    let packages = packages();
    let mut commands = BTreeSet::new();
    let mut wrong = Vec::new();
    for document in documents() {
        let text = std::fs::read_to_string(root().join(&document)).expect("a document");
        for words in cargo_commands(&text) {
            if let Err(problem) = check(&words, &packages) {
                wrong.push(format!("{}: cargo {}: {problem}", document.display(), words.join(" ")));
            }
            commands.insert(words);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(commands.len() >= LEAST_COMMANDS, "only {} were found", commands.len());
}

#[test]
fn commands_that_name_nothing_are_found() {
    let packages = packages();
    for bad in [
        "`cargo test -p plexus-nothing`",
        "`cargo test -p plexus-store --test nothing`",
        "`cargo run -p plexus-bench --bin nothing`",
        "`cargo run -p plexus-wire`",
        "cargo test -p plexus-store --test crash no_such_test_at_all   # why",
    ] {
        let commands: Vec<_> = cargo_commands(bad).collect();
        assert_eq!(commands.len(), 1, "{bad}");
        assert!(check(&commands[0], &packages).is_err(), "{bad}");
    }
}

/// Checks one command, given as the words after `cargo`.
fn check(words: &[String], packages: &[Value]) -> Result<(), String> {
    let mut words = words.iter().map(String::as_str);
    let subcommand = words.next().unwrap_or_default();
    let (mut package, mut targets, mut tests, mut after) = (None, Vec::new(), Vec::new(), false);
    while let Some(word) = words.next() {
        match word {
            "-p" | "--package" if !after => package = words.next(),
            "--test" | "--bench" | "--example" | "--bin" if !after => {
                targets.push((&word[2..], words.next().unwrap_or_default()));
            }
            "--" => after = true,
            _ if subcommand == "test" && word.contains(['_', '.']) && !word.starts_with('-') => {
                tests.push(word);
            }
            _ => {}
        }
    }
    // A command without a package is for the workspace, and one in capitals for any of them.
    let Some(name) = package.filter(|name| name.chars().any(|c| !c.is_ascii_uppercase())) else {
        return Ok(());
    };
    let package = packages
        .iter()
        .find(|package| package["name"] == name)
        .ok_or_else(|| format!("no package {name}"))?;
    let all = package["targets"].as_array().expect("targets");
    for (kind, name) in &targets {
        if !all.iter().any(|it| it["name"] == *name && it["kind"][0] == *kind) {
            return Err(format!("no {kind} {name}"));
        }
    }
    let programs = all.iter().filter(|it| it["kind"][0] == "bin").count();
    if subcommand == "run"
        && targets.is_empty()
        && programs != 1
        && package["default_run"].is_null()
    {
        return Err(format!("{programs} programs and no default"));
    }
    let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
    for test in tests {
        if !is_named_below(manifest.parent().expect("a folder"), test) {
            return Err(format!("no test {test}"));
        }
    }
    Ok(())
}

/// Tells whether a Rust file below `folder` has this word.
fn is_named_below(folder: &Path, word: &str) -> bool {
    std::fs::read_dir(folder).expect("a folder").any(|entry| {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            return is_named_below(&path, word);
        }
        path.extension().is_some_and(|extension| extension == "rs")
            && std::fs::read_to_string(&path).expect("a source").contains(word)
    })
}

/// Returns the words after `cargo` of every command in a text.
fn cargo_commands(text: &str) -> impl Iterator<Item = Vec<String>> {
    const SUBCOMMANDS: [&str; 6] = ["run", "test", "bench", "build", "check", "install"];
    let ends = |c: char| matches!(c, '`' | '|' | '#' | ';' | '(' | ')' | '"');
    text.lines()
        .flat_map(move |line| {
            let starts = line.match_indices("cargo ").map(|(at, word)| at + word.len());
            starts.map(move |at| {
                let command = line[at..].split(ends).next().unwrap_or_default();
                command.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
            })
        })
        .filter(|words| words.first().is_some_and(|first| SUBCOMMANDS.contains(&first.as_str())))
        .collect::<Vec<_>>()
        .into_iter()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every document of ours, and the justfile.
fn documents() -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("justfile")];
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).expect("a folder") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = folder.join(&name);
            let is_folder = entry.file_type().expect("a type").is_dir();
            // What is built, installed, recorded or of another workspace is not ours to check.
            let is_foreign = name.starts_with('.')
                || ["target", "node_modules", "fixtures", "dist"].contains(&name.as_str())
                || path == Path::new("examples");
            if is_folder && !is_foreign {
                folders.push(path);
            } else if name.ends_with(".md") {
                found.push(path);
            }
        }
    }
    found
}

fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let Value::Array(packages) = metadata["packages"].clone() else { panic!("no packages") };
    packages
}
