//! The requests that a supervisor sends, by their method.

use agent_lines::rpc_requests;

use super::params::{
    AccountRead, Initialize, ThreadFork, ThreadList, ThreadRef, ThreadResume, ThreadStart,
    TurnInterrupt, TurnStart, TurnSteer,
};

rpc_requests! {
    /// A request of the client.
    pub enum ClientRequest {
        /// Begins the connection to the server, once.
        Initialize(Initialize) = "initialize",
        /// Begins a thread.
        ThreadStart(ThreadStart) = "thread/start",
        /// Continues a thread.
        ThreadResume(ThreadResume) = "thread/resume",
        /// Copies a thread, up to a turn.
        ThreadFork(ThreadFork) = "thread/fork",
        /// Lists the stored threads.
        ThreadList(ThreadList) = "thread/list",
        /// Summarises a thread, in a turn of its own.
        ThreadCompact(ThreadRef) = "thread/compact/start",
        /// Lists the commands that run in the background.
        BackgroundTerminalsList(ThreadRef) = "thread/backgroundTerminals/list",
        /// Ends the commands that run in the background, except processes that left their session.
        BackgroundTerminalsClean(ThreadRef) = "thread/backgroundTerminals/clean",
        /// Sends a prompt. While a turn runs, the prompt becomes part of that turn.
        TurnStart(TurnStart) = "turn/start",
        /// Sends a prompt into a running turn.
        TurnSteer(TurnSteer) = "turn/steer",
        /// Interrupts a turn; a running command is not ended.
        TurnInterrupt(TurnInterrupt) = "turn/interrupt",
        /// Asks who is logged in.
        AccountRead(AccountRead) = "account/read",
    }
}
