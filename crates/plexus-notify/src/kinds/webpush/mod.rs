//! Web Push: a message to every browser that has subscribed, through the browser maker's service.
//!
//! In reading order: this file sends a message to each subscription; [`store`] keeps the
//! subscriptions and the key that we prove ourselves with; [`crypt`] encrypts for a browser (RFC
//! 8291), so that the service cannot read what it carries; [`vapid`] says who we are (RFC 8292).

mod crypt;
mod store;
mod vapid;

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use plexus_confine::egress::HostPattern;
use plexus_store::UnixMillis;
use plexus_wire::RiskLevel;
use rustls::ClientConfig;
use serde_json::{Value, json};
use url::Url;

use super::Attempt;
use crate::http::{Address, exchange};
use crate::message::Message;
pub(crate) use store::{PushBox, PushError, Subscription};

/// The push services of the browsers that we know.
const KNOWN_SERVICES: &[&str] = &[
    "fcm.googleapis.com",
    "updates.push.services.mozilla.com",
    "*.push.services.mozilla.com",
    "web.push.apple.com",
    "*.push.apple.com",
    "*.notify.windows.com",
];

/// How long a service keeps a message for a browser that is away, where its request has no end.
const KEPT_FOR: Duration = Duration::from_secs(24 * 3_600);

/// Messages of which we remember who has them, while others are retried.
const REMEMBERED: usize = 64;

/// Messages, oldest first, each with the endpoints that have it.
type Taken = VecDeque<(String, BTreeSet<String>)>;

/// Every browser that has subscribed.
#[derive(Clone, Debug)]
pub(crate) struct Webpush {
    /// Whom a service may write to about our messages.
    contact: Option<String>,
    services: Vec<HostPattern>,
    tls: Arc<ClientConfig>,
    /// Which subscriptions have which message: a retry is for the others.
    taken: Arc<Mutex<Taken>>,
}

impl Webpush {
    pub(crate) fn new(
        contact: Option<String>,
        mut services: Vec<HostPattern>,
        ca_file: Option<&Path>,
    ) -> Result<Self, String> {
        for known in KNOWN_SERVICES {
            services.push(known.parse().map_err(|_| format!("{known} is not a host"))?);
        }
        let tls = plexus_tls::trust(ca_file, "ca_file").map_err(|error| error.to_string())?;
        Ok(Self { contact, services, tls: Arc::new(tls), taken: Arc::default() })
    }

    /// Says whether a browser may subscribe with this address, and why not. Without this, whoever
    /// may subscribe could have us post to any host.
    pub(crate) fn check(&self, endpoint: &str) -> Result<(), String> {
        let url: Url = endpoint.parse().map_err(|_| "it is not an address".to_owned())?;
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        if !self.services.iter().any(|known| known.matches(host, port)) {
            return Err(format!(
                "{host} is not a known push service; add it to `services` of the notify entry"
            ));
        }
        let is_here = match url.host() {
            Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
            Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
            Some(url::Host::Domain(_)) | None => false,
        };
        match url.scheme() {
            "https" => Ok(()),
            "http" if is_here => Ok(()),
            _ => Err("it must begin with https://".to_owned()),
        }
    }

    pub(super) async fn send(
        &self,
        message: &Message,
        within: Duration,
        push: &PushBox,
    ) -> Attempt {
        let subscriptions = match push.subscriptions() {
            Ok(subscriptions) => subscriptions,
            Err(error) => return Attempt::Refused(error.to_string()),
        };
        if subscriptions.is_empty() {
            let why = "no browser has subscribed; open the dashboard there and allow notifications";
            return Attempt::Refused(why.into());
        }
        let which: String = message.items.iter().map(|item| item.event["id"].to_string()).collect();
        let has_it = self.who_has(&which);
        let (mut delivered, mut expired) = (has_it.len(), None);
        let (mut problem, mut is_silent) = (None, false);
        for subscription in subscriptions {
            if has_it.contains(&subscription.endpoint) {
                continue;
            }
            match self.send_to(&subscription, message, within, push).await {
                Sent::Taken => {
                    plexus_fault::point!("push.taken");
                    self.remember(&which, &subscription.endpoint);
                    delivered += 1;
                }
                Sent::Gone(status) => {
                    let words = format!(
                        "the push subscription of {:?} has expired ({status}) and was removed; \
                         subscribe again there",
                        subscription.name
                    );
                    tracing::warn!("{words}");
                    if let Err(error) = push.unsubscribe(&subscription.endpoint) {
                        tracing::error!(%error, "a subscription could not be removed");
                    }
                    expired = Some(words);
                }
                Sent::Refused(why) => problem = Some(why),
                Sent::Unreachable(why) => (problem, is_silent) = (Some(why), true),
            }
        }
        // An expired subscription is no failure of the delivery, unless nobody else got the message.
        match problem.or(expired.filter(|_| delivered == 0)) {
            None => Attempt::Delivered,
            Some(why) if is_silent => Attempt::Unreachable(why),
            Some(why) => Attempt::Refused(why),
        }
    }

