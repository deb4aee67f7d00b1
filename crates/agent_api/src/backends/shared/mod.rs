//! The parts that backends share.
//!
//! - [`said`]: forwards each text once, however often an agent repeats it.
//! - [`session`]: the session's id, reported once and again at the end.
//! - [`tool`]: the facet of tool events.
//! - [`unreadable`]: lines that could not be read.
//! - [`outcome`]: how a run ended, and why it failed, in our own words.
//! - [`verdict`]: how a run with one turn ended.
//! - `drive`: the steps of the tasks that own a run.
//! - [`config`]: the settings that the configurations share.

pub(super) mod config;
#[cfg(any(feature = "codex", feature = "acp"))]
pub(super) mod drive;
pub(super) mod outcome;
pub(super) mod said;
#[cfg(test)]
pub(super) mod seen;
pub(super) mod session;
pub(super) mod tool;
pub(super) mod unreadable;
pub(super) mod verdict;
