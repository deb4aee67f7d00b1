//! All that is below a directory, as far as it can be looked through in a short time.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::call::Call;
use crate::paths::{Entry, resolve};

/// The most names that are looked at for one command. For a larger tree, somebody is asked.
const MAX_NAMES: usize = 10_000;

/// Calls `look` with each name below `start`, which is relative to the working directory, until one
/// returns `false`. Links are not followed. Returns whether all names were looked at, and each time
/// `look` returned `true`.
fn all_below(start: &str, call: &Call<'_>, look: &mut dyn FnMut(&Path, &str) -> bool) -> bool {
    let Ok(start) = resolve(call.paths, &call.working_dir.join(start)) else { return false };
    let mut left = MAX_NAMES;
    let mut todo = vec![start];
    while let Some(directory) = todo.pop() {
        let names = match call.paths.names(&directory, left) {
            Ok(names) => names,
            Err(error) => match error.kind() {
                ErrorKind::NotADirectory | ErrorKind::NotFound => continue,
                _ => return false,
            },
        };
        left = left.saturating_sub(names.len());
        for name in names {
            let path = directory.join(&name);
            if !name.to_str().is_some_and(|name| look(&path, name)) {
                return false;
            }
            match call.paths.look(&path) {
                Ok(Entry::Plain) => todo.push(path),
                Ok(Entry::Missing | Entry::Link(_)) => {}
                Err(_) => return false,
            }
        }
    }
    true
}

/// Returns the paths below a directory for whose names `is_wanted` holds; `None` if there are more
/// names than are looked at.
pub(crate) fn files_below(
    start: &str,
    call: &Call<'_>,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Option<Vec<PathBuf>> {
    let mut found = Vec::new();
    let all = all_below(start, call, &mut |path, name| {
        if is_wanted(name) {
            found.push(path.to_owned());
        }
        true
    });
    all.then_some(found)
}

/// Says whether a directory is there.
pub(crate) fn is_directory(path: &Path, call: &Call<'_>) -> bool {
    match call.paths.names(path, 0) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::FileTooLarge,
    }
}

/// Says whether no link below a directory leads out of the working directory.
pub(super) fn leads_nowhere_else(start: &str, call: &Call<'_>) -> bool {
    let Ok(here) = resolve(call.paths, call.working_dir) else { return false };
    all_below(start, call, &mut |path, _| stays_in(&here, path, call))
}

fn stays_in(here: &Path, path: &Path, call: &Call<'_>) -> bool {
    match call.paths.look(path) {
        Ok(Entry::Link(_)) => resolve(call.paths, path).is_ok_and(|it| it.starts_with(here)),
        Ok(Entry::Plain | Entry::Missing) => true,
        Err(_) => false,
    }
}

/// Says whether a program that gets the names below a directory as words reads only files inside
/// the working directory: `xargs` splits names at spaces and quotes, and a name may look like an
/// option.
pub(crate) fn names_are_plain(start: &str, call: &Call<'_>) -> bool {
    let Ok(here) = resolve(call.paths, call.working_dir) else { return false };
    let is_plain = |name: &str| {
        !name.starts_with('-')
            && !name.contains(|c: char| c.is_whitespace() || c.is_control() || "'\"\\".contains(c))
    };
    all_below(start, call, &mut |path, name| is_plain(name) && stays_in(&here, path, call))
}
