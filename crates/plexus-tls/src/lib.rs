//! Whose word is taken for it that the other side of a TLS connection is who it says: the
//! authorities of this machine, or those of one file.
//!
//! Webhooks and the way to a shared database ask here, so that both mean the same by it. There is
//! no way to leave the check of the certificate or of the host's name out.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// Why nobody's word can be taken, in words for whoever wrote the configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The file that was named holds no authorities.
    #[error("{setting} {}: {problem}", path.display())]
    File {
        /// What the configuration calls it.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// None was named, and this machine has none.
    #[error(
        "this machine knows no certificate authority{why}; install its ca-certificates or name a \
         file with {setting}"
    )]
    Machine {
        /// What the configuration would call a file.
        setting: &'static str,
        /// What was in the way of looking, in parentheses; empty when nothing was.
        why: String,
    },
    /// Not a matter of authorities.
    #[error("TLS cannot be used: {0}")]
    Unusable(#[source] rustls::Error),
}

/// How others are spoken to over TLS. With a file nobody else's word is taken than that of the
/// authorities in it. Both are read now, and not again. `setting` is what the configuration calls
/// the file, for errors.
///
/// # Errors
/// When no authority is known.
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
    // Named here and not for the whole process: who embeds us may have chosen another.
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
    // Stores hold old certificates that nothing can read any more; the others count.
    let (_added, _ignored) = roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(String::new, |error| format!(" ({error})"));
        return Err(TrustError::Machine { setting, why });
    }
    Ok(roots)
}
