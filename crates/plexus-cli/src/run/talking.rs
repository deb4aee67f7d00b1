//! Lines that the person types to the agent: into the running chat, or as the next prompt; and the
//! ways to leave.

use anyhow::Result;
use plexus_client::ClientError;
use plexus_client::wire::{CancelParams, ChatParams, ErrorKind, SendParams, SessionRef};

use super::line::Typed;
use super::supervise::{Asks, Flow, Stage, Supervision, Talk};
use crate::{exit, hints};
use plexus_render::sanitize;
use plexus_render::screen::{dollars, duration, now_ms};

/// What is shown before the next prompt.
const NEXT: &str = "> ";

/// What is shown before a line for the running chat.
const STEER: &str = "» ";

/// The line that leaves, for keyboards without Ctrl-Z.
const DETACH: &str = "/detach";

/// The frames of the activity indicator.
const SIGNS: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

impl Supervision {
    /// Takes a key.
    pub(super) async fn typed(&mut self, typed: Typed) -> Result<Flow> {
        if let Some(question) = self.question.take() {
            return self.answered(question, typed).await;
        }
        match (typed, self.stage) {
            (Typed::Shown(text), _) => self.shown(&text),
            (Typed::Leave, _) | (Typed::End, Stage::Working) => self.left(),
            (Typed::End, Stage::Idle { code }) => self.done(code),
            (Typed::Line(line), _) if line == DETACH => self.left(),
            (Typed::Line(line), Stage::Working) => {
                self.take_back(&line)?;
                if line.is_empty() { Ok(Flow::On) } else { self.steer(line).await }
            }
            (Typed::Line(line), Stage::Idle { code }) => {
                self.view.echo("\n")?;
                match line.is_empty() {
                    true => self.prompt(code),
                    false => self.start(line, code).await,
                }
            }
        }
    }

    /// Shows what is typed, on a line of its own.
    fn shown(&mut self, text: &str) -> Result<Flow> {
        if !std::mem::replace(&mut self.typing, true) {
            self.view.prompt(STEER)?;
        }
        self.view.echo(text)?;
        let is_blank = self.keys.as_ref().is_none_or(|keys| keys.is_blank());
        if is_blank && self.stage == Stage::Working {
            self.take_back("")?;
        }
        Ok(Flow::On)
    }

    /// Takes a typed line off the screen: what the agent was told is shown as an event.
    fn take_back(&mut self, line: &str) -> Result<()> {
        if std::mem::take(&mut self.typing) {
            self.view.unprompt((STEER.chars().count() + line.chars().count()).max(3))?;
        }
        Ok(())
    }

    /// Tells the running chat something. The event of it shows what.
    async fn steer(&mut self, text: String) -> Result<Flow> {
        let params = SendParams::new(SessionRef::id(self.session.id), &text);
        match self.client.agents().send(&params).await {
            Ok(_) => {}
            // The chat is over, and its last event on its way.
            Err(error) if error.kind() == ErrorKind::Conflict && self.talk == Talk::On => {
                self.view.remark(&format!("  (next: {})", sanitize::one_line(&text)))?;
                self.next = Some(text);
            }
            Err(error) => self.complain(&error)?,
        }
        Ok(Flow::On)
    }

    /// Waits for the next prompt, unless it was typed already.
    pub(super) async fn wait_for_a_line(&mut self, code: u8) -> Result<Flow> {
        if self.asks != Asks::Here {
            self.ways_on().iter().try_for_each(|line| self.view.remark(line))?;
            return Ok(Flow::End(code));
        }
        match self.next.take() {
            Some(text) => self.start(text, code).await,
            None => {
                if !std::mem::replace(&mut self.knows_prompt, true) {
                    self.view.remark("  your next line goes on; Ctrl-D leaves")?;
                }
                self.prompt(code)
            }
        }
    }

    /// Draws the prompt again, after something else was written over it.
    pub(super) fn prompt_again(&mut self) -> Result<()> {
        match self.stage {
            Stage::Idle { code } => self.prompt(code).map(drop),
            Stage::Working => Ok(()),
        }
    }

