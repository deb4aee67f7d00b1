//! The name of an agent: says which backend runs a request, and which one sent an event.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::AgentWrapperError;

/// Names a kind of agent: a lowercase letter, then lowercase letters, digits and underscores.
///
/// Every event carries one, so cloning it only increments a reference count.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AgentWrapperKind(Arc<str>);

impl AgentWrapperKind {
    /// Checks `name` against `^[a-z][a-z0-9_]*$`.
    pub fn new(name: impl AsRef<str>) -> Result<Self, AgentWrapperError> {
        let name = name.as_ref();
        let mut letters = name.bytes();
        let starts_well = letters.next().is_some_and(|first| first.is_ascii_lowercase());
        let goes_on_well =
            letters.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if starts_well && goes_on_well {
            Ok(Self(name.into()))
        } else {
            Err(AgentWrapperError::InvalidAgentKind {
                message: "an agent kind is a small letter followed by small letters, digits and \
                    underscores"
                    .to_owned(),
            })
        }
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentWrapperKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for AgentWrapperKind {
    type Err = AgentWrapperError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::new(name)
    }
}

impl TryFrom<String> for AgentWrapperKind {
    type Error = AgentWrapperError;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        Self::new(name)
    }
}

impl From<AgentWrapperKind> for String {
    fn from(kind: AgentWrapperKind) -> Self {
        kind.as_str().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_a_lowercase_identifier() {
        for good in ["a", "claude_code", "codex2", "a__0"] {
            assert_eq!(AgentWrapperKind::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "_a", "2a", "Claude", "a-b", "a b", "a\n", "é", "aé"] {
            let error = AgentWrapperKind::new(bad).unwrap_err();
            assert!(
                matches!(error, AgentWrapperError::InvalidAgentKind { .. }),
                "{bad:?} gave {error:?}"
            );
        }
    }

    #[test]
    fn a_bad_kind_does_not_deserialize() {
        assert!(serde_json::from_str::<AgentWrapperKind>(r#""codex""#).is_ok());
        assert!(serde_json::from_str::<AgentWrapperKind>(r#""Codex""#).is_err());
    }
}
