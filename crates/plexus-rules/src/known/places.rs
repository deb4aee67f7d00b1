//! Paths in the arguments of a command: whether they stay inside the working directory, with links
//! followed, and whether other programs take orders from the files there.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use crate::call::Call;
use crate::paths::{Entry, resolve};
use crate::shell::WILD;

/// The most names that a file pattern is compared with. For a larger directory, somebody is asked.
const MAX_NAMES: usize = 4096;

/// A file that makes a git repository of the directory it is in, with settings that git obeys; in
/// lower case.
const GIT_HEAD: &str = "head";

/// Files and directories that other programs take orders from without asking: hooks, settings,
/// start-up files.
const OBEYED: &[&str] = &[
    ".gitmodules",
    ".gitconfig",
    ".claude",
    ".claude.json",
    ".mcp.json",
    ".vscode",
    ".idea",
    ".husky",
    ".envrc",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zprofile",
    ".zshenv",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".mise.toml",
    ".tool-versions",
    ".zed",
    ".nvim.lua",
    ".exrc",
    ".devcontainer",
    ".cursor",
    ".codex",
    ".gemini",
    ".opencode",
    ".goose",
    ".agents",
    ".pre-commit-config.yaml",
    ".ripgreprc",
    ".ssh",
];

/// Says whether other programs take orders from the file at `path`, or from a directory on the way
/// to it.
pub(crate) fn is_obeyed(path: &Path) -> bool {
    let lower = |name: &std::ffi::OsStr| name.to_string_lossy().to_lowercase();
    if path.file_name().is_some_and(|name| lower(name) == GIT_HEAD) {
        return true;
    }
    path.components().any(|component| match component {
        Component::Normal(name) => {
            let name = lower(name);
            name.ends_with(".git") || OBEYED.contains(&name.as_str())
        }
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => {
            false
        }
    })
}

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

/// Says whether a path that is written is below the working directory, and is not one that other
/// programs obey.
pub(super) fn is_writable(text: &str, call: &Call<'_>) -> bool {
    followed(text, call).is_some_and(|(there, here)| {
        there.strip_prefix(&here).is_ok_and(|rest| {
            rest.components().next().is_some()
                && !is_obeyed(rest)
                && !is_obeyed(Path::new(text))
                && !looks_like_option(rest)
        })
    })
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
pub(super) fn is_missing(text: &str, call: &Call<'_>) -> bool {
    matches!(call.paths.look(&call.working_dir.join(text)), Ok(Entry::Missing))
}

/// Says what words the shell can make of a file pattern: `None` when one of them may be an option,
/// otherwise whether all of them are paths inside the working directory.
pub(super) fn pattern_stays_inside(marked: &str, call: &Call<'_>) -> Option<bool> {
    if marked.starts_with('-') {
        return None;
    }
    let steps: Vec<&str> = marked.split('/').collect();
    let wild = steps.iter().position(|step| step.contains(WILD))?;
    let directory = steps.get(..wild)?.join("/");
    let step = steps.get(wild)?;
    let known = step.split(WILD).next()?;
    // A bracket ends with `]`, and everything before it may stand for one character.
    let end = step.rsplit([WILD, ']']).next()?;
    // The pattern may match any name, so no name may look like an option.
    if wild == 0 && known.is_empty() {
        let names = call.paths.names(call.working_dir, MAX_NAMES).ok()?;
        if names.iter().any(|name| name.to_string_lossy().starts_with('-')) {
            return None;
        }
    }
    // Only one step may have wildcards, and they must not match `.` or `..`. `**` goes deeper than
    // the check below.
    let simple = steps.iter().filter(|step| step.contains(WILD)).count() == 1
        && wild + 1 == steps.len()
        && !matches!(known, "." | "..")
        && !marked.contains(&format!("{WILD}{WILD}"));
    let directory = match directory.as_str() {
        "" if wild > 0 => "/",
        directory => directory,
    };
    Some(simple && names_stay_inside(directory, known, end, call))
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
