//! Says to a push service who we are: a token signed with the key that the browser subscribed with
//! (RFC 8292).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use plexus_store::UnixMillis;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::json;
use url::Url;

/// How long a token holds. Services take at most 24 hours, so a clock that is hours off by either
/// side does no harm.
const HOLDS_FOR: Duration = Duration::from_secs(12 * 3_600);

/// Whom a service may write to where nobody is configured.
const NOBODY: &str = "mailto:plexus@localhost";

/// Draws a key, in the form in which it is kept.
pub(super) fn draw() -> Option<Vec<u8>> {
    let drawn =
        EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
    drawn.ok().map(|kept| kept.as_ref().to_vec())
}

/// Reads a key that was kept.
pub(super) fn read(kept: &[u8]) -> Option<EcdsaKeyPair> {
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, kept, &SystemRandom::new()).ok()
}

/// The public half, as a browser takes it.
pub(super) fn public(key: &EcdsaKeyPair) -> String {
    URL_SAFE_NO_PAD.encode(key.public_key().as_ref())
}

/// Writes the `Authorization` header for the service at `url`.
pub(super) fn header(
    key: &EcdsaKeyPair,
    url: &Url,
    contact: Option<&str>,
    now: UnixMillis,
) -> Option<String> {
    let claims = json!({
        "aud": url.origin().ascii_serialization(),
        "exp": now.plus(HOLDS_FOR).as_secs(),
        "sub": contact.unwrap_or(NOBODY),
    });
    let head = URL_SAFE_NO_PAD.encode(r#"{"typ":"JWT","alg":"ES256"}"#);
    let signed = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let signature = key.sign(&SystemRandom::new(), signed.as_bytes()).ok()?;
    let signature = URL_SAFE_NO_PAD.encode(signature.as_ref());
    Some(format!("vapid t={signed}.{signature}, k={}", public(key)))
}
