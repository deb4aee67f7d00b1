//! Live text of a run: shown before the event that it becomes is stored, and never twice.
//!
//! A stretch of lines may hold several texts. The pieces before its first whole text are shown
//! before the commit, those after its last one after it. Those in between are not shown: the text
//! that they are pieces of is stored by the same commit.

use plexus_store::{Change, Cursor, JournalPosition, Outcome};

use super::Run;

/// What a line of the journal means to live watchers.
pub(super) enum Piece {
    /// A message begins.
    MessageStart,
    /// A piece of text.
    Text(String),
    /// A text has ended.
    TextEnd,
    /// A whole text, which is stored as an event.
    Whole,
}

/// The live text of a stretch, each piece with the position of its line.
#[derive(Default)]
pub(super) struct Pieces(Vec<(JournalPosition, Piece)>);

impl Pieces {
    pub(super) fn push(&mut self, at: JournalPosition, piece: Piece) {
        self.0.push((at, piece));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Splits it: before the first whole text, between, after the last.
    fn split(self) -> [Vec<(JournalPosition, Piece)>; 3] {
        let is_whole = |(_, piece): &(_, Piece)| matches!(piece, Piece::Whole);
        let mut before = self.0;
        let Some(first) = before.iter().position(is_whole) else {
            return [before, Vec::new(), Vec::new()];
        };
        let mut between = before.split_off(first);
        let last = between.iter().rposition(is_whole).unwrap_or_default();
        let after = between.split_off(last + 1);
        [before, between, after]
    }
}

/// What is left to show once the stretch is stored.
pub(super) struct ShowAfter {
    between: Vec<(JournalPosition, Piece)>,
    after: Vec<(JournalPosition, Piece)>,
}

impl Run {
    /// Shows what comes before the events of a stretch; the rest is for after its commit.
    pub(super) fn show_before(&mut self, pieces: Pieces) -> ShowAfter {
        let [before, between, after] = pieces.split();
        self.show(before, true);
        ShowAfter { between, after }
    }

    /// Shows what comes after the events of a stretch, which is stored.
    pub(super) fn show_after(&mut self, rest: ShowAfter) {
        self.show(rest.between, false);
        self.show(rest.after, true);
    }

    /// Passes pieces on. A stretch that is planned again brings pieces that were shown already.
    fn show(&mut self, pieces: Vec<(JournalPosition, Piece)>, shown: bool) {
        for (at, piece) in pieces {
            if self.shown_to.is_some_and(|to| at <= to) {
                continue;
            }
            self.shown_to = Some(at);
            match piece {
                Piece::MessageStart if shown => self.deltas.start_message(),
                Piece::Text(text) if shown => self.deltas.send(&text),
                // Also what is not shown: a token may begin in one piece and end in another.
                Piece::Text(text) => self.deltas.pass_over(&text),
                Piece::MessageStart | Piece::TextEnd => self.deltas.end_text(),
                Piece::Whole => self.deltas.became_event(),
            }
        }
    }

    /// Says which of these changes append to a chat of this session.
    pub(super) fn appending(&self, changes: &[Change]) -> Vec<Option<u32>> {
        let ours = |session| session == self.key.session;
        let chat = |change: &Change| match change {
            Change::AppendEvents(append) if ours(append.session) => Some(append.chat),
            Change::EndChat(end) if ours(end.session) => Some(end.chat),
            _ => None,
        };
        changes.iter().map(chat).collect()
    }

    /// Tells the watchers how far the chat is stored, after the commit.
    pub(super) fn show_stored(&self, chats: &[Option<u32>], outcomes: &[Outcome]) {
        let stored = chats.iter().zip(outcomes).filter_map(|(chat, outcome)| match outcome {
            Outcome::Events { first_seq, count } => chat.map(|chat| Cursor {
                session: self.key.session,
                chat,
                next: first_seq.saturating_add(*count),
            }),
            _ => None,
        });
        if let Some(before) = stored.max() {
            self.deltas.stored(before);
        }
    }
}
