//! Tests the version probe: a clear error for every program that is not a supported CLI.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "a failed test is allowed to stop loudly")]

mod common;

use std::path::Path;

use claude_code::{
    CliVersion, OLDEST_SUPPORTED_VERSION, ProbeError, TESTED_VERSION, probe_version,
};
use common::within;

/// Probes a program that prints what its file name says.
async fn probe(program: &str) -> Result<claude_code::ProbedCli, ProbeError> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/children").join(program);
    within("the probe", probe_version(path)).await
}

#[tokio::test]
async fn a_version_is_read_and_compared() {
    let cli = probe("version-tested").await.expect("usable");
    assert_eq!((cli.version, cli.is_newer_than_tested()), (TESTED_VERSION, false));
    let newer = probe("version-newer").await.expect("usable");
    assert_eq!(
        (newer.version, newer.is_newer_than_tested()),
        (CliVersion { major: 3, minor: 0, patch: 1 }, true)
    );
}

#[tokio::test]
async fn an_old_cli_is_named_with_its_version_and_the_way_out() {
    let error = probe("version-old").await.expect_err("too old");
    assert!(matches!(
        error,
        ProbeError::TooOld { found: CliVersion { major: 1, minor: 0, patch: 44 }, .. }
    ));
    let said = error.to_string();
    for part in ["version-old", "1.0.44", &OLDEST_SUPPORTED_VERSION.to_string(), "update"] {
        assert!(said.contains(part), "{part} not in {said}");
    }
}

#[tokio::test]
async fn another_program_is_told_by_what_it_prints() {
    let said = probe("version-other").await.expect_err("not the CLI").to_string();
    assert!(said.contains("version-other") && said.contains("something else 1.2.3"), "{said}");
    let silent = within("the probe", probe_version("true")).await.expect_err("prints nothing");
    assert!(matches!(silent, ProbeError::Unrecognized { .. }), "{silent}");
}

#[tokio::test]
async fn a_missing_or_plain_file_is_named_with_the_way_out() {
    let missing = probe_version("no-such-program-here").await.expect_err("missing");
    assert!(matches!(missing, ProbeError::NotFound { .. }));
    assert!(
        missing.to_string().contains("no-such-program-here")
            && missing.to_string().contains("install")
    );
    let plain = probe_version(env!("CARGO_MANIFEST_PATH")).await.expect_err("plain");
    assert!(matches!(plain, ProbeError::NotExecutable { .. }));
    assert!(
        plain.to_string().contains("Cargo.toml") && plain.to_string().contains("not executable")
    );
}
