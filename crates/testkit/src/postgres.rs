//! A temporary PostgreSQL: created for a test program, on a free port, and removed afterwards
//! however the program ends.
//!
//! The cluster uses Debian's package (or the programs in `PATH`), with `fsync` on and passwords
//! required, as in production. PostgreSQL refuses to run as root, so root starts it as another
//! user. A small shell waits for the end of the test program and then removes everything, also
//! after a panic, a `SIGKILL`, or for a cluster that lives in a static.

use std::io::{ErrorKind, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::process;

/// Set to `1` where a missing PostgreSQL must not count as success.
pub const REQUIRED: &str = "PLEXUS_REQUIRE_POSTGRES";

/// How long a cluster may take to be created or to start, on a loaded machine.
const START_DEADLINE: Duration = Duration::from_secs(120);

/// How many ports are tried: another program may take one between our check and the start.
const PORT_ATTEMPTS: u32 = 20;

/// The range of ports: below those that the kernel gives to outgoing connections, so that after a
/// restart the same port is free.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// The role that owns everything in the cluster.
const ROLE: &str = "plexus";

/// Waits until its stdin ends, which happens when the test program drops it or dies; then ends the
/// cluster and removes the folder.
const JANITOR: &str = r#"
cat >/dev/null
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid" 2>/dev/null
for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.05; done
rm -rf "$1"
"#;

/// How a cluster is started; the default is right for one machine.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// The only address it listens on.
    pub listen: Ipv4Addr,
    /// Settings in the notation of `postgresql.conf`, such as `max_connections=20`.
    pub settings: Vec<String>,
    /// The certificate for TLS; without one, the server does not offer TLS.
    pub tls: Option<Tls>,
}

/// A certificate and its key, in PEM form.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self { listen: Ipv4Addr::LOCALHOST, settings: Vec::new(), tls: None }
    }
}

/// A running cluster, or one that was killed and can be restarted. Dropping it ends it and removes
/// its data.
#[derive(Debug)]
pub struct Postgres {
    folder: PathBuf,
    programs: PathBuf,
    user: Option<User>,
    options: PostgresOptions,
    port: u16,
    password: String,
    databases: AtomicU32,
    server: Option<Child>,
    janitor: Option<Child>,
}

/// The user that runs the cluster, when we are root.
#[derive(Debug, Clone, Copy)]
struct User {
    uid: u32,
    gid: u32,
}

/// Returns the cluster that all tests of this program share, each with
/// [`Postgres::fresh_database`]. A program that uses it lists its cases with
/// [`Cases::with_postgres`](crate::cases::Cases::with_postgres), so that they are ignored where
/// PostgreSQL is not installed.
///
/// # Panics
///
/// When it is not installed or cannot be started.
pub fn shared() -> &'static Postgres {
    static SHARED: OnceLock<Postgres> = OnceLock::new();
    SHARED.get_or_init(own)
}

/// Returns a separate cluster that the caller may kill and restart; otherwise like [`shared`].
///
/// # Panics
///
/// As [`shared`].
pub fn own() -> Postgres {
    own_with(PostgresOptions::default())
}

/// The same as [`own`], with other options.
///
/// # Panics
///
/// As [`shared`].
pub fn own_with(options: PostgresOptions) -> Postgres {
    match start(options) {
        Ok(postgres) => postgres,
        Err(error) => panic!("PostgreSQL cannot be started: {error:#}"),
    }
}

/// Tells whether PostgreSQL is installed here.
#[must_use]
pub fn is_installed() -> bool {
    programs().is_some()
}

/// Tells whether a test that needs PostgreSQL is to be ignored here: it is missing, and
/// [`REQUIRED`] does not ask for it.
#[must_use]
pub fn is_missing_and_not_required() -> bool {
    !is_installed() && std::env::var_os(REQUIRED).is_none_or(|value| value != "1")
}

/// Starts a separate cluster, for a program that is not a test.
pub fn start(options: PostgresOptions) -> Result<Postgres> {
    Postgres::start(programs().context("PostgreSQL is not installed")?, options)
}

impl Postgres {
    fn start(programs: PathBuf, options: PostgresOptions) -> Result<Self> {
        let user =
            if rustix::process::geteuid().is_root() { Some(unprivileged_user()?) } else { None };
        let folder = tempfile::Builder::new()
            .prefix("plexus-postgres-")
            .tempdir()
            .context("could not make a folder")?;
        if let Some(user) = user {
            std::os::unix::fs::chown(folder.path(), Some(user.uid), Some(user.gid))?;
        }
        let janitor = janitor(folder.path())?;
        let mut postgres = Self {
            // From here on the janitor owns the folder.
            folder: TempDir::keep(folder),
            programs,
            user,
            options,
            port: 0,
            password: uuid::Uuid::new_v4().simple().to_string(),
            databases: AtomicU32::new(0),
            server: None,
            janitor: Some(janitor),
        };
        postgres.make_cluster()?;
        for attempt in 1.. {
            postgres.port = free_port(postgres.options.listen)?;
            match postgres.start_again() {
                Ok(()) => break,
                Err(error) if attempt == PORT_ATTEMPTS => return Err(error),
                Err(_) if postgres.log().contains("could not bind") => {}
                Err(error) => return Err(error),
            }
        }
        Ok(postgres)
    }

