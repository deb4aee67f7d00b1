//! The requests that a supervisor sends, by their method.

use agent_lines::rpc_requests;

use super::params::{
    AccountRead, Initialize, ThreadFork, ThreadList, ThreadRef, ThreadResume, ThreadStart,
    TurnInterrupt, TurnStart, TurnSteer,
};

rpc_requests! {
    /// A request.
    pub enum ClientRequest {
        /// Begins the conversation with the server, once.
        Initialize(Initialize) = "initialize",
        /// Begins a thread.
        ThreadStart(ThreadStart) = "thread/start",
        /// Goes on with a thread.
        ThreadResume(ThreadResume) = "thread/resume",
        /// Copies a thread, up to a turn.
        ThreadFork(ThreadFork) = "thread/fork",
        /// Lists the threads that are kept.
        ThreadList(ThreadList) = "thread/list",
        /// Summarises a thread, in a turn of its own.
        ThreadCompact(ThreadRef) = "thread/compact/start",
        /// Lists the commands that run on.
        BackgroundTerminalsList(ThreadRef) = "thread/backgroundTerminals/list",
        /// Ends the commands that run on, but for what left their session.
        BackgroundTerminalsClean(ThreadRef) = "thread/backgroundTerminals/clean",
        /// Sends a prompt; while a turn runs it is folded into that turn.
        TurnStart(TurnStart) = "turn/start",
        /// Sends a prompt into a running turn.
        TurnSteer(TurnSteer) = "turn/steer",
        /// Ends a turn; a command that runs is not ended.
        TurnInterrupt(TurnInterrupt) = "turn/interrupt",
        /// Tells who is logged in.
        AccountRead(AccountRead) = "account/read",
    }
}
