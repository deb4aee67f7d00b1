//! Identities for parents outside, and sign-in codes for the dashboard.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::PageLimit;
use crate::ids::SessionId;
use crate::schema::tagged;
use crate::time::Millis;

/// Parameters of `parent`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct ParentParams {
    /// What to call the parent; the same name again is the same identity, with a new token.
    #[serde(deserialize_with = "crate::text::one::<crate::text::SessionName, _>")]
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// Whether its earlier tokens end (false: they stay valid beside the new one).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replace: Option<bool>,
}

impl ParentParams {
    /// An identity of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), replace: None }
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

/// Parameters of `parents`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct ParentsParams {
    /// How many (100, at most 1,000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<PageLimit>,
    /// The `cursor` of the page before.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub cursor: Option<String>,
}

/// A result of `parents`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "ParentList", transform = tagged("ok"))]
pub struct ParentList {
    /// The parents outside, oldest first.
    pub parents: Vec<Parent>,
    /// Where the next page starts, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A parent outside that has an identity.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Parent {
    /// What it is called.
    pub name: String,
    /// The session that it acts as.
    pub session_id: SessionId,
    /// When it was made.
    pub created_at: Millis,
}

/// Parameters of `revoke`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct RevokeParams {
    /// The name of the parent whose tokens end.
    #[serde(deserialize_with = "crate::text::one::<crate::text::Text, _>")]
    pub name: String,
}

impl RevokeParams {
    /// Ends the tokens of the parent of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

/// A result of `revoke`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "Revoked", transform = tagged("ok"))]
pub struct Revoked {
    /// The session that the parent acted as. It and what it created stay.
    pub session_id: SessionId,
    /// How many tokens have ended.
    pub tokens: u64,
}
