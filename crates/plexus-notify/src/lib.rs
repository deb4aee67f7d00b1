//! Sends what waits in the outbox to the configured receivers: one task for each, so that a slow or
//! dead one delays no other.
//!
//! The transaction that stores a fact also puts its entry into the outbox. The entry leaves when
//! its receiver has taken it, or when it is too old. After a crash in between, the entry is sent
//! again with the same id: delivery is at least once.
//!
//! In reading order:
//! - [`receiver`]: a configured receiver; [`notify`] and [`quiet`]: settings of the services that
//!   show messages to people;
//! - [`message`]: what such a service shows;
//! - `kinds`: one file for each service; `http` and `secret`: what they share;
//! - `listen`: buttons that people press;
//! - `line`: the task that sends to one receiver;
//! - [`stats`]: the numbers for `/metrics` and `plexus doctor`;
//! - `activation`: the methods;
//! - this file: the current receivers, which can change while the server runs.

mod activation;
mod http;
mod kinds;
mod line;
mod listen;
pub mod message;
pub mod notify;
pub mod quiet;
pub mod receiver;
mod secret;
mod stats;

use std::path::Path;
use std::sync::Arc;

use plexus_core::CallError;
use plexus_engine::Engine;
use plexus_store::{Priority, Store, StoreError, UnixMillis};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use activation::NotifyMethods;
use kinds::webpush::PushBox;
use kinds::{Attempt, To};
use line::{BATCH, Line, give_up};
use listen::Listening;
use message::Message;
pub use receiver::Receiver;
pub use stats::HookStats;

/// Who is told. They can be changed while a server runs. Cheap to clone.
#[derive(Clone)]
pub struct Receivers {
    engine: Arc<Engine>,
    stats: Arc<HookStats>,
    push: Arc<PushBox>,
    /// Where this server is reached from outside.
    public_url: Option<Arc<str>>,
    now: watch::Sender<Arc<[Receiver]>>,
}

impl Receivers {
    /// Receivers of the events of `engine`. Their keys for web push are kept in `data_dir`.
    pub fn new(
        engine: Arc<Engine>,
        data_dir: &Path,
        public_url: Option<String>,
        receivers: Vec<Receiver>,
    ) -> Self {
        let push = Arc::new(PushBox::new(data_dir));
        let public_url = public_url.map(Into::into);
        let new =
            Self { engine, stats: Arc::default(), push, public_url, now: watch::Sender::default() };
        new.set(receivers);
        new
    }

    /// Tells these receivers from now on, and no others. What still waits for others is given up.
    pub fn set(&self, receivers: Vec<Receiver>) {
        self.engine.set_hook_receivers(receivers.iter().map(Receiver::wants).collect());
        self.stats.count_for(&receivers);
        // Last: by now nothing more is put into the outbox for receivers that are gone.
        self.now.send_replace(receivers.into());
    }

    /// Returns the counts of what was sent.
    #[must_use]
    pub fn stats(&self) -> Arc<HookStats> {
        Arc::clone(&self.stats)
    }

    fn all(&self) -> Arc<[Receiver]> {
        Arc::clone(&self.now.borrow())
    }

    fn public_url(&self) -> Option<&str> {
        self.public_url.as_deref()
    }

    /// Ends push subscriptions of phones that were revoked. While that cannot be known, nothing is
    /// sent to a browser.
    async fn forget_revoked(&self, store: &dyn Store) -> Result<(), String> {
        let devices = store.devices().await.map_err(|error| error.to_string())?;
        let standing = devices.into_iter().map(|device| device.id).collect();
        self.push.keep_devices(&standing).map_err(|error| error.to_string())
    }

