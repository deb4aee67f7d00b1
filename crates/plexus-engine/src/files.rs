//! Removing the files of a run.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Removes a directory with everything in it, also with directories that nobody may enter: the
/// kernel leaves such ones below a wall, and an agent can make them.
///
/// # Errors
/// When something of it cannot be removed.
pub fn remove_all(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_directories(path)?;
            fs::remove_dir_all(path)
        }
        other => other,
    }
}

fn open_directories(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_directories(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_nobody_may_enter_is_removed_with_its_parents() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        let closed = run.join("wall/temp/work");
        fs::create_dir_all(closed.join("below")).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        remove_all(&run).unwrap();
        assert!(!run.exists());
    }
}
