//! Assembles bytes from the child's pipes into whole lines for the journal.

use serde::{Deserialize, Serialize};

/// A line of stdout up to this length is held until its newline arrives and is then written at
/// once. The server reads no longer lines than this, so it sees every line that it can read whole.
pub const WHOLE_LINE_BYTES: usize = 16 * 1024 * 1024;

/// How much of a line of stdout is kept. The rest, up to its newline, is dropped: a line without an
/// end would otherwise fill the disk, because the server can take only complete lines.
pub const MAX_LINE_BYTES: u64 = 128 * 1024 * 1024;

/// How much of a line of stderr is kept: it is for people, and a page of it tells them enough.
pub const MAX_STDERR_LINE_BYTES: usize = 8 * 1024;

/// The end of a line of stderr that was cut.
const CUT_MARK: &str = " […cut]";

/// A buffer that grew larger than this for one long line is freed afterwards.
pub(crate) const KEPT_CAPACITY: usize = 256 * 1024;

/// Assembles the lines of stdout.
#[derive(Debug, Default)]
pub(crate) struct StdoutLines {
    /// The beginning of a line whose newline has not arrived.
    held: Vec<u8>,
    /// How many bytes of the current line went to the journal already, in pieces.
    passed_on: u64,
    /// How many bytes of the current line were dropped.
    left_out: u64,
}

impl StdoutLines {
    /// Takes bytes that were read and appends to `journal` those that may be written.
    pub(crate) fn push(&mut self, mut read: &[u8], journal: &mut Vec<u8>) {
        if !self.in_pieces() {
            // The usual case: everything up to the last newline is whole.
            if let Some(last) = read.iter().rposition(|&byte| byte == b'\n') {
                let (whole, rest) = read.split_at(last + 1);
                journal.append(&mut self.held);
                journal.extend_from_slice(whole);
                if self.held.capacity() > KEPT_CAPACITY {
                    self.held = Vec::new();
                }
                read = rest;
            }
            return self.hold(read, journal);
        }
        match read.iter().position(|&byte| byte == b'\n') {
            None => self.pass_on(read, journal),
            Some(end) => {
                let (line, rest) = read.split_at(end);
                self.pass_on(line, journal);
                self.end_line(journal);
                self.push(rest.get(1..).unwrap_or_default(), journal);
            }
        }
    }

    /// Ends the last line as if its newline had arrived.
    pub(crate) fn finish(&mut self, journal: &mut Vec<u8>) {
        if self.in_pieces() || !self.held.is_empty() {
            self.end_line(journal);
        }
    }

    /// Returns whether the journal ends in the middle of a line, so that no other line may be
    /// written now.
    pub(crate) fn in_pieces(&self) -> bool {
        self.passed_on > 0
    }

    fn hold(&mut self, part: &[u8], journal: &mut Vec<u8>) {
        self.held.extend_from_slice(part);
        if self.held.len() > WHOLE_LINE_BYTES {
            let held = std::mem::take(&mut self.held);
            self.pass_on(&held, journal);
        }
    }

    fn pass_on(&mut self, part: &[u8], journal: &mut Vec<u8>) {
        let room =
            usize::try_from(MAX_LINE_BYTES.saturating_sub(self.passed_on)).unwrap_or(usize::MAX);
        let (kept, left_out) = part.split_at(part.len().min(room));
        journal.extend_from_slice(kept);
        self.passed_on += kept.len() as u64;
        self.left_out += left_out.len() as u64;
    }

    fn end_line(&mut self, journal: &mut Vec<u8>) {
        journal.append(&mut self.held);
        journal.push(b'\n');
        if self.left_out > 0 {
            push_note(
                &format!("{} bytes of a line that was too long were left out", self.left_out),
                journal,
            );
        }
        self.passed_on = 0;
        self.left_out = 0;
    }
}

/// Assembles the lines of stderr, each into a JSON object of its own.
#[derive(Debug, Default)]
pub(crate) struct StderrLines {
    held: Vec<u8>,
    /// Whether the current line is longer than [`MAX_STDERR_LINE_BYTES`].
    is_cut: bool,
}

impl StderrLines {
    /// Takes bytes that were read and appends to `journal` the lines that are complete.
    pub(crate) fn push(&mut self, read: &[u8], journal: &mut Vec<u8>) {
        let mut parts = read.split(|&byte| byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            let room = MAX_STDERR_LINE_BYTES.saturating_sub(self.held.len());
            self.held.extend_from_slice(part.get(..room).unwrap_or(part));
            self.is_cut |= part.len() > room;
            // Bytes after the last newline are not a line yet.
            if parts.peek().is_some() {
                self.end_line(journal);
            }
        }
    }

    /// Ends the last line as if its newline had arrived.
    pub(crate) fn finish(&mut self, journal: &mut Vec<u8>) {
        if !self.held.is_empty() {
            self.end_line(journal);
        }
    }

    fn end_line(&mut self, journal: &mut Vec<u8>) {
        let line = self.held.strip_suffix(b"\r").unwrap_or(&self.held);
        let mut text = String::from_utf8_lossy(line).into_owned();
        if self.is_cut {
            text.push_str(CUT_MARK);
        }
        push_stderr(&text, journal);
        self.held.clear();
        self.is_cut = false;
    }
}

/// Appends a remark of the shim itself, as a line of stderr.
pub(crate) fn push_note(text: &str, journal: &mut Vec<u8>) {
    push_stderr(&format!("plexus shim: {text}"), journal);
}

