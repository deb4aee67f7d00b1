//! The dialogue about one call: what is asked, and what an answer means. Pure, so that a table can
//! test it.
//!
//! In reading order: this file has the steps of the dialogue; [`answer`] takes answers to a
//! question of the agent, [`edit`] what came out of the editor; [`words`] are the prompts and the
//! help.

mod answer;
mod edit;
#[cfg(test)]
mod tests;
mod words;

use plexus_client::wire::{
    Answers, Approval, Object, Question as UserQuestion, Remember, RespondParams, RuleScope,
};
use serde_json::Value;

use edit::EditWhat;
pub(super) use edit::Editing;
use plexus_render::sanitize;
use plexus_render::screen::{Screen, Tone, duration, now_ms};
use plexus_render::tool_call::{self, Extent};
use words::{help, plan_help};

/// A question that is open.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) approval: Approval,
    /// The input of the approval.
    input: Value,
    step: Step,
}

/// The step of the dialogue.
#[derive(Debug, PartialEq)]
enum Step {
    Choose,
    /// The parts of the agent's question that are answered; the next one is asked.
    Answer(Answers),
    /// A plan waits for its approval.
    Plan,
    Reason,
    Remember,
    Confirm {
        updated: Object,
        /// What the person has changed, before and after.
        change: (String, String),
    },
}

/// What follows from an answer.
#[derive(Debug, PartialEq)]
pub(super) enum Move {
    /// Show this and ask on.
    Ask(Vec<String>),
    /// Decide.
    Decide(Box<RespondParams>),
    /// Open the editor on this.
    Edit(Editing),
    /// Let the person page through this, and ask on.
    View(Vec<String>),
    /// Try the command on a copy, show what it changes, and ask again.
    Preview,
}

impl Question {
    pub(super) fn new(approval: Approval) -> Self {
        let step = first_step(&approval);
        Self { input: approval.input.to_value(), approval, step }
    }

    /// Whether nothing has been typed yet that means something.
    pub(super) fn is_at_start(&self) -> bool {
        self.step == first_step(&self.approval)
    }

    /// Whether what is typed next must not be seen.
    pub(super) fn is_secret(&self) -> bool {
        self.next_part().is_some_and(|(_, part)| part.secret)
    }

    /// Shows the call.
    pub(super) fn shown(&self, extent: Extent, screen: Screen) -> Vec<String> {
        let Approval { tool_name, session_name, description, .. } = &self.approval;
        let tool = screen.paint(Tone::Warn, &sanitize::one_line(tool_name));
        let name = sanitize::one_line(session_name);
        let wants = match (&self.approval.question, &self.step) {
            (Some(_), Step::Plan) => format!("{name} has a plan"),
            (Some(_), _) => format!("{name} asks"),
            (None, _) => format!("{name} wants {tool}"),
        };
        let mut lines = vec![format!("{} {wants}", screen.paint(Tone::Warn, "?"))];
        if let Some(at) = self.approval.expires_at {
            let left = format!("denied automatically in {}", duration(at.0 * 1_000 - now_ms()));
            lines.push(format!("  {}", screen.paint(Tone::Faint, &left)));
        }
        let is_of_subagent = |said: &&str| said.starts_with("subagent ");
        if let (Extent::Short, Some((at, _))) = (extent, self.next_part()) {
            let said = description.as_deref().filter(is_of_subagent);
            let said = said.map(|said| screen.paint(Tone::Faint, &sanitize::one_line(said)));
            lines.extend(said.map(|said| format!("  {said}")));
            lines.extend(self.part_lines(at, screen));
            return lines;
        }
        if let Some(description) = description.as_deref().filter(|text| !text.is_empty()) {
            lines
                .push(format!("  {}", screen.paint(Tone::Faint, &sanitize::one_line(description))));
        }
        // What a command does depends on where it runs.
        let facts = [
            tool_call::person_only(&self.approval, screen),
            tool_call::risk(&self.approval, screen),
            tool_call::starts_in(&self.approval, screen),
        ];
        let call = tool_call::call(&self.approval, &self.input, extent, screen);
        lines.extend(facts.into_iter().flatten().chain(call).map(|line| format!("  {line}")));
        lines
    }

    /// Shows all of what is asked about: the call, or the change that a person has made to it.
    fn whole(&self, screen: Screen) -> Vec<String> {
        match &self.step {
            Step::Confirm { change: (old, new), .. } => {
                tool_call::diff(old, new, Extent::Whole, screen)
            }
            Step::Choose | Step::Answer(_) | Step::Plan | Step::Reason | Step::Remember => {
                self.shown(Extent::Whole, screen)
            }
        }
    }

