//! The list of allowed hosts: `example.org`, `*.example.org`, `example.org:8443`, `[::1]:80`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The ports of an entry that names none.
const WEB_PORTS: [u16; 2] = [80, 443];
/// The longest name in the domain name system.
const MAX_HOST_CHARS: usize = 253;

/// One entry of the list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostPattern {
    /// In lower case, without brackets and without a dot at the end.
    name: String,
    /// The name is a suffix: every host below it, and not the name itself.
    is_suffix: bool,
    port: Option<u16>,
}

/// An entry that is not a host.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{entry:?} is not a host: write example.org, *.example.org or example.org:8443")]
pub struct BadHost {
    entry: String,
}

impl HostPattern {
    /// Whether the entry allows this host and port.
    #[must_use]
    pub fn matches(&self, host: &str, port: u16) -> bool {
        let host = normal(host);
        let is_named = if self.is_suffix {
            host.strip_suffix(&self.name).is_some_and(|rest| rest.ends_with('.') && rest.len() > 1)
        } else {
            host == self.name
        };
        let is_port = match self.port {
            Some(listed) => listed == port,
            None => WEB_PORTS.contains(&port),
        };
        is_named && is_port
    }

    /// Whether everything that `other` allows is allowed by this entry too.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let is_named = if other.is_suffix {
            let below = other.name.strip_suffix(&self.name);
            self.is_suffix && below.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        } else {
            let port = self.port.unwrap_or(WEB_PORTS[0]);
            self.matches(&other.name, port)
        };
        let is_port = match (self.port, other.port) {
            (None, None) => true,
            (None, Some(port)) => WEB_PORTS.contains(&port),
            (Some(ours), Some(theirs)) => ours == theirs,
            (Some(_), None) => false,
        };
        is_named && is_port
    }
}

/// A host as it is compared.
pub(crate) fn normal(host: &str) -> String {
    host.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase()
}

impl FromStr for HostPattern {
    type Err = BadHost;

    fn from_str(entry: &str) -> Result<Self, BadHost> {
        let bad = || BadHost { entry: entry.to_owned() };
        let (name, port) = match entry.rsplit_once(':') {
            // Several colons without brackets are an address of version 6.
            Some((name, _)) if name.contains(':') && !name.ends_with(']') => (entry, None),
            Some((name, port)) => (name, Some(port.parse().map_err(|_| bad())?)),
            None => (entry, None),
        };
        let (name, is_suffix) = match name.strip_prefix("*.") {
            Some(name) => (name, true),
            None => (name, false),
        };
        let name = normal(name);
        let is_address = name.parse::<IpAddr>().is_ok();
        let is_name = name.len() <= MAX_HOST_CHARS
            && name.split('.').all(|label| {
                !label.is_empty()
                    && label.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
            });
        if (is_address && !is_suffix) || (is_name && !is_address) {
            return Ok(Self { name, is_suffix, port });
        }
        Err(bad())
    }
}

impl TryFrom<String> for HostPattern {
    type Error = BadHost;

    fn try_from(entry: String) -> Result<Self, BadHost> {
        entry.parse()
    }
}

impl From<HostPattern> for String {
    fn from(pattern: HostPattern) -> Self {
        pattern.to_string()
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_suffix {
            f.write_str("*.")?;
        }
        match (self.name.contains(':'), self.port) {
            (true, Some(port)) => write!(f, "[{}]:{port}", self.name),
            (false, Some(port)) => write!(f, "{}:{port}", self.name),
            (_, None) => f.write_str(&self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_matches_its_hosts_and_ports_only() {
        for (entry, host, port, expected) in [
            ("example.org", "example.org", 443, true),
            ("example.org", "EXAMPLE.org.", 80, true),
            ("example.org", "example.org", 22, false),
            ("example.org", "a.example.org", 443, false),
            ("example.org", "notexample.org", 443, false),
            ("*.example.org", "a.example.org", 443, true),
            ("*.example.org", "a.b.example.org", 443, true),
            ("*.example.org", "example.org", 443, false),
            ("*.example.org", ".example.org", 443, false),
            ("*.example.org", "badexample.org", 443, false),
            ("example.org:8443", "example.org", 8443, true),
            ("example.org:8443", "example.org", 443, false),
            ("[::1]:80", "::1", 80, true),
            ("127.0.0.1:9", "127.0.0.1", 9, true),
        ] {
            let pattern: HostPattern = entry.parse().unwrap();
            assert_eq!(pattern.matches(host, port), expected, "{entry} {host}:{port}");
        }
    }

    #[test]
    fn words_that_are_no_host_are_refused() {
        for entry in
            ["", "*", "*.", "a b", "http://example.org", "example.org:x", "a..b", "*.127.0.0.1"]
        {
            assert!(entry.parse::<HostPattern>().is_err(), "{entry}");
        }
    }

    #[test]
    fn a_wider_entry_covers_a_narrower_one() {
        for (wide, narrow, expected) in [
            ("*.example.org", "a.example.org", true),
            ("*.example.org", "*.a.example.org", true),
            ("*.example.org", "*.example.org", true),
            ("*.a.example.org", "*.example.org", false),
            ("*.example.org", "*.badexample.org", false),
            ("example.org", "example.org:443", true),
            ("example.org", "example.org:22", false),
            ("example.org:443", "example.org", false),
            ("example.org:8443", "example.org:8443", true),
        ] {
            let (wide, narrow): (HostPattern, HostPattern) =
                (wide.parse().unwrap(), narrow.parse().unwrap());
            assert_eq!(wide.covers(&narrow), expected, "{wide} {narrow}");
        }
    }
}
