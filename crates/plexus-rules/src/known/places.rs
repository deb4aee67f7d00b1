//! Paths in the arguments of a command: whether they stay inside the working directory, with links
//! followed, and whether other programs take orders from the files there.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use plexus_files::is_obeyed;

use crate::call::Call;
use crate::paths::{Entry, resolve};
use crate::shell::WILD;

/// The most names that a file pattern is compared with. For a larger directory, somebody is asked.
pub(super) const MAX_NAMES: usize = 4096;

/// Returns the target of `text` and the working directory, both with links followed.
fn followed(text: &str, call: &Call<'_>) -> Option<(PathBuf, PathBuf)> {
    let here = resolve(call.paths, call.working_dir).ok()?;
    let there = resolve(call.paths, &call.working_dir.join(text)).ok()?;
    Some((there, here))
}

/// Says whether a path that is read is the working directory or below it. `-` is the standard
/// input.
pub(super) fn is_inside(text: &str, call: &Call<'_>) -> bool {
    if matches!(text, "-" | "/dev/null") {
        return true;
    }
    let Some((there, here)) = followed(text, call) else { return false };
    // Every path is inside the root, so with the root as working directory no absolute path counts.
    there.starts_with(&here) && !(here.parent().is_none() && text.starts_with('/'))
}

/// Says whether the path is inside and is not a directory whose contents would be read.
pub(super) fn is_file(text: &str, call: &Call<'_>) -> bool {
    if matches!(text, "-" | "/dev/null") {
        return true;
    }
    let Some((there, here)) = followed(text, call) else { return false };
    let kind = call.paths.names(&there, 0).err().map(|error| error.kind());
    there.starts_with(here) && matches!(kind, Some(ErrorKind::NotADirectory | ErrorKind::NotFound))
}

/// Says whether the path is inside and is a directory that is there.
pub(super) fn is_folder(text: &str, call: &Call<'_>) -> bool {
    let Some((there, _)) = followed(text, call).filter(|_| is_inside(text, call)) else {
        return false;
    };
    match call.paths.names(&there, 0) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::FileTooLarge,
    }
}

/// Says whether a path that is written is below the working directory, and is not one that other
/// programs obey.
pub(super) fn is_writable(text: &str, call: &Call<'_>) -> bool {
    let Some((there, here)) = followed(text, call) else { return false };
    let Ok(rest) = there.strip_prefix(&here) else { return false };
    // The choice of the working directory includes the path to it.
    let written = Path::new(text);
    let written = written.strip_prefix(call.working_dir).or(written.strip_prefix(&here));
    rest.components().next().is_some()
        && !is_obeyed(rest)
        && !is_obeyed(written.unwrap_or(Path::new(text)))
        && !looks_like_option(rest)
}

/// Says whether a name on the way begins with a dash: where a pattern matches it, a program would
/// take it for an option.
fn looks_like_option(path: &Path) -> bool {
    path.components().any(|component| component.as_os_str().to_string_lossy().starts_with('-'))
}

/// Says whether the words of a file pattern may begin with any character, also with a dash.
pub(crate) fn begins_anyhow(marked: &str) -> bool {
    marked.starts_with(WILD)
}

/// Says whether nothing is at this path.
pub(super) fn is_missing(path: &Path, call: &Call<'_>) -> bool {
    matches!(call.paths.look(path), Ok(Entry::Missing))
}

/// Says whether a dotted name begins with a module or a directory of the project.
pub(super) fn is_module(name: &str, call: &Call<'_>) -> bool {
    let mut path = call.working_dir.to_owned();
    name.split('.').any(|part| {
        path.push(part);
        let is_there =
            |path: &Path| matches!(call.paths.look(path), Ok(Entry::Plain | Entry::Link(_)));
        !part.is_empty()
            && (is_there(&path.with_extension("py")) || is_there(&path.join("__init__.py")))
    })
}

/// Says whether all words that the shell can make of a file pattern are paths inside the working
/// directory, and none of them may be an option.
pub(super) fn pattern_stays_inside(marked: &str, call: &Call<'_>) -> bool {
    let steps: Vec<&str> = marked.split('/').collect();
    let Some(wild) = steps.iter().position(|step| step.contains(WILD)) else { return false };
    let (directory, step) = (steps[..wild].join("/"), steps[wild]);
    let known = step.split(WILD).next().unwrap_or_default();
    // A bracket ends with `]`, and everything before it may stand for one character.
    let end = step.rsplit([WILD, ']']).next().unwrap_or_default();
    // The pattern may match any name, so no name may look like an option.
    if wild == 0 && known.is_empty() {
        match call.paths.names(call.working_dir, MAX_NAMES) {
            Ok(names) if !names.iter().any(|it| it.to_string_lossy().starts_with('-')) => {}
            Ok(_) | Err(_) => return false,
        }
    }
    // Only one step may have wildcards, and they must not match `.` or `..`. `**` goes deeper than
    // the check below.
    let simple = !marked.starts_with('-')
        && steps.iter().filter(|step| step.contains(WILD)).count() == 1
        && wild + 1 == steps.len()
        && !matches!(known, "." | "..")
        && !marked.contains(&format!("{WILD}{WILD}"));
    let directory = match directory.as_str() {
        "" if wild > 0 => "/",
        directory => directory,
    };
    simple && names_stay_inside(directory, known, end, call)
}

/// Returns the paths that a file pattern may match, if only its last step has wildcards.
pub(crate) fn names_of(marked: &str, call: &Call<'_>) -> Vec<String> {
    let (directory, step) = marked.rsplit_once('/').unwrap_or((".", marked));
    let start = step.split(WILD).next().unwrap_or_default();
    let end = step.rsplit([WILD, ']']).next().unwrap_or_default();
    let Some((there, _)) = followed(directory, call).filter(|_| !directory.contains(WILD)) else {
        return Vec::new();
    };
    let names = call.paths.names(&there, MAX_NAMES).unwrap_or_default();
    let names = names.iter().map(|name| name.to_string_lossy());
    let fits = names.filter(|name| name.starts_with(start) && name.ends_with(end));
    fits.map(|name| format!("{directory}/{name}")).collect()
}

/// Says whether every name in a directory that has this start and end leads inside the working
/// directory, with links followed. Case is ignored, because a shell may be set to ignore it.
fn names_stay_inside(directory: &str, start: &str, end: &str, call: &Call<'_>) -> bool {
    let Some((there, here)) = followed(directory, call) else { return false };
    if !there.starts_with(&here) {
        return false;
    }
    let names = match call.paths.names(&there, MAX_NAMES) {
        Ok(names) => names,
        // The pattern matches nothing, so the shell passes it on unchanged.
        Err(error) => return error.kind() == ErrorKind::NotFound,
    };
    let (start, end) = (start.to_lowercase(), end.to_lowercase());
    let fits = |name: &&OsString| {
        let name = name.to_string_lossy().to_lowercase();
        name.starts_with(&start) && name.ends_with(&end)
    };
    names
        .iter()
        .filter(fits)
        .all(|name| resolve(call.paths, &there.join(name)).is_ok_and(|it| it.starts_with(&here)))
}
