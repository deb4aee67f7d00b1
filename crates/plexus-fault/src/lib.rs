//! Named points at which a test may kill or freeze one of our processes. A release build contains
//! nothing of them.
//!
//! The crash matrix (`crates/plexus/tests/crash_matrix`) has to stop a server, a shim or a
//! simulated child at an exact place: between a commit and its wake, between a temporary file and
//! its rename. Such a place carries a line like `plexus_fault::point!("decision.committed")`.
//! Without the feature `armed` the macros expand to nothing, so not even the names reach the
//! program. With the feature, a point does nothing until the process finds orders in its
//! environment:
//!
//! - `PLEXUS_FAULT=NAME:ACTION[@N]`, several separated by commas: what to do when `NAME` is reached
//!   for the `N`th time (the first when absent). `kill` and `freeze` stop this process. `error` is
//!   for [`fails!`] alone, and holds while a file `NAME` exists in the directory below.
//! - `PLEXUS_FAULT_DIR=DIR`: a point that strikes creates the file `NAME@N` here, with its process
//!   id. It strikes only while that file is missing: once among all processes with the same orders.
//!   The file also tells a test that the point was reached.
//!
//! A release of Plexus cannot be built with the feature: see the error below.

#[cfg(all(feature = "armed", not(debug_assertions)))]
compile_error!(
    "plexus-fault/armed is for tests: a release has no fault points; build without `--all-features`"
);

#[cfg(feature = "armed")]
mod armed;
#[cfg(feature = "armed")]
pub use armed::{cut, fails, reached};

/// Marks a place where a test may stop the process. With `when`, only if the condition holds;
/// without the feature the condition is not evaluated.
#[cfg(feature = "armed")]
#[macro_export]
macro_rules! point {
    ($name:literal) => {
        $crate::reached($name)
    };
    ($name:literal, when $condition:expr) => {
        if $condition {
            $crate::reached($name)
        }
    };
}

/// Marks a place where a test may stop the process. Expands to nothing in this build.
#[cfg(not(feature = "armed"))]
#[macro_export]
macro_rules! point {
    ($name:literal) => {};
    ($name:literal, when $condition:expr) => {};
}

/// Returns whether a test wants the next step to fail.
#[cfg(feature = "armed")]
#[macro_export]
macro_rules! fails {
    ($name:literal) => {
        $crate::fails($name)
    };
}

/// Returns whether a test wants the next step to fail: always `false` in this build.
#[cfg(not(feature = "armed"))]
#[macro_export]
macro_rules! fails {
    ($name:literal) => {
        false
    };
}

/// Returns the first half of some bytes when a test wants to strike between two parts of a write,
/// otherwise all of them.
#[cfg(feature = "armed")]
#[macro_export]
macro_rules! cut {
    ($name:literal, $bytes:expr) => {
        $crate::cut($name, $bytes)
    };
}

/// Returns the bytes unchanged in this build.
#[cfg(not(feature = "armed"))]
#[macro_export]
macro_rules! cut {
    ($name:literal, $bytes:expr) => {
        $bytes
    };
}
