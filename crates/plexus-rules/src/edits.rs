//! Whether a call edits a file inside given directories: what the mode `accept_edits` allows.

use std::path::Path;

use plexus_files::is_obeyed;

use super::call::Call;
use super::files::Family;
use super::paths::resolve;
use super::target::Target;

/// Says whether a call edits only files below these directories, with links followed, and none that
/// other programs take orders from: a git hook written without approval would run at the next
/// commit.
#[must_use]
pub fn is_edit_inside<'a>(call: &Call<'_>, dirs: impl IntoIterator<Item = &'a Path>) -> bool {
    if !Family::Edit.tools().contains(&&*call.rule_tool()) {
        return false;
    }
    let targets = Target::all(call);
    let dirs: Vec<&Path> = dirs.into_iter().collect();
    !targets.is_empty() && targets.iter().all(|target| is_inside(target, &dirs, call))
}

fn is_inside(target: &Target<'_>, dirs: &[&Path], call: &Call<'_>) -> bool {
    let Some(real) = target.real() else { return false };
    let (real, written) = (Path::new(&real.text), Path::new(&target.written().text));
    dirs.iter().any(|dir| {
        // Only the part below the directory is checked: the choice of the directory includes the
        // path to it.
        let below = |path: &Path, dir: &Path| match path.strip_prefix(dir) {
            Ok(rest) => rest.file_name().is_some() && !is_obeyed(rest),
            Err(_) => false,
        };
        let Ok(real_dir) = resolve(call.paths, dir) else { return false };
        below(real, &real_dir)
            && (below(written, dir) || below(written, &real_dir) || !is_obeyed(written))
    })
}