/// The beginning of every line of stderr in the journal.
const STDERR_HEAD: &[u8] = br#"{"type":"plexus_stderr","#;

/// Returns the text that a child wrote to its stderr, if this line of the journal holds such text.
#[must_use]
pub fn stderr_text(line: &[u8]) -> Option<String> {
    if !line.starts_with(STDERR_HEAD) {
        return None;
    }
    let line: StderrText = serde_json::from_slice(line).ok()?;
    Some(line.text)
}

/// The text of a line of stderr.
#[derive(Deserialize)]
struct StderrText {
    text: String,
}

/// The form of a line of stderr in the journal.
#[derive(Serialize)]
struct StderrLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
}

fn push_stderr(text: &str, journal: &mut Vec<u8>) {
    let line = StderrLine { kind: "plexus_stderr", text };
    // Serialising two strings into memory cannot fail. If it did, no half line may stay.
    let before = journal.len();
    match serde_json::to_writer(&mut *journal, &line) {
        Ok(()) => journal.push(b'\n'),
        Err(_) => journal.truncate(before),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_written_as_stderr_are_read_as_stderr() {
        let mut journal = Vec::new();
        push_stderr("bad \"news\"", &mut journal);
        assert_eq!(stderr_text(&journal).as_deref(), Some("bad \"news\""));
        assert_eq!(stderr_text(br#"{"type":"assistant","text":"x"}"#), None);
    }

    fn stdout(parts: &[&[u8]]) -> String {
        let (mut lines, mut journal) = (StdoutLines::default(), Vec::new());
        for part in parts {
            lines.push(part, &mut journal);
        }
        lines.finish(&mut journal);
        String::from_utf8(journal).unwrap()
    }

    fn stderr(parts: &[&[u8]]) -> String {
        let (mut lines, mut journal) = (StderrLines::default(), Vec::new());
        for part in parts {
            lines.push(part, &mut journal);
        }
        lines.finish(&mut journal);
        String::from_utf8(journal).unwrap()
    }

    #[test]
    fn lines_come_out_whole_however_they_come_in() {
        for (parts, journal) in [
            (&[b"a\nb\n".as_slice()] as &[&[u8]], "a\nb\n"),
            (&[b"a", b"b", b"\nc"], "ab\nc\n"),
            (&[b"a\n\n", b"\n"], "a\n\n\n"),
            (&[], ""),
            (&[b""], ""),
        ] {
            assert_eq!(stdout(parts), journal);
        }
    }

    #[test]
    fn nothing_of_a_line_is_passed_on_before_its_newline() {
        let (mut lines, mut journal) = (StdoutLines::default(), Vec::new());
        lines.push(b"first\nsec", &mut journal);
        assert_eq!(journal, b"first\n");
        assert!(!lines.in_pieces());
    }

    #[test]
    fn a_long_line_goes_in_pieces_and_stays_one_line() {
        let (mut lines, mut journal) = (StdoutLines::default(), Vec::new());
        let piece = vec![b'x'; WHOLE_LINE_BYTES / 2];
        for _ in 0..3 {
            lines.push(&piece, &mut journal);
        }
        assert!(lines.in_pieces());
        lines.push(b"y\nnext\n", &mut journal);
        assert!(!lines.in_pieces());
        assert_eq!(journal.len(), piece.len() * 3 + "y\nnext\n".len());
        assert!(journal.ends_with(b"xy\nnext\n"));
        assert!(lines.held.capacity() <= KEPT_CAPACITY);
    }

    #[test]
    fn an_endless_line_is_cut_and_the_next_one_is_whole() {
        let mut lines = StdoutLines::default();
        let (mut journal, mut bytes) = (Vec::new(), 0);
        let piece = vec![b'x'; 1024 * 1024];
        for _ in 0..200 {
            lines.push(&piece, &mut journal);
            bytes += journal.len() as u64;
            journal.clear();
        }
        assert_eq!(bytes, MAX_LINE_BYTES);
        lines.push(b"\nnext\n", &mut journal);
        let left_out = 200 * piece.len() as u64 - MAX_LINE_BYTES;
        let note =
            format!("plexus shim: {left_out} bytes of a line that was too long were left out");
        assert_eq!(
            String::from_utf8(journal).unwrap(),
            format!("\n{{\"type\":\"plexus_stderr\",\"text\":\"{note}\"}}\nnext\n")
        );
    }

    #[test]
    fn stderr_becomes_objects() {
        assert_eq!(
            stderr(&[b"one\ntw", b"o \x1b[1m\"\xff\r\n", b"end"]),
            "{\"type\":\"plexus_stderr\",\"text\":\"one\"}\n\
             {\"type\":\"plexus_stderr\",\"text\":\"two \\u001b[1m\\\"\u{fffd}\"}\n\
             {\"type\":\"plexus_stderr\",\"text\":\"end\"}\n"
        );
    }

    #[test]
    fn a_long_line_of_stderr_is_cut_with_a_mark() {
        let long = vec![b'e'; MAX_STDERR_LINE_BYTES];
        let kept = "e".repeat(MAX_STDERR_LINE_BYTES);
        let cut = format!("{{\"type\":\"plexus_stderr\",\"text\":\"{kept} […cut]\"}}\n");
        assert_eq!(stderr(&[&long, b"more\n"]), cut);
        assert_eq!(stderr(&[&long, b"\n"]), cut.replace(" […cut]", ""));
        assert_eq!(
            stderr(&[&long, b"x", b"y\nok"]),
            format!("{cut}{{\"type\":\"plexus_stderr\",\"text\":\"ok\"}}\n")
        );
    }
}
