//! Tests the MCP door with the real Claude Code CLI: as a child that asks for permission, and as a
//! parent that calls tools.
//!
//! Where the CLI or a network namespace is not available, every case is ignored and the reason is
//! printed.
#![cfg_attr(
    target_os = "linux",
    expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")
)]

#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
#[path = "../doors/support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "most of it is for the tests of the doors")]
mod support;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    testkit::real_claude::suite::Suite::new()
        .case(
            "a_permission_is_asked_for_and_the_edited_input_runs",
            cases::a_permission_is_asked_for_and_the_edited_input_runs,
        )
        .case(
            "a_failure_of_the_permission_path_is_a_denial",
            cases::a_failure_of_the_permission_path_is_a_denial,
        )
        .case(
            "a_blocked_permission_survives_a_restart_of_the_server",
            cases::a_blocked_permission_survives_a_restart_of_the_server,
        )
        .case(
            "a_parent_calls_tools_and_reads_failures",
            cases::a_parent_calls_tools_and_reads_failures,
        )
        .run()
}

#[cfg(not(target_os = "linux"))]
fn main() {}
