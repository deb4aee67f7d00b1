//! Which process is struck, where, how, and for how long no server is there afterwards.

use std::fmt;
use std::time::Duration;

/// Which agent the children are, each played by the simulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Agent {
    Claude,
    Codex,
    /// An agent of the Agent Client Protocol.
    Acp,
}

impl Agent {
    /// Whether an allow may carry another input (`edit_input` in docs/agents.md).
    pub(crate) fn takes_edits(self) -> bool {
        self == Self::Claude
    }
}

/// How a child asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    Control,
    Mcp,
}

/// Who is struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victim {
    Server,
    /// The server, in the start that follows a kill while a question waits.
    NextServer,
    Shim,
    Child,
    /// The egress process of a run within a wall, which is all of the agent's network.
    Egress,
    /// PostgreSQL, on which the server keeps everything in these cases. The point is one of the
    /// server's, which stands still there while its database is struck and then goes on without it.
    Database,
}

/// What happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blow {
    /// `SIGKILL` at the point.
    Kill,
    /// `SIGSTOP` at the point, `SIGCONT` after the outage.
    Freeze,
    /// `SIGSTOP` at the point, `SIGKILL` after the outage.
    FreezeAndKill,
    /// `SIGKILL` at the point, and the server is killed too and comes back after the outage.
    KillWithServer,
}

/// Whether children stay for the next prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Warmth {
    Warm,
    Cold,
    /// They stay, and the first is started before its first prompt.
    Early,
    /// They leave, also while they ask: the first question is answered when its agent is parked.
    Parks,
}

/// What a blow to the server may cost; in all other respects nobody may notice it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    Nothing,
    /// The commit of a decision wakes the call that waits for it. So the answer may leave before
    /// the server dies, and the next questions of that chat find no server: a CLI that is refused
    /// over MCP goes on and asks the next one at once.
    LaterQuestions,
    /// A CLI that finds no server when it asks over MCP refuses by itself and goes on, and one that
    /// finds none when it starts leaves.
    Questions,
}

/// What a case plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Story {
    /// Chats, questions and answers: [`story`](crate::story).
    Work,
    /// Receivers are told and answer, a phone is paired and revoked: [`reach`](crate::reach).
    Reach,
}

/// One named point of one flow.
#[derive(Debug, Clone, Copy)]
struct Point {
    name: &'static str,
    nth: u32,
    channels: &'static [Channel],
    warmth: Warmth,
    story: Story,
    /// What may be lost on the MCP channel. On the control channel nothing ever is.
    loss_over_mcp: Loss,
}

/// One case of the matrix.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) agent: Agent,
    pub(crate) victim: Victim,
    pub(crate) point: &'static str,
    pub(crate) nth: u32,
    pub(crate) blow: Blow,
    pub(crate) outage: Duration,
    pub(crate) channel: Channel,
    pub(crate) warmth: Warmth,
    pub(crate) story: Story,
    pub(crate) loss: Loss,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { agent, victim, point, nth, blow, outage, channel, warmth, .. } = self;
        let outage = outage.as_secs();
        write!(f, "{agent:?}/{victim:?}/{point}@{nth}/{blow:?}/{outage}s/{channel:?}/{warmth:?}")
    }
}

const BOTH: &[Channel] = &[Channel::Control, Channel::Mcp];
const CONTROL: &[Channel] = &[Channel::Control];
const MCP: &[Channel] = &[Channel::Mcp];

const fn at(name: &'static str, nth: u32, channels: &'static [Channel]) -> Point {
    let (warmth, story) = (Warmth::Warm, Story::Work);
    Point { name, nth, channels, warmth, story, loss_over_mcp: Loss::Questions }
}

/// A point at which the first question is known and waits: it is not lost, and those that follow
/// find the server again.
const fn waiting(name: &'static str, nth: u32, channels: &'static [Channel]) -> Point {
    Point { loss_over_mcp: Loss::Nothing, ..at(name, nth, channels) }
}

/// A point at which a question is decided and its answer on the way.
const fn decided(name: &'static str, nth: u32) -> Point {
    Point { loss_over_mcp: Loss::LaterQuestions, ..at(name, nth, BOTH) }
}

