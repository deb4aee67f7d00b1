//! Starts a shim around a shell script, waits for what it does, and leaves no process behind when a
//! test fails.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use plexus_shim::layout::{ExitFile, PidFile, RunDir, process_identity, signal_process};
use plexus_shim::{Options, StdinSource};
use rustix::process::Signal;
use tempfile::TempDir;

/// How long anything may take on a busy machine before a test reports what did not happen.
const DEADLINE: Duration = Duration::from_secs(180);

/// The environment variable that identifies every process of one shim, wherever it moved.
const MARK: &str = "PLEXUS_SHIM_TEST_MARK";

/// One shim under test.
pub(crate) struct Shim {
    pub(crate) run: RunDir,
    pub(crate) process: Child,
    _temp: TempDir,
    mark: String,
    /// Whether it is known that no process is left.
    is_over: bool,
}

impl Shim {
    /// Starts a shim around `sh -c script`.
    pub(crate) fn start(script: &str) -> Self {
        Self::start_with(script, |_| {})
    }

    /// Starts a shim around `sh -c script`, with changed options.
    pub(crate) fn start_with(script: &str, change: impl FnOnce(&mut Options)) -> Self {
        Self::prepare(script, change).start()
    }

    /// Prepares a shim without starting it.
    pub(crate) fn prepare(script: &str, change: impl FnOnce(&mut Options)) -> Prepared {
        let temp = tempfile::tempdir().unwrap();
        let run = RunDir::new(temp.path().join("run"));
        run.create().unwrap();
        let mut options = Options::new(run.path(), "sh");
        options.args = vec!["-c".into(), script.into()];
        // Long, so that the shim does not escalate in a test that does not ask for it.
        options.grace = Duration::from_secs(600);
        change(&mut options);
        let (command, mark) = command(&options.to_args());
        Prepared { temp, run, command, mark }
    }

    /// Waits until the child is started.
    pub(crate) fn pid(&self) -> PidFile {
        wait_for("pid.json", || self.run.read_pid().unwrap())
    }

    /// Waits until the shim has exited, checks that no process of it is left, and returns how the
    /// run ended.
    pub(crate) fn end(&mut self) -> ExitFile {
        let exit = self.exit();
        assert_nobody_is_left(std::slice::from_mut(self));
        exit
    }

    /// Waits until the shim has exited and returns how the run ended.
    pub(crate) fn exit(&mut self) -> ExitFile {
        wait_for("the end of the shim", || self.process.try_wait().unwrap());
        self.run.read_exit().unwrap().expect("exit.json is there when the shim has gone")
    }

    /// Sends a signal to the shim.
    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.process), signal)
            .unwrap();
    }

    /// Returns the current content of the journal.
    pub(crate) fn journal(&self) -> String {
        journal(&self.run)
    }

    /// Waits until the journal holds a line.
    pub(crate) fn wait_for_line(&self, line: &str) {
        wait_for(line, || self.journal().lines().any(|found| found == line).then_some(()));
    }

    /// Returns every living process that descends from this shim, the shim included.
    pub(crate) fn family(&self) -> Vec<i32> {
        marked(&[&self.mark])
    }
}

/// Checks that no process is left of shims that have exited.
pub(crate) fn assert_nobody_is_left(shims: &mut [Shim]) {
    let marks: Vec<_> = shims.iter().map(|shim| shim.mark.as_str()).collect();
    assert_eq!(marked(&marks), Vec::<i32>::new(), "a shim left processes behind");
    for shim in shims {
        shim.is_over = true;
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        for _ in 0..100 {
            let left = marked(&[&self.mark]);
            for pid in &left {
                if let Some(start) = process_identity(*pid) {
                    let _ = signal_process(*pid, start, Signal::KILL);
                }
            }
            if left.is_empty() {
                return;
            }
        }
    }
}

/// A shim that is not started yet.
pub(crate) struct Prepared {
    pub(crate) temp: TempDir,
    pub(crate) run: RunDir,
    pub(crate) command: Command,
    mark: String,
}

impl Prepared {
    pub(crate) fn start(mut self) -> Shim {
        let process = self.command.spawn().unwrap();
        Shim { run: self.run, process, _temp: self.temp, mark: self.mark, is_over: false }
    }
}

/// Returns the command for a shim, marked so that its descendants can be found.
fn command(args: &[OsString]) -> (Command, String) {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let mark = format!("{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
    let mut command = Command::new(env!("CARGO_BIN_EXE_plexus-shim"));
    command
        .args(args)
        .env(MARK, &mark)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    (command, mark)
}

/// Returns the current content of a journal.
pub(crate) fn journal(run: &RunDir) -> String {
    let segments = run.segments().unwrap();
    segments
        .into_iter()
        .map(|number| std::fs::read_to_string(run.segment(number)).unwrap())
        .collect()
}

/// Returns every living process whose environment carries one of the marks.
fn marked(marks: &[&str]) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        mark_of(*pid).is_some_and(|mark| marks.contains(&mark.as_str()))
            && process_identity(*pid).is_some()
    })
    .collect()
}

fn mark_of(pid: i32) -> Option<String> {
    let environ = std::fs::read(Path::new("/proc").join(pid.to_string()).join("environ")).ok()?;
    let prefix = format!("{MARK}=");
    let mark = environ
        .split(|&byte| byte == 0)
        .find_map(|variable| variable.strip_prefix(prefix.as_bytes()))?;
    String::from_utf8(mark.to_vec()).ok()
}

/// Asks repeatedly until there is an answer.
pub(crate) fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < DEADLINE, "did not come within {DEADLINE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Changes the options to a stdin without a pipe.
pub(crate) fn without_stdin(options: &mut Options) {
    options.stdin = StdinSource::Null;
}
