//! The requests of a client, by their method.

use agent_lines::rpc_requests;

use super::params::{
    Authenticate, Initialize, Prompt, SessionList, SessionNew, SessionRef, SessionReopen,
    SetConfigOption, SetMode, SetModel,
};

rpc_requests! {
    /// A request.
    pub enum ClientRequest {
        /// Begins the conversation, once.
        Initialize(Initialize) = "initialize",
        /// Logs in. It was never needed with the agents that were tried.
        Authenticate(Authenticate) = "authenticate",
        /// Begins a session.
        SessionNew(SessionNew) = "session/new",
        /// Goes on with a session; its history comes as updates.
        SessionLoad(SessionReopen) = "session/load",
        /// Goes on with a session, without its history.
        SessionResume(SessionReopen) = "session/resume",
        /// Copies a session.
        SessionFork(SessionReopen) = "session/fork",
        /// Lists the sessions that are kept.
        SessionList(SessionList) = "session/list",
        /// Forgets a session in this process.
        SessionClose(SessionRef) = "session/close",
        /// Sends a prompt; the answer comes when its turn is over.
        Prompt(Prompt) = "session/prompt",
        /// Changes what the agent may do without a question.
        SetMode(SetMode) = "session/set_mode",
        /// Changes an option of a session; one of the category `mode` is what `SetMode` changes.
        SetConfigOption(SetConfigOption) = "session/set_config_option",
        /// Changes the model, in agents that have no option for it.
        SetModel(SetModel) = "session/set_model",
    }
}
