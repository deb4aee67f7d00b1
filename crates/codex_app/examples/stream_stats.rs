//! Counts what is in recorded conversations with the server: one line of JSON for each file.
//!
//! `cargo run -p codex_app --example stream_stats -- FILE…`
//!
//! What a recording is made of is in [`agent_lines::recording`]. A line is unknown when nobody
//! knows its method, or the type of its item.

use std::process::ExitCode;

use agent_lines::recording::{Direction, print_stats};
use codex_app::{ClientLine, CodexParser};

fn main() -> ExitCode {
    let mut parser = CodexParser::new();
    print_stats(|recorded| match recorded.direction {
        Direction::In => ClientLine::parse(&recorded.line).ok().map(|line| line.is_unknown()),
        // A blank line is none of the protocol, and no error either.
        Direction::Out => {
            let line = parser.parse_line(&recorded.line).ok()?;
            Some(line.is_some_and(|line| line.is_unknown()))
        }
    })
}
