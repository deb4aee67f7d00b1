//! Capabilities and descriptors: what a process has by inheritance goes before the program starts.

use std::fs;

use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::stage::StageError;

/// The capabilities that root keeps: power over files and nothing else. Without it, root could not
/// use a working directory that belongs to another user, such as a volume of a container.
/// `DAC_READ_SEARCH` is not among them, because it opens files by handle, past every path. A
/// capability that is not in the bounding set cannot come back when a program is started.
const KEPT_BY_ROOT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID);

/// The highest number that a capability can have.
const LAST_CAPABILITY: u32 = 63;

/// Drops all capabilities but those over files that root keeps.
pub(crate) fn drop_capabilities() -> Result<(), StageError> {
    let fail = |error: rustix::io::Errno| StageError::new("drop the capabilities", error);
    let now = rustix::thread::capabilities(None).map_err(fail)?;
    let kept = if rustix::process::getuid().is_root() {
        now.permitted & KEPT_BY_ROOT
    } else {
        CapabilitySet::empty()
    };
    if now.effective.contains(CapabilitySet::SETPCAP) {
        for number in 0..=LAST_CAPABILITY {
            let bit = CapabilitySet::from_bits_retain(1 << number);
            // Numbers that this kernel does not know are an error of the question, not a right.
            let is_there = rustix::thread::capability_is_in_bounding_set(bit).unwrap_or(false);
            if is_there && !kept.contains(bit) {
                rustix::thread::remove_capability_from_bounding_set(bit).map_err(fail)?;
            }
        }
    }
    rustix::thread::clear_ambient_capability_set().map_err(fail)?;
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).map_err(fail)
}

/// Closes every descriptor from 3 up. The stage has one thread and holds none of them itself: each
/// was left open by the process that started it.
pub(crate) fn close_descriptors() -> Result<(), StageError> {
    let fail = |error: std::io::Error| StageError::new("list the open descriptors", error);
    let mut numbers = Vec::new();
    for entry in fs::read_dir("/proc/self/fd").map_err(fail)? {
        let name = entry.map_err(fail)?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // The descriptor of the listing itself is closed by now.
        match nix::unistd::close(number) {
            Ok(()) | Err(nix::errno::Errno::EBADF) => {}
            Err(error) => {
                return Err(StageError::new(format!("close the descriptor {number}"), error));
            }
        }
    }
    Ok(())
}

/// Limits how large a file this process and those that it starts may make. The kernel ends a
/// process that wants more with `SIGXFSZ`.
pub(crate) fn limit_files(bytes: u64) -> Result<(), StageError> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let most = getrlimit(Resource::Fsize).maximum.map_or(bytes, |most| most.min(bytes));
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    setrlimit(Resource::Fsize, limit)
        .map_err(|error| StageError::new("limit the size of files", error))
}
