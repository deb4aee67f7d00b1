//! Receivers outside that are told what happens, and subscriptions to push messages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::tagged;
use crate::time::Millis;

/// The longest address of a push service that is taken.
pub const MAX_PUSH_ENDPOINT_BYTES: usize = 2_048;

/// A result of `receivers`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "receivers")]
#[schemars(rename = "NotifyReceivers", transform = tagged("receivers"))]
pub struct NotifyReceivers {
    /// The receivers, in the order of the configuration.
    pub receivers: Vec<NotifyReceiver>,
}

/// One receiver, and what happened to it since the server started.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct NotifyReceiver {
    /// Its name.
    pub name: String,
    /// What it is: `webhook`, `ntfy`, `slack`, `telegram`, `webpush`, `desktop` or `command`.
    pub to: String,
    /// Whether it may decide.
    pub answers: bool,
    /// Messages that wait for it.
    pub waiting: u64,
    /// Messages that it took.
    pub delivered: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Messages that were given up.
    pub given_up: u64,
    /// When it last took one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<Millis>,
    /// The last failure, also after a later success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<NotifyFailure>,
    /// Why button presses cannot arrive right now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deaf: Option<NotifyFailure>,
    /// How many browsers have subscribed, for `webpush`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscriptions: Option<u64>,
    /// What the configuration makes impossible, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// A failure and when it happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct NotifyFailure {
    /// When.
    pub at: Millis,
    /// Why. It holds no secret.
    pub why: String,
}

/// Parameters of `test`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct NotifyTestParams {
    /// The name of the receiver.
    #[serde(deserialize_with = "crate::text::one::<crate::text::Text, _>")]
    pub name: String,
}

impl NotifyTestParams {
    /// Tests the receiver of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

/// A result of `push_key`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "push_key")]
#[schemars(rename = "PushKey", transform = tagged("push_key"))]
pub struct PushKey {
    /// The server's VAPID key: the uncompressed P-256 point in base64url without padding, which a
    /// browser takes as `applicationServerKey`.
    pub public_key: String,
}

/// Parameters of `push_subscribe`: what a browser's `PushSubscription` says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct PushSubscribeParams {
    /// The address of the push service.
    #[serde(deserialize_with = "crate::text::one::<crate::text::Text, _>")]
    pub endpoint: String,
    /// The browser's public key, in base64url.
    #[serde(deserialize_with = "crate::text::one::<crate::text::Text, _>")]
    pub p256dh: String,
    /// The browser's authentication secret, in base64url.
    #[serde(deserialize_with = "crate::text::one::<crate::text::Text, _>")]
    pub auth: String,
    /// What people call this browser.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Name, _>"
    )]
    pub name: Option<String>,
}

impl PushSubscribeParams {
    /// A subscription without a name.
    pub fn new(
        endpoint: impl Into<String>,
        p256dh: impl Into<String>,
        auth: impl Into<String>,
    ) -> Self {
        let (endpoint, p256dh, auth) = (endpoint.into(), p256dh.into(), auth.into());
        Self { endpoint, p256dh, auth, name: None }
    }
}

/// Parameters of `push_unsubscribe`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct PushUnsubscribeParams {
    /// The address of the push service, as it was subscribed.
    #[serde(deserialize_with = "crate::text::one::<crate::text::Text, _>")]
    pub endpoint: String,
}

impl PushUnsubscribeParams {
    /// Ends the subscription with this address.
    pub fn new(endpoint: impl Into<String>) -> Self {
        Self { endpoint: endpoint.into() }
    }
}
