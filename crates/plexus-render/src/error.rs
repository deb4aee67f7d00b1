//! Errors as one sentence.

use crate::sanitize;

/// Turns an error whose message is a fragment into a sentence, with every cause that it does not
/// mention itself.
pub fn could_not(error: impl std::error::Error) -> anyhow::Error {
    let mut text = format!("could not {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        let more = more.trim_end();
        if !text.contains(more) {
            text.push_str(": ");
            text.push_str(more);
        }
        cause = error.source();
    }
    anyhow::Error::msg(text)
}

/// Writes a line to stderr, safe to show.
#[expect(clippy::print_stderr, reason = "commands report errors on stderr")]
pub fn complain(line: &str) {
    eprintln!("{}", sanitize::text(line));
}
