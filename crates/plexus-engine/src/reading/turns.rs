//! Turns: how many of one caller's waiting calls read the store at the same time.
//!
//! One commit may wake thousands of calls that wait, and each of them looks again. The store has
//! few readers, so those of one caller stand in a line of their own: every other caller waits for a
//! few of them at most, and never for all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use plexus_core::Caller;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Reads of one caller's waiting calls at the same time: half of what the store reads at once.
const TURNS: usize = 2;

/// Callers remembered before those that wait for nothing are forgotten.
const MAX_IDLE_CALLERS: usize = 1_024;

/// The lines of all callers.
#[derive(Default)]
pub struct Turns {
    lines: Mutex<HashMap<Caller, Arc<Semaphore>>>,
}

impl Turns {
    /// Waits for a turn of `caller`, held until the returned value is dropped. The operator needs
    /// none: the operator may do everything and is not bound by a share.
    pub async fn take(&self, caller: Caller) -> Option<OwnedSemaphorePermit> {
        if caller == Caller::Operator {
            return None;
        }
        let line = {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            if lines.len() > MAX_IDLE_CALLERS {
                lines.retain(|_, line| Arc::strong_count(line) > 1);
            }
            Arc::clone(lines.entry(caller).or_insert_with(|| Arc::new(Semaphore::new(TURNS))))
        };
        // The line is never closed; without a turn the read would only be less fair.
        line.acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use plexus_core::SessionId;

    use super::*;

    #[tokio::test]
    async fn a_caller_with_all_its_turns_waits_and_no_other_does() {
        let turns = Turns::default();
        let (one, other) =
            (Caller::Session(SessionId::generate()), Caller::Session(SessionId::generate()));
        let held = (turns.take(one).await, turns.take(one).await);
        assert!(turns.take(one).now_or_never().is_none());
        assert!(turns.take(other).now_or_never().is_some());
        assert!(turns.take(Caller::Operator).now_or_never().is_some());
        drop(held);
        assert!(turns.take(one).now_or_never().is_some());
    }

    #[tokio::test]
    async fn callers_that_hold_no_turn_are_forgotten() {
        let turns = Turns::default();
        let held = turns.take(Caller::Session(SessionId::generate())).await;
        for _ in 0..3 * MAX_IDLE_CALLERS {
            drop(turns.take(Caller::Session(SessionId::generate())).await);
        }
        assert!(turns.lines.lock().unwrap().len() <= MAX_IDLE_CALLERS + 1);
        drop(held);
    }
}
