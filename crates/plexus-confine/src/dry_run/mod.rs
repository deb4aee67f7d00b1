//! Runs a program over a copy of its working directory, and lists what it would change.
//!
//! A preview, not a promise: no network, no other process to talk to, another time. Nothing may be
//! decided by it alone. Needs the full tier.

mod changes;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use plexus_files::HeldDir;
use serde::{Deserialize, Serialize};

pub use changes::{Change, ChangeKind};

use crate::machine::{CannotBuild, Machine, Tier};
use crate::plan::{Plan, PlanError, plan};
use crate::probe::{NotProbed, StageProgram, cannot, check};
use crate::root::layer_dirs;
use crate::run_dir::RunDir;
use crate::wall::{Doors, Profile, Wall};

/// How much a dry run may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// How long the program may run. It is killed then, with what it started.
    pub time: Duration,
    /// How much it may write, temporary files included: more ends it. No file can have more, and the
    /// sum is measured from time to time and at the end.
    pub bytes: u64,
    /// How many changes are listed.
    pub changes: usize,
    /// How much of its output is kept, for each of stdout and stderr.
    pub output_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(10),
            bytes: 256 * 1024 * 1024,
            changes: 1_000,
            output_bytes: 64 * 1024,
        }
    }
}

/// How a dry run ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The program ended with this code.
    Exited(i32),
    /// A signal ended the program.
    Killed(i32),
    /// It took too long and was killed.
    OutOfTime,
    /// It wrote too much and was killed.
    TooLarge,
}

/// What a program would do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Preview {
    /// How it ended.
    pub end: End,
    /// What it changed below the working directory, sorted by path.
    pub changes: Vec<Change>,
    /// There were more changes than are listed.
    pub is_cut: bool,
    /// The beginning of its output.
    pub stdout: String,
    /// The beginning of its errors.
    pub stderr: String,
}

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// The program and its arguments.
    pub words: &'a [OsString],
    /// All of its variables. Without them it has those of this process.
    pub env: Option<&'a BTreeMap<OsString, OsString>>,
    /// Where it starts, below the working directory; without a place, in that.
    pub start_in: Option<&'a Path>,
}

impl<'a> Program<'a> {
    /// Runs these words in the working directory, with the variables of this process.
    #[must_use]
    pub fn of(words: &'a [OsString]) -> Self {
        Self { words, env: None, start_in: None }
    }
}

/// Why there is no preview.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DryRunError {
    /// The wall cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The wall could not be built.
    #[error("this machine cannot make a dry run: {0}")]
    Machine(#[from] CannotBuild),
    /// It would start where nothing is copied.
    #[error(
        "start in {}: a dry run covers the working directory \
         {}", start_in.display(), working_dir.display()
    )]
    Outside {
        /// Where it would start.
        start_in: PathBuf,
        /// What is copied.
        working_dir: PathBuf,
    },
    /// The files of the dry run could not be made or read.
    #[error("{doing}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// What is wrong.
        source: io::Error,
    },
}

/// How often a running program is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How often the size of what it wrote is looked at.
const MEASURE_EVERY: Duration = Duration::from_millis(250);

/// The code with which a shell, and our stage, pass on that `SIGXFSZ` ended a program.
const FILE_TOO_LARGE: i32 = 128 + rustix::process::Signal::XFSZ.as_raw();

/// Runs a program within this wall, over a copy, without network. Blocks for [`Limits::time`] at
/// most, and a little for the comparison.
///
/// # Errors
/// When the wall or the copy cannot be made. The program has not run then.
pub fn run(
    stage: &StageProgram,
    machine: &Machine,
    wall: &Wall,
    program: &Program<'_>,
    limits: Limits,
) -> Result<Preview, DryRunError> {
    let fail = |doing| move |source| DryRunError::Io { doing, source };
    if let Some(why) = &machine.dry_run {
        return Err(why.clone().into());
    }
    let (name, arguments) = program
        .words
        .split_first()
        .ok_or_else(|| fail("start the program")(io::ErrorKind::InvalidInput.into()))?;
    let dir = RunDir::new().map_err(fail("make a directory for the dry run"))?;
    let mut planned = plan_over_copy(wall, machine, &dir)?;
    planned.max_file_bytes = Some(limits.bytes);
    let working_dir = planned.working_dir.clone();
    let before = HeldDir::hold(&working_dir).map_err(fail("look at the working directory"))?;
    if let Some(start_in) = program.start_in {
        planned.working_dir = start_below(start_in, &working_dir)?;
    }
    let file = dir.put(&planned).map_err(fail("write the plan of the dry run"))?;
    let mut command = stage.command(&file, name);
    if let Some(env) = program.env {
        command.env_clear().envs(env);
    }
    let child = command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(fail("start the dry run"))?;
    // The stage names its layer by its own number.
    let [upper, _] = layer_dirs(&dir.path().join("overlay"), child.id());
    let (end, stdout, stderr) =
        follow(child, dir.path(), limits).map_err(fail("follow the dry run"))?;
    if end == End::Exited(i32::from(crate::EXIT_NOT_CONFINED)) && stderr.starts_with("confine: ") {
        return Err(cannot(&stderr).into());
    }
    let (changes, is_cut) =
        changes::list(&upper, &before, limits.changes).map_err(fail("compare the files"))?;
    Ok(Preview { end, changes, is_cut, stdout, stderr })
}

