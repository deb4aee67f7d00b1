//! Runs that an earlier server left: those that live are picked up, and chats without one are
//! served anew.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use plexus_core::SessionId;
use plexus_shim::layout::{LayoutError, PidFile, RunDir};
use plexus_store::{
    PageRequest, RunRecord, SessionFilter, SessionRecord, SessionStatus, StoreError, limits,
};
use tokio::time::Instant;

use super::{LOOK_AGAIN, Supervisor};
use crate::hold::Hold;
use crate::orphans;
use crate::parking::waker::parked_of;
use crate::run::is_of_earlier_boot;
use crate::run::state::RunState;
use crate::start::StartError;
use crate::wait::patiently;

/// How long the shims that were started by an earlier server may take, all together, until they
/// have written their `pid.json`.
const LATE_SHIM: Duration = Duration::from_secs(5);

impl Supervisor {
    /// At start: picks up every run that has not ended, and starts every chat that has none. Waits
    /// until `deadline` for a store that does not answer.
    pub(crate) async fn reattach(&self, deadline: Instant) -> Result<usize, StoreError> {
        let read = || self.store.open_runs();
        let mut runs = patiently("read the runs of before", deadline, read).await?;
        let ours = self.store.lease().map(|lease| lease.server);
        runs.retain(|run| run.server == ours);
        let count = runs.len();
        let dirs = runs.iter().map(|run| RunDir::new(self.settings.run_dir(run.key))).collect();
        let pid_files = wait_for_pid_files(dirs).await;
        let mut unreachable = HashSet::new();
        for (run, (dir, pid_file)) in runs.into_iter().zip(pid_files) {
            if let Err(error) = self.pick_up(&run, &dir, pid_file, deadline).await {
                // Its child may live: a second process on the same conversation would be worse than
                // a chat that waits.
                tracing::error!(run = %run.key, %error, "a run could not be picked up; restart \
                    the server once the cause is gone");
                unreachable.insert(run.key.session);
            }
        }
        // A question that waits, of the network for example, need not be one of the open chat. One
        // that expires in between makes a session running, so the running ones are read last.
        for status in [SessionStatus::AwaitingPermission, SessionStatus::Running] {
            self.start_unserved(status, &unreachable, deadline).await?;
        }
        Ok(count)
    }

    /// Starts the open chat of each session in `status` whose chat has no process.
    async fn start_unserved(
        &self,
        status: SessionStatus,
        unreachable: &HashSet<SessionId>,
        deadline: Instant,
    ) -> Result<(), StoreError> {
        let mut next = Some(PageRequest::first(limits::MAX_PAGE_ITEMS));
        while let Some(page) = next {
            let filter = SessionFilter { status: Some(status), ..SessionFilter::default() };
            let read = || self.store.sessions(filter.clone(), page);
            let sessions = patiently("read the running sessions", deadline, read).await?;
            for session in
                sessions.items.iter().filter(|session| !unreachable.contains(&session.id))
            {
                // Nothing is served before every read has succeeded, so it may be tried again.
                let start = || self.start_if_nobody_serves(session);
                patiently("look at a running chat", deadline, start).await?;
            }
            next = page.then(sessions.next);
        }
        Ok(())
    }

    async fn start_if_nobody_serves(&self, session: &SessionRecord) -> Result<(), StoreError> {
        let Some(number) = session.open_chat() else { return Ok(()) };
        // A parked agent has no process on purpose.
        if !parked_of(&self.approvals, session.id).await?.is_empty() {
            return Ok(());
        }
        let chat = self.store.chat(session.id, Some(number)).await?;
        if chat.server != self.store.lease().map(|lease| lease.server) {
            return Ok(());
        }
        let served = match chat.run {
            Some(n) => self.handle(session.id).is_some_and(|handle| handle.key.n == n),
            None => false,
        };
        if !served {
            self.serve(session.id, number);
        }
        Ok(())
    }

