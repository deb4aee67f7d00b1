//! The real agents within the wall that a server builds by default: what an approved command can
//! and cannot do, and how a connection to an unlisted host asks.
//!
//! Where the CLI, a network namespace or a wall cannot be had, the cases are ignored and the reason
//! is printed; with `PLEXUS_REQUIRE_WALL=1` a missing wall is a failure.

#[cfg(target_os = "linux")]
mod agents;
#[cfg(target_os = "linux")]
mod attacks;
#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod parked;
#[cfg(target_os = "linux")]
#[path = "../real_loopback/server_with_claude.rs"]
#[allow(dead_code, reason = "each suite uses a part of it")]
mod server_with_claude;
#[cfg(target_os = "linux")]
mod table;

#[cfg(target_os = "linux")]
use testkit::real_acp::Agent;
#[cfg(target_os = "linux")]
use testkit::real_cli::suite::Suite;

/// Adds cases to a suite, each once for each tier that this machine can build.
#[cfg(target_os = "linux")]
macro_rules! in_both_tiers {
    ($suite:expr, $($module:ident::$case:ident,)*) => {{
        let [full, landlock] = refusals();
        $suite
            .unless(full, REQUIRED)
            $(.case(concat!("full::", stringify!($case)), |cli| $module::$case(cli, FULL)))*
            .unless(landlock, REQUIRED)
            $(.case(concat!("landlock::", stringify!($case)), |cli| $module::$case(cli, LANDLOCK)))*
    }};
}

/// A wall that cannot be built fails the suite.
#[cfg(target_os = "linux")]
const REQUIRED: &str = "PLEXUS_REQUIRE_WALL";
#[cfg(target_os = "linux")]
const FULL: server_with_claude::Way =
    server_with_claude::Way { tier: Some("full"), ..server_with_claude::CONTROL };
#[cfg(target_os = "linux")]
const LANDLOCK: server_with_claude::Way =
    server_with_claude::Way { tier: Some("landlock"), ..server_with_claude::CONTROL };

/// Why this machine cannot build the full tier, and the landlock tier.
#[cfg(target_os = "linux")]
#[expect(clippy::expect_used, reason = "in a test, a panic is the answer")]
fn refusals() -> [Option<String>; 2] {
    let stage = plexus_confine::StageProgram {
        program: env!("CARGO_BIN_EXE_plexus").into(),
        arguments: ["confine", "--stage"].map(Into::into).to_vec(),
    };
    let machine = plexus_confine::probe(&stage).expect("plexus starts as a stage");
    [machine.full, machine.landlock].map(|why| why.map(|why| why.to_string()))
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let suite = Suite::new();
    let suite = in_both_tiers!(
        suite,
        cases::an_approved_cat_cannot_read_the_operators_token,
        cases::editing_and_git_work,
        cases::npm_pip_cargo_and_git_work,
        cases::the_key_stays_outside,
        cases::a_command_cannot_touch_its_own_agent,
        cases::a_command_cannot_touch_its_own_agent_below_tmp,
        cases::the_mcp_channel_and_a_fork_work,
        network::a_host_is_asked_about_and_remembered,
        network::a_question_of_the_network_outlives_a_killed_server,
        network::a_question_between_two_chats_belongs_to_the_process,
        parked::a_parked_agent_wakes_within_its_wall,
        network::a_run_ends_with_its_egress_process,
    );
    let [full, _] = refusals();
    let suite = suite
        .unless(full, REQUIRED)
        .case("full::a_command_is_seen_before_it_is_allowed", |cli| {
            cases::a_command_is_seen_before_it_is_allowed(cli, FULL)
        })
        .case("full::attacks_without_a_wall", |cli| attacks::attacks_without_a_wall(cli, FULL))
        .case("full::attacks_within_workspace", |cli| attacks::attacks_within_workspace(cli, FULL))
        .case("full::attacks_within_strict", |cli| attacks::attacks_within_strict(cli, FULL));
    other_agents(suite).run()
}

/// Adds the cases of the agents other than Claude Code.
#[cfg(target_os = "linux")]
fn other_agents(mut suite: Suite) -> Suite {
    let tiers = ["full", "landlock"].into_iter().zip(refusals());
    for (tier, refusal) in tiers {
        let named = |case: &str| -> &'static str { format!("{tier}::{case}").leak() };
        suite = suite
            .unless(refusal, REQUIRED)
            .with(testkit::real_codex::CLI)
            .case(named("codex_works_and_reads_no_token"), move |cli| {
                agents::codex_works_and_reads_no_token(cli, tier)
            })
            .case(named("codex_needs_no_sandbox_of_its_own"), move |cli| {
                agents::codex_needs_no_sandbox_of_its_own(cli, tier)
            });
        for (agent, case) in [
            (Agent::OpenCode, "opencode_works_and_reads_no_token"),
            (Agent::Goose, "goose_works_and_reads_no_token"),
            (Agent::Claude, "claude_acp_works_and_reads_no_token"),
            (Agent::Gemini, "gemini_works_and_reads_no_token"),
        ] {
            if (agent, tier) == (Agent::OpenCode, "landlock") {
                suite = suite.case("landlock::opencode_is_refused_in_the_landlock_tier", |_| {
                    agents::opencode_is_refused_in_the_landlock_tier()
                });
                continue;
            }
            suite = suite.with(agent.cli()).case(named(case), move |cli| {
                agents::an_acp_agent_works_and_reads_no_token(agent, cli, tier)
            });
        }
    }
    suite
}

#[cfg(not(target_os = "linux"))]
fn main() {}
