//! Matching of connections that a wall asks about: `Network(domain:example.org)` is that host on
//! the web ports, and `Network(domain:example.org:8443)` is that host on that port.

use std::net::IpAddr;

use super::Fit;
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

    /// Returns how a deny or an ask for this fits a connection. Without a port it is about every
    /// port. A host has several spellings: `2852039166` and `0xa9.254.0xa9fe` are an address too.
    pub(crate) fn guards(&self, host: &str, port: u16) -> Fit {
        if self.port.is_some_and(|named| named != port) {
            return Fit::No;
        }
        if same(&self.host, host) {
            return Fit::Yes;
        }
        let host = host.trim_matches(['[', ']']).trim_end_matches('.');
        let is_address = |text: &str| text.parse::<IpAddr>().ok();
        match (is_address(host), is_address(&self.host)) {
            // The last bytes hold the older address in most of its newer forms.
            (Some(IpAddr::V6(host)), Some(IpAddr::V4(named))) => {
                if host.octets().ends_with(&named.octets()) { Fit::Yes } else { Fit::No }
            }
            (Some(_), _) => Fit::No,
            (None, _) => match url::Host::parse(host) {
                Ok(host) if host.to_string() == self.host => Fit::Yes,
                Ok(_) => Fit::No,
                // What a resolver makes of it cannot be told.
                Err(_) => Fit::Maybe,
            },
        }
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
    fn a_deny_sees_a_host_in_each_of_its_spellings() {
        for (pattern, hosts) in [
            (
                "domain:169.254.169.254",
                &[
                    "169.254.169.254.",
                    "2852039166",
                    "0xa9fea9fe",
                    "0251.0376.0251.0376",
                    "169.254.43518",
                    "::ffff:169.254.169.254",
                    "[::ffff:a9fe:a9fe]",
                    "64:ff9b::a9fe:a9fe",
                ][..],
            ),
            (
                "domain:bücher.example",
                &["BÜCHER.example", "xn--bcher-kva.example..", "b%C3%BCcher.example"],
            ),
            ("domain:example.org", &["ｅxample.org", "example。org", "exam\u{ad}ple.org"]),
        ] {
            let reach = Reach::parse(pattern).unwrap();
            for host in hosts {
                assert_eq!(reach.guards(host, 80), Fit::Yes, "{pattern}: {host}");
                assert!(host.ends_with('.') || !reach.covers(host, 80), "{pattern}: {host}");
            }
            for host in ["example.com", "sub.example.org", "169.254.169.253", "::1", "2852039165"] {
                assert_eq!(reach.guards(host, 80), Fit::No, "{pattern}: {host}");
            }
            for host in ["", "exam ple.org", "1.2.3.4.5"] {
                assert_eq!(reach.guards(host, 80), Fit::Maybe, "{pattern}: {host}");
            }
        }
    }

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
        assert_eq!(
            (web.guards("example.org", 22), named.guards("example.org", 22)),
            (Fit::Yes, Fit::No)
        );
        assert!(web.includes(&reach("domain:example.org:443")) && !web.includes(&named));
        assert!(!named.includes(&web));
        for text in ["example.org", "domain:", "domain:*.org", "domain:a:b", "domain:a b"] {
            assert!(Reach::parse(text).is_err(), "{text}");
        }
    }
}
