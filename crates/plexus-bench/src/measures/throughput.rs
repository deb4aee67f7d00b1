//! Durable events through a whole server: many children write at once. The rival is SQLite alone
//! with the same rows.
//!
//! The children are warm before the clock starts, so that the figure does not include starting
//! processes. The clock stops when every chat has ended. Each event in between was written by a
//! child, journaled by its shim, parsed, translated and committed with `sync = "full"`.

use anyhow::Result;
use async_trait::async_trait;
use plexus_store::sqlite::DATABASE_FILE;

use super::bare;
use super::burst::{Burst, LARGE_BATCH};
use crate::figure::{Aim, Figure};
use crate::measure::Measure;
use crate::sizes::Sizes;
use crate::stats::rate;

pub(super) struct Throughput;

#[async_trait(?Send)]
impl Measure for Throughput {
    fn name(&self) -> &'static str {
        "throughput"
    }

    fn keys(&self) -> &'static [&'static str] {
        &["events_per_s", "bare_group_commit_ratio", "single_commit_ratio"]
    }

    async fn run(&self, sizes: &Sizes, figures: &mut Vec<Figure>) -> Result<()> {
        let plain = rounds(sizes, "false").await?;
        let with_deltas = rounds(sizes, "true").await?;
        let what = format!(
            "events stored in a second while {} warm children write {} events of {} bytes each, \
             without partial messages, from the first prompt to the end of the last chat",
            sizes.children, sizes.burst, sizes.burst_bytes
        );
        let figure = Figure::new("events_per_s", what, "/s", plain.server.clone(), Aim::Beside);
        figures.push(figure.beside(
            "with partial messages, about 7 more lines an event",
            &with_deltas.server,
            "/s",
        ));
        let over = |rival: &[f64]| {
            plain.server.iter().zip(rival).map(|(ours, theirs)| ours / theirs).collect::<Vec<_>>()
        };
        let what = format!(
            "the same, over a bare group commit of the same rows: {} threads wait for each of \
             their rows to be durable, one thread commits what waits, sync full",
            sizes.children
        );
        let figure =
            Figure::new("bare_group_commit_ratio", what, "", over(&plain.group), Aim::AtLeast(0.5));
        let figure = figure.beside("bare group commit", &plain.group, "/s");
        figures.push(figure.beside(
            format!("{LARGE_BATCH} rows a transaction that nobody waits for"),
            &plain.batches,
            "/s",
        ));
        let what = "the same, over a commit for each event, sync full";
        let figure =
            Figure::new("single_commit_ratio", what, "", over(&plain.single), Aim::AtLeast(20.0));
        figures.push(figure.beside("one commit an event", &plain.single, "/s"));
        Ok(())
    }
}

/// Events in a second, in each round.
#[derive(Default)]
struct Rounds {
    server: Vec<f64>,
    group: Vec<f64>,
    batches: Vec<f64>,
    single: Vec<f64>,
}

async fn rounds(sizes: &Sizes, live_deltas: &str) -> Result<Rounds> {
    let burst = Burst::ready("", sizes, live_deltas).await?;
    let mut rounds = Rounds::default();
    let database = burst.server.data_dir().join(DATABASE_FILE);
    for _ in 0..sizes.rounds {
        let before = bare::count(&database)?;
        let took = burst.play().await?;
        let stored = bare::count(&database)? - before;
        burst.is_whole(stored)?;
        rounds.server.push(rate(stored, took));
        let rows = bare::newest(&database, stored)?;
        rounds.group.push(rate(rows.len(), bare::by_group_commit(&rows, sizes.children)?));
        rounds.batches.push(rate(rows.len(), bare::in_batches(&rows, LARGE_BATCH)?));
        let few = rows.get(..sizes.single_commits).unwrap_or(&rows);
        rounds.single.push(rate(few.len(), bare::in_batches(few, 1)?));
    }
    Ok(rounds)
}
