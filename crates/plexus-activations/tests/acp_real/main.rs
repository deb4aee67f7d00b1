//! Sessions and chats with real agents of the Agent Client Protocol, which talk to a scripted
//! stand-in for the Messages API.
//!
//! Where an agent or a network namespace cannot be had, its cases are ignored and the reason is
//! printed; with `PLEXUS_REQUIRE_ACP=1` that is a failure. `scripts/install-acp-agents.sh` installs
//! the agents.
//!
//! - [`cases`]: what every agent must keep.
//! - [`given`]: MCP servers of a session, images of a prompt.
//! - [`killed`]: the same with a real server, which is killed.
//! - [`own`]: what is promised of one agent.
//! - [`spawns`]: an agent that is a parent.
//! - [`hub_with_agent`]: a stand-in, a sandbox and a hub.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
#[path = "../common/mod.rs"]
mod common;
#[cfg(target_os = "linux")]
mod given;
#[cfg(target_os = "linux")]
mod hub_with_agent;
#[cfg(target_os = "linux")]
mod killed;
#[cfg(target_os = "linux")]
mod own;
#[cfg(target_os = "linux")]
mod spawns;

/// Adds cases of one agent, each under the agent's name.
#[cfg(target_os = "linux")]
macro_rules! cases {
    ($suite:expr, $agent:ident, $module:ident, [$($case:ident),* $(,)?]) => {{
        let agent = testkit::real_acp::Agent::$agent;
        $suite.with(agent.cli())
            $(.case(
                concat!(stringify!($agent), "::", stringify!($case)),
                move |cli| $module::$case(agent, cli),
            ))*
    }};
}

/// The cases that every agent must pass.
#[cfg(target_os = "linux")]
macro_rules! all_cases {
    ($suite:expr, $agent:ident) => {{
        let suite = cases!(
            $suite,
            $agent,
            killed,
            [a_killed_server_answers_15_s_later_and_the_tool_runs_once]
        );
        let suite =
            cases!(suite, $agent, given, [a_given_tool_is_asked_about_and_an_image_is_seen]);
        cases!(
            suite,
            $agent,
            cases,
            [
                a_chat_asks_is_allowed_and_completes,
                a_denied_command_does_not_run_and_the_turn_goes_on,
                two_commands_of_one_message_are_each_asked_for_and_run_once,
                a_command_that_works_outside_of_its_directory_runs_once,
                a_cancel_in_a_tool_ends_the_chat_and_leaves_nothing_alive,
                a_cancelled_question_is_never_allowed,
                a_killed_agent_goes_on_with_its_conversation_and_runs_nothing_again,
                settings_of_a_hostile_repository_change_nothing,
            ]
        )
    }};
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let suite = testkit::real_cli::suite::Suite::of(testkit::real_acp::Agent::OpenCode.cli());
    let suite = all_cases!(suite, OpenCode);
    let suite = all_cases!(suite, Goose);
    let suite = all_cases!(suite, Claude);
    let suite = cases!(
        suite,
        OpenCode,
        own,
        [
            a_model_is_set_and_a_session_cannot_undo_the_settings,
            a_fork_remembers_the_conversation,
            a_prompt_with_a_slash_reaches_the_model,
        ]
    );
    let suite =
        cases!(suite, OpenCode, spawns, [an_agent_creates_a_child_of_its_own_once_it_is_allowed]);
    let suite =
        cases!(suite, Claude, spawns, [an_agent_creates_a_child_of_its_own_once_it_is_allowed]);
    let suite =
        cases!(suite, Goose, spawns, [an_agent_creates_a_child_of_its_own_once_it_is_allowed]);
    let suite = cases!(suite, Gemini, own, [it_asks_in_spite_of_a_hostile_repository]);
    let suite = cases!(suite, Goose, own, [a_repository_with_plugin_hooks_is_refused]);
    cases!(
        suite,
        Claude,
        own,
        [
            a_fork_remembers_the_conversation,
            a_question_of_the_model_is_answered,
            the_reason_of_a_denial_reaches_the_model,
            a_stranger_cannot_begin_a_turn,
            tools_that_begin_turns_are_not_offered,
        ]
    )
    .run()
}

#[cfg(not(target_os = "linux"))]
fn main() {}
