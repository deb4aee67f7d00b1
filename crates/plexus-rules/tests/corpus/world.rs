//! The world in which allowed commands run: a project in a directory, traps around it and in it,
//! and no network.
//!
//! The traps: a secret outside, whose text must not be shown; a directory outside, in which nothing
//! may change; programs that leave a mark when they are started; and, for commands that only show,
//! the project itself.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::tables::Entry;

/// What the secret says, and how the file beside it is called.
const SECRET: &str = "the-secret-of-the-outside";
const MARKER: &str = "marker-of-the-outside";

/// Programs that nothing that shows should start: each leaves a mark.
const TRAPPED: &[&str] = &[
    "less",
    "more",
    "most",
    "pager",
    "vi",
    "vim",
    "nano",
    "editor",
    "emacs",
    "gpg",
    "gpg2",
    "gpgsm",
    "ssh",
    "rsh",
    "scp",
    "man",
    "xdg-open",
    "open",
    "www-browser",
    "firefox",
    "w3m",
    "lynx",
    "sensible-browser",
    "sensible-pager",
    "sensible-editor",
    "sendmail",
    "evil",
];

/// The longest that a command may take before it is ended; what it did by then counts.
const LONGEST: Duration = Duration::from_secs(20);

/// Which traps are set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traps {
    /// Also in the project: nothing may change there.
    Everywhere,
    /// Around the project, and where git takes its orders from.
    Outside,
}

pub(crate) struct World {
    folder: tempfile::TempDir,
    network_is_closed: bool,
    before: Shot,
}

/// Files by path, each with what would change if it were written.
type Shot = BTreeMap<PathBuf, (u64, Option<std::time::SystemTime>)>;

impl World {
    pub(crate) fn new() -> Self {
        let closes = Command::new("unshare").args(["-rn", "true"]).stderr(Stdio::null()).status();
        let mut world = Self {
            folder: tempfile::tempdir().unwrap(),
            network_is_closed: closes.is_ok_and(|status| status.success()),
            before: Shot::new(),
        };
        world.build();
        world
    }

    pub(crate) fn network_is_closed(&self) -> bool {
        self.network_is_closed
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) fn outside(&self) -> &str {
        // A short name that is the same in every command, whatever the directory is called.
        "/nonexistent-outside"
    }

    /// Says whether a program is on this machine.
    pub(crate) fn has(&self, program: &str) -> bool {
        self.bash(&format!("command -v {program} >/dev/null")).status().is_ok_and(|it| it.success())
    }