    fn make_cluster(&self) -> Result<()> {
        let password_file = self.folder.join("password");
        self.write_for_cluster(&password_file, &self.password)?;
        let mut initdb = self.program("initdb");
        initdb
            .args([
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
                "--username",
                ROLE,
                "--pwfile",
            ])
            .arg(&password_file)
            .arg(self.data());
        finish(initdb)?;
        std::fs::remove_file(&password_file)?;
        if let Some(tls) = &self.options.tls {
            // PostgreSQL looks for these file names by default.
            self.write_for_cluster(&self.data().join("server.crt"), &tls.certificate)?;
            self.write_for_cluster(&self.data().join("server.key"), &tls.key)?;
        }
        // The listen address and the password alone decide who may connect.
        let rules = self.data().join("pg_hba.conf");
        std::fs::write(&rules, "host all all 0.0.0.0/0 scram-sha-256\n")
            .context("could not write pg_hba.conf")
    }

    /// Writes a file that only the cluster's user can read: PostgreSQL refuses a key that others
    /// can read.
    fn write_for_cluster(&self, path: &Path, text: &str) -> Result<()> {
        let mut file =
            std::fs::File::options().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        if let Some(user) = self.user {
            std::os::unix::fs::chown(path, Some(user.uid), Some(user.gid))?;
        }
        Ok(())
    }

    /// Starts a killed cluster on the same data and port; it recovers from its log first.
    pub fn start_again(&mut self) -> Result<()> {
        if self.server.is_some() {
            bail!("PostgreSQL runs already");
        }
        let log = std::fs::File::options().create(true).append(true).open(self.log_path())?;
        let mut command = self.program("postgres");
        command.arg("-D").arg(self.data());
        let fixed = [
            format!("port={}", self.port),
            format!("listen_addresses={}", self.options.listen),
            // A path in a deep temporary directory would be too long for a socket.
            "unix_socket_directories=".to_owned(),
            "fsync=on".to_owned(),
            "synchronous_commit=on".to_owned(),
            "max_connections=200".to_owned(),
            "shared_buffers=32MB".to_owned(),
            "logging_collector=off".to_owned(),
            format!("ssl={}", if self.options.tls.is_some() { "on" } else { "off" }),
        ];
        for setting in fixed.iter().chain(&self.options.settings) {
            command.arg("-c").arg(setting);
        }
        let mut server = command
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("could not start postgres")?;
        let ready = wait_until_ready(&mut server, &self.data().join("postmaster.pid"));
        if let Err(error) = ready {
            let _ended = server.kill();
            let _reaped = server.wait();
            return Err(error.context(self.log()));
        }
        self.server = Some(server);
        Ok(())
    }

    /// Kills every process of the cluster with `SIGKILL`; the data remain.
    pub fn kill_9(&mut self) -> Result<()> {
        let Some(mut server) = self.server.take() else { return Ok(()) };
        // The helpers are listed before the main process dies, while they can still be found. A
        // helper that survives it would hold the shared memory that the next start needs.
        let helpers = process::descendants(server.id())?;
        server.kill()?;
        helpers.iter().for_each(|helper| process::kill(helper.pid));
        server.wait()?;
        helpers.iter().for_each(|helper| process::wait_until_gone(helper.pid, START_DEADLINE));
        Ok(())
    }

    /// Pauses every process of the cluster with `SIGSTOP`; connections stay open, and nothing
    /// answers.
    pub fn freeze(&self) -> Result<()> {
        let Some(server) = &self.server else { return Ok(()) };
        // The main process stops first, so that it starts no further helpers.
        process::signal(server.id(), Signal::STOP);
        process::descendants(server.id())?
            .iter()
            .for_each(|helper| process::signal(helper.pid, Signal::STOP));
        Ok(())
    }

    /// Resumes a frozen cluster.
    pub fn thaw(&self) -> Result<()> {
        let Some(server) = &self.server else { return Ok(()) };
        process::descendants(server.id())?
            .iter()
            .for_each(|helper| process::signal(helper.pid, Signal::CONT));
        process::signal(server.id(), Signal::CONT);
        Ok(())
    }

    /// Kills the cluster with `SIGKILL` and restarts it.
    pub fn crash_and_restart(&mut self) -> Result<()> {
        self.kill_9()?;
        self.start_again()
    }

