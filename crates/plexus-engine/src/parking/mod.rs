//! Parking: an agent that waits for a decision costs nothing. Its process ends, its transcript is
//! kept, and a decision starts another process that asks again about the same call.
//!
//! In reading order:
//! - this file: what is stored of a parked agent, and how often the rule holds;
//! - [`transcript`]: the file of the conversation, found, copied, marked and unmarked;
//! - [`packed`] and [`contents`]: what another server needs to wake it, the transcript itself and
//!   directories that are the same;
//! - [`wake`]: starting the process that asks again;
//! - [`waker`]: who is woken, and when.
//!
//! `run/park.rs` parks a run, and `run/woken.rs` is the run of a woken agent.
//!
//! The transcript is marked when an agent is woken, not when it is parked: a parked conversation
//! that somebody resumes or copies has forgotten the call, and nothing of it can run.

pub(crate) mod contents;
pub(crate) mod packed;
pub(crate) mod transcript;
mod wake;
pub(crate) mod waker;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use plexus_core::{ServerId, SessionId};
use plexus_store::SessionRecord;
use plexus_wire::Confine;
use serde::{Deserialize, Serialize};

use crate::driver::{AnyDriver, NotParkable, WakeMark};
use crate::session::SessionConfig;
use crate::settings::Settings;
use crate::wall::WallNeeds;

/// What is stored of a parked agent: what wakes it, and what must not have changed until then.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ParkedFacts {
    /// The agent's id of its conversation.
    pub(crate) conversation: String,
    /// What makes the next process ask again.
    pub(crate) mark: WakeMark,
    /// Where the transcript lies.
    pub(crate) transcript: PathBuf,
    /// How long it was.
    pub(crate) bytes: u64,
    /// Its SHA-256, in hexadecimal digits.
    pub(crate) digest: String,
    /// The inode of its working directory: another one at the same path has other contents. The
    /// number of a device is not kept, because it may change with a restart of the machine.
    #[serde(default)]
    pub(crate) directory: Option<u64>,
    /// The server that has it: the one that parked it, or that adopted it. `None` where no others
    /// share the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<ServerId>,
    /// What its directories held; `None` where that cannot be compared. Only another server asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) contents: Option<String>,
    /// How often it was woken without coming to an end.
    pub(crate) tries: u32,
}

/// The directories that an agent works in, its working directory first.
pub(crate) fn directories(config: &SessionConfig) -> Vec<PathBuf> {
    std::iter::once(&config.working_dir).chain(&config.add_dirs).cloned().collect()
}

/// The inode of a directory; `None` when there is none.
pub(crate) fn inode(directory: &Path) -> Option<u64> {
    directory.metadata().ok().map(|found| found.ino())
}

/// The share of the memory that must be left, as a divisor: a machine with less parks every agent
/// that waits, however short.
const SHORT_OF_MEMORY: u64 = 20;

/// Whether the machine is short of memory; `false` when it does not report its memory.
pub(crate) fn memory_is_short() -> bool {
    plexus_fault::fails!("memory.short")
        || std::fs::read_to_string("/proc/meminfo").is_ok_and(|text| is_short(&text))
}

fn is_short(meminfo: &str) -> bool {
    kib(meminfo, "MemTotal")
        .zip(kib(meminfo, "MemAvailable"))
        .is_some_and(|(total, available)| available < total / SHORT_OF_MEMORY)
}

/// The memory that the machine could give to a new process, in bytes; `None` where it does not say.
#[must_use]
pub fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    kib(&text, "MemAvailable").map(|kib| kib.saturating_mul(1024))
}

fn kib(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim_start_matches(':').split_whitespace().next()?.parse().ok()
}

/// Returns a variable as the children of a session see it: from their wall, from the session, or
/// from the server.
pub(crate) fn child_env(
    settings: &Settings,
    (session, config): (SessionId, &SessionConfig),
    wall: Option<&WallNeeds>,
    name: &str,
) -> Option<OsString> {
    let is_walled = config.confine != Confine::None;
    let own = wall.and_then(|needs| needs.config).filter(|it| is_walled && it.variable == name);
    if own.is_some() {
        return Some(settings.config_dir(session).into());
    }
    config.env.get(name).map(Into::into).or_else(|| std::env::var_os(name))
}

/// Whether this machine has the conversation of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConversationFile {
    /// It has, or there is none yet.
    Here,
    /// It has not; this is where it would lie.
    Missing(PathBuf),
    /// The agent keeps its conversations where only it knows: on the machine that ran it last.
    Untold,
}

/// Looks for the conversation of a session where its children would look for it.
#[must_use]
pub fn conversation_file(
    settings: &Settings,
    session: &SessionRecord,
    config: &SessionConfig,
    driver: &dyn AnyDriver,
) -> ConversationFile {
    let Some(id) = &session.claude_session_id else { return ConversationFile::Here };
    let wall = driver.wall();
    let env = |name: &str| child_env(settings, (session.id, config), wall.as_ref(), name);
    match driver.transcript(id, &env) {
        None => ConversationFile::Untold,
        Some(place) if transcript::find(&place).is_some() => ConversationFile::Here,
        Some(place) => ConversationFile::Missing(place.root.join("…").join(place.name)),
    }
}

/// How often the rule of parking held for an approval, and why it did not, since the start.
#[derive(Debug, Default)]
pub(crate) struct ParkCounts {
    counts: Mutex<BTreeMap<&'static str, u64>>,
    /// Set when a woken agent did not ask again: whatever the reason, no other is parked by this
    /// server.
    unasked: AtomicBool,
}

impl ParkCounts {
    pub(crate) fn note(&self, judged: Result<(), NotParkable>) {
        let label = judged.err().map_or("parkable", NotParkable::label);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(label).or_default() += 1;
    }

    pub(crate) fn read(&self) -> Vec<(&'static str, u64)> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(label, count)| (*label, *count)).collect()
    }

    /// A woken agent did not ask again.
    pub(crate) fn did_not_ask(&self) {
        self.unasked.store(true, Ordering::Relaxed);
    }

    /// Whether a woken agent did not ask again.
    pub(crate) fn has_not_asked(&self) -> bool {
        self.unasked.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_with_a_twentieth_of_its_memory_left_is_short_of_it() {
        let text = |available| {
            format!("MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:   {available} kB\n")
        };
        assert!(is_short(&text(49)));
        assert!(!is_short(&text(50)));
        assert!(!is_short("MemTotal: 1000 kB\n") && !is_short(""));
    }

    #[test]
    fn verdicts_are_counted_by_their_names() {
        let counts = ParkCounts::default();
        counts.note(Ok(()));
        counts.note(Err(NotParkable::Queued));
        counts.note(Ok(()));
        assert_eq!(counts.read(), [("parkable", 2), ("queued", 1)]);
    }
}
