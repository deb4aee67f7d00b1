//! The audit: lines that say what must be told, newest first.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::budget::Budget;
use crate::caller::Caller;
use crate::error::ErrorKind;
use crate::handle::Handle;
use crate::ids::{ApprovalId, DeviceId, SessionId};
use crate::json::{Json, Object};
use crate::said::Said;
use crate::schema::tagged;
use crate::time::Seconds;

/// A result of `audit`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "AuditList", transform = tagged("ok"))]
pub struct AuditList {
    /// The lines, newest first.
    pub lines: Vec<AuditLine>,
    /// Where the next page starts, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// One line of the audit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct AuditLine {
    /// When.
    pub at: Seconds,
    /// What kind of thing happened: `refused`, `breach`, `approval.answered`, `budget.stopped` and
    /// their like.
    pub kind: String,
    /// The session it is about.
    pub session_id: Option<SessionId>,
    /// The rest.
    #[schemars(with = "AuditBody")]
    pub body: Json,
    /// Its handle, which `plexus.resolve_handle` takes. Always there from this version on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<Handle>,
}

impl AuditLine {
    /// Reads the body. One of another version is [`AuditBody::Other`].
    ///
    /// # Errors
    /// When it is no object, which a server of ours does not send.
    pub fn read(&self) -> Result<AuditBody, serde_json::Error> {
        self.body.read()
    }
}

/// What an audit line says, by its kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(untagged)]
pub enum AuditBody {
    /// `refused`.
    Refused(RefusedAttempt),
    /// `breach`.
    Breach(Breach),
    /// `budget.warned`, `budget.stopped`.
    Budget(BudgetUsed),
    /// `approval.answered`.
    Answered(AnsweredOutside),
    /// `webhook.given_up`.
    GivenUp(GivenUp),
    /// `device.paired`, `device.revoked`.
    Device(DeviceChanged),
    /// A line of another version.
    Other(Object),
}

/// An attempt that was refused.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct RefusedAttempt {
    /// Who tried; unknown without a valid token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<Caller>,
    /// The name of the device that tried, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The address, where it is no method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub door: Option<String>,
    /// Why, as the caller was told.
    pub kind: Said<ErrorKind>,
    /// The same in words.
    pub message: String,
    /// The tool that was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// The call that was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    /// How many attempts before this one were left out, because too many came at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out_before: Option<u64>,
}

impl RefusedAttempt {
    /// Somebody got this error.
    pub fn new(kind: impl Into<Said<ErrorKind>>, message: impl Into<String>) -> Self {
        Self {
            caller: None,
            device: None,
            method: None,
            door: None,
            kind: kind.into(),
            message: message.into(),
            tool_name: None,
            tool_use_id: None,
            left_out_before: None,
        }
    }

    /// Somebody who is known got it, from this method.
    #[must_use]
    pub fn of(self, caller: Caller, method: &str) -> Self {
        Self { caller: Some(caller), method: Some(method.to_owned()), ..self }
    }
}

/// What a breach went against.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum BreachKind {
    /// A call ran, or an answer reached the agent, that nobody here allowed.
    #[default]
    Unallowed,
    /// A turn began that nobody here began.
    UnpromptedTurn,
}

/// A run did what nobody allowed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Breach {
    /// The run, by its number within the session.
    pub run: u32,
    /// What it went against.
    #[serde(default)]
    pub kind: Said<BreachKind>,
    /// What it did.
    pub what: String,
    /// The decision that it went against, if there was one.
    pub approval_id: Option<ApprovalId>,
}

/// How far a budget is used.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct BudgetUsed {
    /// The session that has the budget.
    pub session: NamedSession,
    /// The budget.
    pub budget: Budget,
    /// The limit that is nearest to its end: `cost`, `turns`, `tokens` or `wall time`.
    pub of: String,
    /// How much of it is spent; 1 is all.
    pub used: f64,
}

/// A session and its name.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct NamedSession {
    /// Its id.
    pub id: SessionId,
    /// Its name.
    pub name: String,
}

/// A permission request that somebody outside decided.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct AnsweredOutside {
    /// The approval.
    pub approval_id: ApprovalId,
    /// What answered: `device`, or the kind of receiver: `webhook`, `ntfy`, `slack`, `telegram` or
    /// `command`.
    pub via: String,
    /// Who was told, and answered: the name of the receiver or of the device.
    pub receiver: String,
    /// Whether the tool may run.
    pub approved: bool,
    /// The digest of the input that was decided about.
    pub input_digest: String,
}

/// A device of the operator came or went.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct DeviceChanged {
    /// The device.
    pub device_id: DeviceId,
    /// What it is called.
    pub device: String,
}

/// A message to somebody outside that will never arrive.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct GivenUp {
    /// The message.
    pub id: Uuid,
    /// What it told.
    pub event: String,
    /// Whom.
    pub receiver: String,
    /// How often it was tried.
    pub attempts: u32,
    /// Why it was given up.
    pub why: String,
}
