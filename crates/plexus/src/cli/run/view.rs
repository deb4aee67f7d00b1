//! Prints what happens in a chat, for people or for programs.

use plexus_client::wire::{
    Answers, Caller, ChatEvent, DecidedBy, FollowedEvent, SessionStatus, Usage,
};

use super::live::{Live, Whole};
use crate::cli::screen::{self, Screen, Tone, dollars, duration};
use crate::cli::{render, sanitize};

/// For whom events are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::cli) enum Form {
    /// For people.
    Text,
    /// For programs: one JSON object a line, as the server sent it.
    Json,
}

/// How many calls of a chat were not allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::cli) struct Refused {
    pub(in crate::cli) denied: u32,
    pub(in crate::cli) expired: u32,
}

impl Refused {
    /// Counts a decision.
    pub(in crate::cli) fn note(&mut self, approved: bool, by: DecidedBy) {
        match (approved, by) {
            (false, DecidedBy::Deadline) => self.expired += 1,
            (false, DecidedBy::AgentEnded) | (true, _) => {}
            (false, _) => self.denied += 1,
        }
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (count, word) in [(self.denied, "denied"), (self.expired, "expired")] {
            if count > 0 {
                write!(f, " · {count} {word}")?;
            }
        }
        Ok(())
    }
}

/// Prints events.
#[derive(Debug)]
pub(in crate::cli) struct View {
    screen: Screen,
    form: Form,
    live: Live,
    /// Whether the end of a chat is printed like other events; a command that watches one chat
    /// prints its own words instead.
    tells_ends: bool,
    /// Whether the cursor is at the start of a line.
    at_start: bool,
}

/// What a decision made of the input.
#[derive(Clone, Copy)]
enum Edit<'a> {
    None,
    Edited,
    Answered(&'a Answers),
}

impl View {
    pub(in crate::cli) fn new(screen: Screen, form: Form) -> Self {
        Self { screen, form, live: Live::default(), tells_ends: true, at_start: true }
    }

    /// A view for a command that prints the end of the chat in its own words.
    pub(in crate::cli) fn of_one_chat(screen: Screen, form: Form) -> Self {
        Self { tells_ends: false, ..Self::new(screen, form) }
    }

    /// Prints a live piece of text.
    pub(in crate::cli) fn delta(&mut self, text: &str) -> std::io::Result<()> {
        if self.form == Form::Json {
            return Ok(());
        }
        match self.live.piece(text) {
            Some(new) => self.put(&sanitize::text(&new)),
            None => Ok(()),
        }
    }

    /// Notes that a message begins.
    pub(in crate::cli) fn message_starts(&mut self) -> std::io::Result<()> {
        if self.live.message_starts() { self.fresh_line() } else { Ok(()) }
    }

    /// Prints an event: where it belongs, and what it says.
    pub(in crate::cli) fn event(
        &mut self,
        at: &FollowedEvent,
        event: &ChatEvent,
    ) -> std::io::Result<()> {
        match self.form {
            Form::Json => screen::line(&serde_json::to_string(at)?),
            Form::Text => self.show(event),
        }
    }

    fn show(&mut self, event: &ChatEvent) -> std::io::Result<()> {
        match event {
            ChatEvent::Content { text } => self.content(text),
            ChatEvent::Thinking { thinking } => {
                let first = thinking.trim().lines().next().unwrap_or_default();
                let words =
                    screen::cut(&sanitize::one_line(first), self.screen.width().saturating_sub(4));
                self.line(&self.screen.paint(Tone::Faint, &format!("  ({words})")))
            }
            ChatEvent::ToolUse { tool_name, input, tool_use_id } => {
                self.live.tool_started(tool_use_id);
                self.line(&format!(
                    "• {}",
                    render::summary(tool_name, &input.to_value(), self.screen)
                ))
            }
            ChatEvent::ToolResult { output, is_error, tool_use_id } => {
                let tone = if *is_error { Tone::Bad } else { Tone::Faint };
                for line in render::result(&output.to_value(), self.screen) {
                    self.line(&self.screen.paint(tone, &format!("  │ {line}")))?;
                }
                match self.live.tool_ended(tool_use_id) {
                    Some(held) => self.put(&sanitize::text(&held)),
                    None => Ok(()),
                }
            }
            ChatEvent::ApprovalResolved {
                approved,
                message,
                updated_input,
                answers,
                decided_by,
                ..
            } => {
                let edit = match (answers, updated_input) {
                    (Some(answers), _) => Edit::Answered(answers),
                    (None, Some(_)) => Edit::Edited,
                    (None, None) => Edit::None,
                };
                self.resolved(*approved, message.as_deref(), edit, *decided_by)
            }
            ChatEvent::Notice { message } => self.line(
                &self.screen.paint(Tone::Faint, &format!("  {}", sanitize::one_line(message))),
            ),
            ChatEvent::Error { message } => self
                .line(&self.screen.paint(Tone::Bad, &format!("  {}", sanitize::one_line(message)))),
            ChatEvent::Complete { usage, .. } => {
                let words = format!("  ({} turns, {})", usage.num_turns, dollars(usage.cost_usd));
                if self.tells_ends {
                    self.line(&self.screen.paint(Tone::Faint, &words))
                } else {
                    Ok(())
                }
            }
            ChatEvent::Steered { by, text } => {
                let by = if *by == Caller::Operator { "" } else { " by a session" };
                let words = format!("  » told{by}: {}", sanitize::one_line(text));
                self.line(&self.screen.paint(Tone::Strong, &words))
            }
            ChatEvent::Pruned { was } => {
                let words = format!("  ({}, pruned)", sanitize::one_line(was));
                self.line(&self.screen.paint(Tone::Faint, &words))
            }
            ChatEvent::Start { .. }
            | ChatEvent::AwaitingApproval { .. }
            | ChatEvent::ToolRequest { .. }
            | ChatEvent::Passthrough { .. }
            | ChatEvent::Other(_) => Ok(()),
        }
    }

