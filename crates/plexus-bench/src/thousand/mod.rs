//! A thousand waiting agents: all of them ask and are parked, the machine is restarted, all are
//! answered, and all finish. Nothing may be lost, and nothing may run twice.
//!
//! In reading order:
//! - this file: the four steps, and what is measured between them;
//! - [`site`]: the server, its agents (some the real CLI, the others simulated), and the restart of
//!   the machine;
//! - [`judged`]: what each agent left behind, compared with what it was allowed.
//!
//! The oracle is outside of the server: each call appends a line to a file of its own.

pub mod judged;
pub mod site;

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::json;

use self::judged::Judged;
use self::site::Site;
use crate::stats::{median, percentile};

/// The server's memory that the design allows while a thousand agents wait.
const MOST_BYTES: u64 = 200 * 1024 * 1024;

/// How long after its answer the last agent may finish.
const MOST_SECONDS: f64 = 60.0;

/// How often the memory is read while the agents are woken.
const SAMPLE: Duration = Duration::from_millis(500);

/// A pause after which a server has come to rest.
const SETTLE: Duration = Duration::from_secs(2);

/// Concurrent calls, as of a person with a page that has one button for all, or of a few programs.
const ABREAST: usize = 8;

/// The parameters of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many agents wait.
    pub agents: usize,
    /// How many of them are the real CLI.
    pub real: usize,
    /// The real CLI, where there are any.
    pub cli: Option<PathBuf>,
}

/// The results of a run.
#[derive(Debug)]
pub struct Report {
    /// The parameters it ran with.
    pub options: Options,
    /// The server's memory before any agent came, in bytes.
    pub before: u64,
    /// Seconds until all had asked and were parked.
    pub parking_s: f64,
    /// The server's memory while all were parked.
    pub parked: u64,
    /// How large its store was then.
    pub store: u64,
    /// Milliseconds that the list of all sessions took.
    pub list_ms: f64,
    /// Seconds that the server took to start after the machine was restarted.
    pub restart_s: f64,
    /// The server's memory after that.
    pub restarted: u64,
    /// Seconds from the first answer to the last.
    pub answering_s: f64,
    /// The largest memory of the server while it woke them.
    pub peak: u64,
    /// The largest memory of all agents and their shims together.
    pub agents_peak: u64,
    /// The most processes that there were at the same time.
    pub processes: usize,
    /// Seconds from the last answer to the end of the last chat.
    pub woken_s: f64,
    /// Seconds from its own answer to the end of its chat, of each agent.
    pub each_s: Vec<f64>,
    /// What was lost or ran twice; empty when all is well.
    pub wrong: Vec<String>,
}

/// Runs all steps.
pub async fn run(options: &Options) -> Result<Report> {
    let mut site = Site::start(options).await?;
    tokio::time::sleep(SETTLE).await;
    let before = site.server_bytes()?;

    let begun = Instant::now();
    let agents: Vec<site::Agent> = stream::iter(0..options.agents)
        .map(|number| site.ask(number))
        .buffered(ABREAST)
        .try_collect()
        .await?;
    site.wait_until_parked(options.agents).await?;
    let parking_s = begun.elapsed().as_secs_f64();
    tokio::time::sleep(SETTLE).await;
    let (parked, store) = (site.server_bytes()?, site.store_bytes()?);
    let begun = Instant::now();
    let listed = site.parked_sessions().await?;
    let list_ms = begun.elapsed().as_secs_f64() * 1e3;
    let mut wrong = Vec::new();
    if listed != options.agents {
        wrong.push(format!("{listed} of {} agents are listed as parked", options.agents));
    }
    wrong.extend(agents.iter().filter_map(|agent| agent.ran_unasked(&site)));

    let restart_s = site.restart_machine().await?;
    tokio::time::sleep(SETTLE).await;
    let restarted = site.server_bytes()?;

    let answering = async {
        let begun = Instant::now();
        let answers = stream::iter(&agents).map(|agent| site.allow(agent)).buffered(ABREAST);
        let answered: Vec<f64> = answers.try_collect().await.context("could not answer all")?;
        anyhow::Ok((answered, begun.elapsed().as_secs_f64()))
    };
    let ((answered, answering_s), most) = tokio::try_join!(answering, watched(&site))?;
    if most.still_running > 0 {
        wrong.push(format!("{} chats have not ended", most.still_running));
    }
    let peak = site.server_peak_bytes()?;

    let (mut last_end, mut each_s) = (0.0_f64, Vec::new());
    for (agent, answered) in agents.iter().zip(&answered) {
        match Judged::of(&site, agent).await {
            Ok(judged) => {
                last_end = last_end.max(judged.ended);
                each_s.push((judged.ended - answered).max(0.0) / 1e3);
            }
            Err(error) => wrong.push(format!("agent {}: {error:#}", agent.number)),
        }
    }
    let last_answer = answered.iter().copied().fold(0.0, f64::max);
    Ok(Report {
        options: options.clone(),
        before,
        parking_s,
        parked,
        store,
        list_ms,
        restart_s,
        restarted,
        answering_s,
        peak,
        agents_peak: most.bytes,
        processes: most.processes,
        woken_s: (last_end - last_answer).max(0.0) / 1e3,
        each_s,
        wrong,
    })
}

