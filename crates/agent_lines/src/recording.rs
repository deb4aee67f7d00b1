//! Reads conversations that were recorded in both directions: lines of
//! `{"dir":"in"|"out","at_ms":N,"line":"…"}`.
//!
//! The child reads `in` lines and writes `out` lines; `line` is the unchanged text.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write as _};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

/// One line of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Recorded {
    /// Who wrote it.
    #[serde(rename = "dir")]
    pub direction: Direction,
    /// The unchanged line, without its newline.
    pub line: String,
}

/// Who wrote a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The client: the child reads it.
    In,
    /// The child.
    Out,
}

/// The counts for one recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// The file.
    pub file: String,
    /// How many lines it has.
    pub lines: u64,
    /// Lines of an unknown kind.
    pub unknown: u64,
    /// Lines that cannot be read: of the recording itself, or recorded in it.
    pub errors: u64,
}

/// Counts the lines of a recording. `is_unknown` says whether a line is of an unknown kind; it
/// returns `None` when the line cannot be read.
pub fn count(
    file: &str,
    mut recording: impl BufRead,
    mut is_unknown: impl FnMut(&Recorded) -> Option<bool>,
) -> io::Result<Stats> {
    let mut stats = Stats { file: file.to_owned(), ..Stats::default() };
    let mut line = Vec::new();
    while recording.read_until(b'\n', &mut line)? > 0 {
        if !line.trim_ascii().is_empty() {
            stats.lines += 1;
            let recorded = serde_json::from_slice(&line).ok();
            match recorded.and_then(|recorded| is_unknown(&recorded)) {
                Some(unknown) => stats.unknown += u64::from(unknown),
                None => stats.errors += 1,
            }
        }
        line.clear();
    }
    Ok(stats)
}

/// Counts every file that this program was given as an argument, and prints one line of JSON for
/// each. This is all that an example needs.
pub fn print_stats(mut is_unknown: impl FnMut(&Recorded) -> Option<bool>) -> ExitCode {
    let counted = std::env::args().skip(1).try_for_each(|file| {
        let recording = File::open(&file).map_err(|error| {
            io::Error::new(error.kind(), format!("could not open {file}: {error}"))
        })?;
        let stats = count(&file, BufReader::new(recording), &mut is_unknown)?;
        writeln!(io::stdout(), "{}", serde_json::to_string(&stats)?)
    });
    match counted {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // There is no other place to report a failure to.
            let _ = writeln!(io::stderr(), "stream_stats: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_unreadable_lines_are_counted() {
        let recording = concat!(
            r#"{"dir":"in","at_ms":0,"line":"known"}"#,
            "\n\n",
            r#"{"dir":"out","at_ms":1,"line":"new"}"#,
            "\n",
            r#"{"dir":"out","at_ms":2,"line":"broken"}"#,
            "\n{\"dir\":\"sideways\"}\n",
        );
        let stats = count("f", recording.as_bytes(), |recorded| match recorded.line.as_str() {
            "broken" => None,
            line => Some(line == "new"),
        });
        let expected = Stats { file: "f".to_owned(), lines: 4, unknown: 1, errors: 2 };
        assert_eq!(stats.unwrap(), expected);
    }
}
