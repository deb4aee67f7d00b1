//! What the test programs of this crate share.

#![allow(dead_code, reason = "each test program uses its own part of this")]

#[cfg(target_os = "linux")]
pub(crate) mod claude;
pub(crate) mod scripted;
pub(crate) mod stand_in;
