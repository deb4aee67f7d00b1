//! The dependencies between our crates, as ARCHITECTURE.md draws them. A new one is a design
//! decision, and needs a change of its own.

use std::collections::{BTreeMap, BTreeSet};
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
    ("plexus-rules", &["plexus-wire"]),
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
