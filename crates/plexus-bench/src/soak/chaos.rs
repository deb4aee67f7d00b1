//! Kills and freezes the server, its database, shims and children at random moments.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;
use serde_json::Value;
use testkit::postgres::Postgres;
use testkit::process;
use tokio::time::Instant;

use super::dice::Dice;
use super::soak_server::SoakServer;

/// The longest pause between two kills or freezes.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// The longest outage of the server: shorter than a child that asks over MCP waits for it.
const LONGEST_OUTAGE: Duration = Duration::from_secs(5);

/// The longest outage of the database: shorter than a caller waits for it.
const LONGEST_DATABASE_OUTAGE: Duration = Duration::from_secs(2);

/// The longest freeze of a shim or child.
const LONGEST_FREEZE: Duration = Duration::from_secs(3);

/// Whether the server may be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// It may.
    MayDie,
    /// It must stay alive, so that it can be measured.
    Lives,
}

/// How many processes were killed, stopped or frozen so far.
#[derive(Debug, Clone, Default)]
pub struct Blows {
    /// Kills of the server.
    pub servers: u64,
    /// Graceful stops of the server.
    pub stops: u64,
    /// Kills of the database.
    pub databases: u64,
    /// Kills of shims.
    pub shims: u64,
    /// Kills of children.
    pub children: u64,
    /// Freezes of shims and children.
    pub freezes: u64,
    /// Kills of shims and children, by their session.
    pub by_session: BTreeMap<String, u64>,
}

/// Kills and freezes processes.
pub struct Chaos {
    site: Arc<SoakServer>,
    dice: Mutex<Dice>,
}

impl Chaos {
    /// Prepares the chaos, which starts with [`rage`](Self::rage).
    #[must_use]
    pub fn new(site: &Arc<SoakServer>, dice: Dice) -> Self {
        Self { site: Arc::clone(site), dice: Mutex::new(dice) }
    }

    /// Kills and freezes processes until the given time.
    pub async fn rage(&self, until: Instant, server: Server) -> Result<()> {
        loop {
            let pause = self.roll(|dice| dice.time(LONGEST_PAUSE));
            if Instant::now() + pause >= until {
                tokio::time::sleep_until(until).await;
                return Ok(());
            }
            tokio::time::sleep(pause).await;
            match self.roll(|dice| dice.below(20)) {
                0..=2 if server == Server::MayDie => self.kill_server().await?,
                3 if server == Server::MayDie => self.stop_server().await?,
                4 if server == Server::MayDie => self.kill_database().await?,
                0..=11 => self.kill_one_of_a_run(),
                _ => self.freeze_one_of_a_run().await,
            }
        }
    }

    /// Stops the server and starts a new one, which can then be measured from its beginning.
    pub async fn renew_server(&self) -> Result<()> {
        let mut server = self.site.server.lock().await;
        server.stop().await?;
        server.start_again().await
    }

    async fn kill_server(&self) -> Result<()> {
        let mut server = self.site.server.lock().await;
        server.kill_9()?;
        self.locked().servers += 1;
        tokio::time::sleep(self.roll(|dice| dice.time(LONGEST_OUTAGE))).await;
        server.start_again().await
    }

    async fn stop_server(&self) -> Result<()> {
        self.locked().stops += 1;
        self.renew_server().await
    }

    /// Kills the database, while the server lives on without it for a moment.
    async fn kill_database(&self) -> Result<()> {
        if self.site.database.is_none() {
            return Ok(());
        }
        self.locked().databases += 1;
        self.site.with_database(Postgres::kill_9).await?;
        tokio::time::sleep(self.roll(|dice| dice.time(LONGEST_DATABASE_OUTAGE))).await;
        self.site.with_database(Postgres::start_again).await
    }

    fn kill_one_of_a_run(&self) {
        let Some(run) = self.one_run() else { return };
        let mut blows = self.locked();
        *blows.by_session.entry(run.session).or_default() += 1;
        let shim = self.roll(|dice| dice.percent(50));
        if shim {
            blows.shims += 1;
            process::kill(run.shim);
        } else {
            blows.children += 1;
            process::kill(run.child);
        }
    }

    async fn freeze_one_of_a_run(&self) {
        let Some(run) = self.one_run() else { return };
        let victim = if self.roll(|dice| dice.percent(50)) { run.shim } else { run.child };
        process::signal(victim, Signal::STOP);
        self.locked().freezes += 1;
        tokio::time::sleep(self.roll(|dice| dice.time(LONGEST_FREEZE))).await;
        process::signal(victim, Signal::CONT);
    }

    /// Returns a random run whose processes are alive, according to its directory.
    fn one_run(&self) -> Option<Victim> {
        let mut found = Vec::new();
        for session in std::fs::read_dir(self.site.data().join("runs")).ok()?.flatten() {
            for run in std::fs::read_dir(session.path()).into_iter().flatten().flatten() {
                let pid = std::fs::read(run.path().join("pid.json")).ok();
                let pid: Option<Value> = pid.and_then(|bytes| serde_json::from_slice(&bytes).ok());
                let number = |field: &str| u32::try_from(pid.as_ref()?[field].as_u64()?).ok();
                if let (Some(shim), Some(child)) = (number("shim_pid"), number("child_pid"))
                    && process::is_alive(shim)
                    && process::is_alive(child)
                {
                    found.push(Victim {
                        session: session.file_name().to_string_lossy().into_owned(),
                        shim,
                        child,
                    });
                }
            }
        }
        let index = usize::try_from(self.roll(|dice| dice.below(found.len() as u64))).unwrap_or(0);
        (index < found.len()).then(|| found.swap_remove(index))
    }

    fn roll<T>(&self, choose: impl FnOnce(&mut Dice) -> T) -> T {
        choose(&mut self.dice.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Blows> {
        self.site.blows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Victim {
    session: String,
    shim: u32,
    child: u32,
}

impl fmt::Display for Blows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { servers, stops, databases, shims, children, freezes, .. } = self;
        write!(
            f,
            "{servers} servers killed, {stops} stopped; {databases} databases, {shims} shims and \
             {children} children killed, {freezes} frozen"
        )
    }
}
