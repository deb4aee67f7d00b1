//! One line as it is typed: what each key does to it, and what that shows. Pure, so that a table
//! can test it.

/// The longest line; a person types less.
const MAX_LINE_BYTES: usize = 64 * 1024;

const BACKSPACE: u8 = 0x08;
const CTRL_D: u8 = 0x04;
const CTRL_U: u8 = 0x15;
const CTRL_W: u8 = 0x17;
const CTRL_Z: u8 = 0x1a;
const ESCAPE: u8 = 0x1b;
const DELETE: u8 = 0x7f;

/// What typing means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Typed {
    /// The line has changed; this text shows how.
    Shown(String),
    /// A whole line, without spaces around it.
    Line(String),
    /// Ctrl-D on an empty line, or the terminal has gone.
    End,
    /// Ctrl-Z: leave, and let the agent go on.
    Leave,
}

/// A line that is being typed.
#[derive(Debug, Default)]
pub(super) struct Line {
    text: String,
    /// The first bytes of a character.
    part: Vec<u8>,
    escape: Escape,
}

/// How far an escape sequence is: an arrow or another key without a meaning here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Escape {
    #[default]
    None,
    Begun,
    Sequence,
}

impl Line {
    /// Takes a byte of a key.
    pub(super) fn take(&mut self, byte: u8) -> Option<Typed> {
        match (self.escape, byte) {
            (Escape::None, ESCAPE) => {
                self.escape = Escape::Begun;
                return None;
            }
            (Escape::None, _) => {}
            (Escape::Begun, b'[' | b'O') => {
                self.escape = Escape::Sequence;
                return None;
            }
            (Escape::Sequence, 0x20..=0x3f) => return None,
            (Escape::Begun | Escape::Sequence, _) => {
                self.escape = Escape::None;
                return None;
            }
        }
        match byte {
            b'\r' | b'\n' => {
                self.part.clear();
                Some(Typed::Line(std::mem::take(&mut self.text).trim().to_owned()))
            }
            CTRL_D if self.text.is_empty() => Some(Typed::End),
            CTRL_Z => Some(Typed::Leave),
            BACKSPACE | DELETE => self.cut_to(self.text.chars().count().saturating_sub(1)),
            CTRL_U => self.cut_to(0),
            CTRL_W => {
                let kept = self.text.trim_end();
                let kept = kept.rfind(' ').map_or("", |space| &kept[..=space]);
                self.cut_to(kept.chars().count())
            }
            b'\t' => self.push(' '),
            0..0x20 => None,
            byte => {
                self.part.push(byte);
                match std::str::from_utf8(&self.part) {
                    Ok(text) => {
                        let typed = text.chars().next();
                        self.part.clear();
                        typed.filter(|c| !c.is_control()).and_then(|c| self.push(c))
                    }
                    // It is a beginning.
                    Err(error) if error.error_len().is_none() => None,
                    Err(_) => {
                        self.part.clear();
                        None
                    }
                }
            }
        }
    }

    fn push(&mut self, c: char) -> Option<Typed> {
        if self.text.len() >= MAX_LINE_BYTES {
            return None;
        }
        self.text.push(c);
        Some(Typed::Shown(c.to_string()))
    }

    /// Leaves only so many characters, and goes back over the others.
    fn cut_to(&mut self, count: usize) -> Option<Typed> {
        let gone = self.text.chars().count() - count;
        self.text = self.text.chars().take(count).collect();
        (gone > 0).then(|| Typed::Shown("\u{8} \u{8}".repeat(gone)))
    }

    /// Whether nothing is typed.
    pub(super) fn is_blank(&self) -> bool {
        self.text.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types, and returns the lines and everything that was shown.
    fn typed(keys: &[u8]) -> (Vec<Typed>, String) {
        let mut line = Line::default();
        let mut shown = String::new();
        let mut lines = Vec::new();
        for byte in keys {
            match line.take(*byte) {
                Some(Typed::Shown(text)) => shown.push_str(&text),
                Some(other) => lines.push(other),
                None => {}
            }
        }
        (lines, shown)
    }

    #[test]
    fn keys_make_a_line() {
        let back = "\u{8} \u{8}";
        for (keys, lines, shown) in [
            (&b" yes \r"[..], vec!["yes"], " yes ".to_owned()),
            (b"a\nb\n", vec!["a", "b"], "ab".to_owned()),
            (b"ab\x7f\x08\x08c\n", vec!["c"], format!("ab{back}{back}c")),
            (b"one two\x17x\n", vec!["one x"], format!("one two{}x", back.repeat(3))),
            (b"one\x15two\n", vec!["two"], format!("one{}two", back.repeat(3))),
            ("ä漢\u{7f}\n".as_bytes(), vec!["ä"], format!("ä漢{back}")),
            (b"\x1b[Aa\x1b[1;5Db\x1bOc\n", vec!["ab"], "ab".to_owned()),
            (b"\xff\x07a\tb\n", vec!["a b"], "a b".to_owned()),
            (b"a\x04\n", vec!["a"], "a".to_owned()),
        ] {
            let lines = lines.into_iter().map(|line| Typed::Line(line.into())).collect();
            assert_eq!(typed(keys), (lines, shown), "{keys:?}");
        }
    }

    #[test]
    fn two_keys_leave() {
        assert_eq!(typed(b"\x04").0, [Typed::End]);
        assert_eq!(typed(b"half\x1a").0, [Typed::Leave]);
    }

    #[test]
    fn a_line_has_an_end() {
        let long = vec![b'x'; MAX_LINE_BYTES + 10];
        let (_, shown) = typed(&long);
        assert_eq!(shown.len(), MAX_LINE_BYTES);
    }
}
