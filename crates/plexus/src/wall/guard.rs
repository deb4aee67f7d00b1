//! Stands beside the egress process of a run, outside the wall, and outlives it: an agent whose
//! network is gone would only time out in words of its own.
//!
//! The stage starts it through a process that ends at once, so that the shim adopts it. When the
//! egress process ends before the agent, it says so in the agent's own stderr and ends the agent;
//! the shim, the journal and the chat then tell how the run ended, with or without a server.

use std::io::{self, BufRead as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, getppid, pidfd_open, pidfd_send_signal};

use super::egress::{GUARD, LOG, READY, SERVE, read};

/// Starts the guard, and ends when the egress process listens.
pub(super) fn start(path: &Path) -> Result<()> {
    let stage = getppid().context("the stage is gone")?;
    let mut guard = Command::new(std::env::current_exe()?)
        .args(["confine", GUARD])
        .arg(path)
        .arg(stage.as_raw_pid().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .context("start the guard of the egress process")?;
    let mut line = String::new();
    let pipe = guard.stdout.take().context("hear the guard of the egress process")?;
    io::BufReader::new(pipe).read_line(&mut line)?;
    if line.trim_end() != READY {
        bail!("{}", said(&read(path)?.dir.join(LOG)));
    }
    Ok(())
}

/// Starts the egress process, waits for its end, and ends the agent then.
#[expect(clippy::print_stdout, reason = "whoever started us waits for this line")]
#[expect(clippy::print_stderr, reason = "this is the agent's own stderr, which its chat shows")]
pub(super) fn stand(path: &Path, agent: &str) -> Result<()> {
    let pid = agent.parse().ok().and_then(Pid::from_raw).context("no agent is named")?;
    // The stage waits for us, so the pid is still its own; the agent keeps that pid.
    let agent = pidfd_open(pid, PidfdFlags::empty()).context("hold the agent")?;
    let log = read(path)?.dir.join(LOG);
    let mut options = std::fs::OpenOptions::new();
    let mut egress = Command::new(std::env::current_exe()?)
        .args(["confine", SERVE])
        .arg(path)
        .arg(pid.as_raw_pid().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(options.append(true).create(true).mode(0o600).open(&log)?)
        .spawn()
        .context("start the egress process")?;
    let mut line = String::new();
    let pipe = egress.stdout.take().context("hear the egress process")?;
    io::BufReader::new(pipe).read_line(&mut line)?;
    println!("{}", line.trim_end());
    io::stdout().flush()?;
    let status = egress.wait()?;
    if line.trim_end() != READY || has_ended(&agent)? {
        return Ok(());
    }
    eprintln!(
        "confine: the egress process of this run ended ({status}), and with it the agent's only \
         network, so the agent was stopped; next: send the prompt again, which starts another. {}",
        said(&log)
    );
    pidfd_send_signal(&agent, Signal::KILL).context("end the agent")
}

/// The end of what the egress process said.
fn said(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.trim_end().lines().next_back().unwrap_or_default().to_owned()
}

fn has_ended(process: &OwnedFd) -> Result<bool> {
    let mut end = [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
    Ok(poll(&mut end, Some(&Timespec::default()))? > 0)
}
