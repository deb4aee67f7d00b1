//! Whether the chat is over, and what is said then.

use anyhow::Result;
use plexus_client::wire::{Said, SessionRef, SessionStatus};

use super::supervise::{Flow, Stage, Supervision, Talk};
use super::{code_of, poll_from};
use crate::cli::exit;
use crate::cli::server::failed;

impl Supervision {
    /// Ends, or waits for the next line, when the session says that this chat is over.
    pub(super) async fn perhaps_ended(&mut self, at_ms: i64) -> Result<Flow> {
        if self.stage != Stage::Working {
            return Ok(Flow::On);
        }
        let session = match self.client.session(&SessionRef::id(self.session.id)).await {
            Ok(session) => session,
            Err(error) if error.is_absence() => return Ok(Flow::On),
            Err(error) => return Err(failed(error)),
        };
        let status = match session.status {
            _ if session.chat != Some(self.chat) => SessionStatus::Complete,
            Said::Known(status) if !status.is_busy() => status,
            // A status that this version does not know is not an end.
            Said::Known(_) | Said::Unknown(_) => return Ok(Flow::On),
        };
        // The status is of now, and the events are read later than they happen: what follows an
        // unreadable line is shown too.
        let whole = match poll_from(&self.client, self.session.id, self.chat, self.shown).await {
            Ok(rest) => rest.total_events,
            Err(error) if error.is_absence() => return Ok(Flow::On),
            Err(error) => return Err(failed(error)),
        };
        if self.shown < whole {
            self.whole = Some(whole);
            return Ok(Flow::On);
        }
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
}
