//! Measures a real call at each door: `poll` of a page of 100 events, and `respond` to a waiting
//! permission request. The rival is a bare axum handler with the same answers.
//!
//! Callers and server share the machine, so the ratios say more than the figures. `respond` can
//! decide a request only once, so each round first makes as many requests as it answers; each asker
//! must have its answer at the end.

pub(super) mod caller;
mod rival;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use futures::future::try_join_all;
use serde_json::{Value, json};

use self::caller::{Caller, Way};
use self::rival::Rival;
use crate::figure::{Aim, Figure};
use crate::measure::Measure;
use crate::server::{Server, text};
use crate::sizes::Sizes;
use crate::stats::{millis, percentile, rate};

/// Concurrent callers, each with one call at a time: enough to keep two cores busy.
const CALLERS: usize = 16;

/// Events in the polled page, and the length of the text of each.
const PAGE: usize = 100;
const TEXT_BYTES: usize = 200;

pub(super) struct Doors;

/// The figures by door: calls of `poll` and of `respond` in a second.
const KEYS: [(Way, &str, &str); 3] = [
    (Way::Post, "poll_post_per_s", "respond_post_per_s"),
    (Way::Socket, "poll_socket_per_s", "respond_socket_per_s"),
    (Way::Mcp, "poll_mcp_per_s", "respond_mcp_per_s"),
];

#[async_trait(?Send)]
impl Measure for Doors {
    fn name(&self) -> &'static str {
        "doors"
    }

    fn keys(&self) -> &'static [&'static str] {
        &[
            "poll_post_per_s",
            "poll_socket_per_s",
            "poll_mcp_per_s",
            "respond_post_per_s",
            "respond_socket_per_s",
            "respond_mcp_per_s",
        ]
    }

    async fn run(&self, sizes: &Sizes, figures: &mut Vec<Figure>) -> Result<()> {
        let server = Server::start(&[]).await?;
        let session = server.create("read").await?;
        server.chat(&session, &format!("sim:\nburst {PAGE} {TEXT_BYTES}")).await?;
        let poll = json!({"session_id": session, "from_seq": 0, "limit": PAGE});
        let page = server.call("claudecode.poll", poll.clone()).await?;
        let rival = Rival::start(&page).await?;
        let asker = Asker::new(&server).await?;

        let calls = vec![poll; sizes.door_polls];
        let mut bare = Taken::default();
        for _ in 0..sizes.rounds {
            bare.add(drive(&server, &rival, Way::Bare, "claudecode.poll", &calls).await?);
        }
        for (way, key, _) in KEYS {
            let mut ours = Taken::default();
            for _ in 0..sizes.rounds {
                ours.add(drive(&server, &rival, way, "claudecode.poll", &calls).await?);
            }
            let what = format!(
                "calls of poll in a second ({PAGE} events, {CALLERS} callers) over {}",
                way.title()
            );
            figures.push(ours.figure(key, what, &bare));
        }
        let mut bare = Taken::default();
        let answers = vec![json!({"approval_id": session, "approve": true}); sizes.door_answers];
        for _ in 0..sizes.rounds {
            bare.add(drive(&server, &rival, Way::Bare, "loopback.respond", &answers).await?);
        }
        for (way, _, key) in KEYS {
            let mut ours = Taken::default();
            for _ in 0..sizes.rounds {
                let asked = asker.ask(&server, sizes.door_answers).await?;
                ours.add(drive(&server, &rival, way, "loopback.respond", &asked.answers).await?);
                asked.all_have_their_answer().await?;
            }
            let what = format!(
                "calls of respond in a second, each a durable decision ({CALLERS} callers), over \
                 {}",
                way.title()
            );
            figures.push(ours.figure(key, what, &bare));
        }
        Ok(())
    }
}

/// The results of the rounds of one door.
#[derive(Default)]
struct Taken {
    rates: Vec<f64>,
    p99_ms: Vec<f64>,
}

