//! The dialogue about one call: what is asked, and what an answer means. Pure, so that a table can
//! test it.

use plexus_client::wire::{
    Answers, Approval, Object, Question as UserQuestion, QuestionPart, Remember, RespondParams,
    RuleScope,
};
use serde_json::Value;

use crate::cli::render::{self, Extent};
use crate::cli::screen::{Screen, Tone, duration, now_ms};
use crate::cli::{asked, sanitize};

/// A question that is open.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) approval: Approval,
    /// The input of the approval.
    input: Value,
    step: Step,
}

/// Where the dialogue stands.
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
    /// Try the command over a copy, show what it changes, and ask on.
    Preview,
}

/// What the editor is opened on.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Editing {
    pub(super) text: String,
    /// The ending of the file.
    pub(super) ending: &'static str,
    /// The field that the text stands for; without it the whole input as JSON.
    field: Option<&'static str>,
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

    /// The part of the agent's question that is asked next.
    fn next_part(&self) -> Option<(usize, &QuestionPart)> {
        let Step::Answer(answers) = &self.step else { return None };
        self.parts().iter().enumerate().find(|(_, part)| !answers.contains_key(&part.id))
    }

    fn parts(&self) -> &[QuestionPart] {
        match self.approval.question.as_ref().and_then(|question| question.known()) {
            Some(UserQuestion::Choices { questions }) => questions,
            Some(UserQuestion::Plan { .. }) | None => &[],
        }
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
            let left = format!("denied by itself in {}", duration(at.0 * 1_000 - now_ms()));
            lines.push(format!("  {}", screen.paint(Tone::Faint, &left)));
        }
        if let (Extent::Short, Some((at, _))) = (extent, self.next_part()) {
            lines.extend(self.part_lines(at, screen));
            return lines;
        }
        if let Some(description) = description.as_deref().filter(|text| !text.is_empty()) {
            lines
                .push(format!("  {}", screen.paint(Tone::Faint, &sanitize::one_line(description))));
        }
        // What a command does depends on where it runs.
        let facts =
            [render::risk(&self.approval, screen), render::starts_in(&self.approval, screen)];
        let call = render::call(&self.approval, &self.input, extent, screen);
        lines.extend(facts.into_iter().flatten().chain(call).map(|line| format!("  {line}")));
        lines
    }

    /// Shows all of what is asked about: the call, or the change that a person has made to it.
    fn whole(&self, screen: Screen) -> Vec<String> {
        match &self.step {
            Step::Confirm { change: (old, new), .. } => {
                render::diff(old, new, Extent::Whole, screen)
            }
            Step::Choose | Step::Answer(_) | Step::Plan | Step::Reason | Step::Remember => {
                self.shown(Extent::Whole, screen)
            }
        }
    }

    fn part_lines(&self, at: usize, screen: Screen) -> Vec<String> {
        let lines = asked::part(self.parts(), at, Extent::Short, screen);
        lines.into_iter().map(|line| format!("  {line}")).collect()
    }

    /// The words before the cursor.
    pub(super) fn prompt(&self, screen: Screen) -> String {
        let wide = screen.width() >= 66;
        match &self.step {
            Step::Answer(_) => {
                let takes = self.next_part().map_or("", |(_, part)| asked::takes(part));
                if wide {
                    format!("  {takes}; [n]o answer  [v]iew all  [?] > ")
                } else {
                    "  > ".into()
                }
            }
            Step::Plan if wide => {
                "  carry it out? [y]es  [n]o, send it back  [v]iew all  [?] > ".into()
            }
            Step::Plan => "  y/n/v/? > ".into(),
            Step::Reason if self.approval.question.is_some() && wide => {
                "  what should be different? (the agent reads it) > ".into()
            }
            Step::Choose if wide && self.approval.preview => {
                "  allow? [y]es once  [n]o  [p]review  [e]dit  [a]lways  [v]iew all  [?] > ".into()
            }
            Step::Choose if wide => {
                "  allow? [y]es once  [n]o  [e]dit  [a]lways  [v]iew all  [?] > ".into()
            }
            Step::Choose if self.approval.preview => "  y/n/p/e/a/v/? > ".into(),
            Step::Choose => "  y/n/e/a/v/? > ".into(),
            Step::Reason if wide => "  why not? (the agent reads it) > ".into(),
            Step::Reason => "  why not? > ".into(),
            Step::Remember if wide => {
                "  number or pattern, `all` behind it for every session; empty goes back > ".into()
            }
            Step::Remember => "  which? > ".into(),
            Step::Confirm { .. } if wide => {
                "  run it like this? [y]es  [n]o, back  [e]dit again  [v]iew all > ".into()
            }
            Step::Confirm { .. } => "  run? y/n/e/v > ".into(),
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

    /// Takes the answer to one part of the agent's question.
    fn answer(&mut self, line: &str, screen: Screen) -> Move {
        match line {
            "n" | "no" => return self.deny(),
            "v" | "view" => return Move::View(self.whole(screen)),
            "s" | "show" => return Move::Ask(self.shown(Extent::Short, screen)),
            "?" | "h" | "help" => return Move::Ask(answer_help()),
            _ => {}
        }
        let Some((_, part)) = self.next_part() else { return Move::Ask(Vec::new()) };
        let (id, chosen) = match asked::chosen(part, line) {
            Ok(chosen) => (part.id.clone(), chosen),
            Err(words) => return Move::Ask(vec![format!("  {words}")]),
        };
        if let Step::Answer(answers) = &mut self.step {
            answers.insert(id, chosen);
        }
        if let Some((at, _)) = self.next_part() {
            return Move::Ask(self.part_lines(at, screen));
        }
        let answers = match &self.step {
            Step::Answer(answers) => Some(answers.clone()),
            _ => None,
        };
        Move::Decide(Box::new(RespondParams { answers, ..RespondParams::allow(&self.approval) }))
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

    fn editing(&self, what: EditWhat) -> Editing {
        let input = match &self.step {
            Step::Confirm { updated, .. } => &Value::Object(updated.clone()),
            Step::Choose | Step::Answer(_) | Step::Plan | Step::Reason | Step::Remember => {
                &self.input
            }
        };
        let main =
            render::main_field(&self.approval.tool_name).filter(|_| what == EditWhat::MainField);
        match main.and_then(|(field, ending)| Some((field, ending, input[field].as_str()?))) {
            Some((field, ending, text)) => {
                Editing { text: text.to_owned(), ending, field: Some(field) }
            }
            None => Editing { text: format!("{input:#}\n"), ending: "json", field: None },
        }
    }

    /// Takes what came out of the editor: shows the difference and asks whether to run it.
    pub(super) fn edited(&mut self, editing: &Editing, text: &str, screen: Screen) -> Move {
        let updated: Object = match editing.field {
            Some(field) => {
                // Editors end a file with a newline that was not meant.
                let text = if editing.text.ends_with('\n') {
                    text
                } else {
                    text.strip_suffix('\n').unwrap_or(text)
                };
                let mut input = self.input.as_object().cloned().unwrap_or_default();
                input.insert(field.to_owned(), Value::String(text.to_owned()));
                input
            }
            None => match serde_json::from_str::<Value>(text) {
                Ok(Value::Object(input)) => input,
                Ok(_) => {
                    return Move::Ask(vec![
                        "  that is not a JSON object; nothing is changed".into(),
                    ]);
                }
                Err(error) => {
                    return Move::Ask(vec![format!(
                        "  that is not JSON ({error}); nothing is changed"
                    )]);
                }
            },
        };
        if Some(&updated) == self.input.as_object() {
            self.step = Step::Choose;
            return Move::Ask(vec!["  nothing is changed".into()]);
        }
        let old = editing
            .field
            .map_or_else(|| format!("{:#}\n", self.input), |field| self.field_text(field));
        let new = editing.field.map_or_else(
            || format!("{:#}\n", Value::Object(updated.clone())),
            |field| updated[field].as_str().unwrap_or_default().to_owned(),
        );
        let change = (with_newline(&old), with_newline(&new));
        let lines = render::diff(&change.0, &change.1, Extent::Short, screen);
        self.step = Step::Confirm { updated, change };
        Move::Ask(lines.into_iter().map(|line| format!("  {line}")).collect())
    }

    fn field_text(&self, field: &str) -> String {
        self.input[field].as_str().unwrap_or_default().to_owned()
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum EditWhat {
    MainField,
    Everything,
}

fn with_newline(text: &str) -> String {
    if text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

fn answer_help() -> Vec<String> {
    [
        "  a number chooses an option, 1,2 several where that is possible",
        "  other words are your own answer; =n answers the word n",
        "  n  answer nothing, with a reason that the agent reads",
        "  s  show the question again",
        "  v  view all of it, in $PAGER when it is long",
        "  d  leave it waiting and go",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn plan_help() -> Vec<String> {
    [
        "  y  let the agent carry it out; what it does is still asked about",
        "  n  send it back, with a comment that the agent reads",
        "  v  view all of it, in $PAGER when it is long",
        "  d  leave it waiting and go",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn help() -> Vec<String> {
    [
        "  y  allow this call once",
        "  n  deny it, with a reason that the agent reads",
        "  e  edit what would run in $EDITOR, see the difference, then allow it",
        "  E  the same with the whole input, as JSON",
        "  a  allow it and remember a rule for calls like it",
        "  p  try a shell command over a copy, and see what it changes; it decides nothing",
        "  s  show the call again",
        "  v  view all of it, in $PAGER when it is long",
        "  d  leave it waiting and go",
        "  Ctrl-C asks the agent to stop; Ctrl-D leaves it waiting for another answer",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use plexus_client::wire::{ApprovalId, SessionId};
    use serde_json::json;

    use super::*;

    const SCREEN: fn() -> Screen = || Screen::plain(80);

    fn asked_about(tool: &str, input: &Value, target: &Value) -> Question {
        Question::new(
            serde_json::from_value(json!({
                "id": ApprovalId::generate(), "session_id": SessionId::generate(),
                "session_name": "s", "tool_name": tool, "tool_use_id": "t", "input": input,
                "input_digest": "d", "status": "pending", "created_at": 0,
                "working_dir": "/home/me/project", "target": target,
                "risk": {"level": "high", "score": 66, "reasons": ["one", "two\u{1b}"]},
                "suggested_rules": [{"label": "l", "pattern": "Bash(ls:*)"}],
            }))
            .unwrap(),
        )
    }

    fn question() -> Question {
        let target = json!({"kind": "shell", "command": "ls"});
        asked_about("Bash", &json!({"command": "ls", "timeout": 1}), &target)
    }

    #[test]
    fn a_command_is_shown_with_the_directory_in_which_it_runs() {
        let lines = question().shown(Extent::Whole, SCREEN());
        assert!(lines.iter().any(|line| line.contains("in /home/me/project")), "{lines:?}");
    }

    #[test]
    fn a_call_of_high_risk_is_shown_with_its_reasons() {
        let lines = question().shown(Extent::Whole, SCREEN());
        assert!(lines.iter().any(|line| line.contains("one; two")), "{lines:?}");
        assert!(!lines.join("").contains('\u{1b}'), "{lines:?}");
    }

    /// Plays the lines; the last must decide.
    fn decided(question: &mut Question, lines: &[&str]) -> RespondParams {
        let (last, first) = lines.split_last().unwrap();
        for line in first {
            let moved = question.take(line, SCREEN());
            assert!(matches!(moved, Move::Ask(_)), "{line}: {moved:?}");
        }
        match question.take(last, SCREEN()) {
            Move::Decide(answer) => *answer,
            other => panic!("{lines:?} gave {other:?}"),
        }
    }

    #[test]
    fn each_way_through_the_dialogue_ends_in_its_answer() {
        let yes = decided(&mut question(), &["?", "nonsense", "", "y"]);
        assert!(yes.approve && yes.input_digest.as_deref() == Some("d") && yes.remember.is_none());

        let no = decided(&mut question(), &["n", "use git"]);
        assert_eq!((no.approve, no.message.as_deref()), (false, Some("use git")));

        let mut asked = question();
        let session = asked.approval.session_id;
        let always = decided(&mut asked, &["a", "7", "1"]);
        assert_eq!(
            always.remember,
            Some(Remember {
                pattern: Some("Bash(ls:*)".into()),
                ..Remember::new(RuleScope::Session(session))
            })
        );

        let everywhere = decided(&mut question(), &["a", "", "a", "Bash(git diff:*) all"]);
        assert_eq!(
            everywhere.remember,
            Some(Remember {
                pattern: Some("Bash(git diff:*)".into()),
                ..Remember::new(RuleScope::All)
            })
        );
    }

    #[test]
    fn a_command_is_tried_over_a_copy_only_where_that_can_be_done() {
        let mut asked = question();
        assert!(!asked.prompt(SCREEN()).contains("[p]review"));
        let Move::Ask(lines) = asked.take("p", SCREEN()) else { panic!("it was tried") };
        assert!(lines[0].contains("a session with a wall"), "{lines:?}");
        asked.approval.preview = true;
        assert!(asked.prompt(SCREEN()).contains("[p]review"));
        assert_eq!(asked.take("p", SCREEN()), Move::Preview);
        assert!(decided(&mut asked, &["y"]).approve, "the preview has not ended the question");
    }

    fn asked_for(question: &Value) -> Question {
        let approval = question_approval(question);
        Question::new(serde_json::from_value(approval).unwrap())
    }

    fn question_approval(question: &Value) -> Value {
        let target = json!({"kind": "question"});
        let mut approval =
            serde_json::to_value(asked_about("Ask", &json!({}), &target).approval).unwrap();
        approval["question"] = question.clone();
        approval
    }

    #[test]
    fn a_question_of_the_agent_is_answered_part_by_part() {
        let options = json!([{"label": "SQLite"}, {"label": "PostgreSQL"}]);
        let question = json!({"kind": "choices", "questions": [
            {"id": "one", "text": "Which?", "options": options},
            {"id": "two", "text": "Name?", "free_text": true},
        ]});
        let mut asked = asked_for(&question);
        let shown = asked.shown(Extent::Short, SCREEN()).join("\n");
        assert!(shown.contains("s asks") && shown.contains("2  PostgreSQL"), "{shown}");
        assert!(!shown.contains("Name?"), "{shown}");
        let answer = decided(&mut asked, &["?", "3", "2", "my words"]);
        let texts = |text: &str| vec![text.to_owned()];
        let answers = Answers::from([
            ("one".to_owned(), texts("PostgreSQL")),
            ("two".to_owned(), texts("my words")),
        ]);
        assert_eq!((answer.approve, answer.answers), (true, Some(answers)));
        let denied = decided(&mut asked_for(&question), &["1", "n", "ask later"]);
        assert_eq!((denied.approve, denied.message.as_deref()), (false, Some("ask later")));
    }

    #[test]
    fn a_plan_is_approved_or_sent_back() {
        let plan = json!({"kind": "plan", "plan": "# Do it\n1. now"});
        let shown = asked_for(&plan).shown(Extent::Short, SCREEN()).join("\n");
        assert!(shown.contains("has a plan") && shown.contains("1. now"), "{shown}");
        let yes = decided(&mut asked_for(&plan), &["?", "y"]);
        assert!(yes.approve && yes.answers.is_none());
        let back = decided(&mut asked_for(&plan), &["n", "add tests"]);
        assert_eq!((back.approve, back.message.as_deref()), (false, Some("add tests")));
    }

    #[test]
    fn an_edit_is_shown_as_a_difference_and_then_confirmed() {
        let mut asked = question();
        let Move::Edit(editing) = asked.take("e", SCREEN()) else { panic!("no editor") };
        assert_eq!((editing.text.as_str(), editing.ending), ("ls", "sh"));
        assert_eq!(
            asked.edited(&editing, "ls -l\n", SCREEN()),
            Move::Ask(vec!["  - ls".into(), "  + ls -l".into()])
        );
        let answer = decided(&mut asked, &["what", "y"]);
        let updated = answer.updated_input.map(Value::Object);
        assert_eq!(updated, Some(json!({"command": "ls -l", "timeout": 1})));
        assert_eq!(answer.input_digest.as_deref(), Some("d"));
    }

    #[test]
    fn a_long_call_and_a_long_edit_can_be_viewed_whole() {
        let long: String = (0..200).map(|n| format!("line {n}\n")).collect();
        let path = "/no/such/file";
        let change = json!({"path": path, "edit": "whole", "after": "/content"});
        let target = json!({"kind": "write", "changes": [change]});
        let mut asked = asked_about("Write", &json!({"file_path": path, "content": long}), &target);
        assert!(asked.shown(Extent::Short, SCREEN()).last().unwrap().contains("140 more lines"));
        let Move::View(lines) = asked.take("v", SCREEN()) else { panic!("no view") };
        assert_eq!(lines.len(), 203, "who wants what, its risk, the path, and every line");

        let Move::Edit(editing) = asked.take("e", SCREEN()) else { panic!("no editor") };
        let Move::Ask(short) = asked.edited(&editing, &long.replace("line", "word"), SCREEN())
        else {
            panic!("no diff")
        };
        assert!(short.last().unwrap().contains("340 more lines"), "{short:?}");
        let Move::View(lines) = asked.take("v", SCREEN()) else { panic!("no view") };
        assert_eq!(lines.len(), 400);
        assert!(
            decided(&mut asked, &["y"]).updated_input.is_some(),
            "the view has not ended the question"
        );
    }

    #[test]
    fn an_edit_that_is_no_input_changes_nothing() {
        let mut asked = question();
        let Move::Edit(editing) = asked.take("E", SCREEN()) else { panic!("no editor") };
        assert_eq!(editing.ending, "json");
        for text in ["", "[1]", "{", editing.text.as_str()] {
            let moved = asked.edited(&editing, text, SCREEN());
            assert!(
                matches!(&moved, Move::Ask(lines) if lines[0].contains("nothing is changed")),
                "{text}: {moved:?}"
            );
        }
        assert!(decided(&mut asked, &["y"]).updated_input.is_none());
    }
}
