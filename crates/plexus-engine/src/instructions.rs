//! What an agent reads of a project's own files: its instructions, unless one of them leads out of
//! the project, and never its settings, unless the operator trusts them.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use plexus_wire::ProjectSettings;

use crate::driver::ProjectFiles;
use crate::session::SessionConfig;

/// Files of instructions that are looked at. A project with more is not read at all.
const MAX_FILES: usize = 1_000;

/// What was found in the directories of a session.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Found {
    /// Instructions that the agent reads.
    read: Vec<String>,
    /// Settings that it does not read.
    unread: Vec<String>,
    /// Why it reads no instructions, although there are some.
    refused: Option<String>,
}

impl Found {
    /// Looks for the files of a project in the directories of a session.
    pub(crate) fn look(config: &SessionConfig, files: &ProjectFiles) -> Self {
        let mut found = Self::default();
        let dirs = std::iter::once(&config.working_dir).chain(&config.add_dirs);
        for dir in dirs {
            let shown = |name: &str| match *dir == config.working_dir {
                true => name.to_owned(),
                false => dir.join(name).display().to_string(),
            };
            let exists = |name: &&&str| dir.join(name).symlink_metadata().is_ok();
            for name in files.instructions.iter().filter(exists) {
                match stray(dir, &dir.join(name)) {
                    Some(path) => found.refused = Some(path),
                    None => found.read.push(shown(name)),
                }
            }
            found.unread.extend(files.settings.iter().filter(exists).map(|name| shown(name)));
        }
        found
    }

    /// Whether the agent is told to read the instructions.
    pub(crate) fn is_read(&self, settings: ProjectSettings) -> bool {
        settings == ProjectSettings::Instructions && self.refused.is_none() && !self.read.is_empty()
    }

    /// Says what is read of the project and what is not; nothing when there is nothing to say.
    pub(crate) fn words(&self, settings: ProjectSettings) -> Option<String> {
        let list = |files: &[String]| files.join(", ");
        let unread = match settings {
            ProjectSettings::Trust => {
                let all: Vec<String> = self.read.iter().chain(&self.unread).cloned().collect();
                let words = "the project is trusted: its settings and hooks count";
                return (!all.is_empty()).then(|| format!("{words} ({})", list(&all)));
            }
            ProjectSettings::Ignore => {
                self.read.iter().chain(&self.unread).cloned().collect::<Vec<_>>()
            }
            ProjectSettings::Instructions => self.unread.clone(),
        };
        let mut words = Vec::new();
        if self.is_read(settings) {
            words.push(format!("read of the project: {}", list(&self.read)));
        }
        if settings == ProjectSettings::Instructions
            && let Some(path) = &self.refused
        {
            words.push(format!(
                "the project's instructions are not read, because {path} leads out of it"
            ));
        }
        if !unread.is_empty() {
            words.push(format!("not read of the project: {}", list(&unread)));
        }
        (!words.is_empty()).then(|| words.join("; "))
    }
}

/// Returns the sizes and modification times of the files of a project that an agent reads when it
/// starts, in the directories of a session. While two results are equal, an agent would read the
/// same.
pub(crate) fn stamps(config: &SessionConfig, files: &[&str]) -> Vec<String> {
    let dirs = std::iter::once(&config.working_dir).chain(&config.add_dirs);
    let mut left: Vec<PathBuf> =
        dirs.flat_map(|dir| files.iter().map(|name| dir.join(name))).collect();
    let mut found = Vec::new();
    while let Some(path) = left.pop() {
        let Ok(facts) = std::fs::metadata(&path) else { continue };
        if facts.is_dir() && found.len() < MAX_FILES {
            let inside = std::fs::read_dir(&path).into_iter().flatten().flatten();
            left.extend(inside.map(|entry| entry.path()));
        }
        let age = facts.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let at = age.map_or(0, |age| age.as_nanos());
        found.push(format!("{} {} {at}", path.display(), facts.len()));
    }
    found.sort();
    found
}

