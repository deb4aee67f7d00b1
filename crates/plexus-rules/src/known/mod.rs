//! Commands whose arguments are known: those that may follow the words of a prefix rule without a
//! question to anybody.
//!
//! A list of dangerous arguments is always too short, so these are lists of harmless ones.
//! `Bash(git diff:*)` lets through what the table of `git diff` names, with exact names and
//! arguments of the right kind, and nothing else. A program that is in no table may have only the
//! arguments that the rule itself names. Why is in `docs/decisions/0015-known-arguments.md`; what
//! "harmless" means is at [`Effect`].
//!
//! - [`table`]: the notation of the files in `tables/`, and finding the entry of a command.
//! - [`arguments`]: reads the words of a command as its program would, against its entry.
//! - [`git`]: git's own notations for paths, which may lead out of the working directory.
//! - [`kinds`]: what an argument may be: a number, a path inside the working directory, a plain sed
//!   script.
//! - [`places`]: paths inside the working directory.
//! - [`trees`]: all that is below a directory.
//! - [`project`]: the programs that the project has in `node_modules`.
//! - [`scripts`]: the sed, awk and jq programs that only print.

mod arguments;
mod git;
mod kinds;
mod places;
mod project;
mod scripts;
mod table;
mod trees;

pub(super) use arguments::{
    check, entry_of, has_no_subcommands, is_readable, may_name_file, paths_of, plain_test,
    takes_more_files,
};
pub(super) use places::{begins_anyhow, names_of};
pub(super) use project::is_in_project;
pub(super) use scripts::{is_plain_awk, is_plain_sed};
pub(super) use table::{Effect, Entry};
pub(super) use trees::{files_below, is_directory, names_are_plain};
