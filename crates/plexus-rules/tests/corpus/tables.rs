//! The tables of known commands, for generating commands. They are parsed here a second time, so
//! that a mistake in the rules' own parser does not hide itself.

use std::collections::HashMap;
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Shows,
    Changes,
    RunsProject,
    Talks,
}

/// One command: its words, and its options in the notation of the table.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) words: Vec<String>,
    pub(crate) options: Vec<String>,
    pub(crate) effect: Effect,
}

impl Entry {
    pub(crate) fn name(&self) -> String {
        self.words.join(" ")
    }

    pub(crate) fn program(&self) -> &str {
        &self.words[0]
    }
}

/// Reads all tables.
pub(crate) fn read() -> Vec<Entry> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/known/tables");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files.iter().flat_map(|file| table(&std::fs::read_to_string(file).unwrap())).collect()
}

fn table(text: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut groups: HashMap<String, Vec<String>> = HashMap::new();
    let (mut open, mut group, mut names) = (0, None, Vec::new());
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('@') {
            group = Some(name.to_owned());
        } else if line.starts_with(' ') {
            let tokens = line.split_whitespace().flat_map(|token| match token.strip_prefix('@') {
                Some(name) => groups[name].clone(),
                None => vec![token.to_owned()],
            });
            // A kind of operands is no option.
            let tokens: Vec<String> = tokens.filter(|token| !token.ends_with('*')).collect();
            match &group {
                Some(name) => groups.entry(name.clone()).or_default().extend(tokens),
                None => {
                    entries.iter_mut().skip(open).for_each(|it| it.options.extend(tokens.clone()))
                }
            }
        } else if let Some(first) = line.strip_suffix(" |") {
            names.extend(first.split(" | ").map(str::to_owned));
        } else {
            let (last, rest) = line.split_once(" : ").unwrap();
            let effect = rest.split_once(" ; ").unwrap().1.split(' ').next().unwrap();
            names.extend(last.split(" | ").map(str::to_owned));
            open = entries.len();
            group = None;
            entries.extend(names.drain(..).map(|name| Entry {
                words: name.split(' ').map(str::to_owned).collect(),
                options: Vec::new(),
                effect: match effect {
                    "shows" => Effect::Shows,
                    "changes" => Effect::Changes,
                    "project" => Effect::RunsProject,
                    "talks" => Effect::Talks,
                    // It runs where the test allows to edit everything.
                    "edits" => Effect::Changes,
                    other => panic!("{other}"),
                },
            }));
        }
    }
    entries
}
