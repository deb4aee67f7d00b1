//! The soak: many agents of every kind work for a long time while processes are killed, readers are
//! slow and clients misbehave. Nothing may be lost, run twice or be left behind, and one server may
//! not grow.
//!
//! In reading order:
//! - this file: the parts of a soak, and what is counted between them;
//! - [`roles`]: which agents are at work, with a wall or without, parked or not; [`real`]: real
//!   CLIs against stand-ins for their models;
//! - [`soak_server`]: a server, its directories, its database, and a client that retries until it
//!   gets an answer;
//! - [`worker`]: one session at work, and the promises it checks; [`tally`]: what it counted;
//! - [`chaos`]: kills and freezes processes; [`guests`]: slow readers and bad clients;
//! - [`counts`]: processes, descriptors, memory and files; [`dice`]: choices that can be replayed.
//!
//! One server keeps a file and another a PostgreSQL, both at the same time. For three quarters of
//! the time they are killed and stopped repeatedly. In the last quarter the same servers stay
//! alive, so that their growth can be measured: idle after a fifth of it, and idle at its end.

pub mod chaos;
pub mod counts;
pub mod dice;
pub mod guests;
pub mod real;
pub mod roles;
pub mod soak_server;
pub mod tally;
pub mod worker;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;
use testkit::server::binary;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::chaos::Chaos;
use self::counts::Counts;
use self::dice::Dice;
use self::roles::{Cast, Role};
use self::soak_server::{SoakServer, Store};
use self::tally::Tally;
use self::worker::Worker;

/// How much memory may grow between the two measurements of one server, in percent of the first: an
/// allocator keeps some after a burst.
const GROWTH_PERCENT: u64 = 50;

/// Further growth that is allowed: the caches of the store's connections fill once, up to their own
/// bounds.
const GROWTH_BYTES: u64 = 64 * 1024 * 1024;

/// How many descriptors may differ between two measurements: the client's own connections, and a
/// reader's connection to the store.
const SPARE_DESCRIPTORS: usize = 24;

/// How often a soak says how far it is.
const NEWS: Duration = Duration::from_secs(60);

/// A wall that cannot be built fails the soak, instead of being left out.
const WALL_REQUIRED: &str = "PLEXUS_REQUIRE_WALL";

/// The parameters of a soak.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long.
    pub time: Duration,
    /// How many sessions are at work, over all servers.
    pub children: usize,
    /// How many sessions with real agents are at work beside them, on a server of their own.
    pub real: usize,
    /// Where the servers keep everything: one server for each.
    pub stores: Vec<Store>,
    /// The seed of all random choices.
    pub seed: u64,
}

/// The results of a soak.
#[derive(Debug)]
pub struct Report {
    /// The parameters it ran with.
    pub options: Options,
    /// What was left out because this machine has not got it.
    pub left_out: Vec<String>,
    /// The counts of workers: all, by agent, by wall and by store.
    pub tallies: BTreeMap<String, Tally>,
    /// The kills, stops and freezes of each server.
    pub blows: Vec<(String, chaos::Blows)>,
    /// How often guests connected.
    pub guests: u64,
    /// Counts of each last server, idle: early in its life, at its end, and after every session was
    /// deleted.
    pub counts: Vec<(String, [Counts; 3])>,
    /// How long it took, with the beginning and the end.
    pub took: Duration,
    /// The violations found; empty when all is well.
    pub wrong: Vec<String>,
}

/// What one server of a soak came to.
struct Part {
    label: String,
    tallies: BTreeMap<String, Tally>,
    blows: chaos::Blows,
    guests: u64,
    counts: [Counts; 3],
    wrong: Vec<String>,
}

