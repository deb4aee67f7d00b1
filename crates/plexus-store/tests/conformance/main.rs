//! What every engine must do. Each case is written against the trait and runs once for every
//! engine; a new engine adds one line.

#![expect(clippy::expect_used, reason = "a case may stop loudly, also in the helpers it calls")]

mod approvals;
mod arbor;
mod bad_input;
mod chats;
#[path = "../common/mod.rs"]
mod common;
mod decisions;
mod events;
mod fixture;
mod ledger;
mod newest;
mod parking;
mod runs;
mod search;
mod servers;
mod sessions;
mod upkeep;
mod wakes;

use std::process::ExitCode;

use testkit::cases::Cases;

/// Makes one case for each engine of each function, from `module { case, case }`.
macro_rules! suite {
    ($($module:ident { $($case:ident,)* })*) => {
        fn main() -> ExitCode {
            let cases = Cases::new();
            $($(let cases = cases
                .case(name("sqlite", stringify!($module), stringify!($case)), || async {
                    let dir = tempfile::tempdir()?;
                    let store = fixture::sqlite(dir.path())?;
                    $module::$case(store.as_ref()).await?;
                    let faults = store.integrity().await?;
                    anyhow::ensure!(faults.is_empty(), "after the case the store is damaged: \
                        {faults:?}");
                    store.close().await?;
                    Ok(())
                })
                .case(name("memory", stringify!($module), stringify!($case)), || async {
                    $module::$case(fixture::memory().as_ref()).await
                });)*)*
            let cases = cases.with_postgres();
            $($(let cases = cases
                .case(name("postgres", stringify!($module), stringify!($case)), || async {
                    let store = fixture::postgres().await?;
                    $module::$case(store.as_ref()).await?;
                    match store.integrity().await {
                        // The case was about that.
                        Err(plexus_store::StoreError::Closed) => return Ok(()),
                        faults => anyhow::ensure!(faults?.is_empty(), "after the case the store \
                            is damaged"),
                    }
                    store.close().await?;
                    Ok(())
                });)*)*
            cases.run()
        }
    };
}

fn name(engine: &str, module: &str, case: &str) -> String {
    format!("{engine}::{module}::{case}")
}

