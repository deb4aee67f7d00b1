//! The attacks, what is expected of each, and the table in `docs/security.md`.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

/// The user as whom an attack succeeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Success {
    Never,
    Always,
    AsRoot,
    /// That depends on the machine.
    Varies,
}

/// One attack: a script that ends with 0 when it succeeded. What is expected has a letter for each
/// of [`PROFILES`]: `y` it succeeds, `-` it is refused, `r` it succeeds as root, `m` that depends
/// on the machine.
pub(crate) struct Attack {
    pub(crate) words: &'static str,
    pub(crate) script: &'static str,
    letters: &'static str,
}

const PROFILES: [&str; 3] = ["none", "workspace", "strict"];
const BEGIN: &str = "<!-- attacks through an approved command -->\n";
const END: &str = "<!-- end of attacks -->";

impl Attack {
    pub(crate) fn success(&self, profile: &str) -> Success {
        let index = PROFILES.iter().position(|known| *known == profile);
        match index.and_then(|index| self.letters.chars().nth(index)) {
            Some('y') => Success::Always,
            Some('-') => Success::Never,
            Some('r') => Success::AsRoot,
            _ => Success::Varies,
        }
    }
}

const fn attack(letters: &'static str, words: &'static str, script: &'static str) -> Attack {
    Attack { words, script, letters }
}

/// Runs a system call by its number on x86-64 and on other machines.
macro_rules! call {
    ($x86:literal, $other:literal, $arguments:literal) => {
        concat!(
            r#"python3 -c 'import ctypes, platform, sys
call = ctypes.CDLL(None).syscall
number = "#,
            $x86,
            r#" if platform.machine() == "x86_64" else "#,
            $other,
            "\nsys.exit(call(number, ",
            $arguments,
            ") < 0)'"
        )
    };
}

/// Opens a socket, or sends to one, in Python.
macro_rules! socket {
    ($lines:literal) => {
        concat!("python3 -c 'from socket import *\nimport os\n", $lines, "'")
    };
}

