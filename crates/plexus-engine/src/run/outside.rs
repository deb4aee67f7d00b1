//! What an agent within a wall left for programs outside it: hooks, shell start files, settings of
//! editors and agents. Where the wall cannot protect them, the reader of the chat is told.

use std::collections::BTreeSet;
use std::path::PathBuf;

use plexus_wire::{ChatEvent, Confine};

use super::Run;
use crate::session::SessionConfig;

/// How many paths are named; the number of the others says the rest.
const MOST_PATHS: usize = 16;

impl Run {
    /// Returns what changed outside since the run started and was not told in it yet.
    pub(super) async fn changed_outside(&self, config: &SessionConfig) -> Vec<PathBuf> {
        if config.confine == Confine::None {
            return Vec::new();
        }
        let Ok(walls) = self.settings.wall.walls().cloned() else { return Vec::new() };
        let run_dir = self.settings.run_dir(self.key);
        let look = tokio::task::spawn_blocking(move || walls.changed_outside(&run_dir));
        let changed = look.await.unwrap_or_else(|error| {
            tracing::error!(run = %self.key, %error, "could not look for changed files");
            Vec::new()
        });
        changed.into_iter().filter(|path| !self.outside_told.contains(path)).collect()
    }

    /// Notes that the reader was told.
    pub(super) fn told_outside(&mut self, paths: Vec<PathBuf>) {
        self.outside_told.extend(paths);
    }
}

/// Which changed files a run has told of.
pub(super) type Told = BTreeSet<PathBuf>;

/// What the reader of the chat is told; nothing where nothing changed.
pub(super) fn notice(changed: &[PathBuf]) -> Option<ChatEvent> {
    let named: Vec<_> =
        changed.iter().take(MOST_PATHS).map(|path| path.display().to_string()).collect();
    let more = match changed.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!named.is_empty()).then(|| {
        ChatEvent::notice(format!(
            "these files, which programs outside the wall may run, were made, changed or removed \
             since the agent started: {}{more}; look at them before you continue",
            named.join(", ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_changed_files_are_counted() {
        assert_eq!(notice(&[]), None);
        let text = |count: usize| {
            let paths: Vec<PathBuf> = (0..count).map(|n| format!("/w/{n}").into()).collect();
            match notice(&paths) {
                Some(ChatEvent::Notice { message }) => message,
                other => format!("{other:?}"),
            }
        };
        assert!(text(1).contains("started: /w/0; look"), "{}", text(1));
        assert!(text(20).contains("/w/15 and 4 more; look"), "{}", text(20));
    }
}