/// Runs a soak.
pub async fn run(options: &Options) -> Result<Report> {
    let began = Instant::now();
    let mut left_out = Vec::new();
    let no_wall = no_wall()?;
    if let Some(why) = &no_wall {
        anyhow::ensure!(std::env::var_os(WALL_REQUIRED).is_none(), "no wall: {why}");
        left_out.push(format!("walls: {why}"));
    }
    let mut stores = options.stores.clone();
    if testkit::postgres::is_missing_and_not_required() {
        stores.retain(|store| *store != Store::Postgres);
        left_out.push("PostgreSQL: it is not installed".to_owned());
    }
    anyhow::ensure!(!stores.is_empty(), "nothing can be run here: {left_out:?}");
    let mut dice = Dice::new(options.seed);
    let mut parts = Vec::new();
    let mut add = |store: Store, cast: Cast, children: usize| {
        let has_walls = no_wall.is_none();
        parts.push(one_server(store, cast, children, has_walls, options.time, dice.split()));
    };
    for (nth, store) in stores.iter().enumerate() {
        add(*store, Cast::Simulated, (options.children + nth) / stores.len());
    }
    if options.real > 0 {
        add(Store::Sqlite, Cast::Real, options.real);
    }
    let parts = futures::future::try_join_all(parts).await?;
    let mut report = Report {
        options: options.clone(),
        left_out,
        tallies: BTreeMap::new(),
        blows: Vec::new(),
        guests: 0,
        counts: Vec::new(),
        took: began.elapsed(),
        wrong: Vec::new(),
    };
    for part in parts {
        for (group, tally) in &part.tallies {
            report.tallies.entry(group.clone()).or_default().add(tally);
        }
        report.blows.push((part.label.clone(), part.blows));
        report.guests += part.guests;
        report.counts.push((part.label, part.counts));
        report.wrong.extend(part.wrong);
    }
    Ok(report)
}

/// Why this machine cannot build a wall.
fn no_wall() -> Result<Option<String>> {
    let stage = plexus_confine::StageProgram {
        program: binary("plexus", "PLEXUS_BIN")?,
        arguments: ["confine", "--stage"].map(Into::into).to_vec(),
    };
    Ok(plexus_confine::probe(&stage)?.choose(None).err().map(|why| why.to_string()))
}

/// Runs one server, its sessions and all that happens to them.
async fn one_server(
    store: Store,
    cast: Cast,
    children: usize,
    has_walls: bool,
    time: Duration,
    mut dice: Dice,
) -> Result<Part> {
    let site = Arc::new(SoakServer::start(store, cast).await?);
    let mut workers = Vec::new();
    for index in 0..children {
        let role = Role::of(cast, index, has_walls);
        workers.push(Worker::new(&site, index, role, dice.split()).await?);
    }
    let calm = time / 4;
    let chaos = Chaos::new(&site, dice.split());
    let guests = Guests::invite(&site, &mut dice);
    let rest = async {
        let workers = work(workers, time - calm, &chaos, chaos::Server::MayDie).await?;
        chaos.renew_server().await?;
        let workers = work(workers, calm / 5, &chaos, chaos::Server::Lives).await?;
        let early = at_rest(&site).await?;
        let workers = work(workers, calm - calm / 5, &chaos, chaos::Server::Lives).await?;
        let late = at_rest(&site).await?;
        anyhow::Ok((workers, early, late))
    };
    let (workers, early, late) = tokio::select! {
        done = rest => done?,
        never = tell_news(&site) => match never {},
    };
    let guests = guests.send_home().await;

    let mut part = Part {
        label: site.label(),
        tallies: BTreeMap::new(),
        blows: site.blows(),
        guests,
        counts: Default::default(),
        wrong: Vec::new(),
    };
    let finish = async |worker: Worker| {
        let (label, role) = (worker.label(), worker.role());
        (label, role, worker.finish().await)
    };
    for (label, role, finished) in futures::future::join_all(workers.into_iter().map(finish)).await
    {
        match finished {
            Ok(tally) => {
                let mut groups = vec!["all".to_owned(), site.label()];
                groups.extend(role.groups().into_iter().map(str::to_owned));
                for group in groups {
                    part.tallies.entry(group).or_default().add(&tally);
                }
            }
            Err(error) => part.wrong.push(format!("{label}: {error:#}")),
        }
    }
    let left = Counts::after_everything(&site).await?;
    let judged = judge(&early, &late, &left);
    part.wrong.extend(judged.into_iter().map(|wrong| format!("{}: {wrong}", site.label())));
    part.counts = [early, late, left];
    if !part.wrong.is_empty() {
        let log = site.server.lock().await.log();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n");
        part.wrong.push(format!("the last words of {}:\n{last}", site.label()));
    }
    Ok(part)
}

