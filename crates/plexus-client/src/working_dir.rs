//! The directory in which a new session of this machine works.

use std::path::{Path, PathBuf};

use plexus_wire::{SessionId, may_begin_an_id};

use crate::paths::real_path;

/// The directory holds the server's own data, or lies in it: an agent reads everything below its
/// directory unasked, and the server's tokens must not be there.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnDataError {
    /// The data lies below the directory.
    #[error(
        "could not run in {}: Plexus keeps its own data below it, in {}, and an agent reads \
         everything below its directory without asking\n  \
         go to the directory of your project first, or keep the data elsewhere: plexus --data-dir \
         DIR run …",
        dir.display(), data.display()
    )]
    Above {
        /// The directory.
        dir: PathBuf,
        /// The data directory.
        data: PathBuf,
    },
    /// The directory is the data directory, or lies in it.
    #[error(
        "could not run in {}: that is where Plexus keeps its own data\n  \
         go to the directory of your project first",
        dir.display()
    )]
    Within {
        /// The directory.
        dir: PathBuf,
    },
}

/// Refuses a working directory above or within the server's own data.
///
/// # Errors
/// When it is one.
pub fn refuse_our_own_data(here: &Path, data_dir: &Path) -> Result<(), OwnDataError> {
    let (data, dir) = (real_path(data_dir), real_path(here));
    if data.starts_with(&dir) {
        return Err(OwnDataError::Above { dir, data });
    }
    if dir.starts_with(&data) {
        return Err(OwnDataError::Within { dir });
    }
    Ok(())
}

/// Makes a session's name from its directory, with four characters that make it unique.
#[must_use]
pub fn drawn_name(here: &Path) -> String {
    let folder = here
        .file_name()
        .map_or_else(|| "root".to_owned(), |name| name.to_string_lossy().into_owned());
    let safe: String = folder.chars().filter(|c| !c.is_control()).take(40).collect();
    let id = SessionId::generate().to_string();
    let name = format!("{safe}-{}", &id[id.len() - 4..]);
    // A folder may be called as an id begins, for example after a commit.
    if may_begin_an_id(&name) { format!("s-{name}") } else { name }
}
