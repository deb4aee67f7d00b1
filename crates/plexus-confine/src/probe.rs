//! Finds out what this machine can enforce, by building each wall around a process that then ends.
//!
//! Files and versions only say what might work: a container refuses calls that its kernel has.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::dry_run;
use crate::files;
use crate::machine::{CannotBuild, Machine, Tier};
use crate::plan::{Plan, plan};
use crate::run_dir::{self, RunDir};
use crate::wall::{Profile, Wall};

/// How the stage is started: a program whose `main` calls [`crate::main`] after these arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StageProgram {
    /// The program.
    pub program: PathBuf,
    /// The arguments before `FILE`.
    pub arguments: Vec<OsString>,
}

impl StageProgram {
    /// Names this very program, as `plexus confine --stage`.
    ///
    /// # Errors
    /// When the program's own file cannot be found.
    pub fn this() -> io::Result<Self> {
        let arguments = ["confine", "--stage"].map(OsString::from).to_vec();
        Ok(Self { program: std::env::current_exe()?, arguments })
    }

    /// Returns the command that becomes `program` within the plan of `file`.
    #[must_use]
    pub fn command(&self, file: &Path, program: &std::ffi::OsStr) -> Command {
        let mut command = self.stage(file);
        command.arg("--").arg(program);
        command
    }

    fn stage(&self, file: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg(file);
        command
    }
}

/// Tries every tier, which takes a few milliseconds for each. Before that it removes what killed
/// runs have left in the temporary directory.
#[must_use]
pub fn probe(stage: &StageProgram) -> Machine {
    run_dir::sweep(&std::env::temp_dir());
    let landlock_abi = files::abi().map_or(0, |abi| u8::try_from(abi as i32).unwrap_or(u8::MAX));
    Machine {
        landlock_abi,
        full: attempt(stage, Tier::Full).err(),
        landlock: attempt(stage, Tier::Landlock).err(),
        dry_run: dry_run::attempt(stage).err(),
    }
}

/// The words of a step and its next step are one line of the stage's stderr.
pub(crate) fn cannot(words: &str) -> CannotBuild {
    let words = words.trim().trim_start_matches("confine: ");
    let (missing, next) = words.split_once("; ").unwrap_or((
        words,
        "run on Linux 6.7 or newer with Landlock, or go without a wall by choice",
    ));
    CannotBuild { missing: missing.to_owned(), next: next.to_owned() }
}

fn attempt(stage: &StageProgram, tier: Tier) -> Result<(), CannotBuild> {
    let dir = RunDir::new().map_err(|error| cannot(&format!("make a directory: {error}")))?;
    let believed = Machine { landlock_abi: 0, full: None, landlock: None, dry_run: None };
    let mut wall = Wall::new(Profile::Strict, dir.path().join("work"), dir.temp_dir());
    wall.tier = Some(tier);
    let planned = plan(&wall, &believed).map_err(|error| cannot(&error.to_string()))?;
    check(stage, &planned, &dir)
}

/// Runs a stage that only builds its wall.
pub(crate) fn check(stage: &StageProgram, planned: &Plan, dir: &RunDir) -> Result<(), CannotBuild> {
    let file = dir.put(planned).map_err(|error| cannot(&format!("write the plan: {error}")))?;
    match stage.stage(&file).arg("--check").stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) if output.stderr.is_empty() => {
            Err(cannot(&format!("build a wall: the stage ended with {}", output.status)))
        }
        Ok(output) => Err(cannot(&String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(cannot(&format!("start the stage: {error}"))),
    }
}
