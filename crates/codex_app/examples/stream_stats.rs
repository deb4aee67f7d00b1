//! Counts what is in recorded conversations with the server: one line of JSON for each file.
//!
//! `cargo run -p codex_app --example stream_stats -- FILE…`
//!
//! A recording has lines of `{"dir":"in"|"out","at_ms":N,"line":"…"}`: `in` is what the client
//! wrote, `out` what the server wrote, `line` the line as it was.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write as _};
use std::process::ExitCode;

use codex_app::{ClientLine, CodexParser};
use serde::{Deserialize, Serialize};

/// What is printed about one file.
#[derive(Default, Serialize)]
struct Stats {
    file: String,
    lines: u64,
    /// Lines whose method, or the type of whose item, nobody knows.
    unknown: u64,
    /// Lines that cannot be read, of the recording or in it.
    errors: u64,
}

/// One line of a recording.
#[derive(Deserialize)]
struct Recorded {
    dir: Direction,
    line: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Direction {
    In,
    Out,
}

fn main() -> ExitCode {
    let counted = std::env::args().skip(1).try_for_each(|file| {
        let recording = File::open(&file).map_err(|error| {
            io::Error::new(error.kind(), format!("could not open {file}: {error}"))
        })?;
        let stats = count(file, BufReader::new(recording))?;
        writeln!(io::stdout(), "{}", serde_json::to_string(&stats)?)
    });
    match counted {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error is the only place left to say it.
            let _ = writeln!(io::stderr(), "stream_stats: {error}");
            ExitCode::FAILURE
        }
    }
}

fn count(file: String, mut recording: impl BufRead) -> io::Result<Stats> {
    let mut stats = Stats { file, ..Stats::default() };
    let mut parser = CodexParser::new();
    let mut line = Vec::new();
    while recording.read_until(b'\n', &mut line)? > 0 {
        if !line.trim_ascii().is_empty() {
            stats.lines += 1;
            match is_unknown(&mut parser, &line) {
                Some(unknown) => stats.unknown += u64::from(unknown),
                None => stats.errors += 1,
            }
        }
        line.clear();
    }
    Ok(stats)
}

/// Whether a recorded line is one that nobody knows; none when it cannot be read.
fn is_unknown(parser: &mut CodexParser, line: &[u8]) -> Option<bool> {
    let recorded: Recorded = serde_json::from_slice(line).ok()?;
    match recorded.dir {
        Direction::In => ClientLine::parse(&recorded.line).ok().map(|line| line.is_unknown()),
        // A blank line is none of the protocol, and no error either.
        Direction::Out => {
            let line = parser.parse_line(&recorded.line).ok()?;
            Some(line.is_some_and(|line| line.is_unknown()))
        }
    }
}
