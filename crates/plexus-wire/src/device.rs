//! Devices that decide for the operator, such as a phone: pairing, listing, taking back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::DeviceId;
use crate::schema::tagged;
use crate::time::Millis;

/// Parameters of `pair`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct PairParams {
    /// What to call the device (phone, or phone-2 and so on where that is taken).
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Name, _>"
    )]
    #[schemars(length(min = 1, max = 256))]
    pub name: Option<String>,
}

impl PairParams {
    /// A device of this name.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()) }
    }
}

/// A result of `pair`: what a device needs to get its token.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "Pairing", transform = tagged("ok"))]
pub struct Pairing {
    /// What the device will be called.
    pub name: String,
    /// Works once, until `expires_at`. `POST /auth/exchange` takes it.
    pub code: String,
    /// The link to open on the device: it holds the code.
    pub link: String,
    /// When the code ends.
    pub expires_at: Millis,
    /// Whether other machines reach the link's address, as far as the server knows.
    pub reachable: bool,
    /// The SHA-256 of the certificate that the server shows there, if it shows one itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

/// A result of `devices`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "DeviceList", transform = tagged("ok"))]
pub struct DeviceList {
    /// The devices, oldest first.
    pub devices: Vec<PairedDevice>,
}

/// A device that may read and decide.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct PairedDevice {
    /// Its id, by which decisions name it.
    pub id: DeviceId,
    /// What it is called.
    pub name: String,
    /// When it was paired.
    pub paired_at: Millis,
}

/// Parameters of `unpair`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct UnpairParams {
    /// The name of the device whose token ends.
    #[serde(deserialize_with = "crate::text::one::<crate::text::Text, _>")]
    pub name: String,
}

impl UnpairParams {
    /// Takes back the token of the device of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

/// A result of `unpair`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "Unpaired", transform = tagged("ok"))]
pub struct Unpaired {
    /// The device. What it decided stays, under its name.
    pub id: DeviceId,
}
