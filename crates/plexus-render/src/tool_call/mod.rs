//! Tool calls as a person reads them: the diff of a change, the command of a shell, the address of
//! a fetch. Everything is made safe to show.
//!
//! In reading order: this file shows calls and results; [`changes`] shows the changes of files;
//! [`deciders`] says who decided.

mod changes;
mod deciders;

use std::borrow::Cow;

use plexus_wire::{Approval, FileEdit, RiskLevel, ToolTarget};
use serde_json::Value;

use crate::screen::{Screen, Tone, cut};
use crate::{question, sanitize};
use changes::changed;
pub use changes::{diff, unified};
pub use deciders::{decider, decider_whole, refused};

/// Lines of a diff or a text that are shown before the rest is counted.
const MAX_LINES: usize = 60;

/// Lines of a tool's result that are shown.
const MAX_RESULT_LINES: usize = 8;

/// How much of a call is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// What fits on a few screens; what is left out is counted.
    Short,
    /// Everything.
    Whole,
}

impl Extent {
    fn lines(self) -> usize {
        match self {
            Self::Short => MAX_LINES,
            Self::Whole => usize::MAX,
        }
    }
}

/// A call: its tool, its input, and what it acts on where the server says so.
pub type Call<'a> = (&'a str, &'a Value, Option<&'a ToolTarget>);

/// Says in one line what a call is.
pub fn summary((tool, input, target): Call<'_>, screen: Screen) -> String {
    let (name, rest) = (sanitize::one_line(tool), about_input(input, target));
    let room = screen.width().saturating_sub(name.chars().count() + 3).max(10);
    format!("{} {}", screen.paint(Tone::Tool, &name), cut(&rest, room))
}

/// Shows a call that was made: in one line, or with all of its input.
pub fn used(call: Call<'_>, extent: Extent, screen: Screen) -> Vec<String> {
    let (tool, input, target) = call;
    match extent {
        Extent::Short => vec![summary(call, screen)],
        Extent::Whole => {
            let name = screen.paint(Tone::Tool, &sanitize::one_line(tool));
            let head = format!("{name} {}", about_input(input, target));
            let subject = subject(input, target);
            // Without a subject the head is the whole input.
            let more = subject.map(|texts| {
                let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
                rest(input, &shown_fields(input, &texts, &[]), extent, screen)
            });
            let more = more.unwrap_or_default().into_iter().map(|line| format!("  {line}"));
            std::iter::once(head).chain(more).collect()
        }
    }
}

/// Says in one line, however long, what a call is about.
pub fn about_input(input: &Value, target: Option<&ToolTarget>) -> String {
    match subject(input, target) {
        Some(texts) => sanitize::one_line(&texts.join(", ")).into_owned(),
        None => sanitize::one_line(&compact(input)).into_owned(),
    }
}

/// The texts that say what a call is about; `None` when only its whole input does.
fn subject<'a>(input: &'a Value, target: Option<&'a ToolTarget>) -> Option<Vec<Cow<'a, str>>> {
    let field = |name: &str| input[name].as_str().map(Cow::Borrowed);
    let one = |text: &'a str| Some(vec![Cow::Borrowed(text)]);
    match target? {
        ToolTarget::Shell { command, .. } => one(command),
        ToolTarget::Write { changes } => {
            let mut paths: Vec<_> =
                changes.iter().map(|change| Cow::Borrowed(change.path.as_str())).collect();
            paths.dedup();
            (!paths.is_empty()).then_some(paths)
        }
        ToolTarget::Fetch { url: Some(url) } => one(url),
        ToolTarget::Connect { host, port } => Some(vec![Cow::Owned(format!("{host}:{port}"))]),
        ToolTarget::Read { path: Some(path), tree: false } => one(path),
        // A search is about what it looks for, which only its input says.
        ToolTarget::Read { path, .. } => {
            field("pattern").or(path.as_deref().map(Cow::Borrowed)).map(|text| vec![text])
        }
        ToolTarget::Fetch { url: None } => field("query").map(|text| vec![text]),
        ToolTarget::Agent {} => field("description").map(|text| vec![text]),
        ToolTarget::Mcp { .. }
        | ToolTarget::Think {}
        | ToolTarget::Question {}
        | ToolTarget::Other {} => None,
    }
}

