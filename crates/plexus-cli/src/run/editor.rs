//! Opens `$EDITOR` on a text that only its owner can read, and returns what was made of it.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use plexus_client::wire::EventId;

use crate::program::command;

/// The editor when neither `VISUAL` nor `EDITOR` names one.
const USUAL_EDITOR: &str = "vi";

/// Lets the person edit `text`; `ending` helps the editor to colour it.
pub(super) async fn edit(text: &str, ending: &str) -> Result<String> {
    let file = Scratch::new(text, ending)?;
    let editor = ["VISUAL", "EDITOR"]
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|value| !value.trim().is_empty());
    let editor = editor.unwrap_or_else(|| USUAL_EDITOR.to_owned());
    let status = command(&editor)?.arg(&file.path).status().await;
    let status = status
        .with_context(|| format!("could not start {editor:?}; name your editor in $EDITOR"))?;
    if !status.success() {
        bail!("could not edit: {editor} ended with {status}");
    }
    std::fs::read_to_string(&file.path).context("could not read what was edited")
}

/// A file that goes with its value.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new(text: &str, ending: &str) -> Result<Self> {
        let name = format!("plexus-{}.{ending}", EventId::generate());
        let path = std::env::temp_dir().join(name);
        Self::create(path, text).context("could not write a file to edit")
    }

    fn create(path: PathBuf, text: &str) -> std::io::Result<Self> {
        // Its name cannot be guessed and it must not exist, so nobody else can have put a link
        // there.
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let scratch = Self { path };
        file.write_all(text.as_bytes())?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::debug!(%error, "could not remove what was edited");
    }
}
