//! The encrypted listener: its certificate, from files or made here and kept in the data directory.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use plexus_tls::serving::{self, Serving};
use rustls::pki_types::ServerName;

use crate::config::Config;
use crate::data_dir::DataDir;
use plexus_render::error::could_not;

/// The certificate that the server made itself.
pub(crate) const OWN_CERT_FILE: &str = "tls-cert.pem";

/// The key of that certificate.
pub(crate) const OWN_KEY_FILE: &str = "tls-key.pem";

/// Returns the certificate of the listener at `address`. If none is configured, the server makes
/// one at the first start, and again when it ends soon or lacks a name that this server now has.
///
/// # Errors
/// When a file cannot be used; the error names the setting and the next step.
pub(crate) fn certificate(
    config: &Config,
    data_dir: &Path,
    address: SocketAddr,
) -> Result<Serving> {
    if let Some((cert, key)) = config.tls.files() {
        return serving::from_files(cert, key).map_err(could_not_serve);
    }
    let dir = DataDir::prepare(data_dir).map_err(could_not)?;
    let (cert, key) = own_files(dir.path());
    let names = names(config, address);
    if !key.is_file() || !serving::still_good(&cert, &names) {
        let made = serving::make(&names).map_err(could_not)?;
        // The key first: a certificate without its key would be shown by nobody.
        plexus_files::write_private(&key, made.key.as_bytes())
            .and_then(|()| plexus_files::write_private(&cert, made.certificate.as_bytes()))
            .with_context(|| format!("could not write {}", cert.display()))?;
        tracing::info!(names = names.join(", "), "made a certificate; its fingerprint is new");
    }
    serving::from_files(&cert, &key).map_err(|error| {
        let hint = format!("remove {} and {} to have new ones made", cert.display(), key.display());
        anyhow::anyhow!("{}\n  {hint}", could_not_serve(error))
    })
}

/// Where a certificate of our own lies in a data directory, and its key.
pub(crate) fn own_files(data_dir: &Path) -> (PathBuf, PathBuf) {
    (data_dir.join(OWN_CERT_FILE), data_dir.join(OWN_KEY_FILE))
}

fn could_not_serve(error: serving::ServingError) -> anyhow::Error {
    anyhow::anyhow!("could not serve TLS: {error}")
}

/// The names by which this server may be called from elsewhere, as far as it knows them.
fn names(config: &Config, address: SocketAddr) -> Vec<String> {
    let machine = rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
    let mut names: Vec<String> =
        ["localhost", "127.0.0.1", "::1"].iter().map(|name| (*name).to_owned()).collect();
    names.push(machine);
    if !address.ip().is_unspecified() {
        names.push(address.ip().to_string());
    }
    let public = url::Url::parse(&config.public_url).ok();
    names.extend(public.as_ref().and_then(|url| url.host_str()).map(host_of));
    names.extend(config.allowed_hosts.iter().map(|host| host_of(host)));
    // A name that no certificate can hold is left out.
    names.retain(|name| ServerName::try_from(name.as_str()).is_ok());
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

/// Returns the host of `host`, `host:port` or `[v6]:port`.
pub(crate) fn host_of(text: &str) -> String {
    if let Some(v6) = text.strip_prefix('[') {
        return v6.split(']').next().unwrap_or_default().to_owned();
    }
    if text.parse::<IpAddr>().is_ok() {
        return text.to_owned();
    }
    text.split(':').next().unwrap_or_default().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_certificate_of_our_own_stays_until_the_server_has_another_name() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("data");
        let address: SocketAddr = "0.0.0.0:4446".parse().unwrap();
        let config = Config::default();
        let first = certificate(&config, &dir, address).unwrap();
        let (cert, key) = own_files(&dir);
        for file in [&cert, &key] {
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        let again = certificate(&config, &dir, address).unwrap();
        assert_eq!(first.fingerprint, again.fingerprint);
        let config = Config { public_url: "https://phone.example:4446".into(), ..config };
        let renamed = certificate(&config, &dir, address).unwrap();
        assert_ne!(first.fingerprint, renamed.fingerprint);
        std::fs::write(&key, "no key").unwrap();
        let error = format!("{:#}", certificate(&config, &dir, address).unwrap_err());
        assert!(error.contains("to have new ones made"), "{error}");
    }

    #[test]
    fn the_names_are_those_of_the_configuration_without_ports() {
        let config = Config {
            public_url: "https://Phone.example:4446/x".into(),
            allowed_hosts: vec!["Box:1".into(), "[fd00::1]:2".into(), "10.0.0.1".into()],
            ..Config::default()
        };
        let names = names(&config, "192.168.1.7:4446".parse().unwrap());
        for name in ["localhost", "phone.example", "box", "fd00::1", "10.0.0.1", "192.168.1.7"] {
            assert!(names.iter().any(|known| known == name), "{name} in {names:?}");
        }
    }
}
