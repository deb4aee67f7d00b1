use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
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
        Self::with(&[])
    }

    /// A repository that is made with these arguments of `git init`.
    fn with(init: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let beginnings = Beginnings::new(&folder.path().join("data"));
        let site = Self { folder, beginnings };
        fs::create_dir_all(site.work().join("sub")).unwrap();
        site.git(&[&["init", "--quiet"], init].concat());
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
            (*change.change.known().unwrap(), change.path, diff)
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
        (PathChange::Added, "binary", "(it is not text)"),
        (PathChange::Added, "bytes", "(it is not text)"),
        (PathChange::Removed, "gone.txt", "@@ -1 +0,0 @@\n-gone\n"),
        (PathChange::Modified, "kept.txt", "@@ -1,3 +1,3 @@\n one\n-two\n+2\n 3\n"),
        (PathChange::Modified, "loose.txt", "@@ -1 +1 @@\n-not added\n+changed\n"),
        (PathChange::Added, "new.txt", "@@ -0,0 +1 @@\n+new\n"),
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
fn pipes_among_the_files_of_a_repository_block_nothing() {
    for name in [
        ".git/index",
        ".git/info/exclude",
        ".git/config",
        ".git/commondir",
        ".gitignore",
        "kept.txt",
    ] {
        let site = Site::new();
        let file = site.work().join(name);
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

impl Site {
    /// What differs after a file was changed since a session began.
    async fn after_a_change(&self) -> Vec<(PathChange, String, String)> {
        self.after_a_change_in(&self.work()).await
    }

    async fn after_a_change_in(&self, dir: &Path) -> Vec<(PathChange, String, String)> {
        let session = SessionId::generate();
        self.beginnings.note(session, dir).await;
        fs::write(dir.join("kept.txt"), "one\n2\nthree\n").unwrap();
        self.since(session, dir).await
    }

    fn copies(&self) -> usize {
        let places = fs::read_dir(self.folder.path().join("data/beginnings")).unwrap();
        let contents = places.map(|place| place.unwrap().path().join("contents"));
        contents.map(|dir| fs::read_dir(dir).unwrap().count()).sum()
    }
}

const CHANGED: &str = "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n";

/// One change: of `kept.txt`, with this difference.
fn kept(diff: &str) -> [(PathChange, String, String); 1] {
    [(PathChange::Modified, "kept.txt".to_owned(), diff.to_owned())]
}

#[tokio::test]
async fn contents_come_from_every_form_of_repository() {
    // Loose objects, and the forms of an index.
    for init in [&[][..], &["--object-format=sha256"]] {
        for version in ["2", "3", "4"] {
            let site = Site::with(init);
            site.git(&["update-index", "--index-version", version]);
            // What git wrote before the index is known without being read.
            std::thread::sleep(Duration::from_millis(50));
            site.git(&["update-index", "--refresh", "--force-write-index"]);
            assert_eq!(site.after_a_change().await, kept(CHANGED), "{init:?} {version}");
            assert_eq!(site.copies(), 0, "{init:?} {version}");
        }
    }
    // Packed, as a difference of another object, which comes before it or is named.
    for init in [&[][..], &["--object-format=sha256"]] {
        for offset in ["repack.useDeltaBaseOffset=false", "repack.useDeltaBaseOffset=true"] {
            let site = Site::with(init);
            let long: String = (0..2_000).map(|line| format!("line {line}\n")).collect();
            site.write("long.txt", &long);
            site.git(&["add", "--all"]);
            for n in 0..40 {
                site.write("long.txt", &long.replace("7\n", &format!("seven {n}\n")));
                site.git(&["commit", "--quiet", "--all", "--message", "more"]);
            }
            site.write("long.txt", &long);
            site.git(&["commit", "--quiet", "--all", "--message", "last"]);
            site.git(&["-c", offset, "repack", "-a", "-d", "-f", "--quiet"]);
            let loose = fs::read_dir(site.work().join(".git/objects")).unwrap();
            let loose: Vec<_> = loose.map(|entry| entry.unwrap().file_name()).collect();
            assert!(loose.iter().all(|name| name.len() > 2), "{loose:?}");
            let objects = site.objects();
            let mut read = 0;
            for (id, content) in site.blobs() {
                let id: ContentId = id.parse().unwrap();
                let deadline = Deadline::after(Duration::from_secs(3600));
                assert_eq!(objects.read(&id, deadline), Some(content), "{id}");
                read += 1;
            }
            assert!(read > 40, "{read}");
            assert!(site.deltas() > 20, "nothing is a difference: {}", site.deltas());
            assert_eq!(site.after_a_change().await, kept(CHANGED));
        }
    }
}

impl Site {
    fn said(&self, words: &[&str]) -> Vec<u8> {
        let output = Command::new("git").args(words).current_dir(self.work()).output().unwrap();
        assert!(output.status.success(), "{words:?}");
        output.stdout
    }

    fn objects(&self) -> Objects {
        let dir = self.work().canonicalize().unwrap();
        Repository::of(&dir).unwrap().unwrap().0.objects().unwrap()
    }

    /// The names of all contents of the repository, and what git reads of them.
    fn blobs(&self) -> Vec<(String, Vec<u8>)> {
        let format = "--batch-check=%(objecttype) %(objectname)";
        let all = self.said(&["cat-file", "--batch-all-objects", format]);
        let all = String::from_utf8(all).unwrap();
        let names = all.lines().filter_map(|line| line.strip_prefix("blob "));
        names.map(|id| (id.to_owned(), self.said(&["cat-file", "blob", id]))).collect()
    }

    fn deltas(&self) -> usize {
        let format = "--batch-check=%(deltabase)";
        let all = self.said(&["cat-file", "--batch-all-objects", format]);
        let all = String::from_utf8(all).unwrap();
        all.lines().filter(|base| base.chars().any(|digit| digit != '0')).count()
    }
}

#[tokio::test]
async fn linked_worktrees_and_submodules_are_repositories() {
    let site = Site::new();
    let linked = site.folder.path().join("linked");
    site.git(&["worktree", "add", "--quiet", linked.to_str().unwrap()]);
    assert_eq!(site.after_a_change_in(&linked).await, kept(CHANGED));
    let source = site.work();
    let always = ["-c", "protocol.file.allow=always"];
    let add = ["submodule", "--quiet", "add", source.to_str().unwrap(), "module"];
    site.git(&[&always[..], &add].concat());
    assert_eq!(site.after_a_change_in(&site.work().join("module")).await, kept(CHANGED));
}

#[tokio::test]
async fn a_part_of_a_repository_is_compared_alone() {
    let site = Site::new();
    site.write("sub/kept.txt", "one\ntwo\nthree\n");
    site.write(".gitignore", "*.log\n/sub/build\n!/sub/kept.log\n");
    site.git(&["add", "--all"]);
    let session = SessionId::generate();
    site.beginnings.note(session, &site.work().join("sub")).await;
    fs::create_dir(site.work().join("sub/build")).unwrap();
    for name in ["kept.txt", "sub/build/made", "sub/noise.log", "sub/kept.log"] {
        site.write(name, "new\n");
    }
    let found = site.since(session, &site.work().join("sub")).await;
    assert_eq!(found, [(PathChange::Added, "kept.log".into(), "@@ -0,0 +1 @@\n+new\n".into())]);
}

#[tokio::test]
async fn kinds_and_modes_of_files_are_compared() {
    let site = Site::new();
    site.write("tracked.log", "tracked\n");
    site.git(&["add", "--force", "tracked.log"]);
    symlink("kept.txt", site.work().join("link")).unwrap();
    let session = SessionId::generate();
    site.beginnings.note(session, &site.work()).await;
    let mode = |name: &str, mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(site.work().join(name), mode).unwrap();
    };
    mode("kept.txt", 0o755);
    fs::remove_file(site.work().join("link")).unwrap();
    symlink("/etc/hostname", site.work().join("link")).unwrap();
    fs::remove_file(site.work().join("gone.txt")).unwrap();
    symlink("sub/deep.txt", site.work().join("gone.txt")).unwrap();
    site.write("tracked.log", "changed\n");
    let (pipe, all) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, site.work().join("pipe"), pipe, all, 0).unwrap();
    // Touched, and yet the same.
    site.write("sub/deep.txt", "deep\n");
    let no_end = "\n\\ No newline at end of file\n";
    let expected = [
        (
            PathChange::Modified,
            "gone.txt",
            format!("old mode 100644\nnew mode 120000\n@@ -1 +1 @@\n-gone\n+sub/deep.txt{no_end}"),
        ),
        (PathChange::Modified, "kept.txt", "old mode 100644\nnew mode 100755\n".to_owned()),
        (
            PathChange::Modified,
            "link",
            format!("@@ -1 +1 @@\n-kept.txt{no_end}+/etc/hostname{no_end}"),
        ),
        (PathChange::Added, "pipe", "(it is not a file)".to_owned()),
        (PathChange::Modified, "tracked.log", "@@ -1 +1 @@\n-tracked\n+changed\n".to_owned()),
    ];
    let expected = expected.map(|(change, path, diff)| (change, path.to_owned(), diff));
    assert_eq!(site.since(session, &site.work()).await, expected);
}

#[tokio::test]
async fn a_nested_repository_is_listed_and_not_entered() {
    let site = Site::new();
    let session = SessionId::generate();
    site.beginnings.note(session, &site.work()).await;
    // Around a file that was there, and as a whole.
    fs::create_dir(site.work().join("sub/.git")).unwrap();
    fs::create_dir_all(site.work().join("other/.git")).unwrap();
    for name in ["sub/deep.txt", "sub/new.txt", "other/new.txt"] {
        site.write(name, "new\n");
    }
    let nested = "(it is a repository of its own, which is not looked into)";
    let expected = [
        (PathChange::Added, "other", nested),
        (PathChange::Added, "sub", nested),
        (PathChange::Modified, "sub/deep.txt", "@@ -1 +1 @@\n-deep\n+new\n"),
    ];
    let expected = expected.map(|(change, path, diff)| (change, path.to_owned(), diff.to_owned()));
    assert_eq!(site.since(session, &site.work()).await, expected);
}

#[tokio::test]
async fn a_pointer_to_another_repository_is_not_followed() {
    let (site, other) = (Site::new(), Site::new());
    let pointer = site.work().join(".git");
    fs::rename(&pointer, site.work().join("was.git")).unwrap();
    let linked = other.folder.path().join("linked");
    other.git(&["worktree", "add", "--quiet", linked.to_str().unwrap()]);
    for target in [other.work().join(".git"), other.work().join(".git/worktrees/linked")] {
        fs::write(&pointer, format!("gitdir: {}\n", target.display())).unwrap();
        let error = Repository::of(&site.work().canonicalize().unwrap()).unwrap_err();
        assert!(error.to_string().contains("does not name it in return"), "{error}");
        let session = SessionId::generate();
        site.beginnings.note(session, &site.work()).await;
        assert_eq!(site.beginnings.since(session, &site.work()).await.unwrap(), None);
    }
    fs::remove_file(&pointer).unwrap();
    symlink(other.work().join(".git"), &pointer).unwrap();
    assert!(Repository::of(&site.work().canonicalize().unwrap()).is_err());
}

#[tokio::test]
async fn contents_of_other_repositories_are_not_read() {
    let (site, other) = (Site::new(), Site::new());
    other.write("secret.txt", "secret\n");
    other.git(&["add", "--all"]);
    let deadline = Deadline::after(Duration::from_secs(3600));
    let theirs = other.work().join(".git/objects");
    let id = other.said(&["hash-object", "secret.txt"]);
    let secret_id: ContentId = String::from_utf8(id).unwrap().trim().parse().unwrap();
    assert!(other.objects().read(&secret_id, deadline).is_some());
    let plant: [&dyn Fn(&Path); 3] = [
        &|git| {
            fs::write(git.join("objects/info/alternates"), theirs.to_str().unwrap()).unwrap();
        },
        &|git| fs::write(git.join("commondir"), "../../../other/.git").unwrap(),
        &|git| {
            fs::remove_dir_all(git.join("objects")).unwrap();
            symlink(&theirs, git.join("objects")).unwrap();
        },
    ];
    for plant in plant {
        let site = Site::new();
        // After the beginning: only copies and the own objects count.
        let session = SessionId::generate();
        site.beginnings.note(session, &site.work()).await;
        plant(&site.work().join(".git"));
        site.write("new.txt", "new\n");
        assert_eq!(site.since(session, &site.work()).await.len(), 1);
        let of = Repository::of(&site.work().canonicalize().unwrap()).unwrap().unwrap().0;
        let read = of.objects().ok().and_then(|objects| objects.read(&secret_id, deadline));
        assert_eq!(read, None);
    }
    // Before it: what is not known to be its own is copied.
    fs::write(site.work().join(".git/objects/info/alternates"), theirs.to_str().unwrap()).unwrap();
    assert_eq!(site.after_a_change().await, kept(CHANGED));
    assert!(site.copies() >= 4, "{}", site.copies());
}

#[tokio::test]
async fn the_own_list_of_ignored_files_counts_as_it_was() {
    let site = Site::new();
    let session = SessionId::generate();
    site.beginnings.note(session, &site.work()).await;
    fs::write(site.work().join(".git/info/exclude"), "*\n").unwrap();
    site.write("new.txt", "new\n");
    assert_eq!(site.since(session, &site.work()).await.len(), 1);
}

#[tokio::test]
async fn an_earlier_content_that_is_gone_is_not_invented() {
    let site = Site::new();
    site.git(&["update-index", "--refresh", "--force-write-index"]);
    let session = SessionId::generate();
    std::thread::sleep(Duration::from_millis(50));
    site.git(&["update-index", "--refresh", "--force-write-index"]);
    site.beginnings.note(session, &site.work()).await;
    let id = site.said(&["hash-object", "kept.txt"]);
    let id = String::from_utf8(id).unwrap();
    let (first, rest) = id.trim().split_at(2);
    let object = site.work().join(".git/objects").join(first).join(rest);
    let changed = |diff: &str| kept(diff).to_vec();
    // Another content in its place.
    let other = String::from_utf8(site.said(&["hash-object", "gone.txt"])).unwrap();
    let (first, rest) = other.trim().split_at(2);
    let other = site.work().join(".git/objects").join(first).join(rest);
    fs::remove_file(&object).unwrap();
    fs::copy(other, &object).unwrap();
    site.write("kept.txt", "one\n");
    let gone = "(its earlier content was not kept, or is gone)";
    assert_eq!(site.since(session, &site.work()).await, changed(gone));
    fs::remove_file(&object).unwrap();
    assert_eq!(site.since(session, &site.work()).await, changed(gone));
}

#[tokio::test]
async fn a_file_that_git_converts_says_so() {
    let site = Site::new();
    site.write(".gitattributes", "*.txt text eol=crlf\n");
    fs::remove_file(site.work().join("kept.txt")).unwrap();
    site.git(&["checkout", "--", "kept.txt"]);
    assert_eq!(fs::read(site.work().join("kept.txt")).unwrap(), b"one\r\ntwo\r\nthree\r\n");
    std::thread::sleep(Duration::from_millis(50));
    site.git(&["update-index", "--refresh", "--force-write-index"]);
    let why = "(git converts this file, and its earlier content was not kept)";
    assert_eq!(site.after_a_change().await, kept(why));
}

#[tokio::test]
async fn files_and_answers_are_bounded() {
    let site = Site::new();
    let long = "x".repeat(MAX_CONTENT + 1);
    site.write("long.txt", &long);
    site.write("loose.txt", "loose\n");
    // It has holes only, and what it is said to hold does not use up what others may.
    File::create(site.work().join("huge")).unwrap().set_len(5 << 30).unwrap();
    let session = SessionId::generate();
    site.beginnings.note(session, &site.work()).await;
    assert_eq!(site.since(session, &site.work()).await, []);
    site.write("long.txt", &format!("y{long}"));
    site.write("loose.txt", "changed\n");
    site.write("lines.txt", &"a line\n".repeat(MAX_DIFF / 4));
    let found = site.since(session, &site.work()).await;
    let found: Vec<_> = found.iter().map(|(_, path, why)| (path.as_str(), why.as_str())).collect();
    let expected = [
        ("lines.txt", "(its difference is too long)"),
        ("long.txt", "(its earlier content was too long, or was not kept)"),
        ("loose.txt", "@@ -1 +1 @@\n-loose\n+changed\n"),
    ];
    assert_eq!(found, expected);
    for n in 0..MAX_FILES {
        site.write(&format!("many-{n}"), "");
    }
    let found = site.beginnings.since(session, &site.work()).await.unwrap().unwrap();
    assert!(found.cut && found.changes.len() == MAX_FILES);
}

/// Numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % most
    }
}

