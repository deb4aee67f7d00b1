//! Stands beside the egress process of a run, outside the wall, and outlives it: an agent whose
//! network is gone would only time out in words of its own.
//!
//! The stage starts it through a process that ends at once, so that the shim adopts it. When the
//! egress process ends before the agent, it says so in the agent's own stderr and ends the agent;
//! the shim, the journal and the chat then tell how the run ended, with or without a server. While
//! there is no agent yet, the stage itself is told why there is no egress process.

use std::io::{self, BufRead as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, getppid, pidfd_open, pidfd_send_signal};

use super::egress::{GUARD, LOG, READY, SERVE, StageLine, read};

/// Starts the guard, and ends at once.
pub(super) fn start(path: &Path, stage: StageLine) -> Result<()> {
    let started = getppid().context("the stage is gone").and_then(|agent| {
        Command::new(std::env::current_exe()?)
            .args(["confine", GUARD])
            .arg(path)
            .arg(agent.as_raw_pid().to_string())
            .stdin(stage.pass_on()?)
            .process_group(0)
            .spawn()
            .context("start the guard of the egress process")
    });
    stage.or_refuse(started).map(drop)
}

/// Starts the egress process, waits for its end, and ends the agent then. Ends with the agent.
pub(super) fn stand(path: &Path, agent: &str, stage: StageLine) -> Result<()> {
    let started = hold(agent, &stage).and_then(|(pid, agent)| {
        let log = read(path)?.dir.join(LOG);
        let mut egress = serve(path, pid, &log, &stage)?;
        let ready = egress.stdout.take().context("hear the egress process")?;
        // Our own child, which nobody else reaps.
        let end = pidfd_open(Pid::from_child(&egress), PidfdFlags::empty());
        let end = end.context("hold the egress process")?;
        Ok((Guarded { agent, egress, end, log }, ready))
    });
    // The stage hears of an egress process that ends, so we do not keep the connection.
    let (_, (guarded, ready)) = stage.or_refuse(started)?;
    if says_ready(ready) {
        guarded.watch();
    }
    Ok(())
}

/// Whether the egress process has every door. If not the stage knows, and starts no agent.
fn says_ready(pipe: impl io::Read) -> bool {
    let mut line = String::new();
    let read = io::BufReader::new(pipe).read_line(&mut line);
    read.is_ok() && line.trim_end() == READY
}

/// An agent that may run, and the egress process that it cannot do without.
struct Guarded {
    agent: OwnedFd,
    egress: Child,
    /// The egress process too.
    end: OwnedFd,
    log: PathBuf,
}

impl Guarded {
    /// Waits for the end of either. Returns no error: nobody but us would end the agent.
    #[expect(clippy::print_stderr, reason = "this is the agent's own stderr, which its chat shows")]
    fn watch(mut self) {
        let mut ends = [&self.agent, &self.end].map(|end| PollFd::new(end, PollFlags::IN));
        // Interrupted, or short of memory for a moment.
        while poll(&mut ends, None).is_err() {}
        if !ends[0].revents().is_empty() {
            // We hold its stderr open, for whose end the shim waits.
            return;
        }
        let how = match self.egress.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        eprintln!(
            "confine: the egress process of this run ended ({how}), and with it the agent's only \
             network, so the agent was stopped; next: send the prompt again, which starts \
             another. {}",
            said(&self.log)
        );
        let _has_ended_meanwhile = pidfd_send_signal(&self.agent, Signal::KILL);
    }
}

/// Holds the process that becomes the agent, which keeps its pid.
fn hold(agent: &str, stage: &StageLine) -> Result<(Pid, OwnedFd)> {
    let pid = agent.parse().ok().and_then(Pid::from_raw).context("no agent is named")?;
    let agent = pidfd_open(pid, PidfdFlags::empty()).context("hold the agent")?;
    // Afterwards, because the pid could have become another's before.
    if !stage.waits()? {
        bail!("the stage is gone");
    }
    Ok((pid, agent))
}

fn serve(path: &Path, agent: Pid, log: &Path, stage: &StageLine) -> Result<Child> {
    let mut options = std::fs::OpenOptions::new();
    Command::new(std::env::current_exe()?)
        .args(["confine", SERVE])
        .arg(path)
        .arg(agent.as_raw_pid().to_string())
        .stdin(stage.pass_on()?)
        .stdout(Stdio::piped())
        .stderr(options.append(true).create(true).mode(0o600).open(log)?)
        .spawn()
        .context("start the egress process")
}

/// The end of what the egress process said.
fn said(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.trim_end().lines().next_back().unwrap_or_default().to_owned()
}
