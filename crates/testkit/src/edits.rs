//! Recorded lines with random edits, for property tests of parsers.

use proptest::prelude::*;

/// A word that edits put into lines. No error contains it unless it repeats the line.
pub const SECRET: &str = "hunter2";

/// Longer lines are left out: editing them takes many times longer and finds nothing more.
const MAX_LINE_BYTES: usize = 5_000;

/// Returns some of these lines with bytes changed, removed and added, [`SECRET`] inserted, or the
/// end cut off.
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
