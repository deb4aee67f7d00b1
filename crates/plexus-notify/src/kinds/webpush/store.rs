//! The browsers that have subscribed, and the key that we prove ourselves with, in one file of the
//! data directory that only its owner can read (0600). A subscription's address is a secret:
//! anyone who has it can send to the browser, and with the keys beside it the browser accepts the
//! message.

use std::collections::HashSet;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use plexus_core::DeviceId;
use plexus_store::UnixMillis;
use ring::signature::EcdsaKeyPair;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{crypt, vapid};
use plexus_files::write_private;

/// The file.
const FILE: &str = "webpush.json";

/// The most subscriptions: each message goes to all of them.
const MAX_SUBSCRIPTIONS: usize = 64;

/// How many of them one device has: a phone has a browser or two, and takes no place of another.
const MAX_OF_DEVICE: usize = 4;

/// The length of a browser's authentication secret.
const AUTH_BYTES: usize = 16;

/// A browser that has subscribed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Subscription {
    pub(crate) endpoint: String,
    #[serde(with = "base64url")]
    pub(super) p256dh: Vec<u8>,
    #[serde(with = "base64url")]
    pub(super) auth: Vec<u8>,
    /// What people call it.
    pub(crate) name: String,
    /// The device whose token subscribed; none for a browser of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    device: Option<DeviceId>,
}

impl fmt::Debug for Subscription {
    /// Leaves out everything but the name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Subscription {
    /// A subscription with keys that were checked.
    pub(super) fn new(endpoint: String, p256dh: Vec<u8>, auth: Vec<u8>, name: String) -> Self {
        Self { endpoint, p256dh, auth, name, device: None }
    }

    /// The same for a browser that came with the token of a device: it ends with the device.
    pub(crate) fn of(self, device: Option<DeviceId>) -> Self {
        Self { device, ..self }
    }

    /// Reads what a browser says of its subscription.
    pub(crate) fn read(
        endpoint: &str,
        p256dh: &str,
        auth: &str,
        name: String,
    ) -> Result<Self, (&'static str, &'static str)> {
        let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok();
        let p256dh = bytes(p256dh)
            .filter(|it| crypt::is_key(it))
            .ok_or(("p256dh", "it is not a P-256 point in base64url"))?;
        let auth = bytes(auth)
            .filter(|it| it.len() == AUTH_BYTES)
            .ok_or(("auth", "it is not 16 bytes in base64url"))?;
        Ok(Self::new(endpoint.to_owned(), p256dh, auth, name))
    }
}

/// Why subscriptions cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PushError {
    #[error("use {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("use {}: it holds no key of this server; remove it, and subscribe again", .0.display())]
    Damaged(PathBuf),
    #[error("make a key for push messages")]
    NoKey,
    #[error("take another subscription: there are already {MAX_SUBSCRIPTIONS}; end one first")]
    Full,
}

/// All subscriptions and our key. The file is read at the first use.
#[derive(Debug)]
pub(crate) struct PushBox {
    path: PathBuf,
    kept: Mutex<Option<Kept>>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Kept {
    /// Our private key, in PKCS#8.
    #[serde(with = "base64url")]
    key: Vec<u8>,
    subscriptions: Vec<Subscription>,
}

impl fmt::Debug for Kept {
    /// Leaves the key out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").field("subscriptions", &self.subscriptions).finish_non_exhaustive()
    }
}

impl PushBox {
    pub(crate) fn new(data_dir: &Path) -> Self {
        Self { path: data_dir.join(FILE), kept: Mutex::default() }
    }

    /// Returns the public half of our key; draws the key at the first use.
    pub(crate) fn public_key(&self) -> Result<String, PushError> {
        let key = self.key()?;
        Ok(vapid::public(&key))
    }

    /// Writes the header that proves who we are to the service at `url`.
    pub(super) fn prove(
        &self,
        url: &Url,
        contact: Option<&str>,
        now: UnixMillis,
    ) -> Result<String, PushError> {
        vapid::header(&self.key()?, url, contact, now).ok_or(PushError::NoKey)
    }

    pub(crate) fn subscriptions(&self) -> Result<Vec<Subscription>, PushError> {
        let mut kept = self.lock();
        Ok(self.loaded(&mut kept)?.subscriptions.clone())
    }

    /// Adds a subscription, or renews the one with the same address. A device that has as many as
    /// it may replaces its oldest.
    pub(crate) fn subscribe(&self, new: Subscription) -> Result<(), PushError> {
        self.change(|subscriptions| {
            subscriptions.retain(|known| known.endpoint != new.endpoint);
            let is_own = |known: &Subscription| new.device.is_some() && known.device == new.device;
            let own = subscriptions.iter().filter(|known| is_own(known)).count();
            if own >= MAX_OF_DEVICE
                && let Some(oldest) = subscriptions.iter().position(is_own)
            {
                subscriptions.remove(oldest);
            }
            if subscriptions.len() >= MAX_SUBSCRIPTIONS {
                return Err(PushError::Full);
            }
            subscriptions.push(new);
            Ok(())
        })
    }

    /// Ends a subscription, if there is one with this address.
    pub(crate) fn unsubscribe(&self, endpoint: &str) -> Result<(), PushError> {
        self.change(|subscriptions| {
            subscriptions.retain(|known| known.endpoint != endpoint);
            Ok(())
        })
    }

