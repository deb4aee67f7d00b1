//! Git's notations for what a command works on: pathspecs (`src`, `:(icase)src`, `:!x`) and
//! revisions with a path (`HEAD:src/x`). They are no file names. Some begin at the top of the
//! repository, which may be above the working directory, and git shortens `..` in them without
//! following links. A notation that is not read here is asked about.

use std::path::{Component, Path, PathBuf};

use super::places::{MAX_NAMES, is_inside, is_missing, names_of, pattern_stays_inside};
use crate::call::Call;
use crate::paths::resolve;

/// The words of pathspec magic that leave the path where it is. `top` is read apart; `attr` and
/// `prefix` are not listed.
const MAGIC: &[&str] = &["exclude", "glob", "icase", "literal"];

/// What a directory must hold so that git takes it for a repository.
const REPOSITORY: &[&str] = &["HEAD", "objects", "refs"];

/// A pathspec.
struct Pathspec<'a> {
    /// Whether it says what is left out.
    excludes: bool,
    /// Whether its path begins at the top of the repository.
    from_top: bool,
    path: &'a str,
}

impl<'a> Pathspec<'a> {
    /// Reads a pathspec; `None` when its magic is not understood.
    fn read(text: &'a str) -> Option<Self> {
        let Some(magic) = text.strip_prefix(':') else {
            return Some(Self { excludes: false, from_top: false, path: text });
        };
        if let Some(long) = magic.strip_prefix('(') {
            let (words, path) = long.split_once(')')?;
            let mut from_top = false;
            for word in words.split(',') {
                from_top |= word == "top";
                if word != "top" && !MAGIC.contains(&word) {
                    return None;
                }
            }
            let excludes = words.split(',').any(|word| word == "exclude");
            return Some(Self { excludes, from_top, path });
        }
        let path = magic.trim_start_matches(['/', '!', '^']);
        let signs = magic.strip_suffix(path)?;
        // Git keeps the other signs for magic of its own, and ends it at a second colon.
        let is_plain = path.starts_with(|c: char| c.is_ascii_alphanumeric() || ".*?[".contains(c));
        let excludes = signs.contains(['!', '^']);
        (is_plain || path.is_empty() && signs == "/").then_some(Self {
            excludes,
            from_top: signs.contains('/'),
            path,
        })
    }
}

/// Says whether a pathspec leads to nothing outside the working directory.
pub(super) fn is_pathspec_inside(text: &str, call: &Call<'_>) -> bool {
    Pathspec::read(text).is_some_and(|pathspec| {
        (!pathspec.from_top || is_at_top(call)) && is_path_inside(pathspec.path, call)
    })
}

/// Says whether a pathspec only leaves something out. Alone, it means the rest of the whole
/// repository.
pub(super) fn excludes(text: &str) -> bool {
    Pathspec::read(text).is_some_and(|pathspec| pathspec.excludes)
}

/// Says whether a word is inside both as a revision and as a pathspec: where either may stand, git
/// takes what is there.
pub(super) fn is_revision_inside(text: &str, call: &Call<'_>) -> bool {
    // `git diff` compares any two files where one of them is outside.
    text == "/dev/null" || names_inside(text, call) && is_pathspec_inside(text, call)
}

/// Says the same where a tree would be compared with the whole repository, as `git diff HEAD:./src`
/// does. Only at the top may a revision have a path then.
pub(super) fn is_commit_inside(text: &str, call: &Call<'_>) -> bool {
    is_revision_inside(text, call) && (!text.contains(':') || is_at_top(call))
}

/// Says whether a revision names no path outside the working directory. Without a path it names a
/// commit, which is of the whole repository.
fn names_inside(text: &str, call: &Call<'_>) -> bool {
    let revision = text.strip_prefix('^').unwrap_or(text);
    let Some(colon) = colon_of(revision) else { return true };
    // `HEAD:x..HEAD:y` names two paths.
    if revision.contains("..") {
        return false;
    }
    let (commit, path) = revision.split_at(colon);
    let path = &path[1..];
    match path.as_bytes() {
        // `:/text` searches the messages of commits.
        [b'/', ..] if commit.is_empty() => true,
        // `:2:x` is in the index.
        [b'0'..=b'3', b':', ..] if commit.is_empty() => is_tree_path_inside(&path[2..], call),
        _ => is_tree_path_inside(path, call),
    }
}

