//! Text from an agent, made safe to show: nothing in it can move the cursor, colour, ring, retitle
//! or otherwise control a terminal.
//!
//! Every control character is drawn as a visible one from Unicode's "Control Pictures", so an
//! escape sequence becomes plain text. Marks that are invisible or turn the direction of writing
//! are drawn as `\u{…}`: what a person approves must look like what it is.

use std::borrow::Cow;

/// Makes text of several lines safe: newlines and tabs stay.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    clean(text, |c| c == '\n' || c == '\t')
}

/// Makes text safe and keeps it on one line: newlines are drawn too.
#[must_use]
pub fn one_line(text: &str) -> Cow<'_, str> {
    clean(text, |_| false)
}

fn clean(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    if text.chars().all(|c| keep(c) || !must_be_drawn(c)) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            c if keep(c) => safe.push(c),
            // A line end of another system is a line end.
            '\r' if rest.peek() == Some(&'\n') && keep('\n') => {}
            c if must_be_drawn(c) => draw(c, &mut safe),
            c => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

fn must_be_drawn(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{061c}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

fn draw(c: char, into: &mut String) {
    let code = u32::from(c);
    let picture = match code {
        0..=0x1f => char::from_u32(0x2400 + code),
        0x7f => Some('\u{2421}'),
        _ => None,
    };
    match picture {
        Some(picture) => into.push(picture),
        None => into.extend(c.escape_unicode()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_control_sequences_become_visible_text() {
        for (from, to) in [
            ("plain\ttext\nand more", "plain\ttext\nand more"),
            ("\u{1b}[2J\u{1b}[H", "␛[2J␛[H"),
            ("\u{1b}]0;title\u{7}", "␛]0;title␇"),
            ("\u{1b}]52;c;aGk=\u{1b}\\", "␛]52;c;aGk=␛\\"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("safe\rEVIL", "safe␍EVIL"),
            ("a\r\nb", "a\nb"),
            ("a\u{8}b\u{7f}\0", "a␈b␡␀"),
            ("rm\u{202e}txt.exe", "rm\\u{202e}txt.exe"),
            ("zero\u{200b}width", "zero\\u{200b}width"),
            ("äöü 漢字 🎉", "äöü 漢字 🎉"),
        ] {
            assert_eq!(text(from), to);
        }
        assert_eq!(one_line("a\nb\tc\r\n"), "a␊b␉c␍␊");
    }

    #[test]
    fn nothing_below_space_survives() {
        let all: String = (0..0x300).filter_map(char::from_u32).collect();
        assert!(text(&all).chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
        assert!(one_line(&all).chars().all(|c| !c.is_control()));
    }
}
