//! Cases that need several servers on one database: they learn of each other's commits, one of them
//! wins a race, and a failure of database or network at the worst moment makes nobody report a
//! wrong outcome. Cases for every engine are in the conformance suite.

#![expect(clippy::expect_used, reason = "a case may stop loudly, also in the helpers it calls")]

#[path = "../common/mod.rs"]
mod common;
mod failures;
mod fence;
mod fixture;
mod import;
mod opening;
mod tls;
mod together;

use std::process::ExitCode;

use testkit::cases;
use testkit::cases::Cases;

fn main() -> ExitCode {
    let cases =
        cases!(Cases::new(), opening { neither_an_error_nor_a_debug_text_holds_the_password });
    let cases = cases!(
        cases.with_postgres(),
        failures {
            a_killed_database_loses_and_repeats_nothing,
            lost_connections_lose_and_repeat_nothing,
            a_commit_whose_answer_was_lost_is_acknowledged_and_not_repeated,
            a_commit_that_was_lost_before_it_was_done_is_done_once,
        }
        fence {
            a_takeover_finds_runs_begun_under_a_lease_that_ended_meanwhile,
        }
        import {
            every_row_of_every_table_arrives_as_it_was,
            a_file_with_a_table_that_would_be_left_behind_is_not_moved,
        }
        opening {
            servers_that_start_together_make_one_schema,
            a_schema_that_is_not_ours_is_left_as_it_is,
        }
        tls {
            every_connection_of_a_url_that_asks_for_encryption_has_it,
            a_database_with_the_wrong_certificate_gets_no_connection,
            a_database_without_encryption_is_refused_by_a_url_that_asks_for_it,
        }
        together {
            a_commit_on_one_server_wakes_who_waits_on_another,
            a_lost_listener_costs_a_look_and_no_wake,
            one_of_two_servers_decides,
            a_name_is_given_once_and_a_chat_is_started_once,
            a_reader_of_everything_misses_nothing_of_two_servers,
            a_server_that_started_again_fences_what_is_left_of_it,
            a_takeover_and_a_late_write_never_both_happen,
        }
    );
    cases.run()
}
