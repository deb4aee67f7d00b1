//! Servers that share a PostgreSQL. An answer through another server is compared with one through
//! the server that has the child, and the events of many children with a bare batched insert of the
//! same rows.
//!
//! The database is a cluster started for this run, on this machine, with `fsync` and
//! `synchronous_commit` on. So the figures include the work of all processes, and no network.

use anyhow::Result;
use async_trait::async_trait;
use testkit::postgres::{self, Postgres, PostgresOptions};

use super::answer::{self, CONTROL, MCP, Rounds, Way};
use super::bare_postgres::Bare;
use super::burst::{Burst, LARGE_BATCH};
use crate::figure::{Aim, Figure};
use crate::measure::Measure;
use crate::server::Server;
use crate::sizes::Sizes;
use crate::stats::rate;

/// Rows in one transaction of the bare insert: as many as wait at a server with that many children
/// when each has written one event.
const BATCH: usize = 64;

pub(super) struct Nodes;

#[async_trait(?Send)]
impl Measure for Nodes {
    fn name(&self) -> &'static str {
        "nodes"
    }

    fn keys(&self) -> &'static [&'static str] {
        &[
            "respond_across_nodes_p99_ms",
            "across_nodes_ratio",
            "respond_across_nodes_mcp_p99_ms",
            "across_nodes_mcp_ratio",
            "postgres_events_per_s",
            "postgres_bare_batch_ratio",
        ]
    }

    fn left_out(&self, _sizes: &Sizes) -> Option<&'static str> {
        (!postgres::is_installed())
            .then_some("not measured: PostgreSQL is not installed (apt-get install postgresql)")
    }

    async fn run(&self, sizes: &Sizes, figures: &mut Vec<Figure>) -> Result<()> {
        let cluster = postgres::start(PostgresOptions::default())?;
        answers(&cluster, sizes, figures).await?;
        events(&cluster, sizes, figures).await
    }
}

/// Measures answers to a child of the first server, alternately through the first and the second.
async fn answers(cluster: &Postgres, sizes: &Sizes, figures: &mut Vec<Figure>) -> Result<()> {
    let url = cluster.fresh_database()?;
    let (first, second) = (Server::start_on(&url, &[]).await?, Server::start_on(&url, &[]).await?);
    let (mut control, mut mcp) = (Beside::default(), Beside::default());
    for round in 0..sizes.rounds {
        for (beside, way) in [(&mut control, CONTROL), (&mut mcp, MCP)] {
            let one = |server, name: &'static str| {
                one_round(&first, server, way, name, round, sizes.node_answers)
            };
            beside.same.add(&one(&first, "same").await?);
            beside.across.add(&one(&second, "across").await?);
        }
    }
    let echo = "the child's echo of the answer is in its journal";
    figures.extend(control.figures(
        ["respond_across_nodes_p99_ms", "across_nodes_ratio"],
        echo,
        sizes,
    ));
    let result = "the result of the tool is in the journal of a child that asks over MCP";
    figures.extend(mcp.figures(
        ["respond_across_nodes_mcp_p99_ms", "across_nodes_mcp_ratio"],
        result,
        sizes,
    ));
    Ok(())
}

async fn one_round(
    asking: &Server,
    answering: &Server,
    way: Way,
    name: &str,
    round: usize,
    count: usize,
) -> Result<Vec<f64>> {
    answer::answers(asking, answering, way, &format!("{name}-{round}"), count).await
}

/// The same answers, through the server that has the child and through another one.
#[derive(Default)]
struct Beside {
    same: Rounds,
    across: Rounds,
}

impl Beside {
    fn figures(&self, keys: [&'static str; 2], until: &str, sizes: &Sizes) -> [Figure; 2] {
        let [time, ratio] = keys;
        let what = format!(
            "from `loopback.respond` being sent to one of two servers on one PostgreSQL until \
             {until} at the other, 99th percentile of {} answers a round",
            sizes.node_answers
        );
        let across = Figure::new(time, what, "ms", self.across.p99.clone(), Aim::Beside)
            .beside("median", &self.across.p50, "ms")
            .beside("through the server that has the child", &self.same.p99, "ms")
            .beside("its median", &self.same.p50, "ms");
        let medians = self
            .across
            .p50
            .iter()
            .zip(&self.same.p50)
            .map(|(across, same)| across / same)
            .collect();
        let what = "the median of the same, over the median through the server that has the child";
        [across, Figure::new(ratio, what, "", medians, Aim::Beside)]
    }
}

/// Lets warm children of one server write at once, then inserts the same rows directly into the
/// same database.
async fn events(cluster: &Postgres, sizes: &Sizes, figures: &mut Vec<Figure>) -> Result<()> {
    let url = cluster.fresh_database()?;
    let burst = Burst::ready(&url, sizes, "false").await?;
    let bare = Bare::connect(&url).await?;
    let (mut ours, mut batches, mut large, mut single) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        let before = bare.count().await?;
        let took = burst.play().await?;
        let stored = bare.count().await? - before;
        burst.is_whole(stored)?;
        ours.push(rate(stored, took));
        let rows = bare.newest(stored).await?;
        batches.push(rate(rows.len(), bare.in_batches(&rows, BATCH).await?));
        large.push(rate(rows.len(), bare.in_batches(&rows, LARGE_BATCH).await?));
        let few = rows.get(..sizes.single_commits).unwrap_or(&rows);
        single.push(rate(few.len(), bare.in_batches(few, 1).await?));
    }
    let what = format!(
        "events stored in PostgreSQL in a second while {} warm children of one server write {} \
         events of {} bytes each, from the first prompt to the end of the last chat",
        sizes.children, sizes.burst, sizes.burst_bytes
    );
    figures.push(Figure::new("postgres_events_per_s", what, "/s", ours.clone(), Aim::Beside));
    let ratios = ours.iter().zip(&batches).map(|(ours, theirs)| ours / theirs).collect();
    let what = format!(
        "the same, over a bare insert of the same rows, {BATCH} a transaction, synchronous_commit \
         on, in the same cluster"
    );
    let figure = Figure::new("postgres_bare_batch_ratio", what, "", ratios, Aim::Beside)
        .beside(format!("{BATCH} rows a transaction"), &batches, "/s")
        .beside(format!("{LARGE_BATCH} rows a transaction"), &large, "/s")
        .beside("one row a transaction", &single, "/s");
    figures.push(figure);
    Ok(())
}
