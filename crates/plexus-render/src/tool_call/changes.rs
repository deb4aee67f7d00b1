//! The changes of files as a person reads them: a diff against what the file holds now.

use std::path::Path;
use std::time::Duration;

use plexus_wire::{FileChange, FileEdit};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::{Extent, header, shorten};
use crate::sanitize;
use crate::screen::{Screen, Tone};

/// How long two texts may be compared: an agent chooses both, and the worst pair would take hours.
/// What is left then is shown as replaced.
const DIFF_PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of a file that is compared with what would replace it.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Lines around a change that are shown with it.
const CONTEXT: usize = 2;

/// Shows the change of one file.
pub(super) fn changed(
    change: &FileChange,
    input: &Value,
    extent: Extent,
    screen: Screen,
) -> Vec<String> {
    let path = &change.path;
    let text = |at: &str| input.pointer(at).and_then(Value::as_str).unwrap_or_default();
    let (note, shown) = match &change.edit {
        FileEdit::Whole { after } => {
            let (old, note) = current(path);
            (note, diff(&old, text(after), extent, screen))
        }
        FileEdit::Replace { before, after, .. } => {
            ("", diff(text(before), text(after), extent, screen))
        }
        FileEdit::Part { after, .. } => ("(a part of it)", diff("", text(after), extent, screen)),
        FileEdit::Diff { diff } => ("", unified(text(diff), extent, screen)),
        FileEdit::Delete {} => ("(deleted)", Vec::new()),
        FileEdit::Unknown {} => ("", Vec::new()),
    };
    std::iter::once(header(path, note, screen)).chain(shown).collect()
}

/// Shows a unified diff as it was written.
pub fn unified(diff: &str, extent: Extent, screen: Screen) -> Vec<String> {
    let tone = |line: &str| match line.as_bytes().first() {
        Some(b'-') => Tone::Bad,
        Some(b'+') => Tone::Good,
        _ => Tone::Faint,
    };
    let lines = diff.lines().map(|line| screen.paint(tone(line), &sanitize::one_line(line)));
    shorten(lines.collect(), extent.lines(), screen)
}

/// Shows what changes between two texts, as a unified diff.
pub fn diff(old: &str, new: &str, extent: Extent, screen: Screen) -> Vec<String> {
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

/// Returns what a file holds now, with words on how the new text relates to it.
fn current(path: &str) -> (String, &'static str) {
    let path = Path::new(path);
    if !path.is_absolute() {
        return (String::new(), "(the whole file)");
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
