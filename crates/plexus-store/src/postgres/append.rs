//! The fast path: lists that hold only events, journal positions and updates of runs, which is
//! nearly everything that is ever written.
//!
//! The current state is read for all lists at once, the lists are checked here, and their changes
//! are written with one statement for each table. A list that does not pass is left to the slow
//! path, which reports what is wrong with it.

use std::collections::{BTreeSet, HashMap};

use plexus_core::{ServerId, SessionId};
use tokio_postgres::Statement;
use uuid::Uuid;

use super::sql::{Conn, INSERT_EVENTS, insert_events};
use crate::contract::{
    AppendEvents, Change, JournalPosition, JsonText, Lease, NewEvent, Outcome, Patch, RunKey,
    StoreError, Topic, UnixMillis,
};
use crate::queue::Job;
use crate::tables::keys::EventKey;
use crate::tables::sql::{self, int};

/// Returns whether a list can take the fast path.
pub(super) fn is_plain(changes: &[Change]) -> bool {
    changes.iter().all(|change| {
        matches!(
            change,
            Change::AppendEvents(_) | Change::SetJournalPosition(_) | Change::UpdateRun(_)
        )
    })
}

#[derive(Clone)]
struct ChatState {
    row: i64,
    session: i64,
    open: bool,
    server: Option<ServerId>,
    next: u32,
}

#[derive(Clone)]
struct RunState {
    row: i64,
    open: bool,
    server: Option<ServerId>,
    journal: JournalPosition,
    changed: bool,
    process: Patch<JsonText>,
    translation: Patch<JsonText>,
    idle_since: Patch<UnixMillis>,
}

/// Lists that are written together.
pub(super) struct Batch {
    chats: HashMap<(SessionId, u32), ChatState>,
    runs: HashMap<RunKey, RunState>,
    events: Vec<(EventKey, NewEvent)>,
    /// Chat, first seq, count, and the list's number in the group.
    batches: Vec<(i64, u32, u32, u64)>,
    // Prepared before anything is written: the commit is sent right after the writes and must not
    // overtake them.
    insert: Statement,
    update: Statement,
}

/// Reads the state of chats that appending needs. An unknown key yields no row.
const CHATS: &str = "SELECT k.uuid, k.number, c.id, c.session, c.status = 0, c.server,
        (SELECT max(e.id) FROM chat_events e WHERE e.id >= c.id << 32 AND e.id < (c.id + 1) << 32)
    FROM unnest($1::uuid[], $2::int8[]) AS k (uuid, number)
    JOIN sessions s ON s.uuid = k.uuid AND s.deleted_at IS NULL
    JOIN chat_streams c ON c.session = s.id AND c.number = k.number";

/// Reads the same for runs.
const RUNS: &str = "SELECT k.uuid, k.n, r.id, r.ended_at IS NULL, r.server, r.segment, r.\"offset\"
    FROM unnest($1::uuid[], $2::int8[]) AS k (uuid, n)
    JOIN sessions s ON s.uuid = k.uuid AND s.deleted_at IS NULL
    JOIN runs r ON r.session = s.id AND r.n = k.n";

const UPDATE: &str = "UPDATE runs r SET segment = u.segment, \"offset\" = u.at,
        process = CASE WHEN u.set_process THEN u.process ELSE r.process END,
        translation = CASE WHEN u.set_translation THEN u.translation ELSE r.translation END,
        idle_since = CASE WHEN u.set_idle THEN u.idle ELSE r.idle_since END
    FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::bool[], $5::text[], $6::bool[], $7::text[],
    $8::bool[], $9::int8[])
        AS u (id, segment, at, set_process, process, set_translation, translation, set_idle, idle)
    WHERE r.id = u.id";

