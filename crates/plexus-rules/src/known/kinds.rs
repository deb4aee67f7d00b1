//! Kinds of arguments. The tables write each kind by its name in capitals.

use super::git;
use super::places::{is_file, is_folder, is_inside, is_module, is_writable, pattern_stays_inside};
use super::scripts::{is_plain_awk, is_plain_jq, is_plain_printf, is_plain_sed};
use super::trees::leads_nowhere_else;
use crate::call::Call;
use crate::shell::Word;

/// A kind of argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Any text: the program shows it or searches for it.
    Text,
    /// A whole number, perhaps with a sign.
    Num,
    /// A name without slashes, spaces and `=`: a make target, a package, a colour.
    Word,
    /// Text in which no shell builtin finds anything to evaluate.
    Plain,
    /// A format for `printf` that sets no variable.
    Printf,
    /// A file or directory that is read, inside the working directory.
    Read,
    /// The same for programs to which `host:file`, `@file` or a file pattern mean something.
    File,
    /// A file that is read, but not a directory: a program that reads a directory's contents would
    /// follow the links in it.
    Leaf,
    /// A directory that is read. It must be there: the name could mean something else otherwise.
    Folder,
    /// A directory that is read with all that is in it, through the links there.
    Tree,
    /// `/dev/null`.
    Nowhere,
    /// A report of `curl -w` that neither comes from a file nor goes to one.
    Report,
    /// A file and perhaps a part of it: `tests/test_a.py::test_b`.
    Node,
    /// A Python module of the project, and perhaps a part of it: `tests.test_a.TestB`. Any other
    /// module may do something when it is loaded, or have a function that reads commands.
    Module,
    /// A file or directory that is written, inside the working directory, and that other programs
    /// do not obey.
    Write,
    /// The same, and no directory.
    Output,
    /// A pathspec of git that leads to nothing outside the working directory.
    Pathspec,
    /// A revision of git, or a pathspec where either may stand, that names no path outside the
    /// working directory.
    Revision,
    /// The same where a tree would be compared with the whole repository: a revision with a path
    /// only at the top.
    Commit,
    /// Lines of a file that `git log -L` follows: `1,5:src/x`.
    Lines,
    /// A git name: a branch, a tag, a commit.
    Ref,
    /// Names of git or a pattern for them: anything that holds no path.
    Refs,
    /// A git remote by its name. A name that is also a path could be a repository with its own
    /// hooks.
    Remote,
    /// A git format that does not check signatures: checking starts another program.
    Format,
    /// What git sorts by, unless that is a signature, which it would check.
    Key,
    /// A web address.
    Url,
    /// An HTTP header; `@file` would be read from a file.
    Header,
    /// A `+FORMAT` of `date`; another operand would set the clock.
    Date,
    /// A program for sed, awk or jq that only prints.
    Sed,
    Awk,
    Jq,
    /// A variable for awk, in lower case: those in capitals change what awk reads.
    AwkVar,
}

impl Kind {
    pub(super) fn of(name: &str) -> Result<Self, String> {
        Ok(match name {
            "TEXT" => Self::Text,
            "NUM" => Self::Num,
            "WORD" => Self::Word,
            "PLAIN" => Self::Plain,
            "PRINTF" => Self::Printf,
            "READ" => Self::Read,
            "FILE" => Self::File,
            "LEAF" => Self::Leaf,
            "FOLDER" => Self::Folder,
            "TREE" => Self::Tree,
            "NOWHERE" => Self::Nowhere,
            "REPORT" => Self::Report,
            "NODE" => Self::Node,
            "MODULE" => Self::Module,
            "WRITE" => Self::Write,
            "PATHSPEC" => Self::Pathspec,
            "REVISION" => Self::Revision,
            "COMMIT" => Self::Commit,
            "LINES" => Self::Lines,
            "OUTPUT" => Self::Output,
            "REF" => Self::Ref,
            "REFS" => Self::Refs,
            "REMOTE" => Self::Remote,
            "FORMAT" => Self::Format,
            "KEY" => Self::Key,
            "URL" => Self::Url,
            "HEADER" => Self::Header,
            "DATE" => Self::Date,
            "SED" => Self::Sed,
            "AWK" => Self::Awk,
            "JQ" => Self::Jq,
            "AWKVAR" => Self::AwkVar,
            _ => return Err(format!("`{name}` is not a kind")),
        })
    }

    /// Says whether this is a pathspec that only leaves something out.
    pub(super) fn excludes(self, text: &str) -> bool {
        matches!(self, Self::Pathspec | Self::Revision | Self::Commit) && git::excludes(text)
    }

