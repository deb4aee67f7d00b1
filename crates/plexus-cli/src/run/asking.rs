//! Questions about calls: which is open, what was typed, and the answer that follows.

use anyhow::{Context as _, Result};
use plexus_client::ClientError;
use plexus_client::wire::{ApprovalId, DecidedBy, ErrorKind, SessionId};

use super::keyboard;
use super::line::Typed;
use super::question::{Move, Question};
use super::supervise::{Asks, Flow, Supervision};
use super::{editor, pager};
use crate::{hints, preview};
use plexus_render::tool_call::Extent;
use plexus_render::{sanitize, screen};

/// Rings the terminal: a question needs somebody who may look elsewhere.
const BELL: &str = "\u{7}";

impl Supervision {
    pub(super) fn ring(&self) -> Result<()> {
        match self.asks {
            Asks::Here => Ok(screen::print(BELL)?),
            Asks::Elsewhere => Ok(()),
        }
    }

    pub(super) fn asked(&mut self, approval: ApprovalId, session: SessionId) -> Result<()> {
        match self.asks {
            // A person who has pressed Ctrl-C is not asked any more.
            Asks::Here if self.interrupts > 0 => {}
            Asks::Here => self.waiting.push_back((approval, session)),
            Asks::Elsewhere => {
                let words = format!(
                    "  waits for an answer: `plexus approve {approval}`, `plexus deny {approval} \
                     --reason …`, `plexus dashboard`, or a rule"
                );
                self.view.remark(&words)?;
            }
        }
        Ok(())
    }

    /// Closes a question that was answered elsewhere.
    pub(super) fn withdraw(&mut self, approval: ApprovalId, by: DecidedBy) -> Result<()> {
        self.waiting.retain(|(waiting, _)| *waiting != approval);
        if self.question.as_ref().is_some_and(|question| question.approval.id == approval) {
            self.question = None;
            self.forget_typed();
            self.view.remark(match by {
                DecidedBy::Deadline => "  (nobody answered in time: it expired)",
                DecidedBy::AgentEnded => "  (the agent no longer asks)",
                _ => "  (answered elsewhere)",
            })?;
        }
        Ok(())
    }

    /// Closes a question of a session below this one that was answered elsewhere: only that
    /// session's own events tell of it.
    pub(super) async fn look_again(&mut self) -> Result<()> {
        let Some(question) = &self.question else { return Ok(()) };
        let (id, session) = (question.approval.id, question.approval.session_id);
        if session == self.session.id {
            return Ok(());
        }
        match self.client.pending(Some(session)).await {
            Ok(pending) if pending.iter().all(|approval| approval.id != id) => {
                self.withdraw(id, DecidedBy::Operator)
            }
            // A server that is away is asked again.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    pub(super) async fn ask_next(&mut self) -> Result<()> {
        while self.question.is_none() {
            let Some((id, session)) = self.waiting.pop_front() else { return Ok(()) };
            // The record has what the event has not: the digest that binds the answer, and rules
            // that would fit.
            let pending = self.client.pending(Some(session)).await;
            let pending = pending.map_err(crate::server::failed)?;
            let Some(approval) = pending.into_iter().find(|approval| approval.id == id) else {
                continue;
            };
            let question = Question::new(approval);
            self.ring()?;
            for line in question.shown(Extent::Short, self.screen) {
                self.view.line(&line)?;
            }
            self.put_question(question)?;
        }
        Ok(())
    }

    fn put_question(&mut self, question: Question) -> Result<()> {
        keyboard::forget_typed_ahead();
        self.forget_typed();
        self.listen()?;
        self.view.prompt(&question.prompt(self.screen))?;
        self.typing = false;
        self.question = Some(question);
        Ok(())
    }

    /// Takes what was typed as the answer to a question.
    pub(super) async fn answered(&mut self, mut question: Question, typed: Typed) -> Result<Flow> {
        let moved = match typed {
            Typed::Shown(text) => {
                if !question.is_secret() {
                    self.view.echo(&text)?;
                }
                self.question = Some(question);
                return Ok(Flow::On);
            }
            Typed::Leave => return self.left(),
            Typed::Line(line) if line == "d" && question.is_at_start() => return self.left(),
            Typed::Line(line) => {
                self.view.echo("\n")?;
                question.take(&line, self.screen)
            }
            Typed::End => {
                self.nobody_types();
                self.waiting.push_front((question.approval.id, question.approval.session_id));
                let left: Vec<_> = self.waiting.drain(..).collect();
                left.into_iter().try_for_each(|(id, session)| self.asked(id, session))?;
                return Ok(Flow::On);
            }
        };
        self.make(question, moved).await?;
        Ok(Flow::On)
    }

    async fn make(&mut self, mut question: Question, moved: Move) -> Result<()> {
        match moved {
            Move::Ask(lines) => {
                for line in lines {
                    self.view.line(&line)?;
                }
                self.put_question(question)
            }
            Move::View(lines) => {
                // The pager has the keyboard.
                self.keys = None;
                if let Err(error) = pager::show(&lines).await {
                    tracing::debug!(%error, "no pager");
                    // Without a pager there is still the terminal's own scrollback.
                    lines.iter().try_for_each(|line| self.view.line(line))?;
                }
                self.put_question(question)
            }
            Move::Preview => {
                self.view.remark(preview::TRYING)?;
                let lines = preview::tried(&self.client, &question.approval, self.screen).await;
                Box::pin(self.make(question, Move::View(lines))).await
            }
            Move::Edit(editing) => {
                self.keys = None;
                let moved = match editor::edit(&editing.text, editing.ending).await {
                    Ok(text) => question.edited(&editing, &text, self.screen),
                    Err(error) => {
                        Move::Ask(vec![format!("  {}", sanitize::one_line(&format!("{error:#}")))])
                    }
                };
                Box::pin(self.make(question, moved)).await
            }
            Move::Decide(answer) => match self.client.loopback().respond(&answer).await {
                Ok(_) => Ok(()),
                Err(ClientError::Call(error))
                    if error.kind == ErrorKind::Conflict || error.kind == ErrorKind::Expired =>
                {
                    Ok(self
                        .view
                        .remark(&format!("  (could not {})", sanitize::one_line(&error.message)))?)
                }
                Err(error) => {
                    question.start_over();
                    let hint = match &error {
                        ClientError::Call(error) => hints::with_commands(&error.hint),
                        error if error.is_absence() => "The server is gone: start it with `plexus \
                                                        serve` or `plexus run`, then answer again"
                            .to_owned(),
                        _ => "try again in a moment".to_owned(),
                    };
                    let words = sanitize::one_line(&error.to_string()).into_owned();
                    let words = format!("  could not {words}. {}", sanitize::one_line(&hint));
                    Box::pin(self.make(question, Move::Ask(vec![words]))).await
                }
            },
        }
    }

    /// Reads the keyboard from now on, where somebody sits there.
    pub(super) fn listen(&mut self) -> Result<()> {
        if self.keys.is_none() && self.asks == Asks::Here {
            let keys = super::keyboard::Reading::start();
            self.keys = Some(keys.context("could not read from the terminal")?);
        }
        Ok(())
    }
}
