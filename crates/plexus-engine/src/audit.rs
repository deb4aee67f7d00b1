//! The record of refused attempts: who tried what, and what they were told. A child that tries
//! every door leaves a trail.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use plexus_core::{CallError, Caller, ErrorKind, FailureWatcher, SessionId};
use plexus_store::{AuditLine, Change, JsonText, Priority, Store, UnixMillis};
use plexus_wire::RefusedAttempt;

/// What kind of line this is.
pub(crate) const REFUSED: &str = "refused";

/// How many lines one [`WINDOW`] takes. A caller that tries faster than a person could read is
/// counted, not written down: the disk is not its to fill.
const LINES_PER_WINDOW: u32 = 600;

/// The time over which lines are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// Writes refused attempts into the audit.
pub struct Refusals {
    store: Arc<dyn Store>,
    window: Mutex<Window>,
}

struct Window {
    since: Instant,
    lines: u32,
    left_out: u64,
}

impl Refusals {
    pub(crate) fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            store,
            window: Mutex::new(Window { since: Instant::now(), lines: 0, left_out: 0 }),
        })
    }

    /// Notes in the log and in the audit that an attempt was refused. The attempt stays refused
    /// when the note cannot be written.
    pub async fn note(&self, session: Option<SessionId>, mut refused: RefusedAttempt) {
        let Some(left_out) = self.room() else { return };
        tracing::warn!(
            caller = ?refused.caller,
            device = refused.device,
            method = refused.method,
            door = refused.door,
            why = refused.message,
            "refused"
        );
        if left_out > 0 {
            refused.left_out_before = Some(left_out);
        }
        let body = match JsonText::of(&refused) {
            Ok(body) => body,
            Err(error) => {
                tracing::error!(%error, "a refused attempt could not be written");
                return;
            }
        };
        let line = AuditLine { at: UnixMillis::now(), kind: REFUSED.to_owned(), session, body };
        if let Err(error) =
            self.store.commit(vec![Change::AppendAudit(line)], Priority::Normal).await
        {
            tracing::error!(%error, "a refused attempt could not be noted");
        }
    }

    /// Takes a line of the window, and says how many were left out before it; `None` when there is
    /// no room.
    fn room(&self) -> Option<u64> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if window.since.elapsed() >= WINDOW {
            (window.since, window.lines) = (Instant::now(), 0);
        }
        if window.lines >= LINES_PER_WINDOW {
            window.left_out += 1;
            return None;
        }
        window.lines += 1;
        Some(std::mem::take(&mut window.left_out))
    }
}

#[async_trait]
impl FailureWatcher for Refusals {
    /// Records a call that was refused because the caller may not do that or may not know of the
    /// thing. A wrong parameter is not recorded, and neither is an error of the operator, who may
    /// do everything and has only mistyped.
    async fn failed(&self, caller: &Caller, method: &str, error: &CallError) {
        let attempt = matches!(error.kind(), ErrorKind::Forbidden | ErrorKind::NotFound);
        if *caller == Caller::Operator || !attempt {
            return;
        }
        let mut refused =
            RefusedAttempt::new(error.kind(), error.message.as_str()).of(*caller, method);
        if let Caller::Device(id) = caller {
            refused.device = self.store.device(*id).await.ok().map(|device| device.name);
        }
        self.note(caller.session(), refused).await;
    }
}
