//! Run directories that nobody needs any more, for `prune`.
//!
//! A run's directory goes with the run: once everything of it is in the store, it is removed. What
//! is left was left by an accident, a removal that failed, or a store that was restored from an
//! older copy and does not know the run. It goes when it is old and nothing in it lives.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, SystemTime};

use plexus_core::SessionId;
use plexus_shim::layout::RunDir;
use plexus_store::{RunKey, Store, StoreError, UnixMillis};

use crate::node::lost::run_dirs;

/// Removes what is older than `before` and belongs to no open run. Returns how many run directories
/// went.
pub(crate) async fn sweep(
    store: &dyn Store,
    data_dir: &Path,
    before: UnixMillis,
) -> Result<u64, StoreError> {
    // Listed first, asked second: a run that begins meanwhile is in the answer.
    let runs = data_dir.join("runs");
    let found = blocking(move || run_dirs(&runs)).await.unwrap_or_default();
    let open: HashSet<RunKey> = store.open_runs().await?.into_iter().map(|run| run.key).collect();
    let mut old = Vec::new();
    for (key, path) in found {
        if !open.contains(&key) {
            old.push((path, is_known(store, key.session).await?));
        }
    }
    let before =
        SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(before.0).unwrap_or(0));
    Ok(blocking(move || {
        old.iter().filter(|(path, known)| remove(path, *known, before)).count() as u64
    })
    .await
    .unwrap_or(0))
}

async fn is_known(store: &dyn Store, session: SessionId) -> Result<bool, StoreError> {
    match store.session(session).await {
        Ok(_) => Ok(true),
        Err(StoreError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Some(done),
        Err(error) => {
            tracing::error!(%error, "looking for old run directories was cut short");
            None
        }
    }
}

/// Removes one directory if it is old and nothing of it lives; says whether it did. The directory
/// above goes with the last of a session that is gone.
fn remove(path: &Path, session_is_known: bool, before: SystemTime) -> bool {
    let lives = match RunDir::new(path).read_pid() {
        Ok(pids) => pids.is_some_and(|pids| pids.shim_lives() || pids.child_lives()),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "an old run directory is left alone: \
                it does not say whose it is");
            true
        }
    };
    if lives || newest_change(path).is_none_or(|changed| changed >= before) {
        return false;
    }
    if let Err(error) = crate::files::remove_all(path) {
        tracing::warn!(path = %path.display(), %error, "could not remove an old run directory");
        return false;
    }
    if !session_is_known && let Some(above) = path.parent() {
        // Others may be in it still.
        let _not_empty = std::fs::remove_dir(above);
    }
    true
}

/// When anything in the directory changed last; `None` when nobody can say.
fn newest_change(path: &Path) -> Option<SystemTime> {
    let journal = path.join("journal");
    let dirs = [path, &journal];
    let entries =
        dirs.iter().flat_map(|dir| std::fs::read_dir(dir).into_iter().flatten().flatten());
    let inside = entries.filter_map(|entry| entry.metadata().ok()?.modified().ok());
    std::fs::symlink_metadata(path).ok()?.modified().ok().into_iter().chain(inside).max()
}