/// A point that is reached only when a process leaves after its chat.
const fn cold(name: &'static str, nth: u32) -> Point {
    Point { warmth: Warmth::Cold, ..at(name, nth, BOTH) }
}

/// A point of a story whose first question is parked.
const fn parks(name: &'static str, nth: u32) -> Point {
    Point { warmth: Warmth::Parks, ..at(name, nth, CONTROL) }
}

/// A point of a story whose first process waits for its first prompt.
const fn early(name: &'static str, nth: u32) -> Point {
    Point { warmth: Warmth::Early, ..at(name, nth, CONTROL) }
}

/// A point of the story of receivers and a phone.
const fn reach(name: &'static str, nth: u32) -> Point {
    Point { story: Story::Reach, ..at(name, nth, CONTROL) }
}

/// The server's own points, along a chat: its start, what comes out, what is asked, answered and
/// delivered, its end, and the next chat.
const SERVER: &[Point] = &[
    at("chat.committed", 1, BOTH),
    at("launch.row.committed", 1, BOTH),
    at("launch.dir.made", 1, BOTH),
    at("launch.shim.started", 1, BOTH),
    // The prompt on its way into the inbox; the second is the first answer.
    at("file.rename.before", 1, CONTROL),
    at("file.rename.before", 2, CONTROL),
    at("journal.read.before", 1, BOTH),
    at("journal.read.before", 6, BOTH),
    at("journal.read.after", 1, BOTH),
    at("journal.read.after", 3, BOTH),
    at("batch.commit.before", 1, BOTH),
    at("batch.commit.before", 4, BOTH),
    at("batch.commit.after", 1, BOTH),
    at("batch.commit.after", 4, BOTH),
    at("store.commit.before", 2, BOTH),
    at("store.commit.before", 9, BOTH),
    at("store.commit.after", 2, BOTH),
    at("store.commit.after", 9, BOTH),
    // Asked, decided, delivered: each committed, and nobody woken yet.
    waiting("approval.committed", 1, BOTH),
    waiting("approval.committed", 2, BOTH),
    waiting("approval.committed", 3, BOTH),
    decided("decision.committed", 1),
    decided("decision.committed", 3),
    at("decision.heard", 1, CONTROL),
    at("answer.put.before", 1, CONTROL),
    at("answer.put.after", 1, CONTROL),
    at("echo.seen", 1, CONTROL),
    at("permit.received", 1, MCP),
    waiting("permit.row.committed", 1, MCP),
    waiting("permit.decided", 1, MCP),
    waiting("permit.write.before", 1, MCP),
    waiting("permit.write.after", 1, MCP),
    at("chat.end.committed", 1, CONTROL),
    at("warm.chat.committed", 1, CONTROL),
    at("cancel.committed", 1, BOTH),
    cold("exit.noticed", 1),
    cold("end.committed", 1),
];

/// The server's points while it parks the first question of the first chat, and while it wakes its
/// agent.
const PARKING: &[Point] = &[
    parks("park.begin.before", 1),
    parks("park.begin.committed", 1),
    parks("exit.noticed", 1),
    parks("park.copied", 1),
    parks("park.end.before", 1),
    parks("park.end.committed", 1),
    parks("end.committed", 1),
    parks("wake.claim.before", 1),
    parks("wake.claimed", 1),
    parks("wake.marked", 1),
    // The second start is that of the woken process.
    parks("launch.dir.made", 2),
    parks("launch.shim.started", 2),
    parks("wake.asked.before", 1),
    parks("answer.put.before", 1),
    parks("answer.put.after", 1),
    parks("echo.seen", 1),
];

/// The server's points while it starts an agent before its first chat, while that waits, and when
/// it gets the chat.
const EARLY: &[Point] = &[
    early("launch.row.committed", 1),
    early("launch.dir.made", 1),
    early("launch.shim.started", 1),
    early("prestart.adopted", 1),
    early("warm.chat.committed", 1),
];

/// Points of a shim whose agent waits for its first chat.
const EARLY_SHIM: &[Point] = &[early("shim.child.started", 1), early("shim.pid.written", 1)];

/// Points of a woken process: before it asks again, and around the call that it was allowed.
const WOKEN: &[Point] =
    &[parks("sim.woken", 1), parks("sim.tool.before", 1), parks("sim.tool.after", 1)];

