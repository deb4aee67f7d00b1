//! Finds out what this machine can enforce, by building each wall around a process that then ends.
//!
//! Files and versions only say what might work: a container refuses calls that its kernel has.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::dry_run;
use crate::files;
use crate::machine::{CannotBuild, Machine, Tier};
use crate::plan::{Plan, PlanError, plan};
use crate::run_dir::RunDir;
use crate::stage::EXIT_NOT_CONFINED;
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

/// Why it is not known what this machine can enforce: something failed before a stage could say so.
/// The next try may find out.
#[derive(Debug, thiserror::Error)]
#[error("find out what this machine can enforce: {doing}: {why}")]
pub struct NotProbed {
    doing: &'static str,
    why: String,
}

impl NotProbed {
    /// Returns what turns an error into one of these.
    pub(crate) fn while_trying<E: ToString>(doing: &'static str) -> impl Fn(E) -> Self {
        move |why| Self { doing, why: why.to_string() }
    }
}

/// Tries every tier, which takes a few milliseconds for each.
///
/// # Errors
/// When a stage could not be asked. A machine that refuses a wall is no error.
pub fn probe(stage: &StageProgram) -> Result<Machine, NotProbed> {
    let landlock_abi = files::abi().map_or(0, |abi| u8::try_from(abi as i32).unwrap_or(u8::MAX));
    Ok(Machine {
        landlock_abi,
        full: attempt(stage, Tier::Full)?,
        landlock: attempt(stage, Tier::Landlock)?,
        dry_run: dry_run::attempt(stage)?,
    })
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

/// Builds the wall of one tier, and returns why that cannot be done.
fn attempt(stage: &StageProgram, tier: Tier) -> Result<Option<CannotBuild>, NotProbed> {
    let dir = RunDir::new().map_err(NotProbed::while_trying("make a directory"))?;
    let mut wall = Wall::new(Profile::Strict, dir.path().join("work"), dir.temp_dir());
    wall.tier = Some(tier);
    check(stage, &dir, plan(&wall, &Machine::ANY))
}

/// Runs a stage that only builds its wall, and returns why it cannot.
pub(crate) fn check(
    stage: &StageProgram,
    dir: &RunDir,
    planned: Result<Plan, PlanError>,
) -> Result<Option<CannotBuild>, NotProbed> {
    let planned = match planned {
        Ok(planned) => planned,
        Err(error @ PlanError::Path { .. }) => {
            return Err(NotProbed::while_trying("plan a wall")(error));
        }
        // The directory lies where no wall can be built.
        Err(error) => return Ok(Some(cannot(&error.to_string()))),
    };
    let file = dir.put(&planned).map_err(NotProbed::while_trying("write the plan"))?;
    let output = stage.stage(&file).arg("--check").stdin(Stdio::null()).output();
    let output = output.map_err(NotProbed::while_trying("start the stage"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match (output.status.code(), output.status.signal()) {
        (Some(0), _) => Ok(None),
        (Some(code), _) if code == i32::from(EXIT_NOT_CONFINED) => Ok(Some(cannot(&said))),
        // Some filters of system calls answer with the end of the process.
        (_, Some(libc::SIGSYS)) => Ok(Some(cannot(&format!("build a wall: {}", output.status)))),
        _ => Err(NotProbed { doing: "build a wall", why: format!("{}: {said}", output.status) }),
    }
}
