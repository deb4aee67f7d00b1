//! The stored sessions of a scripted agent: one file for each, named by its id, that contains its
//! directory.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// The directory of the files.
pub(crate) struct Kept(pub(crate) PathBuf);

impl Kept {
    pub(crate) fn keep(&self, id: &str, cwd: &str) {
        fs::write(self.0.join(id), cwd).unwrap();
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.0.join(id).exists()
    }

    /// Lists the sessions of a directory, newest first.
    pub(crate) fn list(&self, cwd: &str) -> Vec<String> {
        let mut found: Vec<_> = fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| fs::read_to_string(path).unwrap() == cwd)
            .map(|path| (fs::metadata(&path).unwrap().modified().unwrap(), path))
            .collect();
        found.sort();
        let id = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        found.iter().rev().map(|(_, path)| id(path)).collect()
    }
}

/// Returns an id that no other session of this machine has.
pub(crate) fn new_id() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    format!("{:08x}-{now:032x}", std::process::id())
}