/// Finds a file at or below `path` that leads out of `dir`, or cannot be followed. A repository can
/// hold a link to anything of its user's, and instructions go to the model unasked.
fn stray(dir: &Path, path: &Path) -> Option<String> {
    let shown = |path: &Path| path.strip_prefix(dir).unwrap_or(path).display().to_string();
    let Ok(root) = dir.canonicalize() else { return Some(shown(path)) };
    let mut left: Vec<PathBuf> = vec![path.to_owned()];
    let mut seen = 0;
    while let Some(path) = left.pop() {
        seen += 1;
        let inside = path.canonicalize().is_ok_and(|real| real.starts_with(&root));
        if !inside || seen > MAX_FILES {
            return Some(shown(&path));
        }
        if path.is_dir() {
            match std::fs::read_dir(&path) {
                Ok(entries) => left.extend(entries.flatten().map(|entry| entry.path())),
                Err(_) => return Some(shown(&path)),
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const FILES: ProjectFiles =
        ProjectFiles { instructions: &["A.md", "rules"], settings: &["settings.json"] };

    fn config(dir: &Path) -> SessionConfig {
        serde_json::from_value(serde_json::json!({
            "agent": "a", "working_dir": dir, "model": null, "system_prompt": null,
            "loopback_enabled": true, "loopback_timeout_secs": 1, "escalate_after_secs": null,
            "supervise": "default", "can_spawn": false, "may_decide": [],
            "project_settings": "instructions", "channel": "auto", "allowed_tools": [],
            "disallowed_tools": [], "add_dirs": [], "env": {}, "budget": null,
        }))
        .unwrap()
    }

    #[test]
    fn instructions_are_read_and_settings_are_not() {
        use ProjectSettings::{Ignore, Instructions, Trust};
        let dir = tempfile::tempdir().unwrap();
        let look = || Found::look(&config(dir.path()), &FILES);
        assert_eq!(look().words(Instructions), None);
        std::fs::write(dir.path().join("A.md"), "be kind").unwrap();
        std::fs::write(dir.path().join("settings.json"), "{}").unwrap();
        let found = look();
        assert!(found.is_read(Instructions) && !found.is_read(Ignore) && !found.is_read(Trust));
        let words = [Instructions, Ignore, Trust].map(|settings| found.words(settings).unwrap());
        assert_eq!(
            words,
            [
                "read of the project: A.md; not read of the project: settings.json",
                "not read of the project: A.md, settings.json",
                "the project is trusted: its settings and hooks count (A.md, settings.json)",
            ]
        );
    }

    #[test]
    fn a_stamp_tells_files_apart_that_were_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let stamps = || stamps(&config(dir.path()), FILES.instructions);
        assert_eq!(stamps(), Vec::<String>::new());
        std::fs::create_dir(dir.path().join("rules")).unwrap();
        std::fs::write(dir.path().join("rules/deep.md"), "be kind").unwrap();
        let before = stamps();
        assert_eq!((before.len(), &before), (2, &stamps()), "the folder and its file");
        std::fs::write(dir.path().join("rules/deep.md"), "be kind and brief").unwrap();
        assert_ne!(before, stamps());
        std::fs::write(dir.path().join("unread.md"), "x").unwrap();
        assert_eq!(stamps().len(), 2);
    }

    #[test]
    fn instructions_that_lead_out_of_the_project_are_not_read() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "s").unwrap();
        for name in ["A.md", "rules/deep.md"] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::create_dir(dir.path().join("rules")).unwrap();
            symlink(outside.path().join("secret"), dir.path().join(name)).unwrap();
            let found = Found::look(&config(dir.path()), &FILES);
            assert!(!found.is_read(ProjectSettings::Instructions), "{name}");
            let words = found.words(ProjectSettings::Instructions).unwrap();
            assert!(words.contains(&format!("{name} leads out of it")), "{words}");
        }
    }
}
