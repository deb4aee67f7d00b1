//! Ends a child's processes on Windows: a job object holds them all, and closing it ends them.
//!
//! There is no polite request that a console program without a window would hear, so asking is
//! killing. A process that the child starts in the moment before it is put into its job is not in
//! it.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::process::{Child, Command};
use win32job::{ExtendedLimitInfo, Job};

/// The job that a child and its descendants are in; `None` when there is none, or no longer.
#[derive(Debug, Clone)]
pub(super) struct Group {
    job: Arc<Mutex<Option<Job>>>,
}

/// Nothing needs to be prepared.
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

    /// Closing the job ends everything in it at once: there is nothing to look for again.
    pub(super) fn kill_leftovers(&self) -> usize {
        self.kill();
        0
    }
}