    /// Takes a line that was typed.
    pub(super) fn take(&mut self, line: &str, screen: Screen) -> Move {
        match &self.step {
            Step::Choose => self.choose(line, screen),
            Step::Answer(_) => self.answer(line, screen),
            Step::Plan => match line {
                "y" | "yes" => Move::Decide(Box::new(RespondParams::allow(&self.approval))),
                "n" | "no" => self.deny(),
                "v" | "view" => Move::View(self.whole(screen)),
                "s" | "show" => Move::Ask(self.shown(Extent::Short, screen)),
                "?" | "h" | "help" => Move::Ask(plan_help()),
                _ => Move::Ask(vec!["  y, n, v or ?".into()]),
            },
            Step::Reason => {
                let reason = if line.is_empty() { "the user said no" } else { line };
                let mut answer = RespondParams::deny(self.approval.id, reason);
                answer.input_digest = Some(self.approval.input_digest.clone());
                Move::Decide(Box::new(answer))
            }
            Step::Remember => self.remember(line),
            Step::Confirm { updated, .. } => match line {
                "y" | "yes" => {
                    let answer = RespondParams {
                        updated_input: Some(updated.clone()),
                        ..RespondParams::allow(&self.approval)
                    };
                    Move::Decide(Box::new(answer))
                }
                "e" | "edit" => Move::Edit(self.editing(EditWhat::MainField)),
                "v" | "view" => Move::View(self.whole(screen)),
                "n" | "no" => {
                    self.step = Step::Choose;
                    Move::Ask(vec!["  nothing is changed".into()])
                }
                _ => Move::Ask(vec!["  y, n, e or v".into()]),
            },
        }
    }

    fn deny(&mut self) -> Move {
        self.step = Step::Reason;
        Move::Ask(Vec::new())
    }

    fn choose(&mut self, line: &str, screen: Screen) -> Move {
        match line {
            "y" | "yes" => Move::Decide(Box::new(RespondParams::allow(&self.approval))),
            "n" | "no" => self.deny(),
            "e" | "edit" => Move::Edit(self.editing(EditWhat::MainField)),
            "E" => Move::Edit(self.editing(EditWhat::Everything)),
            "a" | "always" => {
                self.step = Step::Remember;
                let mut lines = vec!["  what may it do in this session from now on?".to_owned()];
                for (index, rule) in self.approval.suggested_rules.iter().enumerate() {
                    let pattern = screen.paint(Tone::Faint, &sanitize::one_line(&rule.pattern));
                    lines.push(format!(
                        "  {}  {}  {pattern}",
                        index + 1,
                        sanitize::one_line(&rule.label)
                    ));
                }
                Move::Ask(lines)
            }
            "?" | "h" | "help" => Move::Ask(help()),
            "s" | "show" => Move::Ask(self.shown(Extent::Short, screen)),
            "v" | "view" => Move::View(self.whole(screen)),
            "p" | "preview" if self.approval.preview => Move::Preview,
            "p" | "preview" => Move::Ask(vec![
                "  only a shell command of a session with a wall can be tried".into(),
            ]),
            _ => Move::Ask(vec!["  y, n, e, a, v or ?".into()]),
        }
    }

    fn remember(&mut self, line: &str) -> Move {
        if line.is_empty() {
            self.step = Step::Choose;
            return Move::Ask(Vec::new());
        }
        let (pattern, scope) = match line.strip_suffix(" all") {
            Some(pattern) => (pattern.trim(), RuleScope::All),
            None => (line, RuleScope::Session(self.approval.session_id)),
        };
        let pattern = match pattern.parse::<usize>() {
            Ok(number) => match number
                .checked_sub(1)
                .and_then(|index| self.approval.suggested_rules.get(index))
            {
                Some(rule) => rule.pattern.clone(),
                None => return Move::Ask(vec![format!("  there is no number {number}")]),
            },
            Err(_) => pattern.to_owned(),
        };
        let answer = RespondParams {
            remember: Some(Remember { pattern: Some(pattern), ..Remember::new(scope) }),
            ..RespondParams::allow(&self.approval)
        };
        Move::Decide(Box::new(answer))
    }

    /// Puts the question again from the start, after an answer that was not taken.
    pub(super) fn start_over(&mut self) {
        self.step = first_step(&self.approval);
    }
}

/// Where the dialogue about an approval begins.
fn first_step(approval: &Approval) -> Step {
    match approval.question.as_ref().and_then(|question| question.known()) {
        Some(UserQuestion::Choices { .. }) => Step::Answer(Answers::new()),
        Some(UserQuestion::Plan { .. }) => Step::Plan,
        None => Step::Choose,
    }
}
