//! Completions and manual pages, from the same definition as the command line itself.

use std::path::Path;

use anyhow::{Context as _, Result};
use clap::CommandFactory;

use super::args::Arguments;
use super::{exit, screen};

/// `plexus completions`.
pub(super) fn completions(shell: clap_complete::Shell) -> Result<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "plexus", &mut text);
    screen::print(&String::from_utf8_lossy(&text))?;
    Ok(exit::OK)
}

/// `plexus man`.
pub(super) fn man(dir: &Path) -> Result<u8> {
    std::fs::create_dir_all(dir).with_context(|| format!("could not create {}", dir.display()))?;
    clap_mangen::generate_to(Arguments::command(), dir)
        .with_context(|| format!("could not write manual pages into {}", dir.display()))?;
    screen::line(&format!("wrote the manual pages into {}", dir.display()))?;
    Ok(exit::OK)
}