/// Damages some bytes, or the end.
fn damage(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    for _ in 0..=numbers.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = numbers.below(bytes.len());
        match numbers.below(8) {
            0 => bytes.truncate(at),
            1 => {
                let end = bytes.len().min(at + 8);
                bytes[at..end].fill(0xff);
            }
            2 => bytes.extend_from_within(at..),
            _ => bytes[at] = u8::try_from(numbers.below(256)).unwrap(),
        }
    }
}

#[test]
fn damaged_repositories_give_nothing_wrong_and_never_panic() {
    for (init, version) in [(&[][..], "2"), (&[][..], "4"), (&["--object-format=sha256"], "3")] {
        let site = Site::with(init);
        let long: String = (0..200).map(|line| format!("line {line}\n")).collect();
        for n in 0..10 {
            site.write("long.txt", &long.replace("7\n", &format!("seven {n}\n")));
            site.git(&["add", "--all"]);
            site.git(&["commit", "--quiet", "--message", "more"]);
        }
        site.git(&["update-index", "--index-version", version]);
        site.git(&["repack", "-a", "-d", "--quiet"]);
        site.write("loose.txt", "loose\n");
        site.git(&["add", "--all"]);
        let dir = site.work().canonicalize().unwrap();
        let blobs: BTreeMap<_, _> = site.blobs().into_iter().collect();
        let of_interest = |path: &PathBuf| {
            let name = path.to_string_lossy();
            name.ends_with(".idx")
                || name.ends_with(".pack")
                || name.ends_with(".git/index")
                || (name.contains("objects/") && !name.contains("info/") && !name.contains("pack/"))
        };
        let files = site.repository();
        let files: Vec<_> = files.iter().filter(|(path, _)| of_interest(path)).collect();
        assert!(files.len() > 3, "{files:?}");
        let mut numbers = Numbers(7);
        for _ in 0..300 {
            let (path, whole) = files[numbers.below(files.len())];
            let mut bytes = whole.clone();
            damage(&mut bytes, &mut numbers);
            // Git writes them read-only.
            fs::remove_file(path).unwrap();
            fs::write(path, &bytes).unwrap();
            let (of, indexed) = Repository::of(&dir).unwrap().unwrap();
            for name in indexed.files.keys() {
                assert!(snapshot::is_plain(name), "{name:?}");
            }
            let objects = of.objects().unwrap();
            let deadline = Deadline::after(Duration::from_secs(3600));
            for (id, content) in &blobs {
                let read = objects.read(&id.parse().unwrap(), deadline);
                assert!(read.is_none_or(|read| read == *content), "{id} is something else");
            }
            fs::write(path, whole).unwrap();
        }
    }
}

#[test]
fn snapshots_are_read_as_they_were_written() {
    let site = Site::new();
    site.write("a name\nwith \u{fc} and \\", "x");
    fs::write(site.work().join(OsStr::from_bytes(b"\xff\xfe")), "").unwrap();
    fs::create_dir_all(site.work().join("nested/.git")).unwrap();
    site.write("long", &"x".repeat(MAX_CONTENT + 1));
    let dir = site.work().canonicalize().unwrap();
    let (repository, indexed) = Repository::of(&dir).unwrap().unwrap();
    let held = HeldDir::hold(&dir).unwrap();
    let of = directory(&held, &dir, &repository);
    let deadline = Deadline::after(Duration::from_secs(3600));
    let taken = Snapshot::take(&of, &indexed, deadline, |_, _| Ok(())).unwrap();
    assert_eq!(taken.files.len(), 8);
    assert_eq!(Snapshot::from_bytes(&taken.to_bytes()), Some(taken));
}
