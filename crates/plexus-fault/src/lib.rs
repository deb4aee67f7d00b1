//! Named points at which a test may kill or freeze one of our processes. In a build for use there
//! is nothing of them.
//!
//! The crash matrix (`crates/plexus/tests/crash_matrix`) has to stop a server, a shim or a
//! simulated child at an exact place: between a commit and its wake, between a temporary file and
//! its rename. Such a place carries a line like `plexus_fault::point!("decision.committed")`.
//! Without the feature `armed` the macros expand to nothing, so that not even the names reach the
//! program; with it, a point does nothing until the process finds its own orders in its
//! environment:
//!
//! - `PLEXUS_FAULT=NAME:ACTION[@N]`, several separated by commas: what to do when `NAME` is reached
//!   for the `N`th time (the first when absent). `kill` and `freeze` stop this very process;
//!   `error` is for [`fails!`] alone, and holds while there is a file `NAME` in the directory
//!   below.
//! - `PLEXUS_FAULT_DIR=DIR`: where a point that strikes leaves `NAME@N` with the number of its
//!   process. It strikes only while that file is missing, so once among all processes that have the
//!   same orders, and a test sees that it was reached at all.
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

/// Marks a place where a test may stop the process. With `when`, only if the condition holds; it is
/// not evaluated in a build for use.
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

/// Marks a place where a test may stop the process: nothing in this build.
#[cfg(not(feature = "armed"))]
#[macro_export]
macro_rules! point {
    ($name:literal) => {};
    ($name:literal, when $condition:expr) => {};
}

/// Says whether a test wants the next step to fail.
#[cfg(feature = "armed")]
#[macro_export]
macro_rules! fails {
    ($name:literal) => {
        $crate::fails($name)
    };
}

/// Says whether a test wants the next step to fail: never, in this build.
#[cfg(not(feature = "armed"))]
#[macro_export]
macro_rules! fails {
    ($name:literal) => {
        false
    };
}

/// Gives back the first half of some bytes when a test wants to strike between two parts of a
/// write, else all of them.
#[cfg(feature = "armed")]
#[macro_export]
macro_rules! cut {
    ($name:literal, $bytes:expr) => {
        $crate::cut($name, $bytes)
    };
}

/// Gives back the bytes as they are, in this build.
#[cfg(not(feature = "armed"))]
#[macro_export]
macro_rules! cut {
    ($name:literal, $bytes:expr) => {
        $bytes
    };
}