impl Batch {
    /// Reads the current state for these lists, under locks that were taken before.
    pub(super) async fn read(conn: &Conn, jobs: &[Job]) -> Result<Self, StoreError> {
        let (mut chats, mut runs) = (BTreeSet::new(), BTreeSet::new());
        for change in jobs.iter().flat_map(|job| &job.changes) {
            match change {
                Change::AppendEvents(it) => drop(chats.insert((it.session, it.chat))),
                Change::SetJournalPosition(it) => drop(runs.insert(it.run)),
                Change::UpdateRun(it) => drop(runs.insert(it.run)),
                _ => {}
            }
        }
        let (ids, numbers): (Vec<Uuid>, Vec<i64>) =
            chats.iter().map(|(session, chat)| (*session.as_uuid(), i64::from(*chat))).unzip();
        let chat_of = |row: &sql::Row<'_>| {
            let state = ChatState {
                row: row.get(2)?,
                session: row.get(3)?,
                open: row.get(4)?,
                server: row.maybe(5)?,
                next: row.maybe(6)?.map_or(0, EventKey::next_seq),
            };
            Ok(((row.get(0)?, row.get(1)?), state))
        };
        let (run_ids, ns): (Vec<Uuid>, Vec<i64>) =
            runs.iter().map(|run| (*run.session.as_uuid(), i64::from(run.n))).unzip();
        let run_of = |row: &sql::Row<'_>| {
            let state = RunState {
                row: row.get(2)?,
                open: row.get(3)?,
                server: row.maybe(4)?,
                journal: JournalPosition { segment: row.get(5)?, offset: row.get(6)? },
                changed: false,
                process: Patch::Keep,
                translation: Patch::Keep,
                idle_since: Patch::Keep,
            };
            Ok((RunKey { session: row.get(0)?, n: row.get(1)? }, state))
        };
        let chats = async { conn.query(&conn.statement(CHATS).await?, &[&ids, &numbers]).await };
        let runs = async {
            if run_ids.is_empty() {
                return Ok(Vec::new());
            }
            conn.query(&conn.statement(RUNS).await?, &[&run_ids, &ns]).await
        };
        let (chats, runs) = futures::future::join(chats, runs).await;
        Ok(Self {
            chats: chats?.iter().map(|row| chat_of(row)).collect::<Result<_, StoreError>>()?,
            runs: runs?.iter().map(|row| run_of(row)).collect::<Result<_, StoreError>>()?,
            insert: conn.statement(INSERT_EVENTS).await?,
            update: conn.statement(UPDATE).await?,
            events: Vec::new(),
            batches: Vec::new(),
        })
    }

    /// Applies one list, as the `nth` of the group. Returns `None` when it does not pass; then
    /// nothing of it is applied.
    pub(super) fn apply(
        &mut self,
        changes: &[Change],
        nth: u64,
        lease: Option<Lease>,
    ) -> Option<(Vec<Outcome>, Vec<Topic>)> {
        let before = (self.events.len(), self.batches.len());
        let mut undo = Undo::default();
        let mut outcomes = Vec::with_capacity(changes.len());
        let mut topics = Vec::new();
        for change in changes {
            let outcome = match change {
                Change::AppendEvents(it) => self.append(it, nth, lease, &mut undo, &mut topics),
                Change::SetJournalPosition(it) => {
                    self.run(it.run, lease, &mut undo).and_then(|run| {
                        (run.journal == it.expects && it.to >= it.expects)
                            .then(|| run.journal = it.to)?;
                        Some(Outcome::Done)
                    })
                }
                Change::UpdateRun(it) => {
                    self.run(it.run, lease, &mut undo).filter(|run| run.open).map(|run| {
                        patch(&mut run.process, &it.process);
                        patch(&mut run.translation, &it.translation);
                        patch(&mut run.idle_since, &it.idle_since);
                        Outcome::Done
                    })
                }
                _ => None,
            };
            match outcome {
                Some(outcome) => outcomes.push(outcome),
                None => {
                    self.events.truncate(before.0);
                    self.batches.truncate(before.1);
                    self.chats.extend(undo.chats);
                    self.runs.extend(undo.runs);
                    return None;
                }
            }
        }
        Some((outcomes, topics))
    }

    fn append(
        &mut self,
        append: &AppendEvents,
        nth: u64,
        lease: Option<Lease>,
        undo: &mut Undo,
        topics: &mut Vec<Topic>,
    ) -> Option<Outcome> {
        let key = (append.session, append.chat);
        let chat =
            self.chats.get_mut(&key).filter(|chat| chat.open && may_write(chat.server, lease))?;
        undo.chats.entry(key).or_insert_with(|| chat.clone());
        let first = chat.next;
        let count = u32::try_from(append.events.len()).ok()?;
        chat.next = first.checked_add(count)?;
        let keyed = append.events.iter().zip(first..);
        self.events.extend(keyed.map(|(event, seq)| (EventKey::new(chat.row, seq), event.clone())));
        self.batches.push((chat.row, first, count, nth));
        topics.push(Topic::Session(append.session));
        Some(Outcome::Events { first_seq: first, count })
    }

    fn run(&mut self, key: RunKey, lease: Option<Lease>, undo: &mut Undo) -> Option<&mut RunState> {
        let run = self.runs.get_mut(&key).filter(|run| may_write(run.server, lease))?;
        undo.runs.entry(key).or_insert_with(|| run.clone());
        run.changed = true;
        Some(run)
    }

    /// Returns the appended events: chat, first seq, count, and the list's number.
    pub(super) fn batches(&self) -> Vec<(i64, u32, u32, u64)> {
        self.batches.clone()
    }

    /// Returns the rows of changed sessions, each with the number of the list that changed it.
    pub(super) fn touched(&self) -> Vec<(i64, u64)> {
        let sessions: HashMap<i64, i64> =
            self.chats.values().map(|chat| (chat.row, chat.session)).collect();
        // In the order of the lists, so that a map built from them keeps the last.
        self.batches
            .iter()
            .filter_map(|(chat, _, _, nth)| Some((*sessions.get(chat)?, *nth)))
            .collect()
    }

    /// Writes all applied changes. The first poll sends all of them.
    pub(super) async fn write(self, conn: &Conn) -> Result<(), StoreError> {
        let events = async {
            if self.events.is_empty() {
                return Ok(());
            }
            let events = self.events.iter().map(|(key, event)| (*key, event));
            insert_events(conn, &self.insert, events).await
        };
        let runs: Vec<&RunState> = self.runs.values().filter(|run| run.changed).collect();
        let (rows, segments): (Vec<i64>, Vec<i64>) =
            runs.iter().map(|run| (run.row, i64::from(run.journal.segment))).unzip();
        let offsets: Vec<i64> = runs.iter().map(|run| int(run.journal.offset)).collect();
        let (set_process, process) = texts(&runs, |run| &run.process);
        let (set_translation, translation) = texts(&runs, |run| &run.translation);
        let (set_idle, idle): (Vec<bool>, Vec<Option<i64>>) =
            runs.iter().map(|run| idle_of(&run.idle_since)).unzip();
        let runs = async {
            if rows.is_empty() {
                return Ok(0);
            }
            conn.execute(
                &self.update,
                &[
                    &rows,
                    &segments,
                    &offsets,
                    &set_process,
                    &process,
                    &set_translation,
                    &translation,
                    &set_idle,
                    &idle,
                ],
            )
            .await
        };
        let (events, runs) = futures::future::join(events, runs).await;
        events?;
        runs.map(drop)
    }
}

