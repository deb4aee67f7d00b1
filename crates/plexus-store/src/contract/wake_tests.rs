//! Wakes with one thread. For many threads see `tests/shuttle_wakes.rs`, which compiles `wake.rs`
//! again.

use plexus_core::SessionId;

use super::wake::{Topic, Wakes};

#[tokio::test]
async fn waking_one_of_ten_thousand_touches_one() {
    let wakes = Wakes::default();
    let ids: Vec<_> = (0..10_000).map(|_| SessionId::generate()).collect();
    let mut all: Vec<_> = ids.iter().map(|id| wakes.subscribe(Topic::Session(*id))).collect();
    assert_eq!(wakes.topics(), 10_000);
    wakes.wake([Topic::Session(ids[77])], 5);
    let woken: Vec<_> =
        (0..).zip(&all).filter(|(_, wake)| wake.has_news()).map(|(n, _)| n).collect();
    assert_eq!(woken, vec![77]);
    assert_eq!(all[77].changed().await, 5);
    drop(all);
    assert_eq!(wakes.topics(), 0, "nothing is left when nobody listens");
}

#[tokio::test]
async fn a_wake_out_of_order_never_goes_back() {
    let wakes = Wakes::default();
    let mut wake = wakes.subscribe(Topic::Commits);
    wakes.wake([Topic::Commits], 7);
    wakes.wake([Topic::Commits], 6);
    assert_eq!(wake.changed().await, 7);
    wakes.wake([Topic::Commits], 7);
    assert!(!wake.has_news());
}
