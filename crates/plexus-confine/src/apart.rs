//! Listed paths that lie in a directory which the program may write as a whole, such as its `/tmp`.
//! Full tier only.
//!
//! Landlock adds rights and takes none away: whoever may write `/tmp` may write all that is mounted
//! below it. So what the [ring](crate::ring) hides is mounted elsewhere, and a link leads there
//! from its own name. A command could put something else in the place of that link, or of a
//! directory on the way to anything listed: the first directory below `/tmp` on each way is a
//! read-only file system of its own, which can be neither renamed nor removed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::machine::Tier;
use crate::plan::{Plan, PlanError};

/// The directories of its own that a program within the full tier may write as a whole.
pub(crate) const OPEN: &[&str] = &["/tmp", "/var/tmp", "/dev/shm"];

/// Where that which is kept apart is mounted.
const PLACE: &str = "/.plexus";

impl Plan {
    /// Keeps listed paths below `hidden` out of directories that the program may write as a whole,
    /// so that the ring can hide them.
    ///
    /// # Errors
    /// When one lies in such a directory itself: its name could be given to something else.
    pub fn keep_apart(&mut self, hidden: &[PathBuf]) -> Result<(), PlanError> {
        if self.tier != Tier::Full {
            return Ok(());
        }
        let is_hidden = |path: &Path| hidden.iter().any(|root| path.starts_with(root));
        let listed: BTreeSet<&PathBuf> = self.read.iter().chain(&self.write).collect();
        // What lies below a path that commands see is seen there.
        let is_seen = |path: &Path| {
            let mut above = path.ancestors().skip(1);
            above.any(|above| listed.contains(&above.to_owned()) && !is_hidden(above))
        };
        let mut apart: BTreeSet<PathBuf> = BTreeSet::new();
        for path in listed.iter().copied().filter(|path| is_hidden(path) && !is_seen(path)) {
            // In order, so that a directory comes before what lies in it.
            if first_below_open(path).is_none() || path.ancestors().any(|it| apart.contains(it)) {
                continue;
            }
            if path.parent().is_some_and(is_open) {
                return Err(PlanError::TooMuch {
                    role: "file of the agent",
                    path: path.clone(),
                    reason: "its commands could take its place; move it into a directory of its own",
                });
            }
            apart.insert(path.clone());
        }
        self.apart = apart;
        Ok(())
    }

    /// Returns where a listed path is mounted.
    pub(crate) fn inside(&self, path: &Path) -> PathBuf {
        let found = self
            .apart
            .iter()
            .enumerate()
            .find_map(|(number, root)| Some((number, path.strip_prefix(root).ok()?)));
        match found {
            // Joining nothing would add a slash, which no file has.
            Some((number, rest)) if rest.as_os_str().is_empty() => place(number),
            Some((number, rest)) => place(number).join(rest),
            None => path.to_owned(),
        }
    }

    /// Returns the directories that hold the way to listed paths in directories that the program
    /// may write as a whole.
    pub(crate) fn pins(&self) -> BTreeSet<PathBuf> {
        let mounted = self.read.iter().chain(&self.write).chain(self.layers.keys());
        let mounted: BTreeSet<&PathBuf> = mounted.collect();
        let names = mounted.iter().copied().chain(self.links.keys());
        let pins =
            names.filter(|name| !is_name_of_a_pin(name)).filter_map(|it| first_below_open(it));
        // Whoever lists such a directory, or one in it, means all of it.
        let is_listed = |pin: &PathBuf| pin.ancestors().any(|it| mounted.contains(&it.to_owned()));
        pins.filter(|pin| !is_listed(pin)).collect()
    }
}

/// Whether a path is itself the first below an open directory: it is mounted there, or is a link.
fn is_name_of_a_pin(path: &Path) -> bool {
    path.parent().is_some_and(is_open)
}

fn is_open(path: &Path) -> bool {
    OPEN.iter().any(|open| path == Path::new(open))
}

/// The first directory on the way from an open directory to a path in it.
fn first_below_open(path: &Path) -> Option<PathBuf> {
    let open = OPEN.iter().map(Path::new).find(|open| path.starts_with(open))?;
    let first = path.strip_prefix(open).ok()?.components().next()?;
    Some(open.join(first))
}

fn place(number: usize) -> PathBuf {
    Path::new(PLACE).join(number.to_string())
}
