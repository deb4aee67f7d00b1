//! Starts programs of the person's own: an editor, a pager, a browser.
//!
//! A person works where their agents work, and some of these programs obey files of the directory
//! that they start in (`.helix/languages.toml` names programs, for one). So they start elsewhere.

use std::path::{Path, absolute};

use anyhow::{Context as _, Result};
use tokio::process::Command;

/// Returns the command for a program and its arguments, as `EDITOR` and `PAGER` hold them:
/// `code --wait`.
pub(super) fn command(line: &str) -> Result<Command> {
    let mut words = line.split_whitespace();
    let program = words.next().context("no program is named")?;
    // A name alone is looked up in `PATH`; anything else would mean another file there.
    let mut command = match program.contains('/') {
        true => Command::new(absolute(Path::new(program)).context("could not find the program")?),
        false => Command::new(program),
    };
    command.args(words).current_dir("/");
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn programs_of_a_person_start_outside_of_their_directory() {
        let output = command("sh -c pwd").unwrap().output().await.unwrap();
        assert_eq!(output.stdout, b"/\n");
        let there = command("./program").unwrap();
        let program = std::env::current_dir().unwrap().join("program");
        assert_eq!(there.as_std().get_program(), program);
    }
}
