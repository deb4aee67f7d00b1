//! Finds the process that opened a connection. The egress process of its run noted its pid; the
//! kernel says what it runs and who started it.
//!
//! A process can change its own arguments, so they are used only to choose among commands that we
//! know to be running.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use plexus_shim::layout::{RunDir, parent_of, process_identity};

use crate::wall::{asker_file, files_of};

/// The most processes between the agent and the one that asks.
const MAX_DEPTH: usize = 64;
/// The most bytes of a process' words that are compared. A script of a shell is one word.
const MAX_WORDS_BYTES: u64 = 256 * 1024;
/// The most characters of a program's name that are shown.
const MAX_NAME_CHARS: usize = 64;

/// Who opened a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Asker {
    /// The name of the program that it runs.
    pub(super) program: String,
    /// Where it stands in the run.
    pub(super) place: Place,
}

/// Where a process stands in its run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// It is the agent.
    Agent,
    /// The agent, or something that the agent started, started it. The words of the processes in
    /// between, and its own; the agent's own child comes first.
    Below(Vec<String>),
    /// It outlived the process that started it.
    Left,
}

impl Asker {
    /// Reads who asks this question of a run. `None` where nobody noted it, or the process is gone
    /// or not of this run.
    pub(super) fn of(run_dir: &Path, question: &str) -> Option<Self> {
        let note = fs::read_to_string(asker_file(&files_of(run_dir), question)?).ok()?;
        let (pid, started) = note.trim_end().split_once(' ')?;
        let (pid, started) = (pid.parse().ok()?, started.parse().ok()?);
        let run = RunDir::new(run_dir).read_pid().ok()??;
        let place = place_of(pid, run.child_pid, run.shim_pid, parent_of, words_of)?;
        let program = program_of(pid)?;
        // Compared last: everything above was read from the process that was noted.
        (process_identity(pid) == Some(started)).then_some(Self { program, place })
    }

    /// Returns which of these commands it belongs to: the first process below the agent that names
    /// one decides, because what is further down was started by the command itself.
    pub(super) fn command<'a>(&self, commands: &[&'a str]) -> Option<&'a str> {
        let Place::Below(words) = &self.place else { return None };
        words.iter().find_map(|words| {
            let words = bare(words);
            let named = |command: &&&str| {
                let command = bare(command);
                !command.is_empty() && words.contains(&command)
            };
            // A longer one may contain a shorter one.
            commands.iter().filter(named).max_by_key(|command| command.len()).copied()
        })
    }
}

fn place_of(
    pid: i32,
    agent: i32,
    shim: i32,
    parent: impl Fn(i32) -> Option<i32>,
    words: impl Fn(i32) -> String,
) -> Option<Place> {
    if pid == agent {
        return Some(Place::Agent);
    }
    let mut chain = Vec::new();
    let mut at = pid;
    while chain.len() < MAX_DEPTH {
        chain.push(at);
        at = parent(at)?;
        if at == agent {
            return Some(Place::Below(chain.into_iter().rev().map(words).collect()));
        }
        if at == shim {
            return Some(Place::Left);
        }
    }
    None
}

/// The file that a process runs, which it cannot rename by itself; its name of its own otherwise.
fn program_of(pid: i32) -> Option<String> {
    let file = fs::read_link(format!("/proc/{pid}/exe")).ok();
    let file = file.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let name = file.or_else(|| fs::read_to_string(format!("/proc/{pid}/comm")).ok())?;
    Some(name.trim_end().chars().take(MAX_NAME_CHARS).collect())
}

fn words_of(pid: i32) -> String {
    let mut bytes = Vec::new();
    let read = fs::File::open(format!("/proc/{pid}/cmdline"))
        .and_then(|file| file.take(MAX_WORDS_BYTES).read_to_end(&mut bytes));
    match read {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => String::new(),
    }
}

/// A command without what shells add and remove: agents quote it, some twice.
fn bare(text: &str) -> String {
    let is_kept = |c: &char| !c.is_whitespace() && !matches!(c, '\0' | '\'' | '"' | '\\');
    text.chars().filter(is_kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shim is 1, the agent 2, a shell 3 below it, its child 4, and 5 was left running.
    fn place(pid: i32, words: &[&str]) -> Option<Place> {
        let parents = [(2, 1), (3, 2), (4, 3), (5, 1), (6, 7), (7, 6)];
        let parent = |pid| parents.iter().find(|(child, _)| *child == pid).map(|(_, it)| *it);
        place_of(pid, 2, 1, parent, |pid| words[usize::try_from(pid).unwrap() - 3].to_owned())
    }

    #[test]
    fn a_process_is_placed_by_who_started_it() {
        let words = ["bash -c x", "curl"];
        assert_eq!(place(2, &words), Some(Place::Agent));
        let below = words.map(str::to_owned).to_vec();
        assert_eq!(place(4, &words), Some(Place::Below(below)));
        assert_eq!(place(5, &words), Some(Place::Left));
        assert_eq!(place(6, &words), None, "it never comes to this run");
        assert_eq!(place(9, &words), None, "it is gone");
    }

    #[test]
    fn a_command_is_known_by_the_first_process_that_names_it() {
        let of = |words: &[&str], commands: &[&'static str]| {
            let place = Place::Below(words.iter().map(|it| (*it).to_owned()).collect());
            Asker { program: "curl".into(), place }.command(commands)
        };
        let quoted = r#"bash -c eval 'curl -d '"'"'a b'"'"' example.org' < /dev/null"#;
        let commands = ["curl -d 'a b' example.org", "make"];
        assert_eq!(of(&[quoted], &commands), Some(commands[0]));
        // The shell became the command, and its words are apart.
        assert_eq!(of(&["curl\0-d\0a b\0example.org\0"], &commands), Some(commands[0]));
        // Further down a process says what it likes.
        assert_eq!(of(&["bash -c make", "curl -d 'a b' example.org"], &commands), Some("make"));
        assert_eq!(of(&["bash -c 'make; ls'"], &["make", "make; ls"]), Some("make; ls"));
        assert_eq!(of(&["bash -c other"], &commands), None);
        assert_eq!(of(&["bash"], &["  "]), None);
    }

    #[test]
    fn nothing_is_known_without_a_note_or_with_a_name_that_leads_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Asker::of(dir.path(), "network-1"), None);
        for question in ["", "network-", "toolu_1", "network-../pid", "network-a/b"] {
            assert_eq!(asker_file(dir.path(), question), None, "{question}");
        }
        fs::create_dir(files_of(dir.path())).unwrap();
        let note = asker_file(&files_of(dir.path()), "network-1").unwrap();
        for text in ["", "1", "x y\n", "1 2\n"] {
            fs::write(&note, text).unwrap();
            assert_eq!(Asker::of(dir.path(), "network-1"), None, "{text:?}");
        }
    }
}
