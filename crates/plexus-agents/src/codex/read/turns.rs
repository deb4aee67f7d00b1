//! How turns begin and end, and what they use.

use codex_app::event::thread::{TokenUsage, Turn as Told, TurnError, TurnStatus};
use plexus_engine::driver::Step;
use uuid::Uuid;

use super::super::memory::{Call, Called, CodexMemory, Tokens};
use super::super::price::Prices;
use super::super::write::clean;

impl CodexMemory {
    pub(super) fn turn_started(&mut self, id: &str) -> Vec<Step> {
        let Some(turn) = &mut self.turn else { return vec![Step::TurnBegan] };
        turn.id = Some(id.to_owned());
        // An interrupt before this had no turn to name.
        vec![Step::InterruptedTooEarly]
    }

    pub(super) fn turn_completed(&mut self, told: &Told) -> Vec<Step> {
        let id = told.id.as_str();
        // Questions of a turn that is over need no answer, though the agent reports that only
        // later.
        let mut steps = self.withdraw_questions(id);
        let left_running = self.calls.values().any(|call| may_run(call, id));
        // A command that was asked about and still runs is checked against its answer when it ends.
        let goes_on = |call: &Call| may_run(call, id) && call.question.is_some();
        self.calls.retain(|_, call| call.turn.as_deref() != Some(id) || goes_on(call));
        let Some(turn) = &mut self.turn else { return steps };
        if turn.id.as_deref().is_some_and(|open| open != id) {
            return steps;
        }
        self.last_turn = Some(id.to_owned());
        turn.outcome = Some(outcome(told));
        // Messages that an interrupted or failed turn took are lost with it.
        turn.steers.retain(|_, taken_by| taken_by.as_deref() != Some(id));
        if told.status == TurnStatus::Interrupted {
            turn.steers.clear();
            if let Some(thread) = &self.thread {
                // Commands that it started are still running. Most of them are ended now; those
                // that have left the session of their command end with the process.
                turn.cleaning = true;
                self.spent |= left_running;
                steps.push(Step::Send(vec![clean(thread)]));
                return steps;
            }
        }
        steps.extend(self.end_if_over());
        steps
    }

    /// Notes that the commands which an interrupted turn left running were ended.
    pub(super) fn cleaned(&mut self) -> Vec<Step> {
        match &mut self.turn {
            Some(turn) if turn.cleaning => {
                turn.cleaning = false;
                self.end_if_over()
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Notes that the agent has taken a message into the turn `by`.
    pub(super) fn steer_taken(&mut self, message: Uuid, by: Option<String>) -> Vec<Step> {
        let Some(turn) = &mut self.turn else { return Vec::new() };
        match turn.steers.get_mut(&message) {
            Some(_) if by == self.last_turn => self.steer_over(message),
            Some(taken_by) => {
                *taken_by = by;
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    /// Forgets a message that the agent has repeated, or never will.
    pub(super) fn steer_over(&mut self, message: Uuid) -> Vec<Step> {
        let Some(turn) = &mut self.turn else { return Vec::new() };
        match turn.steers.remove(&message) {
            Some(_) => self.end_if_over(),
            None => Vec::new(),
        }
    }

    /// Ends the turn once the agent has said how it ended and none of its work remains.
    fn end_if_over(&mut self) -> Vec<Step> {
        match &self.turn {
            Some(turn) if turn.outcome.is_some() && turn.steers.is_empty() && !turn.cleaning => {
                vec![Step::TurnEnded]
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Counts what a thread has used. The agent reports totals, some of them twice; a resumed
    /// thread first reports its earlier usage, under an earlier turn.
    pub(super) fn used(&mut self, prices: &Prices, told: &TokenUsage, turn: Option<&str>) {
        let of = |tokens: &codex_app::event::thread::Tokens| Tokens {
            input: tokens.input_tokens,
            cached: tokens.cached_input_tokens,
            output: tokens.output_tokens,
        };
        let total = of(&told.total);
        let before = self.tokens.replace(total);
        let Some(open) = &mut self.turn else { return };
        if open.id.as_deref() != turn {
            return;
        }
        let used = before.map_or_else(|| of(&told.last), |before| total.less(before));
        if used == Tokens::default() {
            return;
        }
        let price = self.model.as_ref().and_then(|model| prices.get(model));
        let cost = price.map_or(0.0, |price| price.of(used));
        open.usage.input_tokens += used.input;
        open.usage.output_tokens += used.output;
        open.usage.num_turns += 1;
        open.usage.cost_usd += cost;
        self.cost_usd += cost;
    }
}

impl Tokens {
    fn less(self, before: Self) -> Self {
        Self {
            input: self.input.saturating_sub(before.input),
            cached: self.cached.saturating_sub(before.cached),
            output: self.output.saturating_sub(before.output),
        }
    }
}

/// Whether a call is a command of this turn, which may still run after the turn.
fn may_run(call: &Call, turn: &str) -> bool {
    call.what == Called::Command && call.turn.as_deref() == Some(turn)
}

fn outcome(told: &Told) -> Result<(), String> {
    match told.status {
        TurnStatus::Completed => Ok(()),
        TurnStatus::Interrupted => Err("the turn was interrupted".to_owned()),
        TurnStatus::Failed => Err(told.error.as_ref().map_or_else(
            || "the turn failed".to_owned(),
            |error| format!("the turn failed: {}", words_of(error)),
        )),
        TurnStatus::InProgress | TurnStatus::Unknown => {
            Err("the turn ended and the agent does not say how".to_owned())
        }
    }
}

fn words_of(error: &TurnError) -> String {
    let status = error.info.http_status.map_or_else(String::new, |status| format!(" {status}"));
    match (error.info.name.as_str(), error.message.as_str()) {
        ("", words) => words.to_owned(),
        (name, words) => format!("{name}{status}: {words}"),
    }
}