pub(crate) const ATTACKS: &[Attack] = &[
    attack("y--", "read `operator.token`", "grep -q plx_ $DATA/operator.token"),
    attack("y--", "open it for writing", ": >> $DATA/operator.token"),
    attack(
        "y--",
        "read it through a symbolic link",
        "ln -s $DATA l; grep -q plx_ l/operator.token",
    ),
    attack(
        "y--",
        "read it through `/proc/self/root`",
        "grep -q plx_ /proc/self/root$DATA/operator.token",
    ),
    attack(
        "y--",
        "read it through another process' root",
        "grep -q plx_ /proc/$VICTIM/root$DATA/operator.token",
    ),
    attack("y--", "read the database", "cat $DATA/*.db* | grep -q ."),
    attack("y--", "make a file in the data directory", ": > $DATA/made-by-a-command"),
    attack(
        "y--",
        "write to the agent's own input",
        "for d in $(find $DATA/runs -name inbox -type d); do : > $d/.made && exit 0; done; exit 1",
    ),
    attack(
        "y--",
        "read the journal of the run",
        "cat $(find $DATA/runs -path \"*/journal/*\" -type f) < /dev/null | grep -q .",
    ),
    attack("y--", "read a file beside the working directory", "cat ../outside/secret"),
    attack("y--", "read it through a hard link", "ln $OUT/secret hard && cat hard"),
    attack(
        "y--",
        "move it into the working directory and back",
        "mv $OUT/secret moved && mv moved $OUT/secret",
    ),
    attack("y--", "read it through another process' directory", "cat /proc/$VICTIM/cwd/secret"),
    attack(
        "y--",
        "read it where a directory becomes a link",
        "mkdir d; (while :; do mv d e; ln -sfn $OUT d; rm -f d; mv e d; done) & for i in $(seq \
         3000); do cat d/secret 2>/dev/null && { kill %1; exit 0; }; done; kill %1; exit 1",
    ),
    attack("y--", "change its mode", "chmod 600 $OUT/secret"),
    attack("y--", "change its times", "touch -m $OUT/secret"),
    attack("y--", "see its size", "stat $OUT/secret"),
    attack("y--", "read `.ssh`", "cat $HIS/.ssh/id_ed25519"),
    attack("y--", "read `.netrc`", "cat $HIS/.netrc"),
    attack("y--", "read cargo's credentials", "cat $HIS/.cargo/credentials.toml"),
    attack("y--", "write `.bashrc`", "echo >> $HIS/.bashrc"),
    attack("y--", "put a program into `.cargo/bin`", ": > $HIS/.cargo/bin/made"),
    attack("y--", "start something at the next login", ": > $HIS/.config/autostart/made.desktop"),
    attack("y--", "read a file of others in `/tmp`", "cat $TMPFILE"),
    attack("y--", "read a file of others in `/dev/shm`", "cat $SHMFILE"),
    attack("r--", "read `/etc/shadow`", "grep -q : /etc/shadow"),
    attack(
        "r--",
        "add a job to cron",
        "mkdir -p /etc/cron.d && : > /etc/cron.d/plexus-attack && rm /etc/cron.d/plexus-attack",
    ),
    attack(
        "r--",
        "put a program into `/usr/local/bin`",
        ": > /usr/local/bin/plexus-attack && rm /usr/local/bin/plexus-attack",
    ),
    attack(
        "y--",
        "gain rights by a set-user-id program",
        "grep -q \"NoNewPrivs:.0\" /proc/self/status",
    ),
    attack("y--", "make a git hook", ": > .git/hooks/post-checkout && rm .git/hooks/post-checkout"),
    attack(
        "y--",
        "write `.git/config`",
        "git config alias.made !true && git config --unset alias.made",
    ),
    attack("y--", "rename `.git`", "mv .git renamed && mv renamed .git"),
    attack("y--", "write `.vscode/settings.json`", "echo >> .vscode/settings.json"),
    attack("y--", "write `.envrc`", "echo >> .envrc"),
    attack("y--", "signal the server", "kill -0 $SERVER"),
    attack("y--", "signal another process", "kill -CONT $VICTIM"),
    attack("y--", "signal its own agent", "kill -0 $AGENT"),
    attack(
        "y--",
        "read the environment of its own agent",
        "tr \"\\0\" \"\\n\" < /proc/$AGENT/environ | grep -q .",
    ),
    attack("y--", "have the model's key", "env | grep -q ^ANTHROPIC_API_KEY="),
    attack(
        "y--",
        "read the environment of the server",
        "tr \"\\0\" \"\\n\" < /proc/$SERVER/environ | grep -q .",
    ),
    attack("yyy", "count the open files of the server", "ls /proc/$SERVER/fd | grep -q ."),
    attack("y--", "see which files the server has open", "readlink /proc/$SERVER/fd/0"),
    attack("y--", "open the memory of another process", "exec 3</proc/$VICTIM/mem"),
    attack(
        "y--",
        "trace another process",
        call!(101, 117, "0x4206, int(__import__(\"os\").environ[\"VICTIM\"]), 0, 0"),
    ),
    attack(
        "y--",
        "take a descriptor from another process",
        "python3 -c 'import ctypes, os, sys\nf = os.pidfd_open(int(os.environ[\"VICTIM\"]))\nsys.exit(ctypes.CDLL(None).syscall(438, f, 0, 0) < 0)'",
    ),
    attack("y--", "set the limits of another process", "prlimit --pid $VICTIM --core=0"),
    attack("y--", "lower the priority of another process", "renice -n 5 -p $VICTIM"),
    attack(
        "y--",
        "offer another process to the memory killer",
        "echo 500 > /proc/$VICTIM/oom_score_adj",
    ),
    attack("yyy", "see the arguments of another process", "grep -q sleep /proc/$VICTIM/cmdline"),
    attack(
        "y--",
        "call the server past the proxy",
        "curl -sS --noproxy \"*\" --max-time 15 $URL/healthz",
    ),
    attack(
        "y--",
        "TCP to another program of this machine",
        socket!(
            "create_connection((\"127.0.0.1\", int(os.environ[\"URL\"].rsplit(\":\", 1)[1])), 15)"
        ),
    ),
    attack(
        "y--",
        "a Unix socket outside (docker, ssh-agent, D-Bus)",
        socket!("s = socket(AF_UNIX)\ns.connect(os.environ[\"OUT\"] + \"/sock\")"),
    ),
    attack(
        "y--",
        "an abstract Unix socket",
        socket!("s = socket(AF_UNIX)\ns.connect(\"\\0\" + os.environ[\"OUT\"])"),
    ),
    attack("r--", "a raw socket", socket!("socket(AF_INET, SOCK_RAW, IPPROTO_ICMP)")),
    attack(
        "m--",
        "a socket to the host of a virtual machine",
        socket!("socket(AF_VSOCK, SOCK_STREAM)"),
    ),
    attack(
        "y--",
        "a netlink socket to the kernel's events",
        socket!("socket(AF_NETLINK, SOCK_RAW, 15).bind((0, 1))"),
    ),
    attack("m--", "a new user namespace", "unshare --user true"),
    attack("r--", "mount", "unshare --mount mount -t tmpfs none /mnt"),
    attack("r--", "change the root directory", "python3 -c 'import os; os.chroot(\"/\")'"),
    attack("m--", "io_uring", call!(425, 425, "4, ctypes.create_string_buffer(120)")),
    attack(
        "m--",
        "the user's keys in the kernel",
        call!(248, 217, "b\"user\", b\"plexus-attack\", b\"x\", 1, -3"),
    ),
    attack("m--", "measure another process (perf)", "perf stat -p $VICTIM true"),
    attack(
        "r--",
        "write a sysctl",
        "cat /proc/sys/kernel/domainname > /proc/sys/kernel/domainname",
    ),
    attack("r--", "the kernel's log", "dmesg | grep -q ."),
];

fn render() -> Result<String> {
    let mut table = String::from("| attack | none | workspace | strict |\n|---|---|---|---|\n");
    for attack in ATTACKS {
        write!(table, "| {} |", attack.words)?;
        for profile in PROFILES {
            let word = match attack.success(profile) {
                Success::Never => "-",
                Success::Always => "yes",
                Success::AsRoot => "root",
                Success::Varies => "some machines",
            };
            write!(table, " {word} |")?;
        }
        table.push('\n');
    }
    Ok(table)
}

/// Checks that the document has the table; with `PLEXUS_WRITE_DOCS=1` it is written there.
pub(crate) fn compare_with_document() -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md");
    let text = std::fs::read_to_string(&path)?;
    let (before, rest) = text.split_once(BEGIN).context("docs/security.md has no table")?;
    let (shown, after) = rest.split_once(END).context("the table has no end")?;
    let table = render()?;
    if shown != table && std::env::var_os("PLEXUS_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}"))?;
        return Ok(());
    }
    ensure!(shown == table, "the table in docs/security.md differs; PLEXUS_WRITE_DOCS=1 writes it");
    Ok(())
}
