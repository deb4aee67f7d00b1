//! The programs that a project has in `node_modules`.

use crate::call::Call;
use crate::paths::Entry;
use crate::shell::Word;

/// Checks that `npx` runs a program of the project: what it does not find there it fetches from the
/// registry.
///
/// # Errors
/// With the reason to ask.
pub(crate) fn is_in_project(words: &[Word], call: &Call<'_>) -> Result<(), String> {
    let program = words.get(1).and_then(Word::literal).unwrap_or_default();
    let path = call.working_dir.join("node_modules/.bin").join(program);
    match call.paths.look(&path) {
        Ok(Entry::Plain | Entry::Link(_)) if !program.is_empty() && !program.contains('/') => {
            Ok(())
        }
        _ => Err(format!("`{program}` is not in `node_modules/.bin`, so `npx` may fetch it")),
    }
}
