//! Open files: as many as the system lets us have, and no more connections than fit.

use plexus_transport::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are kept from connections: the store, journals and watches of running children,
/// programs that are being started.
const RESERVE: u64 = 1_024;

/// The fewest connections that are served, whatever the system says.
const LEAST_CONNECTIONS: usize = 64;

/// Raises the limit of open files as far as this process may, and lowers the bound of connections
/// to what then fits. Beyond that bound a connection gets an answer or replaces a silent one;
/// without a free descriptor it could not even be refused.
pub(super) fn make_room(limits: &mut Limits) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(%error, "could not raise the limit of open files");
    }
    let Some(files) = getrlimit(Resource::Nofile).current else { return };
    let fit = fitting(files);
    if fit < limits.connections {
        tracing::warn!(
            files,
            connections = fit,
            "fewer connections are taken than limits.connections says: the system allows no more \
             open files"
        );
        limits.connections = fit;
    }
}

/// Returns how many connections are taken when this many files may be open. Children need some too,
/// so half of a small limit is left for them.
fn fitting(files: u64) -> usize {
    let left = files.saturating_sub(RESERVE).max(files / 2);
    usize::try_from(left).unwrap_or(usize::MAX).max(LEAST_CONNECTIONS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_files_are_kept_from_connections() {
        for (files, expected) in
            [(0, 64), (256, 128), (1_024, 512), (2_048, 1_024), (20_000, 18_976)]
        {
            assert_eq!(fitting(files), expected, "{files}");
        }
    }

    #[test]
    fn a_bound_that_fits_stays_and_one_that_does_not_is_lowered() {
        for wanted in [10, usize::MAX] {
            let mut limits = Limits { connections: wanted, ..Limits::default() };
            make_room(&mut limits);
            assert!(
                limits.connections <= wanted && limits.connections >= wanted.min(LEAST_CONNECTIONS)
            );
            let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
            assert_eq!(current, maximum);
            assert!(
                current
                    .is_none_or(|files| wanted == 10 || limits.connections as u64 <= files.max(64))
            );
        }
    }
}
