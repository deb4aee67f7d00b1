//! Attacks through an approved command of the real CLI: what it can do without a wall, and within
//! each profile. The same table stands in `docs/security.md`.
//!
//! The library's own suite (`plexus-confine`, `attacks`) tries more, without an agent, as root and
//! as an ordinary user. This one goes the whole way: a server with its defaults, a session, an
//! approval, and the shell of the agent.

use std::fmt::Write as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use testkit::messages_api::Step;

use crate::server_with_claude::{ServerWithClaude, Way};
use crate::table::{ATTACKS, Attack, Success};

/// How long one attack may take: those that are refused end at once.
const SECONDS_FOR_ONE: u32 = 20;

/// A process of the same user, and files around the working directory.
struct Surroundings {
    victim: Child,
    _sockets: [UnixListener; 2],
    outside: PathBuf,
    in_tmp: PathBuf,
    in_shm: PathBuf,
}

impl Surroundings {
    fn new(setup: &ServerWithClaude) -> Result<Self> {
        let work = setup.sandbox.work();
        let outside = work.parent().context("the working directory has no parent")?.join("outside");
        std::fs::create_dir_all(&outside)?;
        std::fs::write(outside.join("secret"), "a secret\n")?;
        let home = setup.sandbox.home();
        for (path, text) in [
            (".ssh/id_ed25519", "a secret\n"),
            (".netrc", "a secret\n"),
            (".cargo/credentials.toml", "a secret\n"),
            (".cargo/bin/tool", "#!/bin/sh\n"),
            (".bashrc", "# mine\n"),
            (".config/autostart/own.desktop", ""),
        ] {
            let path = home.join(path);
            path.parent().map(std::fs::create_dir_all).transpose()?;
            std::fs::write(path, text)?;
        }
        let own = |dir: &str| {
            Path::new(dir).join(format!("plexus-attacks-{}", plexus_wire::ApprovalId::generate()))
        };
        let (in_tmp, in_shm) = (own("/tmp"), own("/dev/shm"));
        std::fs::write(&in_tmp, "a secret\n")?;
        std::fs::write(&in_shm, "a secret\n")?;
        let repository = Command::new("git").args(["init", "-q"]).arg(&work).status()?;
        ensure!(repository.success(), "git could not make a repository");
        for path in [".vscode/settings.json", ".envrc"] {
            let path = work.join(path);
            path.parent().map(std::fs::create_dir_all).transpose()?;
            std::fs::write(path, "")?;
        }
        let name = outside.as_os_str().as_encoded_bytes();
        let hidden = SocketAddr::from_abstract_name(name)?;
        let sockets =
            [UnixListener::bind(outside.join("sock"))?, UnixListener::bind_addr(&hidden)?];
        let victim = Command::new("sleep")
            .arg("86400")
            .env("SECRET", "a-secret")
            .current_dir(&outside)
            .stdin(Stdio::null())
            .spawn()?;
        Ok(Self { victim, _sockets: sockets, outside, in_tmp, in_shm })
    }

    /// One script that tries every attack and says which succeeded, each by its number.
    fn script(&self, setup: &ServerWithClaude) -> Result<String> {
        let server = setup.server.url()?;
        let mut script = format!(
            "export DATA='{}' OUT='{}' HIS='{}' VICTIM={} SERVER={} URL='{server}' TMPFILE='{}' \
             SHMFILE='{}' AGENT=$(cut -d \" \" -f4 /proc/$PPID/stat)\n",
            setup.server.data_dir().display(),
            self.outside.display(),
            setup.sandbox.home().display(),
            self.victim.id(),
            setup.server.pid()?,
            self.in_tmp.display(),
            self.in_shm.display(),
        );
        for (number, attack) in ATTACKS.iter().enumerate() {
            let tried = attack.script.replace('\'', "'\\''");
            writeln!(
                script,
                "timeout {SECONDS_FOR_ONE} bash -c '{tried}' >/dev/null 2>&1 && echo 'attack \
                 {number} succeeded'"
            )?;
        }
        script.push_str("echo tried\n");
        Ok(script)
    }
}

impl Drop for Surroundings {
    fn drop(&mut self) {
        let _ended = self.victim.kill();
        let _reaped = self.victim.wait();
        let _removed = std::fs::remove_file(&self.in_tmp);
        let _removed = std::fs::remove_file(&self.in_shm);
    }
}

async fn attack(cli: PathBuf, way: Way, profile: &'static str) -> Result<()> {
    let setup = ServerWithClaude::with(cli, way, Some(profile), Vec::new(), Vec::new()).await?;
    let around = Surroundings::new(&setup)?;
    let file = setup.sandbox.work().join("attacks.sh");
    std::fs::write(&file, around.script(&setup)?)?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o700))?;
    setup.chat(&[Step::bash("bash ./attacks.sh"), Step::text("done")]).await?;
    let asked = setup.asked().await?;
    setup.allow(&asked).await?;
    let events = setup.completed().await?;
    let told = setup.api.tool_results().pop().context("no result")?.text;
    ensure!(told.contains("tried"), "{told}: {events:#?}");
    let who = Who::this()?;
    let has_succeeded =
        |number: usize| told.lines().any(|line| line == format!("attack {number} succeeded"));
    let wrong: Vec<String> = ATTACKS
        .iter()
        .enumerate()
        .filter_map(|(number, attack)| complaint(attack, profile, who, has_succeeded(number)))
        .collect();
    ensure!(wrong.is_empty(), "not as the table says:\n{}", wrong.join("\n"));
    crate::table::compare_with_document()
}

/// As whom the suite runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Root,
    User,
    /// An ordinary user whom the suite made root of its own namespace, to be without a network.
    RootOfANamespace,
}

impl Who {
    fn this() -> Result<Self> {
        let is_root = rustix::process::geteuid().is_root();
        let map = std::fs::read_to_string("/proc/self/uid_map")?;
        let has_all = map.split_whitespace().eq(["0", "0", "4294967295"]);
        Ok(match (is_root, has_all) {
            (true, true) => Self::Root,
            (true, false) => Self::RootOfANamespace,
            (false, _) => Self::User,
        })
    }
}

fn complaint(attack: &Attack, profile: &str, who: Who, succeeded: bool) -> Option<String> {
    let expected = match (attack.success(profile), who) {
        (Success::Never, _) => false,
        (Success::Always, _) => true,
        (Success::Varies, _) | (_, Who::RootOfANamespace) => return None,
        (Success::AsRoot, _) => who == Who::Root,
    };
    let words = |yes: bool| if yes { "succeeds" } else { "fails" };
    (expected != succeeded).then(|| {
        format!("{}: it {}, and should {}", attack.words, words(succeeded), words(expected))
    })
}

pub(crate) async fn attacks_without_a_wall(cli: PathBuf, way: Way) -> Result<()> {
    attack(cli, way, "none").await
}

pub(crate) async fn attacks_within_workspace(cli: PathBuf, way: Way) -> Result<()> {
    attack(cli, way, "workspace").await
}

pub(crate) async fn attacks_within_strict(cli: PathBuf, way: Way) -> Result<()> {
    attack(cli, way, "strict").await
}