/// The server's points while it tells receivers of a question, while an answer comes back from one,
/// and while a phone is paired and revoked.
const REACH: &[Point] = &[
    // The first question is told to three receivers.
    reach("hook.send.before", 1),
    reach("hook.send.before", 2),
    reach("hook.send.before", 3),
    reach("push.taken", 1),
    // Taken by the receiver, and not noted yet.
    reach("hook.taken", 1),
    reach("hook.taken", 2),
    reach("hook.taken", 3),
    reach("hook.noted", 1),
    // The answer to a webhook, then a press in Telegram.
    reach("hook.answer.received", 1),
    reach("hook.answer.committed", 1),
    reach("press.heard", 1),
    reach("hook.answer.received", 2),
    reach("hook.answer.committed", 2),
    reach("press.decided", 1),
    // The code is used; then the phone's token is stored, and the phone has not heard of it.
    reach("pair.code.taken", 1),
    reach("pair.committed", 1),
    reach("unpair.before", 1),
    reach("unpair.committed", 1),
];

/// Points of a server that finds children of an earlier one.
const NEXT_SERVER: &[Point] = &[
    waiting("reattach.look", 1, BOTH),
    waiting("reattach.run.before", 1, BOTH),
    waiting("reattach.run.after", 1, BOTH),
    at("batch.commit.before", 1, CONTROL),
    at("batch.commit.after", 1, CONTROL),
    decided("decision.committed", 1),
];

const SHIM: &[Point] = &[
    at("shim.child.started", 1, BOTH),
    at("file.rename.before", 1, BOTH),
    at("shim.pid.written", 1, BOTH),
    at("shim.journal.before", 1, BOTH),
    at("shim.journal.before", 4, BOTH),
    at("shim.journal.between", 1, BOTH),
    at("shim.journal.after", 1, BOTH),
    at("shim.journal.after", 4, BOTH),
    // The prompt, and the first answer.
    at("shim.stdin.before", 1, CONTROL),
    at("shim.stdin.before", 2, CONTROL),
    at("shim.stdin.between", 1, CONTROL),
    at("shim.stdin.after", 1, CONTROL),
    at("shim.stdin.after", 2, CONTROL),
    cold("shim.killing", 1),
    cold("shim.exit.before", 1),
    cold("file.rename.before", 2),
    cold("shim.exit.after", 1),
];

const CHILD: &[Point] = &[
    at("sim.turn.begun", 1, BOTH),
    at("sim.line.before", 1, BOTH),
    at("sim.line.after", 1, BOTH),
    at("sim.line.after", 6, BOTH),
    at("sim.tool.before", 1, BOTH),
    at("sim.tool.before", 2, BOTH),
    at("sim.tool.after", 1, BOTH),
];

/// Points of the egress process: it has taken every door and the stage does not know yet, a command
/// wants a host that nobody has allowed, and the answer has come.
const EGRESS: &[Point] = &[
    at("egress.serves", 1, CONTROL),
    at("egress.asks", 1, CONTROL),
    at("egress.answered", 1, CONTROL),
];

/// The points at which CI strikes the agents other than Claude: one of each kind. The whole matrix
/// strikes all that they reach.
const SAMPLE: &[(Victim, &str, u32)] = &[
    (Victim::Server, "launch.row.committed", 1),
    (Victim::Server, "prestart.adopted", 1),
    (Victim::Server, "batch.commit.after", 4),
    (Victim::Server, "approval.committed", 1),
    (Victim::Server, "decision.committed", 1),
    (Victim::Server, "answer.put.before", 1),
    (Victim::Server, "answer.put.after", 1),
    (Victim::Server, "cancel.committed", 1),
    (Victim::NextServer, "reattach.run.after", 1),
    (Victim::Shim, "shim.journal.between", 1),
    (Victim::Child, "sim.tool.before", 1),
    (Victim::Child, "sim.tool.after", 1),
];

/// Where the server stands when its database is struck: a question on its way into the store,
/// stored, answered, delivered.
const DATABASE: &[Point] = &[
    at("store.commit.before", 9, CONTROL),
    waiting("approval.committed", 1, CONTROL),
    waiting("decision.committed", 1, CONTROL),
    at("answer.put.after", 1, CONTROL),
    at("echo.seen", 1, CONTROL),
    at("permit.received", 1, MCP),
    waiting("permit.row.committed", 1, MCP),
    waiting("permit.decided", 1, MCP),
];