/// Finds the colon before the path of a revision, as git does: not within braces.
fn colon_of(revision: &str) -> Option<usize> {
    let mut depth = 0_usize;
    revision.bytes().position(|byte| {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && byte == b':'
    })
}

/// Says whether the path of a revision is inside. It begins at the top of the repository, unless it
/// begins with `./`.
fn is_tree_path_inside(path: &str, call: &Call<'_>) -> bool {
    if has_parent(path) {
        return false;
    }
    if path.starts_with("./") {
        return true;
    }
    let Some((top, here)) = top_and_here(call) else { return false };
    here.strip_prefix(&top).is_ok_and(|prefix| Path::new(path).starts_with(prefix))
}

/// Says whether the lines that `git log -L` follows are in a file inside: `1,5:x` or `:name:x`.
pub(super) fn is_lines_inside(text: &str, call: &Call<'_>) -> bool {
    let range = text.strip_prefix(':').unwrap_or(text);
    // With one colon it is sure where the path begins.
    match range.split_once(':') {
        Some((_, path)) => !path.contains(':') && is_path_inside(path, call),
        None => false,
    }
}

/// Says whether a path without magic is inside, by its text and with links followed: git does one
/// or the other.
fn is_path_inside(path: &str, call: &Call<'_>) -> bool {
    let below = |dir: &Path| Path::new(path).starts_with(dir);
    let begins_here = !path.starts_with('/')
        || below(call.working_dir)
        || resolve(call.paths, call.working_dir).is_ok_and(|here| below(&here));
    begins_here && !has_parent(path) && is_inside(path, call)
}

fn has_parent(path: &str) -> bool {
    Path::new(path).components().any(|step| step == Component::ParentDir)
}

/// Says whether all words that the shell can make of a file pattern are paths inside. The names of
/// files may read as magic or as revisions.
pub(super) fn is_pattern_inside(marked: &str, call: &Call<'_>) -> bool {
    !marked.contains(':')
        && !names_of(marked, call).iter().any(|name| name.contains(':'))
        && pattern_stays_inside(marked, call)
}

/// Says whether the working directory is the top of its repository, so that no notation leads out
/// of it.
pub(super) fn is_at_top(call: &Call<'_>) -> bool {
    top_and_here(call).is_some_and(|(top, here)| top == here)
}

/// Returns the top of the repository in which git would work, and the working directory, both with
/// links followed.
fn top_and_here(call: &Call<'_>) -> Option<(PathBuf, PathBuf)> {
    let here = resolve(call.paths, call.working_dir).ok()?;
    let top = here.ancestors().find(|dir| is_repository(dir, call))?.to_owned();
    Some((top, here))
}

/// Says whether git finds a repository in this directory. Where `.git` is a directory without one,
/// git searches further up; a file names the directory of the repository, or else git fails.
fn is_repository(dir: &Path, call: &Call<'_>) -> bool {
    let Ok(git) = resolve(call.paths, &dir.join(".git")) else { return false };
    match call.paths.names(&git, MAX_NAMES) {
        Ok(names) => REPOSITORY.iter().all(|name| names.iter().any(|it| it == name)),
        Err(error) => error.kind() == std::io::ErrorKind::NotADirectory,
    }
}

/// Says whether git cannot take the name of a remote for a directory, whose hooks would run. It
/// looks in the top directory of the repository, and tries the name with `.git` too.
pub(super) fn is_no_repository(name: &str, call: &Call<'_>) -> bool {
    resolve(call.paths, call.working_dir).is_ok_and(|here| {
        here.ancestors().all(|dir| {
            is_missing(&dir.join(name), call) && is_missing(&dir.join(format!("{name}.git")), call)
        })
    })
}
