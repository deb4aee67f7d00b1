//! A stand-in for the push service of a browser maker, and for browsers that subscribe with it.
//!
//! The service checks who sends (RFC 8292), by a clock of its own; the browser decrypts (RFC 8291).
//! Both are written from the texts of the standards, apart from the server's own code.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::hmac::{HMAC_SHA256, Key, sign};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature;
use serde_json::{Value, json};

use super::{Shared, Site};
use crate::wait::{PATIENCE, eventually_async};

/// The longest that a token of a sender may hold, in seconds, and the most bytes of a message.
const LONGEST_HOLD: i64 = 24 * 3_600;
const MAX_BODY_BYTES: usize = 4_096;

/// A push service.
#[derive(Debug)]
pub struct PushService {
    site: Site,
    state: Arc<Shared<Vec<Subscribed>>>,
    /// How far its clock is ahead of ours, in seconds.
    ahead: Arc<AtomicI64>,
}

/// A browser that has subscribed.
#[derive(Clone, Debug)]
pub struct Browser {
    /// What it tells the server: `endpoint`, `p256dh`, `auth`.
    pub subscription: Value,
    number: usize,
}

/// A message that a browser has decrypted.
#[derive(Clone, PartialEq, Debug)]
pub struct Pushed {
    /// What was in it.
    pub message: Value,
    /// For how many seconds the service was to keep it.
    pub ttl: u64,
    /// What the sender says of itself.
    pub claims: Value,
}

struct Subscribed {
    /// The key of the server that it trusts.
    server_key: String,
    /// The browser's private key, which decrypts one message.
    private: Option<EphemeralPrivateKey>,
    public: Vec<u8>,
    auth: [u8; 16],
    is_expired: bool,
    pushed: Vec<Pushed>,
    /// Messages that were taken, also those that nobody decrypts.
    taken: usize,
}

impl std::fmt::Debug for Subscribed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscribed").field("taken", &self.taken).finish_non_exhaustive()
    }
}

impl PushService {
    /// Starts one whose clock is so many seconds ahead of ours.
    #[must_use]
    pub fn start(ahead: i64) -> Self {
        let state = Shared::new(Vec::new());
        let ahead = Arc::new(AtomicI64::new(ahead));
        let mut site = Site::new();
        let origin = site.url();
        let router = Router::new().route("/push/{number}", post(take)).with_state((
            Arc::clone(&state),
            Arc::clone(&ahead),
            origin,
        ));
        site.serve(router);
        Self { site, state, ahead }
    }

    /// Its host and port.
    #[must_use]
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.site.port)
    }

    /// Sets its clock.
    pub fn set_ahead(&self, secs: i64) {
        self.ahead.store(secs, Ordering::SeqCst);
    }

    /// Nobody listens on its port from now on.
    pub async fn stop(&mut self) {
        self.site.stop().await;
    }

    /// Listens again.
    pub fn start_again(&mut self) {
        self.site.start_again();
    }

    /// Subscribes a browser to messages of the server with this key.
    ///
    /// # Panics
    /// When this machine has no randomness.
    #[expect(clippy::expect_used, reason = "for tests")]
    pub fn subscribe(&self, server_key: &str) -> Browser {
        let random = SystemRandom::new();
        let private = EphemeralPrivateKey::generate(&ECDH_P256, &random).expect("a key");
        let public = private.compute_public_key().expect("its public half").as_ref().to_vec();
        let mut auth = [0; 16];
        random.fill(&mut auth).expect("a secret");
        let number = self.state.change(|all| {
            all.push(Subscribed {
                server_key: server_key.to_owned(),
                private: Some(private),
                public: public.clone(),
                auth,
                is_expired: false,
                pushed: Vec::new(),
                taken: 0,
            });
            all.len() - 1
        });
        let subscription = json!({
            "endpoint": format!("{}/push/{number}", self.site.url()),
            "p256dh": URL_SAFE_NO_PAD.encode(&public),
            "auth": URL_SAFE_NO_PAD.encode(auth),
        });
        Browser { subscription, number }
    }

    /// Forgets a subscription, as a service does when a browser is gone.
    pub fn expire(&self, browser: &Browser) {
        self.state.change(|all| all[browser.number].is_expired = true);
    }

    /// How many messages for a browser were taken.
    #[must_use]
    pub fn taken(&self, browser: &Browser) -> usize {
        self.state.lock()[browser.number].taken
    }

    /// Waits for the message that a browser decrypts.
    pub async fn wait_for(&self, browser: &Browser) -> Pushed {
        eventually_async("a push message", PATIENCE, || {
            std::future::ready(self.state.lock()[browser.number].pushed.first().cloned())
        })
        .await
    }
}

