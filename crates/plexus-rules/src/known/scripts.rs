//! The programs for sed, awk and jq that only print: they run no command, write no file, and read
//! only the files that the command line names.

/// Words with which an awk program runs, reads or writes something else, or sees the environment.
const AWK_REACHES: &[&str] =
    &["system", "getline", "close", "ARGV", "ARGC", "ENVIRON", "PROCINFO", "SYMTAB", "FUNCTAB"];

/// Words with which a jq program reads other files or the environment.
const JQ_REACHES: &[&str] =
    &["import", "include", "modulemeta", "env", "ENV", "get_search_list", "input_filename"];

/// Says whether an awk program only prints.
pub(crate) fn is_plain_awk(program: &str) -> bool {
    // Without `getline`, `<` only compares.
    let pipes = program.replace("||", "").contains('|');
    !pipes
        && !program.contains('@')
        && (!program.contains('>') || only_compares(program))
        && !names_one_of(program, AWK_REACHES)
}

/// Says whether each `>` of an awk program compares. In an action it redirects what is printed,
/// unless it is in parentheses, and whether a `/` divides or begins an expression is hard to tell.
fn only_compares(program: &str) -> bool {
    if program.split_once('{').is_none_or(|(_, actions)| !actions.contains('>')) {
        // Each stands before the first action, where nothing is printed.
        return true;
    }
    if program.contains(['/', '#', '\\']) {
        return false;
    }
    let mut depth = 0_usize;
    for (place, part) in program.split('"').enumerate() {
        // The text between two quotes.
        if place % 2 == 1 {
            if part.contains(['(', ')', '\n']) {
                return false;
            }
            continue;
        }
        let is_in_pattern = |at: usize| place == 0 && !part.get(..at).unwrap_or("{").contains('{');
        for (at, c) in part.char_indices() {
            match c {
                '(' => depth += 1,
                ')' if depth == 0 => return false,
                ')' => depth -= 1,
                '>' if depth == 0 && !is_in_pattern(at) => return false,
                _ => {}
            }
        }
    }
    true
}

/// Says whether a jq program only prints.
pub(super) fn is_plain_jq(program: &str) -> bool {
    !names_one_of(program, JQ_REACHES) && !program.contains("$__")
}

/// Says whether a format of `printf` sets no variable, as `%n` does in some shells.
pub(super) fn is_plain_printf(format: &str) -> bool {
    let mut fields = format.split('%').skip(1);
    while let Some(field) = fields.next() {
        // `%%` shows a percent sign, and what follows it is text.
        if field.is_empty() {
            fields.next();
            continue;
        }
        let between = |c: char| c.is_ascii_digit() || "-+ #0'.*hlLqjztw$".contains(c);
        if field.trim_start_matches(between).starts_with('n') {
            return false;
        }
    }
    true
}

fn names_one_of(program: &str, words: &[&str]) -> bool {
    program
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .any(|word| words.contains(&word))
}

/// Says whether a sed script only prints: commands with addresses, separated by `;`, each one of `p
/// d q = n N D P h H g G x l`, or an `s` whose flags neither run nor write.
pub(crate) fn is_plain_sed(script: &str) -> bool {
    if script.is_empty() || script.contains(['\n', '{', '}']) {
        return false;
    }
    let mut rest = script;
    loop {
        match command(rest.trim_start_matches([' ', ';'])) {
            Some("") => return true,
            Some(after) => rest = after,
            None => return false,
        }
    }
}

/// Reads one command and returns the text after it, or `None` when the command is not plain.
fn command(text: &str) -> Option<&str> {
    if text.is_empty() {
        return Some(text);
    }
    let mut rest = address(text)?;
    if let Some(after) = rest.strip_prefix(',') {
        let second = after.strip_prefix(['+', '~']).unwrap_or(after);
        rest = address(second)?;
        // A comma without a second address.
        if rest.len() == second.len() {
            return None;
        }
    }
    rest = rest.trim_start_matches([' ', '!']);
    let name = rest.chars().next()?;
    let after = rest.get(1..)?;
    let after = match name {
        's' => substitution(after)?,
        'q' => after.trim_start_matches(|c: char| c.is_ascii_digit()),
        'p' | 'd' | '=' | 'n' | 'N' | 'D' | 'P' | 'h' | 'H' | 'g' | 'G' | 'x' | 'l' => after,
        _ => return None,
    };
    let after = after.trim_start_matches(' ');
    (after.is_empty() || after.starts_with(';')).then_some(after)
}

/// Reads an address, if there is one: a line, `first~step`, `$` or `/…/`.
fn address(text: &str) -> Option<&str> {
    if let Some(after) = text.strip_prefix('$') {
        return Some(after);
    }
    if let Some(after) = text.strip_prefix('/') {
        let after = up_to('/', after)?;
        return Some(after.strip_prefix('I').unwrap_or(after));
    }
    let after = text.trim_start_matches(|c: char| c.is_ascii_digit());
    match after.strip_prefix('~').filter(|_| after.len() < text.len()) {
        Some(step) => Some(step.trim_start_matches(|c: char| c.is_ascii_digit())),
        None => Some(after),
    }
}