    /// Sends a test message to a receiver, and says why it did not arrive.
    async fn test(&self, name: &str, store: &dyn Store) -> Result<(), CallError> {
        let receivers = self.all();
        let receiver = receivers.iter().find(|it| it.name == name).ok_or_else(|| {
            let known: Vec<&str> = receivers.iter().map(|it| it.name.as_str()).collect();
            let hint = match known.as_slice() {
                [] => "none is configured; `[[notify]]` in plexus.toml adds one, and \
                       docs/notify.md says how"
                    .to_owned(),
                known => format!("the receivers are: {}", known.join(", ")),
            };
            CallError::not_found(format_args!("test {name:?}: no receiver has this name"))
                .with_field("name")
                .with_hint(hint)
        })?;
        if let To::Webhook(_) = receiver.to {
            return Err(CallError::invalid(
                "test a webhook: it receives events only, and a test is not an event",
            )
            .with_hint("let a chat end, then look at notify.receivers"));
        }
        if let To::Webpush(_) = receiver.to {
            let problem =
                |why| CallError::unavailable(format_args!("send a test to {name}: {why}"));
            self.forget_revoked(store).await.map_err(problem)?;
        }
        let message = Message::test(name, self.public_url());
        match receiver.to.send(&message, receiver.timeout, &self.push).await {
            Attempt::Delivered => {
                self.stats.delivered(name);
                Ok(())
            }
            Attempt::Refused(why) | Attempt::Unreachable(why) => {
                tracing::warn!(receiver = name, why, "a test message could not be sent");
                self.stats.failed(name, &why);
                Err(CallError::unavailable(format_args!("send a test to {name}: {why}")))
            }
        }
    }
}

/// Sends until the server stops.
#[derive(Clone)]
pub struct Sender {
    store: Arc<dyn Store>,
    receivers: Receivers,
}

impl Sender {
    /// A sender of the messages that wait in a store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, receivers: Receivers) -> Self {
        Self { store, receivers }
    }

    /// Gives every receiver its task, anew whenever they change, and waits until all have noticed
    /// that the server stops.
    pub async fn run(self, shutdown: CancellationToken) {
        let mut changes = self.receivers.now.subscribe();
        loop {
            let receivers = Arc::clone(&changes.borrow_and_update());
            self.drop_what_nobody_gets(&receivers).await;
            let (tasks, stop) = (TaskTracker::new(), shutdown.child_token());
            for receiver in receivers.iter().cloned() {
                self.listen(&receiver, &tasks, &stop);
                let line = Line::new(Arc::clone(&self.store), self.receivers.clone(), receiver);
                tasks.spawn(line.run(stop.clone()));
            }
            tasks.close();
            tokio::select! {
                // A message that is being sent is aborted and sent again: it may arrive twice, as
                // after a crash.
                _changed = changes.changed() => stop.cancel(),
                () = shutdown.cancelled() => {}
            }
            tasks.wait().await;
            if shutdown.is_cancelled() {
                return;
            }
        }
    }

    /// Takes presses of a receiver's buttons, where they come through its own connection.
    fn listen(&self, receiver: &Receiver, tasks: &TaskTracker, stop: &CancellationToken) {
        if !receiver.answers {
            return;
        }
        let listening = Listening {
            receiver: receiver.name.clone(),
            answers: self.receivers.engine.hook_answers(),
            stats: self.receivers.stats(),
            timeout: receiver.timeout,
        };
        let stop = stop.clone();
        match receiver.to.clone() {
            To::Telegram(to) => {
                tasks.spawn(async move { to.listen(listening, stop).await });
            }
            To::Slack(to) => {
                tasks.spawn(async move { to.listen(listening, stop).await });
            }
            To::Webhook(_) | To::Ntfy(_) | To::Webpush(_) | To::Desktop | To::Command(_) => {}
        }
    }

    /// Drops what waits for receivers that are no longer configured, and notes it in the audit.
    async fn drop_what_nobody_gets(&self, receivers: &[Receiver]) {
        // Where servers share a store, the receiver may be configured at another server.
        if self.store.lease().is_some() {
            return;
        }
        let given_up = async {
            for waiting in self.store.outbox_waiting().await? {
                if receivers.iter().any(|receiver| receiver.name == waiting.target) {
                    continue;
                }
                loop {
                    let end = UnixMillis(i64::MAX);
                    let entries = self.store.outbox_due(&waiting.target, end, BATCH).await?.entries;
                    if entries.is_empty() {
                        break;
                    }
                    for entry in &entries {
                        let why = "its receiver is no longer configured";
                        self.store.commit(give_up(entry, why)?, Priority::Normal).await?;
                    }
                }
            }
            Ok::<_, StoreError>(())
        };
        if let Err(error) = given_up.await {
            tracing::warn!(%error, "could not look for messages to receivers that are gone");
        }
    }
}
