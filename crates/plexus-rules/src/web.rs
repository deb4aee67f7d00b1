//! Matching of URLs: `WebFetch(domain:example.org)` is that host only, without its subdomains.
//!
//! For an allow the host must be the pattern's in the plainest spelling: no user name, no escapes,
//! no look-alike letters, no port. URL parsers agree on those, and on little else.

use url::{Host, Url};

use super::Fit;

/// A URL, read once for all rules.
#[derive(Debug)]
pub(super) struct Address {
    /// The host as a URL parser sees it, without a final dot.
    host: Option<String>,
    /// The host as written, in lower case, when the URL is written plainly.
    plain_host: Option<String>,
}

impl Address {
    pub(super) fn read(text: &str) -> Self {
        let parsed = Url::parse(text).ok();
        let host = parsed
            .as_ref()
            .and_then(Url::host)
            .map(|host| host.to_string().trim_end_matches('.').to_owned());
        let plain_host = parsed.as_ref().and_then(|url| plain_host(text, url));
        Self { host, plain_host }
    }

    /// Returns the host by which allows are found.
    pub(super) fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Returns how an allow for this host fits.
    pub(super) fn covered_by(&self, ascii: &str, written: &str) -> Fit {
        match (&self.host, &self.plain_host) {
            (Some(host), Some(plain)) if host == ascii && (plain == ascii || plain == written) => {
                Fit::Yes
            }
            _ => Fit::No,
        }
    }

    /// Returns how a deny or an ask for this host fits.
    pub(super) fn guarded_by(&self, ascii: &str) -> Fit {
        match &self.host {
            Some(host) if host == ascii => Fit::Yes,
            Some(_) if self.plain_host.is_some() => Fit::No,
            // A URL that is not written plainly may lead anywhere.
            Some(_) | None => Fit::Maybe,
        }
    }
}

/// Returns the host as written, when nothing about the text is unusual.
fn plain_host(text: &str, url: &Url) -> Option<String> {
    if text.contains('\\') || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return None;
    }
    let lower = text.to_lowercase();
    let (rest, port) = match lower.strip_prefix("https://") {
        Some(rest) => (rest, ":443"),
        None => (lower.strip_prefix("http://")?, ":80"),
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let authority = authority.strip_suffix(port).unwrap_or(authority);
    let usual = matches!(url.host(), Some(Host::Domain(_)))
        && url.username().is_empty()
        && url.password().is_none()
        && url.port().is_none()
        && authority.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '.'))
        && !authority.ends_with('.');
    usual.then(|| authority.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deny_sees_through_spellings_that_an_allow_does_not_accept() {
        for text in [
            "https://example.org./",
            "https://user@example.org/",
            "https://EXAMPLE.org:444/",
            "https://example%2eorg/",
            "https://ｅxample.org/",
            "https:\\\\example.org/",
        ] {
            let address = Address::read(text);
            assert_eq!(address.guarded_by("example.org"), Fit::Yes, "{text}");
            assert_eq!(address.covered_by("example.org", "example.org"), Fit::No, "{text}");
        }
        assert_eq!(Address::read("https://example.com/").guarded_by("example.org"), Fit::No);
        assert_eq!(Address::read("not a url").guarded_by("example.org"), Fit::Maybe);
    }
}
