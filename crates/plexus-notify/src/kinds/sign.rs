//! The signature of a webhook: HMAC-SHA256 over the time and the body, so that neither can be
//! changed and an old message cannot be sent again.

use hmac::{Hmac, KeyInit, Mac};
use plexus_core::SecretToken;
use sha2::Sha256;

/// The header that carries time and signature: `t=SECONDS,v1=HEX`.
pub(super) const HEADER: &str = "plexus-signature";

/// Signs `body` as sent at `timestamp` (Unix seconds).
pub(super) fn signature(secret: &SecretToken, timestamp: i64, body: &str) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()).ok()?;
    mac.update(timestamp.to_string().as_bytes());
    mac.update(b".");
    mac.update(body.as_bytes());
    let hex: String =
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("t={timestamp},v1={hex}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_the_documented_example() {
        // `printf '%s' '1700000000.{"a":1}' | openssl dgst -sha256 -hmac 'a secret of the test'`
        let signed =
            signature(&SecretToken::new("a secret of the test"), 1_700_000_000, "{\"a\":1}")
                .unwrap();
        assert_eq!(
            signed,
            "t=1700000000,v1=79d6f5024f3b9867ff18db9db735bfc20196f097771dc4045949f3f74b622a4d"
        );
    }
}
