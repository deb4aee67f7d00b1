use std::collections::BTreeMap;
use std::process::Command;

use plexus_core::SessionId;

use super::*;

/// A repository with one commit, and beginnings beside it.
struct Site {
    folder: tempfile::TempDir,
    beginnings: Beginnings,
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let beginnings = Beginnings::new(&folder.path().join("data"));
        let site = Self { folder, beginnings };
        fs::create_dir_all(site.work().join("sub")).unwrap();
        site.git(&["init", "--quiet"]);
        site.write("kept.txt", "one\ntwo\nthree\n");
        site.write("gone.txt", "gone\n");
        site.write("sub/deep.txt", "deep\n");
        site.write(".gitignore", "*.log\n");
        site.git(&["add", "--all"]);
        site.git(&["commit", "--quiet", "--message", "first"]);
        site
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.work().join(name), text).unwrap();
    }

    fn git(&self, words: &[&str]) {
        let who = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
        let status = Command::new("git")
            .args(who)
            .args(words)
            .current_dir(self.work())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .status()
            .unwrap();
        assert!(status.success(), "{words:?}");
    }

    /// Every file below `.git` with its content.
    fn repository(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut open = vec![self.work().join(".git")];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                } else {
                    let content = fs::read(&path).unwrap();
                    found.insert(path, content);
                }
            }
        }
        found
    }

    async fn since(&self, session: SessionId, dir: &Path) -> Vec<(PathChange, String, String)> {
        let found = self.beginnings.since(session, dir).await.unwrap().unwrap();
        assert!(!found.cut);
        let shown = |change: PreviewedChange| {
            let diff = change.diff.or(change.why.map(|why| format!("({why})"))).unwrap();
            // From the first part on: before it stand the names.
            let from = diff.find("@@").map_or(0, |at| at);
            (*change.change.known().unwrap(), change.path, diff[from..].to_owned())
        };
        found.changes.into_iter().map(shown).collect()
    }
}

