//! The soak: many children at work for a long time while processes are killed, readers are slow and
//! clients misbehave; nothing may be lost, run twice, or be left behind, and one server may not
//! grow.
//!
//! In reading order:
//! - this file: the two halves of a soak, and what is counted between them;
//! - [`site`]: the server, where it works, and a caller that asks again until it is answered;
//! - [`worker`]: one session at work, and what it holds the server to;
//! - [`chaos`]: who is killed and frozen; [`guests`]: slow readers and bad clients;
//! - [`counts`]: processes, descriptors, memory and files; [`dice`]: choices that can be played
//!   again.
//!
//! In the first half the server is killed again and again. In the second half one and the same
//! server lives, so that what it grows by can be measured: at rest after a tenth of that half, and
//! at rest at its end.

pub mod chaos;
pub mod counts;
pub mod dice;
pub mod guests;
pub mod site;
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
use self::site::Site;
use self::worker::{Tally, Worker};

/// What memory may grow by between the two looks at one server, as a share of the first, in
/// percent: what an allocator keeps after a burst.
const GROWTH_PERCENT: u64 = 50;

/// And beside that: the caches of the store's connections fill once, up to their own bounds.
const GROWTH_BYTES: u64 = 64 * 1024 * 1024;

/// Descriptors that may come and go between two looks: the caller's own connections, and a reader's
/// of the store.
const SPARE_DESCRIPTORS: usize = 24;

/// How a soak is played.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long.
    pub time: Duration,
    /// How many sessions are at work.
    pub children: usize,
    /// What the choices are made from.
    pub seed: u64,
}

/// What a soak has seen.
#[derive(Debug)]
pub struct Report {
    /// How it was played.
    pub options: Options,
    /// What the workers have done together.
    pub tally: Tally,
    /// What was struck.
    pub blows: chaos::Blows,
    /// What guests have done.
    pub guests: u64,
    /// At rest, early in the life of the last server.
    pub early: Counts,
    /// At rest, at its end.
    pub late: Counts,
    /// After every session was deleted.
    pub left: Counts,
    /// What should not be; empty when all is well.
    pub wrong: Vec<String>,
}

/// Plays a soak.
pub async fn run(options: &Options) -> Result<Report> {
    let mut dice = Dice::new(options.seed);
    let site = Arc::new(Site::start().await?);
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

/// Has everybody work for so long, then finish the chat that is under way.
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
async fn at_rest(site: &Site) -> Result<Counts> {
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

/// Those who come uninvited, until they are sent home.
struct Guests {
    home: CancellationToken,
    tasks: Vec<tokio::task::JoinHandle<u64>>,
}

impl Guests {
    fn invite(site: &Arc<Site>, dice: &mut Dice) -> Self {
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