    fn prompt(&mut self, code: u8) -> Result<Flow> {
        self.stage = Stage::Idle { code };
        self.typing = true;
        self.listen()?;
        self.view.prompt(NEXT)?;
        Ok(Flow::On)
    }

    async fn start(&mut self, text: String, code: u8) -> Result<Flow> {
        let params = ChatParams::new(SessionRef::id(self.session.id), text);
        match self.client.agents().chat_async(&params).await {
            Ok(started) => {
                self.begin(started.chat);
                Ok(Flow::On)
            }
            Err(error) => {
                self.complain(&error)?;
                self.prompt(code)
            }
        }
    }

    fn complain(&mut self, error: &ClientError) -> Result<()> {
        let words = format!("  could not {}", sanitize::one_line(&error.to_string()));
        self.view.line(&words)?;
        let hint = hints::with_commands(error.hint());
        if hint.is_empty() {
            return Ok(());
        }
        Ok(self.view.remark(&format!("  {}", sanitize::one_line(&hint)))?)
    }

    /// Forgets what is typed on the current line.
    pub(super) fn forget_typed(&mut self) {
        if let Some(keys) = &mut self.keys {
            keys.forget();
        }
    }

    /// Notes that nobody types any more: what waits is answered elsewhere.
    pub(super) fn nobody_types(&mut self) {
        self.asks = Asks::Elsewhere;
        self.keys = None;
        self.talk = Talk::Once;
    }

    /// Leaves; the agent goes on.
    pub(super) fn left(&mut self) -> Result<Flow> {
        if let Stage::Idle { code } = self.stage {
            return self.done(code);
        }
        let name = self.name();
        self.view.line("")?;
        self.view.remark(&format!(
            "left; it keeps running: `plexus attach {name}`, `plexus pending`, `plexus review`"
        ))?;
        Ok(Flow::End(exit::OK))
    }

    /// Leaves between two chats.
    fn done(&mut self, code: u8) -> Result<Flow> {
        self.ways_on().iter().try_for_each(|line| self.view.remark(line))?;
        Ok(Flow::End(code))
    }

    /// The first Ctrl-C asks the agent to stop, the second ends the run, the third leaves. Between
    /// two chats it empties the line, or leaves.
    pub(super) fn interrupted(&mut self) -> Result<Flow> {
        let is_blank = self.keys.as_ref().is_none_or(|keys| keys.is_blank());
        if let Stage::Idle { code } = self.stage {
            if is_blank {
                return self.done(code);
            }
            self.forget_typed();
            return self.prompt(code);
        }
        self.forget_typed();
        self.typing = false;
        self.interrupts += 1;
        self.question = None;
        self.waiting.clear();
        let (words, reason) = match self.interrupts {
            1 => ("asking the agent to stop; Ctrl-C again ends it", "the user pressed Ctrl-C"),
            2 => ("ending the agent; Ctrl-C again leaves at once", "the user pressed Ctrl-C twice"),
            _ => {
                let words = format!("left; `plexus logs {}` shows what happened", self.name());
                self.view.remark(&words)?;
                return Ok(Flow::End(exit::INTERRUPTED));
            }
        };
        self.view.line("")?;
        self.view.remark(words)?;
        // In a task of its own: a server that is slow to answer must not keep the next Ctrl-C
        // waiting.
        let client = self.client.clone();
        let params = CancelParams {
            reason: Some(reason.to_owned()),
            ..CancelParams::new(SessionRef::id(self.session.id))
        };
        self.cancelling = Some(tokio::spawn(async move { client.agents().cancel(&params).await }));
        Ok(Flow::On)
    }

    /// Draws the activity indicator, where nothing else is written.
    pub(super) fn draw(&mut self) -> Result<()> {
        let is_free = self.question.is_none() && !self.typing && self.stage == Stage::Working;
        if !is_free || self.asks != Asks::Here || !self.screen.moves() {
            return Ok(());
        }
        let sign = SIGNS[self.ticks % SIGNS.len()];
        let words = format!(
            "{sign} {} · {} · type to steer, Ctrl-Z leaves",
            duration((now_ms() - self.started_ms).max(1_000)),
            dollars(self.spent_usd)
        );
        Ok(self.view.status(&words)?)
    }
}
