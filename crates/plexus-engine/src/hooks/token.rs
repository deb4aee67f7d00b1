//! One-time tokens of approvals: a text that only this server can write, bound to the approval, its
//! input, its receiver and a time.
//!
//! Nothing is stored, so nothing can be stolen from the store: the token names its approval,
//! receiver and end, and a MAC over them and the digest of the input proves it. It works once
//! because its approval is decided once, in the very transaction that uses it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use plexus_core::auth::TOKEN_PREFIX;
use plexus_core::{ApprovalId, SecretToken};
use plexus_store::UnixMillis;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What follows the prefix of all our tokens.
const KIND: &str = "hook_";

/// The characters of an approval, a time and a MAC in hexadecimal.
const HEX_CHARS: usize = 2 * (16 + 8 + 32);

/// How much of the MAC a short form holds: 128 bits cannot be guessed.
const SHORT_MAC_BYTES: usize = 16;

/// What the key and the MAC are for, so that neither can be taken for another one.
const PURPOSE: &[u8] = b"plexus: the one-time token of an approval, version 1";

/// The key of the tokens. It follows from the operator's token, and is as secret.
pub(crate) struct AnswerKey([u8; 32]);

/// A token that was read, and what it says; true only if [`AnswerKey::proves`] it.
pub(super) struct Presented {
    pub(super) approval: ApprovalId,
    pub(super) expires_at: UnixMillis,
    pub(super) receiver: String,
    mac: [u8; 32],
}

/// A short form that was read; true only if [`AnswerKey::lengthen`] takes it.
pub(super) struct Short {
    pub(super) approval: ApprovalId,
    expires_at: UnixMillis,
    mac: [u8; SHORT_MAC_BYTES],
}

impl AnswerKey {
    /// The key of a server whose operator holds `operator`.
    pub(crate) fn of(operator: &SecretToken) -> Self {
        let mut hash = Sha256::new();
        hash.update(PURPOSE);
        hash.update(operator.expose().as_bytes());
        Self(hash.finalize().into())
    }

    /// Writes the token.
    pub(crate) fn token(
        &self,
        approval: ApprovalId,
        expires_at: UnixMillis,
        receiver: &str,
        digest: &str,
    ) -> SecretToken {
        let mac = self.mac(approval, expires_at, receiver, digest);
        let bytes = approval
            .as_uuid()
            .as_bytes()
            .iter()
            .chain(&expires_at.0.to_be_bytes())
            .chain(&mac)
            .copied()
            .collect::<Vec<u8>>();
        SecretToken::new(format!("{TOKEN_PREFIX}{KIND}{}_{receiver}", hex(&bytes)))
    }

    /// Says whether we wrote this token, for input of this digest.
    pub(super) fn proves(&self, presented: &Presented, digest: &str) -> bool {
        let mac = self.mac(presented.approval, presented.expires_at, &presented.receiver, digest);
        mac.ct_eq(&presented.mac).into()
    }

    /// Writes the token that a short form stands for, if we wrote that for this receiver and input
    /// of this digest.
    pub(super) fn lengthen(
        &self,
        short: &Short,
        receiver: &str,
        digest: &str,
    ) -> Option<SecretToken> {
        let mac = self.mac(short.approval, short.expires_at, receiver, digest);
        let is_ours: bool = mac[..SHORT_MAC_BYTES].ct_eq(&short.mac).into();
        is_ours.then(|| self.token(short.approval, short.expires_at, receiver, digest))
    }

    fn mac(
        &self,
        approval: ApprovalId,
        expires_at: UnixMillis,
        receiver: &str,
        digest: &str,
    ) -> [u8; 32] {
        // A digest has a fixed length and so have the id and the time: the receiver's name, last,
        // cannot reach into them.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return [0; 32] };
        mac.update(PURPOSE);
        mac.update(approval.as_uuid().as_bytes());
        mac.update(&expires_at.0.to_be_bytes());
        mac.update(&Sha256::digest(digest.as_bytes()));
        mac.update(receiver.as_bytes());
        mac.finalize().into_bytes().into()
    }
}

