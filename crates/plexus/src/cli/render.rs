//! Tool calls as a person reads them: a diff for Edit and Write, the command for Bash, the address for fetches. Everything is made safe to show.

use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use plexus_client::wire::DecidedBy;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::sanitize;
use super::screen::{Screen, Tone, cut};

/// Lines of a diff or a text that are shown before the rest is counted.
const MAX_LINES: usize = 60;

/// How long two texts may be compared: an agent chooses both, and the worst pair would take hours. What is left then is shown as replaced.
const DIFF_PATIENCE: Duration = Duration::from_secs(1);

/// Lines of a tool's result that are shown.
const MAX_RESULT_LINES: usize = 8;

/// Bytes of a file that is compared with what would replace it.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Lines around a change that are shown with it.
const CONTEXT: usize = 2;

/// How much of a call is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    /// What fits on a few screens; what is left out is counted.
    Short,
    /// Everything.
    Whole,
}

impl Extent {
    /// Short on a terminal, whole where a pager or a file takes it.
    pub(crate) fn of_stdout() -> Self {
        if std::io::stdout().is_terminal() { Self::Short } else { Self::Whole }
    }

    fn lines(self) -> usize {
        match self {
            Self::Short => MAX_LINES,
            Self::Whole => usize::MAX,
        }
    }
}

/// Says in one line what a call is.
pub(crate) fn summary(tool: &str, input: &Value, screen: Screen) -> String {
    let subject = main_field(tool).and_then(|(field, _)| input[field].as_str());
    let subject = match tool {
        "Write" | "Edit" | "MultiEdit" | "Read" | "NotebookEdit" => {
            input["file_path"].as_str().or_else(|| input["notebook_path"].as_str())
        }
        "Glob" | "Grep" => input["pattern"].as_str(),
        "WebSearch" => input["query"].as_str(),
        "Task" | "Agent" => input["description"].as_str(),
        _ => subject,
    };
    let rest = match subject {
        Some(text) => sanitize::one_line(text).into_owned(),
        None => sanitize::one_line(&compact(input)).into_owned(),
    };
    let name = sanitize::one_line(tool);
    let room = screen.width().saturating_sub(name.chars().count() + 3).max(10);
    format!("{} {}", screen.paint(Tone::Tool, &name), cut(&rest, room))
}

/// Shows a call to whoever has to decide: nothing of the input is left out unless its length is said.
pub(crate) fn call(tool: &str, input: &Value, extent: Extent, screen: Screen) -> Vec<String> {
    let text = |field: &str| input[field].as_str();
    match (tool, text("file_path")) {
        ("Bash", _) if text("command").is_some() => {
            let mut lines = prefixed(
                "$ ",
                "  ",
                text("command").unwrap_or_default(),
                extent,
                screen,
                Tone::Strong,
            );
            lines.extend(rest(input, &["command"], extent, screen));
            lines
        }
        ("Write", Some(path)) => {
            let new = text("content").unwrap_or_default();
            let (old, note) = current(path);
            let mut lines = vec![header(path, note, screen)];
            lines.extend(diff(&old, new, extent, screen));
            lines.extend(rest(input, &["file_path", "content"], extent, screen));
            lines
        }
        ("Edit", Some(path)) if text("old_string").is_some() => {
            let mut lines = vec![header(path, "", screen)];
            let (old, new) =
                (text("old_string").unwrap_or_default(), text("new_string").unwrap_or_default());
            lines.extend(diff(old, new, extent, screen));
            lines.extend(rest(input, &["file_path", "old_string", "new_string"], extent, screen));
            lines
        }
        ("WebFetch", _) if text("url").is_some() => {
            let mut lines = vec![
                screen.paint(Tone::Strong, &sanitize::one_line(text("url").unwrap_or_default())),
            ];
            lines.extend(rest(input, &["url"], extent, screen));
            lines
        }
        ("Read", Some(path)) => {
            let mut lines = vec![header(path, "", screen)];
            lines.extend(rest(input, &["file_path"], extent, screen));
            lines
        }
        _ => rest(input, &[], extent, screen),
    }
}

/// Returns the field of a tool's input that a person would edit, and the ending of a file that holds it.
pub(crate) fn main_field(tool: &str) -> Option<(&'static str, &'static str)> {
    match tool {
        "Bash" => Some(("command", "sh")),
        "Write" => Some(("content", "txt")),
        "Edit" => Some(("new_string", "txt")),
        "WebFetch" => Some(("url", "txt")),
        _ => None,
    }
}

/// Shows what changes between two texts, as a unified diff.
pub(crate) fn diff(old: &str, new: &str, extent: Extent, screen: Screen) -> Vec<String> {
    if old == new {
        return vec![screen.paint(Tone::Faint, "(no change)")];
    }
    let changes = TextDiff::configure().timeout(DIFF_PATIENCE).diff_lines(old, new);
    let mut lines = Vec::new();
    for (index, group) in changes.grouped_ops(CONTEXT).iter().enumerate() {
        if index > 0 {
            lines.push(screen.paint(Tone::Faint, "⋯"));
        }
        for operation in group {
            for change in changes.iter_changes(operation) {
                let (sign, tone) = match change.tag() {
                    ChangeTag::Delete => ("- ", Tone::Bad),
                    ChangeTag::Insert => ("+ ", Tone::Good),
                    ChangeTag::Equal => ("  ", Tone::Faint),
                };
                let text = change.value().trim_end_matches('\n');
                lines.push(screen.paint(tone, &format!("{sign}{}", sanitize::one_line(text))));
            }
        }
    }
    shorten(lines, extent.lines(), screen)
}

