//! Tests the journal reader: whole lines, positions to continue from, notifications of growth.

#![allow(clippy::expect_used, reason = "a failed test is allowed to stop loudly")]

mod common;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use claude_code::ClaudeStreamJsonParseErrorCode as Code;
use claude_code::journal::{
    Journal, JournalDir, JournalLine, JournalOptions, JournalWatcher, LineContent, Position,
};
use common::within;

const PLENTY: usize = 1024 * 1024;

fn append(path: &Path, bytes: &[u8]) {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .expect("opens")
        .write_all(bytes)
        .expect("writes");
}

fn texts<P>(lines: Vec<JournalLine<P>>) -> Vec<String> {
    lines
        .into_iter()
        .map(|line| match line.content {
            LineContent::Whole(bytes) => String::from_utf8(bytes).expect("text"),
            LineContent::TooLong { size, .. } => format!("too long: {size}"),
        })
        .collect()
}

#[test]
fn only_whole_lines_come_and_the_tail_on_request() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("journal.jsonl");
    let mut journal = Journal::open(&path, 0);
    assert_eq!(texts(journal.read_lines(PLENTY).expect("no file is no error")), [""; 0]);
    append(&path, b"one\ntw");
    assert_eq!(texts(journal.read_lines(PLENTY).expect("reads")), ["one"]);
    assert_eq!(texts(journal.read_lines(PLENTY).expect("reads")), [""; 0]);
    append(&path, b"o\nthree");
    let lines = journal.read_lines(PLENTY).expect("reads");
    assert_eq!(lines[0].position_after, 8);
    assert_eq!(texts(lines), ["two"]);
    let tail = journal.drain_tail().expect("a tail");
    assert_eq!((tail.content, tail.position_after), (LineContent::Whole(b"three".to_vec()), 13));
    assert_eq!(journal.drain_tail(), None);
}

#[test]
fn a_reader_goes_on_where_another_stopped() {
    let path = testkit::fixtures::folder().join("control_background.jsonl");
    let whole: Vec<_> = Journal::open(&path, 0).read_lines(PLENTY).expect("reads");
    for (index, line) in whole.iter().enumerate() {
        let rest = Journal::open(&path, line.position_after).read_lines(PLENTY).expect("reads");
        assert_eq!(rest, whole[index + 1..], "after line {index}");
    }
}

#[test]
fn a_budget_bounds_each_read_and_loses_nothing() {
    let path = testkit::fixtures::folder().join("control_background.jsonl");
    let whole = Journal::open(&path, 0).read_lines(PLENTY).expect("reads");
    for budget in [1, 7, 100, 4096] {
        let mut journal = Journal::open(&path, 0);
        let mut lines = Vec::new();
        let size = fs::metadata(&path).expect("a file").len() as usize;
        for _ in 0..=size / budget {
            let before = lines.len();
            lines.extend(journal.read_lines(budget).expect("reads"));
            // An earlier read may already have read a part of the first line.
            let begun: usize =
                lines[before..].iter().skip(1).map(|line| texts(vec![line.clone()])[0].len()).sum();
            assert!(begun <= budget, "{begun} bytes with a budget of {budget}");
        }
        assert_eq!(lines, whole, "budget {budget}");
    }
}

#[test]
fn a_line_longer_than_the_budget_is_read_to_its_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let long = "x".repeat(3 * PLENTY);
    let path = dir.path().join("000001.jsonl");
    append(&path, format!("{long}\nshort\n").as_bytes());
    let budget = PLENTY / 2;
    let mut one = Journal::open(&path, 0);
    assert_eq!(texts(one.read_lines(budget).expect("reads"))[0], long);
    let mut many = JournalDir::open(dir.path(), Position::START);
    assert_eq!(texts(many.read_lines(budget).expect("reads"))[0], long);
    assert_eq!(many.drain_tail(), None, "half a line is no tail");
}

#[test]
fn a_line_too_long_gives_its_size_and_its_head() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("journal.jsonl");
    let head = r#"{"type":"control_request","request_id":"r-1","request":{"input":""#;
    append(
        &path,
        format!("{{\"type\":\"a\"}}\n{head}{}\n{{\"type\":\"b\"}}\n", "x".repeat(10_000))
            .as_bytes(),
    );
    let options = JournalOptions { max_line_bytes: 1000 };
    let mut journal = Journal::open_with(&path, 0, options);
    let lines = journal.read_lines(PLENTY).expect("reads");
    let LineContent::TooLong { size, head: seen } = &lines[1].content else { panic!("{lines:?}") };
    assert_eq!((*size, seen.len()), ((head.len() + 10_000) as u64, 512));
    assert!(seen.starts_with(head.as_bytes()));
    assert_eq!(texts(lines)[2], r#"{"type":"b"}"#);

    let mut events = Journal::open_with(&path, 0, options);
    let codes: Vec<_> = std::iter::from_fn(|| events.try_next_event().expect("reads"))
        .map(|event| {
            event
                .event
                .map(|event| event.event_type().to_owned())
                .map_err(|error| (error.code, error.line_bytes))
        })
        .collect();
    assert_eq!(
        codes,
        [
            Ok("a".to_owned()),
            Err((Code::LineTooLong, Some(head.len() as u64 + 10_000))),
            Ok("b".to_owned())
        ]
    );
}

