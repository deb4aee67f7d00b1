//! A second, tighter wall around each shell command of a confined agent.
//!
//! The agent is configured to start each shell command through a program that we give it. That
//! program is Plexus itself under another name, [`SHELL_NAME`], in a directory that the agent can
//! read and not write; the plan of this second wall, the ring, lies beside it. The program
//! restricts itself by Landlock once more and becomes the shell. The command can then read neither
//! the agent's configuration nor its login, has none of its keys, and can neither signal nor trace
//! the agent. When the ring cannot be built, the command does not run.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::plan::Plan;
use crate::stage::{EXIT_NOT_CONFINED, StageError, read};
use crate::{files, stage};

/// The name under which this program is the shell of a confined agent.
pub const SHELL_NAME: &str = "plexus-shell";
/// The plan of the ring, beside the program.
const PLAN: &str = "ring";
/// The shell when the agent's environment names none that we know.
const DEFAULT_SHELL: &str = "bash";

impl Plan {
    /// Returns the plan of the ring within this wall: the wall's own, without paths below `hidden`,
    /// and with `read` added.
    #[must_use]
    pub fn ring(&self, hidden: &[PathBuf], read: &[PathBuf]) -> Self {
        let mut ring = self.clone();
        let is_hidden = |path: &PathBuf| hidden.iter().any(|root| path.starts_with(root));
        ring.write.retain(|path| !is_hidden(path));
        ring.read.retain(|path| !is_hidden(path));
        ring.read.extend(read.iter().cloned());
        ring.egress = None;
        ring.withheld.extend(ring.model_variable.take());
        ring.withheld.insert(stage::RUN_MARK.to_owned());
        ring.variables.clear();
        ring
    }

    /// Writes the ring and the program that builds it into a directory that the agent can read.
    /// Returns the program.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write_ring(&self, dir: &Path, program: &Path) -> io::Result<PathBuf> {
        self.write_to(&dir.join(PLAN))?;
        let shell = dir.join(SHELL_NAME);
        symlink(program, &shell)?;
        Ok(shell)
    }
}

/// Whether this program was started as the shell of a confined agent.
#[must_use]
pub fn is_shell(name: &std::ffi::OsStr) -> bool {
    Path::new(name).file_name().is_some_and(|name| name == SHELL_NAME)
}

/// Runs as the shell of a confined agent, with its own name and the script. Returns only when the
/// ring or the shell could not start.
#[expect(clippy::print_stderr, reason = "the agent reads why from there")]
pub fn shell_main(mut args: impl Iterator<Item = OsString>) -> u8 {
    let name = args.next().unwrap_or_default();
    let error = match run(Path::new(&name), args) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    eprintln!("confine: could not {error}");
    EXIT_NOT_CONFINED
}

fn run(
    name: &Path,
    args: impl Iterator<Item = OsString>,
) -> Result<std::convert::Infallible, StageError> {
    let dir = name.parent().ok_or_else(|| StageError::new("find the ring", "it has no place"))?;
    let mut ring = read(&dir.join(PLAN))?;
    // A Landlock rule needs an existing file. A path that was readable and no longer exists needs
    // no rule.
    ring.read.retain(|path| path.symlink_metadata().is_ok());
    files::restrict(&ring, files::Ring::Inner)?;
    let shell = std::env::var_os("SHELL").map(PathBuf::from);
    let is_known = |shell: &PathBuf| shell.ends_with("bash") || shell.ends_with("zsh");
    let shell = shell.filter(is_known).unwrap_or_else(|| DEFAULT_SHELL.into());
    let mut command = Command::new(&shell);
    for name in &ring.withheld {
        command.env_remove(name);
    }
    let error = command.arg("-c").args(args).exec();
    Err(StageError::new(format!("start {}", shell.display()), error))
}