    fn content(&mut self, text: &str) -> std::io::Result<()> {
        match self.live.whole(text) {
            Whole::Rest(rest) => self.put(&sanitize::text(&rest))?,
            Whole::Anew(text) => {
                self.fresh_line()?;
                self.put(&sanitize::text(&text))?;
            }
        }
        self.fresh_line()
    }

    fn resolved(
        &mut self,
        approved: bool,
        message: Option<&str>,
        edit: Edit<'_>,
        by: DecidedBy,
    ) -> std::io::Result<()> {
        let (sign, word, tone) = match (approved, edit, by) {
            (true, Edit::None, _) => ("✓", "allowed".to_owned(), Tone::Good),
            (true, Edit::Edited, _) => ("✓", "allowed as edited".to_owned(), Tone::Good),
            (true, Edit::Answered(answers), _) => {
                let all: Vec<String> = answers.values().map(|chosen| chosen.join(", ")).collect();
                let words = format!("answered: {}", sanitize::one_line(&all.join("; ")));
                ("✓", words, Tone::Good)
            }
            (false, _, DecidedBy::Deadline) => ("✗", "expired".to_owned(), Tone::Bad),
            (false, ..) => ("✗", "denied".to_owned(), Tone::Bad),
        };
        let mut words = format!("  {sign} {word}");
        if by != DecidedBy::Operator {
            words.push_str(&format!(" by {}", render::decider(by)));
        }
        if let Some(message) = message.filter(|message| !message.is_empty()) {
            words.push_str(&format!(": {}", sanitize::one_line(message)));
        }
        self.line(&self.screen.paint(tone, &words))
    }

    /// Says that a chat began, with its prompt.
    pub(in crate::cli) fn began(&mut self, chat: u32, prompt: &str) -> std::io::Result<()> {
        if self.form == Form::Json {
            return Ok(());
        }
        let mut lines = prompt.trim().lines();
        let first = sanitize::one_line(lines.next().unwrap_or_default()).into_owned();
        self.line(&self.screen.paint(Tone::Strong, &format!("[{chat}] {first}")))?;
        lines.try_for_each(|line| {
            self.line(
                &self.screen.paint(Tone::Strong, &format!("    {}", sanitize::one_line(line))),
            )
        })
    }

    /// Says how it ended.
    pub(in crate::cli) fn ended(
        &mut self,
        status: SessionStatus,
        ms: i64,
        usage: Option<&Usage>,
        refused: Refused,
        next: &[String],
    ) -> std::io::Result<()> {
        if self.form == Form::Json {
            return Ok(());
        }
        let (sign, tone) = match status {
            SessionStatus::Complete if refused != Refused::default() => ("!", Tone::Warn),
            SessionStatus::Complete => ("✓", Tone::Good),
            SessionStatus::Cancelled => ("■", Tone::Warn),
            SessionStatus::Failed
            | SessionStatus::Idle
            | SessionStatus::Running
            | SessionStatus::AwaitingPermission => ("✗", Tone::Bad),
        };
        let mut words = format!("{sign} {}{} in {}", status.as_str(), refused, duration(ms));
        if let Some(usage) = usage {
            words.push_str(&format!(" · {} turns · {}", usage.num_turns, dollars(usage.cost_usd)));
        }
        self.line(&self.screen.paint(tone, &words))?;
        for line in next {
            self.line(&self.screen.paint(Tone::Faint, line))?;
        }
        Ok(())
    }

    /// Says something of our own.
    pub(in crate::cli) fn remark(&mut self, words: &str) -> std::io::Result<()> {
        match self.form {
            Form::Json => Ok(()),
            Form::Text => self.line(&self.screen.paint(Tone::Faint, words)),
        }
    }

    /// Prints a line of its own.
    pub(in crate::cli) fn line(&mut self, text: &str) -> std::io::Result<()> {
        self.fresh_line()?;
        screen::line(text)
    }

    /// Prints the words of a question; the cursor stays after them.
    pub(in crate::cli) fn prompt(&mut self, text: &str) -> std::io::Result<()> {
        self.fresh_line()?;
        self.put(text)
    }

    /// Notes that the person has ended the line by pressing enter.
    pub(in crate::cli) fn entered(&mut self) {
        self.at_start = true;
    }

    fn fresh_line(&mut self) -> std::io::Result<()> {
        if self.at_start { Ok(()) } else { self.put("\n") }
    }

    fn put(&mut self, text: &str) -> std::io::Result<()> {
        if let Some(last) = text.chars().next_back() {
            self.at_start = last == '\n';
            screen::print(text)?;
        }
        Ok(())
    }
}