#[tokio::test]
async fn what_changed_since_the_beginning_is_told_file_by_file() {
    let site = Site::new();
    // Changed before the session began, so not its doing.
    site.write("kept.txt", "one\ntwo\n3\n");
    site.write("loose.txt", "not added\n");
    let session = SessionId::generate();
    site.beginnings.note(session, &site.work()).await;
    assert_eq!(site.since(session, &site.work()).await, []);
    site.write("kept.txt", "one\n2\n3\n");
    site.write("loose.txt", "changed\n");
    site.write("new.txt", "new\n");
    site.write("noise.log", "ignored\n");
    site.write("binary", "\u{0}\u{1}");
    fs::write(site.work().join("bytes"), [0xff, 0xfe, 0]).unwrap();
    fs::remove_file(site.work().join("gone.txt")).unwrap();
    let expected = [
        (PathChange::Added, "binary", "@@ -0,0 +1,1 @@\n+\u{0}\u{1}\n"),
        (PathChange::Added, "bytes", "(it is not text)"),
        (PathChange::Removed, "gone.txt", "@@ -1 +0,0 @@\n-gone\n"),
        (PathChange::Modified, "kept.txt", "@@ -1,3 +1,3 @@\n one\n-two\n+2\n 3\n"),
        (PathChange::Modified, "loose.txt", "@@ -1 +1 @@\n-not added\n+changed\n"),
        (PathChange::Added, "new.txt", "@@ -0,0 +1,1 @@\n+new\n"),
    ];
    let expected = expected.map(|(change, path, diff)| (change, path.to_owned(), diff.to_owned()));
    assert_eq!(site.since(session, &site.work()).await, expected);
    // A commit does not end it.
    site.git(&["add", "--all"]);
    site.git(&["commit", "--quiet", "--message", "second"]);
    assert_eq!(site.since(session, &site.work()).await, expected);
    site.beginnings.forget(session);
    assert_eq!(site.beginnings.since(session, &site.work()).await.unwrap(), None);
    let left: Vec<_> = fs::read_dir(site.folder.path().join("data/beginnings")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn noting_and_comparing_change_nothing_in_the_repository() {
    let site = Site::new();
    site.write("kept.txt", "changed\n");
    let before = site.repository();
    let session = SessionId::generate();
    site.beginnings.note(session, &site.work()).await;
    site.write("new.txt", "new\n");
    assert_eq!(site.since(session, &site.work()).await.len(), 1);
    assert_eq!(site.repository(), before);
}

#[tokio::test]
async fn a_directory_below_the_top_is_told_alone_and_by_its_own_paths() {
    let site = Site::new();
    let session = SessionId::generate();
    let sub = site.work().join("sub");
    site.beginnings.note(session, &sub).await;
    site.write("kept.txt", "elsewhere\n");
    site.write("sub/deep.txt", "deeper\n");
    site.write("sub/new.txt", "new\n");
    let paths: Vec<String> =
        site.since(session, &sub).await.into_iter().map(|(_, path, _)| path).collect();
    assert_eq!(paths, ["deep.txt", "new.txt"]);
}

#[tokio::test]
async fn nothing_that_a_repository_names_is_run() {
    let site = Site::new();
    let trap = site.folder.path().join("trap");
    let script = site.folder.path().join("script");
    fs::write(&script, format!("#!/bin/sh\ntouch {}\ncat\n", trap.display())).unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let script = script.display();
    let config = format!(
        "[core]\n\tfsmonitor = {script}\n\thooksPath = {0}/hooks\n\tpager = {script}\n\teditor = {script}\n\
         [filter \"evil\"]\n\tclean = {script}\n\tsmudge = {script}\n\tprocess = {script}\n\trequired = true\n\
         [diff]\n\texternal = {script}\n[diff \"evil\"]\n\ttextconv = {script}\n\tcommand = {script}\n",
        site.work().join(".git").display()
    );
    let at = site.work().join(".git/config");
    fs::write(&at, fs::read_to_string(&at).unwrap() + &config).unwrap();
    fs::create_dir_all(site.work().join(".git/info")).unwrap();
    fs::write(site.work().join(".git/info/attributes"), "* filter=evil diff=evil\n").unwrap();
    site.write(".gitattributes", "* filter=evil diff=evil\n");
    for hook in ["post-index-change", "pre-commit", "fsmonitor-watchman"] {
        let hooks = site.work().join(".git/hooks");
        fs::create_dir_all(&hooks).unwrap();
        fs::write(hooks.join(hook), format!("#!/bin/sh\ntouch {}\n", trap.display())).unwrap();
        fs::set_permissions(hooks.join(hook), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
    }
    site.write("kept.txt", "dirty\n");
    let session = SessionId::generate();
    site.beginnings.note(session, &site.work()).await;
    site.write("kept.txt", "dirtier\n");
    site.write("new.txt", "new\n");
    assert_eq!(site.since(session, &site.work()).await.len(), 2);
    assert!(!trap.exists(), "something of the repository was run");
    // Git itself falls into it, so the trap is one.
    let _status = Command::new("git").args(["add", "--all"]).current_dir(site.work()).status();
    assert!(trap.exists(), "the trap does not work");
}

#[tokio::test]
async fn without_a_repository_nothing_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let beginnings = Beginnings::new(folder.path());
    let session = SessionId::generate();
    beginnings.note(session, folder.path()).await;
    assert_eq!(beginnings.since(session, folder.path()).await.unwrap(), None);
    assert!(!folder.path().join("beginnings").exists());
}

#[test]
fn a_pipe_in_place_of_a_file_of_the_repository_holds_nobody() {
    for name in ["index", "info/exclude", "config", "commondir"] {
        let site = Site::new();
        let file = site.work().join(".git").join(name);
        if file.exists() {
            fs::remove_file(&file).unwrap();
        }
        let (pipe, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, &file, pipe, mode, 0).unwrap();
        // On a thread of its own, because nothing ends a thread that a pipe holds.
        let (told, noted) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(site.beginnings.note(SessionId::generate(), &site.work()));
            told.send(()).unwrap();
        });
        let in_time = noted.recv_timeout(Duration::from_secs(60));
        assert!(in_time.is_ok(), "a pipe named {name} held the server");
    }
}

#[test]
fn a_file_of_the_repository_that_is_too_long_is_not_copied() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("from"), "12345").unwrap();
    repository::copy(&at("from"), &at("to"), 5).unwrap();
    assert_eq!(fs::read(at("to")).unwrap(), b"12345");
    assert!(repository::copy(&at("from"), &at("too long"), 4).is_err());
    assert!(!at("too long").exists());
}
