//! A dry run as the wire shows it: differences instead of texts, and no more of them than a person
//! reads.

use std::time::{Duration, Instant};

use plexus_confine::dry_run::{Change, ChangeKind, End, Limits, Preview};
use plexus_wire::{PathChange, PreviewEnd, Previewed, PreviewedChange};
use similar::TextDiff;

/// What a decider's dry run may take.
pub(super) const LIMITS: Limits = Limits {
    // A command that takes longer is seldom one whose effect must be seen before it runs.
    time: Duration::from_secs(10),
    bytes: 256 * 1024 * 1024,
    // Nobody reads a longer list.
    changes: 500,
    output_bytes: 32 * 1024,
};
/// Bytes of all differences together.
const MAX_DIFF_BYTES: usize = 512 * 1024;
/// How long texts are compared altogether: the command chooses them, and the worst pair would take
/// hours. What is left then is shown as replaced.
const COMPARED_FOR: Duration = Duration::from_secs(2);

const NOTE: &str = "a dry run over a copy of the working directory, without network: information \
                    that nothing is bound to; the real run meets another time, a network and other \
                    programs, and may do otherwise";

/// Turns a dry run into what its caller is shown.
pub(crate) fn shown(preview: Preview) -> Previewed {
    let end = match preview.end {
        End::Exited(code) => PreviewEnd::Exited { code },
        End::Killed(signal) => PreviewEnd::Killed { signal },
        End::OutOfTime => PreviewEnd::OutOfTime {},
        End::TooLarge => PreviewEnd::TooLarge {},
    };
    let deadline = Instant::now() + COMPARED_FOR;
    let mut left = MAX_DIFF_BYTES;
    Previewed {
        end: end.into(),
        changes: preview.changes.iter().map(|it| shown_change(it, &mut left, deadline)).collect(),
        cut: preview.is_cut,
        stdout: preview.stdout,
        stderr: preview.stderr,
        note: NOTE.to_owned(),
    }
}

fn shown_change(change: &Change, left: &mut usize, deadline: Instant) -> PreviewedChange {
    let kind = match change.kind {
        ChangeKind::Added => PathChange::Added,
        ChangeKind::Modified => PathChange::Modified,
        ChangeKind::Removed => PathChange::Removed,
    };
    let texts = change.texts().filter(|(before, after)| before != after);
    let diff = texts.map(|(before, after)| {
        let patience = deadline.saturating_duration_since(Instant::now());
        let diff = TextDiff::configure().timeout(patience).diff_lines(before, after);
        diff.unified_diff().to_string()
    });
    let (diff, why) = match diff {
        Some(diff) if diff.len() <= *left => {
            *left -= diff.len();
            (Some(diff), None)
        }
        Some(_) => {
            let most = MAX_DIFF_BYTES / 1024;
            (None, Some(format!("a preview shows {most} KiB of differences at most")))
        }
        None if change.is_file && change.texts().is_none() => {
            (None, Some("it is not text, or larger than 64 KiB".to_owned()))
        }
        None => (None, None),
    };
    let path = change.path.to_string_lossy().into_owned();
    PreviewedChange { path, change: kind.into(), diff, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str, before: Option<&str>, after: Option<&str>) -> Change {
        let kind = match (before, after) {
            (None, _) => ChangeKind::Added,
            (Some(_), Some(_)) => ChangeKind::Modified,
            (Some(_), None) => ChangeKind::Removed,
        };
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let (before, after) = (owned(before), owned(after));
        Change { path: path.into(), kind, is_file: true, before, after }
    }

    fn all(changes: Vec<Change>) -> Vec<(String, Option<String>, Option<String>)> {
        let (stdout, stderr) = (String::new(), String::new());
        let preview = Preview { end: End::Exited(0), changes, is_cut: false, stdout, stderr };
        shown(preview).changes.into_iter().map(|it| (it.path, it.diff, it.why)).collect()
    }

    #[test]
    fn what_is_not_shown_says_why() {
        let large = "x\n".repeat(20 * 1024);
        let mut unreadable = change("picture", Some(""), Some(""));
        (unreadable.before, unreadable.after) = (None, None);
        let mut made = change("dir", None, None);
        made.is_file = false;
        let mut changes = vec![change("a", Some("old\n"), Some("new\n")), unreadable, made];
        changes.extend((0..10).map(|n| change(&format!("large-{n}"), None, Some(&large))));
        let shown = all(changes);
        let diff = "@@ -1 +1 @@\n-old\n+new\n".to_owned();
        assert_eq!(shown[0], ("a".into(), Some(diff), None));
        assert_eq!(shown[1].2.as_deref(), Some("it is not text, or larger than 64 KiB"));
        assert_eq!(shown[2], ("dir".into(), None, None));
        let sum: usize = shown.iter().filter_map(|it| Some(it.1.as_ref()?.len())).sum();
        assert!(sum <= MAX_DIFF_BYTES, "{sum}");
        let left_out = shown.iter().filter(|it| it.1.is_none() && it.0.starts_with("large"));
        let why = "a preview shows 512 KiB of differences at most";
        assert!(left_out.clone().all(|it| it.2.as_deref() == Some(why)) && left_out.count() > 0);
    }
}
