//! Tests this crate against real agents, which talk to a scripted stand-in for the Messages API.
//!
//! If an agent or a network namespace is not available, its cases are ignored and the reason is
//! printed; with `PLEXUS_REQUIRE_ACP=1` that is a failure. `scripts/install-acp-agents.sh` installs
//! the agents.
//!
//! - [`cases`]: how every agent reacts to an allow, a rejection, a cancel and the end.
//! - [`talk`]: an agent in a sandbox, its session, and the lines it wrote.

#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
mod talk;

/// Adds the cases that every agent must pass, each under the agent's name.
#[cfg(target_os = "linux")]
macro_rules! cases {
    ($suite:expr, $agent:ident, [$($case:ident),* $(,)?]) => {{
        let agent = testkit::real_acp::Agent::$agent;
        $suite.with(agent.cli())
            $(.case(
                concat!(stringify!($agent), "::", stringify!($case)),
                move |cli| cases::$case(agent, cli),
            ))*
    }};
}

/// The cases of one agent.
#[cfg(target_os = "linux")]
macro_rules! all_cases {
    ($suite:expr, $agent:ident) => {
        cases!(
            $suite,
            $agent,
            [
                an_allowed_command_runs_once,
                a_rejected_command_does_not_run_and_the_turn_goes_on,
                two_commands_of_one_message_are_asked_for_one_by_one,
                nothing_runs_after_a_cancel,
                a_cancelled_tool_leaves_nothing_alive_once_the_connection_is_gone,
                a_killed_agent_is_loaded_again_and_runs_nothing,
                a_hostile_repository_changes_nothing,
            ]
        )
    };
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let suite = testkit::real_cli::suite::Suite::of(testkit::real_acp::Agent::OpenCode.cli());
    let suite = all_cases!(suite, OpenCode);
    let suite = all_cases!(suite, Goose);
    all_cases!(suite, Claude).run()
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::print_stderr, reason = "whoever runs the suite must see why nothing was run")]
fn main() {
    eprintln!(
        "ignored: real agents are only run where a network namespace can keep them from real \
         hosts, which is Linux"
    );
}