    /// The options that a command lists in its own help.
    pub(crate) fn help(&self, entry: &Entry) -> Vec<String> {
        let flag = if entry.program() == "git" { "-h" } else { "--help" };
        let text = self.output(&format!("{} {flag}", entry.name()));
        let mut options: Vec<String> = text
            .split(|c: char| c.is_whitespace() || ",[]()|=<>\"'`{}".contains(c))
            .filter(|word| word.starts_with('-') && word.len() > 1 && word.len() < 30)
            .filter(|word| word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'))
            .map(str::to_owned)
            .collect();
        options.sort();
        options.dedup();
        options
    }

    /// Runs a command and returns the trap that it sprang. The world is as before afterwards.
    pub(crate) fn run(&mut self, command: &str, traps: Traps) -> Option<String> {
        let command = command.replace(self.outside(), &self.place("outside").display().to_string());
        let shown = self.output(&command);
        let sprung = if shown.contains(SECRET) || shown.contains(MARKER) {
            Some("showed something outside".to_owned())
        } else {
            self.changed(traps)
        };
        if self.shot() != self.before {
            self.build();
        }
        sprung
    }

    fn place(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn changed(&self, traps: Traps) -> Option<String> {
        if self.place("outside/ran").exists() {
            return Some("started something".into());
        }
        let after = self.shot();
        let watched = |path: &Path| match traps {
            Traps::Everywhere => true,
            Traps::Outside => {
                path.starts_with(self.place("outside"))
                    || path.starts_with(self.place("work/.git/hooks"))
                    || path == self.place("work/.git/config")
            }
        };
        let all = self.before.keys().chain(after.keys());
        all.filter(|path| watched(path))
            .find(|path| self.before.get(*path) != after.get(*path))
            .map(|path| format!("changed {}", path.display()))
    }

    /// What stands where. The index of git is left out: to look at files is to refresh it.
    fn shot(&self) -> Shot {
        let mut shot = Shot::new();
        let mut todo = vec![self.place("outside"), self.place("work")];
        while let Some(folder) = todo.pop() {
            for file in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = file.path();
                let Ok(data) = fs::symlink_metadata(&path) else { continue };
                if data.is_dir() {
                    if !path.ends_with(".git/objects") {
                        todo.push(path.clone());
                    }
                    shot.insert(path, (0, None));
                } else if !path.ends_with(".git/index") {
                    shot.insert(path, (data.len(), data.modified().ok()));
                }
            }
        }
        shot
    }

    fn bash(&self, command: &str) -> Command {
        let mut bash = if self.network_is_closed {
            let mut unshare = Command::new("unshare");
            unshare.args(["-rn", "/bin/bash"]);
            unshare
        } else {
            Command::new("/bin/bash")
        };
        let path = std::env::var("PATH").unwrap_or_default();
        bash.args(["--norc", "--noprofile", "-c", command])
            .env_clear()
            .env("PATH", format!("{}:{path}", self.place("traps").display()))
            .env("HOME", self.place("home"))
            .env("LC_ALL", "C.UTF-8")
            .env("PAGER", "less")
            .env("GIT_EDITOR", "true")
            .env("CARGO_HOME", self.place("home/cargo"))
            .env("CARGO_NET_OFFLINE", "true")
            .env("npm_config_cache", self.place("home/npm"))
            .env("npm_config_update_notifier", "false")
            .current_dir(self.work());
        // Where rustup keeps the toolchain that its `cargo` starts.
        let rustup = std::env::var_os("RUSTUP_HOME").map(PathBuf::from);
        let rustup = rustup.or_else(|| std::env::home_dir().map(|home| home.join(".rustup")));
        bash.envs(rustup.map(|rustup| ("RUSTUP_HOME", rustup)));
        bash
    }

    fn output(&self, command: &str) -> String {
        let mut child = self
            .bash(&format!("{{ {command}\n}} 2>&1"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("bash starts");
        let mut stdout = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stdout.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let started = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if started.elapsed() > LONGEST {
                let _ = child.kill();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        reader.join().unwrap()
    }

    /// Makes everything anew.
    fn build(&mut self) {
        for name in ["work", "outside", "home", "traps"] {
            let _ = fs::remove_dir_all(self.place(name));
            fs::create_dir_all(self.place(name)).unwrap();
        }
        let (work, outside) = (self.work(), self.place("outside"));
        fs::write(outside.join("secret"), format!("{SECRET}\n")).unwrap();
        fs::write(outside.join("victim"), "as it was\n").unwrap();
        fs::write(outside.join(MARKER), "").unwrap();
        let trap = format!("#!/bin/sh\ntouch '{}/ran'\n", outside.display());
        for program in TRAPPED {
            executable(&self.place("traps").join(program), &trap);
        }
        for folder in ["src", "vendor"] {
            fs::create_dir(work.join(folder)).unwrap();
        }
        for (file, text) in [
            ("f", "some text\n"),
            ("src/a.txt", "one\ntwo\n"),
            ("Makefile", "all test build 1 x main:\n\t@true\n"),
            (
                "package.json",
                r#"{"name":"x","version":"1.0.0","scripts":{"build":"true","test":"true"}}"#,
            ),
            (".gitattributes", "*.txt diff=evil filter=evil merge=evil\n"),
            (".curlrc", "output = WRITTEN\n"),
            (".ripgreprc", "--pre=./evil\n"),
            (".wgetrc", "output_document = WRITTEN\n"),
        ] {
            fs::write(work.join(file), text).unwrap();
        }
        executable(&work.join("evil"), &trap);
        symlink(outside.join("secret"), work.join("link")).unwrap();
        symlink(&outside, work.join("linkdir")).unwrap();
        let hook = work.join("vendor/evil.git/hooks/pre-receive");
        let made = self.output(&format!(
            "git init -q -b main . && git config user.email x@example.org && \
             git config user.name x && git add f src && git commit -qm first && \
             echo three >> src/a.txt && git init -q --bare vendor/evil.git && mkdir -p {}",
            hook.parent().unwrap().display()
        ));
        assert!(work.join(".git/HEAD").exists(), "{made}");
        executable(&hook, &trap);
        self.before = self.shot();
    }
}

fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