/// The state before a list, to undo one that does not pass.
#[derive(Default)]
struct Undo {
    chats: HashMap<(SessionId, u32), ChatState>,
    runs: HashMap<RunKey, RunState>,
}

/// Returns whether a handle with this valid lease may write to a record of this owner.
fn may_write(owner: Option<ServerId>, lease: Option<Lease>) -> bool {
    owner.is_none_or(|owner| lease.is_some_and(|lease| lease.server == owner))
}

/// Merges a patch: a later patch of the same field wins.
fn patch<T: Clone>(standing: &mut Patch<T>, new: &Patch<T>) {
    match new {
        Patch::Keep => {}
        Patch::Clear | Patch::Set(_) => *standing = new.clone(),
    }
}

fn texts<'r>(
    runs: &[&'r RunState],
    field: fn(&RunState) -> &Patch<JsonText>,
) -> (Vec<bool>, Vec<Option<&'r str>>) {
    let of = |run: &&'r RunState| match field(run) {
        Patch::Keep => (false, None),
        Patch::Clear => (true, None),
        Patch::Set(json) => (true, Some(json.as_str())),
    };
    runs.iter().map(of).unzip()
}

fn idle_of(patch: &Patch<UnixMillis>) -> (bool, Option<i64>) {
    match patch {
        Patch::Keep => (false, None),
        Patch::Clear => (true, None),
        Patch::Set(time) => (true, Some(time.0)),
    }
}