impl Taken {
    fn add(&mut self, (took, each): (Duration, Vec<f64>)) {
        self.rates.push(rate(each.len(), took));
        self.p99_ms.push(percentile(&each, 99.0));
    }

    fn figure(self, key: &'static str, what: String, bare: &Self) -> Figure {
        Figure::new(key, what, "/s", self.rates, Aim::Beside)
            .beside("its p99", &self.p99_ms, "ms")
            .beside("a bare axum handler", &bare.rates, "/s")
            .beside("the p99 of the bare one", &bare.p99_ms, "ms")
    }
}

/// Makes all calls, shared among the callers, and returns the total time and the time of each call.
async fn drive(
    server: &Server,
    rival: &Rival,
    way: Way,
    method: &'static str,
    calls: &[Value],
) -> Result<(Duration, Vec<f64>)> {
    let address = if way == Way::Bare { rival.address.clone() } else { server.address()? };
    let mut callers = Vec::new();
    for share in calls.chunks(calls.len().div_ceil(CALLERS).max(1)) {
        callers.push((Caller::connect(way, &address, server.token()?).await?, share.to_vec()));
    }
    let started = Instant::now();
    let working = callers.into_iter().map(|(mut caller, share)| {
        tokio::spawn(async move {
            let mut each = Vec::with_capacity(share.len());
            for params in share {
                let call = Instant::now();
                caller.call(method, &params).await?;
                each.push(millis(call.elapsed()));
            }
            anyhow::Ok(each)
        })
    });
    let mut each = Vec::with_capacity(calls.len());
    for done in try_join_all(working).await? {
        each.extend(done?);
    }
    Ok((started.elapsed(), each))
}

/// Sessions without a child of the server: they ask over `permit`.
struct Asker {
    children: Vec<(String, String)>,
}

/// Waiting requests, and the tasks that made them.
struct Asked {
    answers: Vec<Value>,
    waiting: Vec<tokio::task::JoinHandle<Result<String>>>,
}

/// Concurrent requests of one session; below the limit of a session.
const EACH_ASKS: usize = 100;

/// The number of sessions that ask.
const ASKERS: usize = 8;

impl Asker {
    async fn new(server: &Server) -> Result<Self> {
        let mut children = Vec::new();
        for id in server.create_many("ask", ASKERS).await? {
            let told = server.call("loopback.configure", json!({"session_id": id})).await?;
            let header =
                text(&told["mcp_config"]["mcpServers"]["plexus"]["headers"], "Authorization")?;
            children.push((id, header.trim_start_matches("Bearer ").to_owned()));
        }
        Ok(Self { children })
    }

    async fn ask(&self, server: &Server, count: usize) -> Result<Asked> {
        ensure!(count <= EACH_ASKS * ASKERS, "too many to ask at once");
        let address = server.address()?;
        let mut waiting = Vec::new();
        for index in 0..count {
            let (address, token) = (address.clone(), self.children[index % ASKERS].1.clone());
            waiting.push(tokio::spawn(async move {
                let mut child = Caller::connect(Way::Post, &address, &token).await?;
                let unique = format!("toolu_{index}_{:?}", Instant::now());
                let params =
                    json!({"tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": unique});
                child.call("loopback.permit", &params).await
            }));
        }
        let wanted = count as u64;
        let waits = async || {
            Ok(server.call("health.state", json!({})).await?["counts"]["approvals_pending"]
                == wanted)
        };
        server.wait_for("all requests", waits).await?;
        let pending = server.call("loopback.pending", json!({"limit": 1_000})).await?;
        let decide = |one: &Value| json!({"approval_id": one["id"], "approve": true});
        let answers =
            pending["approvals"].as_array().context("no list")?.iter().map(decide).collect();
        Ok(Asked { answers, waiting })
    }
}

impl Asked {
    async fn all_have_their_answer(self) -> Result<()> {
        for answer in try_join_all(self.waiting).await? {
            let answer = answer?;
            ensure!(answer.contains("\"allow\""), "a child was told {answer}");
        }
        Ok(())
    }
}
