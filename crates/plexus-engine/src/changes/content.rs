//! The names that git gives to contents: a digest of the bytes as a blob.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha1_checked::{Digest as _, Sha1};
use sha2::{Digest as _, Sha256};

/// The digest by which a repository names its objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Hashing {
    Sha1,
    Sha256,
}

/// The name of a content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ContentId(Vec<u8>);

impl Hashing {
    /// How many bytes its names have.
    pub(super) fn len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    /// Returns the name of a content; `None` for one that was made so that another has its name.
    pub(super) fn name(self, content: &[u8]) -> Option<ContentId> {
        let head = format!("blob {}\0", content.len());
        let name = match self {
            Self::Sha1 => {
                let digest = Sha1::new().chain_update(head).chain_update(content).try_finalize();
                if digest.has_collision() {
                    return None;
                }
                digest.hash().to_vec()
            }
            Self::Sha256 => {
                Sha256::new().chain_update(head).chain_update(content).finalize().to_vec()
            }
        };
        Some(ContentId(name))
    }
}

impl ContentId {
    /// Returns the name with these bytes.
    pub(super) fn new(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for ContentId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let byte = |at: usize| {
            let digits = text.get(at..at + 2).ok_or(())?;
            u8::from_str_radix(digits, 16).map_err(|_| ())
        };
        (0..text.len()).step_by(2).map(byte).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_have_the_names_that_git_gives_them() {
        // `printf 'hello\n' | git hash-object --stdin`, and the same in a repository with SHA-256.
        for (hashing, name) in [
            (Hashing::Sha1, "ce013625030ba8dba906f756967f9e9ca394464a"),
            (Hashing::Sha256, "2cf8d83d9ee29543b34a87727421fdecb7e3f3a183d337639025de576db9ebb4"),
        ] {
            let found = hashing.name(b"hello\n").unwrap();
            assert_eq!(found.to_string(), name);
            assert_eq!(name.parse(), Ok(found.clone()));
            assert_eq!(found.bytes().len(), hashing.len());
        }
    }
}
