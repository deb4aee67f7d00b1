//! One-time codes: a dashboard signs in with one, a device gets its token with one.
//!
//! They are kept in memory and by their hash: a restart of the server ends them all.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use plexus_core::{CallError, SecretToken};
use plexus_store::TokenHash;

/// How long a dashboard's code works: a program opens it at once.
const SIGN_IN_LIFE: Duration = Duration::from_secs(60);

/// How long a device's code works: a person has to find the phone, and point its camera.
pub(crate) const PAIR_LIFE: Duration = Duration::from_secs(10 * 60);

/// How long a used code is remembered, so that a second use is told what happened.
const USED_MEMORY: Duration = Duration::from_secs(24 * 3_600);

/// Codes that are remembered; more than a person opens.
const MAX_CODES: usize = 64;

/// What a code is good for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// A dashboard signs in as the operator.
    SignIn,
    /// A device of this name gets a token.
    Pair(String),
}

/// The codes that wait, and those that were used a while ago.
#[derive(Default)]
pub(crate) struct Codes {
    known: Mutex<HashMap<[u8; 32], Code>>,
}

struct Code {
    purpose: Purpose,
    until: Instant,
    used: bool,
}

impl Codes {
    /// Remembers a code.
    ///
    /// # Errors
    /// `busy` when too many wait to be used.
    pub(crate) fn add(&self, code: &SecretToken, purpose: Purpose) -> Result<(), CallError> {
        let life = match purpose {
            Purpose::SignIn => SIGN_IN_LIFE,
            Purpose::Pair(_) => PAIR_LIFE,
        };
        let (now, mut known) = (Instant::now(), self.lock());
        known.retain(|_, code| {
            now < code.until + if code.used { USED_MEMORY } else { Duration::ZERO }
        });
        if known.len() >= MAX_CODES {
            // A used one only explains; one that waits is somebody's.
            let used =
                known.iter().filter(|(_, code)| code.used).min_by_key(|(_, code)| code.until);
            let Some(oldest) = used.map(|(hash, _)| *hash) else {
                return Err(CallError::busy("make another one-time code", 1_000));
            };
            known.remove(&oldest);
        }
        let code_hash = TokenHash::of(code.expose()).0;
        known.insert(code_hash, Code { purpose, until: now + life, used: false });
        Ok(())
    }

    /// Uses a code: it works once.
    ///
    /// # Errors
    /// `unauthorized`, in words that say whether it was used or is too old.
    pub(crate) fn take(&self, code: &SecretToken) -> Result<Purpose, CallError> {
        let mut known = self.lock();
        let Some(code) = known.get_mut(&TokenHash::of(code.expose()).0) else {
            return Err(unknown());
        };
        match &code.purpose {
            Purpose::SignIn if code.used || code.until <= Instant::now() => Err(unknown()),
            Purpose::Pair(name) if code.used => Err(CallError::unauthorized(format_args!(
                "pair a device: this code was used already, for {name:?}"
            ))
            .with_hint(
                "each code pairs one device, once: run `plexus pair` again. If that was not you, \
                 `plexus devices revoke` takes the other device back",
            )),
            Purpose::Pair(_) if code.until <= Instant::now() => {
                Err(CallError::unauthorized("pair a device: this code is older than ten minutes")
                    .with_hint("run `plexus pair` again"))
            }
            Purpose::SignIn | Purpose::Pair(_) => {
                code.used = true;
                Ok(code.purpose.clone())
            }
        }
    }

    /// Makes a code usable again, because what it was taken for has failed.
    pub(crate) fn put_back(&self, code: &SecretToken) {
        if let Some(code) = self.lock().get_mut(&TokenHash::of(code.expose()).0) {
            code.used = false;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], Code>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown() -> CallError {
    CallError::unauthorized("sign in with this code: it is unknown, was used, or is too old")
        .with_hint("run `plexus dashboard`, or `plexus pair` for a phone, again")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> SecretToken {
        SecretToken::new(text)
    }

    #[test]
    fn a_code_works_once_and_a_second_use_is_told_what_happened() {
        let codes = Codes::default();
        codes.add(&code("a"), Purpose::Pair("phone".into())).unwrap();
        codes.add(&code("b"), Purpose::SignIn).unwrap();
        assert_eq!(codes.take(&code("a")).unwrap(), Purpose::Pair("phone".into()));
        assert_eq!(codes.take(&code("b")).unwrap(), Purpose::SignIn);
        let again = codes.take(&code("a")).unwrap_err();
        assert!(again.message.contains("used already, for \"phone\""), "{again}");
        assert!(codes.take(&code("b")).unwrap_err().message.contains("was used"));
        assert!(codes.take(&code("c")).unwrap_err().message.contains("unknown"));
        codes.put_back(&code("a"));
        assert!(codes.take(&code("a")).is_ok());
    }

    #[test]
    fn codes_are_bounded_and_used_ones_make_room() {
        let codes = Codes::default();
        for n in 0..MAX_CODES {
            codes.add(&code(&n.to_string()), Purpose::Pair(n.to_string())).unwrap();
        }
        assert!(codes.add(&code("more"), Purpose::SignIn).is_err());
        codes.take(&code("0")).unwrap();
        codes.add(&code("more"), Purpose::SignIn).unwrap();
        assert!(codes.take(&code("1")).is_ok(), "one that waits is never pushed out");
    }
}
