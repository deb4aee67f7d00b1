//! The certificate and key that the server shows to its clients: from two files, or made here.
//!
//! A certificate that we make is signed by itself, so a client knows it only by its fingerprint.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::ServerCertVerifier as _;
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, RootCertStore, ServerConfig};
use sha2::{Digest as _, Sha256};

/// How long before its end a certificate of ours is replaced.
const RENEW_BEFORE: Duration = Duration::from_secs(30 * 24 * 3_600);

/// How many years a certificate of ours is good for. Some phones refuse more than 825 days.
const YEARS: i16 = 2;

/// Why the server has no certificate to show, worded for the author of the configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServingError {
    /// A file does not hold what it should.
    #[error("{setting} {}: {problem}; {next}", path.display())]
    File {
        /// The name of the setting in the configuration.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        next: &'static str,
    },
    /// The key is not the one that the certificate speaks of.
    #[error(
        "tls.key {} does not belong to tls.cert {}: name the key that the certificate was made for",
        key.display(), cert.display()
    )]
    Mismatch {
        /// The certificate.
        cert: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// No certificate could be made.
    #[error("make a certificate for {names}: {problem}")]
    Making {
        /// The names that it should have.
        names: String,
        /// Why not.
        problem: String,
    },
    /// Rustls cannot be configured; the files are not the cause.
    #[error("TLS cannot be used: {0}")]
    Unusable(#[source] rustls::Error),
}

/// What a listener needs to speak TLS.
#[derive(Clone, Debug)]
pub struct Serving {
    /// The configuration of rustls.
    pub config: Arc<ServerConfig>,
    /// The SHA-256 of the certificate, as browsers show it: pairs of hex digits with colons.
    pub fingerprint: String,
}

/// A certificate that was made here, and its key.
pub struct Made {
    /// The certificate, in PEM form.
    pub certificate: String,
    /// The key, in PEM form. Whoever has it can speak as this server.
    pub key: String,
}

impl std::fmt::Debug for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Made").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// Reads the certificate chain in `cert` and its key in `key`.
///
/// # Errors
/// [`ServingError`], which names the setting and the next step.
pub fn from_files(cert: &Path, key: &Path) -> Result<Serving, ServingError> {
    let chain = chain_of(cert).map_err(|problem| ServingError::File {
        setting: "tls.cert",
        path: cert.to_owned(),
        problem,
        next: "name a file with the certificate and its chain in PEM form",
    })?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| ServingError::File {
        setting: "tls.key",
        path: key.to_owned(),
        problem: error.to_string(),
        next: "name a file with the private key in PEM form, without a passphrase",
    })?;
    let fingerprint = chain.first().map(fingerprint).unwrap_or_default();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(ServingError::Unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                ServingError::Mismatch { cert: cert.to_owned(), key: key.to_owned() }
            }
            error => ServingError::File {
                setting: "tls.cert",
                path: cert.to_owned(),
                problem: error.to_string(),
                next: "name a certificate and a key that belong together, RSA, ECDSA or Ed25519",
            },
        })?;
    let mut config = config;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Serving { config: Arc::new(config), fingerprint })
}

