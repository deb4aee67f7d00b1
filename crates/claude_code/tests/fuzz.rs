//! Statement 10: arbitrary bytes never panic, never loop, never allocate more than a small multiple
//! of the line.
//!
//! Runs in the ordinary suite with a fixed seed. `FUZZ_CASES` sets the number of cases and
//! `FUZZ_SEED` another seed; both are printed, so that a finding can be reproduced.

#![allow(clippy::expect_used, reason = "a failed test is allowed to stop loudly")]
#![allow(
    clippy::print_stdout,
    reason = "seed and number of cases are for whoever wants to see a finding again"
)]

mod common;

use std::alloc::System;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cap::Cap;
use claude_code::ClaudeStreamJsonParser;
use claude_code::journal::{Journal, JournalOptions, LineContent};
use common::fixture_lines;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde::de::IgnoredAny;

/// Counts allocations, so that a test can assert a bound.
#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

const DEFAULT_CASES: u32 = 3_000;
const DEFAULT_SEED: u64 = 20_261_115;

/// The allowed memory as a multiple of the line: an index of 16 bytes for each value of two bytes,
/// typed blocks of 32 bytes for each three, and the line itself. Vectors that grow by doubling
/// allocate up to four times what they need in the end.
const MULTIPLE: usize = 64;

/// The memory of a parser and an error for an empty line.
const SMALL: usize = 4096;

/// Takes the lock that serialises the tests of this file, because each would also count the memory
/// of the others.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `test` on the configured number of inputs. The strategy is made while no other test counts:
/// it reads megabytes of recorded lines.
fn run<S: Strategy>(
    name: &str,
    strategy: impl FnOnce() -> S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let _alone = alone();
    let strategy = strategy();
    let number =
        |name: &str| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let cases =
        number("FUZZ_CASES").and_then(|cases| u32::try_from(cases).ok()).unwrap_or(DEFAULT_CASES);
    let seed = number("FUZZ_SEED").unwrap_or(DEFAULT_SEED);
    println!("{name}: {cases} cases, seed {seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let started = std::time::Instant::now();
    if let Err(error) = runner.run(&strategy, test) {
        panic!("{name}, seed {seed}: {error}");
    }
    println!("{name}: no finding in {:.1} s", started.elapsed().as_secs_f64());
}

/// Generates bytes, pieces of JSON, and recorded lines with mutations.
fn lines() -> impl Strategy<Value = Vec<u8>> {
    let recorded: Vec<Vec<u8>> = fixture_lines()
        .map(|(_, line)| line.into_bytes())
        .filter(|line| line.len() < 20_000)
        .collect();
    let token = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "\\u",
        "\\ud800",
        "\\udc00",
        "\"type\"",
        "\"message\"",
        "\"content\"",
        "\"result\"",
        "\"stream_event\"",
        "\"event\"",
        "\"user\"",
        "\"assistant\"",
        "\"system\"",
        "1",
        "-0",
        "1e5",
        "0.",
        "true",
        "null",
        "nul",
        " ",
        "\t",
        "\r",
        "é",
        "\u{feff}",
        "{}",
        "[]",
        "\"text\"",
        "\"a\\nb\"",
        "\u{1}",
        "0123456789abcdef",
    ]);
    let soup = prop::collection::vec(token, 0..80).prop_map(|tokens| tokens.concat().into_bytes());
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 0..6);
    let edited = (prop::sample::select(recorded), edits).prop_map(|(mut line, edits)| {
        for (index, byte, what) in edits {
            if line.is_empty() {
                break;
            }
            let at = index.index(line.len());
            match what {
                0 => line[at] = byte,
                1 => drop(line.remove(at)),
                2 => line.insert(at, byte),
                _ => line.truncate(at),
            }
        }
        line
    });
    prop_oneof![
        1 => prop::collection::vec(any::<u8>(), 0..300),
        3 => soup,
        3 => edited,
        1 => (1..200usize, "[\\[{\"a:,]{1,3}").prop_map(|(times, piece)| piece.repeat(times).into_bytes()),
    ]
}

#[test]
fn s10_arbitrary_bytes_neither_panic_nor_allocate_without_bound() {
    run("bytes", lines, |line| {
        let mut parsed = Ok(None);
        // The threads of the test harness allocate too, so a count that is too high is taken again.
        let allocated = (0..3).map(|_| {
            let before = MEMORY.total_allocated();
            parsed = ClaudeStreamJsonParser::new().parse_bytes(&line);
            MEMORY.total_allocated() - before
        });
        let allocated = allocated.min().unwrap_or(usize::MAX);
        prop_assert!(
            allocated <= line.len() * MULTIPLE + SMALL,
            "{allocated} bytes for a line of {}",
            line.len()
        );
        if let Ok(Some(event)) = parsed {
            // Formatting decodes everything that is decoded lazily.
            let shown = format!("{event:?}");
            prop_assert!(!shown.is_empty());
        }
        Ok(())
    });
}

