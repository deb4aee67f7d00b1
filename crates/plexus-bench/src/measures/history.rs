//! Measures `poll` and paths in a large store: their cost should depend on what they return, not on
//! what is stored.
//!
//! The store is filled directly. `poll` is then called on a server with that store. Paths are read
//! in the store itself, and compared with a plain range read of as many rows of the same table.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use plexus_core::{NodeId, SessionId};
use plexus_store::sqlite::DATABASE_FILE;
use plexus_store::{ReadLimit, SqliteStore, Store as _};
use rusqlite::{Connection, OpenFlags};
use serde_json::json;

use crate::figure::{Aim, Figure};
use crate::measure::Measure;
use crate::prepared;
use crate::server::Server;
use crate::sizes::Sizes;
use crate::stats::{median, millis};

/// How many events a poll returns, and how many nodes a path has.
const PAGE: u32 = 100;

/// Places in the tree at which paths end: several, so that reads are not all from one page of the
/// file.
const PLACES: u32 = 16;

/// Each path passes this many branches of this many nodes before it reaches the chain of events.
const BRANCHES: usize = 4;
const BRANCH_NODES: usize = 20;

pub(super) struct History;

#[async_trait(?Send)]
impl Measure for History {
    fn name(&self) -> &'static str {
        "history"
    }

    fn keys(&self) -> &'static [&'static str] {
        &["poll_growth_ratio", "path_ratio"]
    }

    async fn run(&self, sizes: &Sizes, figures: &mut Vec<Figure>) -> Result<()> {
        let mut server = Server::start(&[]).await?;
        let like: SessionId = server.create("like").await?.parse()?;
        server.stop().await?;
        let store = prepared::open(&server.data_dir())?;
        let like = store.session(like).await?;
        let sessions =
            prepared::add_sessions(&store, &like, "history", sizes.chat_sizes.len()).await?;
        for (session, size) in sessions.iter().zip(sizes.chat_sizes) {
            prepared::add_events(&store, *session, size).await?;
        }
        // The last chat is the largest; paths are read in its tree.
        let largest = sessions.last().copied().context("no session")?;
        let path = paths(&store, &server.data_dir(), largest, sizes).await;
        store.close().await?;
        drop(store);
        server.start_again().await?;
        figures.push(polls(&server, &sessions, sizes).await?);
        figures.push(path?);
        Ok(())
    }
}

/// Polls at places all over each chat. The chats take turns, so that a busy moment of the machine
/// affects all of them.
async fn polls(server: &Server, sessions: &[SessionId], sizes: &Sizes) -> Result<Figure> {
    let (mut ratios, mut medians) = (Vec::new(), vec![Vec::new(); sessions.len()]);
    for round in 0..=sizes.rounds {
        let mut samples = vec![Vec::new(); sessions.len()];
        for read in 0..sizes.reads {
            for (index, (session, size)) in sessions.iter().zip(sizes.chat_sizes).enumerate() {
                let from = scattered(read, size - PAGE);
                let started = Instant::now();
                let page = server
                    .call(
                        "claudecode.poll",
                        json!({"session_id": session, "from_seq": from, "limit": PAGE}),
                    )
                    .await?;
                samples[index].push(millis(started.elapsed()));
                ensure!(
                    page["events"].as_array().is_some_and(|events| events.len() == PAGE as usize),
                    "a short page: {page}"
                );
            }
        }
        // The first round fills caches and does not count.
        if round > 0 {
            let each: Vec<f64> = samples.iter().map(|samples| median(samples)).collect();
            let (least, most) = (
                each.iter().copied().fold(f64::INFINITY, f64::min),
                each.iter().copied().fold(0.0, f64::max),
            );
            ratios.push(most / least);
            each.iter().zip(&mut medians).for_each(|(value, all)| all.push(*value));
        }
    }
    let what = format!(
        "`poll` of {PAGE} events over HTTP at places all over chats of {:?} events: the slowest \
         median over the quickest",
        sizes.chat_sizes
    );
    let figure = Figure::new("poll_growth_ratio", what, "", ratios, Aim::AtMost(1.5));
    Ok(sizes.chat_sizes.iter().zip(&medians).fold(figure, |figure, (size, medians)| {
        figure.beside(format!("{size} events"), medians, "ms")
    }))
}

