//! Differences of files as text: those that git writes, and those that we write ourselves.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How many bytes the difference of one file may have.
pub(super) const MAX_DIFF: usize = 128 * 1024;

/// Cuts the output of `git diff` into files, by path. A file whose path git writes in quotes is
/// left out, and the caller then says that its difference is not shown.
pub(super) fn by_path(text: &str) -> BTreeMap<String, String> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    let mut at: Option<String> = None;
    for line in text.split_inclusive('\n') {
        // A line of a file begins with a space, a sign or a backslash.
        if let Some(names) = line.strip_prefix("diff --git ") {
            at = path_of(names.trim_end_matches('\n'));
        }
        if let Some(path) = &at {
            let is_head = line.starts_with("index ") || line.starts_with("diff --git ");
            if !is_head {
                files.entry(path.clone()).or_default().push_str(line);
            }
        }
    }
    files
}

/// Reads the path out of `a/PATH b/PATH`, which names the same path twice.
fn path_of(names: &str) -> Option<String> {
    let half = names.len().checked_sub(1)? / 2;
    let (a, b) = (names.get(..half)?, names.get(half + 1..)?);
    let path = a.strip_prefix("a/")?;
    (b.strip_prefix("b/")? == path).then(|| path.to_owned())
}

/// Writes one change without knowing what stands around it.
pub(super) fn alone(before: &str, after: &str) -> String {
    let count = |text: &str| text.lines().count();
    let start = |text: &str| usize::from(!text.is_empty());
    let mut diff = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        diff,
        "@@ -{},{} +{},{} @@",
        start(before),
        count(before),
        start(after),
        count(after)
    );
    for (sign, text) in [('-', before), ('+', after)] {
        for line in text.lines() {
            diff.push(sign);
            diff.push_str(line);
            diff.push('\n');
        }
    }
    diff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_git_is_cut_by_path() {
        let text = "diff --git a/a b.txt b/a b.txt\nindex 1..2 100644\n--- a/a b.txt\n+++ b/a b.txt\n\
                    @@ -1 +1 @@\n-x\n+diff --git a/c b/c\ndiff --git \"a/q\\\"\" \"b/q\\\"\"\n@@ @@\n+no\n\
                    diff --git a/c b/c\nold mode 100644\nnew mode 100755\n";
        let files = by_path(text);
        assert_eq!(files.keys().collect::<Vec<_>>(), ["a b.txt", "c"]);
        assert!(files["a b.txt"].ends_with("-x\n+diff --git a/c b/c\n"), "{files:?}");
        assert_eq!(files["c"], "old mode 100644\nnew mode 100755\n");
    }

    #[test]
    fn a_change_alone_says_what_goes_and_what_comes() {
        assert_eq!(alone("", "a\nb\n"), "@@ -0,0 +1,2 @@\n+a\n+b\n");
        assert_eq!(alone("a", "b"), "@@ -1,1 +1,1 @@\n-a\n+b\n");
    }
}
