//! The wildcards of a path pattern, and a filter that rejects most paths without a regular
//! expression.

use globset::{GlobBuilder, GlobMatcher};

use super::target::Spelling;

/// The part of a pattern after its plain directories: `*.rs`, `**/secret/*`.
#[derive(Debug, Clone)]
pub(super) struct Wildcards {
    exact: GlobMatcher,
    /// The same without regard to case, for rules that deny.
    folded: GlobMatcher,
    /// The letter pairs that every matching path contains, in either case.
    literal: Pairs,
}

/// A set of adjacent letter pairs of a text, in lower case. Pairs share bits, as in a Bloom filter:
/// a path may seem to have a pair that it lacks, never the reverse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pairs(u128);

impl Pairs {
    /// Returns the pairs of a path. Outside ASCII a letter may have several cases, so such a path
    /// counts as having every pair.
    pub(super) fn of_path(folded: &str, text: &str) -> Self {
        if text.is_ascii() { Self::of(folded.as_bytes()) } else { Self(u128::MAX) }
    }

    fn of(lower: &[u8]) -> Self {
        let pair = |pair: &[u8]| {
            pair.iter().fold(0_u32, |sum, &byte| sum.wrapping_mul(37).wrapping_add(byte.into()))
        };
        Self(lower.windows(2).fold(0, |pairs, two| pairs | 1_u128 << (pair(two) % u128::BITS)))
    }
}

impl Wildcards {
    pub(super) fn parse(glob: &str) -> Result<Self, globset::Error> {
        let build = |fold: bool| {
            let mut builder = GlobBuilder::new(glob);
            builder.literal_separator(true).backslash_escape(true).case_insensitive(fold).build()
        };
        let literal = literals(glob)
            .fold(0, |pairs, run| pairs | Pairs::of(run.to_ascii_lowercase().as_bytes()).0);
        let literal = Pairs(literal);
        Ok(Self {
            exact: build(false)?.compile_matcher(),
            folded: build(true)?.compile_matcher(),
            literal,
        })
    }

    /// Returns whether a part of this path may match, in any case. `false` is certain and costs
    /// almost nothing, so that most of a thousand rules are rejected here.
    pub(super) fn may_fit_in(&self, path: &Spelling) -> bool {
        path.pairs.0 & self.literal.0 == self.literal.0
    }

    /// Returns whether the rest of a path matches as written.
    pub(super) fn fit(&self, rest: &str) -> bool {
        self.exact.is_match(rest)
    }

    /// Returns whether the rest of a path matches without regard to case.
    pub(super) fn fit_in_any_case(&self, rest: &str) -> bool {
        self.folded.is_match(rest)
    }
}

impl PartialEq for Wildcards {
    fn eq(&self, other: &Self) -> bool {
        self.exact.glob().glob() == other.exact.glob().glob()
    }
}

/// Returns the runs of characters that the glob takes literally. A run ends where a character has,
/// or may have, another meaning: `**` absorbs the slashes beside it, and a backslash belongs to the
/// next character. The search stops at the first bracket, because after it only a parser can tell
/// what is literal. A literal that is missed costs time; a wrong one would be an error.
fn literals(glob: &str) -> impl Iterator<Item = &str> {
    let before_brackets = glob.split(['[', '{', '\\']).next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    before_brackets.split(move |c: char| !plain(c)).filter(|run| !run.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_is_what_every_fit_has_in_it() {
        for (glob, expected) in [
            ("*.rs", &[".rs"][..]),
            ("**/secret123/**", &["secret123"]),
            ("a/**/longer", &["a", "longer"]),
            ("ab?cde*", &["ab", "cde"]),
            ("*/x[abcdef]y", &["x"]),
            ("[abcdef]x", &[]),
            ("{one,two}", &[]),
            ("*\\?abc", &[]),
            ("*é", &[]),
            ("**/*", &[]),
        ] {
            assert_eq!(literals(glob).collect::<Vec<_>>(), expected, "{glob}");
        }
    }
}
