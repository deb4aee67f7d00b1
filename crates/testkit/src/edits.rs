//! Recorded lines with pieces changed, for property tests of parsers.

use proptest::prelude::*;

/// A word that is put into lines, and that no error says by itself.
pub const SECRET: &str = "hunter2";

/// Longer lines are left out: they are many times slower to change and show nothing more.
const MAX_LINE_BYTES: usize = 5_000;

/// Returns lines of these in which bytes were changed, removed and added, [`SECRET`] was put in, or
/// the end was cut off.
pub fn edited(lines: impl IntoIterator<Item = String>) -> impl Strategy<Value = Vec<u8>> {
    let short = lines.into_iter().filter(|line| line.len() < MAX_LINE_BYTES);
    let lines: Vec<String> = short.collect();
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..5u8), 0..6);
    (prop::sample::select(lines), edits).prop_map(|(line, edits)| {
        let mut line = line.into_bytes();
        for (index, byte, what) in edits {
            if line.is_empty() {
                break;
            }
            let at = index.index(line.len());
            match what {
                0 => line[at] = byte,
                1 => drop(line.remove(at)),
                2 => line.insert(at, byte),
                3 => drop(line.splice(at..at, SECRET.bytes())),
                _ => line.truncate(at),
            }
        }
        line
    })
}
