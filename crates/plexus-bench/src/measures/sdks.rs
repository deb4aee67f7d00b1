//! The official SDKs for Python and TypeScript with the same simulated child: the performance of a
//! program that drives one child directly.
//!
//! They store nothing and serve one process; Plexus stores each event and decision before it tells
//! anybody. Each SDK is installed from its registry into its own folder, and one that cannot be
//! installed is reported as missing.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use async_trait::async_trait;
use serde_json::{Value, json};
use testkit::server::binary;
use tokio::process::Command;

use super::line;
use crate::figure::{Aim, Figure};
use crate::measure::{Measure, RivalMissing};
use crate::server::Server;
use crate::sizes::{SdksMeasured, Sizes};
use crate::stats::{median, millis, percentile, rate};

const PYTHON: &str = include_str!("../../rivals/agent_sdk.py");
const TYPESCRIPT: &str = include_str!("../../rivals/agent_sdk.mjs");

/// How long installing or running an SDK may take.
const SDK_PATIENCE: Duration = Duration::from_secs(300);

/// The load for each of the three: events of a burst, their size, and tool calls that ask.
const EVENTS: usize = 2_000;
const EVENT_BYTES: usize = 200;
const ASKS: usize = 100;
const LINES: usize = 200;

/// How many times longer than with an SDK a tool call that asks may take.
const MOST_RATIO: f64 = 3.0;

pub(super) struct Sdks;

#[async_trait(?Send)]
impl Measure for Sdks {
    fn name(&self) -> &'static str {
        "sdks"
    }

    fn keys(&self) -> &'static [&'static str] {
        &[
            "ask_round_trip_ratio",
            "ask_round_trip_ms",
            "one_child_events_per_s",
            "one_child_line_p99_ms",
        ]
    }

    fn left_out(&self, sizes: &Sizes) -> Option<&'static str> {
        (sizes.sdks == SdksMeasured::None).then_some("a tiny run installs no SDK")
    }

    async fn run(&self, sizes: &Sizes, figures: &mut Vec<Figure>) -> Result<()> {
        let folder = tempfile::Builder::new().prefix("plexus-bench-sdk-").tempdir()?;
        let mut python = python(folder.path()).await.map_err(said);
        let mut typescript = match sizes.sdks {
            SdksMeasured::All => typescript(folder.path()).await.map_err(said),
            SdksMeasured::Python | SdksMeasured::None => {
                Err("only the full run installs it".to_owned())
            }
        };
        let (mut events, mut asks, mut lines) = (Vec::new(), Vec::new(), Vec::new());
        let server = Server::start(&[("live_deltas", "false".to_owned())]).await?;
        let session = server.create("sdk").await?;
        server.chat(&session, "sim:\nsay ready").await?;
        // In turns, so that a machine that changes its speed does so for all of them.
        for round in 0..sizes.rounds {
            events.push(burst(&server, &session).await?);
            asks.push(ask(&server, &session, ASKS).await?);
            lines.push(percentile(&line::lines(&server, round, LINES).await?, 99.0));
            for sdk in [&mut python, &mut typescript] {
                let played = match sdk {
                    Ok(sdk) => sdk.play().await.map_err(said),
                    Err(_) => Ok(()),
                };
                if let Err(why) = played {
                    *sdk = Err(why);
                }
            }
        }
        drop(server);
        let what = format!(
            "events a second of one warm child that says {EVENTS} things of {EVENT_BYTES} bytes, \
             until a reader of `poll` has the last; an SDK has them when its iterator ends"
        );
        let mut of_events = Figure::new("one_child_events_per_s", what, "/s", events, Aim::Beside);
        let what = format!(
            "time for each of {ASKS} tool calls that ask, from one to the next, with \
             `wait_for_approval` and `respond`; an SDK answers in its callback"
        );
        let mut of_asks = Figure::new("ask_round_trip_ms", what, "ms", asks.clone(), Aim::Beside);
        let what = format!(
            "from the stamp a child puts on a line until a waiting `poll` has it, 99th percentile \
             of {LINES} lines; an SDK hands it to its iterator"
        );
        let mut of_lines = Figure::new("one_child_line_p99_ms", what, "ms", lines, Aim::Beside);
        for (name, result) in [("Python SDK", &python), ("TypeScript SDK", &typescript)] {
            let of = |rounds: fn(&Sdk) -> &Vec<f64>| {
                result.as_ref().map(|sdk| median(rounds(sdk))).map_err(String::clone)
            };
            of_events = of_events.beside_or_missing(name, of(|sdk| &sdk.events), "/s");
            of_asks = of_asks.beside_or_missing(name, of(|sdk| &sdk.asks), "ms");
            of_lines = of_lines.beside_or_missing(name, of(|sdk| &sdk.lines), "ms");
        }
        figures.extend([of_asks, of_events, of_lines]);
        let python = python.map_err(RivalMissing)?;
        let ratios = asks.iter().zip(&python.asks).map(|(ours, theirs)| ours / theirs).collect();
        let what = "how many times longer a tool call that asks takes than with the Python SDK, \
                    which keeps nothing";
        let most = Aim::AtMost(MOST_RATIO);
        figures.push(Figure::new("ask_round_trip_ratio", what, "", ratios, most));
        Ok(())
    }
}

