//! From a command line to a held child: detaches this process, starts the child, and writes
//! `pid.json`.

use std::ffi::OsString;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, getpid, getppid, set_child_subreaper, setpgid, setsid};

use crate::args::{Options, StdinSource};
use crate::hold::Hold;
use crate::journal::Journal;
use crate::layout::{
    ExitFile, FORMAT_VERSION, LayoutError, PidFile, RUN_VARIABLE, RunDir, Stat, boot_id, now_ms,
    process_identity,
};
use crate::signals::Signals;

/// The child was held to its end and `exit.json` says how it ended.
pub const EXIT_HELD: u8 = 0;
/// The child was not started, or not held to its end; `exit.json` says why when it could be
/// written.
pub const EXIT_NOT_STARTED: u8 = 1;
/// The command line was not understood; nothing was touched.
pub const EXIT_USAGE: u8 = 2;

/// Runs a shim with the arguments after `plexus shim` and returns its exit code.
///
/// It takes over the whole process: signals, session, standard streams and working directory. Call
/// it first in `main`, before any thread is started. The child gets the environment, working
/// directory, umask and limits of this process unchanged, so that no secret has to be written into
/// an argument or a file. Only the two marks of its run are added ([`RunDir::members`]).
pub fn run(args: impl IntoIterator<Item = OsString>) -> u8 {
    let options = match Options::parse(args) {
        Ok(options) => options,
        Err(error) => {
            complain(&error);
            return EXIT_USAGE;
        }
    };
    let run = match std::path::absolute(&options.dir) {
        Ok(dir) => RunDir::new(dir),
        Err(error) => {
            complain(&error);
            return EXIT_NOT_STARTED;
        }
    };
    match start(&options, &run) {
        Ok(hold) => hold.until_the_end(),
        Err(failure) => {
            complain(&failure);
            if failure.is_ours_to_record() {
                // A server that waits for this directory reads the reason there. When that fails
                // too, stderr and the exit code remain.
                drop(run.write_exit(&ExitFile::without_status(failure.to_string())));
            }
            EXIT_NOT_STARTED
        }
    }
}

/// Why no child was started.
#[derive(Debug)]
enum StartFailure {
    /// Another shim has or had this directory, so we must not change its files.
    DirectoryInUse,
    /// The server that created the directory has removed it: nobody waits for this child any more.
    Abandoned,
    Layout(LayoutError),
    Step(&'static str, io::Error),
    Spawn(OsString, io::Error),
}

impl StartFailure {
    fn is_ours_to_record(&self) -> bool {
        !matches!(self, Self::DirectoryInUse | Self::Abandoned)
    }
}

impl fmt::Display for StartFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DirectoryInUse => f.write_str("the run directory belongs to another run"),
            Self::Abandoned => {
                f.write_str("the run directory is not there: whoever starts a shim makes it")
            }
            Self::Layout(error) => match std::error::Error::source(error) {
                Some(source) => write!(f, "{error}: {source}"),
                None => write!(f, "{error}"),
            },
            Self::Step(what, error) => write!(f, "could not {what}: {error}"),
            Self::Spawn(program, error) => {
                write!(f, "could not start {}: {error}", program.display())
            }
        }
    }
}

impl From<LayoutError> for StartFailure {
    fn from(error: LayoutError) -> Self {
        Self::Layout(error)
    }
}

