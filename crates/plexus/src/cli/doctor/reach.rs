//! How people elsewhere reach the server: its certificate and its address in links.

use std::path::Path;

use plexus_tls::serving;

use super::Finding;
use crate::config::Config;
use crate::serve::tls::own_files;

/// Looks at the certificate; nothing where there is no encrypted listener.
pub(super) fn look_at_certificate(config: &Config, data_dir: &Path) -> Option<Finding> {
    const WHAT: &str = "certificate";
    if config.tls.listen.is_empty() {
        return None;
    }
    let own = own_files(data_dir);
    let (cert, key) = config.tls.files().unwrap_or((&own.0, &own.1));
    if config.tls.files().is_none() && !cert.exists() {
        let words = "none yet; the server makes one when it starts";
        return Some(Finding::good(WHAT, words));
    }
    Some(match serving::from_files(cert, key) {
        Ok(serving) if config.tls.files().is_some() => {
            Finding::good(WHAT, format!("{}, SHA-256 {}", cert.display(), serving.fingerprint))
        }
        Ok(serving) => Finding::good(WHAT, format!("our own, SHA-256 {}", serving.fingerprint)),
        Err(error) => {
            Finding::bad(WHAT, error.to_string(), "repair tls.cert and tls.key, or remove both")
        }
    })
}

/// Looks at the address in links; nothing where none is set.
pub(super) fn look_at_address(config: &Config) -> Option<Finding> {
    const WHAT: &str = "public_url";
    let url = url::Url::parse(&config.public_url).ok()?;
    let here = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    Some(match url.scheme() {
        "http" if !here => Finding::odd(
            WHAT,
            format!("{url} is not encrypted: a phone cannot install the page or get messages"),
            "set tls.listen, or put TLS in front of it, and begin public_url with https://",
        ),
        _ => Finding::good(WHAT, url.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;
    use crate::config::TlsConfig;

    #[test]
    fn what_is_wrong_with_the_certificate_or_the_address_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let config = |tls: TlsConfig, public_url: &str| Config {
            tls,
            public_url: public_url.into(),
            ..Config::default()
        };
        let listen = || TlsConfig { listen: "0.0.0.0:0".into(), ..TlsConfig::default() };
        let look = |config: &Config| look_at_certificate(config, folder.path());
        assert_eq!(look(&Config::default()), None);
        assert_eq!(look_at_address(&Config::default()), None);
        let none = look(&config(listen(), "")).unwrap();
        assert_eq!((none.verdict, none.next.as_str()), (Verdict::Good, ""));
        let missing = TlsConfig { cert: "/no/cert".into(), key: "/no/key".into(), ..listen() };
        let missing = look(&config(missing, "")).unwrap();
        assert_eq!(missing.verdict, Verdict::Bad, "{missing:?}");
        assert!(missing.words.contains("tls.cert /no/cert"), "{missing:?}");
        let plain = look_at_address(&config(listen(), "http://box.example")).unwrap();
        assert_eq!(plain.verdict, Verdict::Odd);
        for good in ["https://box.example", "http://127.0.0.1:4445"] {
            let found = look_at_address(&config(listen(), good)).unwrap();
            assert_eq!(found.verdict, Verdict::Good, "{good}");
        }
    }
}