    async fn send_to(
        &self,
        to: &Subscription,
        message: &Message,
        within: Duration,
        push: &PushBox,
    ) -> Sent {
        // The configuration may have changed since it subscribed.
        if let Err(why) = self.check(&to.endpoint) {
            return Sent::Refused(format!("the subscription of {}: {why}", to.name));
        }
        let Ok(url) = to.endpoint.parse::<Url>() else {
            return Sent::Refused(format!("the address of {} is not valid", to.name));
        };
        let Some(sealed) = crypt::encrypt(to, letter(message).to_string().as_bytes()) else {
            return Sent::Refused(format!("the keys of {} cannot be used", to.name));
        };
        let now = UnixMillis::now();
        let stated = UnixMillis::by_the_machine();
        let proof = match push.prove(&url, self.contact.as_deref(), stated) {
            Ok(proof) => proof,
            Err(error) => return Sent::Refused(error.to_string()),
        };
        let ttl = message.ends_at.map_or(KEPT_FOR, |end| end.after(now)).as_secs();
        let urgency = match message.level {
            Some(RiskLevel::Critical | RiskLevel::High) => "high",
            Some(RiskLevel::Medium | RiskLevel::Low) | None => "normal",
        };
        let tls = (url.scheme() == "https").then(|| Arc::clone(&self.tls));
        let at = Address { url, tls };
        let request = at
            .post()
            .header(CONTENT_TYPE, "application/octet-stream")
            .header(CONTENT_ENCODING, "aes128gcm")
            .header(AUTHORIZATION, proof)
            .header("ttl", ttl.to_string())
            .header("urgency", urgency)
            .header("topic", message.tag.replace('-', ""))
            .body(Body::from(sealed));
        let Ok(request) = request else {
            return Sent::Refused("it could not be written".into());
        };
        match exchange(&at, request, within, 0).await {
            Ok(answer) if answer.status.is_success() => Sent::Taken,
            Ok(answer) => match answer.status {
                gone @ (StatusCode::NOT_FOUND | StatusCode::GONE) => Sent::Gone(gone),
                status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                    Sent::Refused(format!(
                        "the push service of {} answered {status}: it does not take our key; is \
                         the clock of this machine right, and was the subscription made with the \
                         key of this server?",
                        to.name
                    ))
                }
                status => {
                    Sent::Refused(format!("the push service of {} answered {status}", to.name))
                }
            },
            Err(error) => Sent::Unreachable(error.to_string()),
        }
    }

    fn who_has(&self, which: &str) -> BTreeSet<String> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let found = taken.iter().find(|(message, _)| message == which);
        found.map(|(_, who)| who.clone()).unwrap_or_default()
    }

    fn remember(&self, which: &str, endpoint: &str) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, who)) = taken.iter_mut().find(|(message, _)| message == which) {
            who.insert(endpoint.to_owned());
            return;
        }
        if taken.len() >= REMEMBERED {
            taken.pop_front();
        }
        taken.push_back((which.to_owned(), [endpoint.to_owned()].into()));
    }
}

/// Says whether a message is short enough: its JSON, which escapes some of the text.
pub(super) fn takes(message: &Message) -> bool {
    letter(message).to_string().len() <= crypt::MAX_PLAIN_BYTES
}

/// What the service worker of the browser reads.
fn letter(message: &Message) -> Value {
    let mut letter = json!({
        "title": message.title,
        "body": message.body,
        "url": message.url,
        "tag": message.tag,
    });
    if let [only] = message.items.as_slice()
        && let Some(id) = only.approval
    {
        letter["approval_id"] = json!(id);
    }
    letter
}

/// What became of a message to one browser.
enum Sent {
    Taken,
    /// The service does not know the subscription any more.
    Gone(StatusCode),
    Refused(String),
    Unreachable(String),
}