type Serving = (Arc<Shared<Vec<Subscribed>>>, Arc<AtomicI64>, String);

async fn take(
    State((state, ahead, origin)): State<Serving>,
    Path(number): Path<usize>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let header = |name: &str| headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    let now = i64::try_from(now).unwrap_or_default() + ahead.load(Ordering::SeqCst);
    state.change(|all| {
        let Some(to) = all.get_mut(number) else { return StatusCode::NOT_FOUND };
        if to.is_expired {
            return StatusCode::GONE;
        }
        let Some(claims) = proven(header("authorization"), &to.server_key) else {
            return StatusCode::FORBIDDEN;
        };
        let exp = claims["exp"].as_i64().unwrap_or_default();
        if claims["aud"] != origin.as_str() || exp <= now || exp > now + LONGEST_HOLD {
            return StatusCode::UNAUTHORIZED;
        }
        let Ok(ttl) = header("ttl").parse() else { return StatusCode::BAD_REQUEST };
        if header("content-encoding") != "aes128gcm" || body.len() > MAX_BODY_BYTES {
            return StatusCode::PAYLOAD_TOO_LARGE;
        }
        to.taken += 1;
        if let Some(private) = to.private.take()
            && let Some(message) = decrypted(private, &to.public, &to.auth, &body)
        {
            to.pushed.push(Pushed { message, ttl, claims });
        }
        StatusCode::CREATED
    })
}

/// What a sender proves of itself: its claims, if the trusted key signed them.
fn proven(header: &str, trusted: &str) -> Option<Value> {
    let parts: Vec<&str> = header.strip_prefix("vapid ")?.split(", ").collect();
    let field = |name: &str| parts.iter().find_map(|part| part.strip_prefix(name));
    let (token, key) = (field("t=")?, field("k=")?);
    if key != trusted {
        return None;
    }
    let (signed, signature) = token.rsplit_once('.')?;
    let (head, claims) = signed.split_once('.')?;
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
    let head: Value = serde_json::from_slice(&decode(head)?).ok()?;
    if head["alg"] != "ES256" {
        return None;
    }
    let key = decode(key)?;
    signature::UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, key)
        .verify(signed.as_bytes(), &decode(signature)?)
        .ok()?;
    serde_json::from_slice(&decode(claims)?).ok()
}

/// Opens the only record of a message: RFC 8291, section 3.4, with HKDF written as HMACs.
fn decrypted(
    private: EphemeralPrivateKey,
    public: &[u8],
    auth: &[u8],
    body: &[u8],
) -> Option<Value> {
    let (salt, rest) = body.split_at_checked(16)?;
    let (_record_size, rest) = rest.split_at_checked(4)?;
    let (length, rest) = rest.split_first()?;
    let (sender, sealed) = rest.split_at_checked(usize::from(*length))?;
    let theirs = UnparsedPublicKey::new(&ECDH_P256, sender);
    let shared = agree_ephemeral(private, &theirs, <[u8]>::to_vec).ok()?;
    let hmac = |key: &[u8], parts: &[&[u8]]| {
        sign(&Key::new(HMAC_SHA256, key), &parts.concat()).as_ref().to_vec()
    };
    let input = hmac(&hmac(auth, &[&shared]), &[b"WebPush: info\0", public, sender, &[1]]);
    let secret = hmac(salt, &[&input]);
    let key = hmac(&secret, &[b"Content-Encoding: aes128gcm\0", &[1]]);
    let nonce = hmac(&secret, &[b"Content-Encoding: nonce\0", &[1]]);
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key[..16]).ok()?);
    let mut record = sealed.to_vec();
    let nonce = Nonce::try_assume_unique_for_key(&nonce[..12]).ok()?;
    let plain = key.open_in_place(nonce, Aad::empty(), &mut record).ok()?;
    let end = plain.iter().rposition(|byte| *byte != 0)?;
    (plain[end] == 2).then(|| serde_json::from_slice(&plain[..end]).ok())?
}
