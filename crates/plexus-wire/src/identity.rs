//! Identities for parents outside, and sign-in codes for the dashboard.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::SessionId;
use crate::schema::tagged;

/// Parameters of `parent`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct ParentParams {
    /// What to call the parent; the same name again is the same identity, with a new token.
    pub name: String,
}

impl ParentParams {
    /// An identity of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

/// An identity for a parent outside.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "ParentIdentity", transform = tagged("ok"))]
pub struct ParentIdentity {
    /// The session that the parent acts as.
    pub session_id: SessionId,
    /// Its token. It is shown once and stored as a hash.
    pub token: String,
}

/// A one-time code for the dashboard.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "SignInCode", transform = tagged("ok"))]
pub struct SignInCode {
    /// Works once, for a minute.
    pub code: String,
}
