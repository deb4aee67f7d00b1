//! Live pieces of text beside the events that bring the same text whole. The two travel apart, so either may be ahead of the other; each word is
//! shown once.

use std::collections::BTreeSet;

/// What live pieces have shown, and what of them is still to come although it was shown already.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// Shown by pieces; its event has not come yet.
    ahead: String,
    /// Shown by an event; its pieces may still come.
    owed: String,
    /// Pieces that came while a tool ran: the text behind the tool's result.
    held: String,
    /// Tools that have not given their result yet.
    open_tools: BTreeSet<String>,
}

/// What to show of a text that came whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Whole {
    /// What its pieces lacked.
    Rest(String),
    /// All of it, on a line of its own: the pieces were of something else.
    Anew(String),
}

impl Live {
    /// Takes a piece; returns what of it to show now.
    pub(super) fn piece(&mut self, text: &str) -> Option<String> {
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
    pub(super) fn whole(&mut self, text: &str) -> Whole {
        let ahead = std::mem::take(&mut self.ahead);
        self.held.clear();
        match text.strip_prefix(ahead.as_str()) {
            Some(rest) => {
                self.owed = rest.to_owned();
                Whole::Rest(rest.to_owned())
            }
            None => {
                self.owed.clear();
                Whole::Anew(text.to_owned())
            }
        }
    }

    /// Notes that a tool runs.
    pub(super) fn tool_started(&mut self, id: &str) {
        self.open_tools.insert(id.to_owned());
    }

    /// Notes that a tool has given its result; returns the text that was held back for it.
    pub(super) fn tool_ended(&mut self, id: &str) -> Option<String> {
        self.open_tools.remove(id);
        if !self.open_tools.is_empty() || self.held.is_empty() {
            return None;
        }
        let held = std::mem::take(&mut self.held);
        self.ahead.push_str(&held);
        Some(held)
    }
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
                ("t+", id) => live.tool_started(id),
                ("t-", id) => all.extend(live.tool_ended(id).into_iter().chain([String::from("#")]).rev()),
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
    fn text_behind_a_tool_waits_for_its_result() {
        assert_eq!(shown(&["t+a", "p:do", "p:ne", "t-a", "p:.", "w:done."]), "#done.|");
        assert_eq!(shown(&["t+a", "t+b", "p:x", "t-a", "t-b", "w:xy"]), "##xy|");
        assert_eq!(shown(&["t+a", "p:x", "w:xy", "t-a", "p:y"]), "xy|#");
    }
}
