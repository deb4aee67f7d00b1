//! How people elsewhere reach this server: the encrypted listener, and the address in links.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Config;

/// The encrypted listener, beside the plain one of this machine.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// Where to listen with TLS, such as `0.0.0.0:4446`; empty for nowhere. Port 0 takes a free
    /// one.
    pub listen: String,
    /// The certificate and its chain, in PEM form; empty for one that the server makes itself.
    pub cert: PathBuf,
    /// The certificate's key, in PEM form.
    pub key: PathBuf,
}

impl TlsConfig {
    /// Returns the files of the certificate, if they are named.
    #[must_use]
    pub fn files(&self) -> Option<(&PathBuf, &PathBuf)> {
        (!self.cert.as_os_str().is_empty()).then_some((&self.cert, &self.key))
    }
}

/// Says which key is wrong, and why.
pub(super) fn check(config: &Config) -> Result<(), (&'static str, String)> {
    let tls = &config.tls;
    let (cert, key) = (!tls.cert.as_os_str().is_empty(), !tls.key.as_os_str().is_empty());
    if cert && !key {
        return Err(("tls.key", "tls.cert is set: name the key of that certificate too".into()));
    }
    if key && !cert {
        return Err(("tls.cert", "tls.key is set: name the certificate of that key too".into()));
    }
    if cert && tls.listen.is_empty() {
        return Err((
            "tls.listen",
            "tls.cert is set: say where to listen with it, such as 0.0.0.0:4446".into(),
        ));
    }
    check_url(&config.public_url).map_err(|problem| ("public_url", problem.to_owned()))
}

fn check_url(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        return Ok(());
    }
    let url = url::Url::parse(text).map_err(|_| WRONG)?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err(WRONG);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it holds a name or a password, and links are shown to everybody");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("it ends at the path: links add what comes after it");
    }
    Ok(())
}

const WRONG: &str = "it is not an address that begins with https:// or http://, such as \
    https://box.example:4446";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_certificate_and_a_wrong_address_name_their_key() {
        let config = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            config
        };
        assert_eq!(check(&Config::default()), Ok(()));
        let whole = config(|it| {
            it.tls = TlsConfig { listen: "0.0.0.0:1".into(), cert: "c".into(), key: "k".into() };
            it.public_url = "https://box.example:4446/plexus/".into();
        });
        assert_eq!(check(&whole), Ok(()));
        for (config, expected) in [
            (config(|it| it.tls.cert = "c".into()), "tls.key"),
            (config(|it| it.tls.key = "k".into()), "tls.cert"),
            (config(|it| (it.tls.cert, it.tls.key) = ("c".into(), "k".into())), "tls.listen"),
            (config(|it| it.public_url = "box.example".into()), "public_url"),
            (config(|it| it.public_url = "ftp://box.example".into()), "public_url"),
            (config(|it| it.public_url = "https://me:secret@box.example".into()), "public_url"),
            (config(|it| it.public_url = "https://box.example/#x".into()), "public_url"),
        ] {
            assert_eq!(check(&config).unwrap_err().0, expected, "{config:?}");
        }
    }
}