/// Plays a burst in the warm child and reads it to its end, as a parent would.
async fn burst(server: &Server, session: &str) -> Result<f64> {
    let started = Instant::now();
    let chat = server.start_chat(session, &format!("sim:\nburst {EVENTS} {EVENT_BYTES}")).await?;
    read_to_end(server, session, chat).await?;
    Ok(rate(EVENTS, started.elapsed()))
}

/// Reads a chat with `poll` until it has ended.
async fn read_to_end(server: &Server, session: &str, chat: u64) -> Result<()> {
    let mut next = 0;
    loop {
        let params = json!({"session_id": session, "chat": chat, "from_seq": next, "limit": 1_000, "wait_ms": 10_000});
        let page = server.call("claudecode.poll", params).await?;
        next += page["events"].as_array().context("a page without events")?.len();
        let goes_on = page["status"] == "running" || page["status"] == "awaiting_permission";
        if !goes_on && page["has_more"] == false {
            return Ok(());
        }
    }
}

/// Plays `count` tool calls that ask for permission, answers each at once, and returns how long one
/// took, in milliseconds.
pub(super) async fn ask(server: &Server, session: &str, count: usize) -> Result<f64> {
    let asks = "tool Write {\"file_path\":\"sdk.txt\",\"content\":\"x\"}\n".repeat(count);
    let started = Instant::now();
    let chat = server.start_chat(session, &format!("sim:\n{asks}")).await?;
    for _ in 0..count {
        server.allow(&server.wait_for_approval(session).await?).await?;
    }
    // A loop that sleeps between two looks would add its pauses to our figure alone.
    read_to_end(server, session, chat).await?;
    Ok(millis(started.elapsed()) / count as f64)
}

/// An installed SDK, and its results by round.
struct Sdk {
    program: PathBuf,
    script: PathBuf,
    home: PathBuf,
    /// What it starts as its child: the simulator, whose output is copied.
    child: PathBuf,
    /// That copy. The SDKs do not keep the child's output, and its stamps are read from there.
    output: PathBuf,
    events: Vec<f64>,
    asks: Vec<f64>,
    lines: Vec<f64>,
}

async fn python(folder: &Path) -> Result<Sdk> {
    let home = folder.join("python");
    run(Command::new("python3").arg("-m").arg("venv").arg(&home)).await?;
    run(Command::new(home.join("bin/pip")).args(["install", "--quiet", "claude-agent-sdk"]))
        .await?;
    let script = home.join("agent_sdk.py");
    std::fs::write(&script, PYTHON)?;
    Sdk::new(home.join("bin/python"), script, home)
}

async fn typescript(folder: &Path) -> Result<Sdk> {
    let home = folder.join("typescript");
    std::fs::create_dir(&home)?;
    let install =
        ["install", "--no-audit", "--no-fund", "--silent", "@anthropic-ai/claude-agent-sdk"];
    run(Command::new("npm").args(install).current_dir(&home)).await?;
    let script = home.join("agent_sdk.mjs");
    std::fs::write(&script, TYPESCRIPT)?;
    Sdk::new("node".into(), script, home)
}

impl Sdk {
    fn new(program: PathBuf, script: PathBuf, home: PathBuf) -> Result<Self> {
        let (child, output) = (home.join("claude"), home.join("output.jsonl"));
        let simulator = binary("plexus-sim", "PLEXUS_SIM_BIN")?;
        let copying =
            format!("#!/bin/sh\n'{}' \"$@\" | tee '{}'\n", simulator.display(), output.display());
        std::fs::write(&child, copying)?;
        std::fs::set_permissions(&child, std::fs::Permissions::from_mode(0o700))?;
        let (events, asks, lines) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { program, script, home, child, output, events, asks, lines })
    }

    /// Runs its script once, and adds the results of this round.
    async fn play(&mut self) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.arg(&self.script).arg(&self.child).arg(&self.home);
        command.args([EVENTS, EVENT_BYTES, ASKS, LINES].map(|number| number.to_string()));
        let printed = run(command.env("CLAUDE_CONFIG_DIR", self.home.join("config"))).await?;
        let result: Value = serde_json::from_str(printed.trim())
            .with_context(|| format!("an odd answer: {printed}"))?;
        self.events.push(result["events_per_s"].as_f64().context("no events_per_s")?);
        self.asks.push(result["ask_ms"].as_f64().context("no ask_ms")?);
        let seen = serde_json::from_value(result["seen"].clone()).context("no times")?;
        let waits = line::waits(&std::fs::read_to_string(&self.output)?, &seen, LINES)?;
        self.lines.push(percentile(&waits, 99.0));
        Ok(())
    }
}

fn said(error: anyhow::Error) -> String {
    format!("{error:#}")
}

/// Runs a program to its end and returns its output.
async fn run(command: &mut Command) -> Result<String> {
    let shown = format!("{:?}", command.as_std().get_program());
    let ending = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = tokio::time::timeout(SDK_PATIENCE, ending)
        .await
        .with_context(|| format!("{shown} took too long"))??;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{shown} ended with {}: {}",
            output.status,
            said.trim().lines().last().unwrap_or_default()
        );
    }
    Ok(String::from_utf8(output.stdout)?)
}
