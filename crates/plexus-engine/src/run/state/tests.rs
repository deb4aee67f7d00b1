use plexus_store::JsonText;
use serde_json::json;

use super::*;
use crate::driver::testing::Echo;

fn driver() -> Arc<dyn AnyDriver> {
    Arc::new(Echo)
}

fn state() -> RunState {
    let chat = OpenChat::new(2, Some(Uuid::now_v7()), Begun::OnWarm);
    RunState::begin(driver().recall(None).unwrap(), chat)
}

#[test]
fn the_stored_state_of_a_run_is_recalled_whole() {
    let mut before = state();
    before.chat.as_mut().unwrap().stop(StopReason::Budget, "spent");
    before.stop = Some(Stop { reason: StopReason::Breach, words: "ran unasked".into() });
    before.allowed.insert("call".into());
    before.refused.insert("request".into());
    before.conversation = Some("c".into());
    before.owe(7, vec![OutLine::new("{}".into())]);
    before.stderr("oh no");
    let stored = before.to_json().unwrap();
    assert_eq!(RunState::recall(&driver(), Some(&stored)).unwrap(), before);
}

#[test]
fn stop_reasons_that_the_first_stage_stored_are_read() {
    let chat = |cancel: Option<&str>, breach: Option<&str>| {
        json!({
            "number": 3, "prompt": null, "begun": "with_process", "began_at": 5,
            "progress": "unseen", "outstanding": [], "result": null, "usage": {},
            "cancel": cancel, "breach": breach, "stderr_notices": 4
        })
    };
    for (cancel, breach, reason) in [
        (None, None, None),
        (Some("enough"), None, Some(StopReason::Cancelled)),
        (None, Some("ran unasked"), Some(StopReason::Breach)),
        (Some("enough"), Some("ran unasked"), Some(StopReason::Breach)),
    ] {
        let stored = json!({
            "chat": chat(cancel, breach), "background_tasks": 0, "cost_before": 0.0,
            "cost_total": 0.0, "stderr_tail": "x", "conversation": "c", "allowed": ["a"],
            "refused": ["r"], "breach": breach
        });
        let state = RunState::recall(&driver(), Some(&JsonText::from(stored))).unwrap();
        let open = state.chat.unwrap();
        assert_eq!(open.stop.map(|stop| stop.reason), reason);
        assert_eq!(state.stop.is_some(), breach.is_some());
        assert!(state.allowed.contains("a") && state.refused.contains("r"));
    }
}

#[test]
fn a_graver_reason_replaces_a_lighter_one_and_never_the_other_way() {
    let mut chat = OpenChat::new(0, None, Begun::OnWarm);
    assert!(chat.stop(StopReason::Cancelled, "a"));
    assert!(!chat.stop(StopReason::Cancelled, "b") && chat.is_cancelled());
    assert!(chat.stop(StopReason::Breach, "c"));
    assert!(!chat.stop(StopReason::Budget, "d") && chat.has_failed());
    assert_eq!(chat.stop.unwrap().words, "c");
}

#[test]
fn stderr_is_told_up_to_a_bound_and_its_end_is_kept() {
    let mut state = state();
    let text = |n: u32| format!("{n} {}", "x".repeat(50));
    let told = (0..500).filter_map(|n| state.stderr(&text(n))).count();
    assert_eq!(told, MAX_STDERR_NOTICES as usize);
    assert!(state.stderr_tail.len() <= STDERR_TAIL_BYTES && state.stderr_tail.contains("499 "));
}
