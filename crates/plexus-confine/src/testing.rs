//! What tests share: directories as deep as their paths may be long, and a stack that cannot follow
//! them.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

/// The longest path that is made. The system takes 4,095 bytes.
const MAX_PATH_BYTES: usize = 4_000;

/// Too few for one call for each of these directories.
const SMALL_STACK_BYTES: usize = 128 * 1024;

/// Makes directories `d/d/d…` in a directory, which is made too, and returns the last.
pub(crate) fn nested_below(dir: &Path) -> PathBuf {
    let mut path = dir.to_owned();
    fs::create_dir_all(&path).unwrap();
    while path.as_os_str().len() < MAX_PATH_BYTES {
        path.push("d");
        fs::create_dir(&path).unwrap();
    }
    path
}

pub(crate) fn on_a_small_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let small = thread::Builder::new().stack_size(SMALL_STACK_BYTES);
        small.spawn_scoped(scope, work).unwrap().join().unwrap()
    })
}