#[test]
fn segments_follow_each_other() {
    let dir = tempfile::tempdir().expect("a directory");
    let segment = |number: u64| dir.path().join(format!("{number:06}.jsonl"));
    let mut journal = JournalDir::open(dir.path(), Position::START);
    assert_eq!(texts(journal.read_lines(PLENTY).expect("reads")), [""; 0]);
    append(&segment(1), b"1a\n1b\n");
    assert_eq!(texts(journal.read_lines(PLENTY).expect("reads")), ["1a", "1b"]);
    append(&segment(1), b"1c\n");
    append(&segment(2), b"2a\n");
    append(&segment(3), b"3a\n");
    let lines = journal.read_lines(PLENTY).expect("reads");
    let positions: Vec<_> = lines
        .iter()
        .map(|line| (line.position_after.segment, line.position_after.offset))
        .collect();
    assert_eq!(positions, [(1, 9), (2, 3), (3, 3)]);
    assert_eq!(texts(lines), ["1c", "2a", "3a"]);
    append(&segment(3), b"3b\n");
    assert_eq!(texts(journal.read_lines(PLENTY).expect("reads")), ["3b"]);

    // A new reader can start at every position.
    let again = |segment, offset| {
        texts(
            JournalDir::open(dir.path(), Position { segment, offset })
                .read_lines(PLENTY)
                .expect("reads"),
        )
    };
    assert_eq!(again(1, 0), ["1a", "1b", "1c", "2a", "3a", "3b"]);
    assert_eq!(again(1, 9), ["2a", "3a", "3b"]);
    assert_eq!(again(3, 3), ["3b"]);
    // Segments that were read may be removed.
    fs::remove_file(segment(1)).expect("removed");
    fs::remove_file(segment(2)).expect("removed");
    assert_eq!(again(1, 9), ["3a", "3b"]);
    // A small budget also gets through all segments.
    let mut slow = JournalDir::open(dir.path(), Position::START);
    let lines: Vec<String> =
        (0..20).flat_map(|_| texts(slow.read_lines(1).expect("reads"))).collect();
    assert_eq!(lines, ["3a", "3b"]);
}

#[test]
fn a_torn_line_at_the_end_of_a_closed_segment_is_not_lost() {
    let dir = tempfile::tempdir().expect("a directory");
    append(&dir.path().join("000001.jsonl"), b"whole\ntorn");
    append(&dir.path().join("000002.jsonl"), b"next\n");
    let mut journal = JournalDir::open(dir.path(), Position::START);
    assert_eq!(texts(journal.read_lines(PLENTY).expect("reads")), ["whole", "torn", "next"]);
}

#[test]
fn a_file_shorter_than_the_position_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("journal.jsonl");
    append(&path, b"short\n");
    let error = Journal::open(&path, 100).read_lines(PLENTY).expect_err("not that file");
    assert!(error.to_string().contains("6 bytes"), "{error}");
}

#[tokio::test]
async fn growth_wakes_every_reader_through_one_watcher() {
    let dir = tempfile::tempdir().expect("a directory");
    let watcher = JournalWatcher::new();
    let mut readers = Vec::new();
    for name in ["a", "b"] {
        let run = dir.path().join(name);
        fs::create_dir(&run).expect("a directory");
        let path = run.join("000001.jsonl");
        let growth = watcher.subscribe_file(&path);
        assert!(growth.is_notified_by_system());
        readers.push((path.clone(), Journal::open(&path, 0), growth));
    }
    for round in 0..3 {
        for (path, journal, growth) in &mut readers {
            let writer = path.clone();
            let line = format!("{{\"type\":\"round\",\"session_id\":\"{round}\"}}\n");
            let (event, ()) = tokio::join!(journal.next_event(growth), async move {
                tokio::task::yield_now().await;
                append(&writer, line.as_bytes());
            });
            let event = event.expect("reads").event.expect("an event");
            assert_eq!(event.session_id(), Some(round.to_string().as_str()));
        }
    }
}

#[tokio::test]
async fn a_directory_that_comes_later_is_still_followed() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("later/000001.jsonl");
    let mut growth = JournalWatcher::new().subscribe_file(&path);
    assert!(!growth.is_notified_by_system());
    let mut journal = Journal::open(&path, 0);
    fs::create_dir(path.parent().expect("a parent")).expect("a directory");
    append(&path, b"{\"type\":\"a\"}\n");
    let event = within("the event", journal.next_event(&mut growth)).await.expect("reads");
    assert_eq!(event.offset_after, 13);
    within("a notification", async {
        while !growth.is_notified_by_system() {
            growth.wait().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_subscription_that_ends_leaves_the_others_of_its_directory_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let watcher = JournalWatcher::new();
    let (first, mut second) = (watcher.subscribe(dir.path()), watcher.subscribe(dir.path()));
    drop(first);
    assert!(second.is_notified_by_system());
    let mut journal = JournalDir::open(dir.path(), Position::START);
    append(&dir.path().join("000001.jsonl"), b"a\n");
    within("the line", async {
        while journal.read_lines(PLENTY).expect("reads").is_empty() {
            second.wait().await;
        }
    })
    .await;
    drop(second);
    // The directory can be watched again.
    assert!(watcher.subscribe(dir.path()).is_notified_by_system());
}
