//! `plexus preview`: what a waiting command changes in a dry run, as a person reads it.

use anyhow::Result;
use plexus_client::Client;
use plexus_client::wire::{Approval, PathChange, PreviewParams, Previewed, PreviewedChange, Said};

use super::args::Global;
use super::render::{self, Extent};
use super::screen::{self, Screen, Tone, counted};
use super::server::{self, failed};
use super::{exit, find, sanitize};

/// What is said while a command is tried.
pub(super) const TRYING: &str = "  (trying it on a copy, without a network)";

/// Runs the command.
pub(super) async fn preview(global: &Global, which: &str, json: bool) -> Result<u8> {
    let client = server::find(&global.data_dir()?).await?;
    let pending = client.pending(None).await.map_err(failed)?;
    let approval = find::approval(&client, &pending, which, find::Purpose::Preview).await?;
    let params = PreviewParams::new(approval.id);
    let previewed = client.loopback().preview(&params).await.map_err(failed)?;
    if json {
        screen::line(&serde_json::to_string_pretty(&previewed)?)?;
    } else {
        let shown = lines(&previewed, Extent::Whole, Screen::stdout());
        shown.iter().try_for_each(|line| screen::line(line))?;
    }
    Ok(exit::OK)
}

/// Tries the command of an approval, for a dialogue about it. An error is one of the lines.
pub(super) async fn tried(client: &Client, approval: &Approval, screen: Screen) -> Vec<String> {
    match client.loopback().preview(&PreviewParams::new(approval.id)).await {
        Ok(previewed) => lines(&previewed, Extent::Whole, screen),
        Err(error) => {
            vec![format!("could not {}", sanitize::one_line(&error.to_string()))]
        }
    }
}

/// Shows what a dry run changed and said.
pub(crate) fn lines(previewed: &Previewed, extent: Extent, screen: Screen) -> Vec<String> {
    let mut lines = changed(&previewed.changes, extent, screen);
    for (name, text) in [("output", &previewed.stdout), ("errors", &previewed.stderr)] {
        if !text.is_empty() {
            lines.push(screen.paint(Tone::Faint, &format!("{name}:")));
            let text = render::text(text.trim_end(), extent, screen);
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
pub(super) fn changed(changes: &[PreviewedChange], extent: Extent, screen: Screen) -> Vec<String> {
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
        let diff = render::unified(change.diff.as_deref().unwrap_or_default(), extent, screen);
        lines.extend(diff.into_iter().map(|line| format!("  {line}")));
    }
    lines
}
