//! Whoever belongs to a run, found without its shim.
//!
//! A shim ends everything that its child has started, wherever that moved. One that is killed ends
//! nobody, and then parents tell nothing either: an orphan's parent is init. So the child has two
//! marks that every process it starts inherits: the name of its run in the environment, and a
//! number of its run as a resource limit. A program that clears its environment, as daemons do,
//! keeps its limits. Only a process that drops both on purpose is not found this way; while its
//! parents live, they still show it.

use std::io;
use std::os::unix::ffi::OsStrExt as _;

use rustix::process::{Resource, Rlimit, setrlimit};

use super::{RunDir, Stat};

/// The variable that names the run directory in the environment of the child and of whatever it
/// starts.
pub const RUN_VARIABLE: &str = "PLEXUS_RUN";

/// The limit that carries the number: how many microseconds a real-time process may run without a
/// pause. Hardly anybody sets it.
const MARKED_LIMIT: Resource = Resource::Rttime;

/// How `/proc/PID/limits` calls it.
const MARKED_LIMIT_NAME: &str = "Max realtime timeout";

/// The smallest mark. As a limit it is 146,000 years, which limits nobody.
const SMALLEST_MARK: u64 = 1 << 62;

impl RunDir {
    /// Gives this process, and whatever it starts from now on, the number of this run.
    ///
    /// # Errors
    /// When the limit was lower already; then only the environment tells.
    pub(crate) fn mark_this_process(&self) -> io::Result<()> {
        let mark = Some(self.mark());
        Ok(setrlimit(MARKED_LIMIT, Rlimit { current: mark, maximum: mark })?)
    }

    /// The number of this run: FNV-1a of its path, in 61 bits. It is the same in every release,
    /// because a server may be newer than its shims.
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
        // No `/proc` means nobody to find.
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids =
            processes.filter_map(|process| process.file_name().to_str()?.parse::<i32>().ok());
        pids.filter_map(|pid| {
            // Read before the marks: a number that changes hands in between has another start time,
            // and is not signalled.
            let stat = Stat::read(pid).filter(Stat::lives)?;
            let environment = || std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let is_named = || environment().split(|byte| *byte == 0).any(|it| it == entry);
            (has_limit(pid, &mark) || is_named()).then_some((pid, stat.start))
        })
        .collect()
    }
}

/// Whether the marked limit of a process is this number.
fn has_limit(pid: i32, mark: &str) -> bool {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    let mut lines = limits.lines().filter_map(|line| line.strip_prefix(MARKED_LIMIT_NAME));
    lines.any(|values| values.split_ascii_whitespace().any(|value| value == mark))
}
