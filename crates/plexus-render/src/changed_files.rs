//! Lists of changed files, and the result of a preview.

use plexus_wire::{PathChange, Previewed, PreviewedChange, Said};

use crate::sanitize;
use crate::screen::{Screen, Tone, counted};
use crate::tool_call::{self, Extent};

/// Shows what a dry run changed and printed.
pub fn previewed(previewed: &Previewed, extent: Extent, screen: Screen) -> Vec<String> {
    let mut lines = changed(&previewed.changes, extent, screen);
    for (name, text) in [("output", &previewed.stdout), ("errors", &previewed.stderr)] {
        if !text.is_empty() {
            lines.push(screen.paint(Tone::Faint, &format!("{name}:")));
            let text = tool_call::text(text.trim_end(), extent, screen);
            lines.extend(text.into_iter().map(|line| format!("  {line}")));
        }
    }
    let end = match &previewed.end {
        Said::Known(end) => end.to_string(),
        Said::Unknown(_) => sanitize::one_line(&previewed.end.to_string()).into_owned(),
    };
    let more = if previewed.cut { ", and more that are not listed" } else { "" };
    lines.push(format!("{}{more}, {end}", counted(previewed.changes.len() as u64, "change")));
    lines.push(screen.paint(Tone::Faint, &sanitize::one_line(&previewed.note)));
    lines
}

/// Shows changed paths with their differences.
pub fn changed(changes: &[PreviewedChange], extent: Extent, screen: Screen) -> Vec<String> {
    let mut lines = Vec::new();
    for change in changes {
        let (sign, tone) = match change.change {
            Said::Known(PathChange::Added) => ('A', Tone::Good),
            Said::Known(PathChange::Modified) => ('M', Tone::Warn),
            Said::Known(PathChange::Removed) => ('D', Tone::Bad),
            Said::Unknown(_) => ('?', Tone::Warn),
        };
        let why = change.why.as_deref().map(|why| format!(" ({})", sanitize::one_line(why)));
        let path = format!("{sign} {}", sanitize::one_line(&change.path));
        let why = screen.paint(Tone::Faint, &why.unwrap_or_default());
        lines.push(format!("{}{why}", screen.paint(tone, &path)));
        let diff = tool_call::unified(change.diff.as_deref().unwrap_or_default(), extent, screen);
        lines.extend(diff.into_iter().map(|line| format!("  {line}")));
    }
    lines
}