fn start_below(start_in: &Path, working_dir: &Path) -> Result<PathBuf, DryRunError> {
    let found = working_dir.join(start_in).canonicalize();
    let found =
        found.map_err(|source| DryRunError::Io { doing: "find where it starts", source })?;
    if !found.starts_with(working_dir) {
        let working_dir = working_dir.to_owned();
        return Err(DryRunError::Outside { start_in: found, working_dir });
    }
    Ok(found)
}

fn plan_over_copy(wall: &Wall, machine: &Machine, dir: &RunDir) -> Result<Plan, PlanError> {
    let mut wall = wall.clone();
    wall.tier = Some(Tier::Full);
    wall.doors = Doors::default();
    wall.temp_dir = dir.temp_dir();
    // Only the working directory is copied: elsewhere the program may read.
    wall.read.append(&mut wall.write);
    let mut planned = plan(&wall, machine)?;
    let elsewhere: Vec<_> =
        planned.write.iter().filter(|path| **path != planned.working_dir).cloned().collect();
    for path in elsewhere {
        planned.write.remove(&path);
        planned.read.insert(path);
    }
    // In a copy everything may be changed, and the change is listed.
    planned.protect.clear();
    planned.masks.clear();
    planned.write.remove(&planned.working_dir);
    planned.layers.insert(planned.working_dir.clone(), dir.path().join("overlay"));
    planned.is_dry_run = true;
    Ok(planned)
}

fn follow(mut child: Child, written: &Path, limits: Limits) -> io::Result<(End, String, String)> {
    let keep = limits.output_bytes;
    let stdout = child.stdout.take().map(|pipe| std::thread::spawn(move || beginning(pipe, keep)));
    let stderr = child.stderr.take().map(|pipe| std::thread::spawn(move || beginning(pipe, keep)));
    let begun = Instant::now();
    let mut measured = begun;
    let end = loop {
        if let Some(status) = child.try_wait()? {
            break of_status(status);
        }
        if begun.elapsed() > limits.time {
            break End::OutOfTime;
        }
        if measured.elapsed() > MEASURE_EVERY {
            measured = Instant::now();
            if changes::is_larger(written, limits.bytes) {
                break End::TooLarge;
            }
        }
        std::thread::sleep(LOOK_EVERY);
    };
    end_namespace(child.id());
    let group = rustix::process::Pid::from_raw(child.id().cast_signed());
    if let Some(group) = group {
        match rustix::process::kill_process_group(group, rustix::process::Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    child.wait()?;
    // A program may write the most just before it ends. One that wanted a larger file than it may
    // make was ended by the kernel.
    let end = match end {
        End::Exited(FILE_TOO_LARGE) => End::TooLarge,
        End::Exited(_) | End::Killed(_) if changes::is_larger(written, limits.bytes) => {
            End::TooLarge
        }
        end => end,
    };
    let text = |thread: Option<std::thread::JoinHandle<String>>| {
        thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
    };
    Ok((end, text(stdout), text(stderr)))
}

/// Kills the first process of the dry run's namespace, and with it all others: those that left the
/// group too, which would hold the pipes open.
fn end_namespace(stage: u32) {
    let children = std::fs::read_to_string(format!("/proc/{stage}/task/{stage}/children"));
    for child in children.unwrap_or_default().split_whitespace() {
        let pid = child.parse().ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended by itself.
            let _gone = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

fn of_status(status: ExitStatus) -> End {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Exited(code),
        (None, signal) => End::Killed(signal.unwrap_or_default()),
    }
}

/// Reads a pipe to its end and keeps the beginning.
fn beginning(mut pipe: impl io::Read, keep: usize) -> String {
    let mut kept = Vec::new();
    let limit = u64::try_from(keep).unwrap_or(u64::MAX);
    // An error of a pipe is its end.
    let _ended = pipe.by_ref().take(limit).read_to_end(&mut kept);
    let _ended = io::copy(&mut pipe, &mut io::sink());
    String::from_utf8_lossy(&kept).into_owned()
}

/// Puts a layer over a directory, and returns why that cannot be done here.
pub(crate) fn attempt(stage: &StageProgram) -> Result<Option<CannotBuild>, NotProbed> {
    let dir = RunDir::new().map_err(NotProbed::while_trying("make a directory"))?;
    let wall = Wall::new(Profile::Strict, dir.path().join("work"), dir.temp_dir());
    check(stage, &dir, plan_over_copy(&wall, &Machine::ANY, &dir))
}
