//! The Bash tool: a real shell in its own session, so that a signal to our process group does not
//! reach it, as with the CLI.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

/// How long to wait for output after the shell has ended: a process it left running may hold the
/// pipe for ever.
const GRACE_FOR_OUTPUT: Duration = Duration::from_millis(100);

/// A program that starts another one in a new session. Without it, a new process group must
/// suffice.
const SETSID: &str = "/usr/bin/setsid";

/// A running shell. Dropping it kills the shell and its remaining children.
#[derive(Debug)]
pub(crate) struct Shell {
    child: Child,
    /// Also the id of its session and process group.
    pid: Option<u32>,
}

/// The output and exit code of a command.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The exit code, or 128 plus the signal.
    pub(crate) code: i32,
}

impl Shell {
    /// Starts a command whose output we read.
    pub(crate) fn start(command: &str, cwd: &Path) -> io::Result<Self> {
        Self::spawn(command, cwd, Stdio::piped(), Stdio::piped())
    }

    /// Starts a command whose output goes to a file.
    pub(crate) fn start_into(command: &str, cwd: &Path, file: File) -> io::Result<Self> {
        let stderr = file.try_clone()?;
        Self::spawn(command, cwd, file.into(), stderr.into())
    }

    fn spawn(script: &str, cwd: &Path, stdout: Stdio, stderr: Stdio) -> io::Result<Self> {
        let mut command = if Path::new(SETSID).exists() {
            let mut command = Command::new(SETSID);
            command.arg("bash");
            command
        } else {
            let mut command = Command::new("bash");
            #[cfg(unix)]
            command.process_group(0);
            command
        };
        let child = command
            .arg("-c")
            .arg(script)
            .current_dir(cwd)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()?;
        let pid = child.id();
        Ok(Self { child, pid })
    }

    /// Waits for the command and returns its output.
    pub(crate) async fn finish(mut self) -> io::Result<Output> {
        let stdout = self.child.stdout.take();
        let stderr = self.child.stderr.take();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let status = {
            let mut read = std::pin::pin!(async {
                tokio::join!(drain(stdout, &mut out), drain(stderr, &mut err))
            });
            let mut read_all = false;
            let status = loop {
                tokio::select! {
                    _ = &mut read, if !read_all => read_all = true,
                    status = self.child.wait() => break status?,
                }
            };
            if !read_all {
                // Later output belongs to a process that outlived the shell.
                let _ = tokio::time::timeout(GRACE_FOR_OUTPUT, read).await;
            }
            status
        };
        // The shell has ended by itself: processes that it left running stay, as with the real CLI.
        self.pid = None;
        Ok(Output {
            stdout: String::from_utf8_lossy(&out).into_owned(),
            stderr: String::from_utf8_lossy(&err).into_owned(),
            code: exit_code(status),
        })
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(pid) =
            self.pid.and_then(|pid| rustix::process::Pid::from_raw(i32::try_from(pid).ok()?))
        {
            use rustix::process::{Signal, kill_process, kill_process_group};
            // Before `setsid` has run there is no group yet, only the process itself. Both may be
            // gone.
            if kill_process_group(pid, Signal::KILL).is_err() {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        #[cfg(not(unix))]
        if self.pid.is_some() {
            let _ = self.child.start_kill();
        }
    }
}

async fn drain(from: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) {
    if let Some(mut from) = from {
        // A read error ends the output like an end of file does.
        let _ = from.read_to_end(into).await;
    }
}

fn exit_code(status: std::process::ExitStatus) -> i32 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return 128 + signal;
    }
    status.code().unwrap_or(-1)
}
