//! The stage: reads its plan, restricts itself in the one order that works, becomes the program.
//!
//! One thread, because a user namespace needs it and Landlock and seccomp count for a thread. Every
//! error is fatal: the program does not start, and the process ends with [`EXIT_NOT_CONFINED`].

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use crate::machine::Tier;
use crate::plan::Plan;
use crate::{calls, environment, files, network, rights, root};

/// The exit code of a stage that could not build its wall. The program has not run.
pub const EXIT_NOT_CONFINED: u8 = 125;

/// The largest plan that is read. A plan with thousands of paths is far smaller.
const MAX_PLAN_BYTES: u64 = 8 * 1024 * 1024;

/// Variables that name a way around the wall, or belong to the process that started the program.
const REMOVED_VARIABLES: &[&str] = &[
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "DOCKER_HOST",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "LD_PRELOAD",
    "DATABASE_URL",
];
/// Variables that configure Plexus itself, by how they begin.
const REMOVED_PREFIX: &str = "PLEXUS_";
/// The mark that finds every process of a run, also after its shim was killed.
pub(crate) const RUN_MARK: &str = "PLEXUS_RUN";

/// Why a wall could not be built.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {why}{}", next_step(.next))]
pub struct StageError {
    doing: String,
    why: String,
    next: &'static str,
}

fn next_step(next: &str) -> String {
    if next.is_empty() { String::new() } else { format!("; {next}") }
}

impl StageError {
    pub(crate) fn new(doing: impl Into<String>, why: impl ToString) -> Self {
        Self { doing: doing.into(), why: why.to_string(), next: "" }
    }

    pub(crate) fn path(doing: &str, path: &Path, why: impl ToString) -> Self {
        Self::new(format!("{doing} {}", path.display()), why)
    }

    pub(crate) fn next(mut self, next: &'static str) -> Self {
        self.next = next;
        self
    }
}

/// Runs the stage as a program: `--stage FILE [--check] [-- PROGRAM ARGS…]`, without the name of
/// the program that this is part of. Returns only when the wall or the program could not start, or
/// after a check.
#[expect(clippy::print_stderr, reason = "the stage has no other way to say why")]
pub fn main(args: impl Iterator<Item = OsString>) -> u8 {
    match run(args) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("confine: could not {error}");
            EXIT_NOT_CONFINED
        }
    }
}

/// Does what [`main`] does, and returns the error.
///
/// # Errors
/// When the wall or the program could not start. The process is then half restricted and must end.
pub fn run(mut args: impl Iterator<Item = OsString>) -> Result<(), StageError> {
    let usage =
        || StageError::new("read the arguments", "--stage FILE (--check | -- PROGRAM ARGS)");
    let file = args.next().ok_or_else(usage)?;
    let mut plan = read(Path::new(&file))?;
    let word = args.next().ok_or_else(usage)?;
    if word == "--check" {
        return build(&mut plan);
    }
    let program = args.next().filter(|_| word == "--").ok_or_else(usage)?;
    build(&mut plan)?;
    if let Some(bytes) = plan.max_file_bytes {
        rights::limit_files(bytes)?;
    }
    let mut command = command(&plan, &program);
    command.args(args);
    let error = if plan.is_dry_run {
        match become_parent(&mut command) {
            Ok(code) => std::process::exit(code),
            Err(error) => error,
        }
    } else {
        command.exec()
    };
    Err(StageError::new(format!("start {}", program.display()), error)
        .next("is it installed where the wall lets it be read? `--read PATH` adds a path"))
}

/// How often the stage of a dry run looks whether the process that wants it still lives.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(20);

/// Starts the program as the first process of its namespace, and returns its exit code. When that
/// process ends, the kernel ends everything it started. When the process that started the dry run
/// and watches its limits is gone, the program is killed.
fn become_parent(command: &mut Command) -> std::io::Result<i32> {
    use std::os::unix::process::ExitStatusExt as _;
    let starter = rustix::process::getppid();
    let mut program = command.spawn()?;
    let status = loop {
        if let Some(status) = program.try_wait()? {
            break status;
        }
        if rustix::process::getppid() != starter {
            program.kill()?;
        }
        std::thread::sleep(LOOK_EVERY);
    };
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()))
}

pub(crate) fn read(file: &Path) -> Result<Plan, StageError> {
    let fail = |why: String| StageError::path("read the plan", file, why);
    let length = file.metadata().map_err(|error| fail(error.to_string()))?.len();
    if length > MAX_PLAN_BYTES {
        return Err(fail(format!("{length} bytes are too many")));
    }
    let text = std::fs::read(file).map_err(|error| fail(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| fail(error.to_string()))
}

/// Builds the wall around this process. The order matters, and each step says why.
fn build(plan: &mut Plan) -> Result<(), StageError> {
    // The egress process is outside, and its path does not exist inside. It starts while we build
    // the rest, and has its doors before the program runs.
    let egress = network::reach_egress(plan)?;
    match plan.tier {
        Tier::Full => {
            // Mounts first: under Landlock no mount can be changed any more.
            root::enter_namespaces(plan)?;
            root::change(plan)?;
            network::open_doors(plan, egress)?;
        }
        Tier::Landlock => network::lend_ports(plan, egress)?,
    }
    environment::add_doors(plan);
    // By name again: the old working directory looks below the new mounts.
    std::env::set_current_dir(&plan.working_dir)
        .map_err(|error| StageError::path("enter", &plan.working_dir, error))?;
    check_writable(plan)?;
    rights::drop_capabilities()?;
    rights::close_descriptors()?;
    files::restrict(plan, files::Ring::Outer)?;
    // Last, because it forbids some of the calls above.
    calls::restrict(plan)
}

/// A wall in which the work cannot be done is an error now, not a riddle later.
fn check_writable(plan: &Plan) -> Result<(), StageError> {
    use rustix::fs::{Access, access};
    access(&plan.working_dir, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).map_err(
        |error| {
            StageError::path("write into", &plan.working_dir, error).next(
            "it must belong to the user who runs the program, on a file system that can be written",
        )
        },
    )
}

fn command(plan: &Plan, program: &OsStr) -> Command {
    let mut command = Command::new(program);
    let ours = std::env::vars_os()
        .map(|(name, _)| name)
        .filter(|name| name.to_string_lossy().starts_with(REMOVED_PREFIX) && name != RUN_MARK);
    let withheld = plan.withheld.iter().map(OsString::from);
    for name in ours.chain(REMOVED_VARIABLES.iter().map(OsString::from)).chain(withheld) {
        command.env_remove(name);
    }
    command.envs(&plan.variables);
    command
}
