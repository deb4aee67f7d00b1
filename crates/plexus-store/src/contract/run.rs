//! Runs: one process of the CLI each, with the position up to which its journal is stored.

use std::fmt;

use plexus_core::{ServerId, SessionId};
use serde::Serialize;

use super::json::JsonText;
use super::session::Patch;
use super::time::UnixMillis;

/// Names a run: the `n`-th process of a session. It also determines the run directory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct RunKey {
    /// The session.
    pub session: SessionId,
    /// Its number within the session, counted from 0.
    pub n: u32,
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.session, self.n)
    }
}

/// How far a journal has been read into the store.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, serde::Deserialize,
)]
pub struct JournalPosition {
    /// The number of the segment, counted from 1; 0 before the first.
    pub segment: u32,
    /// The byte after the last line that is stored.
    pub offset: u64,
}

/// One run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RunRecord {
    /// Its name.
    pub key: RunKey,
    /// The server it belongs to; `None` where the store has one server and no leases.
    pub server: Option<ServerId>,
    /// The permission channel it was started with.
    pub channel: String,
    /// How it was started (argv, directory, version); an object.
    pub launch: JsonText,
    /// Its process ids and start times, once it has them; an object.
    pub process: Option<JsonText>,
    /// The state of translation, so that it can continue in the middle of a journal.
    pub translation: Option<JsonText>,
    /// How far its journal is stored.
    pub journal: JournalPosition,
    /// When it began to wait for the next prompt; `None` while it works.
    pub idle_since: Option<UnixMillis>,
    /// When it was created.
    pub started_at: UnixMillis,
    /// When it ended.
    pub ended_at: Option<UnixMillis>,
    /// How it ended (code or signal); an object.
    pub exit: Option<JsonText>,
}

/// Creates a run. The session's [`next_run`](super::SessionRecord::next_run) gives its number.
/// While another server has a run open in this session, this is a conflict that names that run: two
/// processes must not continue one conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateRun {
    /// The session.
    pub session: SessionId,
    /// The number it must get; `None` takes the next. Any number but the next is a conflict.
    pub expects_n: Option<u32>,
    /// The permission channel.
    pub channel: String,
    /// How it is started; an object.
    pub launch: JsonText,
}

/// Changes a run that has not ended; fields with `Keep` are unchanged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpdateRun {
    /// The run.
    pub run: RunKey,
    /// Its process ids.
    pub process: Patch<JsonText>,
    /// The state of translation.
    pub translation: Patch<JsonText>,
    /// When it became idle.
    pub idle_since: Patch<UnixMillis>,
}

impl UpdateRun {
    /// Starts an update that changes nothing yet.
    #[must_use]
    pub fn of(run: RunKey) -> Self {
        Self { run, process: Patch::Keep, translation: Patch::Keep, idle_since: Patch::Keep }
    }
}

/// Moves a run's journal position. Committed together with the events of those lines, it ensures
/// that each line is stored exactly once: a caller that expects another position than the current
/// one gets a conflict that names it, and nothing is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetJournalPosition {
    /// The run.
    pub run: RunKey,
    /// The position it must have now.
    pub expects: JournalPosition,
    /// The new position; never before `expects`.
    pub to: JournalPosition,
}

/// Ends a run. It must not have ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndRun {
    /// The run.
    pub run: RunKey,
    /// How it ended; an object.
    pub exit: JsonText,
}