suite! {
    sessions {
        a_session_is_created_with_a_tree_of_its_own,
        a_name_is_unique_under_its_parent_and_free_after_deletion,
        ancestors_and_descendants_go_through_all_levels,
        the_status_follows_from_the_facts,
        lists_filter_and_page,
        an_update_names_the_revision_it_expects,
        a_session_is_renamed_unless_the_name_is_taken,
        deleting_takes_everything_along_and_refuses_children,
        a_fork_shares_the_tree_and_outlives_its_source,
        changes_are_told_once,
        nobody_has_more_descendants_than_there_is_room_for,
    }
    chats {
        a_chat_starts_with_a_prompt_a_root_and_a_start_event,
        a_second_chat_is_refused_while_one_is_open,
        the_same_key_finds_the_same_chat,
        a_chat_ends_once_and_takes_the_head_along,
        an_ephemeral_chat_leaves_the_head_where_it_was,
        streams_are_listed_in_pages,
    }
    events {
        seq_has_no_gap_and_no_repeat,
        replay_from_any_seq_moves_nobody,
        a_cursor_goes_on_through_all_chats,
        a_page_ends_at_its_bytes,
        consumers_are_durable_and_apart,
        the_default_position_only_moves_forward,
        the_feed_has_all_events_in_commit_order,
        a_node_id_is_a_cursor_after_its_event,
        every_event_is_a_node_with_its_handle,
    }
    arbor {
        a_path_goes_from_the_root_to_the_node,
        branches_are_children_and_leaves,
        user_nodes_beside_an_open_chat_start_a_branch,
        an_outline_lists_parents_before_children,
        a_path_between_needs_an_ancestor,
    }
    parking {
        each_step_of_parking_begins_where_the_last_one_ended,
        a_parked_approval_is_decided_as_any_other_and_then_to_be_woken,
        one_of_two_wakers_wins,
        an_allow_is_noted_before_it_is_sent_and_only_once,
        a_cancelled_or_void_approval_wakes_nobody,
        a_transcript_is_kept_until_its_chat_ends,
    }
    runs {
        runs_are_numbered_and_end_once,
        events_and_journal_move_together_or_not_at_all,
    }
    approvals {
        a_question_is_asked_once,
        other_input_under_the_same_request_is_a_conflict,
        a_second_answer_loses_and_learns_what_stands,
        a_decision_is_bound_to_the_input,
        one_of_many_deciders_wins,
        an_answer_is_delivered_or_void_never_both,
        escalation_changes_the_owner_of_a_pending_one,
        deadlines_come_due_in_order,
        the_parent_hears_of_its_childs_question,
        too_many_pending_ones_are_busy,
        lists_show_the_stage_they_are_asked_for,
        refused_calls_of_a_chat_are_counted,
    }
    decisions {
        the_last_use_of_a_rule_is_taken_once,
        rules_end_with_their_run_and_their_session,
        tokens_are_found_by_hash_and_end_with_their_run,
        devices_are_listed_until_they_are_revoked_with_their_tokens,
        spending_adds_up_over_the_subtree,
        spending_of_many_sessions_is_read_at_once,
        a_chats_reservation_keeps_others_from_starting_until_it_ends,
        a_chat_above_leaves_room_for_the_chats_it_may_wait_for,
        no_rule_ends_with_a_run_that_has_ended,
    }
    ledger {
        audit_lines_come_newest_first,
        the_newest_time_is_that_of_the_latest_change,
        the_outbox_keeps_what_is_not_sent,
        no_target_waits_behind_another,
        a_message_that_somebody_sends_is_left_alone_for_a_while,
        only_the_change_that_makes_it_so_tells_of_it,
    }
    newest {
        a_record_is_read_as_it_was_last_written,
        what_waits_is_listed_however_much_was_just_written,
        what_is_gone_is_not_read,
        what_was_pruned_is_not_read,
    }
    wakes {
        only_the_waiter_of_that_thing_is_woken,
        a_wake_follows_the_commit,
        nothing_is_left_of_a_subscription,
        deleting_a_session_wakes_who_waits_for_its_approvals,
    }
    servers {
        without_a_lease_nothing_is_owned,
        a_run_belongs_to_the_server_that_began_it,
        another_servers_run_is_fenced,
        registering_again_keeps_the_runs_and_ends_the_epoch,
        an_expired_lease_writes_nothing,
        a_living_server_is_not_taken_over,
        a_takeover_ends_all_that_was_open,
        a_takeover_leaves_agents_parked_whose_transcript_is_here,
        an_agent_that_was_being_woken_is_parked_again_by_another_server,
        a_server_leaves_only_when_nothing_is_open,
    }
    search {
        words_and_phrases_are_found_newest_first,
        prompts_calls_results_and_decisions_are_found_by_kind_tool_and_time,
        only_the_sessions_that_are_asked_for_are_searched,
        pages_go_on_where_the_last_one_ended,
        queries_with_quotes_and_operators_are_safe,
        deleted_and_pruned_events_are_not_found,
        old_events_are_indexed_in_bounded_steps,
    }
    upkeep {
        a_list_is_written_whole_or_not_at_all,
        commits_are_numbered_upwards,
        pruning_keeps_numbers_and_trees,
        images_go_with_the_prompt_that_has_them,
        counts_add_up,
        a_closed_store_says_so,
    }
    bad_input {
        unknown_ids_are_named,
        sizes_over_the_limits_are_refused,
        metadata_that_is_no_object_is_refused,
        foreign_cursors_are_refused,
        a_node_of_another_tree_is_no_parent,
        an_id_used_twice_is_a_conflict,
    }
}
