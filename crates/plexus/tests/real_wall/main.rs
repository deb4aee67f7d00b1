//! The real Claude Code CLI within the wall that a server builds by default: what an approved
//! command can and cannot do, and whom the network asks.
//!
//! Where the CLI, a network namespace or a wall cannot be had, every case is ignored and the reason
//! is printed.

#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
#[path = "../real_loopback/site.rs"]
#[allow(dead_code, reason = "each suite uses a part of it")]
mod site;

/// Adds cases to a suite, each once for each tier.
#[cfg(target_os = "linux")]
macro_rules! in_both_tiers {
    ($suite:expr, $($module:ident::$case:ident,)*) => {
        $suite$(
            .case(concat!("full::", stringify!($case)), |cli| $module::$case(cli, FULL))
            .case(concat!("landlock::", stringify!($case)), |cli| $module::$case(cli, LANDLOCK))
        )*
    };
}

#[cfg(target_os = "linux")]
const FULL: site::Way = site::Way { tier: Some("full"), ..site::CONTROL };
#[cfg(target_os = "linux")]
const LANDLOCK: site::Way = site::Way { tier: Some("landlock"), ..site::CONTROL };

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let suite = testkit::real_claude::suite::Suite::new();
    in_both_tiers!(
        suite,
        cases::an_approved_cat_cannot_read_the_operators_token,
        cases::editing_and_git_work,
        cases::the_key_stays_outside,
        cases::a_command_cannot_touch_its_own_agent,
        cases::the_mcp_channel_and_a_fork_work,
        network::a_host_is_asked_about_and_remembered,
        network::a_question_of_the_network_outlives_a_killed_server,
    )
    .run()
}

#[cfg(not(target_os = "linux"))]
fn main() {}
