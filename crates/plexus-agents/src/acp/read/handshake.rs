//! The answers to our own requests: who the agent is, that its session is open, that a turn is
//! over.

use acp_lines::event::answer::{Initialized, PromptEnded, SessionOpened};
use acp_lines::{Answer, Outcome, PROTOCOL_VERSION, RequestId, RpcError, StopReason};
use plexus_engine::driver::Step;
use plexus_wire::ChatEvent;
use serde_json::Value;

use super::Reading;
use crate::acp::memory::{Handshake, Turn};
use crate::acp::profile::{History, ResumeWay, TokensPlace};
use crate::acp::write;

impl Reading<'_> {
    pub(super) fn answer(&mut self, answer: &Answer) {
        let RequestId::Text(id) = &answer.id else { return self.unasked() };
        let is_prompt = |turn: &Turn| turn.prompt.is_some_and(|prompt| prompt.to_string() == *id);
        match (id.as_str(), self.memory.handshake) {
            (write::HELLO, Handshake::Begun) => self.greeted(&answer.outcome),
            (write::OPEN, Handshake::Greeted) => self.opened(&answer.outcome),
            (write::OPEN, Handshake::Begun) => {
                self.fail("it opened a session before it said who it is".to_owned());
            }
            (write::MODEL, Handshake::SetsModel) => self.model_set(&answer.outcome),
            (write::REPLAYED, Handshake::Replays) => self.ready(),
            // Answers after a failure are ignored.
            (_, Handshake::Failed) => {}
            (_, Handshake::Done) if self.memory.turn.as_ref().is_some_and(is_prompt) => {
                self.turn_ended(&answer.outcome);
            }
            _ => self.unasked(),
        }
    }

    fn unasked(&mut self) {
        self.flush();
        let words = "the agent answered a request that was never made, or twice";
        self.steps.push(Step::Event(ChatEvent::notice(words)));
    }

    fn greeted(&mut self, outcome: &Outcome) {
        let hello: Option<Initialized> = outcome.read();
        let takes_images = hello.as_ref().is_some_and(|hello| hello.capabilities.prompt.image);
        match (outcome, hello.and_then(|hello| hello.protocol_version)) {
            (Outcome::Error(error), _) => {
                self.fail(format!("it refused to begin: {}", words(error)))
            }
            // The images of a prompt would be lost.
            (_, Some(PROTOCOL_VERSION)) if self.profile.images && !takes_images => self.fail(
                "its profile says that it takes images, and it says that it does not".to_owned(),
            ),
            (_, Some(PROTOCOL_VERSION)) => self.memory.handshake = Handshake::Greeted,
            (_, Some(other)) => self.fail(format!(
                "it speaks version {other} of the Agent Client Protocol, not {PROTOCOL_VERSION}"
            )),
            (_, None) => self.fail("it does not speak the Agent Client Protocol".to_owned()),
        }
    }

    fn opened(&mut self, outcome: &Outcome) {
        if let Outcome::Error(error) = outcome {
            let mut why = format!("it could not open its session: {}", words(error));
            if self.memory.session.is_some() {
                // An agent may keep a conversation only once it has gone on for a while.
                why.push_str("; if its conversation is lost, agents.create begins another session");
            }
            return self.fail(why);
        }
        let opened: SessionOpened = outcome.read().unwrap_or_default();
        let told = opened.session_id.as_ref().map(|id| id.as_str().to_owned());
        let Some(session) = told.or_else(|| self.memory.session.clone()) else {
            return self.fail("it opened a session without an id".to_owned());
        };
        let mode = opened.mode();
        if let Some(wrong) = self.wrong_mode(mode.as_deref()) {
            return self.fail(wrong);
        }
        let is_loaded = self.memory.session.as_ref() == Some(&session)
            && self.profile.resume == ResumeWay::Load;
        self.memory.mode = mode;
        self.memory.session = Some(session.clone());
        if let Some(model) = self.memory.model.clone() {
            let Some(option) = opened.option("model") else {
                return self.fail("it has no option for the model".to_owned());
            };
            self.memory.handshake = Handshake::SetsModel;
            let set = write::set_model(&session, option.id.as_str(), &model);
            self.steps.push(Step::Send(vec![set]));
        } else if is_loaded && self.profile.history == History::AfterAnswer {
            self.memory.handshake = Handshake::Replays;
            self.steps.push(Step::Send(vec![write::barrier()]));
        } else {
            self.ready();
        }
    }

    fn model_set(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Error(error) => {
                self.fail(format!("it did not take the model: {}", words(error)))
            }
            Outcome::Result(_) => self.ready(),
        }
    }

    fn ready(&mut self) {
        self.memory.handshake = Handshake::Done;
        self.steps.push(Step::Ready);
    }

    /// The handshake failed: the chat ends, and nothing more is said to this process.
    fn fail(&mut self, why: String) {
        self.memory.handshake = Handshake::Failed;
        if let Some(turn) = &mut self.memory.turn {
            turn.outcome = Some(Err(format!("the agent cannot be used: {why}")));
        }
        self.steps.push(Step::TurnEnded);
    }

    fn turn_ended(&mut self, outcome: &Outcome) {
        self.flush();
        let ended: PromptEnded = outcome.read().unwrap_or_default();
        let result = match (outcome, ended.stop_reason) {
            (Outcome::Error(error), _) => Err(format!("the agent reported: {}", words(error))),
            (_, Some(StopReason::EndTurn)) => Ok(()),
            (_, Some(StopReason::MaxTokens)) => {
                Err("the model reached its limit of tokens".to_owned())
            }
            (_, Some(StopReason::MaxTurnRequests)) => {
                Err("the agent reached its limit of requests to the model".to_owned())
            }
            (_, Some(StopReason::Refusal)) => Err("the model refused".to_owned()),
            (_, Some(StopReason::Cancelled)) => Err("the agent cancelled the turn".to_owned()),
            (_, None) => Err("the agent ended its turn without a reason".to_owned()),
        };
        self.close_questions(ended.stop_reason == Some(StopReason::Cancelled));
        let (input_tokens, output_tokens) = self.tokens(&ended);
        if let Some(price) = self.memory.price {
            self.memory.cost_total += price.of_fresh(input_tokens, output_tokens);
        }
        if let Some(turn) = &mut self.memory.turn {
            turn.is_heard = true;
            turn.outcome = Some(result);
            turn.usage.input_tokens += input_tokens;
            turn.usage.output_tokens += output_tokens;
            turn.usage.num_turns += 1;
        }
        self.steps.push(Step::TurnEnded);
    }

    /// The tokens of the turn, read and written, where the agent says those of the whole turn.
    fn tokens(&self, ended: &PromptEnded) -> (u64, u64) {
        match self.profile.tokens {
            TokensPlace::None => (0, 0),
            TokensPlace::Turn => ended
                .usage
                .as_ref()
                .map_or((0, 0), |usage| (usage.input_tokens, usage.output_tokens)),
            TokensPlace::Quota => {
                let meta = ended.meta.as_ref().and_then(|meta| meta.to_value().ok());
                let count = meta.map_or(Value::Null, |meta| meta["quota"]["token_count"].clone());
                let number = |name: &str| count[name].as_u64().unwrap_or(0);
                (number("input_tokens"), number("output_tokens"))
            }
        }
    }
}

/// What the agent says of a failure, with its code. Some say in `data` what it was.
fn words(error: &RpcError) -> String {
    let data = error.data.as_ref().and_then(|data| match data.to_value() {
        Ok(Value::String(text)) => Some(format!("{text}; ")),
        Ok(Value::Object(fields)) => {
            let text = fields.get("message").or_else(|| fields.get("details"))?.as_str()?;
            Some(format!("{text}; "))
        }
        _ => None,
    });
    let data = data.unwrap_or_default();
    format!("{data}{} (code {})", error.message.as_str(), error.code)
}