/// Returns the cases: every point once, or every point with every blow and outage.
pub(crate) fn cases(full: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for agent in [Agent::Claude, Agent::Codex, Agent::Acp] {
        cases.extend(cases_of(agent, full));
    }
    cases
}

fn cases_of(agent: Agent, full: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    let table = [
        (Victim::Server, SERVER),
        (Victim::Server, PARKING),
        (Victim::Server, EARLY),
        (Victim::Shim, EARLY_SHIM),
        (Victim::Server, REACH),
        (Victim::Child, WOKEN),
        (Victim::NextServer, NEXT_SERVER),
        (Victim::Shim, SHIM),
        (Victim::Child, CHILD),
        (Victim::Egress, EGRESS),
        (Victim::Database, DATABASE),
    ];
    for (victim, points) in table {
        for point in points.iter().filter(|point| is_played(agent, victim, point, full)) {
            let channels = point.channels.iter().filter(|it| has_channel(agent, **it));
            for &channel in channels {
                for (blow, outage) in blows(victim, point.name, channel, full) {
                    let Point { name, nth, warmth, story, loss_over_mcp, .. } = *point;
                    let loss = match channel {
                        Channel::Control => Loss::Nothing,
                        // The server is there all the time: a child that asks it waits with it for
                        // its database.
                        Channel::Mcp if victim == Victim::Database => Loss::Nothing,
                        Channel::Mcp => loss_over_mcp,
                    };
                    cases.push(Case {
                        agent,
                        victim,
                        point: name,
                        nth,
                        blow,
                        outage,
                        channel,
                        warmth,
                        story,
                        loss,
                    });
                }
            }
        }
    }
    cases
}

/// Whether a point is struck with this agent.
fn is_played(agent: Agent, victim: Victim, point: &Point, full: bool) -> bool {
    // Only Claude Code is parked, has a wall here, and echoes what it was told. The database and
    // receivers do not know which agent asks.
    let own = point.warmth == Warmth::Parks
        || point.story == Story::Reach
        || matches!(victim, Victim::Egress | Victim::Database)
        || point.name == "echo.seen";
    // No agent of the Agent Client Protocol is started before its first prompt.
    if agent == Agent::Acp && point.warmth == Warmth::Early {
        return false;
    }
    let is_sampled = || SAMPLE.contains(&(victim, point.name, point.nth));
    agent == Agent::Claude || (!own && (full || is_sampled()))
}

/// The others have one channel, their own.
fn has_channel(agent: Agent, channel: Channel) -> bool {
    agent == Agent::Claude || channel == Channel::Control
}

fn blows(victim: Victim, point: &str, channel: Channel, full: bool) -> Vec<(Blow, Duration)> {
    // A call that waits on the MCP channel survives no longer outage than its client does.
    let longest = match channel {
        Channel::Control => 30,
        Channel::Mcp => 10,
    };
    let outages = [0, 3, longest].map(Duration::from_secs);
    let with = |blow: Blow| outages.map(|outage| (blow, outage));
    match (victim, full) {
        (_, false) if point == "shim.killing" => {
            // Longer than the shim's own timeout, which must not expire between stopping a process
            // and killing it.
            vec![(Blow::Kill, Duration::ZERO), (Blow::Freeze, Duration::from_secs(11))]
        }
        (_, false) => vec![(Blow::Kill, Duration::ZERO)],
        (Victim::Server | Victim::NextServer, true) => {
            [with(Blow::Kill), with(Blow::Freeze), with(Blow::FreezeAndKill)].concat()
        }
        // Longer outages exceed the time that a caller waits for a database.
        (Victim::Database, true) => [Blow::Kill, Blow::Freeze, Blow::FreezeAndKill]
            .into_iter()
            .flat_map(|blow| [0, 3].map(|seconds| (blow, Duration::from_secs(seconds))))
            .collect(),
        (Victim::Shim | Victim::Child | Victim::Egress, true) => {
            let mut blows = vec![(Blow::Kill, Duration::ZERO)];
            blows.extend(
                [with(Blow::KillWithServer), with(Blow::Freeze), with(Blow::FreezeAndKill)]
                    .concat(),
            );
            blows
        }
    }
}
