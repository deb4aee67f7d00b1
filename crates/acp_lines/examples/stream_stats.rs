//! Counts what is in recorded conversations with agents: one line of JSON for each file.
//!
//! `cargo run -p acp_lines --example stream_stats -- FILE…`
//!
//! What a recording is made of is in [`agent_lines::recording`]. A line is unknown when nobody
//! knows its method, or the kind of its update.

use std::process::ExitCode;

use acp_lines::{AcpParser, ClientLine};
use agent_lines::recording::{Direction, print_stats};

fn main() -> ExitCode {
    let mut parser = AcpParser::new();
    print_stats(|recorded| match recorded.direction {
        Direction::In => ClientLine::parse(&recorded.line).ok().map(|line| line.is_unknown()),
        // A blank line is none of the protocol, and no error either.
        Direction::Out => {
            let line = parser.parse_line(&recorded.line).ok()?;
            Some(line.is_some_and(|line| line.is_unknown()))
        }
    })
}
