//! Whose word is taken for it that a receiver is who it says: the authorities of this machine, or those of one file.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// How a receiver is spoken to over TLS. With `ca_file` nobody else's word is taken than that of the authorities in it.
///
/// # Errors
/// When no authority is known, in words for whoever wrote the configuration.
pub(super) fn trust(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let roots = match ca_file {
        Some(path) => authorities_of(path).map_err(|problem| format!("its ca_file {}: {problem}", path.display()))?,
        None => authorities_of_this_machine()?,
    };
    // Named here and not for the whole process: who embeds us may have chosen another.
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be used: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn authorities_of(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() { Err("it holds no certificate in PEM form".into()) } else { Ok(roots) }
}

fn authorities_of_this_machine() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Stores hold old certificates that nothing can read any more; the others count.
    let (_added, _ignored) = roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(String::new, |error| format!(" ({error})"));
        return Err(format!(
            "this machine knows no certificate authority{why}; install its ca-certificates or name a ca_file"
        ));
    }
    Ok(roots)
}