    /// Says whether an operand of this kind, or with this text, can only be a path.
    pub(super) fn is_path(self, text: Option<&str>) -> bool {
        let here = |text: &str| text == "." || text.starts_with("./");
        match self {
            Self::Pathspec => true,
            Self::Revision | Self::Commit => text.is_some_and(here),
            _ => false,
        }
    }

    /// Says whether a word used as an operand is of this kind, and stays so however the shell
    /// expands it.
    pub(super) fn takes_operand(self, word: &Word, call: &Call<'_>) -> bool {
        match word {
            Word::Literal(text) => self.takes(text, call),
            Word::Home { rest, .. } => match (self, call.home.and_then(|home| home.to_str())) {
                (
                    Self::Read | Self::Text | Self::Pathspec | Self::Revision | Self::Commit,
                    Some(home),
                ) => self.takes(&format!("{home}/{rest}"), call),
                _ => false,
            },
            // A program that only shows the names would show those of other directories.
            Word::Glob { marked, .. } => match self {
                Self::Text | Self::Read => pattern_stays_inside(marked, call),
                Self::Pathspec | Self::Revision | Self::Commit => {
                    git::is_pattern_inside(marked, call)
                }
                _ => false,
            },
            Word::Text { .. } => self == Self::Text,
            Word::Opaque(_) => false,
        }
    }

    /// Says whether it may be the path of a file or a directory.
    pub(super) fn may_be_path(self) -> bool {
        !matches!(
            self,
            Self::Text
                | Self::Num
                | Self::Word
                | Self::Plain
                | Self::Printf
                | Self::Date
                | Self::Sed
                | Self::Awk
                | Self::Jq
        )
    }

    /// Says whether `text` is of this kind.
    pub(super) fn takes(self, text: &str, call: &Call<'_>) -> bool {
        let all = |more: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c));
        let starts_plainly = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        match self {
            Self::Text => true,
            Self::Num => {
                let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
                !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
            }
            Self::Word => starts_plainly && all("_.:,+@%-"),
            Self::Plain => {
                // Some shells assign where they expect a number.
                let assigns = text.contains('=') && text.to_ascii_lowercase().contains("path");
                let evaluates = text.contains('[') && text.contains(['$', '`']);
                !assigns && !evaluates
            }
            Self::Printf => is_plain_printf(text) && Self::Plain.takes(text, call),
            Self::Read => is_inside(text, call),
            Self::File => {
                !text.contains([':', '*', '?', '['])
                    && !text.starts_with('@')
                    && is_inside(text, call)
            }
            Self::Leaf => is_file(text, call),
            Self::Folder => is_folder(text, call),
            Self::Tree => is_folder(text, call) && leads_nowhere_else(text, call),
            Self::Nowhere => text == "/dev/null",
            Self::Report => {
                !text.starts_with('@') && !text.to_ascii_lowercase().contains("%output")
            }
            Self::Node => {
                let file = text.split("::").next().unwrap_or(text);
                !file.starts_with('@') && is_inside(file, call)
            }
            Self::Module => starts_plainly && all("_.") && is_module(text, call),
            Self::Write => is_writable(text, call),
            Self::Pathspec => git::is_pathspec_inside(text, call),
            Self::Revision => git::is_revision_inside(text, call),
            Self::Commit => git::is_commit_inside(text, call),
            Self::Lines => git::is_lines_inside(text, call),
            Self::Refs => !text.contains(':'),
            Self::Output => is_writable(text, call) && is_file(text, call),
            Self::Ref => starts_plainly && all("_./@{}^~-") && !text.contains(".."),
            Self::Remote => starts_plainly && all("_-") && git::is_no_repository(text, call),
            Self::Format => !checks_signatures(text),
            Self::Key => !text.contains("signature"),
            Self::Url => {
                ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme))
                    && !text.contains(|c: char| c.is_whitespace() || "{}[]\\".contains(c))
            }
            Self::Header => !text.starts_with('@'),
            Self::Date => text.starts_with('+'),
            Self::Sed => is_plain_sed(text),
            Self::Awk => is_plain_awk(text),
            Self::Jq => is_plain_jq(text),
            Self::AwkVar => text.split_once('=').is_some_and(|(name, value)| {
                name.starts_with(|c: char| c.is_ascii_lowercase())
                    && name
                        .bytes()
                        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_')
                    && !value.contains('\\')
            }),
        }
    }
}

/// Says whether a git format asks about a signature: `%G?`, also with a sign between, and
/// `%(signature)`, also of the object that a tag names.
fn checks_signatures(format: &str) -> bool {
    format.split('%').skip(1).any(|field| {
        let field = field.strip_prefix(['+', '-', ' ']).unwrap_or(field);
        let atom = field.strip_prefix('(').map(|atom| atom.strip_prefix('*').unwrap_or(atom));
        field.starts_with('G')
            || atom.is_some_and(|atom| atom.trim_start().starts_with("signature"))
    })
}
