//! The state that a run needs to continue: what its agent said, and what callers want of it.
//!
//! The two are apart. What the agent said is the driver's memory; that a chat is to be stopped, and
//! why, is ours. Both are stored together with the journal position, so that a server that takes
//! the run over in the middle goes on as this one would have.

use std::collections::BTreeSet;
use std::sync::Arc;

use plexus_core::ApprovalId;
use plexus_store::{JsonText, StoreError, UnixMillis};
use plexus_wire::ChatEvent;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::driver::{AnyDriver, Mind, OutLine, TurnReport};
use crate::run::woken::Woken;
use crate::scrub;

/// Lines of stderr that become notices in one chat. A child that floods stderr is told about once
/// more, then only its tail is kept.
const MAX_STDERR_NOTICES: u32 = 100;

/// How much of stderr is kept to explain a run that died.
const STDERR_TAIL_BYTES: usize = 4 * 1024;

/// Events that are kept for the first chat of a run that was started before it.
const MAX_EARLY_EVENTS: usize = 64;

/// What must be known of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunState {
    /// The chat that is open, if one is.
    pub(crate) chat: Option<OpenChat>,
    /// Why the whole run is being ended, whether or not a chat is open.
    pub(crate) stop: Option<Stop>,
    /// The end of stderr.
    pub(crate) stderr_tail: String,
    /// The agent's own id of the conversation, once it said it.
    pub(crate) conversation: Option<String>,
    /// Calls that we allowed and whose allow the agent has taken; they may run.
    pub(crate) allowed: BTreeSet<String>,
    /// Requests that we refused without an approval (not served, not storable), so that their echo
    /// is no surprise.
    pub(crate) refused: BTreeSet<String>,
    /// What was last owed to the agent.
    pub(crate) owed: Option<Owed>,
    /// The question with which this run is being parked. No answer is sent from then on.
    pub(crate) parking: Option<ApprovalId>,
    /// The call for which its process was woken.
    pub(crate) woken: Option<Woken>,
    /// What is known of a run that was started before its first chat, until it has one.
    pub(crate) prestarted: Option<Prestarted>,
    /// What the agent said.
    pub(crate) mind: Box<dyn Mind>,
}

/// A run that was started before its first chat.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Prestarted {
    /// What its first chat begins with: how it was started, and what it said meanwhile.
    pub(crate) told: Vec<ChatEvent>,
    /// The digest of everything that its start depended on.
    pub(crate) start: String,
}

impl Prestarted {
    /// Keeps what the agent says before its first chat.
    pub(crate) fn tell(&mut self, event: &ChatEvent) {
        let is_for_readers = matches!(event, ChatEvent::Notice { .. } | ChatEvent::Error { .. });
        if is_for_readers && self.told.len() < MAX_EARLY_EVENTS {
            self.told.push(event.clone());
        }
    }
}

/// What the agent gets once the state that says so is stored. The number under which it is put
/// tells a server that takes the run over whether that was done: numbers are used in order, and
/// once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Owed {
    /// The number in the inbox of the first line.
    pub(crate) at: u64,
    /// The lines.
    pub(crate) lines: Vec<String>,
}

/// The chat that a run serves.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(from = "StoredChat")]
pub(crate) struct OpenChat {
    pub(crate) number: u32,
    /// The prompt by its uuid; `None` for a turn that the agent started itself.
    pub(crate) prompt: Option<Uuid>,
    /// Whether the process was started for it.
    pub(crate) begun: Begun,
    /// When it came to this run; what it takes on the wall is counted from there.
    pub(crate) began_at: UnixMillis,
    /// Why it is being ended, once somebody wants that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stop: Option<Stop>,
    stderr_notices: u32,
}

/// How a chat came to its process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Begun {
    /// The process was started for it.
    WithProcess,
    /// It was handed to a process that waited for work, and may have left in that moment.
    OnWarm,
}

/// Why a chat or a run is being ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Stop {
    pub(crate) reason: StopReason,
    /// What readers of the chat are told.
    pub(crate) words: String,
}

/// What kind of reason it is, from the lightest to the gravest: a graver one replaces a lighter
/// one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StopReason {
    /// Somebody asked for it.
    Cancelled,
    /// Its time is over.
    TimedOut,
    /// It cannot go on, and nobody asked for its end.
    Failed,
    /// A budget is used up.
    Budget,
    /// The agent did what nobody allowed.
    Breach,
}

