//! Mutates recorded lines: nothing panics, and no error contains bytes of the line.

#![allow(clippy::expect_used, reason = "a failed test is allowed to stop loudly")]

use codex_app::{ClientLine, CodexLineError, CodexParser};
use proptest::prelude::*;
use testkit::edits::{SECRET, edited};
use testkit::fixtures::codex::all;

fn edited_lines() -> impl Strategy<Value = Vec<u8>> {
    let recordings = all().expect("the recordings").into_iter();
    edited(recordings.flat_map(|(_, lines)| lines).map(|line| line.line))
}

fn holds_no_secret(error: &CodexLineError) -> Result<(), TestCaseError> {
    let shown = format!("{error:?} {error}");
    prop_assert!(!shown.contains(SECRET), "{}", shown);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_line_is_read_or_refused_without_a_byte_of_it(line in edited_lines()) {
        match CodexParser::new().parse_bytes(&line) {
            Ok(Some(line)) => {
                // Formatting decodes everything that is decoded lazily.
                let shown = format!("{line:?}");
                prop_assert!(!shown.is_empty());
                prop_assert!(serde_json::to_string(&line).is_ok());
            }
            Ok(None) => {}
            Err(error) => holds_no_secret(&error)?,
        }
        let text = String::from_utf8_lossy(&line);
        match ClientLine::parse(&text) {
            Ok(line) => {
                let written = line.to_line();
                prop_assert_eq!(ClientLine::parse(&written).ok(), Some(line));
            }
            Err(error) => holds_no_secret(&error)?,
        }
    }
}
