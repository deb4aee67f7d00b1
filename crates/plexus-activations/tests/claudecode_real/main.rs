//! Sessions and chats with the real Claude Code CLI, which talks to a scripted stand-in for the
//! Messages API.
//!
//! Where the CLI or a network namespace cannot be had, every case is ignored and the reason is
//! printed; with `PLEXUS_REQUIRE_REAL_CLAUDE=1` that is a failure.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(clippy::print_stdout, reason = "a measure is printed")]

#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
#[path = "../common/mod.rs"]
mod common;
#[cfg(target_os = "linux")]
mod given;
#[cfg(target_os = "linux")]
mod hub_with_claude;
#[cfg(target_os = "linux")]
mod instructions;
#[cfg(target_os = "linux")]
mod matrix;
#[cfg(target_os = "linux")]
mod parked;
#[cfg(target_os = "linux")]
mod prestarted;
#[cfg(target_os = "linux")]
mod questions;

/// Makes a suite of functions, each under its own name.
#[cfg(target_os = "linux")]
macro_rules! suite {
    ($($module:ident: $($case:ident,)*;)*) => {
        testkit::real_claude::suite::Suite::new()$($(.case(stringify!($case), $module::$case))*)*
    };
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    suite! {
        cases:
        a_chat_asks_is_answered_and_completes,
        a_denial_reaches_the_model_with_its_words,
        an_edited_input_is_what_runs,
        a_chat_after_the_process_has_left_resumes_the_conversation,
        a_fork_remembers_what_it_shows,
        a_task_that_ends_after_the_first_result_ends_its_chat_once_and_at_the_right_line,
        a_cancel_right_after_a_prompt_ends_the_chat,
        hooks_of_a_hostile_repository_do_not_run,
        an_allowed_tool_is_a_recorded_rule_of_ours,
        an_allowed_command_runs_in_the_directory_of_its_session,
        a_subagent_gets_no_directory_of_its_own,
        a_restart_in_the_middle_of_an_answer_loses_nothing,
        a_restart_while_it_waits_for_permission_asks_nobody_again,
        a_follow_up_on_a_warm_child_needs_no_other_process,;
        given:
        a_given_tool_is_asked_about_and_an_image_is_seen,;
        instructions:
        instructions_are_read_while_a_hook_beside_them_is_not_run,;
        prestarted:
        the_first_chat_has_the_process_that_waited,
        it_survives_a_restart_of_the_server,
        nothing_of_a_hostile_repository_runs_while_it_waits,
        its_first_event_needs_no_other_process,;
        questions:
        a_question_is_answered_with_an_option,
        a_plan_is_sent_back_once_and_then_approved,;
        parked:
        a_parked_call_runs_once_when_it_is_allowed,
        a_parked_call_that_is_denied_never_runs,
        a_parked_call_runs_as_it_was_edited,
        a_woken_call_that_may_have_run_is_not_run_again,
        a_woken_call_that_was_cancelled_is_forgotten,
        a_parked_chat_that_is_cancelled_runs_nothing,
        a_parked_call_that_expires_is_denied,
        a_transcript_that_was_changed_wakes_nothing,
        a_transcript_that_was_swept_is_put_back,
        a_parked_question_is_answered,
        a_parked_plan_is_sent_back_and_then_approved,
        a_parked_agent_survives_a_restart_of_the_server,
        an_agent_that_waited_when_the_machine_died_is_parked,
        an_agent_that_worked_when_the_machine_died_has_failed,;
        matrix:
        an_api_that_is_down_after_the_call_runs_it_once,
        a_truncated_transcript_wakes_nothing,
        a_transcript_that_is_gone_with_its_copy_wakes_nothing,
        a_torn_mark_is_written_anew,
        a_transcript_of_forty_days_that_another_cli_swept_is_put_back,
        a_machine_that_dies_before_the_transcript_is_written_fails_the_chat,
        a_woken_cli_that_asks_nothing_is_ended_and_parks_no_other,
        a_cli_that_was_replaced_by_an_older_one_is_not_woken,
        an_answer_for_an_input_that_changed_runs_nothing,
        a_directory_that_moved_wakes_nothing,;
    }
    .run()
}

#[cfg(not(target_os = "linux"))]
fn main() {}
