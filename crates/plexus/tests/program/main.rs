//! The whole program, from outside: as a server, from scripts, and in a terminal.
//!
//! [`place`] is where each test plays, [`pty`] a terminal with a keyboard.

mod commands;
mod place;
mod pty;
mod serve;
mod terminal;
