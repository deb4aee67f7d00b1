//! Keeps the last part of a child's standard error for callers that ask for it. No error text
//! includes it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// How many bytes are kept.
pub const STDERR_TAIL_BYTES: usize = 64 * 1024;

const CHUNK_BYTES: usize = 16 * 1024;

/// A view of the last [`STDERR_TAIL_BYTES`] of a child's standard error. Cheap to clone; may be
/// read at any time.
#[derive(Debug, Clone, Default)]
pub struct StderrTail(Arc<Mutex<VecDeque<u8>>>);

impl StderrTail {
    /// Returns the tail, with control characters taken out and what looks like a secret masked.
    pub fn text(&self) -> String {
        let bytes: Vec<u8> = self.bytes().iter().copied().collect();
        redact(&String::from_utf8_lossy(&bytes))
    }

    fn push(&self, chunk: &[u8]) {
        let mut tail = self.bytes();
        tail.extend(chunk);
        let excess = tail.len().saturating_sub(STDERR_TAIL_BYTES);
        tail.drain(..excess);
    }

    /// Returns the buffer. A poisoned lock is fine, because the buffer holds only bytes.
    fn bytes(&self) -> MutexGuard<'_, VecDeque<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads everything as it arrives, so that a child which floods its standard error never waits for
/// us.
pub(super) async fn drain(mut stderr: impl AsyncRead + Unpin, tail: StderrTail) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(got @ 1..) = stderr.read(&mut chunk).await {
        tail.push(&chunk[..got]);
    }
}

/// The text that replaces a secret.
const MASK: &str = "[redacted]";

/// How tokens of well-known services begin.
const TOKEN_PREFIXES: [&str; 14] = [
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xox",
    "AKIA",
    "eyJ",
];

/// Names whose value is a secret, in any case, before `=` or `:`.
const SECRET_NAMES: [&str; 8] =
    ["key", "token", "secret", "password", "passwd", "authorization", "credential", "cookie"];

/// The minimum length of a token: a shorter word is not treated as one, whatever its prefix.
const MIN_TOKEN_BYTES: usize = 12;

/// Takes out control characters and masks what looks like a secret.
pub fn redact(text: &str) -> String {
    let clean: String =
        text.chars().filter(|c| !c.is_control() || *c == '\n' || *c == '\t').collect();
    let lines: Vec<_> = clean.split('\n').map(redact_line).collect();
    lines.join("\n")
}

fn redact_line(line: &str) -> String {
    let mut redacted = String::with_capacity(line.len());
    let mut masks_next = 0;
    for word in line.split_inclusive([' ', '\t', '"', '\'', ',', ';']) {
        let bare = word.trim_end_matches([' ', '\t', '"', '\'', ',', ';']);
        let ending = &word[bare.len()..];
        let (name, value) = match bare.find(['=', ':']) {
            Some(at) if names_secret(&bare[..at]) => bare.split_at(at + 1),
            _ => ("", bare),
        };
        let is_scheme = ["bearer", "basic"].iter().any(|scheme| value.eq_ignore_ascii_case(scheme));
        redacted.push_str(name);
        match value {
            "" => {}
            _ if is_scheme => redacted.push_str(value),
            _ if !name.is_empty() || masks_next > 0 || is_token(value) => redacted.push_str(MASK),
            _ => redacted.push_str(value),
        }
        redacted.push_str(ending);
        // `Authorization: Bearer abc` and `"api_key": "abc"`: the secret is the next word that is
        // not empty.
        if is_scheme || (!name.is_empty() && value.is_empty()) {
            masks_next = 1;
        } else if !value.is_empty() && value != ":" {
            masks_next = 0;
            if names_secret(bare) && ending.starts_with(['"', '\'']) {
                masks_next = 1;
            }
        }
    }
    redacted
}

fn names_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|secret| name.ends_with(secret))
}

fn is_token(word: &str) -> bool {
    // A token may follow a path or the name of a parameter.
    word.split(['/', '?', '&', '=', '(', ')', '[', ']', '<', '>', ':']).any(|part| {
        part.len() >= MIN_TOKEN_BYTES
            && TOKEN_PREFIXES.iter().any(|prefix| part.starts_with(prefix))
    })
}
