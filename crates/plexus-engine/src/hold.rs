//! What the server holds of a shim: a way to see its end and to ask for it. Never a bare pid, which
//! may be a stranger's by now.

use std::os::fd::OwnedFd;
use std::process::ExitStatus;

use plexus_shim::layout::{PidFile, RunDir};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::unix::AsyncFd;
use tokio::task::JoinHandle;

use super::orphans;

/// A shim, by a descriptor that stays its own.
pub(crate) struct Hold {
    state: State,
    /// Reaps the shim when it is our child; a shim of an earlier server has been adopted by init.
    child: Option<tokio::process::Child>,
    /// How it ended, once it has and was our child.
    status: Option<ExitStatus>,
}

enum State {
    Held(AsyncFd<OwnedFd>),
    Gone,
}

impl Hold {
    /// Holds a shim that was just started.
    pub(crate) fn started(child: tokio::process::Child) -> std::io::Result<Self> {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        // Not reaped yet, so the pid is still its own.
        let state = match pid {
            Some(pid) => State::Held(watchable(pidfd_open(pid, PidfdFlags::empty())?)?),
            None => State::Gone,
        };
        Ok(Self { state, child: Some(child), status: None })
    }

    /// Looks for the shim of an earlier server: gone, unless pid and start time agree.
    pub(crate) fn found(pid_file: Option<&PidFile>) -> std::io::Result<Self> {
        let gone = Self { state: State::Gone, child: None, status: None };
        let Some(pid_file) = pid_file else { return Ok(gone) };
        let Some(pid) = Pid::from_raw(pid_file.shim_pid) else { return Ok(gone) };
        let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty()) else { return Ok(gone) };
        // Held first, compared second: between the two the number cannot change hands.
        if !pid_file.shim_lives() {
            return Ok(gone);
        }
        Ok(Self { state: State::Held(watchable(descriptor)?), child: None, status: None })
    }

    /// Waits until the shim has ended.
    pub(crate) async fn ended(&mut self) {
        if let State::Held(descriptor) = &self.state
            && let Err(error) = descriptor.readable().await
        {
            tracing::warn!(%error, "could not watch a shim");
        }
        self.state = State::Gone;
        let Some(mut child) = self.child.take() else { return };
        match child.wait().await {
            Ok(status) => self.status = Some(status),
            Err(error) => tracing::warn!(%error, "could not reap a shim"),
        }
    }

    /// How the shim itself ended, if that was seen. It matters when the shim ended before it could
    /// record how its child ended.
    pub(crate) fn status(&self) -> Option<ExitStatus> {
        self.status
    }

    /// Whether its end was seen.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.state, State::Gone)
    }

    /// Asks the shim to end its child with everything it started. Asked twice, it goes faster.
    pub(crate) fn ask_to_end(&self) {
        self.signal(Signal::TERM);
    }

    fn signal(&self, signal: Signal) {
        if let State::Held(descriptor) = &self.state
            && let Err(error) = pidfd_send_signal(descriptor.get_ref(), signal)
        {
            tracing::debug!(%error, "a shim could not be signalled");
        }
    }

    /// Ends shim and child without asking, for when the shim does not answer or was killed itself.
    /// Processes that only the name of their run identifies are ended on a separate thread, which
    /// polls so that nobody waits; a caller that has to know that it is done waits for the handle.
    pub(crate) fn kill(&self, dir: &RunDir) -> JoinHandle<()> {
        let pid_file = dir.read_pid().ok().flatten();
        let child = pid_file
            .as_ref()
            .filter(|pid| pid.child_lives())
            .map(|pid| (pid.child_pid, pid.child_start));
        // The descendants are listed while their parents still live: an orphan's parent is init,
        // and tells nothing.
        let descendants = child.map(|(pid, _)| orphans::descendants(pid)).unwrap_or_default();
        self.signal(Signal::KILL);
        orphans::end(child.into_iter().chain(descendants));
        let dir = dir.clone();
        tokio::task::spawn_blocking(move || orphans::end_members(&dir))
    }
}

/// Registers a descriptor with the runtime.
fn watchable(descriptor: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is the same open descriptor for as long as it lives, and the `AsyncFd`
    // owns it from here on.
    #[expect(
        unsafe_code,
        reason = "the runtime asks for a promise that only the type of the descriptor can keep, \
            and this one does"
    )]
    let registered = unsafe { AsyncFd::register(descriptor) };
    registered.map_err(|error| error.into_parts().1)
}
