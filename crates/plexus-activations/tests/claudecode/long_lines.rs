//! Lines of several MiB: the end of a run reads the journal to its end, however long its last line
//! is.

use serde_json::json;

use crate::common::{SimulatedHub, texts};

/// Longer than many reads of a journal together.
const LONG: usize = 6 * 1024 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn a_long_line_right_before_the_exit_is_stored_whole() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("s", json!({})).await;
    let chat = hub.chat(&session, &format!("sim:\nburst 1 {LONG}\nexit 3")).await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "failed");
    let events = hub.events(&session, chat).await;
    let lengths: Vec<usize> = texts(&events).iter().map(|text| text.len()).collect();
    assert_eq!(lengths, [LONG], "some of the last line was lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_whose_process_leaves_after_one_long_line_completes() {
    let hub = SimulatedHub::with(|settings| settings.max_warm = 0).await;
    let session = hub.create("s", json!({})).await;
    let events = hub.chat_to_end(&session, &format!("sim:\nburst 2 {LONG}\nsay the end")).await;
    let lengths: Vec<usize> = texts(&events).iter().map(|text| text.len()).collect();
    assert_eq!(lengths, [LONG, LONG, "the end".len()]);
    assert_eq!(events.last().unwrap()["type"], "complete");
}
