//! Tests this crate against the real Claude Code CLI, which talks to a scripted stand-in for the
//! Messages API.
//!
//! If the CLI or a network namespace is not available, every case is ignored and the reason is
//! printed; with `PLEXUS_REQUIRE_REAL_CLAUDE=1` that is a failure. `scripts/install-claude-cli.sh`
//! installs the CLI.
//!
//! - [`print`]: one-shot runs: text, partial messages, resume, fork, limits, errors, signals.
//! - [`permit`]: permission through an MCP tool.
//! - [`control`]: permission through the control channel.
//! - [`conversation`]: prompts, steering, interrupts, resuming and ending on the control channel.
//! - [`child`]: a child on the control channel, and its recorded output.

#[cfg(target_os = "linux")]
mod child;
#[cfg(target_os = "linux")]
mod control;
#[cfg(target_os = "linux")]
mod conversation;
#[cfg(target_os = "linux")]
mod permit;
#[cfg(target_os = "linux")]
mod print;

/// Builds a suite of functions, each under its own name.
#[cfg(target_os = "linux")]
macro_rules! suite {
    ($($module:ident::$case:ident,)*) => {
        testkit::real_claude::suite::Suite::new()
            $(.case(concat!(stringify!($module), "::", stringify!($case)), $module::$case))*
    };
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    suite! {
        print::the_installed_version_is_supported,
        print::a_plain_answer_is_init_assistant_result,
        print::the_first_event_comes_before_the_exit_and_the_completion_last,
        print::partial_messages_add_up_to_the_whole,
        print::an_unknown_model_is_the_apis_to_refuse,
        print::a_tool_that_nobody_can_allow_is_denied,
        print::a_resumed_session_remembers_and_a_fork_is_another_one,
        print::an_unknown_session_is_a_failed_result_and_exit_1,
        print::max_turns_is_a_failed_result,
        print::a_refused_request_is_a_failed_result_and_exit_1,
        print::a_passing_api_error_is_retried_and_told,
        print::a_cut_stream_is_asked_for_again_in_one_piece,
        print::sigint_while_streaming_exits_0_with_a_failed_result,
        print::termination_ends_the_running_tool_too,
        print::a_dropped_handle_leaves_nothing_behind,
        print::a_huge_prompt_goes_in_by_stdin,
        permit::an_allowed_tool_runs,
        permit::a_denied_tool_does_not_run_and_the_model_reads_why,
        permit::an_edited_input_is_what_runs,
        permit::parallel_commands_ask_one_after_the_other,
        permit::prose_around_the_answer_is_a_denial,
        permit::sigint_while_blocked_exits_0_and_runs_nothing,
        control::an_allowed_tool_runs_and_its_answer_is_echoed,
        control::a_denied_tool_does_not_run_and_the_model_reads_why,
        control::an_edited_input_is_what_runs,
        control::parallel_commands_ask_one_after_the_other,
        control::parallel_reads_ask_at_the_same_time_and_take_answers_in_any_order,
        control::the_first_answer_stands,
        control::an_error_for_an_answer_is_a_denial,
        control::the_result_of_a_call_that_did_not_ask_says_so,
        control::hooks_of_the_repository_do_not_answer_for_us,
        control::plan_mode_does_not_take_the_decision_away_from_us,
        control::a_tool_taken_away_is_neither_offered_nor_run,
        control::a_subagent_asks_on_the_same_channel,
        control::a_question_is_answered_through_its_input,
        control::initialize_lists_what_is_open,
        conversation::a_second_prompt_goes_to_the_same_process,
        conversation::a_prompt_under_the_same_uuid_runs_once,
        conversation::idle_is_the_last_line_of_a_prompt,
        conversation::a_prompt_in_a_running_turn_is_folded_into_it,
        conversation::an_interrupt_in_a_permission_voids_it_and_the_process_lives_on,
        conversation::an_interrupt_ends_a_running_tool,
        conversation::an_interrupt_keeps_what_was_said,
        conversation::end_of_file_denies_what_is_open_and_lets_the_turn_finish,
        conversation::partial_messages_add_up_to_the_whole,
        conversation::a_resumed_session_remembers_and_a_fork_is_another_one,
        conversation::an_unknown_session_is_an_error_result,
        conversation::max_turns_ends_the_turn_and_not_the_process,
        conversation::an_api_error_ends_the_turn_and_not_the_process,
        conversation::sigint_in_a_permission_exits_0_and_runs_nothing,
        conversation::sigterm_in_a_permission_says_nothing,
        conversation::a_large_prompt_reaches_the_model_whole,
        conversation::a_huge_prompt_is_taken_whole_and_refused_by_the_cli_itself,
        conversation::stop_task_ends_a_background_task,
        conversation::end_of_file_waits_for_a_background_task,
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
