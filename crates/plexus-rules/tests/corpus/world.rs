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
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use super::tables::Entry;

/// The content of the secret, and the name of the file beside it.
const SECRET: &str = "the-secret-of-the-outside";
const MARKER: &str = "marker-of-the-outside";

/// Programs that a command which only shows must not start. Each leaves a mark when it starts.
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

/// The timeout of a command. Its effects up to then count.
const LONGEST: Duration = Duration::from_secs(20);

/// How many commands share a shell when nothing may change.
const AT_ONCE: usize = 64;

/// Whether a command ended by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    InTime,
    TooLate,
}

/// Which traps are set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traps {
    /// Also in the project: nothing may change there.
    Everywhere,
    /// Around the project, and on the files that git takes orders from.
    Outside,
}

pub(crate) struct World {
    folder: tempfile::TempDir,
    network_is_closed: bool,
    before: Shot,
}

/// Files by path, each with metadata that a write would change.
type Shot = BTreeMap<PathBuf, Mark>;

/// The length of a file, its modification time, and its mode. A folder has only a mode.
type Mark = (u64, Option<SystemTime>, u32);

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
        // A short name that is the same in every command, whatever the real directory is called.
        "/nonexistent-outside"
    }

    /// Says whether a program is on this machine.
    pub(crate) fn has(&self, program: &str) -> bool {
        self.bash(&format!("command -v {program} >/dev/null")).status().is_ok_and(|it| it.success())
    }

    /// Returns the options that a command lists in its own help.
    pub(crate) fn help(&self, entry: &Entry) -> Vec<String> {
        let flag = if entry.program() == "git" { "-h" } else { "--help" };
        let text = self.output(&format!("{} {flag}", entry.name())).0;
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

    /// Runs commands, each in the original world, and returns those that sprang a trap.
    pub(crate) fn run_all(&mut self, commands: &[&str], traps: Traps) -> Vec<String> {
        let at_once = if traps == Traps::Everywhere { AT_ONCE } else { 1 };
        let mut sprung = Vec::new();
        for some in commands.chunks(at_once) {
            // When nothing may change, many commands can share a shell: as long as no trap is
            // sprung, each one finds the original world.
            if some.len() > 1 {
                let (trap, end) = self.try_out(&one_after_another(some), traps);
                if trap.is_none() && end == End::InTime {
                    continue;
                }
            }
            for command in some {
                let trap = self.run(command, traps);
                sprung.extend(trap.map(|trap| format!("{command}\n    {trap}")));
            }
        }
        sprung
    }

    /// Runs a command, restores the world, and returns the trap that the command sprang.
    pub(crate) fn run(&mut self, command: &str, traps: Traps) -> Option<String> {
        self.try_out(command, traps).0
    }

    fn try_out(&mut self, command: &str, traps: Traps) -> (Option<String>, End) {
        let command = command.replace(self.outside(), &self.place("outside").display().to_string());
        let (shown, end) = self.output(&command);
        let sprung = if shown.contains(SECRET) || shown.contains(MARKER) {
            Some("showed something outside".to_owned())
        } else {
            self.changed(traps)
        };
        self.restore();
        (sprung, end)
    }

    /// Restores what a command has changed.
    fn restore(&mut self) {
        let after = self.shot();
        if after == self.before {
            return;
        }
        let changed = |path: &&PathBuf| self.before.get(*path) != after.get(*path);
        let in_git = |path: &&PathBuf| path.starts_with(self.place("work/.git"));
        if self.before.keys().chain(after.keys()).filter(changed).any(|path| in_git(&path)) {
            return self.build();
        }
        for path in after.keys().rev().filter(changed) {
            let _ = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
        }
        for path in self.before.keys().filter(|path| fs::symlink_metadata(path).is_err()) {
            self.put_back(path);
        }
        let _ = fs::remove_dir_all(self.place("home"));
        fs::create_dir_all(self.place("home")).unwrap();
        if self.shot() != self.before {
            self.build();
        }
    }

    /// Copies a file, a link or a folder from the spare world.
    fn put_back(&self, path: &Path) {
        let spare = self.place("spare").join(path.strip_prefix(self.folder.path()).unwrap());
        let data = fs::symlink_metadata(&spare).unwrap();
        if data.is_dir() {
            fs::create_dir_all(path).unwrap();
            return fs::set_permissions(path, data.permissions()).unwrap();
        }
        let copied = Command::new("cp").arg("-a").arg(&spare).arg(path).status();
        assert!(copied.unwrap().success(), "{}", spare.display());
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

    /// Takes a snapshot of the files. It omits git's index, which even a command that only reads
    /// files refreshes.
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
                    shot.insert(path, (0, None, data.permissions().mode()));
                } else if !path.ends_with(".git/index") {
                    let mark = (data.len(), data.modified().ok(), data.permissions().mode());
                    shot.insert(path, mark);
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
        // The toolchain that rustup's `cargo` starts is in here.
        let rustup = std::env::var_os("RUSTUP_HOME").map(PathBuf::from);
        let rustup = rustup.or_else(|| std::env::home_dir().map(|home| home.join(".rustup")));
        bash.envs(rustup.map(|rustup| ("RUSTUP_HOME", rustup)));
        bash
    }

    /// Returns the output of a command.
    fn output(&self, command: &str) -> (String, End) {
        let mut child = self
            .bash(&format!("{{ {command}\n}} 2>&1"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("bash starts");
        let mut stdout = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stdout.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let (started, mut end) = (Instant::now(), End::InTime);
        while child.try_wait().unwrap().is_none() {
            if started.elapsed() > LONGEST {
                end = End::TooLate;
                let group = format!("-{}", child.id());
                let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        (reader.join().unwrap(), end)
    }

    /// Builds everything anew.
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
        // It would wait for more to show until it is stopped.
        let tail = "#!/bin/sh\nexec timeout 0.3 /usr/bin/tail \"$@\"\n";
        executable(&self.place("traps").join("tail"), tail);
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
        assert!(work.join(".git/HEAD").exists(), "{}", made.0);
        executable(&hook, &trap);
        self.before = self.shot();
        let _ = fs::remove_dir_all(self.place("spare"));
        fs::create_dir(self.place("spare")).unwrap();
        for name in ["work", "outside"] {
            let copied = Command::new("cp")
                .arg("-a")
                .arg(self.place(name))
                .arg(self.place("spare"))
                .status();
            assert!(copied.unwrap().success());
        }
    }
}

/// Returns a script that runs each command in its own shell.
fn one_after_another(commands: &[&str]) -> String {
    let line = |command: &&str| format!("( eval '{}' ) </dev/null", command.replace('\'', r"'\''"));
    commands.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