/// Reads `/…/…/flags` after the `s`.
fn substitution(text: &str) -> Option<&str> {
    let delimiter =
        text.chars().next().filter(|c| matches!(c, '/' | '|' | '#' | ',' | ':' | '!'))?;
    let rest = up_to(delimiter, text.get(1..)?)?;
    let rest = up_to(delimiter, rest)?;
    Some(
        rest.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, 'g' | 'p' | 'I' | 'i')),
    )
}

/// Returns the text after the closing delimiter. Brackets whose end is not plain to see make the
/// text not plain, and so does a delimiter inside brackets: programs disagree on how to read them.
fn up_to(delimiter: char, text: &str) -> Option<&str> {
    let mut characters = text.char_indices();
    let mut bracket = false;
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => {
                characters.next()?;
            }
            // A `[` within brackets may begin a class such as `[:alpha:]`, which holds a `]`.
            '[' if bracket => return None,
            '[' => {
                let inside = text.get(at + 1..)?;
                // The first character does not end the brackets: `[]` and `[^]` go on.
                if inside.strip_prefix('^').unwrap_or(inside).starts_with(']') {
                    return None;
                }
                bracket = true;
            }
            ']' => bracket = false,
            c if c == delimiter => return (!bracket).then(|| text.get(at + 1..)).flatten(),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_sed_script_shows_and_nothing_else() {
        for script in [
            "5p",
            "1,10p",
            "$p",
            "$!d",
            "/a/p",
            "/a/,/b/d",
            "/a/I,+3p",
            "2~3p",
            "s/a/b/",
            "s/a/b/gp2",
            "s|a|b|",
            "s/a\\/b/c/",
            "1d;2d",
            "1p; s/[ab]/c/g",
            "q",
            "5q",
            "=",
            "/x/!d",
            "N;P;D",
            "s/e/w/",
        ] {
            assert!(is_plain_sed(script), "{script}");
        }
        for script in [
            "",
            "1e",
            "1e touch X",
            "e",
            "s/a/b/e",
            "s/a/b/w f",
            "s/a/b/ge",
            "w f",
            "r /etc/passwd",
            "R f",
            "W f",
            "s/[/]/b/e",
            "s/[]/x/;s#]/;touch X;/e#z#",
            "s/[^]/x/;s#]/;touch X;/e#z#",
            "s/[[:]/x/;s#:]]/;touch X;/e#z#",
            "/[]/p;s#]/w f;p#z#",
            "5p\n1e x",
            "{p}",
            "a text",
            "1!e x",
            "s/a/b",
            "s/a/b/m",
            "y/a/b/",
            "p e",
            "1,p",
            "s a b ",
            "sxaxbxe",
            "/a/e touch X",
            "/a/w f",
            "0~3e",
            "p;e",
            "b",
            ":a",
            "t",
        ] {
            assert!(!is_plain_sed(script), "{script}");
        }
    }

    #[test]
    fn a_plain_awk_or_jq_program_reaches_nothing() {
        for program in [
            "{print $1}",
            "/x/",
            "NR==3 {print $2, $3}",
            "BEGIN{FS=\":\"} {print $1}",
            "{s+=$1} END{print s}",
            "$3 > 100 {print $1}",
            "NR>=10 && NR<=20",
            "/x/ && $2 > 5 {print}",
            "$2 < 5 || $2 == 7 {n++}",
            "{ if ($1 > 3) print $2 }",
            "NR > 1 { if ((a > b) && x) print \"y\" }",
        ] {
            assert!(is_plain_awk(program), "{program}");
        }
        for program in [
            "BEGIN{system(\"x\")}",
            "{print > \"f\"}",
            "{print(1) > \"f\"}",
            "{print \"(\" > \"f\"}",
            "{print \")\" (1 > \"f\"}",
            "{ # (\nprint > \"f\" }",
            "{print a/1 ~ /(/ /1 > \"f\"}",
            "{print \"\\\"(\" > \"f\"}",
            "$1 > 1 {print > \"f\"}",
            "END{print}\n$1 > 1 {print > \"f\"}",
            "{print || \"sh\" | \"sh\"}",
            "{print ||| \"sh\"}",
            "{print | \"sh\"}",
            "{getline x < \"f\"}",
            "@load \"x\"",
            "BEGIN{ARGV[1]=\"f\"}",
            "{print ENVIRON[\"X\"]}",
            "BEGIN{f=\"sys\" \"tem\"; @f(\"x\")}",
        ] {
            assert!(!is_plain_awk(program), "{program}");
        }
        assert!(is_plain_jq(".a[] | {b, c: .d} | select(.b > 1)"));
        for program in ["env", "$ENV.X", "import \"a\" as a; .", "include \"a\"; .", "$__loc__"] {
            assert!(!is_plain_jq(program), "{program}");
        }
    }
}
