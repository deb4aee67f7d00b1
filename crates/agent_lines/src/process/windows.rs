//! Ends a child's processes on Windows: a job object holds them all, and closing it ends them.
//!
//! A console program without a window receives no polite request, so asking it to end kills it. The
//! job misses a process that the child starts in the moment before it is put into the job.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::process::{Child, Command};
use win32job::{ExtendedLimitInfo, Job};

/// The job of a child and its descendants; `None` when there is no job, or no longer.
#[derive(Debug, Clone)]
pub(super) struct Group {
    job: Arc<Mutex<Option<Job>>>,
}

/// Does nothing: a job needs no preparation.
pub(super) fn prepare(_command: &mut Command) {}

impl Group {
    pub(super) fn of(child: &Child, _mark: String) -> Self {
        let job = child.raw_handle().and_then(|handle| {
            // Without a job the child alone is killed, when its handle is dropped.
            let job =
                Job::create_with_limit_info(ExtendedLimitInfo::new().limit_kill_on_job_close())
                    .ok()?;
            job.assign_process(handle as isize).ok()?;
            Some(job)
        });
        Self { job: Arc::new(Mutex::new(job)) }
    }

    pub(super) fn ask_to_end(&self) {
        self.kill();
    }

    pub(super) fn kill(&self) {
        drop(self.job.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Closes the job, which ends everything in it at once: no second search is needed.
    pub(super) fn kill_leftovers(&self) -> bool {
        self.kill();
        false
    }
}
