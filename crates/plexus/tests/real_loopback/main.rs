//! Permission requests of the real Claude Code CLI through a real server, on both channels:
//! answered, refused, edited, several at once; and through servers that are killed with `SIGKILL`
//! while the child waits.
//!
//! Where the CLI or a network namespace cannot be had, every case is ignored and the reason is
//! printed. What takes minutes is ignored unless `--ignored` asks for it: `scripts/slow-suite.sh`
//! does.

#[cfg(target_os = "linux")]
mod answers;
#[cfg(target_os = "linux")]
mod killed;
#[cfg(target_os = "linux")]
mod parked;
#[cfg(target_os = "linux")]
mod patience;
#[cfg(target_os = "linux")]
mod person;
#[cfg(target_os = "linux")]
#[path = "../support/pty.rs"]
mod pty;
#[cfg(target_os = "linux")]
mod server_with_claude;

/// Cases at the same time: most of them wait for a client to come back.
#[cfg(target_os = "linux")]
const AT_A_TIME: usize = 8;

/// Adds cases to a suite, each once for each channel.
#[cfg(target_os = "linux")]
macro_rules! on_both_channels {
    ($suite:expr, $($module:ident::$case:ident,)*) => {
        $suite$(
            .case(concat!("control::", stringify!($case)), |cli| $module::$case(cli, server_with_claude::CONTROL))
            .case(concat!("mcp::", stringify!($case)), |cli| $module::$case(cli, server_with_claude::MCP))
        )*
    };
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let suite = testkit::real_claude::suite::Suite::new().at_a_time(AT_A_TIME);
    // The longest first: they wait while the others work.
    let suite = on_both_channels!(
        suite,
        killed::a_wait_outlives_two_killed_servers,
        killed::a_wait_outlives_a_killed_server,
        killed::three_parallel_reads_outlive_a_killed_server,
        killed::a_decision_that_never_left_is_sent_by_the_next_server,
        answers::an_allowed_call_runs_once,
        answers::a_model_repeats_why_it_was_refused,
        answers::an_edited_input_is_what_runs,
        answers::parallel_bash_calls_ask_one_after_the_other,
        answers::parallel_reads_ask_at_the_same_time,
    );
    killed_in_parking(suite)
        .case(
            "terminal::a_question_with_two_options_is_answered",
            person::a_question_with_two_options_is_answered,
        )
        .case(
            "terminal::a_plan_is_sent_back_once_and_then_approved",
            person::a_plan_is_sent_back_once_and_then_approved,
        )
        .case(
            "a_call_of_the_evening_is_answered_from_the_page_in_the_morning",
            parked::a_call_of_the_evening_is_answered_from_the_page_in_the_morning,
        )
        .slow_case(
            "twenty_parked_agents_hold_no_memory",
            parked::twenty_parked_agents_hold_no_memory,
        )
        .case(
            "control::a_request_made_while_no_server_runs_is_asked_by_the_next",
            killed::a_request_made_while_no_server_runs_is_asked_by_the_next,
        )
        .case(
            "mcp::a_request_made_while_no_server_runs_is_refused_and_runs_nothing",
            killed::a_request_made_while_no_server_runs_is_refused_and_runs_nothing,
        )
        .slow_case("control::a_wait_of_more_than_six_minutes_is_answered", |cli| {
            patience::a_wait_of_more_than_six_minutes_is_answered(cli, server_with_claude::CONTROL)
        })
        .slow_case("mcp::a_wait_of_more_than_six_minutes_is_answered", |cli| {
            patience::a_wait_of_more_than_six_minutes_is_answered(cli, server_with_claude::MCP)
        })
        .slow_case(
            "control::a_wait_outlives_a_minute_without_a_server",
            patience::a_wait_outlives_a_minute_without_a_server,
        )
        .slow_case(
            "mcp::a_wait_outlives_a_client_that_found_nobody",
            patience::a_wait_outlives_a_client_that_found_nobody,
        )
        .slow_case(
            "mcp::a_minute_without_a_server_is_a_failed_call_and_a_cancelled_request",
            patience::a_minute_without_a_server_is_a_failed_call_and_a_cancelled_request,
        )
        .unless(
            (!testkit::postgres::is_installed()).then(|| "PostgreSQL is not installed".to_owned()),
            testkit::postgres::REQUIRED,
        )
        .case(
            "a_second_server_wakes_what_the_first_parked",
            parked::a_second_server_wakes_what_the_first_parked,
        )
        .run()
}

/// Adds the steps of parking and waking at which a server is killed.
#[cfg(target_os = "linux")]
fn killed_in_parking(
    mut suite: testkit::real_claude::suite::Suite,
) -> testkit::real_claude::suite::Suite {
    use parked::{PARKING, QUICK, WAKING, killed_while_parking, killed_while_waking};
    for point in PARKING {
        let case = move |cli| killed_while_parking(cli, point);
        suite = if QUICK.contains(&point) {
            suite.case(point, case)
        } else {
            suite.slow_case(point, case)
        };
    }
    for point in WAKING {
        let case = move |cli| killed_while_waking(cli, point);
        suite = if QUICK.contains(&point) {
            suite.case(point, case)
        } else {
            suite.slow_case(point, case)
        };
    }
    suite
}

#[cfg(not(target_os = "linux"))]
fn main() {}
