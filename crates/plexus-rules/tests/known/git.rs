//! Git's notations for paths, judged by running: every spelling that the rules allow in a session
//! below the top of a repository is run by the real git, and must neither show nor change anything
//! outside the session's directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use plexus_rules::{Call, Decision, RealPaths, notation};
use serde_json::json;

use super::common::{allows, session};

/// Part of every line outside the session's directory.
const MARK: &str = "mark-of-the-outside";

/// The name of a file outside. A commit that finds nothing to commit lists all that has changed, as
/// `git status` does, so commands that change something may show it.
const NAME: &str = "name-of-the-outside";

/// One of so many commands is judged, unless `RULES_CORPUS` asks for all of them.
const SAMPLE: usize = 11;

/// The commands, with `N` for the notation.
const SHOWING: &[&str] = &[
    "show N",
    "show -- N",
    "show HEAD -- N",
    "log -p N",
    "log -1 -p -- N",
    "log -p -L1,1:N",
    "log -p -L1,1:f -L1,1:N",
    "log -p -L :mark:N",
    "diff N",
    "diff . N",
    "diff -- . N",
    "diff HEAD N",
    "diff HEAD N -- .",
    "diff --cached N",
    "diff-index -p N",
    "diff HEAD -- N",
    "diff HEAD~2 -- N",
    "diff --cached -- N",
    "diff HEAD:./f N",
    "blame N",
    "blame HEAD -- N",
    "grep -e mark -- N",
    "grep mark N",
    "grep mark HEAD -- N",
    "cat-file -p N",
    "cat-file blob N",
    "ls-files -s -- N",
    "ls-tree -r HEAD N",
    "ls-tree -r N",
    "diff-tree -p HEAD~2 HEAD N",
    "diff-index -p HEAD -- N",
    "diff-files -p N",
    "rev-list --objects -1 HEAD -- N",
    "stash show -p N",
    "status -s -- N",
    "status -v N",
    "shortlog HEAD -- N",
    "check-ignore -v N",
];
const CHANGING: &[&str] = &[
    "restore N",
    "restore -- . N",
    "restore -s HEAD~2 -- N",
    "restore -S N",
    "checkout N",
    "checkout -- N",
    "checkout HEAD~2 -- N",
    "checkout HEAD~2 N",
    "add N",
    "add -A -- N",
    "stage -u N",
    "rm -r --cached N",
    "reset -q N",
    "reset -q HEAD~2 -- N",
    "commit -q -m x -- N",
    "commit --dry-run -v -- N",
];

/// What stands before the path of a notation.
const BEFORE: &[&str] = &[
    "",
    ":",
    "::",
    ":/",
    "://",
    ":!",
    ":^",
    ":!/",
    ":/!",
    ":!:",
    ":-",
    ":(top)",
    ":(icase)",
    ":(exclude)",
    ":(glob)",
    ":(literal)",
    ":(icase,top)",
    ":(exclude,glob)",
    ":(attr:x)",
    ":(attr:!x)",
    ":(prefix:0)",
    ":()",
    ":(TOP)",
    "HEAD:",
    "HEAD:./",
    "@:",
    "^HEAD~2:",
    "HEAD~1:",
    "HEAD^{tree}:",
    "HEAD^{/inside}:",
    "odd}^{/:./x}:",
    "HEAD@{0}:",
    ":0:",
    ":0:./",
    "HEAD:./f..HEAD:",
    "HEAD:./f...HEAD:",
];
const PATHS: &[&str] = &[
    "",
    ".",
    "..",
    "f",
    "x",
    "../x",
    "./../x",
    "other/f",
    "../other",
    "../other/f",
    "deep/../../x",
    "sub/f",
    "sub/../x",
    "deep",
    "*",
    "../*",
    "[.][.]/x",
    "{TOP}",
    "{TOP}/x",
    "{TOP}/sub/f",
    "{TOP}/to-sub",
];