/// The most that there was at the same time while agents were woken.
#[derive(Default)]
struct Most {
    processes: usize,
    bytes: u64,
    /// Chats that had not ended when nobody waited any longer.
    still_running: u64,
}

/// Looks at the processes until every chat has ended.
async fn watched(site: &Site) -> Result<Most> {
    let begun = Instant::now();
    let mut most = Most::default();
    loop {
        let (processes, bytes) = site.agents_weigh()?;
        most.processes = most.processes.max(processes);
        most.bytes = most.bytes.max(bytes);
        let state = site.call("health.state", json!({})).await?;
        let running = state["counts"]["chats_running"].as_u64().context("no count of chats")?;
        if running == 0 || begun.elapsed() > site::PATIENCE {
            most.still_running = running;
            return Ok(most);
        }
        tokio::time::sleep(SAMPLE).await;
    }
}

impl Report {
    /// Returns the limits of the design that were missed, in words.
    #[must_use]
    pub fn missed(&self) -> Vec<String> {
        let worst = percentile(&self.each_s, 100.0);
        let memory = [("parked", self.parked), ("woken", self.peak)];
        let memory = memory.into_iter().filter(|(_, bytes)| *bytes >= MOST_BYTES);
        let memory = memory.map(|(when, bytes)| {
            format!("the server has {} MiB while they are {when}", mib(bytes))
        });
        let late = (worst > MOST_SECONDS)
            .then(|| format!("an agent finished {worst:.1} s after its answer"));
        memory.chain(late).collect()
    }
}

fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { agents, real, .. } = &self.options;
        writeln!(f, "{agents} agents, {real} of them the real CLI")?;
        writeln!(f, "server before            {} MiB", mib(self.before))?;
        writeln!(
            f,
            "all asked and parked     {:.1} s; server {} MiB, store {:.1} MB, list {:.0} ms",
            self.parking_s,
            mib(self.parked),
            self.store as f64 / 1e6,
            self.list_ms
        )?;
        writeln!(
            f,
            "machine restarted        server after {:.2} s with {} MiB",
            self.restart_s,
            mib(self.restarted)
        )?;
        writeln!(
            f,
            "all answered             {:.1} s; server at most {} MiB, agents at most {} MiB in {} \
             processes",
            self.answering_s,
            mib(self.peak),
            mib(self.agents_peak),
            self.processes
        )?;
        writeln!(
            f,
            "all finished             {:.1} s after the last answer; each after its own: median \
             {:.1} s, worst {:.1} s",
            self.woken_s,
            median(&self.each_s),
            percentile(&self.each_s, 100.0)
        )?;
        for missed in self.missed() {
            writeln!(f, "MISSED: {missed}")?;
        }
        match &self.wrong[..] {
            [] => write!(f, "nothing was lost, nothing ran twice"),
            wrong => write!(f, "wrong:\n- {}", wrong.join("\n- ")),
        }
    }
}