fn start(options: &Options, run: &RunDir) -> Result<Hold, StartFailure> {
    let step = |what| move |error: io::Error| StartFailure::Step(what, error);
    // The server creates it before it starts us. A server that restarted after a crash and gave
    // this run up has removed it. A shim that was slow to start must not create it again, with a
    // child that nobody would look for.
    if !run.journal().is_dir() {
        return Err(StartFailure::Abandoned);
    }
    run.touch_lease()?;
    if run.read_pid()?.is_some() || run.read_exit()?.is_some() {
        return Err(StartFailure::DirectoryInUse);
    }
    // Of two shims at once, the one that creates the first segment owns the directory.
    let journal = Journal::create(run.clone(), options.segment_bytes, options.backlog_bytes)
        .map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => StartFailure::DirectoryInUse,
            _ => StartFailure::Step("begin the journal", error),
        })?;
    let null = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(step("open /dev/null"))?;
    rustix::stdio::dup2_stdin(&null)
        .map_err(|error| StartFailure::Step("leave stdin", error.into()))?;
    rustix::stdio::dup2_stdout(&null)
        .map_err(|error| StartFailure::Step("leave stdout", error.into()))?;
    lead_a_session().map_err(step("lead a session"))?;
    set_child_subreaper(Some(getpid()))
        .map_err(|error| StartFailure::Step("adopt orphans", error.into()))?;
    // The server disables huge pages, and we inherit that; the child may gain from them. An old
    // kernel without this setting has nothing to undo.
    let _unknown = rustix::thread::disable_transparent_huge_pages(false);
    let signals = Signals::register().map_err(step("handle signals"))?;

    // Where the limit is already lower, only the environment identifies the child.
    let _lower = run.mark_this_process();
    let mut child = spawn(options, run)?;
    // The child has the setting now; the shim itself needs little memory, and disables huge pages
    // again.
    let _unknown = rustix::thread::disable_transparent_huge_pages(true);
    if let Err(error) = unblock_pipes(&child) {
        // The child is new and nobody else would end it. The results of kill and wait change
        // nothing about why we fail.
        let _ = child.kill().and_then(|()| child.wait());
        return Err(StartFailure::Step("hold the child's pipes", error));
    }
    plexus_fault::point!("shim.child.started");
    let pid = pid_file(&child);
    let mut hold = Hold::new(options, run, child, journal, signals);
    if let Err(error) = run.write_pid(&pid) {
        // Without `pid.json`, nobody could ever find this child again.
        hold.kill_all();
        return Err(error.into());
    }
    plexus_fault::point!("shim.pid.written");
    // From here on only the files report. Nobody may be left to read our stderr, and an open pipe
    // must not keep a server waiting.
    let left = rustix::stdio::dup2_stderr(&null).map_err(io::Error::from);
    // The child has its own working directory; ours must not keep a file system busy.
    if let Err(error) = left.and_then(|()| std::env::set_current_dir("/")) {
        hold.note(&format!("could not leave the surroundings of the server: {error}"));
    }
    Ok(hold)
}

/// Makes this process the leader of a new session, so that neither a terminal's signals nor the end
/// of the server's session reach it.
fn lead_a_session() -> io::Result<()> {
    if setsid().is_ok() {
        return Ok(());
    }
    // `setsid` is refused to the leader of a process group. We join the parent's group to leave our
    // own.
    match getppid().and_then(group_of).map(|parents| setpgid(None, Some(parents))) {
        Some(Ok(())) => setsid().map(drop).map_err(io::Error::from),
        // We already lead a session, or the parent has gone, or its group has no number here. A
        // group of our own, with SIGHUP handled, is detached enough from a terminal.
        Some(Err(_)) | None => Ok(()),
    }
}

/// Returns the process group of a process, if it has a number in this pid namespace. In a container
/// that was entered from outside, the session and group of the entering process have none. The
/// kernel returns 0 then, which the corresponding calls of `rustix` do not expect.
fn group_of(process: Pid) -> Option<Pid> {
    let group = Stat::read(process.as_raw_pid())?.group;
    if group > 0 { Pid::from_raw(group) } else { None }
}

fn spawn(options: &Options, run: &RunDir) -> Result<Child, StartFailure> {
    let stdin = match &options.stdin {
        StdinSource::Inbox => Stdio::piped(),
        StdinSource::Null => Stdio::null(),
        StdinSource::File(path) => Stdio::from(
            File::open(path)
                .map_err(|error| StartFailure::Step("open the file for stdin", error))?,
        ),
    };
    Command::new(&options.program)
        .args(&options.args)
        .env(RUN_VARIABLE, run.path())
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| StartFailure::Spawn(options.program.clone(), error))
}

/// Makes our ends of the pipes non-blocking. The child's ends are separate file descriptions and
/// stay as they are.
fn unblock_pipes(child: &Child) -> io::Result<()> {
    let pipes = [
        child.stdin.as_ref().map(AsFd::as_fd),
        child.stdout.as_ref().map(AsFd::as_fd),
        child.stderr.as_ref().map(AsFd::as_fd),
    ];
    pipes.into_iter().flatten().try_for_each(|pipe| Ok(rustix::io::ioctl_fionbio(pipe, true)?))
}

fn pid_file(child: &Child) -> PidFile {
    let shim = getpid().as_raw_pid();
    let child = Pid::from_child(child).as_raw_pid();
    PidFile {
        format_version: FORMAT_VERSION,
        shim_pid: shim,
        shim_start: process_identity(shim).unwrap_or(0),
        child_pid: child,
        child_start: process_identity(child).unwrap_or(0),
        child_pgid: child,
        started_at_ms: now_ms(),
        boot_id: boot_id(),
    }
}

fn complain(error: &dyn fmt::Display) {
    // When stderr is gone there is nobody to tell.
    drop(writeln!(io::stderr(), "plexus shim: {error}"));
}
