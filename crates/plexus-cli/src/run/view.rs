//! Prints what happens in a chat, for people or for programs.

use std::collections::HashMap;

use plexus_client::wire::{
    Answers, ApprovalId, Caller, ChatEvent, DecidedBy, FollowedEvent, Json, Question, Refused,
    SessionStatus, ToolTarget, Usage,
};

use plexus_render::live::{Live, Whole};
use plexus_render::sanitize;
use plexus_render::screen::{self, Margin, Screen, Tone, counted, dollars, duration};
use plexus_render::tool_call::{self, Extent};

/// For whom events are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// For people.
    Text,
    /// For programs: one JSON object a line, as the server sent it.
    Json,
}

/// Counts a decision of a chat.
pub(crate) fn note_decision(refused: &mut Refused, approved: bool, by: DecidedBy) {
    match (approved, by) {
        (false, DecidedBy::Deadline) => refused.expired += 1,
        (false, DecidedBy::AgentEnded) | (true, _) => {}
        (false, _) => refused.denied += 1,
    }
}

/// What a view is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manner {
    /// Somebody watches a chat; the command says its end in its own words.
    Watch,
    /// Somebody reads what happened: with times, deciders and ends.
    Log,
}

/// Prints events.
#[derive(Debug)]
pub(crate) struct View {
    screen: Screen,
    form: Form,
    live: Live,
    manner: Manner,
    /// How much of calls and results is printed.
    extent: Extent,
    /// The margin of a log.
    margin: Option<Margin>,
    /// What each open request asks for; its decision says only what was decided.
    asked: HashMap<ApprovalId, Asked>,
    /// Whether the cursor is at the start of a line.
    at_start: bool,
    /// Columns of the status line that is shown now.
    status: usize,
}

/// What a request asks for.
#[derive(Debug)]
struct Asked {
    tool: String,
    input: Json,
    target: Option<ToolTarget>,
    /// The ids of what a question asks, in its order: answers come sorted by id.
    parts: Vec<String>,
}

/// How a decision changed the input.
enum Edit<'a> {
    None,
    /// The input that runs instead.
    Edited(&'a Json),
    Answered(&'a Answers),
}

/// Returns the answers in the order in which they were asked for.
fn in_order<'a>(answers: &'a Answers, asked: &[String]) -> Vec<&'a Vec<String>> {
    let at = |id: &String| asked.iter().position(|other| other == id).unwrap_or(asked.len());
    let mut all: Vec<_> = answers.iter().collect();
    all.sort_by_key(|(id, _)| at(id));
    all.into_iter().map(|(_, chosen)| chosen).collect()
}

impl View {
    /// A view for a command that watches, and prints the end of a chat in its own words.
    pub(crate) fn watch(screen: Screen, form: Form) -> Self {
        Self {
            screen,
            form,
            live: Live::default(),
            manner: Manner::Watch,
            extent: Extent::Short,
            margin: None,
            asked: HashMap::new(),
            at_start: true,
            status: 0,
        }
    }

    /// A view for a command that tells what happened.
    pub(crate) fn log(screen: Screen, form: Form, extent: Extent) -> Self {
        let margin = Some(Margin::default());
        Self { manner: Manner::Log, extent, margin, ..Self::watch(screen, form) }
    }

    /// Prints a live piece of text.
    pub(crate) fn delta(&mut self, text: &str) -> std::io::Result<()> {
        if self.form == Form::Json {
            return Ok(());
        }
        match self.live.piece(text) {
            Some(new) => self.put(&sanitize::text(&new)),
            None => Ok(()),
        }
    }

    /// Notes that a message begins.
    pub(crate) fn message_starts(&mut self) -> std::io::Result<()> {
        if self.live.message_starts() { self.fresh_line() } else { Ok(()) }
    }

    /// Prints an event: where it belongs, and what it says.
    pub(crate) fn event(&mut self, at: &FollowedEvent, event: &ChatEvent) -> std::io::Result<()> {
        match self.form {
            Form::Json => screen::line(&serde_json::to_string(at)?),
            Form::Text => {
                let target = at.event.target.as_ref().and_then(|target| target.known());
                self.note_request(event, target);
                self.comes_to(at)?;
                self.show(event, target)
            }
        }
    }

    /// Keeps what a request asks for until it is decided.
    fn note_request(&mut self, event: &ChatEvent, target: Option<&ToolTarget>) {
        let ChatEvent::AwaitingApproval { approval_id, tool_name, input, question, .. } = event
        else {
            return;
        };
        let parts = match question.as_deref() {
            Some(Question::Choices { questions }) => {
                questions.iter().map(|part| part.id.clone()).collect()
            }
            _ => Vec::new(),
        };
        let (tool, input, target) = (tool_name.clone(), input.clone(), target.cloned());
        self.asked.insert(*approval_id, Asked { tool, input, target, parts });
    }

