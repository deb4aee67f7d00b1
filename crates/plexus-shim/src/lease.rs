//! How long no server has been seen, and what follows from it.

use std::time::{Duration, SystemTime};

use crate::args::Options;
use crate::clock::Moment;
use crate::layout::RunDir;

/// The lease is never looked at more often than this.
const SHORTEST_LOOK: Duration = Duration::from_secs(1);

/// The lease is looked at this many times within the shortest limit, which bounds the error that a
/// changed system clock can cause.
const LOOKS_PER_LIMIT: u32 = 8;

/// Why a child is ended when no server is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lapse {
    /// It is warm and idle, and no server has come for it.
    Idle,
    /// No server has been there for very long, and the child has written nothing.
    Orphaned,
    /// It was on a leash: another server may have taken over.
    Leash,
    /// The run directory is gone, so nobody can ever read what it says.
    DirectoryGone,
}

/// Watches the lease of one run.
///
/// The file's modification time is only compared with its earlier value. Its age counts in
/// [`Moment`]s, so a change of the system's clock neither ends a child early nor lets it live on.
#[derive(Debug)]
pub(crate) struct Lease {
    run: RunDir,
    idle: Duration,
    orphan: Duration,
    leash: Option<Duration>,
    /// The file's modification time when we last looked.
    seen: Option<SystemTime>,
    looked_at: Moment,
    /// When a server last lived, as far as we know.
    touched_at: Moment,
}

impl Lease {
    /// Begins to watch; the start of the shim counts as a touch.
    pub(crate) fn new(run: RunDir, options: &Options, now: Moment) -> Self {
        let seen = run.lease_touched_at().ok().flatten();
        let Options { idle, orphan, leash, .. } = *options;
        Self { run, idle, orphan, leash, seen, looked_at: now, touched_at: now }
    }

    /// Returns when to look again.
    pub(crate) fn next_look(&self) -> Moment {
        let shortest = self.idle.min(self.orphan).min(self.leash.unwrap_or(Duration::MAX));
        self.looked_at.plus((shortest / LOOKS_PER_LIMIT).max(SHORTEST_LOOK))
    }

    /// Looks at the lease. `quiet_since` is when the child last said something.
    pub(crate) fn look(&mut self, now: Moment, quiet_since: Moment) -> Option<Lapse> {
        if std::fs::symlink_metadata(self.run.path())
            .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
        {
            return Some(Lapse::DirectoryGone);
        }
        // A lease that cannot be read counts as untouched.
        let seen = self.run.lease_touched_at().ok().flatten();
        if seen.is_some() && seen != self.seen {
            // It changed after we last looked. We believe the file's modification time when it
            // falls within that span. Otherwise we take the earliest possible moment, because a
            // leash must rather end too early than too late.
            let since_look = now.since(self.looked_at);
            let age = seen
                .and_then(|at| SystemTime::now().duration_since(at).ok())
                .filter(|age| *age <= since_look);
            self.touched_at = age.map_or(self.looked_at, |age| now.minus(age));
            self.seen = seen;
        }
        self.looked_at = now;
        let untouched = now.since(self.touched_at);
        if self.leash.is_some_and(|leash| untouched >= leash) {
            Some(Lapse::Leash)
        } else if untouched >= self.idle && self.run.is_idle() {
            Some(Lapse::Idle)
        } else if untouched >= self.orphan && now.since(quiet_since) >= self.orphan {
            Some(Lapse::Orphaned)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn lease(change: impl FnOnce(&mut Options)) -> (tempfile::TempDir, RunDir, Lease, Moment) {
        let temp = tempfile::tempdir().unwrap();
        let run = RunDir::new(temp.path().join("run"));
        run.create().unwrap();
        let mut options = Options::new(run.path(), "sh");
        change(&mut options);
        let start = Moment::now();
        let lease = Lease::new(run.clone(), &options, start);
        (temp, run, lease, start)
    }

    fn touch_as_of(run: &RunDir, time: SystemTime) {
        let file = std::fs::File::options().write(true).open(run.lease()).unwrap();
        file.set_modified(time).unwrap();
    }

    #[test]
    fn an_idle_child_ends_only_when_it_is_marked_idle() {
        let (_temp, run, mut lease, start) = lease(|_| {});
        let later = start.plus(SECOND * 300);
        assert_eq!(lease.look(later, start), None);
        run.mark_idle().unwrap();
        assert_eq!(lease.look(later, start), Some(Lapse::Idle));
    }

    #[test]
    fn output_keeps_an_orphan_alive() {
        let (_temp, _run, mut lease, start) = lease(|options| options.orphan = SECOND * 100);
        let later = start.plus(SECOND * 100);
        assert_eq!(lease.look(later, start.plus(SECOND)), None);
        assert_eq!(lease.look(later, start), Some(Lapse::Orphaned));
    }

    #[test]
    fn a_touch_lengthens_the_leash_and_a_set_clock_does_not() {
        let (_temp, run, mut lease, start) = lease(|options| options.leash = Some(SECOND * 100));
        assert_eq!(lease.look(start.plus(SECOND * 99), start), None);
        // The clock says next year: the touch counts from the last look, no later.
        touch_as_of(&run, SystemTime::now() + SECOND * 31_536_000);
        assert_eq!(lease.look(start.plus(SECOND * 100), start), None);
        assert_eq!(lease.look(start.plus(SECOND * 198), start), None);
        assert_eq!(lease.look(start.plus(SECOND * 199), start), Some(Lapse::Leash));
    }

    #[test]
    fn a_directory_that_is_gone_ends_the_child() {
        let (temp, _run, mut lease, start) = lease(|_| {});
        temp.close().unwrap();
        assert_eq!(lease.look(start, start), Some(Lapse::DirectoryGone));
    }
}
