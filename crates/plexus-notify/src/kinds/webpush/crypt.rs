//! Encrypts a message for one browser, as RFC 8291 says: a key agreed with the browser's, from
//! which one record of the encoding `aes128gcm` (RFC 8188) is sealed.

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};

use super::store::Subscription;

/// The size of a record. Ours is the only one and smaller.
const RECORD_BYTES: u32 = 4_096;

/// The most that a message may hold: services take 4096 bytes with the header and the tag.
pub(super) const MAX_PLAIN_BYTES: usize = 4_096 - 86 - 17;

/// The byte that ends the text of the last record.
const LAST_RECORD: u8 = 2;

/// Encrypts for the browser of a subscription; `None` when its key is not valid, or the text is
/// too long.
pub(super) fn encrypt(to: &Subscription, plain: &[u8]) -> Option<Vec<u8>> {
    let random = SystemRandom::new();
    let mut salt = [0; 16];
    random.fill(&mut salt).ok()?;
    let own = EphemeralPrivateKey::generate(&ECDH_P256, &random).ok()?;
    let own_public = own.compute_public_key().ok()?;
    let theirs = UnparsedPublicKey::new(&ECDH_P256, &to.p256dh);
    agree_ephemeral(own, &theirs, |shared| {
        seal(shared, &to.p256dh, own_public.as_ref(), &to.auth, &salt, plain)
    })
    .ok()?
}

/// Says whether a browser's public key is valid.
pub(super) fn is_key(p256dh: &[u8]) -> bool {
    let random = SystemRandom::new();
    let Ok(own) = EphemeralPrivateKey::generate(&ECDH_P256, &random) else { return false };
    agree_ephemeral(own, &UnparsedPublicKey::new(&ECDH_P256, p256dh), |_| ()).is_ok()
}

fn seal(
    shared: &[u8],
    theirs: &[u8],
    ours: &[u8],
    auth: &[u8],
    salt: &[u8; 16],
    plain: &[u8],
) -> Option<Vec<u8>> {
    if plain.len() > MAX_PLAIN_BYTES {
        return None;
    }
    let agreed = Salt::new(HKDF_SHA256, auth).extract(shared);
    let input: [u8; 32] = derive(&agreed, &[b"WebPush: info\0", theirs, ours])?;
    let agreed = Salt::new(HKDF_SHA256, salt).extract(&input);
    let key: [u8; 16] = derive(&agreed, &[b"Content-Encoding: aes128gcm\0"])?;
    let nonce: [u8; NONCE_LEN] = derive(&agreed, &[b"Content-Encoding: nonce\0"])?;
    let mut record = plain.to_vec();
    record.push(LAST_RECORD);
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).ok()?);
    let nonce = Nonce::assume_unique_for_key(nonce);
    key.seal_in_place_append_tag(nonce, Aad::empty(), &mut record).ok()?;
    let mut sealed = Vec::with_capacity(21 + ours.len() + record.len());
    sealed.extend_from_slice(salt);
    sealed.extend_from_slice(&RECORD_BYTES.to_be_bytes());
    sealed.push(u8::try_from(ours.len()).ok()?);
    sealed.extend_from_slice(ours);
    sealed.extend_from_slice(&record);
    Some(sealed)
}

/// So many bytes of key material.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn derive<const N: usize>(from: &Prk, info: &[&[u8]]) -> Option<[u8; N]> {
    let mut key = [0; N];
    from.expand(info, Length(N)).ok()?.fill(&mut key).ok()?;
    Some(key)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(text).unwrap()
    }

    /// The example of RFC 8291, section 5 and appendix A.
    #[test]
    fn the_example_of_the_rfc_is_sealed_as_it_stands_there() {
        let sealed = seal(
            &bytes("kyrL1jIIOHEzg3sM2ZWRHDRB62YACZhhSlknJ672kSs"),
            &bytes(
                "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkN\
                 toIAiw4",
            ),
            &bytes(
                "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBr\
                 u3jl7A8",
            ),
            &bytes("BTBZMqHH6r4Tts7J_aSIgg"),
            &bytes("DGv6ra1nlYgDCS1FRnbzlw").try_into().unwrap(),
            b"When I grow up, I want to be a watermelon",
        );
        let expected = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIg\
                        Dll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVB\
                        St2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN";
        assert_eq!(URL_SAFE_NO_PAD.encode(sealed.unwrap()), expected);
    }

    #[test]
    fn what_is_no_key_is_refused_and_what_is_too_long_is_not_sealed() {
        let point = bytes(
            "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIA\
             iw4",
        );
        assert!(is_key(&point));
        let mut beside = point.clone();
        beside[64] ^= 1;
        for wrong in [Vec::new(), vec![4; 65], point[..64].to_vec(), beside] {
            assert!(!is_key(&wrong), "{wrong:?}");
        }
        let to = Subscription::new("https://push.example/".into(), point, vec![0; 16], "me".into());
        assert!(encrypt(&to, &[b' '; MAX_PLAIN_BYTES]).is_some_and(|it| it.len() == 4_096));
        assert!(encrypt(&to, &[b' '; MAX_PLAIN_BYTES + 1]).is_none());
    }
}
