//! Quoted text that the parser need not see: the insides of single quotes, and here-documents that
//! are plain text, as agents write the message of a commit: `"$(cat <<'EOF' … EOF)"`.
//!
//! Each is replaced by a single word before the parser sees the command, because the parser cannot
//! be trusted with here-documents, and because prose and regular expressions would look like nested
//! constructs. Where the state of the quotes is not known the rest of the command stays as it is,
//! and [`gate`](super::gate) refuses a here-document in it.

/// Stands around a lifted text. The gate refuses commands with this character.
const MARK: char = '\u{1}';

/// The beginning of the form.
const START: &str = "\"$(cat <<";

/// Replaces the quoted texts of a command, and returns how many here-documents were among them.
pub(super) fn lift(text: &str) -> (String, usize) {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut count = 0;
    while let Some((piece, after)) = plain_piece(rest) {
        let quoted = piece.strip_prefix('\'').and_then(|it| it.strip_suffix('\''));
        if piece.is_empty() {
            let Some((body, after)) = here_document(rest) else { break };
            out.push_str(&word_of(&body));
            count += 1;
            rest = after;
        } else {
            match quoted.filter(|inside| looks_nested(inside)) {
                Some(inside) => out.push_str(&word_of(inside)),
                None => out.push_str(piece),
            }
            rest = after;
        }
    }
    out.push_str(rest);
    (out, count)
}

/// Says whether the parser, or what counts before it, may see a construct in a text.
fn looks_nested(text: &str) -> bool {
    text.contains(|c: char| "(){}[`$<".contains(c))
        || ["if", "while", "until", "for", "select", "case", "coproc", "function"]
            .iter()
            .any(|word| text.contains(word))
}

/// Returns the text that a word stands for, if [`lift`] made it.
pub(super) fn text_of(quoted: &str) -> Option<String> {
    let digits = quoted.strip_prefix(MARK)?.strip_suffix(MARK)?;
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
    String::from_utf8(bytes?).ok()
}

/// Puts the texts back that [`lift`] has replaced.
pub(super) fn restore(text: &str) -> String {
    let mut out = String::new();
    for (place, part) in text.split(MARK).enumerate() {
        let marked = format!("{MARK}{part}{MARK}");
        match text_of(&marked).filter(|_| place % 2 == 1) {
            // As a shell would quote it.
            Some(body) => out.push_str(&body.replace('\'', r"'\''")),
            None => out.push_str(part),
        }
    }
    out
}

/// Returns a quoted word in which no parser finds anything.
fn word_of(text: &str) -> String {
    let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("'{MARK}{digits}{MARK}'")
}

/// Splits off the beginning of a text up to the next here-document, quote or end of a word. The
/// first part is empty where a here-document may begin. `None` where the state of the quotes is not
/// known.
fn plain_piece(text: &str) -> Option<(&str, &str)> {
    if text.starts_with(START) {
        return Some(("", text));
    }
    let mut characters = text.char_indices();
    let (_, first) = characters.next()?;
    let end = match first {
        '\'' => text.get(1..)?.find('\'')? + 2,
        '"' => end_of_double_quotes(text)?,
        '\\' => 1 + text.get(1..)?.chars().next()?.len_utf8(),
        '$' => match characters.next()?.1 {
            c if c.is_ascii_alphanumeric() || matches!(c, '_' | '?') => 2,
            _ => return None,
        },
        // The rest of the line may be a comment.
        '#' | '`' => return None,
        '<' if text.get(1..)?.starts_with(['<', '(']) => return None,
        '>' if text.get(1..)?.starts_with('(') => return None,
        c => c.len_utf8(),
    };
    Some((text.get(..end)?, text.get(end..)?))
}

/// Returns where a text in double quotes ends that holds no substitution.
fn end_of_double_quotes(text: &str) -> Option<usize> {
    let mut characters = text.char_indices().skip(1);
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Some(at + 1),
            '\\' => {
                characters.next()?;
            }
            '`' => return None,
            '$' if text.get(at + 1..)?.starts_with(['(', '{', '[']) => return None,
            _ => {}
        }
    }
    None
}

/// Reads the form at the beginning of a text, and returns what `cat` prints, as the shell takes it,
/// and what follows.
fn here_document(text: &str) -> Option<(String, &str)> {
    let after = text.strip_prefix(START)?;
    let (first, lines) = after.split_once('\n')?;
    let quotes = [("'", "'"), ("\"", "\""), ("", "")];
    let delimiter = quotes.iter().find_map(|(open, close)| {
        let name = first.strip_prefix(open)?.strip_suffix(close)?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        (!name.is_empty() && name.chars().all(is_name)).then_some(name)
    })?;
    let mut body_end = 0;
    let line = loop {
        let line = lines.get(body_end..)?.split('\n').next()?;
        if line == delimiter {
            break line;
        }
        body_end += line.len() + 1;
    };
    let body = lines.get(..body_end)?;
    let is_expanded = first == delimiter;
    if is_expanded && body.contains(['$', '`', '\\']) {
        return None;
    }
    let end = lines.get(body_end + line.len()..)?.strip_prefix('\n')?;
    let rest = end.trim_start_matches([' ', '\t', '\n']).strip_prefix(")\"")?;
    // Old shells look for the end of a substitution by counting parentheses and quotes.
    let end = text.len() - rest.len() - 1;
    let agrees = |found: Option<usize>| found.is_none_or(|found| found == end);
    (agrees(counted_end(text, false)) && agrees(counted_end(text, true)))
        .then(|| (body.trim_end_matches('\n').to_owned(), rest))
}

