//! The whole program with the real Codex CLI: a server that is killed while Codex asks, and Codex
//! as a parent over MCP.
//!
//! Where the CLI or a network namespace cannot be had, every case is ignored and the reason is
//! printed; with `PLEXUS_REQUIRE_REAL_CODEX=1` that is a failure.

#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
mod server_with_codex;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    testkit::real_cli::suite::Suite::of(testkit::real_codex::CLI)
        .case(
            "a_server_that_was_killed_while_codex_asks_answers_once_and_it_runs_once",
            cases::a_server_that_was_killed_while_codex_asks_answers_once_and_it_runs_once,
        )
        .case(
            "a_denial_decided_before_a_kill_reaches_the_model_after_it",
            cases::a_denial_decided_before_a_kill_reaches_the_model_after_it,
        )
        .case(
            "codex_creates_a_child_of_its_own_once_it_is_allowed",
            cases::codex_creates_a_child_of_its_own_once_it_is_allowed,
        )
        .case("an_agent_that_is_missing_says_so", cases::an_agent_that_is_missing_says_so)
        .run()
}

#[cfg(not(target_os = "linux"))]
fn main() {}
