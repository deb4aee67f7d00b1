//! TLS: the authorities that are trusted when we call, and the certificate that we show when we are
//! called.
//!
//! - Here: chooses the trusted certificate authorities for outgoing TLS, those of this machine or
//!   those of one file. Webhooks and the connection to a shared database both use it, so that they
//!   trust the same authorities. The checks of the certificate and of the host name cannot be
//!   turned off.
//! - [`connect`](connect()): a connection to the host of a URL, plain or over TLS.
//! - [`serving`]: the certificate and key that the server shows to its clients.

mod connect;
pub mod serving;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

pub use connect::{Connection, connect};

/// Why no certificate authority can be trusted, worded for the author of the configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The file that the configuration names holds no usable authorities.
    #[error("{setting} {}: {problem}", path.display())]
    File {
        /// The name of the setting in the configuration.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The configuration names no file, and this machine has no authorities.
    #[error(
        "this machine knows no certificate authority{why}; install its ca-certificates or name a \
         file with {setting}"
    )]
    Machine {
        /// The name of the setting that would name a file.
        setting: &'static str,
        /// The error met while looking for authorities, in parentheses; empty when there was none.
        why: String,
    },
    /// Rustls cannot be configured; the authorities are not the cause.
    #[error("TLS cannot be used: {0}")]
    Unusable(#[source] rustls::Error),
}

/// Builds the TLS configuration of a client. With a file, only the authorities in it are trusted.
/// The authorities are read once, by this call. `setting` is the name of the file's setting in the
/// configuration, for error messages.
///
/// # Errors
/// [`TrustError`] when no authority is known or rustls cannot be used.
pub fn trust(
    authorities: Option<&Path>,
    setting: &'static str,
) -> Result<ClientConfig, TrustError> {
    let roots = match authorities {
        Some(path) => of_file(path).map_err(|problem| TrustError::File {
            setting,
            path: path.to_owned(),
            problem,
        })?,
        None => of_this_machine(setting)?,
    };
    // The provider is set here and not for the whole process: a program that embeds us may have
    // chosen another.
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(TrustError::Unusable)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

fn of_file(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() { Err("it holds no certificate in PEM form".into()) } else { Ok(roots) }
}

fn of_this_machine(setting: &'static str) -> Result<RootCertStore, TrustError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // A machine's store may hold old certificates that cannot be parsed. The others suffice.
    let (_added, _ignored) = roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(String::new, |error| format!(" ({error})"));
        return Err(TrustError::Machine { setting, why });
    }
    Ok(roots)
}
