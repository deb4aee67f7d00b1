//! The requests of a client, by their method.

use agent_lines::rpc_requests;

use super::params::{
    Authenticate, Initialize, Prompt, SessionList, SessionNew, SessionRef, SessionReopen,
    SetConfigOption, SetMode, SetModel,
};

rpc_requests! {
    /// A request of the client.
    pub enum ClientRequest {
        /// Begins the connection, once.
        Initialize(Initialize) = "initialize",
        /// Logs in. None of the agents that we tried needed it.
        Authenticate(Authenticate) = "authenticate",
        /// Begins a session.
        SessionNew(SessionNew) = "session/new",
        /// Continues a session; its history comes as updates.
        SessionLoad(SessionReopen) = "session/load",
        /// Continues a session, without its history.
        SessionResume(SessionReopen) = "session/resume",
        /// Copies a session.
        SessionFork(SessionReopen) = "session/fork",
        /// Lists the stored sessions.
        SessionList(SessionList) = "session/list",
        /// Closes a session in this process.
        SessionClose(SessionRef) = "session/close",
        /// Sends a prompt; the answer comes when its turn is over.
        Prompt(Prompt) = "session/prompt",
        /// Changes what the agent may do without permission.
        SetMode(SetMode) = "session/set_mode",
        /// Changes an option of a session. An option of the category `mode` changes the same as
        /// `SetMode`.
        SetConfigOption(SetConfigOption) = "session/set_config_option",
        /// Changes the model, in agents that have no option for it.
        SetModel(SetModel) = "session/set_model",
    }
}
