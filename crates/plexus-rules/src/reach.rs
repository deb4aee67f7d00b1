//! Matching of connections that a wall asks about: `Network(domain:example.org)` is that host on
//! the web ports, and `Network(domain:example.org:8443)` is that host on that port.

use super::pattern::{PatternProblem, Refusal};

/// The ports of a pattern that names none.
const WEB_PORTS: [u16; 2] = [80, 443];

/// A host, in its ASCII form and lower case, and maybe a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reach {
    host: String,
    port: Option<u16>,
}

impl Reach {
    /// Reads `domain:HOST` or `domain:HOST:PORT`.
    pub(crate) fn parse(argument: &str) -> Result<Self, Refusal> {
        let named = argument.strip_prefix("domain:").ok_or((0, PatternProblem::NoDomain))?;
        let at = "domain:".len();
        if let Some(star) = named.find('*') {
            return Err((at + star, PatternProblem::HostWildcard));
        }
        let (host, port) = match named.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (named, None),
        };
        let port = port.map(str::parse).transpose().map_err(|_| (at, PatternProblem::Host))?;
        let is_plain = host.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '.');
        match url::Host::parse(host) {
            Ok(host @ (url::Host::Domain(_) | url::Host::Ipv4(_)))
                if is_plain && !named.ends_with('.') =>
            {
                Ok(Self { host: host.to_string(), port })
            }
            _ => Err((at, PatternProblem::Host)),
        }
    }

    /// Returns whether an allow for this covers a connection.
    pub(crate) fn covers(&self, host: &str, port: u16) -> bool {
        let is_port = self.port.map_or(WEB_PORTS.contains(&port), |named| named == port);
        is_port && same(&self.host, host)
    }

    /// Returns whether a deny or an ask for this applies to a connection. Without a port it applies
    /// to every port.
    pub(crate) fn guards(&self, host: &str, port: u16) -> bool {
        self.port.is_none_or(|named| named == port) && same(&self.host, host)
    }

    /// Returns whether this allows every connection that `inner` allows.
    pub(crate) fn includes(&self, inner: &Self) -> bool {
        let is_port = match (self.port, inner.port) {
            (ours, theirs) if ours == theirs => true,
            (None, Some(port)) => WEB_PORTS.contains(&port),
            (Some(_), _) | (None, None) => false,
        };
        is_port && self.host == inner.host
    }
}

/// Writes the pattern for one connection.
pub(crate) fn pattern_for(host: &str, port: u16) -> String {
    if WEB_PORTS.contains(&port) {
        format!("Network(domain:{host})")
    } else {
        format!("Network(domain:{host}:{port})")
    }
}

fn same(named: &str, host: &str) -> bool {
    named.eq_ignore_ascii_case(host.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_covered_on_the_ports_of_the_web_or_on_the_one_that_is_named() {
        let reach = |text: &str| Reach::parse(text).unwrap();
        let (web, named) = (reach("domain:Example.org"), reach("domain:example.org:8443"));
        for (host, port, by_web, by_named) in [
            ("example.org", 443, true, false),
            ("EXAMPLE.org.", 80, true, false),
            ("example.org", 8443, false, true),
            ("evil.example.org", 443, false, false),
            ("example.org.evil", 443, false, false),
        ] {
            assert_eq!(web.covers(host, port), by_web, "{host}:{port}");
            assert_eq!(named.covers(host, port), by_named, "{host}:{port}");
        }
        // A deny without a port holds on every port.
        assert!(web.guards("example.org", 22) && !named.guards("example.org", 22));
        assert!(web.includes(&reach("domain:example.org:443")) && !web.includes(&named));
        assert!(!named.includes(&web));
        for text in ["example.org", "domain:", "domain:*.org", "domain:a:b", "domain:a b"] {
            assert!(Reach::parse(text).is_err(), "{text}");
        }
    }
}
