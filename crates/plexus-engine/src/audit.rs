//! The record of refused attempts: who tried what, and what they were told. A child that tries
//! every door leaves a trail.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use plexus_core::{CallError, Caller, ErrorKind, FailureWatcher, SessionId};
use plexus_store::{AuditLine, Change, JsonText, Priority, Store, UnixMillis};
use plexus_wire::RefusedAttempt;

use crate::scrub;

/// What kind of line this is.
pub(crate) const REFUSED: &str = "refused";

/// How many lines one [`WINDOW`] takes. A caller that tries faster than a person could read is
/// counted, not written down: the disk is not its to fill.
const LINES_PER_WINDOW: u32 = 600;

/// How many of them are for one caller, or for all who show no valid token: nobody hides the
/// attempts of another behind a flood of their own.
const LINES_PER_CALLER: u32 = LINES_PER_WINDOW / 2;

/// How many characters of a text are written down. A name of a method comes from whoever tries, and
/// may have as many bytes as a request.
const MAX_TEXT_CHARS: usize = 500;

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
    /// The lines of each caller; `None` is whoever shows no valid token.
    of_caller: HashMap<Option<Caller>, u32>,
    left_out: u64,
}

impl Refusals {
    pub(crate) fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            store,
            window: Mutex::new(Window {
                since: Instant::now(),
                lines: 0,
                of_caller: HashMap::new(),
                left_out: 0,
            }),
        })
    }

    /// Notes in the log and in the audit that an attempt was refused. The attempt stays refused
    /// when the note cannot be written.
    pub async fn note(&self, session: Option<SessionId>, mut refused: RefusedAttempt) {
        let Some(left_out) = self.room(refused.caller) else { return };
        let RefusedAttempt { method, door, message, tool_name, tool_use_id, .. } = &mut refused;
        let texts = [method, door, tool_name, tool_use_id].into_iter().flatten();
        texts.chain([message]).for_each(shorten);
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
    /// no room for this caller.
    fn room(&self, caller: Option<Caller>) -> Option<u64> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if window.since.elapsed() >= WINDOW {
            (window.since, window.lines) = (Instant::now(), 0);
            window.of_caller.clear();
        }
        let own = window.of_caller.get(&caller).copied().unwrap_or_default();
        if window.lines >= LINES_PER_WINDOW || own >= LINES_PER_CALLER {
            window.left_out += 1;
            return None;
        }
        window.lines += 1;
        window.of_caller.insert(caller, own + 1);
        Some(std::mem::take(&mut window.left_out))
    }
}

/// Cuts a text that is too long, and masks our tokens in it: a client may send one where a name
/// belongs.
fn shorten(text: &mut String) {
    *text = scrub::text(text);
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT_CHARS) {
        text.truncate(end);
        text.push('…');
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

#[cfg(test)]
mod tests {
    use plexus_core::SessionId;
    use plexus_store::{MemoryStore, PageRequest};

    use super::*;

    async fn written(store: &dyn Store) -> Vec<RefusedAttempt> {
        let lines = store.audit(None, PageRequest::first(1_000)).await.unwrap().items;
        lines.iter().map(|line| line.line.body.read().unwrap()).collect()
    }

    #[tokio::test]
    async fn a_name_of_any_length_leaves_a_short_line_without_a_token() {
        let store = Arc::new(MemoryStore::new());
        let refusals = Refusals::new(store.clone());
        let caller = Caller::Child(SessionId::generate());
        let token = crate::Identity::draw().unwrap();
        for name in ["\u{202e}".repeat(2_000_000), format!("agents.{}", token.expose())] {
            refusals.failed(&caller, &name, &CallError::unknown_method(&name)).await;
        }
        let lines = written(&*store).await;
        assert_eq!(lines.len(), 2);
        for line in lines {
            let text = serde_json::to_string(&line).unwrap();
            assert!(text.len() < 8 * MAX_TEXT_CHARS, "{} bytes", text.len());
            assert!(!text.contains(token.expose()), "{text}");
        }
    }

    #[tokio::test]
    async fn a_flood_of_one_caller_hides_no_attempt_of_another() {
        let store = Arc::new(MemoryStore::new());
        let refusals = Refusals::new(store.clone());
        let wrong = || RefusedAttempt::new(ErrorKind::Unauthorized, "accept this token");
        for _ in 0..2 * LINES_PER_WINDOW {
            refusals.note(None, wrong()).await;
        }
        let caller = Caller::Child(SessionId::generate());
        let error = CallError::forbidden("call it");
        refusals.failed(&caller, "agents.list", &error).await;
        let lines = written(&*store).await;
        assert_eq!(lines.len(), LINES_PER_CALLER as usize + 1);
        let own = lines.iter().find(|line| line.caller == Some(caller)).unwrap();
        assert_eq!(own.left_out_before, Some(u64::from(2 * LINES_PER_WINDOW - LINES_PER_CALLER)));
    }
}