/// Notations that lead outside, each with at least one of the commands above.
const LEADING: &[&str] = &[
    ":/",
    ":/other/f",
    ":!zz",
    ":^zz",
    ":!/zz",
    ":../x",
    "::../x",
    ":./../x",
    ":(top)",
    ":(top)other/f",
    ":(icase)../x",
    ":(glob)../*",
    ":(literal)../x",
    ":(exclude)zz",
    ":(exclude,glob)zz",
    ":(icase,top)x",
    "../x",
    "..",
    "../other",
    "deep/../../x",
    "HEAD:x",
    "HEAD:other/f",
    "HEAD:../x",
    "HEAD:./../x",
    "HEAD:",
    "@:../x",
    "HEAD~1:x",
    "HEAD^{tree}:x",
    "HEAD^{/inside}:x",
    "odd}^{/:./x}:x",
    "HEAD@{0}:x",
    ":x",
    ":0:x",
    ":0:../x",
    ":0:./../x",
    "HEAD:./f..HEAD:x",
    "{TOP}/x",
    "{TOP}/to-sub",
];

/// Notations of the session's own files, each allowed with at least one of the commands above.
const INSIDE: &[&str] = &[
    "f",
    "./f",
    ".",
    "*",
    "**/f",
    "{TOP}/sub/f",
    "HEAD:./f",
    "HEAD~1:./f",
    "HEAD:sub/f",
    ":./f",
    ":0:./f",
    ":(icase)f",
    ":(glob)**/f",
    ":(literal)f",
    ":(exclude)zz",
    ":!zz",
];

/// A repository whose directory `sub` is the session's.
struct Repository {
    folder: tempfile::TempDir,
    /// The state of everything outside the session's directory.
    before: String,
}