/// Says on what a call acts whose input was edited: on what the fields hold now that held what
/// `target` names. `None` when they hold the same, because then another field makes the difference,
/// or when a field cannot be found.
pub fn moved(target: &ToolTarget, before: &Value, after: &Value) -> Option<ToolTarget> {
    let mut same = true;
    let mut now = |text: &str| {
        let mut fields = before.as_object()?.iter();
        let (name, _) = fields.find(|(_, value)| **value == *text)?;
        let new = after[name.as_str()].as_str()?.to_owned();
        same &= new == text;
        Some(new)
    };
    let mut moved = target.clone();
    match &mut moved {
        ToolTarget::Shell { command, .. } => *command = now(command)?,
        ToolTarget::Write { changes } => {
            for change in changes {
                change.path = now(&change.path)?;
            }
        }
        ToolTarget::Fetch { url: Some(url) } => *url = now(url)?,
        ToolTarget::Read { path: Some(path), tree: false } => *path = now(path)?,
        // The words for the others come from the input, which is shown whole.
        ToolTarget::Read { .. }
        | ToolTarget::Fetch { url: None }
        | ToolTarget::Connect { .. }
        | ToolTarget::Mcp { .. }
        | ToolTarget::Agent {}
        | ToolTarget::Think {}
        | ToolTarget::Question {}
        | ToolTarget::Other {} => return None,
    }
    (!same).then_some(moved)
}

/// Says why a call deserves a second look; nothing for one that does not.
pub fn risk(approval: &Approval, screen: Screen) -> Option<String> {
    let risk = approval.risk.as_ref()?.known()?;
    let tone = match risk.level {
        RiskLevel::Critical => Tone::Bad,
        RiskLevel::High => Tone::Warn,
        RiskLevel::Medium | RiskLevel::Low => return None,
    };
    let reasons: Vec<_> = risk.reasons.iter().map(|reason| sanitize::one_line(reason)).collect();
    Some(screen.paint(tone, &reasons.join("; ")))
}

/// Says why only the operator may allow a call; nothing for one that others may allow too.
pub fn person_only(approval: &Approval, screen: Screen) -> Option<String> {
    let why = sanitize::one_line(approval.person_only.as_deref()?);
    Some(screen.paint(Tone::Warn, &format!("only you can allow it: {why}")))
}

/// Says in which directory a command starts; nothing for other calls.
pub fn starts_in(approval: &Approval, screen: Screen) -> Option<String> {
    let ToolTarget::Shell { cwd, .. } = target(approval)? else { return None };
    let dir = cwd.as_deref().or(approval.working_dir.as_deref())?;
    let dir = format!("in {}", sanitize::one_line(&dir.to_string_lossy()));
    Some(screen.paint(Tone::Faint, &dir))
}

/// Shows the call of an approval to the person who decides, with `input` in place of its own.
pub fn call(approval: &Approval, input: &Value, extent: Extent, screen: Screen) -> Vec<String> {
    match approval.question.as_ref().and_then(|question| question.known()) {
        Some(question) => question::lines(question, extent, screen),
        None => acts_on(target(approval), input, extent, screen),
    }
}

/// Shows a text of several lines.
pub fn text(text: &str, extent: Extent, screen: Screen) -> Vec<String> {
    prefixed("", "", text, extent, screen, Tone::Plain)
}

/// Says in one line what an approval is about.
pub fn about(approval: &Approval, screen: Screen) -> String {
    match approval.question.as_ref().and_then(|question| question.known()) {
        Some(question) => {
            let words = format!("asks: {}", question.summary());
            cut(&sanitize::one_line(&words), screen.width().max(10))
        }
        None => {
            let call = (&*approval.tool_name, &approval.input.to_value(), target(approval));
            summary(call, screen)
        }
    }
}

