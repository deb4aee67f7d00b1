//! How people elsewhere reach the server: its certificate and its address in links.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use plexus_tls::serving::{self, Unfit};

use super::Finding;
use crate::config::Config;
use crate::serve::tls::{host_of, own_files};

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
    let host = url::Url::parse(&config.public_url).ok();
    let host = host.as_ref().and_then(|url| url.host_str()).map(host_of);
    Some(match serving::from_files(cert, key) {
        Ok(_)
            if let Some(problem) = host.as_deref().and_then(|host| not_for(config, cert, host)) =>
        {
            problem
        }
        Ok(_) if config.tls.files().is_some() && others_read(key) => Finding::odd(
            WHAT,
            format!("other users of this machine can read tls.key {}", key.display()),
            format!("chmod 600 {}", key.display()),
        ),
        Ok(serving) if config.tls.files().is_some() => {
            Finding::good(WHAT, format!("{}, SHA-256 {}", cert.display(), serving.fingerprint))
        }
        Ok(serving) => Finding::good(WHAT, format!("our own, SHA-256 {}", serving.fingerprint)),
        Err(error) => {
            Finding::bad(WHAT, error.to_string(), "repair tls.cert and tls.key, or remove both")
        }
    })
}

/// Says why no phone takes the certificate at the address in links.
fn not_for(config: &Config, cert: &Path, host: &str) -> Option<Finding> {
    // The server makes its own anew when it starts.
    let is_ours = config.tls.files().is_none();
    let what = if is_ours { "our own".to_owned() } else { format!("tls.cert {}", cert.display()) };
    let (words, next) = match serving::unfit(cert, host)? {
        Unfit::Expired => ("has expired".to_owned(), "renew it"),
        Unfit::NotYet => ("is not valid yet".to_owned(), "look at the clock of this machine"),
        Unfit::OtherName => (
            format!("is not for {host}, the host of public_url"),
            "name a certificate for that host, or change public_url",
        ),
        _ => return None,
    };
    let next = if is_ours { "restart the server: it makes another" } else { next };
    Some(Finding::bad("certificate", format!("{what} {words}: no phone takes it"), next))
}

/// Whether every user of this machine may read or write a file.
fn others_read(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.permissions().mode() & 0o006 != 0)
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
        let made = serving::make(&["box.example".to_owned()]).unwrap();
        let (cert, key) = (folder.path().join("cert"), folder.path().join("key"));
        std::fs::write(&cert, made.certificate).unwrap();
        std::fs::write(&key, made.key).unwrap();
        let mode = |mode| {
            std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(0o600);
        let files = || TlsConfig { cert: cert.clone(), key: key.clone(), ..listen() };
        assert_eq!(look(&config(files(), "https://box.example")).unwrap().verdict, Verdict::Good);
        assert_eq!(look(&config(files(), "")).unwrap().verdict, Verdict::Good);
        let other = look(&config(files(), "https://phone.example:4446")).unwrap();
        assert_eq!(other.verdict, Verdict::Bad, "{other:?}");
        assert!(other.words.contains("is not for phone.example"), "{other:?}");
        mode(0o644);
        let open = look(&config(files(), "https://box.example")).unwrap();
        assert_eq!(open.verdict, Verdict::Odd, "{open:?}");
        assert!(open.next.contains("chmod 600"), "{open:?}");
        let plain = look_at_address(&config(listen(), "http://box.example")).unwrap();
        assert_eq!(plain.verdict, Verdict::Odd);
        for good in ["https://box.example", "http://127.0.0.1:4445"] {
            let found = look_at_address(&config(listen(), good)).unwrap();
            assert_eq!(found.verdict, Verdict::Good, "{good}");
        }
    }
}
