//! Where a shared store is. Holds a password, so it shows itself without one.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Parameters in the query of a URL that are no secrets. Any other may be one.
const HARMLESS: [&str; 4] = ["sslmode", "sslrootcert", "connect_timeout", "application_name"];

/// The URL of a database, `postgres://user:password@host/name`; empty for the SQLite file in the
/// data directory.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoreUrl(String);

impl StoreUrl {
    /// Wraps a URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it names a PostgreSQL.
    #[must_use]
    pub fn is_postgres(&self) -> bool {
        ["postgres://", "postgresql://"].iter().any(|scheme| self.0.starts_with(scheme))
    }

    /// Returns the whole URL, for the one who connects.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether it holds a password, or something that may be one.
    pub(super) fn has_password(&self) -> bool {
        let (place, query) = self.0.split_once('?').unwrap_or((&self.0, ""));
        let is_harmless =
            |pair: &str| pair.split_once('=').is_some_and(|(name, _)| HARMLESS.contains(&name));
        Self::new(place).to_string() != place
            || !query.split_terminator('&').all(is_harmless)
            || query.contains('#')
    }
}

impl fmt::Display for StoreUrl {
    /// Scheme, user, host and database. The query may hold a password too, so it is left out whole.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = self.0.split(['?', '#']).next().unwrap_or_default();
        let Some((scheme, rest)) = bare.split_once("://") else { return f.write_str("…") };
        match rest.rsplit_once('@') {
            Some((user, place)) => {
                write!(f, "{scheme}://{}@{place}", user.split(':').next().unwrap_or_default())
            }
            None => write!(f, "{scheme}://{rest}"),
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn possible_passwords_are_told_from_other_texts() {
        for (url, expected) in [
            ("postgres://db/plexus", false),
            ("postgres://plexus@db:5432/plexus", false),
            ("postgres://plexus@db/plexus?sslmode=verify-full&sslrootcert=/ca.pem", false),
            ("postgres://plexus:s3cret@db/plexus", true),
            ("postgres://plexus:@db/plexus", true),
            ("postgres://db/plexus?password=s3cret", true),
            ("postgres://db/plexus?sslmode=require&password=s3cret", true),
            ("postgres://db/plexus?sslmode=require&PASSWORD=s3cret", true),
            ("postgres://db/plexus?%70assword=s3cret", true),
            ("postgres://db/plexus?s3cret", true),
            ("postgres://db/plexus?sslmode=require#s3cret", true),
            ("postgres://db/plexus#s3cret", true),
            ("host=db password=s3cret", true),
        ] {
            assert_eq!(StoreUrl::new(url).has_password(), expected, "{url}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            (
                "postgres://plexus:s3cret@db.example:5432/plexus",
                "postgres://plexus@db.example:5432/plexus",
            ),
            ("postgres://plexus:s3@cret@db/plexus", "postgres://plexus@db/plexus"),
            ("postgresql://db/plexus?user=me&password=s3cret", "postgresql://db/plexus"),
            ("postgres://db/plexus", "postgres://db/plexus"),
            ("host=db password=s3cret", "…"),
        ] {
            let url = StoreUrl::new(url);
            assert_eq!(url.to_string(), shown);
            assert!(!format!("{url:?}").contains("s3"), "{url:?}");
        }
    }
}