impl Repository {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut repository = Self { folder, before: String::new() };
        let top = repository.top();
        for dir in ["other", "sub/deep"] {
            fs::create_dir_all(top.join(dir)).unwrap();
        }
        let write = |round: &str| {
            for file in ["x", "zz", "f", "other/f", &format!("other/{NAME}")] {
                fs::write(top.join(file), format!("{MARK} {round}\n")).unwrap();
            }
        };
        let git = |command: &str| {
            let output = repository.git(&top, command);
            assert!(output.status.success(), "git {command}: {output:?}; git is needed here");
        };
        write("1");
        for file in ["sub/f", "sub/x", "sub/zz", "sub/deep/f"] {
            fs::write(top.join(file), "mark inside 1\n").unwrap();
        }
        symlink("sub", top.join("to-sub")).unwrap();
        git("init -q -b main --template= .");
        git("add .");
        git("commit -q -m first");
        write("2");
        git("commit -q -a -m second");
        git("branch odd}");
        fs::write(top.join("sub/f"), "mark inside 2\n").unwrap();
        git("commit -q -a -m inside:./x");
        git("branch -f odd}");
        write("3");
        fs::remove_file(top.join("to-sub")).unwrap();
        symlink("./sub", top.join("to-sub")).unwrap();
        git("add --all");
        write("4");
        fs::write(top.join("sub/f"), "mark inside 4\n").unwrap();
        let mut copy = Command::new("cp");
        copy.args(["-a", "top", "spare"]).current_dir(&repository.folder);
        assert!(copy.status().unwrap().success());
        repository.before = repository.outside();
        repository
    }

    fn top(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("top")
    }

    fn git(&self, dir: &Path, command: &str) -> Output {
        Command::new("git")
            .args(command.split(' '))
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("HOME", self.folder.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs([("GIT_AUTHOR_NAME", "x"), ("GIT_AUTHOR_EMAIL", "x@example.org")])
            .envs([("GIT_COMMITTER_NAME", "x"), ("GIT_COMMITTER_EMAIL", "x@example.org")])
            .current_dir(dir)
            .output()
            .expect("git is needed here")
    }

    /// Writes back every file that a command has changed. Objects of git are only ever added.
    fn restore(&self) {
        let (top, spare) = (self.top(), self.folder.path().join("spare"));
        for (path, content) in files(&spare, &[]) {
            let target = top.join(path.strip_prefix(&spare).unwrap());
            if Content::of(&target).as_ref() == Some(&content) {
                continue;
            }
            let _absent = fs::remove_file(&target);
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            match content {
                Content::Link(to) => symlink(to, target).unwrap(),
                Content::Bytes(bytes) => fs::write(target, bytes).unwrap(),
            }
        }
    }

    /// Returns the files, the index and the last commit outside the session's directory.
    fn outside(&self) -> String {
        let top = self.top();
        let mut state = format!("{:?}", files(&top, &["sub", ".git"]));
        for command in ["ls-files -s", "ls-tree -r HEAD"] {
            let listed = self.git(&top, command);
            let listed = String::from_utf8(listed.stdout).unwrap();
            state += &listed
                .lines()
                .filter(|line| !line.contains("\tsub/"))
                .collect::<Vec<_>>()
                .join("\n");
        }
        state
    }

    /// Runs a command in the session's directory and says whether it showed or changed anything
    /// outside.
    fn leads_outside(&self, command: &str, notation: &str, changes: bool) -> bool {
        let words = command.split(' ').map(|word| word.replace('N', notation));
        // Commands are split at spaces, and no notation has one.
        let output = self.git(&self.top().join("sub"), &words.collect::<Vec<_>>().join(" "));
        let shown =
            [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
        let changed = changes && self.outside() != self.before;
        if changes {
            self.restore();
        }
        changed || shown.iter().any(|text| text.contains(MARK) || !changes && text.contains(NAME))
    }

    /// Judges a command of a session in the directory `dir` of the repository, with the rules that
    /// somebody may have made for it.
    fn judge(&self, dir: &str, command: &str, notation: &str) -> Decision {
        let subcommand = command.split(' ').next().unwrap();
        let rules = allows(&[
            "Bash(git:*)".into(),
            format!("Bash(git {subcommand}:*)"),
            format!("Bash(git {subcommand} --:*)"),
        ]);
        let words = command.split(' ').map(|word| format!("'{}'", word.replace('N', notation)));
        let command = format!("git {}", words.collect::<Vec<_>>().join(" "));
        let call = Call {
            tool: &notation::read("Bash", &json!({ "command": command })),
            working_dir: &self.top().join(dir),
            home: None,
            session: session(2),
            ancestors: &[],
            now: 0,
            paths: &RealPaths,
        };
        rules.decide(&call).decision
    }

    /// Returns every notation, with the path of the repository in it.
    fn notations(&self) -> BTreeSet<String> {
        let all = BEFORE
            .iter()
            .flat_map(|before| PATHS.iter().map(move |path| format!("{before}{path}")));
        let all = all.chain(LEADING.iter().chain(INSIDE).map(|it| (*it).to_owned()));
        all.filter(|it| !it.is_empty()).map(|it| self.placed(&it)).collect()
    }

    fn placed(&self, notation: &str) -> String {
        notation.replace("{TOP}", self.top().to_str().unwrap())
    }
}

/// What a file holds, or where a link leads.
#[derive(Debug, PartialEq, Eq)]
enum Content {
    Link(PathBuf),
    Bytes(Vec<u8>),
}

impl Content {
    /// Returns `None` for what is no file or link.
    fn of(path: &Path) -> Option<Self> {
        fs::read_link(path).map(Self::Link).or_else(|_| fs::read(path).map(Self::Bytes)).ok()
    }
}

/// Returns the files below a directory, without those in directories of these names or in git's
/// own directory of objects.
fn files(dir: &Path, without: &[&str]) -> BTreeMap<PathBuf, Content> {
    let mut found = BTreeMap::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        for path in fs::read_dir(dir).unwrap().map(|it| it.unwrap().path()) {
            match Content::of(&path) {
                Some(content) => found.extend([(path, content)]),
                None if path.ends_with("objects")
                    || without.iter().any(|it| path.ends_with(it)) => {}
                None => todo.push(path),
            }
        }
    }
    found
}