    async fn pick_up(
        &self,
        stored: &RunRecord,
        dir: &RunDir,
        pid_file: Result<Option<PidFile>, LayoutError>,
        deadline: Instant,
    ) -> Result<(), StartError> {
        plexus_fault::point!("reattach.look");
        let pid_file = pid_file?;
        let has_begun = stored.journal.segment > 0 && is_of_earlier_boot(&self.settings, stored)
            || stored.translation.as_ref().is_some_and(RunState::is_woken);
        if pid_file.is_none() && dir.read_exit()?.is_none() && has_begun {
            // The child ended with the machine, or was started to ask again about a parked call.
            // The store says what happens to its chat. Removing the directory makes a late shim
            // leave.
            orphans::end_members(dir);
            self.starter.remove_dir(stored.key, dir);
        } else if pid_file.is_none() && dir.read_exit()?.is_none() {
            // The server ended between the row and the process. Removing the directory makes a late
            // shim leave; the chat is served anew.
            return self.abandon(stored, dir, deadline).await;
        }
        let hold = Hold::found(pid_file.as_ref()).map_err(StartError::Watch)?;
        let run = self.starter.found(self.keeper(), stored, hold)?;
        // A run whose child is alive continues even when no place is free: the bound on running
        // children applies to new starts only.
        self.adopt(run, Arc::clone(&self.places).try_acquire_owned().ok());
        Ok(())
    }

    async fn abandon(
        &self,
        stored: &RunRecord,
        dir: &RunDir,
        deadline: Instant,
    ) -> Result<(), StartError> {
        // A shim that was killed before it could write anything has left a child that nobody else
        // will find.
        orphans::end_members(dir);
        let why = "the server stopped before the process was started";
        let end = || self.starter.end_unstarted(stored.key, dir, why);
        Ok(patiently("end a run that never began", deadline, end).await?)
    }
}

/// Reads what the shims of an earlier server wrote, and waits a little for those that were just
/// started. There is one deadline, so that many unreadable files hold the start no longer than one.
async fn wait_for_pid_files(
    dirs: Vec<RunDir>,
) -> Vec<(RunDir, Result<Option<PidFile>, LayoutError>)> {
    let deadline = Instant::now() + LATE_SHIM;
    let wait = async |dir: RunDir| {
        let pid_file = wait_for_pid_file(&dir, deadline).await;
        (dir, pid_file)
    };
    join_all(dirs.into_iter().map(wait)).await
}

/// Waits until `deadline` for the file of one shim. A file that cannot be read is an error, not an
/// absence.
async fn wait_for_pid_file(
    dir: &RunDir,
    deadline: Instant,
) -> Result<Option<PidFile>, LayoutError> {
    loop {
        match dir.read_pid() {
            Ok(Some(pid)) => return Ok(Some(pid)),
            Ok(None)
                if !dir.path().exists()
                    || dir.read_exit()?.is_some()
                    || Instant::now() >= deadline =>
            {
                return Ok(None);
            }
            Ok(None) => tokio::time::sleep(LOOK_AGAIN).await,
            // Too many open files, a slow disk: worth another look before a living child is given
            // up.
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn unreadable_pid_files_share_one_deadline() {
        let folder = tempfile::tempdir().unwrap();
        let dirs: Vec<RunDir> = (0..20)
            .map(|n| {
                let dir = RunDir::new(folder.path().join(n.to_string()));
                dir.create().unwrap();
                std::fs::write(dir.pid_file(), "{\"format_ver").unwrap();
                dir
            })
            .collect();
        // Virtual time: it passes only while every task sleeps.
        let begun = Instant::now();
        let read = wait_for_pid_files(dirs).await;
        assert!(read.len() == 20 && read.iter().all(|(_, pid_file)| pid_file.is_err()));
        assert!(begun.elapsed() < LATE_SHIM * 2, "{:?}", begun.elapsed());
    }
}
