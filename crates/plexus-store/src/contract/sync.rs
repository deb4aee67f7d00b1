//! The locks of the wakes. A test compiles `wake.rs` beside another `sync`, whose threads are
//! scheduled in every order (`tests/shuttle_wakes.rs`).

pub(super) use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
