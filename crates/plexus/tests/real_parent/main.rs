//! The whole, with the real Claude Code CLI on both sides: as a parent that supervises over MCP,
//! and as the child it supervises.
//!
//! Where the CLI or a network namespace cannot be had, every case is ignored and the reason is
//! printed.

#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
mod parent;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    testkit::real_claude::suite::Suite::new()
        .case(
            "a_parent_allows_what_its_child_asks_and_gets_the_result",
            cases::a_parent_allows_what_its_child_asks_and_gets_the_result,
        )
        .case("a_child_reads_why_its_parent_refused", cases::a_child_reads_why_its_parent_refused)
        .case("an_edit_of_the_parent_is_what_runs", cases::an_edit_of_the_parent_is_what_runs)
        .case(
            "a_child_that_asks_over_mcp_is_answered_by_its_parent",
            cases::a_child_that_asks_over_mcp_is_answered_by_its_parent,
        )
        .run()
}

#[cfg(not(target_os = "linux"))]
fn main() {}
