//! Runs the wakes under a scheduler that tries the orders in which threads can run: no reader that
//! subscribes before it reads waits for ever, and no subscription is left at the end.
//!
//! The store's own `wake.rs` is compiled here with locks that the scheduler controls. To show that
//! the check finds a lost wake, each of the two orders is broken once.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the answer")]

use sync::{Arc, Mutex};
use wake::{Topic, Wakes};

/// The modules that `wake.rs` imports from the store.
mod sync {
    pub(super) use shuttle::sync::{Arc, Mutex, MutexGuard};
    pub(super) use std::sync::PoisonError;
}
mod approval {
    pub(super) use plexus_store::Owner;
}
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the file is part of a library, and this is not all of it"
)]
#[path = "../src/contract/wake.rs"]
mod wake;

/// How many orders are tried of each case.
const ORDERS: usize = 1_000;

/// How many commits each writer makes.
const COMMITS: u64 = 2;

/// How many preemptions the second scheduler places at critical points.
const DEPTH: usize = 3;

fn in_every_order(case: fn()) {
    shuttle::check_random(case, ORDERS);
    shuttle::check_pct(case, ORDERS, DEPTH);
}

/// The number of the newest commit.
type Store = Arc<Mutex<u64>>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    CommitThenWake,
    WakeThenCommit,
}

fn write(store: &Store, wakes: &Wakes, order: Order) {
    for _ in 0..COMMITS {
        match order {
            Order::CommitThenWake => {
                let number = {
                    let mut committed = store.lock().unwrap();
                    *committed += 1;
                    *committed
                };
                wakes.wake([Topic::Pending, Topic::Commits], number);
            }
            Order::WakeThenCommit => {
                let number = *store.lock().unwrap() + 1;
                wakes.wake([Topic::Pending, Topic::Commits], number);
                *store.lock().unwrap() += 1;
            }
        }
    }
}

/// Subscribes, then reads, until everything is there.
fn read(store: &Store, wakes: &Wakes, all: u64) {
    let mut wake = wakes.subscribe(Topic::Pending);
    loop {
        wake.seen();
        if *store.lock().unwrap() == all {
            return;
        }
        shuttle::future::block_on(wake.changed());
    }
}

/// Reads, then subscribes: a commit in between wakes nobody.
fn read_too_early(store: &Store, wakes: &Wakes, all: u64) {
    loop {
        let there = *store.lock().unwrap();
        if there == all {
            return;
        }
        let mut wake = wakes.subscribe(Topic::Pending);
        shuttle::future::block_on(wake.changed());
    }
}

fn play(writers: u64, readers: u64, order: Order, read: fn(&Store, &Wakes, u64)) {
    let (store, wakes) = (Store::default(), Wakes::default());
    let mut threads = Vec::new();
    for _ in 0..writers {
        let (store, wakes) = (store.clone(), wakes.clone());
        threads.push(shuttle::thread::spawn(move || write(&store, &wakes, order)));
    }
    for _ in 0..readers {
        let (store, wakes) = (store.clone(), wakes.clone());
        threads.push(shuttle::thread::spawn(move || read(&store, &wakes, writers * COMMITS)));
    }
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(wakes.topics(), 0, "nothing is left when nobody listens");
}

#[test]
fn no_wake_is_lost_in_any_order() {
    in_every_order(|| play(1, 2, Order::CommitThenWake, read));
    // The store has one writer, but even wakes that overtake each other would not be lost.
    in_every_order(|| play(2, 2, Order::CommitThenWake, read));
}

#[test]
fn subscribers_that_leave_take_no_wake_from_those_who_stay() {
    in_every_order(|| {
        let (store, wakes) = (Store::default(), Wakes::default());
        let visitor = {
            let wakes = wakes.clone();
            shuttle::thread::spawn(move || {
                for _ in 0..3 {
                    drop(wakes.subscribe(Topic::Pending));
                }
            })
        };
        let writer = {
            let (store, wakes) = (store.clone(), wakes.clone());
            shuttle::thread::spawn(move || write(&store, &wakes, Order::CommitThenWake))
        };
        read(&store, &wakes, COMMITS);
        visitor.join().unwrap();
        writer.join().unwrap();
        assert_eq!(wakes.topics(), 0, "nothing is left when nobody listens");
    });
}

#[test]
fn the_last_wake_of_a_topic_is_heard_also_by_one_who_looks_late() {
    in_every_order(|| {
        let wakes = Wakes::default();
        let mut wake = wakes.subscribe(Topic::Commits);
        let writers = [1, 2].map(|number| {
            let wakes = wakes.clone();
            shuttle::thread::spawn(move || wakes.wake([Topic::Commits], number))
        });
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(shuttle::future::block_on(wake.changed()), 2, "a wake never goes back");
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn reading_before_subscribing_would_be_noticed() {
    in_every_order(|| play(1, 1, Order::CommitThenWake, read_too_early));
}

#[test]
#[should_panic(expected = "deadlock")]
fn waking_before_committing_would_be_noticed() {
    in_every_order(|| play(1, 1, Order::WakeThenCommit, read));
}
