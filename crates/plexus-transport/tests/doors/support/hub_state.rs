//! The [`HubState`]: the questions and answers that the test hub's methods share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plexus_core::CallError;
use serde_json::{Map, Value};
use testkit::wait::PATIENCE;
use tokio::sync::Notify;

/// The state that the hub's methods share; it outlives a server, as a store does.
#[derive(Default)]
pub(crate) struct HubState {
    questions: Mutex<HashMap<String, Option<Value>>>,
    /// The inputs of permission requests, by the id of their tool use.
    pub(crate) permits: Mutex<HashMap<String, Map<String, Value>>>,
    /// Tokens that are revoked.
    pub(crate) revoked: Mutex<Vec<String>>,
    /// Changes when the server itself revoked some.
    pub(crate) revocations: tokio::sync::watch::Sender<u64>,
    changed: Notify,
    /// Counts answers, for subscribers.
    pub(super) version: tokio::sync::watch::Sender<u64>,
    /// Calls whose work goes on.
    working: AtomicUsize,
    /// Calls whose work has begun, including those whose work has ended.
    begun: AtomicUsize,
    /// The page that the reader gets next.
    pub(super) page: AtomicU64,
    /// Questions asked, including repeated ones.
    pub(crate) asked: AtomicUsize,
}

impl HubState {
    pub(crate) fn answer(&self, key: &str, answer: Value) {
        self.questions.lock().unwrap().insert(key.into(), Some(answer));
        self.changed.notify_waiters();
        self.version.send_modify(|version| *version += 1);
    }

    /// Opens the question with that key, unless it exists.
    pub(super) fn ask(&self, key: &str) {
        self.questions.lock().unwrap().entry(key.into()).or_default();
    }

    /// Withdraws a question.
    pub(super) fn forget(&self, key: &str) {
        self.questions.lock().unwrap().remove(key);
        self.changed.notify_waiters();
    }

    /// Returns the answer to the question with that key, if the question exists.
    pub(super) fn question(&self, key: &str) -> Option<Option<Value>> {
        self.questions.lock().unwrap().get(key).cloned()
    }

    pub(super) fn questions(&self) -> usize {
        self.questions.lock().unwrap().len()
    }

    pub(crate) fn knows(&self, key: &str) -> bool {
        self.questions.lock().unwrap().contains_key(key)
    }

    pub(crate) fn working(&self) -> usize {
        self.working.load(Ordering::SeqCst)
    }

    pub(crate) fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    /// Blocks the thread itself, as in a process that is killed or frozen, until there is a
    /// question with that key.
    pub(super) fn stand_still_until(&self, key: &str) {
        let began = std::time::Instant::now();
        while !self.knows(key) && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(super) fn work(self: &Arc<Self>) -> Working {
        self.working.fetch_add(1, Ordering::SeqCst);
        self.begun.fetch_add(1, Ordering::SeqCst);
        Working(Arc::clone(self))
    }

    pub(super) async fn wait_for_answer(self: &Arc<Self>, key: &str) -> Result<Value, CallError> {
        let _working = self.work();
        self.asked.fetch_add(1, Ordering::SeqCst);
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            match self.questions.lock().unwrap().get(key) {
                Some(Some(answer)) => return Ok(answer.clone()),
                Some(None) => {}
                None => return Err(CallError::not_found("find the question")),
            }
            changed.await;
        }
    }
}

/// A call whose work goes on until this is dropped.
pub(super) struct Working(Arc<HubState>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.working.fetch_sub(1, Ordering::SeqCst);
    }
}