/// How many lines of a server's log are shown when something went wrong.
const LAST_WORDS: usize = 40;

/// Says from time to time how far it is.
async fn tell_news(site: &SoakServer) -> std::convert::Infallible {
    let began = Instant::now();
    loop {
        tokio::time::sleep(NEWS).await;
        let chats = site.chats.load(Ordering::Relaxed);
        let minutes = began.elapsed().as_secs() / 60;
        say(&format!("{minutes} min, {}: {chats} chats; {}", site.label(), site.blows()));
        if let Some(real) = &site.real {
            real.forget();
        }
    }
}

/// Says something while the soak runs.
#[expect(clippy::print_stderr, reason = "a soak that takes an hour says how it goes")]
fn say(text: &str) {
    eprintln!("{text}");
}

/// Lets all workers work for the given time, then finish the chat under way.
async fn work(
    workers: Vec<Worker>,
    time: Duration,
    chaos: &Chaos,
    server: chaos::Server,
) -> Result<Vec<Worker>> {
    let until = Instant::now() + time;
    let tasks: Vec<_> =
        workers.into_iter().map(|worker| tokio::spawn(worker.work(until))).collect();
    chaos.rage(until, server).await?;
    let mut back = Vec::new();
    for task in tasks {
        back.push(task.await.context("a worker broke down")?);
    }
    Ok(back)
}

/// Waits until no chat runs and counts.
async fn at_rest(site: &SoakServer) -> Result<Counts> {
    site.wait_for("the end of every chat", async || {
        let state = site.call("health.state", json!({})).await?;
        Ok(state["counts"]["chats_running"] == 0)
    })
    .await?;
    Counts::of(site).await
}

fn judge(early: &Counts, late: &Counts, left: &Counts) -> Vec<String> {
    let mut wrong = Vec::new();
    let most = early.resident_bytes + early.resident_bytes * GROWTH_PERCENT / 100 + GROWTH_BYTES;
    if late.resident_bytes > most {
        wrong.push(format!(
            "the server grew from {} to {} KiB",
            early.resident_bytes / 1024,
            late.resident_bytes / 1024
        ));
    }
    if late.descriptors > early.descriptors + SPARE_DESCRIPTORS {
        wrong.push(format!("descriptors grew from {} to {}", early.descriptors, late.descriptors));
    }
    if !left.processes.is_empty() {
        wrong.push(format!("these were left behind: {:?}", left.processes));
    }
    if !left.files.is_empty() {
        wrong.push(format!("these files were left behind: {:?}", left.files));
    }
    wrong
}

/// The guests, until they are told to stop.
struct Guests {
    home: CancellationToken,
    tasks: Vec<tokio::task::JoinHandle<u64>>,
}

impl Guests {
    fn invite(site: &Arc<SoakServer>, dice: &mut Dice) -> Self {
        let home = CancellationToken::new();
        let tasks = guests::all(site, dice, &home);
        Self { home, tasks }
    }

    async fn send_home(self) -> u64 {
        self.home.cancel();
        let mut visits = 0;
        for task in self.tasks {
            visits += task.await.unwrap_or(0);
        }
        visits
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { time, children, real, seed, .. } = &self.options;
        let (time, took) = (time.as_secs(), self.took.as_secs());
        writeln!(f, "{time} s ({took} s in all), {children} children, {real} real, seed {seed}")?;
        for what in &self.left_out {
            writeln!(f, "left out: {what}")?;
        }
        for (group, tally) in &self.tallies {
            writeln!(f, "{group}: {tally}")?;
        }
        for (label, blows) in &self.blows {
            writeln!(f, "{label}: {blows}")?;
        }
        for (label, [early, late, left]) in &self.counts {
            writeln!(f, "{label}, early: {early}")?;
            writeln!(f, "{label}, late:  {late}")?;
            writeln!(f, "{label}, left:  {left}")?;
        }
        writeln!(f, "guests: {} visits", self.guests)?;
        match &self.wrong[..] {
            [] => write!(f, "nothing was lost, nothing ran twice, nothing was left"),
            wrong => write!(f, "wrong:\n- {}", wrong.join("\n- ")),
        }
    }
}
