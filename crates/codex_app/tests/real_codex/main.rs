//! Tests this crate against the real Codex CLI, which talks to a scripted stand-in for the
//! Responses API.
//!
//! If the CLI or a network namespace is not available, every case is ignored and the reason is
//! printed; with `PLEXUS_REQUIRE_REAL_CODEX=1` that is a failure. `scripts/install-codex-cli.sh`
//! installs the CLI.
//!
//! - [`asks`]: commands, file changes, hostile repositories: which actions need approval, and the
//!   effect of each answer.
//! - [`turns`]: interrupts, steering, resuming, forking, errors of the model, the end.
//! - [`talk`]: a server in a sandbox, its thread, and the lines it wrote.

#[cfg(target_os = "linux")]
mod asks;
#[cfg(target_os = "linux")]
mod talk;
#[cfg(target_os = "linux")]
mod turns;

/// Builds a suite of functions, each under its own name.
#[cfg(target_os = "linux")]
macro_rules! suite {
    ($($module:ident::$case:ident,)*) => {
        testkit::real_cli::suite::Suite::of(testkit::real_codex::CLI)
            $(.case(concat!(stringify!($module), "::", stringify!($case)), $module::$case))*
    };
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    suite! {
        asks::the_installed_version_is_supported,
        asks::an_accepted_command_runs_once,
        asks::a_declined_command_does_not_run_and_the_turn_goes_on,
        asks::a_cancelled_command_does_not_run_and_interrupts_the_turn,
        asks::an_error_for_an_answer_is_a_denial,
        asks::a_reason_that_was_steered_first_reaches_the_model_with_the_denial,
        asks::a_file_change_shows_its_changes_and_needs_an_answer,
        asks::parallel_commands_ask_at_the_same_time,
        asks::a_hostile_repository_changes_nothing,
        asks::a_sandboxed_command_runs_unasked_and_an_escalation_asks,
        asks::an_added_directory_is_writable_in_the_sandbox,
        turns::text_comes_in_deltas_and_whole,
        turns::an_interrupt_leaves_nothing_alive_once_the_connection_is_gone,
        turns::the_end_of_the_input_ends_the_server_and_its_commands,
        turns::a_killed_server_is_resumed_with_its_turn_interrupted,
        turns::a_resumed_thread_remembers_and_a_fork_is_another_one,
        turns::an_unknown_thread_is_refused,
        turns::threads_are_listed_by_their_directory,
        turns::errors_of_the_model_fail_the_turn_and_not_the_thread,
        turns::a_broken_answer_is_asked_for_again,
        turns::an_account_that_is_missing_is_told_before_the_first_turn,
    }
    .run()
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::print_stderr, reason = "whoever runs the suite must see why nothing was run")]
fn main() {
    eprintln!(
        "ignored: the real CLI is only run where a network namespace can keep it from real hosts, \
         which is Linux"
    );
}
