//! Sessions and chats with the real Codex CLI, which talks to a scripted stand-in for the Responses
//! API.
//!
//! Where the CLI or a network namespace cannot be had, every case is ignored and the reason is
//! printed; with `PLEXUS_REQUIRE_REAL_CODEX=1` that is a failure.
//!
//! - [`asks`]: what is asked about, and what an answer does.
//! - [`given`]: MCP servers of a session, images of a prompt.
//! - [`managed`]: commands that the administrator of the machine leaves to a person.
//! - [`tree`]: both agents in one tree.
//! - [`turns`]: warm turns, steering, interrupts, resuming, forking, failures, restarts.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[cfg(target_os = "linux")]
mod asks;
#[cfg(target_os = "linux")]
#[path = "../common/mod.rs"]
mod common;
#[cfg(target_os = "linux")]
mod early;
#[cfg(target_os = "linux")]
mod given;
#[cfg(target_os = "linux")]
mod hub_with_codex;
#[cfg(target_os = "linux")]
mod managed;
#[cfg(target_os = "linux")]
mod tree;
#[cfg(target_os = "linux")]
mod turns;

/// Makes a suite of functions, each under its own name.
#[cfg(target_os = "linux")]
macro_rules! suite {
    ($suite:expr, $($module:ident::$case:ident,)*) => {
        $suite
            $(.case(concat!(stringify!($module), "::", stringify!($case)), $module::$case))*
    };
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let suite = suite! {
        testkit::real_cli::suite::Suite::of(testkit::real_codex::CLI),
        asks::a_command_asks_is_allowed_and_runs_once,
        asks::a_denial_reaches_the_model_with_its_reason,
        asks::a_change_of_files_is_asked_about_with_its_diff,
        asks::a_change_whose_lines_have_10_mb_never_runs_unasked,
        asks::two_commands_ask_at_once_and_are_answered_apart,
        asks::an_edited_input_is_refused_by_the_name_of_the_power,
        asks::a_question_of_the_model_is_answered,
        asks::a_hostile_repository_changes_nothing,
        asks::a_sandboxed_command_runs_and_an_escalation_asks,
        asks::a_rule_in_the_home_of_codex_keeps_it_from_starting,
        early::the_first_chat_has_the_process_that_waited,
        early::one_that_never_had_a_chat_leaves_nothing_to_resume,
        given::a_given_tool_is_asked_about_and_an_image_is_seen,
        tree::a_tree_of_both_agents_has_one_queue_one_budget_and_one_history,
        turns::a_message_reaches_a_running_turn,
        turns::an_interrupt_leaves_nothing_alive,
        turns::a_chat_after_the_process_has_left_resumes_the_conversation,
        turns::a_fork_remembers_what_it_shows,
        turns::an_error_of_the_model_fails_the_chat_and_not_the_session,
        turns::a_killed_process_fails_its_chat_and_the_next_one_resumes,
        turns::a_restart_while_it_asks_is_answered_once_and_runs_once,
        turns::a_restart_in_the_middle_of_an_answer_loses_nothing,
    };
    let lacking = testkit::real_codex::ManagedCli::lacking();
    suite! {
        suite.unless(lacking, testkit::real_codex::CLI.require_variable),
        managed::a_managed_rule_asks_in_spite_of_rules_and_modes,
        managed::a_managed_rule_asks_within_the_sandbox_of_codex,
        managed::a_denied_managed_command_does_not_run,
        managed::a_restart_keeps_what_is_left_to_a_person,
    }
    .run()
}

#[cfg(not(target_os = "linux"))]
fn main() {}
