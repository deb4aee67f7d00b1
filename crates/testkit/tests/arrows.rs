//! What the design allows our crates: the dependencies that ARCHITECTURE.md draws, and who may read
//! the machine's clock. More is a design decision, and needs a change of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The crates of ours that each crate may depend on. Tests (dev-dependencies) may use all.
const ALLOWED: &[(&str, &[&str])] = &[
    ("agent_lines", &[]),
    ("claude_code", &["agent_lines"]),
    ("codex_app", &["agent_lines"]),
    ("acp_lines", &["agent_lines"]),
    ("agent_api", &["agent_lines", "claude_code", "codex_app", "acp_lines"]),
    ("plexus-fault", &[]),
    ("plexus-files", &[]),
    ("plexus-tls", &[]),
    ("plexus-wire", &[]),
    ("plexus-confine", &["plexus-files", "plexus-tls"]),
    ("plexus-core", &["plexus-wire"]),
    ("plexus-rules", &["plexus-files", "plexus-wire"]),
    ("plexus-shim", &["plexus-fault"]),
    ("plexus-store", &["plexus-wire", "plexus-core", "plexus-fault", "plexus-tls"]),
    (
        "plexus-engine",
        &[
            "plexus-wire",
            "plexus-core",
            "plexus-store",
            "plexus-rules",
            "plexus-shim",
            "plexus-fault",
            "plexus-files",
            "agent_lines",
        ],
    ),
    (
        "plexus-agents",
        &[
            "plexus-wire",
            "plexus-store",
            "plexus-rules",
            "plexus-engine",
            "plexus-tls",
            "agent_lines",
            "claude_code",
            "acp_lines",
            "codex_app",
        ],
    ),
    (
        "plexus-activations",
        &[
            "plexus-wire",
            "plexus-core",
            "plexus-store",
            "plexus-rules",
            "plexus-engine",
            "plexus-fault",
        ],
    ),
    ("plexus-transport", &["plexus-wire", "plexus-core", "plexus-fault"]),
    ("plexus-client", &["plexus-wire"]),
    ("plexus-render", &["plexus-wire"]),
    ("plexus-editor", &["plexus-client", "plexus-render", "acp_lines"]),
    ("plexus-cli", &["plexus-client", "plexus-editor", "plexus-render", "plexus-transport"]),
    ("plexus-sim", &["claude_code", "plexus-fault"]),
    (
        "plexus-notify",
        &[
            "plexus-wire",
            "plexus-core",
            "plexus-store",
            "plexus-engine",
            "plexus-render",
            "plexus-confine",
            "plexus-fault",
            "plexus-files",
            "plexus-tls",
        ],
    ),
    (
        "plexus-server",
        &[
            "plexus-wire",
            "plexus-core",
            "plexus-store",
            "plexus-engine",
            "plexus-agents",
            "plexus-activations",
            "plexus-transport",
            "plexus-notify",
            "plexus-confine",
            "plexus-client",
            "plexus-render",
            "plexus-fault",
            "plexus-files",
            "plexus-tls",
            "claude_code",
            "codex_app",
        ],
    ),
    (
        "plexus",
        &[
            "plexus-server",
            "plexus-cli",
            "plexus-agents",
            "plexus-confine",
            "plexus-fault",
            "plexus-render",
            "plexus-shim",
            "plexus-sim",
        ],
    ),
    (
        "plexus-bench",
        &[
            "agent_lines",
            "claude_code",
            "agent_api",
            "plexus-wire",
            "plexus-confine",
            "plexus-core",
            "plexus-store",
            "plexus-activations",
            "plexus-transport",
            "plexus-shim",
            "plexus-client",
            "plexus-sim",
            "testkit",
        ],
    ),
    (
        "testkit",
        &[
            "claude_code",
            "agent_api",
            "plexus-wire",
            "plexus-core",
            "plexus-store",
            "plexus-client",
            "plexus-sim",
        ],
    ),
];

#[test]
fn no_crate_depends_on_what_the_design_does_not_allow() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--all-features"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let ours: BTreeSet<&str> =
        packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    assert_eq!(
        ours,
        allowed.keys().copied().collect(),
        "a crate came or went: say here what it may depend on"
    );

    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let target = dependency["name"].as_str().expect("a name");
            let for_tests_only = dependency["kind"] == "dev";
            if ours.contains(target) && !for_tests_only && !allowed[name].contains(&target) {
                wrong.push(format!("{name} -> {target}"));
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that the design does not allow: {wrong:?}");
}

/// The only files of the server that may read the machine's clock: the clock that never goes
/// backwards, and comparisons with the times of files.
const READ_THE_MACHINES_CLOCK: &[&str] = &[
    "plexus-store/src/contract/time.rs",
    "plexus-engine/src/changes/snapshot.rs",
    "plexus-server/src/data_dir.rs",
];

/// The code that grants, decides and expires. The command line shows times and ends nothing.
const ON_THE_PATH_OF_AUTHORITY: &[&str] = &[
    "plexus-core/src",
    "plexus-store/src",
    "plexus-rules/src",
    "plexus-engine/src",
    "plexus-agents/src",
    "plexus-activations/src",
    "plexus-transport/src",
    "plexus-notify/src",
    "plexus-server/src",
];

#[test]
fn only_the_clock_reads_the_time_of_the_machine() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeSet::new();
    for path in ON_THE_PATH_OF_AUTHORITY {
        find_readers_of_the_clock(&crates.join(path), &mut found);
    }
    let named: BTreeSet<PathBuf> =
        READ_THE_MACHINES_CLOCK.iter().map(|path| crates.join(path)).collect();
    assert_eq!(found, named, "use UnixMillis::now(): the machine's clock may be set back");
}

#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
fn find_readers_of_the_clock(path: &Path, found: &mut BTreeSet<PathBuf>) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            find_readers_of_the_clock(&entry.unwrap().path(), found);
        }
        return;
    }
    let is_rust = path.extension().is_some_and(|extension| extension == "rs");
    let text = std::fs::read_to_string(path).unwrap();
    let reads = ["SystemTime::now", "Timestamp::now", "Zoned::now", "Utc::now", "Local::now"];
    if is_rust && reads.iter().any(|call| text.contains(call)) {
        found.insert(path.to_owned());
    }
}
