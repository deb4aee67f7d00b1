//! A real `plexus serve` with simulated children: both channels, since the MCP channel needs its
//! doors; `SIGKILL` and a start on the same data while its children live; and a full disk.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod budget;
mod channels;
mod full_disk;
mod killed;
mod lost;
mod site;