impl PartialEq for RunState {
    fn eq(&self, other: &Self) -> bool {
        // Taken apart, so that a new field is not forgotten here.
        let Self {
            chat,
            stop,
            stderr_tail,
            conversation,
            allowed,
            refused,
            owed,
            parking,
            woken,
            prestarted,
            mind,
        } = self;
        *chat == other.chat
            && *stop == other.stop
            && *stderr_tail == other.stderr_tail
            && *conversation == other.conversation
            && *allowed == other.allowed
            && *refused == other.refused
            && *owed == other.owed
            && *parking == other.parking
            && *woken == other.woken
            && *prestarted == other.prestarted
            && mind.knows_the_same(&*other.mind)
    }
}

impl OpenChat {
    pub(crate) fn new(number: u32, prompt: Option<Uuid>, begun: Begun) -> Self {
        let began_at = UnixMillis::now();
        Self { number, prompt, begun, began_at, stop: None, stderr_notices: 0 }
    }

    /// Notes why it is being ended, unless a reason at least as grave is noted. Says whether it was
    /// noted.
    pub(crate) fn stop(&mut self, reason: StopReason, words: impl Into<String>) -> bool {
        let stands = self.stop.as_ref().is_some_and(|stop| stop.reason >= reason);
        if !stands {
            self.stop = Some(Stop { reason, words: words.into() });
        }
        !stands
    }

    /// Whether somebody asked for its end, and nothing graver happened.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.reason == StopReason::Cancelled)
    }

    /// Whether it is being ended for more than a wish.
    pub(crate) fn has_failed(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.reason > StopReason::Cancelled)
    }
}

impl RunState {
    /// The state of a run that begins with a chat.
    pub(crate) fn begin(mind: Box<dyn Mind>, chat: OpenChat) -> Self {
        let mut state = Self::empty(mind);
        state.open(chat);
        state
    }

    /// The state of a run that begins without a chat.
    pub(crate) fn prestart(mind: Box<dyn Mind>, prestarted: Prestarted) -> Self {
        Self { prestarted: Some(prestarted), ..Self::empty(mind) }
    }

    fn empty(mind: Box<dyn Mind>) -> Self {
        Self {
            chat: None,
            stop: None,
            stderr_tail: String::new(),
            conversation: None,
            allowed: BTreeSet::new(),
            refused: BTreeSet::new(),
            owed: None,
            parking: None,
            woken: None,
            prestarted: None,
            mind,
        }
    }