/// Writes the short form of a token: approval, time and the first half of the MAC in base64url. The
/// receiver's name is left out, because whoever takes the short form knows it. It has 54
/// characters.
#[must_use]
pub fn shorten(token: &SecretToken) -> Option<String> {
    let claim = read(token)?;
    let bytes: Vec<u8> = claim
        .approval
        .as_uuid()
        .as_bytes()
        .iter()
        .chain(&claim.expires_at.0.to_be_bytes())
        .chain(&claim.mac[..SHORT_MAC_BYTES])
        .copied()
        .collect();
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

/// Reads a short form; `None` when it is not one.
pub(super) fn read_short(text: &str) -> Option<Short> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (id, rest) = bytes.split_first_chunk::<16>()?;
    let (time, mac) = rest.split_first_chunk::<8>()?;
    Some(Short {
        approval: ApprovalId::from_uuid(uuid::Uuid::from_bytes(*id)),
        expires_at: UnixMillis(i64::from_be_bytes(*time)),
        mac: mac.try_into().ok()?,
    })
}

/// Reads what a token says; `None` when it is not such a token.
pub(super) fn read(token: &SecretToken) -> Option<Presented> {
    let text = token.expose().strip_prefix(TOKEN_PREFIX)?.strip_prefix(KIND)?;
    let (digits, receiver) = (text.get(..HEX_CHARS)?, text.get(HEX_CHARS..)?.strip_prefix('_')?);
    let bytes = unhex(digits)?;
    let (id, rest) = bytes.split_first_chunk::<16>()?;
    let (time, mac) = rest.split_first_chunk::<8>()?;
    Some(Presented {
        approval: ApprovalId::from_uuid(uuid::Uuid::from_bytes(*id)),
        expires_at: UnixMillis(i64::from_be_bytes(*time)),
        receiver: receiver.to_owned(),
        mac: mac.try_into().ok()?,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c)) {
        return None;
    }
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_bound_to_everything_it_names_and_to_the_input() {
        let key = AnswerKey::of(&SecretToken::new("plx_operator"));
        let (approval, end) = (ApprovalId::generate(), UnixMillis(1_700_000_000_000));
        let token = key.token(approval, end, "phone", "digest");
        let read_back = read(&token).unwrap();
        assert_eq!(
            (read_back.approval, read_back.expires_at, read_back.receiver.as_str()),
            (approval, end, "phone")
        );
        assert!(key.proves(&read_back, "digest"));
        assert!(!key.proves(&read_back, "other digest"));
        assert!(!AnswerKey::of(&SecretToken::new("plx_other")).proves(&read_back, "digest"));
        // Every character counts: another approval, another time, another MAC, another name.
        for at in [9, 45, 60, 120, token.expose().len() - 1] {
            let mut other = token.expose().to_owned().into_bytes();
            other[at] = if other[at] == b'a' { b'b' } else { b'a' };
            let other = SecretToken::new(String::from_utf8(other).unwrap());
            assert!(!read(&other).is_some_and(|other| key.proves(&other, "digest")), "{at}");
        }
    }

    #[test]
    fn a_short_form_gives_the_same_token_to_its_receiver_alone() {
        let key = AnswerKey::of(&SecretToken::new("plx_operator"));
        let token = key.token(ApprovalId::generate(), UnixMillis(1_700_000_000_000), "bot", "d");
        let short = shorten(&token).unwrap();
        assert_eq!(short.len(), 54);
        let claim = read_short(&short).unwrap();
        assert_eq!(key.lengthen(&claim, "bot", "d").unwrap().expose(), token.expose());
        assert!(key.lengthen(&claim, "other", "d").is_none());
        assert!(key.lengthen(&claim, "bot", "another digest").is_none());
        let other = AnswerKey::of(&SecretToken::new("plx_other"));
        assert!(other.lengthen(&claim, "bot", "d").is_none());
        for at in [0, 20, 25, 33, 53] {
            let mut changed = short.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'Q' } else { b'A' };
            let changed = read_short(&String::from_utf8(changed).unwrap());
            assert!(changed.is_none_or(|it| key.lengthen(&it, "bot", "d").is_none()), "{at}");
        }
        for text in ["", "AAAA", token.expose(), "é"] {
            assert!(read_short(text).is_none(), "{text}");
        }
    }

    #[test]
    fn what_is_no_token_is_none() {
        let good = AnswerKey::of(&SecretToken::new("k")).token(
            ApprovalId::generate(),
            UnixMillis(1),
            "p",
            "d",
        );
        let short = &good.expose()[..good.expose().len() - 10];
        for text in [
            "",
            "plx_",
            "plx_hook_",
            "plx_hook_zz_p",
            short,
            &good.expose().to_uppercase(),
            "plx_hook_é",
        ] {
            assert!(read(&SecretToken::new(text)).is_none(), "{text}");
        }
    }
}
