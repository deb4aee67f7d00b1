//! Live pieces of text beside the events that bring the same text whole. The two travel apart, so
//! either may arrive first; each word is shown once.

use std::collections::BTreeSet;

/// What live pieces have shown before their event, and what events have shown before its pieces.
#[derive(Debug, Default)]
pub struct Live {
    /// Shown by pieces; its event has not come yet.
    ahead: String,
    /// Shown by pieces of the message before. Its event is still to come, or never comes because
    /// the message was begun anew.
    before: String,
    /// Shown by an event; its pieces may still come.
    owed: String,
    /// Pieces that came while a tool ran: the text after the tool's result.
    held: String,
    /// Tools that have not given their result yet.
    open_tools: BTreeSet<String>,
}

/// What to show of a text that came whole.
#[derive(Debug, PartialEq, Eq)]
pub enum Whole {
    /// What its pieces lacked.
    Rest(String),
    /// All of it, on a line of its own: the pieces were of something else.
    Anew(String),
}

impl Live {
    /// Takes a piece; returns what of it to show now.
    pub fn piece(&mut self, text: &str) -> Option<String> {
        if let Some(rest) = self.owed.strip_prefix(text) {
            self.owed = rest.to_owned();
            return None;
        }
        let new = match text.strip_prefix(self.owed.as_str()) {
            Some(new) => new,
            // Some pieces were missed: what was owed will not come any more.
            None => text,
        };
        self.owed.clear();
        if self.open_tools.is_empty() {
            self.ahead.push_str(new);
            return (!new.is_empty()).then(|| new.to_owned());
        }
        self.held.push_str(new);
        None
    }

    /// Takes a text that came whole.
    pub fn whole(&mut self, text: &str) -> Whole {
        if !self.before.is_empty() && fit(&self.before, text) > fit(&self.ahead, text) {
            let before = std::mem::take(&mut self.before);
            return match before.strip_prefix(text) {
                Some(more) => {
                    self.before = more.to_owned();
                    Whole::Rest(String::new())
                }
                None => {
                    Whole::Rest(text.strip_prefix(before.as_str()).unwrap_or_default().to_owned())
                }
            };
        }
        self.before.clear();
        if let Some(more) = self.ahead.strip_prefix(text) {
            // The next block of the same message has begun already.
            self.ahead = more.to_owned();
            return Whole::Rest(String::new());
        }
        let ahead = std::mem::take(&mut self.ahead);
        let held = std::mem::take(&mut self.held);
        let Some(rest) = text.strip_prefix(ahead.as_str()) else {
            self.owed.clear();
            return Whole::Anew(text.to_owned());
        };
        // Pieces that were held back have come, although they were not shown: they are not owed.
        self.owed = rest.strip_prefix(held.as_str()).unwrap_or_default().to_owned();
        Whole::Rest(rest.to_owned())
    }

    /// Notes that a message begins; says whether the earlier text gets a line of its own.
    pub fn message_starts(&mut self) -> bool {
        if self.ahead.is_empty() {
            return false;
        }
        self.before = std::mem::take(&mut self.ahead);
        true
    }

    /// Notes that a tool runs.
    pub fn tool_started(&mut self, id: &str) {
        self.open_tools.insert(id.to_owned());
    }

    /// Notes that a tool has given its result; returns the text that was held back for it.
    pub fn tool_ended(&mut self, id: &str) -> Option<String> {
        self.open_tools.remove(id);
        if !self.open_tools.is_empty() || self.held.is_empty() {
            return None;
        }
        let held = std::mem::take(&mut self.held);
        self.ahead.push_str(&held);
        Some(held)
    }
}

/// How much of a text that came whole these pieces are; `None` when they are of another.
fn fit(pieces: &str, text: &str) -> Option<usize> {
    let longer = pieces.starts_with(text) || text.starts_with(pieces);
    longer.then(|| pieces.len().min(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays pieces (`p:`) and whole texts (`w:`), and returns all that was shown.
    fn shown(steps: &[&str]) -> String {
        let mut live = Live::default();
        let mut all = String::new();
        for step in steps {
            match step.split_at(2) {
                ("p:", text) => all.extend(live.piece(text)),
                ("w:", text) => match live.whole(text) {
                    Whole::Rest(rest) => all.push_str(&format!("{rest}|")),
                    Whole::Anew(text) => all.push_str(&format!("^{text}|")),
                },
                ("m:", _) => all.push_str(if live.message_starts() { "/" } else { "" }),
                ("t+", id) => live.tool_started(id),
                ("t-", id) => {
                    all.extend(live.tool_ended(id).into_iter().chain([String::from("#")]).rev())
                }
                other => panic!("{other:?}"),
            }
        }
        all
    }

    #[test]
    fn each_word_is_shown_once_whoever_is_ahead() {
        for (steps, expected) in [
            (&["p:one ", "p:two", "w:one two"][..], "one two|"),
            (&["w:one two", "p:one ", "p:two", "p:next", "w:next"], "one two|next|"),
            (&["p:one ", "w:one two", "p:two", "p:next", "w:next"], "one two|next|"),
            (&["p:one ", "w:one two", "p:twonext", "w:next"], "one two|next|"),
            (&["w:one", "w:two", "p:two"], "one|two|"),
            (&["p:one ", "w:other"], "one ^other|"),
            (&["w:lost pieces", "p:next ", "w:next one"], "lost pieces|next one|"),
        ] {
            assert_eq!(shown(steps), expected, "{steps:?}");
        }
    }

    #[test]
    fn a_message_that_was_begun_anew_is_shown_anew() {
        for (steps, expected) in [
            (&["m:", "p:one", "m:", "w:one", "p:two", "w:two"][..], "one/|two|"),
            (&["m:", "p:one", "m:", "p:two", "w:one", "w:two"], "one/two||"),
            (
                &["m:", "p:hello wor", "m:", "p:hello world", "w:hello world"],
                "hello wor/hello world|",
            ),
            (&["m:", "p:ab", "w:a", "w:b"], "ab||"),
        ] {
            assert_eq!(shown(steps), expected, "{steps:?}");
        }
    }

    #[test]
    fn text_behind_a_tool_waits_for_its_result() {
        assert_eq!(shown(&["t+a", "p:do", "p:ne", "t-a", "p:.", "w:done."]), "#done.|");
        assert_eq!(shown(&["t+a", "t+b", "p:x", "t-a", "t-b", "w:xy"]), "##xy|");
        assert_eq!(shown(&["t+a", "p:x", "w:xy", "t-a", "p:y"]), "xy|#");
    }
}
