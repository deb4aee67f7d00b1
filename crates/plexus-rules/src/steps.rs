//! One step of a path, as far as it is known: whether two may be the same name.

use super::files::fold;
use super::shell::WILD;

/// The name of a file or directory, of which perhaps only the start and the end are known. Case is
/// ignored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Step {
    start: String,
    end: String,
    is_whole: bool,
}

impl Step {
    /// Returns the step of a name that is known.
    pub(super) fn whole(name: &str) -> Self {
        Self { start: fold(name), end: String::new(), is_whole: true }
    }

    /// Returns the step of a name with [`WILD`] in place of what is not known.
    pub(super) fn of(marked: &str) -> Self {
        if !marked.contains(WILD) {
            return Self::whole(marked);
        }
        let start = marked.split(WILD).next().unwrap_or_default();
        // A bracket ends with `]`, and everything before it may stand for one character.
        let end = marked.rsplit([WILD, ']']).next().unwrap_or_default();
        Self { start: fold(start), end: fold(end), is_whole: false }
    }

    /// Says whether something of the name is known.
    pub(super) fn is_known(&self) -> bool {
        !self.start.is_empty() || !self.end.is_empty()
    }

    /// Says whether both may be the same name.
    pub(super) fn may_be(&self, other: &Self) -> bool {
        match (self.is_whole, other.is_whole) {
            (true, true) => self.start == other.start,
            (true, false) => other.takes(&self.start),
            (false, true) => self.takes(&other.start),
            (false, false) => {
                (self.start.starts_with(&other.start) || other.start.starts_with(&self.start))
                    && (self.end.ends_with(&other.end) || other.end.ends_with(&self.end))
            }
        }
    }

    fn takes(&self, name: &str) -> bool {
        name.starts_with(&self.start) && name.ends_with(&self.end)
    }
}

/// Replaces the wildcards of a file pattern by [`WILD`].
pub(super) fn marked(pattern: &str) -> String {
    pattern.replace(['*', '?', '[', '{', '}'], "\0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_by_what_is_known_of_them() {
        for (one, other, expected) in [
            (".env", ".ENV", true),
            (".env", ".env2", false),
            (".e*", ".env", true),
            ("*.env", ".env", true),
            (".e*", "*.rs", true),
            (".e*", "*.rs?x", true),
            ("a*", "b*", false),
            ("*.rs", "*.md", false),
            ("[.]env", ".env", true),
        ] {
            let step = |text: &str| Step::of(&marked(text));
            assert_eq!(step(one).may_be(&step(other)), expected, "{one} {other}");
            assert_eq!(step(other).may_be(&step(one)), expected, "{other} {one}");
        }
    }
}
