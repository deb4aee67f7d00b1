//! The soak: many children work for a long time while processes are killed, readers are slow and
//! clients misbehave. Nothing may be lost, run twice or be left behind, and one server may not
//! grow.
//!
//! In reading order:
//! - this file: the two halves of a soak, and what is counted between them;
//! - [`soak_server`]: the server, its directories, and a client that retries until it gets an
//!   answer;
//! - [`worker`]: one session at work, and the promises it checks;
//! - [`chaos`]: kills and freezes processes; [`guests`]: slow readers and bad clients;
//! - [`counts`]: processes, descriptors, memory and files; [`dice`]: choices that can be replayed.
//!
//! In the first half the server is killed repeatedly. In the second half the same server stays
//! alive, so that its growth can be measured: idle after a tenth of that half, and idle at its end.

pub mod chaos;
pub mod counts;
pub mod dice;
pub mod guests;
pub mod soak_server;
pub mod worker;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::chaos::Chaos;
use self::counts::Counts;
use self::dice::Dice;
use self::soak_server::SoakServer;
use self::worker::{Tally, Worker};

/// How much memory may grow between the two measurements of one server, in percent of the first: an
/// allocator keeps some after a burst.
const GROWTH_PERCENT: u64 = 50;

/// Further growth that is allowed: the caches of the store's connections fill once, up to their own
/// bounds.
const GROWTH_BYTES: u64 = 64 * 1024 * 1024;

/// How many descriptors may differ between two measurements: the client's own connections, and a
/// reader's connection to the store.
const SPARE_DESCRIPTORS: usize = 24;

/// The parameters of a soak.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long.
    pub time: Duration,
    /// How many sessions are at work.
    pub children: usize,
    /// The seed of all random choices.
    pub seed: u64,
}

/// The results of a soak.
#[derive(Debug)]
pub struct Report {
    /// The parameters it ran with.
    pub options: Options,
    /// The counts of all workers together.
    pub tally: Tally,
    /// The kills, stops and freezes.
    pub blows: chaos::Blows,
    /// How often guests connected.
    pub guests: u64,
    /// Counts of the last server, idle, early in its life.
    pub early: Counts,
    /// Counts of the last server, idle, at its end.
    pub late: Counts,
    /// Counts after every session was deleted.
    pub left: Counts,
    /// The violations found; empty when all is well.
    pub wrong: Vec<String>,
}

/// Runs a soak.
pub async fn run(options: &Options) -> Result<Report> {
    let mut dice = Dice::new(options.seed);
    let site = Arc::new(SoakServer::start().await?);
    let mut workers = Vec::new();
    for index in 0..options.children {
        workers.push(Worker::new(&site, index, dice.split()).await?);
    }
    let half = options.time / 2;
    let chaos = Chaos::new(&site, dice.split());

    let guests = Guests::invite(&site, &mut dice);
    let workers = work(workers, half, &chaos, chaos::Server::MayDie).await?;
    chaos.renew_server().await?;
    let workers = work(workers, half / 10, &chaos, chaos::Server::Lives).await?;
    let early = at_rest(&site).await?;
    let workers = work(workers, half - half / 10, &chaos, chaos::Server::Lives).await?;
    let late = at_rest(&site).await?;
    let guests = guests.send_home().await;

    let mut wrong = Vec::new();
    let mut tally = Tally::default();
    for worker in workers {
        let name = worker.name().to_owned();
        match worker.finish(&chaos.blows()).await {
            Ok(its) => tally.add(&its),
            Err(error) => wrong.push(format!("{name}: {error:#}")),
        }
    }
    let left = Counts::after_everything(&site).await?;
    wrong.extend(judge(&early, &late, &left));
    Ok(Report {
        options: options.clone(),
        tally,
        blows: chaos.blows(),
        guests,
        early,
        late,
        left,
        wrong,
    })
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
        back.push(task.await.context("a worker broke down")??);
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
        let Options { time, children, seed } = &self.options;
        writeln!(f, "{} s, {children} children, seed {seed}", time.as_secs())?;
        writeln!(f, "chats      {}", self.tally)?;
        writeln!(f, "blows      {}", self.blows)?;
        writeln!(f, "guests     {} visits", self.guests)?;
        writeln!(f, "early      {}", self.early)?;
        writeln!(f, "late       {}", self.late)?;
        writeln!(f, "left       {}", self.left)?;
        match &self.wrong[..] {
            [] => write!(f, "nothing was lost, nothing ran twice, nothing was left"),
            wrong => write!(f, "wrong:\n- {}", wrong.join("\n- ")),
        }
    }
}