fn target(approval: &Approval) -> Option<&ToolTarget> {
    approval.target.as_ref()?.known()
}

/// Shows what a call acts on. Nothing of the input is left out unless its length is said.
fn acts_on(
    target: Option<&ToolTarget>,
    input: &Value,
    extent: Extent,
    screen: Screen,
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut texts: Vec<&str> = Vec::new();
    let mut pointers: Vec<&str> = Vec::new();
    match target {
        Some(ToolTarget::Shell { command, .. }) => {
            lines = prefixed("$ ", "  ", command, extent, screen, Tone::Strong);
            texts.push(command);
        }
        Some(ToolTarget::Fetch { url: Some(url) }) => {
            lines.push(screen.paint(Tone::Strong, &sanitize::one_line(url)));
            texts.push(url);
        }
        // Host and port are all that the input holds, and both are shown with it.
        Some(ToolTarget::Connect { .. }) => {}
        Some(ToolTarget::Read { path: Some(path), .. }) => {
            lines.push(header(path, "", screen));
            texts.push(path);
        }
        Some(ToolTarget::Write { changes }) => {
            for change in changes {
                lines.extend(changed(change, input, extent, screen));
                texts.push(&change.path);
                pointers.extend(change.edit.pointers());
            }
        }
        Some(
            ToolTarget::Fetch { url: None }
            | ToolTarget::Read { path: None, .. }
            | ToolTarget::Mcp { .. }
            | ToolTarget::Agent {}
            | ToolTarget::Think {}
            | ToolTarget::Question {}
            | ToolTarget::Other {},
        )
        | None => {}
    }
    lines.extend(rest(input, &shown_fields(input, &texts, &pointers), extent, screen));
    lines
}

/// The fields of an input that are shown already: those that hold one of these texts, and those
/// that these pointers lead into. A pointer that finds no text shows nothing.
fn shown_fields<'a>(input: &'a Value, texts: &[&str], pointers: &[&str]) -> Vec<&'a str> {
    let fields = input.as_object().into_iter().flatten();
    let holds = |value: &Value| value.as_str().is_some_and(|text| texts.contains(&text));
    let leads = |name: &str| {
        let into = |at: &&&str| at.split('/').nth(1) == Some(name);
        let mut into = pointers.iter().filter(into).peekable();
        into.peek().is_some() && into.all(|at| input.pointer(at).is_some_and(Value::is_string))
    };
    fields
        .filter(|(name, value)| holds(value) || leads(name))
        .map(|(name, _)| name.as_str())
        .collect()
}

/// Returns the field of an approval's input that a person would edit, and the ending of a file that
/// holds it. A call of which no single field can be edited has none.
pub fn main_field(approval: &Approval) -> Option<(String, &'static str)> {
    let input = approval.input.to_value();
    let holding = |text: &str| {
        let mut fields = input.as_object()?.iter();
        fields.find(|(_, value)| **value == *text).map(|(name, _)| name.clone())
    };
    match target(approval)? {
        ToolTarget::Shell { command, .. } => Some((holding(command)?, "sh")),
        ToolTarget::Fetch { url: Some(url) } => Some((holding(url)?, "txt")),
        ToolTarget::Write { changes } => {
            let [change] = changes.as_slice() else { return None };
            let (FileEdit::Whole { after }
            | FileEdit::Replace { after, .. }
            | FileEdit::Part { after, .. }) = &change.edit
            else {
                return None;
            };
            let name = after.strip_prefix('/')?;
            // A field within another is edited with the whole input.
            (!name.contains(['/', '~'])).then(|| (name.to_owned(), "txt"))
        }
        _ => None,
    }
}

/// Shows what a tool gave.
pub fn result(output: &Value, extent: Extent, screen: Screen) -> Vec<String> {
    let text = match output {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().map(block_text).collect::<Vec<_>>().join("\n"),
        other => compact(other),
    };
    let lines: Vec<String> = text
        .trim_end()
        .lines()
        .map(|line| match extent {
            Extent::Short => cut(&sanitize::one_line(line), screen.width().saturating_sub(4)),
            Extent::Whole => sanitize::one_line(line).into_owned(),
        })
        .collect();
    match extent {
        Extent::Short => shorten(lines, MAX_RESULT_LINES, screen),
        Extent::Whole => lines,
    }
}

