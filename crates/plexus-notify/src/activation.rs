//! `notify`: the methods about receivers outside, and the subscriptions of browsers.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use plexus_core::{Activation, ActivationInfo, Audience, Call, CallError, Caller, MethodTable};
use plexus_store::Store;
use plexus_wire::method::notify as wire;
use plexus_wire::{
    Done, MAX_PUSH_ENDPOINT_BYTES, NoParams, NotifyReceiver, NotifyReceivers, NotifyTestParams,
    PushKey, PushSubscribeParams, PushUnsubscribeParams,
};

use crate::kinds::To;
use crate::kinds::webpush::{PushError, Subscription, Webpush};
use crate::{Receiver, Receivers};

/// The longest name of a browser, in characters.
const MAX_NAME_CHARS: usize = 100;

/// The activation.
pub struct NotifyMethods {
    store: Weak<dyn Store>,
    receivers: Receivers,
}

impl NotifyMethods {
    /// The methods over the receivers of a server.
    #[must_use]
    pub fn new(store: &Arc<dyn Store>, receivers: Receivers) -> Self {
        Self { store: Arc::downgrade(store), receivers }
    }

    fn store(&self) -> Result<Arc<dyn Store>, CallError> {
        let gone = || CallError::unavailable("reach the server: it has stopped");
        self.store.upgrade().ok_or_else(gone)
    }

    async fn list(&self) -> Result<NotifyReceivers, CallError> {
        let waiting = self.store()?.outbox_waiting().await?;
        let counted = self.receivers.stats.read();
        let shown = |receiver: &Receiver| {
            let counts = counted.get(&receiver.name).cloned().unwrap_or_default();
            let entries = waiting.iter().find(|it| it.target == receiver.name);
            let is_push = matches!(receiver.to, To::Webpush(_));
            let subscriptions = self.receivers.push.subscriptions().ok().filter(|_| is_push);
            NotifyReceiver {
                name: receiver.name.clone(),
                to: receiver.to.word().to_owned(),
                answers: receiver.answers,
                waiting: entries.map_or(0, |it| it.entries),
                delivered: counts.delivered,
                failed: counts.failed,
                given_up: counts.given_up,
                delivered_at: counts.delivered_at.map(Into::into),
                last_failure: counts.last_failure,
                deaf: counts.deaf,
                subscriptions: subscriptions.map(|all| all.len() as u64),
                hint: self.hint(receiver),
            }
        };
        Ok(NotifyReceivers { receivers: self.receivers.all().iter().map(shown).collect() })
    }

    /// What the configuration makes impossible.
    fn hint(&self, receiver: &Receiver) -> Option<String> {
        let needs_a_way_in = match receiver.to {
            To::Ntfy(_) => receiver.answers,
            To::Webpush(_) => true,
            To::Webhook(_) | To::Slack(_) | To::Telegram(_) | To::Desktop | To::Command(_) => false,
        };
        (needs_a_way_in && self.receivers.public_url().is_none()).then(|| {
            "set public_url: without it, its links and buttons lead to this machine alone"
                .to_owned()
        })
    }

    /// The receiver for browsers.
    fn webpush(&self) -> Result<Webpush, CallError> {
        let receivers = self.receivers.all();
        let found = receivers.iter().find_map(|receiver| match &receiver.to {
            To::Webpush(to) => Some(to.clone()),
            _ => None,
        });
        found.ok_or_else(|| {
            CallError::conflict("send push messages: no receiver of this server is for browsers")
                .with_hint("add [[notify]] with to = \"webpush\" to plexus.toml")
        })
    }

    fn push_key(&self) -> Result<PushKey, CallError> {
        self.webpush()?;
        Ok(PushKey { public_key: self.receivers.push.public_key().map_err(failed)? })
    }

