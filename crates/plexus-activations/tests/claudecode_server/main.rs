//! A real `plexus serve` with simulated children: both channels, because the MCP channel needs
//! its transport; `SIGKILL` and a start on the same data while its children live; and a full disk.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod budget;
mod channels;
mod full_disk;
mod killed;
mod lost;
mod simulated_server;

use std::process::ExitCode;

use testkit::cases;
use testkit::cases::Cases;

fn main() -> ExitCode {
    let cases = cases!(
        channels::add_to(Cases::new()),
        budget {
            a_fan_out_of_twenty_stays_within_one_result_of_its_budget_when_the_server_is_killed,
        }
        killed {
            while_a_child_streams,
            while_a_child_waits_for_permission,
            and_away_while_the_child_finishes_and_leaves,
            a_stopped_server_leaves_its_children_running,
        }
        lost {
            killed_between_the_exit_of_a_child_and_our_noticing,
            killed_in_the_middle_of_a_write_to_the_inbox,
            a_recycled_pid_is_not_taken_for_the_child,
            a_shim_killed_under_a_server_that_runs_and_under_one_that_is_away,
            a_child_killed_under_a_server_that_runs_and_under_one_that_is_away,
            over_mcp_an_agent_that_was_killed_with_its_shim_and_its_server_is_not_parked,
        }
    );
    let cases = cases!(
        cases.with_small_disk(),
        full_disk {
            a_full_disk_that_leaves_half_a_line_of_the_journal_is_waited_out_also_across_a_kill,
            while_the_store_cannot_be_written_a_request_waits_and_a_cancel_is_refused,
            while_the_store_cannot_be_written_a_delete_is_answered_with_an_error,
        }
    );
    cases.run()
}
