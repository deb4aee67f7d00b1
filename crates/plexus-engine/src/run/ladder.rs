//! How a chat is cancelled and a child ended: asked first, then insisted, then killed, each after
//! its grace.

use std::time::{Duration, Instant};

use plexus_core::CallError;
use plexus_store::UpdateRun;

use super::Run;
use super::state::StopReason;
use crate::driver::{Channel, Say};

/// How much longer than its own grace a shim may take to end its child and itself.
const SHIM_SLACK: Duration = Duration::from_millis(500);

/// The steps of ending a child that does not end by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ladder {
    step: Step,
    /// When the next step is due.
    pub(super) at: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Ask the shim to end it; the shim has a ladder of its own.
    Ask,
    /// Ask it again: it goes faster then.
    Insist,
    /// The shim itself does not answer.
    Kill,
}

impl Run {
    /// Notes why the open chat is to end, then sets about it.
    pub(super) async fn cancel(&mut self, reason: String) -> Result<(), CallError> {
        let mut state = self.state.clone();
        let Some(chat) = &mut state.chat else {
            return Err(CallError::conflict("cancel: no chat is running"));
        };
        if !chat.stop(StopReason::Cancelled, reason) {
            // Asked twice, it goes faster: the process itself is ended, warm or not.
            self.end_now();
            return Ok(());
        }
        self.remember(state, UpdateRun::of(self.key), Vec::new()).await?;
        plexus_fault::point!("cancel.committed");
        self.begin_cancel();
        Ok(())
    }

    /// Control channel: interrupt, so that the child stays warm. Neither an interrupt nor closing
    /// stdin ends background tasks: then it must go.
    pub(super) fn begin_cancel(&mut self) {
        match self.channel {
            Channel::Control if !self.state.mind.report().works_in_background => {
                self.say(&Say::Interrupt);
                self.climb_after(self.settings.grace);
            }
            Channel::Control | Channel::Mcp => self.climb_after(Duration::ZERO),
        }
    }

    /// Puts the first step at most this far away.
    pub(super) fn climb_after(&mut self, grace: Duration) {
        let at = Instant::now() + grace;
        let ladder = self.ladder.get_or_insert(Ladder { step: Step::Ask, at });
        if ladder.step == Step::Ask {
            ladder.at = ladder.at.min(at);
        }
    }

    /// Takes the next step towards the end of a child that has not ended by itself.
    pub(super) fn climb(&mut self) {
        let Some(ladder) = self.ladder else { return };
        let (step, wait) = match ladder.step {
            Step::Ask => {
                self.facts.set_closing();
                self.hold.ask_to_end();
                (Step::Insist, self.settings.grace + SHIM_SLACK)
            }
            Step::Insist => {
                self.hold.ask_to_end();
                (Step::Kill, SHIM_SLACK)
            }
            Step::Kill => {
                // The end of the shim is what the run waits for; then it looks again for whoever is
                // left.
                drop(self.hold.kill(&self.dir));
                (Step::Kill, SHIM_SLACK)
            }
        };
        self.ladder = Some(Ladder { step, at: Instant::now() + wait });
    }

    /// Lets the child leave by itself: closes its stdin. Not while a chat runs, whose answers still
    /// have to reach it.
    pub(super) fn close(&mut self) {
        if self.state.chat.is_some() {
            return;
        }
        self.facts.set_closing();
        if self.channel == Channel::Control
            && let Err(error) = self.dir.put_close()
        {
            tracing::warn!(run = %self.key, %error, "could not close a child's stdin");
        }
        self.climb_after(self.settings.grace);
    }

    /// Ends the child, whatever it does.
    pub(super) async fn kill(&mut self, reason: StopReason, words: String) {
        let mut state = self.state.clone();
        let noted = state.chat.as_mut().is_some_and(|chat| chat.stop(reason, words));
        if noted && let Err(error) = self.remember(state, UpdateRun::of(self.key), Vec::new()).await
        {
            tracing::warn!(run = %self.key, %error, "could not note why a run is ended");
        }
        self.end_now();
    }

    /// Takes the first step at once.
    pub(super) fn end_now(&mut self) {
        self.climb_after(Duration::ZERO);
        if self.ladder.is_some_and(|ladder| ladder.step == Step::Ask) {
            self.climb();
        }
    }
}