    /// Ends the subscriptions of devices other than these: a revoked phone is told nothing more.
    pub(crate) fn keep_devices(&self, standing: &HashSet<DeviceId>) -> Result<(), PushError> {
        let stands = |known: &Subscription| known.device.is_none_or(|id| standing.contains(&id));
        if self.subscriptions()?.iter().all(stands) {
            return Ok(());
        }
        self.change(|subscriptions| {
            subscriptions.retain(stands);
            Ok(())
        })
    }

    fn change(
        &self,
        change: impl FnOnce(&mut Vec<Subscription>) -> Result<(), PushError>,
    ) -> Result<(), PushError> {
        let mut kept = self.lock();
        let mut changed = self.loaded(&mut kept)?.clone();
        change(&mut changed.subscriptions)?;
        self.write(&changed)?;
        *kept = Some(changed);
        Ok(())
    }

    fn key(&self) -> Result<EcdsaKeyPair, PushError> {
        let mut kept = self.lock();
        let key = vapid::read(&self.loaded(&mut kept)?.key);
        key.ok_or_else(|| PushError::Damaged(self.path.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn loaded<'a>(&self, kept: &'a mut Option<Kept>) -> Result<&'a mut Kept, PushError> {
        if kept.is_none() {
            let read = match std::fs::read(&self.path) {
                Ok(text) => serde_json::from_slice(&text)
                    .map_err(|_| PushError::Damaged(self.path.clone()))?,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let key = vapid::draw().ok_or(PushError::NoKey)?;
                    let new = Kept { key, subscriptions: Vec::new() };
                    self.write(&new)?;
                    new
                }
                Err(source) => return Err(PushError::File { path: self.path.clone(), source }),
            };
            *kept = Some(read);
        }
        kept.as_mut().ok_or(PushError::NoKey)
    }

    fn write(&self, kept: &Kept) -> Result<(), PushError> {
        let written = serde_json::to_vec(kept)
            .map_err(io::Error::from)
            .and_then(|json| write_private(&self.path, &json));
        written.map_err(|source| PushError::File { path: self.path.clone(), source })
    }
}

/// Bytes as text.
mod base64url {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&URL_SAFE_NO_PAD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        URL_SAFE_NO_PAD.decode(text).map_err(|_| de::Error::custom("it is not base64url"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn key_and_subscriptions_survive_and_nobody_else_can_read_them() {
        let folder = tempfile::tempdir().unwrap();
        let first = PushBox::new(folder.path());
        let key = first.public_key().unwrap();
        let new = |endpoint: &str| {
            Subscription::new(endpoint.to_owned(), vec![1], vec![2], "phone".into())
        };
        first.subscribe(new("https://a/1")).unwrap();
        first.subscribe(new("https://a/2")).unwrap();
        first.subscribe(new("https://a/1")).unwrap();
        first.unsubscribe("https://a/2").unwrap();
        let again = PushBox::new(folder.path());
        assert_eq!(again.public_key().unwrap(), key);
        assert_eq!(again.subscriptions().unwrap(), [new("https://a/1")]);
        let mode = folder.path().join(FILE).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!format!("{again:?}").contains("https://a"), "{again:?}");
        for n in 0..MAX_SUBSCRIPTIONS - 1 {
            again.subscribe(new(&format!("https://b/{n}"))).unwrap();
        }
        assert!(matches!(again.subscribe(new("https://c/")), Err(PushError::Full)));
    }

    #[test]
    fn a_subscription_ends_with_its_device() {
        let folder = tempfile::tempdir().unwrap();
        let push = PushBox::new(folder.path());
        let [stays, revoked] = std::array::from_fn(|_| DeviceId::generate());
        for (endpoint, device) in [("a", None), ("b", Some(stays)), ("c", Some(revoked))] {
            let new = Subscription::new(endpoint.to_owned(), vec![1], vec![2], "phone".into());
            push.subscribe(new.of(device)).unwrap();
        }
        push.keep_devices(&[stays].into()).unwrap();
        for push in [push, PushBox::new(folder.path())] {
            let left = push.subscriptions().unwrap();
            assert_eq!(left.iter().map(|it| it.endpoint.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        }
    }

    #[test]
    fn a_device_replaces_its_own_subscriptions_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let push = PushBox::new(folder.path());
        let [one, other] = std::array::from_fn(|_| Some(DeviceId::generate()));
        let subscribe = |endpoint: String, device: Option<DeviceId>| {
            let new = Subscription::new(endpoint, vec![1], vec![2], "phone".into());
            push.subscribe(new.of(device)).unwrap();
        };
        subscribe("operator".into(), None);
        subscribe("other".into(), other);
        for n in 0..MAX_SUBSCRIPTIONS {
            subscribe(n.to_string(), one);
        }
        let left = push.subscriptions().unwrap();
        let left: Vec<&str> = left.iter().map(|it| it.endpoint.as_str()).collect();
        assert_eq!(left, ["operator", "other", "60", "61", "62", "63"]);
    }

    #[test]
    fn a_damaged_file_is_said_and_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        std::fs::write(&path, "{}").unwrap();
        let push = PushBox::new(folder.path());
        let error = push.public_key().unwrap_err().to_string();
        assert!(error.contains("webpush.json"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{}");
    }
}
