//! Devices that decide for the operator. A device's token is a [`Token`](super::Token) like any
//! other, by its hash.

use plexus_core::DeviceId;
use serde::Serialize;

use super::time::UnixMillis;

/// Adds a device. Another one of this name that is not revoked is a conflict.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddDevice {
    /// Its id.
    pub id: DeviceId,
    /// What people call it.
    pub name: String,
    /// When it was paired.
    pub at: UnixMillis,
}

/// Revokes a device, which must exist: all its tokens end. Its name stays for the decisions that it
/// made, and may be given to another device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RevokeDevice {
    /// Its id.
    pub id: DeviceId,
    /// When.
    pub at: UnixMillis,
}

/// A device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Device {
    /// Its id.
    pub id: DeviceId,
    /// What people call it.
    pub name: String,
    /// When it was paired.
    pub paired_at: UnixMillis,
    /// When it was revoked, if it was.
    pub revoked_at: Option<UnixMillis>,
}