fn commands() -> impl Iterator<Item = (&'static str, bool)> {
    let showing = SHOWING.iter().map(|command| (*command, false));
    showing.chain(CHANGING.iter().map(|command| (*command, true)))
}

#[test]
fn no_notation_that_is_allowed_leads_outside() {
    let repository = Repository::new();
    let step = if std::env::var_os("RULES_CORPUS").is_some() { 1 } else { SAMPLE };
    let (mut made, mut run, mut outside) = (0_usize, 0, Vec::new());
    for notation in &repository.notations() {
        for (command, changes) in commands() {
            made += 1;
            let is_taken = made % step == 0 || LEADING.contains(&notation.as_str());
            if !is_taken || repository.judge("sub", command, notation) != Decision::Allow {
                continue;
            }
            run += 1;
            if repository.leads_outside(command, notation, changes) {
                outside.push(format!("git {}", command.replace('N', notation)));
            }
        }
    }
    assert!(outside.is_empty(), "{} of {run} lead outside: {outside:#?}", outside.len());
    assert!(
        repository.outside() == repository.before,
        "a command that shows has changed something"
    );
    eprintln!("git: {run} allowed commands were run, of {made}");
    assert!(run > 300, "only {run} were allowed and run");
}

#[test]
fn each_notation_that_leads_outside_does_so() {
    let repository = Repository::new();
    let harmless: Vec<_> = LEADING
        .iter()
        .filter(|notation| {
            let notation = repository.placed(notation);
            !commands()
                .any(|(command, changes)| repository.leads_outside(command, &notation, changes))
        })
        .collect();
    assert!(harmless.is_empty(), "the test does not see that these lead outside: {harmless:?}");
}

#[test]
fn each_notation_of_the_sessions_own_files_is_allowed() {
    let repository = Repository::new();
    let asked: Vec<_> = INSIDE
        .iter()
        .filter(|notation| {
            let notation = repository.placed(notation);
            !commands()
                .any(|(command, _)| repository.judge("sub", command, &notation) == Decision::Allow)
        })
        .collect();
    assert!(asked.is_empty(), "{asked:?}");
}

#[test]
fn every_path_is_inside_at_the_top_of_the_repository() {
    let repository = Repository::new();
    for (command, notation) in [
        ("add N", ":/"),
        ("diff -- N", ":!zz"),
        ("diff N", ":(exclude)zz"),
        ("restore N", ":(top)sub"),
        ("show N", "HEAD:other/f"),
        ("show N", ":0:other/f"),
        ("log N", ":/inside"),
        ("ls-tree N", "HEAD:"),
    ] {
        assert_eq!(
            repository.judge("", command, notation),
            Decision::Allow,
            "{command} {notation}"
        );
        assert_eq!(
            repository.judge("sub", command, notation),
            Decision::Ask,
            "{command} {notation}"
        );
    }
    for notation in ["..", "../x", ":../x", "HEAD:../x", ":(attr:x)f"] {
        assert_eq!(repository.judge("", "diff N", notation), Decision::Ask, "{notation}");
    }
}

#[test]
fn a_directory_named_git_without_a_repository_is_no_top() {
    let repository = Repository::new();
    let sub = repository.top().join("sub");
    for empty in [".git", ".git/objects", ".git/refs"] {
        fs::create_dir(sub.join(empty)).unwrap();
        assert_eq!(repository.judge("sub", "restore N", ":/x"), Decision::Ask, "{empty}");
        assert!(repository.leads_outside("restore N", ":/x", true), "{empty}");
    }
}
