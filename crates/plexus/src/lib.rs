//! Plexus as a program: the commands of `plexus-cli` and of `plexus-server` as one command line.
//!
//! - To embed the server in a program of your own, start at [`PlexusBuilder`].
//! - To have the whole program with activations of your own, call [`main_with`].

mod program;

pub use plexus_server::{
    BuildError, Membership, Plexus, PlexusBuilder, ProgramLine, Stopped, config, data_dir, serve,
};
pub use program::{main, main_with};
