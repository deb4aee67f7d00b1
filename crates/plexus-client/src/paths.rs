//! Where a server of this machine keeps its data, and where programs are.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// No data directory could be found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "find a data directory: neither PLEXUS_DATA_DIR, XDG_STATE_HOME nor HOME is set; name one \
     with --data-dir"
)]
pub struct DataDirError;

/// Returns the data directory for when nobody names one: `$PLEXUS_DATA_DIR`, else
/// `$XDG_STATE_HOME/plexus`, else `~/.local/state/plexus`.
///
/// # Errors
/// When none of the variables is set.
pub fn default_data_dir() -> Result<PathBuf, DataDirError> {
    data_dir_from(|name| std::env::var_os(name)).ok_or(DataDirError)
}

/// Returns where a path leads, without links and `..` as far as it exists: two paths can then be
/// compared.
#[must_use]
pub fn real_path(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real_path(parent).join(name),
        // It ends with `..`.
        (Some(parent), None) => {
            let parent = real_path(parent);
            parent.parent().map_or_else(|| parent.clone(), Path::to_owned)
        }
        (None, _) => path.to_owned(),
    }
}

/// Looks for a program in a `PATH`. Relative directories in it are left out: they would lead to
/// files of an agent's.
#[must_use]
pub fn find_program(name: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    std::env::split_paths(path?)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|candidate| is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn data_dir_from(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("PLEXUS_DATA_DIR")
        .or_else(|| set("XDG_STATE_HOME").map(|state| state.join("plexus")))
        .or_else(|| set("HOME").map(|home| home.join(".local/state/plexus")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_does_not_exist_yet_is_told_without_detours() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        std::os::unix::fs::symlink(&real, real.join("link")).unwrap();
        for (path, expected) in
            [("a/../b", "b"), ("link/b/c", "b/c"), ("a/b/../../c", "c"), ("link", "")]
        {
            assert_eq!(
                real_path(&real.join(path)),
                real.join(expected).components().collect::<PathBuf>(),
                "{path}"
            );
        }
    }

    #[test]
    fn the_nearest_variable_names_the_data_directory() {
        for (set, expected) in [
            (
                &[("PLEXUS_DATA_DIR", "/d"), ("XDG_STATE_HOME", "/s"), ("HOME", "/h")][..],
                Some("/d"),
            ),
            (
                &[("PLEXUS_DATA_DIR", ""), ("XDG_STATE_HOME", "/s"), ("HOME", "/h")],
                Some("/s/plexus"),
            ),
            (&[("HOME", "/h")], Some("/h/.local/state/plexus")),
            (&[], None),
        ] {
            let variable = |name: &str| {
                set.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
            };
            assert_eq!(data_dir_from(variable), expected.map(PathBuf::from), "{set:?}");
        }
    }
}
