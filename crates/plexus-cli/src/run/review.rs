//! `plexus review`: the whole queue of what waits, one after the other, with the keys of `run`.

use std::collections::HashSet;

use anyhow::{Context as _, Result, bail};
use plexus_client::wire::{ApprovalId, ErrorKind};
use plexus_client::{Client, ClientError};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::keyboard::{self, Reading};
use super::line::Typed;
use super::question::{Move, Question};
use super::view::{Form, View};
use super::{editor, pager};
use crate::args::Global;
use crate::server::{self, failed};
use crate::{exit, find, preview};
use plexus_render::sanitize;
use plexus_render::screen::Screen;
use plexus_render::tool_call::Extent;

/// Whether the review goes on.
enum Next {
    Question,
    Leave {
        /// The exit code.
        code: u8,
    },
}

/// Walks through what waits, in all sessions or in one.
pub(crate) async fn review(global: &Global, session: Option<&str>) -> Result<u8> {
    if !keyboard::is_interactive() {
        bail!("could not review: it needs a terminal; `plexus pending` lists what waits");
    }
    let client = server::find(&global.data_dir()?).await?;
    let session = match session {
        Some(which) => Some(find::session(&client, which).await.map_err(failed)?.id),
        None => None,
    };
    let screen = Screen::stdout();
    let interrupts = signal(SignalKind::interrupt()).context("could not listen for Ctrl-C")?;
    let view = View::watch(screen, Form::Text);
    let mut review = Review { client, screen, view, seen: HashSet::new(), interrupts };
    let mut answered = 0_usize;
    loop {
        let pending = review.client.pending(session).await.map_err(failed)?;
        let left = pending.iter().filter(|approval| !review.seen.contains(&approval.id)).count();
        let next = pending.into_iter().find(|approval| !review.seen.contains(&approval.id));
        let Some(approval) = next else { break };
        review.seen.insert(approval.id);
        review.view.remark(&format!("({left} left; [k] keeps one for later, [d] leaves)"))?;
        let question = Question::new(approval);
        for line in question.shown(Extent::Short, screen) {
            review.view.line(&line)?;
        }
        match review.ask(question).await? {
            Next::Question => answered += 1,
            Next::Leave { code } => {
                review.view.remark(&format!("left; {left} still wait: `plexus pending`"))?;
                return Ok(code);
            }
        }
    }
    review.view.remark(if answered == 0 { "nothing waits" } else { "that is all" })?;
    Ok(exit::OK)
}

struct Review {
    client: Client,
    screen: Screen,
    view: View,
    seen: HashSet<ApprovalId>,
    /// Ctrl-C, which would otherwise leave the terminal as it is while keys are read.
    interrupts: Signal,
}

impl Review {
    /// Asks one question until it is answered, kept for later, or the person leaves.
    async fn ask(&mut self, mut question: Question) -> Result<Next> {
        let mut moved = Move::Ask(Vec::new());
        loop {
            moved = match moved {
                Move::Ask(lines) => {
                    lines.iter().try_for_each(|line| self.view.line(line))?;
                    keyboard::forget_typed_ahead();
                    let mut keys = Reading::start().context("could not read from the terminal")?;
                    self.view.prompt(&question.prompt(self.screen))?;
                    let is_secret = question.is_secret();
                    let show = |text: &str| match is_secret {
                        true => Ok(()),
                        false => self.view.echo(text),
                    };
                    // The terminal is restored on the way out.
                    let typed = tokio::select! {
                        typed = keys.line(show) => typed,
                        _ = self.interrupts.recv() => {
                            return Ok(Next::Leave { code: exit::INTERRUPTED });
                        }
                    };
                    // An editor or a pager may have the keyboard next.
                    drop(keys);
                    self.view.echo("\n")?;
                    match typed.context("could not read from the terminal")? {
                        Typed::End | Typed::Leave | Typed::Shown(_) => {
                            return Ok(Next::Leave { code: exit::OK });
                        }
                        Typed::Line(line) if question.is_at_start() && line == "d" => {
                            return Ok(Next::Leave { code: exit::OK });
                        }
                        Typed::Line(line) if question.is_at_start() && line == "k" => {
                            return Ok(Next::Question);
                        }
                        Typed::Line(line) => question.take(&line, self.screen),
                    }
                }
                Move::View(lines) => {
                    if let Err(error) = pager::show(&lines).await {
                        tracing::debug!(%error, "no pager");
                        lines.iter().try_for_each(|line| self.view.line(line))?;
                    }
                    Move::Ask(Vec::new())
                }
                Move::Preview => {
                    self.view.remark(preview::TRYING)?;
                    let tried = preview::tried(&self.client, &question.approval, self.screen);
                    Move::View(tried.await)
                }
                Move::Edit(editing) => match editor::edit(&editing.text, editing.ending).await {
                    Ok(text) => question.edited(&editing, &text, self.screen),
                    Err(error) => {
                        Move::Ask(vec![format!("  {}", sanitize::one_line(&format!("{error:#}")))])
                    }
                },
                Move::Decide(answer) => match self.client.loopback().respond(&answer).await {
                    Ok(_) => return Ok(Next::Question),
                    Err(ClientError::Call(error))
                        if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) =>
                    {
                        let words = sanitize::one_line(&error.message).into_owned();
                        self.view.remark(&format!("  (could not {words})"))?;
                        return Ok(Next::Question);
                    }
                    Err(error) => {
                        question.start_over();
                        let words = sanitize::one_line(&error.to_string()).into_owned();
                        Move::Ask(vec![format!("  could not {words}")])
                    }
                },
            };
        }
    }
}
