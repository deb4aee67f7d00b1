//! Counts the lines of recorded conversations with the server, and prints one line of JSON for each
//! file.
//!
//! `cargo run -p codex_app --example stream_stats -- FILE…`
//!
//! [`agent_lines::recording`] describes the format of a recording. A line is unknown if its method,
//! or the type of its item, is unknown.

use std::process::ExitCode;

use agent_lines::recording::{Direction, print_stats};
use codex_app::{ClientLine, CodexParser};

fn main() -> ExitCode {
    let mut parser = CodexParser::new();
    print_stats(|recorded| match recorded.direction {
        Direction::In => ClientLine::parse(&recorded.line).ok().map(|line| line.is_unknown()),
        // A blank line is not part of the protocol, and not an error either.
        Direction::Out => {
            let line = parser.parse_line(&recorded.line).ok()?;
            Some(line.is_some_and(|line| line.is_unknown()))
        }
    })
}
