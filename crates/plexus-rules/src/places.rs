//! Finds the path rules that may fit a path: those whose directory contains it.
//!
//! An index by directory finds the rules, so that the cost depends on the steps of the path and not
//! on the number of rules. The rules found are candidates, and [`PathPattern`] decides whether each
//! fits. A rule that is not found could not fit; the property test in `files/tests.rs` checks this.

use std::collections::HashMap;

use super::files::{Anchor, PathPattern, below};
use super::rule::Decision;
use super::target::{Reach, Target};

/// The path rules of one tool, by position in the set.
#[derive(Debug, Default)]
pub(super) struct PathRules(HashMap<Anchor, Places>);

/// The rules that start in one place.
#[derive(Debug, Default)]
struct Places {
    /// By the directory that contains all paths of a rule, with case folded.
    by_directory: HashMap<String, Vec<usize>>,
    /// The rules that deny or ask.
    guarding: Vec<usize>,
}

impl PathRules {
    /// Adds the rule at position `at`.
    pub(super) fn add(&mut self, at: usize, decision: Decision, pattern: &PathPattern) {
        let (anchor, directory) = pattern.place();
        let places = self.0.entry(anchor).or_default();
        places.by_directory.entry(directory.to_owned()).or_default().push(at);
        match decision {
            Decision::Deny | Decision::Ask => places.guarding.push(at),
            // An allow needs a path that is known to be in its directory.
            Decision::Allow => {}
        }
    }

    /// Returns the rules that deny or ask.
    pub(super) fn guards(&self) -> impl Iterator<Item = &usize> {
        self.0.values().flat_map(|places| &places.guarding)
    }

    /// Returns every rule that may fit the path, some of them perhaps twice.
    pub(super) fn near(&self, target: &Target<'_>) -> Vec<usize> {
        let mut near = Vec::new();
        for (&anchor, places) in &self.0 {
            let anchors = target.anchors(anchor);
            // A tool that reads a directory may reach every rule below it. Where something is
            // unknown, every deny may fit.
            if target.reach == Reach::Tree || target.real().is_none() || anchors.is_empty() {
                near.extend_from_slice(&places.guarding);
            }
            for path in target.spellings() {
                for rest in anchors.iter().filter_map(|anchor| below(&path.folded, &anchor.folded))
                {
                    near.extend(
                        directories(rest).filter_map(|it| places.by_directory.get(it)).flatten(),
                    );
                }
            }
        }
        near
    }
}

/// Returns the directories that contain a path, from its start down to the path itself.
fn directories(path: &str) -> impl Iterator<Item = &str> {
    let steps =
        path.match_indices('/').filter_map(|(end, _)| path.get(..end)).filter(|it| !it.is_empty());
    std::iter::once("").chain(steps).chain(Some(path).filter(|path| !path.is_empty()))
}
