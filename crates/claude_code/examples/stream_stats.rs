//! Counts the lines of stream-json logs, and prints one line of JSON for each file, or for standard
//! input if no file is named.
//!
//! `cargo run -p claude_code --example stream_stats -- FILE…`

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write as _};
use std::process::ExitCode;

use claude_code::ClaudeStreamJsonParser;
use serde::Serialize;

/// The counts for one file.
#[derive(Default, Serialize)]
struct Stats {
    file: String,
    lines: u64,
    events: u64,
    errors: u64,
    unknown: u64,
    by_type: BTreeMap<String, u64>,
}

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let counted = if files.is_empty() {
        count("-".to_owned(), io::stdin().lock()).and_then(|stats| print(&stats))
    } else {
        files.into_iter().try_for_each(|file| {
            let log = File::open(&file).map_err(|error| {
                io::Error::new(error.kind(), format!("could not open {file}: {error}"))
            })?;
            print(&count(file, BufReader::new(log))?)
        })
    };
    match counted {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // There is no other place to report a failure to.
            let _ = writeln!(io::stderr(), "stream_stats: {error}");
            ExitCode::FAILURE
        }
    }
}

fn count(file: String, mut log: impl BufRead) -> io::Result<Stats> {
    let mut stats = Stats { file, ..Stats::default() };
    let mut parser = ClaudeStreamJsonParser::new();
    let mut line = Vec::new();
    while log.read_until(b'\n', &mut line)? > 0 {
        stats.lines += 1;
        match parser.parse_bytes(&line) {
            Ok(Some(event)) => {
                stats.events += 1;
                stats.unknown += u64::from(event.is_unknown());
                *stats.by_type.entry(event.event_type().to_owned()).or_default() += 1;
            }
            Ok(None) => {}
            Err(_) => stats.errors += 1,
        }
        line.clear();
    }
    Ok(stats)
}

fn print(stats: &Stats) -> io::Result<()> {
    writeln!(io::stdout(), "{}", serde_json::to_string(stats)?)
}
