//! Wakes readers when their journal grows. One watcher of the file system serves any number of
//! journals.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

/// How long a reader waits at most before it polls. File notifications can be lost (a full queue, a
/// network file system), and a child that waits for an answer must not wait for ever because of
/// that.
pub const SAFETY_INTERVAL: Duration = Duration::from_secs(1);

/// Watches directories for many readers. Clones share one watcher.
#[derive(Debug, Clone, Default)]
pub struct JournalWatcher {
    shared: Arc<Shared>,
}

/// One reader's subscription. Subscribe first, then read, then wait: growth between the read and
/// the wait is not missed.
#[derive(Debug)]
pub struct Growth {
    dir: PathBuf,
    wake: Arc<Notify>,
    shared: Arc<Shared>,
    notified_by_system: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wakes: Arc<Mutex<Wakes>>,
}

/// The directories and the readers that wait for them. Kept apart from the watcher, because the
/// watcher's own thread takes this lock.
type Wakes = HashMap<PathBuf, Vec<Weak<Notify>>>;

#[derive(Debug, Default)]
struct State {
    watcher: Option<RecommendedWatcher>,
}

impl JournalWatcher {
    /// Creates a watcher. The first subscription opens the notification facility of the system.
    pub fn new() -> Self {
        Self::default()
    }

    /// Subscribes to the directory of a [`JournalDir`](super::JournalDir). If the system cannot
    /// watch it (no watches left, or the directory does not exist yet), the subscription still
    /// wakes its reader every [`SAFETY_INTERVAL`] and tries again;
    /// [`Growth::is_notified_by_system`] tells which.
    pub fn subscribe(&self, dir: &Path) -> Growth {
        let dir = dir.to_path_buf();
        let wake = Arc::new(Notify::new());
        lock(&self.shared.wakes).entry(dir.clone()).or_default().push(Arc::downgrade(&wake));
        let notified_by_system = self.shared.watch(&dir).is_ok();
        Growth { dir, wake, shared: Arc::clone(&self.shared), notified_by_system }
    }

    /// Subscribes to the file of a [`Journal`](super::Journal), by the directory that it is or will
    /// be in.
    pub fn subscribe_file(&self, file: &Path) -> Growth {
        match file.parent() {
            Some(dir) if dir.as_os_str().is_empty() => self.subscribe(Path::new(".")),
            Some(dir) => self.subscribe(dir),
            None => self.subscribe(file),
        }
    }
}

impl Growth {
    /// Waits until there may be more to read: for a notification of the system, at most
    /// [`SAFETY_INTERVAL`].
    pub async fn wait(&mut self) {
        // A timeout is the ordinary outcome when nothing was written.
        let _ = tokio::time::timeout(SAFETY_INTERVAL, self.wake.notified()).await;
        if !self.notified_by_system {
            self.notified_by_system = self.shared.watch(&self.dir).is_ok();
        }
    }

    /// Returns whether the system notifies us of growth; otherwise only the timer wakes the reader.
    pub fn is_notified_by_system(&self) -> bool {
        self.notified_by_system
    }
}

impl Drop for Growth {
    fn drop(&mut self) {
        // The lock is held throughout: a subscription that comes meanwhile is either counted here
        // or starts a new watch afterwards.
        let mut state = lock(&self.shared.state);
        let is_last = {
            let mut wakes = lock(&self.shared.wakes);
            let others = wakes.get_mut(&self.dir).map_or(0, |waiting| {
                waiting.retain(|wake| {
                    wake.upgrade().is_some_and(|wake| !Arc::ptr_eq(&wake, &self.wake))
                });
                waiting.len()
            });
            others == 0 && wakes.remove(&self.dir).is_some()
        };
        if is_last && let Some(watcher) = &mut state.watcher {
            // This fails if the directory is gone, and then it is no longer watched either.
            let _ = watcher.unwatch(&self.dir);
        }
    }
}

impl Shared {
    /// Watches `dir`; watching it again does nothing.
    fn watch(&self, dir: &Path) -> notify::Result<()> {
        let mut state = lock(&self.state);
        let watcher = match &mut state.watcher {
            Some(watcher) => watcher,
            none => {
                let wakes = Arc::clone(&self.wakes);
                none.insert(notify::recommended_watcher(move |event| wake_readers(&wakes, event))?)
            }
        };
        watcher.watch(dir, RecursiveMode::NonRecursive)
    }
}

/// Wakes the readers that an event concerns. Runs on the watcher's thread.
fn wake_readers(wakes: &Mutex<Wakes>, event: notify::Result<notify::Event>) {
    let wakes = lock(wakes);
    let wake = |waiting: &Vec<Weak<Notify>>| {
        waiting.iter().filter_map(Weak::upgrade).for_each(|wake| wake.notify_one())
    };
    match event {
        // Readers cause access events themselves.
        Ok(event) if matches!(event.kind, EventKind::Access(_)) => {}
        Ok(event) if !event.need_rescan() => {
            for path in &event.paths {
                let dir = path.parent().and_then(|dir| wakes.get(dir));
                dir.into_iter().chain(wakes.get(path)).for_each(wake);
            }
        }
        // Notifications were lost, so every reader polls.
        Ok(_) | Err(_) => wakes.values().for_each(wake),
    }
}

/// Takes a lock. A poisoned one still guards a consistent map, because every change of the map is
/// one call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
