//! The counts of one worker, and of groups of workers.

use std::collections::BTreeMap;
use std::fmt;

/// What workers counted.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// How many sessions.
    pub sessions: u64,
    /// How chats ended.
    pub chats: BTreeMap<String, u64>,
    /// Events that were read, in order and once.
    pub events: u64,
    /// Acknowledged answers.
    pub answers: u64,
    /// Questions that were seen without a process behind them.
    pub parked: u64,
    /// Connections to another host that were refused.
    pub hosts: u64,
    /// Commands that ran.
    pub ran: u64,
}

impl Tally {
    /// Adds the counts of another.
    pub fn add(&mut self, other: &Self) {
        for (status, count) in &other.chats {
            *self.chats.entry(status.clone()).or_default() += count;
        }
        self.sessions += other.sessions;
        self.events += other.events;
        self.answers += other.answers;
        self.parked += other.parked;
        self.hosts += other.hosts;
        self.ran += other.ran;
    }

    /// Returns how many chats ended so.
    #[must_use]
    pub fn ended(&self, status: &str) -> u64 {
        self.chats.get(status).copied().unwrap_or(0)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sessions, chats, events, answers, parked, hosts, ran } = self;
        let chats: Vec<_> =
            chats.iter().map(|(status, count)| format!("{count} {status}")).collect();
        write!(
            f,
            "{sessions} sessions; chats: {}; {events} events heard, {answers} answers \
             acknowledged, {ran} commands ran, {parked} questions parked, {hosts} hosts refused",
            chats.join(", ")
        )
    }
}
