//! Whether the chat is over, and what is said then.

use anyhow::Result;
use plexus_client::ClientError;
use plexus_client::wire::{Said, Session, SessionRef, SessionStatus};

use super::supervise::{Flow, Stage, Supervision, Talk};
use super::{code_of, poll_from};
use crate::exit;
use crate::server::failed;

impl Supervision {
    /// Ends, or waits for the next line, when the session says that this chat is over.
    pub(super) async fn perhaps_ended(&mut self, at_ms: i64) -> Result<Flow> {
        if self.stage != Stage::Working {
            return Ok(Flow::On);
        }
        self.unsure_end_ms = None;
        let (session, status) = match self.look_for_end().await {
            Ok(Some(end)) => end,
            Ok(None) => return Ok(Flow::On),
            Err(error) if error.is_absence() => {
                self.unsure_end_ms = Some(at_ms);
                return Ok(Flow::On);
            }
            Err(error) => return Err(failed(error)),
        };
        self.spent_usd = session.spent.cost_usd;
        let code = if self.interrupts > 0 && status == SessionStatus::Cancelled {
            exit::INTERRUPTED
        } else {
            code_of(status, self.refused)
        };
        let ms = at_ms - self.started_ms;
        let usage = self.usage.as_ref();
        match self.talk {
            Talk::Once => {
                self.view.ended(status, ms, usage, self.refused, &self.ways_on())?;
                Ok(Flow::End(code))
            }
            Talk::On => {
                self.view.ended(status, ms, usage, self.refused, &[])?;
                self.wait_for_a_line(code).await
            }
        }
    }

    /// Asks how the chat has ended. `None` while it goes on or some of its events are still to come.
    async fn look_for_end(&mut self) -> Result<Option<(Session, SessionStatus)>, ClientError> {
        let session = self.client.session(&SessionRef::id(self.session.id)).await?;
        let status = match session.status {
            _ if session.chat != Some(self.chat) => SessionStatus::Complete,
            Said::Known(status) if !status.is_busy() => status,
            // A status that this version does not know is not an end.
            Said::Known(_) | Said::Unknown(_) => return Ok(None),
        };
        // The status is of now, and the events are read later than they happen: what follows an
        // unreadable line is shown too.
        let rest = poll_from(&self.client, self.session.id, self.chat, self.shown).await?;
        if self.shown < rest.total_events {
            self.whole = Some(rest.total_events);
            return Ok(None);
        }
        Ok(Some((session, status)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use plexus_client::wire::CallError;
    use serde_json::{Value, json};

    use super::*;
    use crate::run::Form;
    use crate::run::supervise::{LOOK_AFTER_TICKS, Watched};
    use crate::stand_in::answering;
    use plexus_render::screen::Screen;

    const ID: &str = "01a1de6b-3b15-70ca-afc7-c3f165592f7c";

    /// A session whose first chat is complete and has no events.
    fn complete() -> Value {
        json!({"id": ID, "name": "n", "working_dir": "/w", "model": null, "channel": "control",
            "loopback_enabled": true, "can_spawn": false, "status": "complete", "chat": 0,
            "head": {"tree_id": ID, "node_id": ID}, "spent": {"cost_usd": 0.0, "turns": 0,
            "input_tokens": 0, "output_tokens": 0, "wall_ms": 0}, "metadata": {}, "created_at": 1,
            "updated_at": 1})
    }

    #[tokio::test]
    async fn a_chat_that_ends_while_the_server_is_busy_is_over_when_it_answers_again() {
        for busy in ["agents.get", "agents.poll"] {
            let is_first = Arc::new(AtomicBool::new(true));
            let client = answering(move |method, _| match method {
                _ if method == busy && is_first.swap(false, Ordering::Relaxed) => {
                    Err(CallError::busy("look now", 1))
                }
                "agents.get" => Ok(json!({"type": "ok", "session": complete()})),
                "agents.poll" => Ok(json!({"type": "ok", "status": "complete", "events": [],
                    "pending_approvals": [], "read_position": 0, "total_events": 0,
                    "has_more": false, "cursor": null, "chat": 0})),
                other => Err(CallError::not_found(other)),
            });
            let session = serde_json::from_value(complete()).unwrap();
            let watched = Watched { session, chat: 0, cursor: None };
            let mut supervision =
                Supervision::new(client.await, watched, Screen::plain(80), Form::Json, Talk::Once);
            assert!(matches!(supervision.perhaps_ended(1).await.unwrap(), Flow::On), "{busy}");
            let mut flow = Flow::On;
            for _ in 0..LOOK_AFTER_TICKS {
                flow = supervision.ticked().await.unwrap();
            }
            assert!(matches!(flow, Flow::End(exit::OK)), "nobody asked {busy} again");
        }
    }
}