    /// Whether the open chat or the whole run is being ended. No allow is sent from then on: an
    /// agent may run a tool on an allow that comes after its turn was cancelled.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.is_some() || self.chat.as_ref().is_some_and(|chat| chat.stop.is_some())
    }

    /// Whether a stored state is that of a woken process.
    pub(crate) fn is_woken(stored: &JsonText) -> bool {
        stored.read::<StoredState>().is_ok_and(|stored| stored.woken.is_some())
    }

    /// Reads what was stored of a run; one that has stored nothing has said nothing.
    pub(crate) fn recall(
        driver: &Arc<dyn AnyDriver>,
        stored: Option<&JsonText>,
    ) -> Result<Self, StoreError> {
        let Some(json) = stored else { return Ok(Self::empty(Arc::clone(driver).recall(None)?)) };
        let stored: StoredState = json.read()?;
        // The first stage stored the driver's memory among everything else.
        let mind = Arc::clone(driver).recall(Some(stored.agent.as_ref().unwrap_or(json)))?;
        let breach = stored.breach.map(|words| Stop { reason: StopReason::Breach, words });
        Ok(Self {
            chat: stored.chat,
            stop: stored.stop.or(breach),
            stderr_tail: stored.stderr_tail,
            conversation: stored.conversation,
            allowed: stored.allowed,
            refused: stored.refused,
            owed: stored.owed,
            parking: stored.parking,
            woken: stored.woken,
            prestarted: stored.prestarted,
            mind,
        })
    }

    /// What is stored of it.
    pub(crate) fn to_json(&self) -> Result<JsonText, StoreError> {
        JsonText::of(&StoredState {
            chat: self.chat.clone(),
            stop: self.stop.clone(),
            stderr_tail: self.stderr_tail.clone(),
            conversation: self.conversation.clone(),
            allowed: self.allowed.clone(),
            refused: self.refused.clone(),
            owed: self.owed.clone(),
            parking: self.parking,
            woken: self.woken.clone(),
            prestarted: self.prestarted.clone(),
            agent: Some(self.mind.stored()?),
            breach: None,
        })
    }

    /// Opens a chat: the agent's turn begins.
    pub(crate) fn open(&mut self, chat: OpenChat) {
        self.mind.begin_turn(chat.prompt);
        self.chat = Some(chat);
    }

    /// Closes the open chat and gets ready for the next.
    pub(crate) fn close(&mut self) -> Option<OpenChat> {
        self.mind.end_turn();
        self.chat.take()
    }

    /// Owes the agent these lines, the first of which is put under the number `at`. What was owed
    /// before has been put.
    pub(crate) fn owe(&mut self, at: u64, lines: Vec<OutLine>) {
        let lines: Vec<_> = lines.into_iter().map(OutLine::into_text).collect();
        self.owed = (!lines.is_empty()).then_some(Owed { at, lines });
    }

    /// What the agent said of the turn of the open chat.
    pub(crate) fn turn(&self) -> TurnReport {
        self.mind.report().turn.unwrap_or_default()
    }

    /// Keeps the end of stderr, and returns what readers of the chat are told of it.
    pub(crate) fn stderr(&mut self, text: &str) -> Option<ChatEvent> {
        let text = scrub::text(text);
        self.stderr_tail.push_str(&text);
        self.stderr_tail.push('\n');
        if self.stderr_tail.len() > STDERR_TAIL_BYTES {
            let mut cut = self.stderr_tail.len() - STDERR_TAIL_BYTES;
            while !self.stderr_tail.is_char_boundary(cut) {
                cut += 1;
            }
            self.stderr_tail.drain(..cut);
        }
        let Some(chat) = self.chat.as_mut() else {
            let waits = self.prestarted.is_some();
            return waits.then(|| ChatEvent::notice(format!("stderr: {text}")));
        };
        chat.stderr_notices = chat.stderr_notices.saturating_add(1);
        match chat.stderr_notices {
            n if n < MAX_STDERR_NOTICES => Some(ChatEvent::notice(format!("stderr: {text}"))),
            MAX_STDERR_NOTICES => {
                Some(ChatEvent::notice("stderr: the agent writes more than is shown here"))
            }
            _ => None,
        }
    }
}

/// A [`RunState`] as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredState {
    chat: Option<OpenChat>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stop: Option<Stop>,
    #[serde(default)]
    stderr_tail: String,
    #[serde(default)]
    conversation: Option<String>,
    #[serde(default)]
    allowed: BTreeSet<String>,
    #[serde(default)]
    refused: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owed: Option<Owed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parking: Option<ApprovalId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    woken: Option<Woken>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prestarted: Option<Prestarted>,
    /// The driver's memory; missing in what the first stage stored.
    #[serde(default)]
    agent: Option<JsonText>,
    /// What the first stage called a run's breach.
    #[serde(default, skip_serializing)]
    breach: Option<String>,
}

/// An [`OpenChat`] as it is stored, by this stage and the first.
#[derive(Deserialize)]
struct StoredChat {
    number: u32,
    prompt: Option<Uuid>,
    begun: Begun,
    began_at: UnixMillis,
    #[serde(default)]
    stop: Option<Stop>,
    #[serde(default)]
    stderr_notices: u32,
    /// What the first stage called a wish to end the chat.
    #[serde(default)]
    cancel: Option<String>,
    /// What the first stage called a breach, and a budget that is used up too.
    #[serde(default)]
    breach: Option<String>,
}

impl From<StoredChat> for OpenChat {
    fn from(stored: StoredChat) -> Self {
        let of = |reason, words: Option<String>| words.map(|words| Stop { reason, words });
        let first_stage = of(StopReason::Breach, stored.breach)
            .or_else(|| of(StopReason::Cancelled, stored.cancel));
        Self {
            number: stored.number,
            prompt: stored.prompt,
            begun: stored.begun,
            began_at: stored.began_at,
            stop: stored.stop.or(first_stage),
            stderr_notices: stored.stderr_notices,
        }
    }
}

#[cfg(test)]
mod tests;