/// Makes a certificate for `names`: host names and IP addresses.
///
/// # Errors
/// [`ServingError::Making`] when a name is not valid, or there is no randomness.
pub fn make(names: &[String]) -> Result<Made, ServingError> {
    let wrong = |error: rcgen::Error| ServingError::Making {
        names: names.join(", "),
        problem: error.to_string(),
    };
    let today = jiff::Zoned::now().date();
    let (year, month) = (i32::from(today.year()), today.month().unsigned_abs());
    let mut params = rcgen::CertificateParams::new(names.to_vec()).map_err(wrong)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, "Plexus server");
    // From the first of last year, so that a phone whose clock is off accepts it; day 1 is in every
    // month.
    params.not_before = rcgen::date_time_ymd(year - 1, 1, 1);
    params.not_after = rcgen::date_time_ymd(year + i32::from(YEARS), month, 1);
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let key = rcgen::KeyPair::generate().map_err(wrong)?;
    let certificate = params.self_signed(&key).map_err(wrong)?;
    Ok(Made { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// Says whether a certificate that was made here is for all of `names`, and for a while yet.
#[must_use]
pub fn still_good(cert: &Path, names: &[String]) -> bool {
    let check = || -> Option<()> {
        let chain = chain_of(cert).ok()?;
        let certificate = chain.first()?;
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).ok()?;
        let provider = Arc::new(ring::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().ok()?;
        let until = UnixTime::now().as_secs() + RENEW_BEFORE.as_secs();
        let until = UnixTime::since_unix_epoch(Duration::from_secs(until));
        for name in names {
            let name = ServerName::try_from(name.as_str()).ok()?;
            verifier.verify_server_cert(certificate, &[], &name, &[], until).ok()?;
        }
        Some(())
    };
    check().is_some()
}

/// Why clients refuse a certificate, whoever issued it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Unfit {
    /// Its time has passed.
    Expired,
    /// Its time has not come.
    NotYet,
    /// It is for other names.
    OtherName,
}

/// Says why no client that calls this server `host` takes its certificate. A certificate that
/// cannot be read, or whose issuer nobody knows, is not found here.
#[must_use]
pub fn unfit(cert: &Path, host: &str) -> Option<Unfit> {
    unfit_at(cert, host, UnixTime::now())
}

fn unfit_at(cert: &Path, host: &str, now: UnixTime) -> Option<Unfit> {
    let chain = chain_of(cert).ok()?;
    let certificate = chain.first()?;
    let name = ServerName::try_from(host).ok()?;
    // Its own root: the time and the names are checked whoever has issued it.
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).ok()?;
    let provider = Arc::new(ring::default_provider());
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().ok()?;
    match verifier.verify_server_cert(certificate, &[], &name, &[], now) {
        Err(rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => return Some(Unfit::Expired),
        Err(rustls::Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        )) => return Some(Unfit::NotYet),
        _ => {}
    }
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    match verify_server_name(&parsed, &name) {
        Err(rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => Some(Unfit::OtherName),
        _ => None,
    }
}

fn chain_of(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain = CertificateDer::pem_file_iter(path)
        .and_then(|found| found.collect::<Result<Vec<_>, _>>())
        .map_err(|error| error.to_string())?;
    if chain.is_empty() { Err("it holds no certificate in PEM form".into()) } else { Ok(chain) }
}

fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let pairs: Vec<String> =
        Sha256::digest(certificate).iter().map(|byte| format!("{byte:02X}")).collect();
    pairs.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn written(dir: &Path, made: &Made) -> (PathBuf, PathBuf) {
        let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
        std::fs::write(&cert, &made.certificate).unwrap();
        std::fs::write(&key, &made.key).unwrap();
        (cert, key)
    }

    #[test]
    fn a_certificate_of_ours_is_good_for_its_names_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let made = make(&names(&["localhost", "127.0.0.1", "::1", "box.example"])).unwrap();
        let (cert, key) = written(dir.path(), &made);
        let serving = from_files(&cert, &key).unwrap();
        assert_eq!(serving.fingerprint.split(':').count(), 32, "{}", serving.fingerprint);
        assert!(still_good(&cert, &names(&["127.0.0.1", "::1", "box.example"])));
        assert!(!still_good(&cert, &names(&["localhost", "other.example"])));
        assert!(!still_good(&dir.path().join("none.pem"), &names(&["localhost"])));
        assert!(!format!("{made:?}").contains("PRIVATE"), "a key is never printed");
    }

    #[test]
    fn a_certificate_that_no_client_takes_is_known_whoever_issued_it() {
        let dir = tempfile::tempdir().unwrap();
        let issuer_key = rcgen::KeyPair::generate().unwrap();
        let mut issuer = rcgen::CertificateParams::default();
        issuer.distinguished_name.push(rcgen::DnType::CommonName, "an issuer");
        let issuer = rcgen::Issuer::new(issuer, issuer_key);
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(names(&["box.example"])).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        let issued = params.signed_by(&key, &issuer).unwrap().pem();
        let of_itself = params.self_signed(&key).unwrap().pem();
        let year = Duration::from_secs(366 * 24 * 3_600);
        for pem in [issued, of_itself] {
            let cert = dir.path().join("cert.pem");
            std::fs::write(&cert, pem).unwrap();
            let at = |years: u32| UnixTime::since_unix_epoch(year * years);
            for (host, years, expected) in [
                ("box.example", 50, None),
                ("other.example", 50, Some(Unfit::OtherName)),
                ("10.0.0.1", 50, Some(Unfit::OtherName)),
                ("box.example", 52, Some(Unfit::Expired)),
                ("box.example", 49, Some(Unfit::NotYet)),
            ] {
                assert_eq!(unfit_at(&cert, host, at(years)), expected, "{host} after {years}");
            }
            assert_eq!(unfit(&cert, "box.example"), Some(Unfit::Expired));
        }
        assert_eq!(unfit(&dir.path().join("none.pem"), "box.example"), None);
    }

    #[test]
    fn bad_files_are_refused_with_the_setting_and_the_next_step() {
        let dir = tempfile::tempdir().unwrap();
        let made = make(&names(&["localhost"])).unwrap();
        let (cert, key) = written(dir.path(), &made);
        let other = dir.path().join("other.pem");
        std::fs::write(&other, make(&names(&["localhost"])).unwrap().key).unwrap();
        let (missing, empty) = (dir.path().join("missing.pem"), dir.path().join("empty.pem"));
        std::fs::write(&empty, "nothing\n").unwrap();
        for (cert, key, expected) in [
            (&missing, &key, "tls.cert"),
            (&empty, &key, "it holds no certificate"),
            (&cert, &missing, "tls.key"),
            (&cert, &empty, "without a passphrase"),
            (&cert, &other, "does not belong to"),
        ] {
            let error = from_files(cert, key).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
