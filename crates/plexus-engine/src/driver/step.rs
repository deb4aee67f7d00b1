//! What a line of an agent means to us, whichever agent wrote it.

use agent_lines::json::RawJson;
use plexus_wire::ChatEvent;

use super::say::OutLine;

/// What one line asks of the run that reads it.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Append this to the open chat.
    Event(ChatEvent),
    /// A turn begins that no prompt of ours started, and no chat is open for it.
    TurnBegan,
    /// The agent's own id of its conversation.
    Conversation(String),
    /// The agent asks for permission.
    Asked(Box<Ask>),
    /// The agent no longer wants an answer.
    Withdrawn {
        /// The agent's id of its question.
        request_id: String,
    },
    /// The agent has taken an answer to its question.
    AnswerTaken {
        /// The agent's id of its question.
        request_id: String,
        /// What it took; `None` when that is neither an allow nor a denial.
        answer: Option<TakenAnswer>,
    },
    /// The agent says which of its questions are open.
    StillOpen(Vec<Ask>),
    /// An interrupt came before the agent had our prompt: it has to come again.
    InterruptedTooEarly,
    /// The agent refused a request of ours, in its words.
    OwnRequestFailed(String),
    /// The agent asked for something that nobody is asked about.
    Refused {
        /// The agent's id of its question, if it has one that a record can carry.
        request_id: Option<String>,
        /// What readers of the chat are told.
        notice: String,
        /// What the agent is told.
        reply: OutLine,
    },
    /// A line could not be read. A question may hide in it.
    Unreadable {
        /// Why, without a word of its content.
        why: String,
        /// What it may have been.
        hides: Hidden,
    },
    /// A tool call was let run, and by whom.
    Accepted {
        /// The call.
        tool_use_id: String,
        /// Who let it run.
        by: AcceptedBy,
    },
    /// A tool call has its result: its request's key is free again.
    Finished {
        /// The call.
        tool_use_id: String,
    },
    /// A piece of text, live; never stored.
    Delta(String),
    /// A message begins: live text that has not become an event is void. It comes again after a
    /// broken connection to the model.
    DeltaStart,
    /// A text has ended, and its event has been written: the next piece belongs to another.
    DeltaEnd,
    /// The agent wrote to its stderr.
    Stderr(String),
    /// The turn is over, and nothing of it goes on in the background.
    TurnEnded,
    /// The driver goes on talking with the agent, for example in a handshake. These lines reach the
    /// agent once, also when the server dies in between.
    Send(Vec<OutLine>),
    /// The agent can take a prompt now. The one of the open chat follows, once.
    Ready,
    /// The agent does not wait for an answer to its question any more, and does not say which one
    /// it took.
    Settled {
        /// The agent's id of its question.
        request_id: String,
    },
    /// A tool ran that needs an allow of ours.
    Ran {
        /// The agent's id of the question that it asked about the call; `None` when it asked none.
        request_id: Option<String>,
        /// What ran, in a few words.
        what: String,
    },
    /// The agent says that something happened which nobody here allowed.
    Breach(String),
    /// A turn begins that nobody here began: no prompt of ours, and nothing that the agent does
    /// for one. Holds what is known of it.
    UnpromptedTurn(String),
}

impl Step {
    /// Whether applying it looks up which answers have arrived.
    pub(crate) fn reads_arrivals(&self) -> bool {
        matches!(self, Self::Withdrawn { .. } | Self::StillOpen(_) | Self::Settled { .. })
    }
}

/// A question for permission.
#[derive(Clone, PartialEq, Debug)]
pub struct Ask {
    /// The agent's id of the question.
    pub request_id: String,
    /// The tool.
    pub tool_name: String,
    /// The call.
    pub tool_use_id: String,
    /// Byte for byte as it was asked.
    pub input: RawJson,
    /// What the agent says of it.
    pub description: Option<String>,
    /// Why only a person may allow it, as the agent says; `None` for every other question.
    pub person_only: Option<String>,
}

/// The answer that an agent says it has taken.
#[derive(Clone, PartialEq, Debug)]
pub enum TakenAnswer {
    /// An allow, and the input that it carried.
    Allow {
        /// `None`: it carried none.
        updated_input: Option<RawJson>,
    },
    /// A denial.
    Deny,
}

/// Who let a tool run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AcceptedBy {
    /// The configuration that the agent was started with.
    Configuration,
    /// A hook of the project or the user.
    Hook,
    /// Somebody else, in the agent's words.
    Other(String),
}

impl AcceptedBy {
    /// In the agent's words.
    #[must_use]
    pub fn words(&self) -> &str {
        match self {
            Self::Configuration => "config",
            Self::Hook => "hook",
            Self::Other(words) => words,
        }
    }
}

/// What a line that cannot be read may have been.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Hidden {
    /// A question with this id, which has to be denied.
    Question(String),
    /// An answer to a request of ours.
    OwnAnswer,
    /// Nobody knows.
    Anything,
}
