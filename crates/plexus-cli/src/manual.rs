//! Completions and manual pages, from the same definition as the command line itself.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::exit;
use plexus_render::screen;

/// In a folder of `fpath`, as packages install it, the file is the body of the function `_plexus`
/// that zsh calls at the first Tab. Without this the first Tab would only define the completer.
const ZSH_FIRST_TAB: &str =
    "if [ \"$funcstack[1]\" = _plexus ]; then _clap_dynamic_completer_plexus \"$@\"; fi\n";

/// `plexus completions`.
pub(super) fn completions(shell: clap_complete::Shell) -> Result<u8> {
    // A line that asks this program whenever Tab is pressed: it knows the sessions of the moment.
    let shells = clap_complete::env::Shells::builtins();
    let is_zsh = shell == clap_complete::Shell::Zsh;
    let shell = shells.completer(&shell.to_string()).context("could not complete in this shell")?;
    let mut text = Vec::new();
    shell
        .write_registration("COMPLETE", "plexus", "plexus", "plexus", &mut text)
        .context("could not write the completions")?;
    if is_zsh {
        text.extend_from_slice(ZSH_FIRST_TAB.as_bytes());
    }
    screen::print(&String::from_utf8_lossy(&text))?;
    Ok(exit::OK)
}

/// `plexus man`.
pub(super) fn man(whole: clap::Command, dir: &Path) -> Result<u8> {
    std::fs::create_dir_all(dir).with_context(|| format!("could not create {}", dir.display()))?;
    clap_mangen::generate_to(whole, dir)
        .with_context(|| format!("could not write manual pages into {}", dir.display()))?;
    screen::line(&format!("wrote the manual pages into {}", dir.display()))?;
    Ok(exit::OK)
}