/// Shows what a tool gave, shortened.
pub(crate) fn result(output: &Value, screen: Screen) -> Vec<String> {
    let text = match output {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().map(block_text).collect::<Vec<_>>().join("\n"),
        other => compact(other),
    };
    let lines: Vec<String> = text
        .trim_end()
        .lines()
        .map(|line| cut(&sanitize::one_line(line), screen.width().saturating_sub(4)))
        .collect();
    shorten(lines, MAX_RESULT_LINES, screen)
}

/// Says who decided, in a word.
pub(crate) fn decider(by: DecidedBy) -> &'static str {
    match by {
        DecidedBy::Operator => "operator",
        DecidedBy::Session(_) => "session",
        DecidedBy::Rule(_) => "rule",
        DecidedBy::Deadline => "deadline",
        DecidedBy::AgentEnded => "agent ended",
        DecidedBy::Webhook => "webhook",
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

/// Reads what a file holds now. What cannot be compared is said.
fn current(path: &str) -> (String, &'static str) {
    let path = Path::new(path);
    match path.metadata() {
        Err(_) => (String::new(), "(new file)"),
        Ok(found) if !found.is_file() => (String::new(), "(not a plain file)"),
        Ok(found) if found.len() > MAX_FILE_BYTES => (String::new(), "(replaces a large file)"),
        Ok(_) => match std::fs::read_to_string(path) {
            Ok(text) => (text, "(replaces the file)"),
            Err(_) => (String::new(), "(replaces a file that is not text)"),
        },
    }
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

    fn shown(tool: &str, input: &Value) -> String {
        call(tool, input, Extent::Short, Screen::plain(80)).join("\n")
    }

    #[test]
    fn each_tool_is_shown_as_a_person_reads_it() {
        for (tool, input, expected) in [
            ("Bash", json!({"command": "ls\npwd", "timeout": 5}), "$ ls\n  pwd\ntimeout: 5"),
            (
                "WebFetch",
                json!({"url": "https://a.example/", "prompt": "p"}),
                "https://a.example/\nprompt: p",
            ),
            (
                "Edit",
                json!({"file_path": "/a", "old_string": "x\ny\n", "new_string": "x\nz\n"}),
                "/a\n  x\n- y\n+ z",
            ),
            (
                "Write",
                json!({"file_path": "/no/such/file", "content": "a\n"}),
                "/no/such/file (new file)\n+ a",
            ),
            ("mcp__x__y", json!({"a": {"b": 1}, "c": "d"}), "a: {\"b\":1}\nc: d"),
        ] {
            assert_eq!(shown(tool, &input), expected);
        }
    }

    #[test]
    fn a_write_over_a_file_is_a_diff_against_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "one\ntwo\n").unwrap();
        let text = shown("Write", &json!({"file_path": path, "content": "one\n2\n"}));
        assert!(text.ends_with("(replaces the file)\n  one\n- two\n+ 2"), "{text}");
    }

    #[test]
    fn nothing_in_a_call_controls_the_terminal() {
        let evil = "a\u{1b}[2Jb\rc";
        for (tool, input) in [
            ("Bash", json!({"command": evil, evil: evil})),
            ("Write", json!({"file_path": evil, "content": evil})),
            ("Edit", json!({"file_path": evil, "old_string": evil, "new_string": "x"})),
            (evil, json!({"x": [evil]})),
        ] {
            let all = format!(
                "{}\n{}\n{}",
                shown(tool, &input),
                summary(tool, &input, Screen::plain(40)),
                result(&json!(evil), Screen::plain(80)).join("\n")
            );
            assert!(all.chars().all(|c| c == '\n' || !c.is_control()), "{all:?}");
        }
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let long = (0..100).map(|n| format!("{n}\n")).collect::<String>();
        assert!(
            shown("Write", &json!({"file_path": "/no/such", "content": long}))
                .ends_with("… 40 more lines")
        );
        assert!(result(&json!(long), Screen::plain(80)).join("\n").ends_with("… 92 more lines"));
        let whole = call(
            "Write",
            &json!({"file_path": "/no/such", "content": long}),
            Extent::Whole,
            Screen::plain(80),
        );
        assert_eq!(whole.len(), 101, "the path and every line");
    }

    #[test]
    fn two_texts_made_to_be_slow_to_compare_are_shown_all_the_same() {
        // Nothing in common, in an order that finds no end: without a limit this takes hours.
        let text = |step: u64| {
            (0..100_000_u64).map(|n| format!("{}\n", n * step % 65_537)).collect::<String>()
        };
        let lines = diff(&text(7_919), &text(104_729), Extent::Whole, Screen::plain(80));
        assert!(lines.len() > 60_000, "{}", lines.len());
    }
}
