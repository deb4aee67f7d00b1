//! Where a repository keeps its data, when that is not below its working directory.
//!
//! The `.git` of a linked worktree or a submodule is a file that names a directory elsewhere, and
//! git needs that directory writable. The program inside can write the file, so its word
//! alone opens nothing: the directory that it names must name this worktree in return.

use std::fs;
use std::path::{Path, PathBuf};

/// The longest file that is read to find a repository. Paths are at most 4,096 bytes.
const MAX_POINTER_BYTES: u64 = 16 * 1024;

/// Returns the directories outside `working_dir` that git must write, or none.
///
/// Only the `.git` of the working directory itself counts: a program that works in a part of a
/// repository gets no right to the whole.
pub(crate) fn directories(working_dir: &Path) -> Vec<PathBuf> {
    let (root, pointer) = (working_dir, working_dir.join(".git"));
    let Some(git_dir) = pointed_at(&pointer, "gitdir: ").and_then(|path| resolve(root, &path))
    else {
        return Vec::new();
    };
    if let Some(back) = pointed_at(&git_dir.join("gitdir"), "") {
        // A linked worktree.
        let is_ours = resolve(&git_dir, &back) == pointer.canonicalize().ok();
        let common = pointed_at(&git_dir.join("commondir"), "");
        return match common.and_then(|path| resolve(&git_dir, &path)) {
            Some(common) if is_ours && is_repository(&common) && git_dir.starts_with(&common) => {
                vec![common]
            }
            Some(_) | None => Vec::new(),
        };
    }
    // A submodule.
    let worktree = worktree_in_config(&git_dir).and_then(|path| resolve(&git_dir, &path));
    if is_repository(&git_dir) && worktree.as_deref() == root.canonicalize().ok().as_deref() {
        return vec![git_dir];
    }
    Vec::new()
}

fn is_repository(dir: &Path) -> bool {
    dir.join("HEAD").is_file() && dir.join("objects").is_dir() && dir.join("refs").is_dir()
}

/// The first line of a small file, without the prefix.
fn pointed_at(file: &Path, prefix: &str) -> Option<PathBuf> {
    let text = small(file)?;
    Some(PathBuf::from(text.lines().next()?.strip_prefix(prefix)?.trim()))
}

fn small(file: &Path) -> Option<String> {
    let meta = file.symlink_metadata().ok()?;
    let is_small = meta.is_file() && meta.len() <= MAX_POINTER_BYTES;
    is_small.then(|| fs::read_to_string(file).ok())?
}

fn resolve(base: &Path, path: &Path) -> Option<PathBuf> {
    base.join(path).canonicalize().ok()
}

/// `core.worktree` as git itself writes it into the configuration of a submodule.
fn worktree_in_config(git_dir: &Path) -> Option<PathBuf> {
    let text = small(&git_dir.join("config"))?;
    let value = text.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == "worktree").then(|| value.trim().trim_matches('"').to_owned())
    });
    value.map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(dir: &Path) {
        fs::create_dir_all(dir.join("objects")).unwrap();
        fs::create_dir_all(dir.join("refs")).unwrap();
        fs::write(dir.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    }

    #[test]
    fn a_linked_worktree_opens_its_repository() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (common, linked) = (base.join("main/.git"), base.join("linked"));
        repository(&common);
        fs::create_dir_all(common.join("worktrees/linked")).unwrap();
        fs::create_dir_all(&linked).unwrap();
        let git_dir = common.join("worktrees/linked");
        fs::write(git_dir.join("commondir"), "../..\n").unwrap();
        let back = linked.join(".git");
        fs::write(git_dir.join("gitdir"), format!("{}\n", back.display())).unwrap();
        fs::write(&back, format!("gitdir: {}\n", git_dir.display())).unwrap();
        assert_eq!(directories(&linked), std::slice::from_ref(&common));
        assert_eq!(directories(&base.join("main")), Vec::<PathBuf>::new());

        // The same file in another directory opens nothing, because the repository does not name
        // that directory.
        let forged = base.join("forged");
        fs::create_dir_all(&forged).unwrap();
        fs::write(forged.join(".git"), format!("gitdir: {}\n", git_dir.display())).unwrap();
        assert_eq!(directories(&forged), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_forged_pointer_opens_no_directory_of_the_user() {
        let dir = tempfile::tempdir().unwrap();
        let (secret, work) = (dir.path().join("secret"), dir.path().join("work"));
        fs::create_dir_all(&secret).unwrap();
        fs::create_dir_all(&work).unwrap();
        fs::write(work.join(".git"), format!("gitdir: {}\n", secret.display())).unwrap();
        assert_eq!(directories(&work), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_submodule_opens_its_own_git_directory_only() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (git_dir, module) = (base.join("top/.git/modules/m"), base.join("top/m"));
        repository(&git_dir);
        fs::create_dir_all(&module).unwrap();
        fs::write(module.join(".git"), "gitdir: ../.git/modules/m\n").unwrap();
        assert_eq!(directories(&module), Vec::<PathBuf>::new());
        fs::write(git_dir.join("config"), "[core]\n\tworktree = ../../../m\n").unwrap();
        assert_eq!(directories(&module), [git_dir]);
    }
}
