//! What is outside the wall: secrets, a victim, servers of every kind. Each greets or holds the
//! treasure, so that an attack that found it has certainly got through.

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub(crate) const TREASURE: &str = "plexus-treasure";

/// Everything that one attack may try to reach. It is made anew for each.
pub(crate) struct Fixture {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) variables: Vec<(&'static str, String)>,
    _victim: Victim,
    /// Left open for the program by accident: not closed at `exec`.
    _left_open: [OwnedFd; 2],
    _terminal: OwnedFd,
    _datagrams: UnixDatagram,
    shared: Vec<PathBuf>,
    helper: PathBuf,
}

impl Fixture {
    pub(crate) fn new(
        attack: &str,
        base: &Path,
        door_port: u16,
        run_dir: &Path,
    ) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir_in(base)?;
        let at = |name: &str| dir.path().join(name);
        for (name, text) in [
            ("data/operator.token", TREASURE),
            ("home/.bashrc", ""),
            ("home/.ssh/id_ed25519", TREASURE),
            ("home/.netrc", TREASURE),
            ("home/.cargo/credentials.toml", TREASURE),
            ("home/.cargo/bin/cargo", ""),
            ("home/.cargo/registry/src/index/package/lib.rs", ""),
            ("home/work/.git/HEAD", "ref: refs/heads/main\n"),
            ("home/work/.git/config", "[core]\n"),
            ("home/work/.git/hooks/README", ""),
            ("home/work/.git/objects/README", ""),
            ("home/work/.git/refs/README", ""),
            ("home/work/.vscode/settings.json", "{}"),
            ("home/work/.claude/settings.json", "{}"),
            ("home/work/.envrc", ""),
        ] {
            let path = at(name);
            if let Some(dir) = path.parent() {
                fs::create_dir_all(dir)?;
            }
            fs::write(&path, text)?;
        }
        fs::set_permissions(at("data/operator.token"), fs::Permissions::from_mode(0o600))?;

        let mark = dir.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let shared = [std::env::temp_dir(), "/dev/shm".into()]
            .map(|dir| dir.join(format!("plexus-attack{mark}")));
        for path in &shared {
            fs::write(path, TREASURE)?;
        }
        let victim = Command::new("sleep")
            .arg("3600")
            .env("HOLDS", TREASURE)
            .current_dir(at("data"))
            .stdin(fs::File::open(at("data/operator.token"))?)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let victim = Victim(victim);
        let left_open = [leave_open(&at("data/operator.token"))?, leave_open(&at("data"))?];
        let (terminal, terminal_name) = terminal()?;
        let datagrams = UnixDatagram::bind(at("datagrams"))?;
        let listen_port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        if attack == "reachable_port" {
            knock(listen_port);
        }
        let queue = format!("/plexus-attack{mark}");
        let helper = base.join("tools/attack");
        let memory =
            Command::new(&helper).arg("make_shared").env("MESSAGE_QUEUE", &queue).output()?;
        let memory = String::from_utf8_lossy(&memory.stdout).into_owned();
        let variables = vec![
            ("SHARED_MEMORY", memory),
            ("MESSAGE_QUEUE", queue),
            ("DATA", text(&at("data"))),
            ("HOME", text(&at("home"))),
            ("WORK", text(&at("home/work"))),
            ("RUN_DIR", text(run_dir)),
            ("OTHERS_TMP", text(&shared[0])),
            ("OTHERS_SHM", text(&shared[1])),
            ("VICTIM", victim.0.id().to_string()),
            ("LEFT_OPEN_FILE", left_open[0].as_raw_fd().to_string()),
            ("LEFT_OPEN_DIR", left_open[1].as_raw_fd().to_string()),
            ("TERMINAL", terminal_name),
            ("TCP_PORT", greet_tcp(Ipv4Addr::LOCALHOST, 0)?.to_string()),
            ("DOOR_PORT", greet_tcp(Ipv4Addr::new(127, 0, 0, 2), door_port)?.to_string()),
            ("UDP_PORT", greet_udp()?.to_string()),
            ("LISTEN_PORT", listen_port.to_string()),
            ("UNIX_STREAM", greet_unix(UnixListener::bind(at("stream"))?, text(&at("stream")))),
            ("UNIX_DATAGRAM", text(&at("datagrams"))),
            ("UNIX_ABSTRACT", greet_abstract(&mark)?),
        ];
        Ok(Self {
            dir,
            variables,
            _victim: victim,
            _left_open: left_open,
            _terminal: terminal,
            _datagrams: datagrams,
            shared: shared.into(),
            helper,
        })
    }

    /// Whether an attack that claims to have written a file outside really has: inside it may have
    /// found a directory of the same name.
    pub(crate) fn confirms(&self, attack: &str) -> bool {
        let file = match attack {
            "plant_file" => "data/planted",
            "make_shell_start" => "home/.zlogin",
            "plant_program" => "home/.cargo/bin/cargo-x",
            "poison_cache" => "home/.cargo/registry/src/index/package/lib.rs",
            _ => return true,
        };
        self.dir.path().join(file).metadata().is_ok_and(|meta| meta.len() > 0)
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("home/work")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let variables = self.variables.iter().map(|(name, value)| (name, value));
        let _gone = Command::new(&self.helper).arg("remove_shared").envs(variables).status();
        for path in &self.shared {
            let _gone = fs::remove_file(path);
        }
    }
}

/// A process that goes with its value.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        // It may be stopped, traced or gone.
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn leave_open(path: &Path) -> anyhow::Result<OwnedFd> {
    let file = OwnedFd::from(fs::File::open(path)?);
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty())?;
    Ok(file)
}

/// A terminal of somebody else, and its name.
fn terminal() -> anyhow::Result<(OwnedFd, String)> {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?.to_string_lossy().into_owned();
    Ok((master, name))
}

fn greet_tcp(ip: Ipv4Addr, port: u16) -> anyhow::Result<u16> {
    let listener = match TcpListener::bind((ip, port)) {
        // A fixture of before, or of a column beside this one, greets there already.
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => return Ok(port),
        bound => bound?,
    };
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream: TcpStream = stream;
            let _hung_up = stream.write_all(TREASURE.as_bytes());
        }
    });
    Ok(port)
}

fn greet_udp() -> anyhow::Result<u16> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = socket.local_addr()?.port();
    std::thread::spawn(move || {
        let mut bytes = [0; 16];
        while let Ok((_, from)) = socket.recv_from(&mut bytes) {
            let _gone = socket.send_to(TREASURE.as_bytes(), from);
        }
    });
    Ok(port)
}

fn greet_unix(listener: UnixListener, name: String) -> String {
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _hung_up = stream.write_all(TREASURE.as_bytes());
        }
    });
    name
}

fn greet_abstract(mark: &str) -> anyhow::Result<String> {
    let name = format!("plexus-attack{mark}");
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    Ok(greet_unix(listener, name))
}

/// Listens where the egress process would, where there is none: the attack finds somebody.
pub(crate) fn greet_at(socket: &Path) -> anyhow::Result<()> {
    greet_unix(UnixListener::bind(socket)?, String::new());
    Ok(())
}

/// Tries to connect to a port again and again, as somebody outside would.
fn knock(port: u16) {
    std::thread::spawn(move || {
        for _ in 0..600 {
            let _refused = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
            std::thread::sleep(Duration::from_millis(50));
        }
    });
}