    fn subscribe(&self, caller: Caller, params: PushSubscribeParams) -> Result<Done, CallError> {
        let to = self.webpush()?;
        let invalid = |field, why: &str| {
            CallError::invalid(format_args!("subscribe: {why}")).with_field(field)
        };
        if params.endpoint.len() > MAX_PUSH_ENDPOINT_BYTES {
            let why = format!("an address has at most {MAX_PUSH_ENDPOINT_BYTES} bytes");
            return Err(invalid("endpoint", &why));
        }
        to.check(&params.endpoint).map_err(|why| invalid("endpoint", &why))?;
        let name = params.name.unwrap_or_else(|| "a browser".to_owned());
        if name.chars().count() > MAX_NAME_CHARS {
            return Err(invalid(
                "name",
                &format!("a name has at most {MAX_NAME_CHARS} characters"),
            ));
        }
        let new = Subscription::read(&params.endpoint, &params.p256dh, &params.auth, name)
            .map_err(|(field, why)| invalid(field, why))?;
        let device = match caller {
            Caller::Device(id) => Some(id),
            Caller::Operator | Caller::Session(_) | Caller::Child(_) => None,
        };
        self.receivers.push.subscribe(new.of(device)).map_err(failed)?;
        Ok(Done {})
    }

    fn unsubscribe(&self, params: &PushUnsubscribeParams) -> Result<Done, CallError> {
        self.receivers.push.unsubscribe(&params.endpoint).map_err(failed)?;
        Ok(Done {})
    }
}

fn failed(error: PushError) -> CallError {
    match error {
        PushError::Full => CallError::conflict(error),
        PushError::File { .. } | PushError::Damaged(_) | PushError::NoKey => {
            tracing::error!(%error, "push subscriptions cannot be used");
            CallError::unavailable("use the push subscriptions: the server's log says why")
        }
    }
}

#[async_trait]
impl Activation for NotifyMethods {
    fn info(&self) -> ActivationInfo {
        ActivationInfo {
            namespace: "notify",
            version: (1, 0, 0),
            description: "Receivers outside that are told what happens. For the operator.",
        }
    }

    fn methods(self: Arc<Self>) -> MethodTable {
        let [listing, testing, showing, adding, ending] =
            std::array::from_fn(|_| Arc::clone(&self));
        MethodTable::new("notify")
            .serves::<wire::Receivers, _, _>(
                "Lists the receivers outside, what waits for each, and why it last failed.",
                |d| d.audience = Audience::Operator,
                move |_: Call, _: NoParams| {
                    let this = Arc::clone(&listing);
                    async move { this.list().await }
                },
            )
            .serves::<wire::Test, _, _>(
                "Sends a test message to a receiver at once. An error says why it did not arrive.",
                |d| d.audience = Audience::Operator,
                move |_: Call, params: NotifyTestParams| {
                    let this = Arc::clone(&testing);
                    async move {
                        let store = this.store()?;
                        this.receivers.test(&params.name, &*store).await.map(|()| Done {})
                    }
                },
            )
            .serves::<wire::PushKey, _, _>(
                "Returns the key that a browser subscribes to push messages with.",
                |d| d.audience = Audience::Operator,
                move |_: Call, _: NoParams| {
                    let this = Arc::clone(&showing);
                    async move { this.push_key() }
                },
            )
            .serves::<wire::PushSubscribe, _, _>(
                "Adds a browser's push subscription, or renews the one with the same endpoint.",
                |d| d.audience = Audience::Operator,
                move |call: Call, params: PushSubscribeParams| {
                    let this = Arc::clone(&adding);
                    async move { this.subscribe(call.caller, params) }
                },
            )
            .serves::<wire::PushUnsubscribe, _, _>(
                "Ends a browser's push subscription, if there is one with this endpoint.",
                |d| d.audience = Audience::Operator,
                move |_: Call, params: PushUnsubscribeParams| {
                    let this = Arc::clone(&ending);
                    async move { this.unsubscribe(&params) }
                },
            )
            .short_list(&[])
            .for_devices(&["push_key", "push_subscribe", "push_unsubscribe"])
    }
}
