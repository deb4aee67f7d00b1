//! The conformance suite notices a backend that breaks a rule: the statement that forbids a fault
//! catches it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a failed test is allowed to stop loudly"
)]

mod support;

use agent_api::conformance::{self, Verdict};
use support::scripted::{Fault, ScriptedSubject};

/// Checks one statement by name on a subject with one fault.
async fn verdict(name: &str, fault: Option<Fault>) -> Verdict {
    let statement =
        conformance::statements().into_iter().find(|statement| statement.name() == name);
    let statement = statement.unwrap_or_else(|| panic!("there is no statement {name}"));
    let subject = fault.map_or_else(ScriptedSubject::new, ScriptedSubject::with_fault);
    statement.check(&subject).await
}

/// Time is paused, so waiting for something that never comes takes no time.
#[tokio::test(start_paused = true)]
async fn every_fault_is_noticed_by_the_statement_that_forbids_it() {
    use Fault::*;
    let cases = [
        (SaysTextTwice, "text_is_delivered_once"),
        (LosesText, "text_is_delivered_once"),
        (LosesText, "a_text_over_the_limit_is_split_and_not_lost"),
        (TellsAWrongFinalText, "the_final_text_is_the_last_message"),
        (ResolvesBeforeTheStreamEnds, "completion_waits_for_the_end_of_the_events"),
        (GoesOnAfterACancel, "a_cancel_ends_the_events_and_the_agent_and_then_completes"),
        (StaysAliveAfterACancel, "a_cancel_ends_the_events_and_the_agent_and_then_completes"),
        (StaysAliveAfterACancel, "dropping_the_whole_handle_ends_the_agent"),
        (StaysAliveAfterACancel, "a_cancel_works_after_the_handle_is_dropped"),
        (CallsACancelASuccess, "a_cancel_beats_an_end_that_nobody_has_observed"),
        (ClaimsSuccess, "a_failed_run_says_so"),
        (FailsWithoutAnErrorEvent, "a_failed_run_says_so"),
        (FailsWithTwoErrorEvents, "a_failed_run_says_so"),
        (LeaksTheSecret, "output_of_an_agent_outside_its_envelope_is_not_shown"),
        (ShowsToolOutput, "one_call_and_one_result_for_a_tool_use"),
        (RepeatsToolCalls, "one_call_and_one_result_for_a_tool_use"),
        (IgnoresTheTimeout, "a_timeout_is_an_error_and_leaves_nothing"),
        (IgnoresTheTimeout, "a_timeout_fires_while_nobody_reads"),
        (IgnoresTheTimeout, "the_timeout_of_the_request_wins"),
        (AcceptsABlankPrompt, "a_blank_prompt_is_refused_before_anything_else"),
        (AcceptsUnknownKeys, "an_unknown_key_is_refused_even_beside_a_wrong_value"),
        (AcceptsUnknownKeys, "an_extension_that_is_not_advertised_is_refused_by_name"),
        (IgnoresTheRequestsEnvironment, "environments_are_merged_and_the_request_wins"),
        (IgnoresTheWorkingDirectory, "the_working_directory_of_the_request_wins"),
        (
            IgnoresTheWorkingDirectory,
            "a_relative_working_directory_is_resolved_when_the_run_starts",
        ),
        (HasNoRunControl, "run_control_is_offered_exactly_when_it_is_advertised"),
        (WaitsForAReaderThatIsGone, "dropping_the_events_lets_the_run_go_on_to_its_end"),
        (AdvertisesASandbox, "an_external_sandbox_is_off_unless_the_configuration_allows_it"),
    ];
    for (fault, name) in cases {
        let seen = verdict(name, Some(fault)).await;
        assert!(matches!(seen, Verdict::Broken(_)), "{name} did not notice {fault:?}: {seen:?}");
        assert_eq!(
            verdict(name, None).await,
            Verdict::Holds,
            "{name} does not hold without {fault:?}"
        );
    }
}

#[test]
fn every_statement_of_the_contract_that_a_backend_can_break_is_in_the_suite() {
    let numbers: std::collections::BTreeSet<_> =
        conformance::statements().iter().map(conformance::Statement::number).collect();
    // Statement 36 is about the suite itself: a second backend passes it.
    assert_eq!(numbers, (23..=35).collect());
}

#[test]
fn no_two_statements_share_a_name() {
    let names: Vec<_> =
        conformance::statements().iter().map(conformance::Statement::name).collect();
    let different: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(names.len(), different.len());
}
