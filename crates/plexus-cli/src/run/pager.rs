//! Lets a person page through a text that is longer than the screen.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use tokio::io::AsyncWriteExt;

use crate::program::command;

/// The pager when `PAGER` names none.
const USUAL_PAGER: &str = "less";

/// What `less` is told: leave at once when everything fits on the screen, let colours through and
/// nothing else, and leave the text standing.
const LESS_FLAGS: &str = "-FRX";

/// Shows lines that are already safe to show, and waits until the person has seen enough.
///
/// # Errors
/// When the pager cannot be started or ends in failure; then nothing may have been shown.
pub(super) async fn show(lines: &[String]) -> Result<()> {
    let pager = std::env::var("PAGER").ok().filter(|value| !value.trim().is_empty());
    let pager = pager.unwrap_or_else(|| USUAL_PAGER.to_owned());
    let mut command = command(&pager)?;
    command.stdin(Stdio::piped());
    let program = pager.split_whitespace().next().unwrap_or(USUAL_PAGER);
    let is_less = Path::new(program).file_name().is_some_and(|name| name == "less");
    if is_less {
        command.arg(LESS_FLAGS);
    }
    let mut child = command.spawn().with_context(|| format!("could not start {program:?}"))?;
    if let Some(mut input) = child.stdin.take() {
        let text = lines.join("\n") + "\n";
        let text = if is_less { text } else { without_colours(&text) };
        match input.write_all(text.as_bytes()).await {
            Ok(()) => {}
            // A person who has seen enough leaves before the end.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(error) => return Err(error).context("could not write to the pager"),
        }
    }
    let status = child.wait().await.context("could not wait for the pager")?;
    if !status.success() {
        bail!("could not page: {program} ended with {status}");
    }
    Ok(())
}

/// Takes out our own colours, for a pager that may not know them. What came from an agent has no
/// escapes left.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| plain + part.split_once('m').map_or(part, |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_taken_out_and_nothing_else() {
        assert_eq!(without_colours("a\u{1b}[31m+ mm\u{1b}[0m\nb"), "a+ mm\nb");
        assert_eq!(without_colours("plain ␛[31m"), "plain ␛[31m");
    }
}