    /// Returns where it listens; the target of a proxy.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((self.options.listen, self.port))
    }

    /// Returns the directory of the cluster.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the password that every URL contains, so that tests can search for leaks of it.
    #[must_use]
    pub fn password(&self) -> &str {
        &self.password
    }

    /// Creates an empty database and returns its URL.
    pub fn fresh_database(&self) -> Result<String> {
        let name = format!("plexus_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(self.url(self.address(), &name))
    }

    /// Returns the same database as `url` at another address, such as a proxy's.
    pub fn url_through(&self, url: &str, address: SocketAddr) -> Result<String> {
        let name = url
            .rsplit('/')
            .next()
            .filter(|name| !name.is_empty())
            .context("a URL without a database")?;
        Ok(self.url(address, name))
    }

    /// Runs SQL in a database of the cluster and returns its output, one row a line.
    pub fn sql(&self, database: &str, sql: &str) -> Result<String> {
        let mut psql = self.program("psql");
        psql.args([
            "--no-psqlrc",
            "--quiet",
            "--no-align",
            "--tuples-only",
            "--set=ON_ERROR_STOP=1",
        ])
        .args(["--host", &self.options.listen.to_string(), "--port", &self.port.to_string()])
        .args(["--username", ROLE, "--dbname", database, "--command", sql])
        .env("PGPASSWORD", &self.password)
        // psql would otherwise look for certificates in a home directory that is not its user's.
        .env("PGSSLMODE", "disable");
        finish(psql)
    }

    /// Returns what the cluster has logged, over all its starts.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn url(&self, address: SocketAddr, database: &str) -> String {
        format!("postgres://{ROLE}:{}@{address}/{database}", self.password)
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn log_path(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Returns a command for one of the cluster's programs, run as the cluster's user in a
    /// directory that this user may enter.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.current_dir(&self.folder).stdin(Stdio::null()).env("LC_ALL", "C");
        if let Some(user) = self.user {
            command.uid(user.uid).gid(user.gid);
        }
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // The data are removed anyway, so the quick way loses nothing. The cluster may have ended
        // already.
        let _ended = self.kill_9();
        if let Some(mut janitor) = self.janitor.take() {
            drop(janitor.stdin.take());
            let _reaped = janitor.wait();
        }
    }
}

fn janitor(folder: &Path) -> Result<Child> {
    Command::new("sh")
        .args(["-c", JANITOR, "sh"])
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C at the test program must not end the janitor.
        .process_group(0)
        .spawn()
        .context("could not start a shell to tidy up")
}

/// Waits for the eighth line of the pid file, in which the server reports that it is ready.
fn wait_until_ready(server: &mut Child, pid_file: &Path) -> Result<()> {
    let started = Instant::now();
    loop {
        if let Some(status) = server.try_wait()? {
            bail!("postgres ended with {status}");
        }
        let text = std::fs::read_to_string(pid_file).unwrap_or_default();
        let mut lines = text.lines();
        let own = lines.next() == Some(&server.id().to_string());
        if own && lines.nth(6).is_some_and(|status| status.trim() == "ready") {
            return Ok(());
        }
        if started.elapsed() > START_DEADLINE {
            bail!("postgres was not ready within {START_DEADLINE:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn finish(mut command: Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("could not start {}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(anyhow!(
        "{} ended with {}: {}",
        command.get_program().display(),
        output.status,
        said.trim()
    ))
}

fn free_port(listen: Ipv4Addr) -> Result<u16> {
    for _ in 0..1_000 {
        let (draw, _) = uuid::Uuid::new_v4().as_u64_pair();
        let port = PORTS.start + u16::try_from(draw % u64::from(PORTS.end - PORTS.start))?;
        match TcpListener::bind((listen, port)) {
            Ok(_free) => return Ok(port),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            Err(error) => {
                return Err(error).with_context(|| format!("could not listen on {listen}"));
            }
        }
    }
    bail!("no port of {PORTS:?} is free")
}

/// Returns the folder of the programs: that of the newest version in Debian's location, or else one
/// in `PATH`.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut debian: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| {
            Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin")))
        })
        .collect();
    debian.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders =
        debian.into_iter().rev().map(|(_, folder)| folder).chain(std::env::split_paths(&path));
    folders.into_iter().find(|folder| {
        ["initdb", "postgres", "psql"].iter().all(|name| folder.join(name).is_file())
    })
}

/// Returns the package's own user, or else `nobody`.
fn unprivileged_user() -> Result<User> {
    let table = std::fs::read_to_string("/etc/passwd").context("could not read /etc/passwd")?;
    ["postgres", "nobody"].iter().find_map(|name| entry(&table, name)).context(
        "neither postgres nor nobody is a user here, and PostgreSQL refuses to run as root",
    )
}

fn entry(table: &str, name: &str) -> Option<User> {
    let mut fields = table
        .lines()
        .map(|line| line.split(':'))
        .find_map(|mut fields| (fields.next()? == name).then_some(fields))?;
    Some(User { uid: fields.nth(1)?.parse().ok()?, gid: fields.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let table = "root:x:0:0::/root:/bin/sh\nnobody2:x:1:2::/:/bin/sh\nnobody:x:65534:65533::/:/bin/sh\n";
        let user = entry(table, "nobody").unwrap();
        assert_eq!((user.uid, user.gid), (65534, 65533));
    }
}
