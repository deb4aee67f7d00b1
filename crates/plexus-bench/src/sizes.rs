//! How much each mode does. Every number that decides how long a run takes is here.

use std::time::Duration;

/// The SDKs that a run installs and measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SdksMeasured {
    /// None.
    None,
    /// The one that an aim speaks of.
    Python,
    /// All of them.
    All,
}

/// How much a run does.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// The mode, as it is printed.
    pub mode: &'static str,
    /// How often each figure is taken; the median counts, the smallest and the largest are its
    /// spread.
    pub rounds: usize,
    /// Permission requests that are answered one after the other, in each round.
    pub answers: usize,
    /// Sessions whose decisions a poll loop waits for, in each round.
    pub loop_sessions: usize,
    /// The pauses of the poll loops; the first one is what the aim speaks of.
    pub loop_pauses: [Duration; 2],
    /// Lines that a child writes while a poll waits, in each round.
    pub lines: usize,
    /// Tool calls that a child of each kind of agent asks about, in each round.
    pub agent_asks: usize,
    /// Lines that a child of each kind of agent writes while a poll waits, in each round.
    pub agent_lines: usize,
    /// Children that write at the same time.
    pub children: usize,
    /// Events that each of them writes, in each round.
    pub burst: usize,
    /// How long the text of such an event is.
    pub burst_bytes: usize,
    /// Commits of one event each, for the rival of the group commit.
    pub single_commits: usize,
    /// How many events the chats have that `poll` reads from; the largest is also the tree that
    /// paths are read in.
    pub chat_sizes: [u32; 3],
    /// Polls and paths in each round.
    pub reads: usize,
    /// The size of the log that is parsed.
    pub log_bytes: usize,
    /// Sessions with a blocked permit each, on the control channel; they are also those to
    /// reattach.
    pub permits: usize,
    /// The same over MCP.
    pub permits_mcp: usize,
    /// Sessions whose agents are parked.
    pub parked: usize,
    /// How many of them are woken, in each round.
    pub wakes: usize,
    /// Sessions that a starting server finds.
    pub sessions: usize,
    /// Readers of one chat.
    pub readers: usize,
    /// Events that each of them gets, in each round.
    pub reader_events: usize,
    /// Polls at each door, in each round.
    pub door_polls: usize,
    /// Permission requests that are answered at each door, in each round.
    pub door_answers: usize,
    /// Connections, streams, sessions or waits in each flood.
    pub flood: usize,
    /// Permission requests that are answered during each flood.
    pub flood_answers: usize,
    /// Events of the chat whose streams nobody reads, and how long each is.
    pub flood_events: usize,
    /// How long the text of such an event is.
    pub flood_event_bytes: usize,
    /// Permission requests that are answered through each of two servers and on each channel, in
    /// each round.
    pub node_answers: usize,
    /// Which SDKs of other languages are installed and measured.
    pub sdks: SdksMeasured,
}

impl Sizes {
    /// Everything the design names, at its size.
    #[must_use]
    pub fn full() -> Self {
        Self {
            mode: "full",
            rounds: 5,
            answers: 400,
            loop_sessions: 60,
            loop_pauses: [Duration::from_millis(500), Duration::from_secs(1)],
            lines: 400,
            agent_asks: 200,
            agent_lines: 200,
            children: 64,
            burst: 1_000,
            burst_bytes: 200,
            single_commits: 1_000,
            chat_sizes: [1_000, 100_000, 1_000_000],
            reads: 400,
            log_bytes: 60_000_000,
            permits: 1_000,
            permits_mcp: 1_000,
            parked: 1_000,
            wakes: 20,
            sessions: 10_000,
            readers: 1_000,
            reader_events: 400,
            door_polls: 8_000,
            door_answers: 400,
            flood: 2_000,
            flood_answers: 400,
            flood_events: 64,
            flood_event_bytes: 1_000_000,
            node_answers: 400,
            sdks: SdksMeasured::All,
        }
    }

    /// The same in under three minutes.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            mode: "quick",
            rounds: 3,
            answers: 120,
            loop_sessions: 15,
            lines: 100,
            agent_asks: 40,
            agent_lines: 40,
            burst: 300,
            single_commits: 300,
            reads: 150,
            log_bytes: 15_000_000,
            permits: 400,
            permits_mcp: 200,
            parked: 100,
            wakes: 5,
            reader_events: 100,
            door_polls: 2_000,
            door_answers: 200,
            flood: 400,
            flood_answers: 40,
            flood_events: 4,
            node_answers: 30,
            sdks: SdksMeasured::Python,
            ..Self::full()
        }
    }

    /// Just enough that every line of every measure runs.
    #[must_use]
    pub fn tiny() -> Self {
        Self {
            mode: "tiny",
            rounds: 1,
            answers: 3,
            loop_sessions: 2,
            loop_pauses: [Duration::from_millis(50), Duration::from_millis(100)],
            lines: 5,
            agent_asks: 3,
            agent_lines: 5,
            children: 2,
            burst: 20,
            burst_bytes: 50,
            single_commits: 5,
            chat_sizes: [200, 400, 2_000],
            reads: 5,
            log_bytes: 100_000,
            permits: 4,
            permits_mcp: 2,
            parked: 4,
            wakes: 1,
            sessions: 50,
            readers: 4,
            reader_events: 10,
            door_polls: 20,
            door_answers: 8,
            flood: 20,
            flood_answers: 3,
            flood_events: 4,
            flood_event_bytes: 10_000,
            node_answers: 3,
            sdks: SdksMeasured::None,
        }
    }
}