    /// Moves a log to the time of an event.
    fn comes_to(&mut self, at: &FollowedEvent) -> std::io::Result<()> {
        let margin = self.margin.as_mut();
        match margin.and_then(|margin| margin.moves_to(at.event.timestamp.0)) {
            Some(day) => screen::line(&self.screen.paint(Tone::Faint, &day)),
            None => Ok(()),
        }
    }

    fn show(&mut self, event: &ChatEvent, target: Option<&ToolTarget>) -> std::io::Result<()> {
        match event {
            ChatEvent::Content { text } => self.content(text),
            ChatEvent::Thinking { thinking } => {
                let lines = match self.extent {
                    Extent::Whole => tool_call::text(thinking.trim(), self.extent, self.screen),
                    Extent::Short => {
                        let first = thinking.trim().lines().next().unwrap_or_default();
                        let room = self.screen.width().saturating_sub(4);
                        vec![screen::cut(&sanitize::one_line(first), room)]
                    }
                };
                let words = format!("  ({})", lines.join("\n   "));
                words.lines().try_for_each(|line| self.line(&self.screen.paint(Tone::Faint, line)))
            }
            ChatEvent::ToolUse { tool_name, input, tool_use_id } => {
                self.live.tool_started(tool_use_id);
                let call = (tool_name.as_str(), &input.to_value(), target);
                let lines = tool_call::used(call, self.extent, self.screen);
                for (index, line) in lines.iter().enumerate() {
                    self.line(&format!("{} {line}", if index == 0 { "•" } else { " " }))?;
                }
                Ok(())
            }
            ChatEvent::ToolResult { output, is_error, tool_use_id } => {
                let tone = if *is_error { Tone::Bad } else { Tone::Faint };
                for line in tool_call::result(&output.to_value(), self.extent, self.screen) {
                    self.line(&self.screen.paint(tone, &format!("  │ {line}")))?;
                }
                match self.live.tool_ended(tool_use_id) {
                    Some(held) => self.put(&sanitize::text(&held)),
                    None => Ok(()),
                }
            }
            ChatEvent::ApprovalResolved {
                approval_id,
                approved,
                message,
                updated_input,
                answers,
                decided_by,
                ..
            } => {
                let edit = match (answers, updated_input) {
                    (Some(answers), _) => Edit::Answered(answers),
                    (None, Some(input)) => Edit::Edited(input),
                    (None, None) => Edit::None,
                };
                let asked = self.asked.remove(approval_id);
                self.resolved(*approved, message.as_deref(), (asked, edit), *decided_by)
            }
            ChatEvent::Notice { message } => self.line(
                &self.screen.paint(Tone::Faint, &format!("  {}", sanitize::one_line(message))),
            ),
            ChatEvent::Error { message } => self
                .line(&self.screen.paint(Tone::Bad, &format!("  {}", sanitize::one_line(message)))),
            ChatEvent::Complete { usage, .. } => {
                let turns = counted(usage.num_turns, "turn");
                let words = format!("  ({turns}, {})", dollars(usage.cost_usd));
                match self.manner {
                    Manner::Log => self.line(&self.screen.paint(Tone::Faint, &words)),
                    Manner::Watch => Ok(()),
                }
            }
            ChatEvent::AwaitingApproval { approval_id, .. } if self.manner == Manner::Log => {
                let words = format!("  ? asks ({approval_id})");
                self.line(&self.screen.paint(Tone::Warn, &words))
            }
            ChatEvent::ToolRequest { approval_id, session_name, tool_name, .. }
                if self.manner == Manner::Log =>
            {
                let (name, tool) =
                    (sanitize::one_line(session_name), sanitize::one_line(tool_name));
                let words = format!("  ? {name} wants {tool} ({approval_id})");
                self.line(&self.screen.paint(Tone::Warn, &words))
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
        if self.manner == Manner::Log {
            return sanitize::text(text).lines().try_for_each(|line| self.line(line));
        }
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
        (asked, edit): (Option<Asked>, Edit<'_>),
        by: DecidedBy,
    ) -> std::io::Result<()> {
        let (sign, word, tone) = match (approved, &edit, by) {
            (true, Edit::None, _) => ("✓", "allowed".to_owned(), Tone::Good),
            (true, Edit::Edited(_), _) => ("✓", "allowed as edited".to_owned(), Tone::Good),
            (true, Edit::Answered(answers), _) => {
                let parts = asked.as_ref().map(|asked| asked.parts.as_slice()).unwrap_or_default();
                let all: Vec<String> =
                    in_order(answers, parts).iter().map(|chosen| chosen.join(", ")).collect();
                let words = format!("answered: {}", sanitize::one_line(&all.join("; ")));
                ("✓", words, Tone::Good)
            }
            (false, _, DecidedBy::Deadline) => ("✗", "expired".to_owned(), Tone::Bad),
            (false, _, DecidedBy::AgentEnded) => ("✗", "not answered".to_owned(), Tone::Bad),
            (false, ..) => ("✗", "denied".to_owned(), Tone::Bad),
        };
        let mut words = format!("  {sign} {word}");
        match self.manner {
            // Nobody decided: the message says why.
            _ if by == DecidedBy::AgentEnded => {}
            Manner::Log => words.push_str(&format!(" by {}", tool_call::decider_whole(by))),
            Manner::Watch if by == DecidedBy::Operator => {}
            Manner::Watch => words.push_str(&format!(" by {}", tool_call::decider(by))),
        }
        if let Some(message) = message.filter(|message| !message.is_empty()) {
            words.push_str(&format!(": {}", sanitize::one_line(message)));
        }
        self.line(&self.screen.paint(tone, &words))?;
        match edit {
            Edit::Edited(input) if approved => self.edited(asked, input),
            Edit::None | Edit::Edited(_) | Edit::Answered(_) => Ok(()),
        }
    }

    /// Shows the call that runs instead of the one that was asked for.
    fn edited(&mut self, asked: Option<Asked>, input: &Json) -> std::io::Result<()> {
        let input = input.to_value();
        let (tool, target) = match &asked {
            Some(Asked { tool, input: before, target, .. }) => {
                let target = target.as_ref();
                let target = target.and_then(|it| tool_call::moved(it, &before.to_value(), &input));
                (tool.as_str(), target)
            }
            // Whoever began to watch after the request does not know its tool.
            None => ("runs", None),
        };
        let lines = tool_call::used((tool, &input, target.as_ref()), self.extent, self.screen);
        lines.iter().try_for_each(|line| self.line(&format!("    {line}")))
    }

    /// Says that a chat began, with its prompt.
    pub(crate) fn began(&mut self, at: &FollowedEvent, prompt: &str) -> std::io::Result<()> {
        if self.form == Form::Json {
            return Ok(());
        }
        self.comes_to(at)?;
        let chat = at.chat;
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
    pub(crate) fn ended(
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
            SessionStatus::Complete if !refused.is_none() => ("!", Tone::Warn),
            SessionStatus::Complete => ("✓", Tone::Good),
            SessionStatus::Cancelled => ("■", Tone::Warn),
            SessionStatus::Failed
            | SessionStatus::Idle
            | SessionStatus::Running
            | SessionStatus::AwaitingPermission => ("✗", Tone::Bad),
        };
        let mut words = format!(
            "{sign} {}{} in {}",
            status.as_str(),
            tool_call::refused(refused),
            duration(ms)
        );
        if let Some(usage) = usage {
            let turns = counted(usage.num_turns, "turn");
            words.push_str(&format!(" · {turns} · {}", dollars(usage.cost_usd)));
        }
        self.line(&self.screen.paint(tone, &words))?;
        for line in next {
            self.line(&self.screen.paint(Tone::Faint, line))?;
        }
        Ok(())
    }

    /// Says something of our own.
    pub(crate) fn remark(&mut self, words: &str) -> std::io::Result<()> {
        match self.form {
            Form::Json => Ok(()),
            Form::Text => self.line(&self.screen.paint(Tone::Faint, words)),
        }
    }

    /// Prints a line of its own.
    pub(crate) fn line(&mut self, text: &str) -> std::io::Result<()> {
        self.fresh_line()?;
        let margin = self.margin.as_mut().map(Margin::prefix).unwrap_or_default();
        self.put(&format!("{}{text}\n", self.screen.paint(Tone::Faint, &margin)))
    }

    /// Prints the words of a question; the cursor stays after them.
    pub(crate) fn prompt(&mut self, text: &str) -> std::io::Result<()> {
        self.fresh_line()?;
        self.put(text)
    }

    /// Shows what is typed.
    pub(crate) fn echo(&mut self, text: &str) -> std::io::Result<()> {
        self.put(text)
    }

    /// Takes a prompt and what was typed after it off the screen, where they fit on one line.
    pub(crate) fn unprompt(&mut self, columns: usize) -> std::io::Result<()> {
        if columns >= self.screen.width() || !self.screen.moves() {
            return self.put("\n");
        }
        self.put(&format!("\r{}\r", " ".repeat(columns)))?;
        self.at_start = true;
        Ok(())
    }

    /// Draws a line that the next output replaces; nothing in the middle of another line.
    pub(crate) fn status(&mut self, words: &str) -> std::io::Result<()> {
        if !self.at_start || self.form == Form::Json {
            return Ok(());
        }
        // Its last column stays free: some terminals would begin a new line.
        let words = screen::cut(words, self.screen.width().saturating_sub(1));
        let columns = words.chars().count();
        let rest = " ".repeat(self.status.saturating_sub(columns));
        self.status = columns;
        screen::print(&format!("\r{}{rest}", self.screen.paint(Tone::Faint, &words)))
    }

    fn fresh_line(&mut self) -> std::io::Result<()> {
        if self.at_start { Ok(()) } else { self.put("\n") }
    }

    fn put(&mut self, text: &str) -> std::io::Result<()> {
        let Some(last) = text.chars().next_back() else { return Ok(()) };
        self.at_start = last == '\n';
        let over = std::mem::take(&mut self.status);
        match over {
            0 => screen::print(text),
            columns => screen::print(&format!("\r{}\r{text}", " ".repeat(columns))),
        }
    }
}