#[test]
fn s10_lines_of_many_small_values_stay_a_small_multiple() {
    let _alone = alone();
    for piece in ["{},", "[],", "1,", "\"\",", "{\"type\":\"text\",\"text\":\"\\n\"},"] {
        let many = piece.repeat(1_000_000 / piece.len());
        let line = format!(
            r#"{{"type":"assistant","message":{{"content":[{}]}}}}"#,
            many.trim_end_matches(',')
        );
        let (before, in_total) = (MEMORY.allocated(), MEMORY.total_allocated());
        let mut parser = ClaudeStreamJsonParser::new();
        let event = parser.parse_line(&line).expect("valid").expect("an event");
        let allocated = MEMORY.total_allocated() - in_total;
        assert!(
            allocated <= line.len() * MULTIPLE,
            "{allocated} bytes for {} of {piece}",
            line.len()
        );
        drop(event);
        let kept = MEMORY.allocated().saturating_sub(before);
        assert!(kept <= 2 * 1024 * 1024, "the parser keeps {kept} bytes");
    }
}

#[test]
fn s10_the_scanner_accepts_what_serde_json_accepts() {
    run("differential", lines, |line| {
        let line = String::from_utf8_lossy(&line).into_owned();
        // Only our parser accepts a byte order mark.
        if line.contains('\u{feff}') {
            return Ok(());
        }
        let ours = ClaudeStreamJsonParser::new().parse_envelope(&line);
        let whole = ClaudeStreamJsonParser::new().parse_line(&line);
        let is_json = |error: &claude_code::ClaudeStreamJsonParseError| {
            error.code == claude_code::ClaudeStreamJsonParseErrorCode::TypedParse
        };
        let accepts = ours.as_ref().map_or_else(is_json, |_| true);
        let theirs = line.trim().is_empty() || serde_json::from_str::<IgnoredAny>(&line).is_ok();
        prop_assert_eq!(accepts, theirs, "{:?}", &line);
        prop_assert_eq!(whole.as_ref().map_or_else(is_json, |_| true), theirs, "{:?}", &line);
        // If both parsers accept a line, they agree on it.
        if let (Ok(Some(event)), Ok(tree)) =
            (&whole, serde_json::from_str::<serde_json::Value>(&line))
        {
            prop_assert_eq!(event.event_type(), tree["type"].as_str().unwrap_or_default());
            let session = tree["session_id"].as_str().or(tree["sessionId"].as_str());
            prop_assert_eq!(event.session_id(), session);
            prop_assert_eq!(
                serde_json::from_str::<serde_json::Value>(event.raw()).expect("raw is JSON"),
                tree
            );
        }
        Ok(())
    });
}

#[test]
fn s10_lines_are_cut_alike_however_the_bytes_arrive() {
    let pieces = || {
        let byte = prop_oneof![3 => any::<u8>(), 1 => Just(b'\n')];
        (prop::collection::vec(byte, 0..400), 1..50usize, 1..64usize)
    };
    run("line reader", pieces, |(bytes, budget, max_line_bytes)| {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let mut journal = Journal::open_with(file.path(), 0, JournalOptions { max_line_bytes });
        let mut lines = Vec::new();
        for part in bytes.chunks(budget) {
            file.write_all(part).expect("writes");
            lines.extend(journal.read_lines(budget).expect("reads"));
        }
        lines.extend(journal.drain_tail());
        let mut expected: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        if expected.last().is_some_and(|last| last.is_empty()) {
            expected.pop();
        }
        prop_assert_eq!(lines.len(), expected.len());
        for (line, expected) in lines.iter().zip(expected) {
            match &line.content {
                LineContent::Whole(whole) => prop_assert_eq!(whole, expected),
                LineContent::TooLong { size, head } => {
                    prop_assert!(expected.len() > max_line_bytes);
                    prop_assert_eq!(
                        (*size, &head[..]),
                        (expected.len() as u64, &expected[..expected.len().min(512)])
                    );
                }
            }
        }
        prop_assert_eq!(lines.last().map_or(0, |line| line.position_after), bytes.len() as u64);
        Ok(())
    });
}
