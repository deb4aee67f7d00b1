//! What the test programs of this crate share.

#![allow(dead_code, reason = "each test program uses its own part of this")]

pub(crate) mod scripted;