fn block_text(block: &Value) -> String {
    match block["text"].as_str() {
        Some(text) => text.to_owned(),
        None => format!("[{}]", block["type"].as_str().unwrap_or("something")),
    }
}

fn header(path: &str, note: &str, screen: Screen) -> String {
    let path = screen.paint(Tone::Strong, &sanitize::one_line(path));
    if note.is_empty() { path } else { format!("{path} {}", screen.paint(Tone::Faint, note)) }
}

/// Shows the fields that nothing else has shown yet.
fn rest(input: &Value, shown: &[&str], extent: Extent, screen: Screen) -> Vec<String> {
    let Some(fields) = input.as_object() else {
        return vec![sanitize::one_line(&compact(input)).into_owned()];
    };
    let mut lines = Vec::new();
    for (name, value) in fields.iter().filter(|(name, _)| !shown.contains(&name.as_str())) {
        let name = sanitize::one_line(name);
        match value {
            Value::String(text) => {
                let head = format!("{name}: ");
                lines.extend(prefixed(&head, "  ", text, extent, screen, Tone::Plain));
            }
            other => lines.push(format!("{name}: {}", sanitize::one_line(&compact(other)))),
        }
    }
    shorten(lines, extent.lines(), screen)
}

fn prefixed(
    first: &str,
    others: &str,
    text: &str,
    extent: Extent,
    screen: Screen,
    tone: Tone,
) -> Vec<String> {
    let lines = text.trim_end_matches('\n').split('\n').enumerate().map(|(index, line)| {
        let prefix = if index == 0 { first } else { others };
        format!(
            "{prefix}{}",
            screen.paint(tone, &sanitize::one_line(line.strip_suffix('\r').unwrap_or(line)))
        )
    });
    shorten(lines.collect(), extent.lines(), screen)
}

fn shorten(mut lines: Vec<String>, most: usize, screen: Screen) -> Vec<String> {
    let left = lines.len().saturating_sub(most);
    if left > 0 {
        lines.truncate(most);
        lines.push(screen.paint(Tone::Faint, &format!("… {left} more lines")));
    }
    lines
}

