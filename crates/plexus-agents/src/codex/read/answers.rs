//! Answers to requests of ours: the handshake, prompts, reasons of denials.

use codex_app::event::answer::{AccountState, ThreadOpened, TurnTaken};
use codex_app::{Answer, Outcome};
use plexus_engine::driver::Step;
use uuid::Uuid;

use super::super::memory::CodexMemory;
use super::super::write::{Ours, denial};

/// The message in a chat when nobody is logged in.
const NO_LOGIN: &str = "nobody is logged in to Codex; run `codex login` as the user of this server";

impl CodexMemory {
    pub(super) fn answer(&mut self, answer: &Answer) -> Vec<Step> {
        let Some(ours) = Ours::of(&answer.id) else { return Vec::new() };
        let refused = match &answer.outcome {
            Outcome::Error(error) => Some(error.message.as_str().to_owned()),
            Outcome::Result(_) => None,
        };
        match (ours, refused) {
            (Ours::Account, None) => {
                let account: Option<AccountState> = answer.outcome.read();
                let missing = account
                    .is_some_and(|state| state.account.is_none() && state.requires_openai_auth);
                if missing {
                    self.refusal.get_or_insert(NO_LOGIN.to_owned());
                }
                Vec::new()
            }
            (Ours::Thread, None) => self.opened(answer.outcome.read()),
            (Ours::Initialize | Ours::Account | Ours::Thread, Some(words)) => {
                self.unusable(format!("the agent did not open a conversation: {words}"))
            }
            (Ours::Initialize, None) => Vec::new(),
            (Ours::Prompt(prompt), None) => {
                let turn = turn_of(&answer.outcome);
                match &mut self.turn {
                    Some(open) if open.prompt == Some(prompt) && open.id.is_none() => {
                        open.id = turn;
                    }
                    Some(_) | None => {}
                }
                Vec::new()
            }
            (Ours::Prompt(prompt), Some(words)) => {
                if self.turn.as_ref().is_none_or(|turn| turn.prompt != Some(prompt)) {
                    return Vec::new();
                }
                self.fail(format!("the agent did not take the prompt: {words}"));
                vec![Step::TurnEnded]
            }
            (Ours::Steer(message), None) => self.steer_taken(message, turn_of(&answer.outcome)),
            (Ours::Steer(message), Some(words)) => {
                let mut steps =
                    vec![super::notice(format!("the agent did not take the message: {words}"))];
                steps.extend(self.steer_over(message));
                steps
            }
            // Whether or not the agent could take the reason, the denial itself follows.
            (Ours::Reason(question), _) => {
                let question = self.questions.get(&question);
                question.map(|question| Step::Send(vec![denial(question)])).into_iter().collect()
            }
            (Ours::Interrupt, Some(words)) => vec![Step::OwnRequestFailed(words)],
            (Ours::Interrupt, None) => Vec::new(),
            (Ours::Clean, refused) => {
                let failed = refused.map(Step::OwnRequestFailed);
                failed.into_iter().chain(self.cleaned()).collect()
            }
        }
    }

    /// Notes that the conversation is open, if its settings are those that were requested.
    fn opened(&mut self, opened: Option<ThreadOpened>) -> Vec<Step> {
        let Some(opened) = opened else {
            return self.unusable("the agent opened a conversation and did not name it".to_owned());
        };
        let moved = self.mode.moved(
            opened.approval_policy.as_ref(),
            opened.sandbox.as_ref(),
            opened.approvals_reviewer.as_ref(),
        );
        let id = opened.thread.id.as_str();
        // It becomes part of a path, so only a UUID is accepted.
        let named = Uuid::try_parse(id).is_ok();
        let unnamed = (!named).then(|| "the agent names its conversation by no id".to_owned());
        if let Some(why) = self.refusal.take().or(moved).or(unnamed) {
            return self.unusable(why);
        }
        self.thread = Some(id.to_owned());
        self.model = opened.model.map(|model| model.as_str().to_owned());
        vec![Step::Ready]
    }

    /// Ends the turn because this process can never take a prompt.
    fn unusable(&mut self, why: String) -> Vec<Step> {
        self.spent = true;
        self.fail(why);
        vec![Step::TurnEnded]
    }
}

fn turn_of(outcome: &Outcome) -> Option<String> {
    let taken: TurnTaken = outcome.read()?;
    taken.turn.map(|turn| turn.id.as_str().to_owned())
}
