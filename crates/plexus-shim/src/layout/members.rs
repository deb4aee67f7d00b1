//! Finds the processes of a run without its shim.
//!
//! A shim ends every process that its child has started. A shim that is killed ends none of them,
//! and then a process's parent tells nothing either: an orphan's parent is init. So the child has
//! two marks that every process it starts inherits: the name of its run in the environment, and the
//! number of its run as a resource limit. A program that clears its environment, as daemons do,
//! keeps its limits. Only a process that drops both on purpose is not found this way; while its
//! parents live, they still show it.

use std::io;
use std::os::unix::ffi::OsStrExt as _;

use rustix::process::{Resource, Rlimit, setrlimit};

use super::{RunDir, Stat};

/// The variable that names the run directory in the environment of the child and of all that it
/// starts.
pub const RUN_VARIABLE: &str = "PLEXUS_RUN";

/// The resource limit that carries the number: how many microseconds a real-time process may run
/// without a pause. Hardly any program sets it.
const MARKED_LIMIT: Resource = Resource::Rttime;

/// The limit's name in `/proc/PID/limits`.
const MARKED_LIMIT_NAME: &str = "Max realtime timeout";

/// The smallest mark. As a limit it is 146,000 years, which restricts no process.
const SMALLEST_MARK: u64 = 1 << 62;

impl RunDir {
    /// Marks this process, and all that it starts from now on, with the number of this run.
    ///
    /// # Errors
    /// When the limit was already lower; then only the environment identifies the run.
    pub(crate) fn mark_this_process(&self) -> io::Result<()> {
        let mark = Some(self.mark());
        Ok(setrlimit(MARKED_LIMIT, Rlimit { current: mark, maximum: mark })?)
    }

    /// Returns the number of this run: FNV-1a of its path, in 61 bits. It is the same in every
    /// release, because a server may be newer than its shims.
    fn mark(&self) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in self.path().as_os_str().as_bytes() {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        SMALLEST_MARK | (hash >> 3)
    }

    /// Returns pid and start time of every living process that carries a mark of this run.
    pub fn members(&self) -> Vec<(i32, u64)> {
        let mut entry = RUN_VARIABLE.as_bytes().to_vec();
        entry.push(b'=');
        entry.extend_from_slice(self.path().as_os_str().as_bytes());
        let mark = self.mark().to_string();
        // Without `/proc` no process can be found.
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids =
            processes.filter_map(|process| process.file_name().to_str()?.parse::<i32>().ok());
        pids.filter_map(|pid| {
            // Read before the marks: if another process gets the pid in between, it has another
            // start time and is not signalled.
            let stat = Stat::read(pid).filter(Stat::lives)?;
            let environment = || std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let is_named = || environment().split(|byte| *byte == 0).any(|it| it == entry);
            (has_limit(pid, &mark) || is_named()).then_some((pid, stat.start))
        })
        .collect()
    }
}

/// Returns whether the marked limit of a process has this value.
fn has_limit(pid: i32, mark: &str) -> bool {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    let mut lines = limits.lines().filter_map(|line| line.strip_prefix(MARKED_LIMIT_NAME));
    lines.any(|values| values.split_ascii_whitespace().any(|value| value == mark))
}
