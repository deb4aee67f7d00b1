//! The locks of the wakes. A test compiles `wake.rs` with another `sync`, whose threads are
//! scheduled in many orders (`tests/shuttle_wakes.rs`).

pub(super) use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
