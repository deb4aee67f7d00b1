//! The writer: one thread that takes lists of changes from the queue and commits them in groups.

use std::sync::{Arc, OnceLock};

use super::Task;
use super::checkpoint::Checkpointer;
use super::commit::Committer;
use super::lock::Lock;
use super::presence::Presence;
use crate::contract::StoreError;
use crate::queue::{Job, Queue, Work};

/// Whether the store can still be trusted.
#[derive(Debug)]
pub(super) struct Health {
    failure: OnceLock<String>,
    presence: Presence,
}

impl Health {
    pub(super) fn new(presence: Presence) -> Self {
        Self { failure: OnceLock::new(), presence }
    }

    /// Checks that the files are still at their paths; once they are not, the store refuses
    /// everything for good.
    pub(super) fn check_files(&self) -> Result<(), StoreError> {
        self.look_for_files().inspect_err(|error| self.note(error))
    }

    /// Checks the same, but does not remember a failure: for callers that expect that a file may be
    /// gone.
    pub(super) fn look_for_files(&self) -> Result<(), StoreError> {
        self.check().and_then(|()| self.presence.check())
    }

    /// Refuses once a flush has failed, or the files were lost.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match self.failure.get() {
            None => Ok(()),
            Some(message) => Err(StoreError::Poisoned { message: message.clone() }),
        }
    }

    /// Records a failed flush, or lost files, for good.
    pub(super) fn note(&self, error: &StoreError) {
        // The first failure is the one that matters.
        if let StoreError::Poisoned { message } = error
            && self.failure.set(message.clone()).is_ok()
        {
            tracing::error!(%message, "the disk lost what was written: the store takes no more \
                changes, stop the server");
        }
    }
}

/// The writer's state, owned by its thread.
pub(super) struct Writer {
    pub(super) committer: Committer,
    pub(super) queue: Arc<Queue<Task>>,
    pub(super) health: Arc<Health>,
    pub(super) checkpointer: Checkpointer,
    /// Held until the last change is written.
    pub(super) lock: Lock,
}

impl Writer {
    /// Runs until the queue is closed and empty.
    pub(super) fn run(mut self) {
        while let Some(work) = self.queue.next() {
            match work {
                Work::Group(jobs) => self.commit_group(jobs),
                Work::Task(task) => task(&self.committer),
            }
            self.checkpointer.wrote(self.committer.conn(), &self.health);
        }
        self.checkpointer.finish(self.committer.conn(), &self.health);
        tracing::debug!(lock = ?self.lock, commits = self.committer.commits, "the store is closed");
    }

    fn commit_group(&mut self, jobs: Vec<Job>) {
        if let Err(error) = self.health.check() {
            for job in jobs {
                // A caller that has gone needs no answer.
                let _gone = job.reply.send(Err(error.clone()));
            }
            return;
        }
        let mut group = self.committer.write(jobs);
        match &group.result {
            Ok(_) => {
                if let Err(error) = self.health.check_files() {
                    group.result = Err(error);
                }
            }
            Err(error) => self.health.note(error),
        }
        self.committer.answer(group);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Runs also when this thread panics: no caller must wait for an answer that cannot come.
        self.queue.abandon();
    }
}