async fn paths(
    store: &SqliteStore,
    data_dir: &Path,
    session: SessionId,
    sizes: &Sizes,
) -> Result<Figure> {
    let size = sizes.chat_sizes.iter().copied().max().context("no sizes")?;
    let whole = store.session(session).await?;
    let mut places = Vec::new();
    for place in 0..PLACES {
        // The very beginning is left out, because a path is shorter there.
        let seq = PAGE + scattered(place as usize, size - 2 * PAGE);
        let page = store.read_events(session, 0, seq, ReadLimit::events(1)).await?;
        let node = page.events.first().context("no event there")?.node_id();
        places.push((
            prepared::add_branches(store, &whole, node, BRANCHES, BRANCH_NODES).await?,
            seq,
        ));
    }
    let plain = PlainRead::open(&data_dir.join(DATABASE_FILE))?;
    let (mut ratios, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=sizes.rounds {
        let (mut path, mut range) = (Vec::new(), Vec::new());
        for (node, seq) in places.iter().cycle().take(sizes.reads) {
            path.push(read_path(store, *node).await?);
            range.push(plain.read(*seq)?);
        }
        // The first round fills caches and does not count.
        if round > 0 {
            ours.push(median(&path));
            theirs.push(median(&range));
            ratios.push(median(&path) / median(&range));
        }
    }
    let what = format!(
        "the last {PAGE} nodes of a path through {BRANCHES} branches in a tree of {size} nodes, \
         over {PAGE} rows of the same table by key"
    );
    let figure = Figure::new("path_ratio", what, "", ratios, Aim::AtMost(3.0));
    Ok(figure.beside("path", &ours, "ms").beside("plain range read", &theirs, "ms"))
}

async fn read_path(store: &SqliteStore, node: NodeId) -> Result<f64> {
    let started = Instant::now();
    let nodes = store.path(node, PAGE as usize).await?;
    let took = millis(started.elapsed());
    ensure!(
        nodes.len() == PAGE as usize && nodes.last().is_some_and(|last| last.id == node),
        "not the path that was asked for"
    );
    Ok(took)
}

/// Reads rows of one chat by key, as simply as SQLite can.
struct PlainRead {
    connection: Connection,
    /// The key of the first event of the newest chat.
    first: i64,
}

impl PlainRead {
    fn open(database: &Path) -> Result<Self> {
        let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        // The upper half of a key is the chat, the lower half the number of the event.
        let first = connection
            .query_row("SELECT max(id) FROM chat_streams", [], |row| row.get::<_, i64>(0))?
            << 32;
        Ok(Self { connection, first })
    }

    fn read(&self, seq: u32) -> Result<f64> {
        let started = Instant::now();
        let sql = "SELECT id, uuid, created_at, type, body FROM chat_events WHERE id >= ?1 AND id \
            < ?2 ORDER BY id";
        let mut statement = self.connection.prepare_cached(sql)?;
        let from = self.first + i64::from(seq);
        let rows = statement.query_map((from, from + i64::from(PAGE)), |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, Vec<u8>>(1)?,
                row.get::<_, i64>(2)?,
                row.get::<_, String>(3)?,
                row.get::<_, String>(4)?,
            ))
        })?;
        let rows: Vec<_> = rows.collect::<Result<_, _>>()?;
        let took = millis(started.elapsed());
        ensure!(rows.len() == PAGE as usize, "{} rows", rows.len());
        Ok(took)
    }
}

/// Returns the `index`-th of many places less than `below`, spread evenly and in no order.
fn scattered(index: usize, below: u32) -> u32 {
    // Steps of the golden ratio fill an interval evenly however many there are.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a fraction of `below`"
    )]
    let place = ((index as f64 * 0.618_033_988_749_895).fract() * f64::from(below)) as u32;
    place
}
