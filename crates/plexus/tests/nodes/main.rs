//! Several servers on one PostgreSQL: answers and readers on any of them, and what happens when a
//! server, the database or the connection between them dies.
//!
//! Every test has a database of its own in a cluster that this program starts; those that kill the
//! cluster start one of their own. Where PostgreSQL is not installed they are ignored.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod answers;
mod cluster;
mod database;
mod death;
mod due;
mod history;
mod hosts;
mod migrate;
mod parked;

use std::process::ExitCode;

use testkit::cases;
use testkit::cases::Cases;
use testkit::postgres;

/// A variable that nobody sets: no machine has to permit network namespaces.
const NEVER_REQUIRED: &str = "PLEXUS_REQUIRE_HOSTS";

fn main() -> ExitCode {
    let cases = cases!(
        Cases::new().with_postgres(),
        answers {
            a_question_on_one_server_is_answered_on_another_and_read_on_all_three,
            prompts_messages_and_ends_reach_the_child_through_any_server,
            a_rule_that_comes_through_another_server_holds_at_once_and_answers_what_waits,
            a_conversation_is_not_begun_anew_where_its_transcript_is_not,
            every_agent_goes_on_with_its_conversation_where_it_was,
            nobody_reads_the_password_in_a_log_a_page_or_an_argument,
        }
        database {
            a_database_that_is_killed_and_comes_back_loses_nothing_and_ends_no_child,
            connections_that_are_cut_delayed_half_closed_or_unanswered_cost_time_and_nothing_else,
            a_server_whose_database_dies_while_it_starts_waits_for_it,
            a_server_that_waits_for_its_database_stops_when_it_is_asked_to,
        }
        death {
            a_server_that_comes_back_within_its_lease_goes_on_as_if_nothing_had_been,
            open_chats_of_a_server_that_does_not_come_back_end_for_good,
            a_server_that_loses_the_database_lets_its_children_go_before_another_takes_over_and_then_comes_back,
        }
        due {
            a_deadline_is_kept_once_whichever_servers_are_there,
            a_step_of_escalation_is_taken_once_whichever_servers_are_there,
        }
        parked {
            an_agent_that_a_dead_server_parked_is_woken_once_by_one_of_the_others,
            another_server_wakes_no_agent_whose_directory_is_not_the_same,
            an_agent_that_a_server_was_waking_when_it_died_is_woken_by_another,
            the_copy_of_a_transcript_goes_when_its_call_is_over,
        }
        migrate {
            a_store_that_moved_holds_everything_and_goes_on,
        }
    );
    // Separate hosts are made of network namespaces, which CI may not have.
    let cases = match hosts::lacking() {
        Some(reason) if postgres::is_installed() => cases.unless(Some(reason), NEVER_REQUIRED),
        _ => cases,
    };
    cases!(cases, hosts { two_hosts_share_a_database_and_one_that_is_cut_off_lets_its_children_go })
        .run()
}
