//! The names that one command prints and `xargs` gives to another: `find src -name '*.rs' | xargs
//! grep -l x`.
//!
//! A name is data of the project, and `xargs` makes arguments of it. So the first command may print
//! nothing but names below directories in which every name is harmless as an argument, those
//! between may only leave lines out, and the last may only show files.

use super::super::call::Call;
use super::super::known::{self, Effect};
use super::super::shell::{Simple, Word};
use super::show;

/// The most directories of one command that are looked through.
const MAX_STARTS: usize = 8;

/// Commands that print nothing but names, with the options that keep it so. One of the options with
/// a mark must be there. What starts with another character than a dash is an operand.
const LISTING: &[(&[&str], &[&str], &[&str])] = &[
    (
        &["find"],
        &[],
        &[
            "-name",
            "-iname",
            "-path",
            "-ipath",
            "-type",
            "-maxdepth",
            "-mindepth",
            "-not",
            "-o",
            "-a",
            "-print",
            "-print0",
            "-newer",
            "-size",
            "-empty",
            "-mtime",
            "-mmin",
        ],
    ),
    (&["fd"], &[], &["-e", "-t", "-g", "-H", "--extension", "--type", "--glob", "--hidden"]),
    (
        &["grep"],
        &["-l", "-rl", "-lr", "-rln", "-rli", "-ril", "-lri", "-rlE", "--files-with-matches"],
        &["-r", "-i", "-w", "-F", "-E", "--include", "--exclude", "--exclude-dir", "--recursive"],
    ),
    (
        &["rg"],
        &["-l", "-il", "-li", "-lw", "-wl", "--files-with-matches", "--files"],
        &["-i", "-w", "-F", "-g", "-t", "-e", "--glob", "--type", "--hidden", "--fixed-strings"],
    ),
    // Not `git ls-files`, which prints the names in the index: their files may be gone.
    (&["git", "grep"], &["-l", "-il", "-li", "--files-with-matches"], &["-i", "-w", "-F", "-E"]),
];

/// Commands that leave out some lines of their input and change none, with their options and the
/// number of their operands.
const SELECTING: &[(&str, &[&str], usize)] = &[
    ("head", &["-n"], 0),
    ("tail", &["-n"], 0),
    ("sort", &["-u", "-r"], 0),
    ("uniq", &[], 0),
    ("grep", &["-v", "-i", "-E", "-F", "-w", "-iv", "-vi", "-Ev", "-vE"], 1),
];

/// Checks that `xargs` can give a command nothing but the names of files inside the working
/// directory.
pub(super) fn check(
    names_from: &[&Simple],
    xargs: &[Word],
    run: &[Word],
    call: &Call<'_>,
) -> Result<(), String> {
    let unknown = || Err(format!("what `{}` would run cannot be seen", show(xargs)));
    let [first, between @ ..] = names_from else { return unknown() };
    let shows = known::entry_of(run).is_some_and(|entry| entry.effect == Effect::Shows);
    let is_git = run.first().and_then(Word::literal) == Some("git");
    if !shows || is_git || !known::takes_more_files(run, call) {
        return unknown();
    }
    let is_plain = |it: &&Simple| it.inputs.is_empty() && !it.prints_errors;
    if !names_from.iter().all(is_plain) || !between.iter().all(|it| selects(&it.words)) {
        return unknown();
    }
    let ends_names = has(&first.words, "-print0");
    if ends_names != has(xargs, "-0") || ends_names && !between.is_empty() {
        return unknown();
    }
    match listed(&first.words, call) {
        Some(starts) if starts.iter().all(|start| known::names_are_plain(start, call)) => Ok(()),
        Some(_) => Err(format!(
            "`{}` may print names that `{}` takes for something else",
            show(&first.words),
            show(xargs)
        )),
        None => unknown(),
    }
}

fn has(words: &[Word], option: &str) -> bool {
    words.iter().any(|word| word.literal() == Some(option))
}

/// Returns the directories below which a command lists names; `None` if it may print anything else.
fn listed<'w>(words: &'w [Word], call: &'w Call<'w>) -> Option<Vec<&'w str>> {
    let texts: Vec<&str> = words.iter().map(Word::literal).collect::<Option<_>>()?;
    let (names, required, options) = LISTING.iter().find(|(names, ..)| texts.starts_with(names))?;
    let given = texts.get(names.len()..)?;
    let name = |text: &&str| text.split('=').next().unwrap_or_default().to_owned();
    let is_known = |text: &&str| {
        !text.starts_with('-') || required.contains(text) || options.contains(&name(text).as_str())
    };
    if !given.iter().all(is_known)
        || !required.is_empty() && !given.iter().any(|text| required.contains(text))
    {
        return None;
    }
    let paths: Vec<&str> = match names {
        ["find"] => {
            given.iter().copied().take_while(|it| !it.starts_with(['-', '!', '('])).collect()
        }
        ["git", ..] => Vec::new(),
        _ => known::paths_of(words, call)?.into_iter().filter_map(Word::literal).collect(),
    };
    (paths.len() <= MAX_STARTS).then(|| if paths.is_empty() { vec!["."] } else { paths })
}

/// Says whether a command only leaves out lines of its input.
fn selects(words: &[Word]) -> bool {
    let Some(texts) = words.iter().map(Word::literal).collect::<Option<Vec<_>>>() else {
        return false;
    };
    let Some((program, given)) = texts.split_first() else { return false };
    let Some((_, options, operands)) = SELECTING.iter().find(|(it, ..)| it == program) else {
        return false;
    };
    let is_number = |text: &str| {
        let digits = text.trim_start_matches(['-', '+', 'n']);
        !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit())
    };
    let is_lines = |text: &&&str| matches!(*program, "head" | "tail") && is_number(text);
    let others: Vec<_> =
        given.iter().filter(|it| !options.contains(*it) && !is_lines(it)).collect();
    others.len() <= *operands && others.iter().all(|it| !it.starts_with('-'))
}