/// Returns where a shell that counts parentheses and quotes finds the end of the substitution at
/// the beginning of a text: the position after its `)`. `None` if it finds none, which is a syntax
/// error.
fn counted_end(text: &str, knows_comments: bool) -> Option<usize> {
    let mut depth = 0_usize;
    let mut previous = ' ';
    let mut characters = text.char_indices().skip(1);
    while let Some((at, c)) = characters.next() {
        match c {
            '(' => depth += 1,
            ')' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            '\\' => {
                characters.next()?;
            }
            '\'' | '"' | '`' => loop {
                match characters.next()?.1 {
                    close if close == c => break,
                    '\\' if c != '\'' => {
                        characters.next()?;
                    }
                    _ => {}
                }
            },
            '#' if knows_comments && previous.is_whitespace() => {
                while characters.next()?.1 != '\n' {}
            }
            _ => {}
        }
        previous = c;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifted(text: &str) -> Option<String> {
        let (out, count) = lift(text);
        assert_eq!(count, 1, "{text}");
        let start = out.find(MARK)?;
        let end = out.get(start + 1..)?.find(MARK)? + start + 2;
        text_of(out.get(start..end)?)
    }

    #[test]
    fn the_text_of_a_plain_here_document_is_known() {
        for (command, text) in [
            ("git commit -m \"$(cat <<'EOF'\nfix: a\n\nb\nEOF\n)\"", "fix: a\n\nb"),
            ("x 'a' \"b\" && y -m \"$(cat <<'E'\ndon't (see #1)\nE\n)\" && z", "don't (see #1)"),
            ("x \"$(cat <<EOF\nplain\nEOF\n  )\"", "plain"),
            ("x \"$(cat <<\"EOF\"\n`a` and $b\nEOF\n)\"", "`a` and $b"),
        ] {
            assert_eq!(lifted(command).as_deref(), Some(text), "{command}");
        }
    }

    #[test]
    fn a_text_in_single_quotes_is_hidden_from_the_parser() {
        let text = "sed -E 's/((a))/b/' f && git commit -m 'if (' x";
        let (out, count) = lift(text);
        assert_eq!((restore(&out).as_str(), count), (text, 0));
        assert!(!out.contains("((") && !out.contains("if"), "{out}");
        for text in ["x # don't ((", "x $'((' y", "x \\'((", "x \"'\" (("] {
            assert_eq!(lift(text).0, text);
        }
    }

    #[test]
    fn a_here_document_that_shells_may_read_differently_stays() {
        for command in [
            "x \"$(cat <<EOF\n$(evil)\nEOF\n)\"",
            "x \"$(cat <<EOF\n`evil`\nEOF\n)\"",
            "x \"$(cat <<EOF\n\\\nEOF\n)\"",
            "x \"$(cat <<'EOF'\n)\"; evil; \"$(\nEOF\n)\"",
            "x \"$(cat <<'EOF'\n'(' ) \"; evil; \"\nEOF\n)\"",
            "x \"$(cat <<'EOF'\ndon't\nEOF\n)\" && echo 'x) \"; evil; \"'",
            "x \"$(cat <<'EOF'\nEOF)\"; evil \"\nEOF\n)\"",
            "x \"$(cat <<'EOF'; evil\na\nEOF\n)\"",
            "x \"$(cat <<'EOF' f\na\nEOF\n)\"",
            "x \"$(cat <<'EOF'\na\nEOF\nevil)\"",
            "x \"$(cat <<'EOF'\na\nEOF\n)$(evil)\"'",
            "x '\"$(cat <<'EOF'\na\nEOF\n)\"; evil'",
            "x \"`a`\" \"$(cat <<'EOF'\na\nEOF\n)\"",
            "x # \"$(cat <<'EOF'\na\nEOF\n)\"",
            "x \"a $(cat <<'EOF'\na\nEOF\n)\"",
            "x $(cat <<'EOF'\na\nEOF\n)",
            "x <<'EOF'\n\"$(cat <<'E'\na\nE\n)\"\nEOF",
            "x \"$(cat <<-'EOF'\na\nEOF\n)\"",
        ] {
            let (out, count) = lift(command);
            assert_eq!((restore(&out).as_str(), count), (command, 0));
            assert!(out.contains("<<") || command.contains("'\"$"), "{command}");
        }
    }
}