fn compact(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(target: &Value) -> Option<ToolTarget> {
        Some(serde_json::from_value(target.clone()).unwrap())
    }

    fn lines(target: &Value, input: &Value, extent: Extent) -> Vec<String> {
        acts_on(read(target).as_ref(), input, extent, Screen::plain(80))
    }

    fn shown(target: &Value, input: &Value) -> String {
        lines(target, input, Extent::Short).join("\n")
    }

    fn shell(command: &str) -> Value {
        json!({"kind": "shell", "command": command})
    }

    fn change(path: &str, edit: &Value) -> Value {
        let mut change = edit.clone();
        change["path"] = json!(path);
        json!({"kind": "write", "changes": [change]})
    }

    fn whole(path: &str) -> Value {
        change(path, &json!({"edit": "whole", "after": "/content"}))
    }

    fn replaced(path: &str) -> Value {
        change(path, &json!({"edit": "replace", "before": "/old_string", "after": "/new_string"}))
    }

    #[test]
    fn an_edited_call_is_told_by_what_it_acts_on_now() {
        let cp = shell("cp a b");
        for (target, before, after, expected) in [
            (&cp, json!({"command": "cp a b"}), json!({"command": "ls"}), "T ls"),
            (&cp, json!({"command": "cp a b"}), json!({"command": "cp a b", "x": 1}), "T {"),
            (&cp, json!({"cmd": ["cp", "a", "b"]}), json!({"cmd": ["ls"]}), "T {"),
            (&cp, json!({"command": "cp a b"}), json!({"other": "ls"}), "T {"),
            (&whole("/a"), json!({"file_path": "/a"}), json!({"file_path": "/b"}), "T /b"),
            (&whole("/a"), json!({"file_path": "/a"}), json!({"file_path": "/a"}), "T {"),
        ] {
            let target = moved(&read(target).unwrap(), &before, &after);
            let line = summary(("T", &after, target.as_ref()), Screen::plain(80));
            assert!(line.starts_with(expected), "{line}");
        }
    }

    #[test]
    fn each_call_is_shown_as_a_person_reads_it() {
        let odd = json!({"file_path": "/a", "old_string": {"x": 1}, "new_string": "z"});
        for (target, input, expected) in [
            (
                shell("ls\npwd"),
                json!({"command": "ls\npwd", "timeout": 5}),
                "$ ls\n  pwd\ntimeout: 5",
            ),
            (
                json!({"kind": "fetch", "url": "https://a.example/"}),
                json!({"url": "https://a.example/", "prompt": "p"}),
                "https://a.example/\nprompt: p",
            ),
            (
                replaced("/a"),
                json!({"file_path": "/a", "old_string": "x\ny\n", "new_string": "x\nz\n"}),
                "/a\n  x\n- y\n+ z",
            ),
            (replaced("/a"), odd, "/a\n+ z\nold_string: {\"x\":1}"),
            (
                whole("/no/such/file"),
                json!({"file_path": "/no/such/file", "content": "a\n"}),
                "/no/such/file (new file)\n+ a",
            ),
            (
                change("b", &json!({"edit": "diff", "diff": "/changes/0/diff"})),
                json!({"changes": [{"diff": "@@ -1 +1 @@\n-x\n+y"}], "reason": "r"}),
                "b\n@@ -1 +1 @@\n-x\n+y\nreason: r",
            ),
            (change("b", &json!({"edit": "delete"})), json!({"p": "b"}), "b (deleted)"),
            (
                json!({"kind": "mcp", "server": "x", "tool": "y"}),
                json!({"a": {"b": 1}, "c": "d"}),
                "a: {\"b\":1}\nc: d",
            ),
        ] {
            assert_eq!(shown(&target, &input), expected);
        }
    }

    #[test]
    fn a_write_over_a_file_is_a_diff_against_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "one\ntwo\n").unwrap();
        let target = whole(path.to_str().unwrap());
        let text = shown(&target, &json!({"file_path": path, "content": "one\n2\n"}));
        assert!(text.ends_with("(replaces the file)\n  one\n- two\n+ 2"), "{text}");
    }

    #[test]
    fn nothing_in_a_call_controls_the_terminal() {
        let evil = "a\u{1b}[2Jb\rc";
        let diff = change(evil, &json!({"edit": "diff", "diff": "/diff"}));
        for (tool, target, input) in [
            ("Bash", shell(evil), json!({"command": evil, evil: evil})),
            ("Write", whole(evil), json!({"file_path": evil, "content": evil})),
            (
                "Edit",
                replaced(evil),
                json!({"file_path": evil, "old_string": evil, "new_string": "x"}),
            ),
            ("patch", diff, json!({"diff": evil})),
            (evil, json!({"kind": "other"}), json!({"x": [evil]})),
        ] {
            let all = format!(
                "{}\n{}\n{}",
                shown(&target, &input),
                summary((tool, &input, read(&target).as_ref()), Screen::plain(40)),
                result(&json!(evil), Extent::Short, Screen::plain(80)).join("\n")
            );
            assert!(all.chars().all(|c| c == '\n' || !c.is_control()), "{all:?}");
        }
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let long = (0..100).map(|n| format!("{n}\n")).collect::<String>();
        let (target, input) =
            (whole("/no/such"), json!({"file_path": "/no/such", "content": long}));
        assert!(shown(&target, &input).ends_with("… 40 more lines"));
        let given = |extent| result(&json!(long), extent, Screen::plain(80));
        assert!(given(Extent::Short).join("\n").ends_with("… 92 more lines"));
        assert_eq!(given(Extent::Whole).len(), 100);
        let whole = lines(&target, &input, Extent::Whole);
        assert_eq!(whole.len(), 101, "the path and every line");
    }
}
