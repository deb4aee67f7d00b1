//! The real agents within the wall that a server builds by default: what an approved command can
//! and cannot do, and whom the network asks.
//!
//! Where the CLI, a network namespace or a wall cannot be had, the cases are ignored and the reason
//! is printed; with `PLEXUS_REQUIRE_WALL=1` a missing wall is a failure.

#[cfg(target_os = "linux")]
mod attacks;
#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
#[path = "../real_loopback/site.rs"]
#[allow(dead_code, reason = "each suite uses a part of it")]
mod site;
#[cfg(target_os = "linux")]
mod table;

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
const FULL: site::Way = site::Way { tier: Some("full"), ..site::CONTROL };
#[cfg(target_os = "linux")]
const LANDLOCK: site::Way = site::Way { tier: Some("landlock"), ..site::CONTROL };

/// Why this machine cannot build the full tier, and the landlock tier.
#[cfg(target_os = "linux")]
fn refusals() -> [Option<String>; 2] {
    let stage = plexus_confine::StageProgram {
        program: env!("CARGO_BIN_EXE_plexus").into(),
        arguments: ["confine", "--stage"].map(Into::into).to_vec(),
    };
    let machine = plexus_confine::probe(&stage);
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
        cases::the_mcp_channel_and_a_fork_work,
        network::a_host_is_asked_about_and_remembered,
        network::a_question_of_the_network_outlives_a_killed_server,
    );
    let [full, _] = refusals();
    let suite = suite
        .unless(full, REQUIRED)
        .case("full::attacks_without_a_wall", |cli| attacks::attacks_without_a_wall(cli, FULL))
        .case("full::attacks_within_workspace", |cli| attacks::attacks_within_workspace(cli, FULL))
        .case("full::attacks_within_strict", |cli| attacks::attacks_within_strict(cli, FULL));
    suite.run()
}

#[cfg(not(target_os = "linux"))]
fn main() {}
