//! What changed among the sessions of one caller, looked up once for all of its waits.
//!
//! Every commit of the server may be news for a `wait`. If each of a thousand waits looked for
//! itself, one commit would be a thousand reads. So one task for each scope looks after each
//! commit, and wakes the waits of the scope only when one of its sessions changed. It lives as long
//! as somebody waits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use plexus_core::SessionId;
use plexus_store::{SessionFilter, Store, StoreError, Topic, Wake, limits};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::wait::STORE_RETRY;

/// The scopes in which somebody waits, by the session above them; `None` is the operator's, which
/// has every session.
pub struct Scopes {
    store: Arc<dyn Store>,
    by_root: Mutex<HashMap<Option<SessionId>, Weak<Scope>>>,
}

struct Scope {
    newest: watch::Sender<u64>,
    _task: AbortOnDropHandle<()>,
}

impl Scopes {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, by_root: Mutex::default() }
    }

    /// Subscribes to the scope below `root`. A caller that reads after this misses no later change.
    pub fn watch(&self, root: Option<SessionId>) -> Watch {
        let mut by_root = self.by_root.lock().unwrap_or_else(PoisonError::into_inner);
        let known = by_root.get(&root).and_then(Weak::upgrade);
        let scope = known.unwrap_or_else(|| {
            by_root.retain(|_, scope| scope.strong_count() > 0);
            let newest = watch::Sender::new(0);
            let looking = Looking {
                store: Arc::clone(&self.store),
                wake: self.store.watch(Topic::Commits),
                filter: SessionFilter { under: root, ..SessionFilter::default() },
                newest: newest.clone(),
            };
            let task = AbortOnDropHandle::new(tokio::spawn(looking.run()));
            let scope = Arc::new(Scope { newest, _task: task });
            by_root.insert(root, Arc::downgrade(&scope));
            scope
        });
        drop(by_root);
        Watch { newest: scope.newest.subscribe(), _scope: scope }
    }
}

/// One subscription to a scope.
pub struct Watch {
    newest: watch::Receiver<u64>,
    _scope: Arc<Scope>,
}

impl Watch {
    /// Counts every wake so far as known: a read after this sees their changes.
    pub fn seen(&mut self) {
        self.newest.borrow_and_update();
    }

    /// Waits until a session of the scope may have changed after commit `after`.
    pub async fn changed_after(&mut self, after: u64) {
        loop {
            if self.newest.changed().await.is_err() {
                // The task went with the runtime: there is nothing to hear any more, and nobody to
                // tell.
                std::future::pending::<()>().await;
            }
            if *self.newest.borrow_and_update() > after {
                return;
            }
        }
    }
}

/// The task of one scope.
struct Looking {
    store: Arc<dyn Store>,
    wake: Wake,
    filter: SessionFilter,
    newest: watch::Sender<u64>,
}

impl Looking {
    async fn run(mut self) {
        let mut looked = None;
        loop {
            self.wake.seen();
            match self.look(looked).await {
                Ok((up_to, newest)) => {
                    looked = Some(up_to);
                    if let Some(newest) = newest {
                        self.newest.send_replace(newest);
                    }
                    self.wake.changed().await;
                }
                Err(error) => {
                    // Every waiter reads for itself, and gets the error.
                    tracing::debug!(%error, "could not look for changed sessions");
                    self.newest.send_replace(u64::MAX);
                    tokio::time::sleep(STORE_RETRY).await;
                }
            }
        }
    }

    /// Looks at what came after commit `looked`. Returns up to where, and the newest change if
    /// there is one.
    async fn look(&self, looked: Option<u64>) -> Result<(u64, Option<u64>), StoreError> {
        let Some(mut after) = looked else {
            // A wait that subscribed before this first look may have read the store before it, too.
            // So the first look wakes every wait.
            let commit = self.store.newest_commit().await?;
            return Ok((commit, Some(commit)));
        };
        let mut newest = None;
        loop {
            let filter = self.filter.clone();
            let found = self.store.sessions_changed(after, filter, limits::MAX_PAGE_ITEMS).await?;
            let Some(last) = found.sessions.iter().map(|session| session.changed).max() else {
                return Ok((found.after.max(after), newest));
            };
            newest = Some(last);
            after = found.after.max(last);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plexus_store::{Change, CreateSession, MemoryStore, Priority};

    use super::*;

    async fn create(store: &dyn Store, name: &str, parent: Option<SessionId>) -> SessionId {
        let create = CreateSession::new(name, parent);
        let id = create.id;
        store.commit(vec![Change::CreateSession(create)], Priority::Normal).await.unwrap();
        id
    }

    #[tokio::test]
    async fn all_waits_of_one_caller_share_one_look_and_sleep_through_commits_of_others() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let own = create(&*store, "own", None).await;
        let other = create(&*store, "other", None).await;
        let scopes = Scopes::new(Arc::clone(&store));
        let after = store.newest_commit().await.unwrap();
        let mut waits: Vec<Watch> = (0..1_000).map(|_| scopes.watch(Some(own))).collect();
        let first = &waits[0]._scope;
        assert!(waits.iter().all(|wait| Arc::ptr_eq(&wait._scope, first)));
        for n in 0..10 {
            create(&*store, &format!("foreign {n}"), Some(other)).await;
        }
        let child = create(&*store, "child", Some(own)).await;
        let changed = store.session(child).await.unwrap().changed;
        for wait in &mut waits {
            tokio::time::timeout(Duration::from_secs(60), wait.changed_after(after))
                .await
                .expect("a change below it wakes every wait");
            // The first to wake them was the change of their own scope, not one of the ten before
            // it.
            assert_eq!(*wait.newest.borrow(), changed);
        }
        drop(waits);
        let mut again = scopes.watch(Some(own));
        again.seen();
        assert_eq!(scopes.by_root.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_change_between_subscribing_and_reading_wakes() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let own = create(&*store, "own", None).await;
        let scopes = Scopes::new(Arc::clone(&store));
        let mut wait = scopes.watch(None);
        wait.seen();
        let after = store.newest_commit().await.unwrap();
        create(&*store, "child", Some(own)).await;
        tokio::time::timeout(Duration::from_secs(60), wait.changed_after(after))
            .await
            .expect("it is told");
    }
}
