//! Encryption of the connection to the database, as the URL's `sslmode` and `sslrootcert` ask for
//! it.
//!
//! There are two modes and nothing in between: none, or TLS with a verified certificate for the
//! host that the URL names. Modes with weaker guarantees are refused: `prefer` and `allow` leave
//! encryption to the server, and `verify-ca` does not check the host. `require` means the same as
//! `verify-full` here.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use rustls::CertificateError;
use tokio_postgres::Error;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::sql::{store_error, text_of};
use crate::contract::StoreError;

/// The value of `sslrootcert` that other clients use for the authorities of the machine.
const OF_THE_MACHINE: &str = "system";

/// The encryption that a URL asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Encryption {
    /// None: `sslmode=disable`, or no `sslmode`.
    Off,
    /// TLS, verified for the host in the URL.
    Verified {
        /// The file of trusted authorities (`sslrootcert`); `None` for those of the machine.
        authorities: Option<PathBuf>,
    },
}

/// Splits a URL into its encryption settings and the rest. Errors quote nothing else of the URL,
/// because it holds a password.
pub(super) fn read(url: &str) -> Result<(String, Encryption), StoreError> {
    // The parser that gets the rest starts to search here too: a password that is not encoded may
    // hold a question mark.
    let behind_password = url.find('@').unwrap_or(0);
    let Some(at) = url[behind_password..].find('?').map(|at| at + behind_password) else {
        return Ok((url.to_owned(), Encryption::Off));
    };
    let (mut mode, mut authorities, mut rest) = (None, None, Vec::new());
    for part in url[at + 1..].split('&') {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        match decoded(name)?.as_ref() {
            "sslmode" => once(&mut mode, decoded(value)?)?,
            "sslrootcert" => once(&mut authorities, decoded(value)?)?,
            "sslcert" | "sslkey" | "sslpassword" => {
                return Err(wrong(
                    "certificates of clients are not used here; leave sslcert and sslkey out and \
                     give a password",
                ));
            }
            name if name.starts_with("ssl") => {
                return Err(wrong(
                    "of what begins with ssl, only sslmode and sslrootcert are understood; leave \
                     the others out",
                ));
            }
            _ => rest.push(part),
        }
    }
    let query = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
    Ok((format!("{}{query}", &url[..at]), encryption(mode.as_deref(), authorities.as_deref())?))
}

/// Combines both settings.
fn encryption(mode: Option<&str>, authorities: Option<&str>) -> Result<Encryption, StoreError> {
    match (mode, authorities) {
        (None | Some("disable"), None) => Ok(Encryption::Off),
        (None | Some("disable"), Some(_)) => {
            Err(wrong("sslrootcert is of use only with sslmode=verify-full; say both"))
        }
        (Some("require" | "verify-full"), Some("")) => {
            Err(wrong("sslrootcert names no file; name one or leave it out"))
        }
        (Some("require" | "verify-full"), named) => Ok(Encryption::Verified {
            authorities: named.filter(|named| *named != OF_THE_MACHINE).map(PathBuf::from),
        }),
        (Some("prefer" | "allow"), _) => Err(wrong(
            "sslmode=prefer and sslmode=allow go without encryption when the server says so; say \
             sslmode=verify-full, or sslmode=disable to go without",
        )),
        (Some("verify-ca"), _) => Err(wrong(
            "sslmode=verify-ca takes any certificate of the authority for that of the database; \
             say sslmode=verify-full, which checks the host too",
        )),
        (Some(_), _) => Err(wrong("sslmode is verify-full, require (here the same) or disable")),
    }
}

fn wrong(why: &str) -> StoreError {
    StoreError::invalid(format_args!("use the database's URL: {why}"))
}

fn decoded(text: &str) -> Result<Cow<'_, str>, StoreError> {
    percent_decode_str(text).decode_utf8().map_err(|_| wrong("it is not UTF-8 where it says %"))
}

fn once<'u>(slot: &mut Option<Cow<'u, str>>, value: Cow<'u, str>) -> Result<(), StoreError> {
    match slot.replace(value) {
        None => Ok(()),
        // Clients differ in which of the two counts.
        Some(_) => Err(wrong("sslmode and sslrootcert are said once at most")),
    }
}

impl Encryption {
    /// Returns the connector for TLS; `None` when there is no encryption. The authorities are read
    /// once, by this call.
    pub(super) fn connector(&self) -> Result<Option<MakeRustlsConnect>, StoreError> {
        match self {
            Self::Off => Ok(None),
            Self::Verified { authorities } => {
                let trusted = plexus_tls::trust(authorities.as_deref(), "sslrootcert");
                Ok(Some(MakeRustlsConnect::new(
                    trusted.map_err(|error| wrong(&error.to_string()))?,
                )))
            }
        }
    }
}

/// Converts a failure to connect into the error for the caller, with the next step when encryption
/// was the cause.
pub(super) fn refusal(error: Error) -> StoreError {
    match next_step(&error) {
        Some(next) => StoreError::Unavailable {
            message: format!("{}; {next}", text_of(&error)),
            source: Some(Arc::new(error)),
        },
        None => store_error(error),
    }
}

fn next_step(error: &Error) -> Option<&'static str> {
    let source = std::error::Error::source(error)?;
    let of_tls = source.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    match of_tls.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(problem)) => Some(match problem {
            // `BadSignature` occurs when the authority has the same name as another one.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "name the file with the authority that signed the database's certificate as \
                 sslrootcert in its URL"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "say in the URL the host that the certificate is for, or give the database one \
                 for this host"
            }
            _ => {
                "give the database a certificate for its host that the authority in sslrootcert \
                has signed"
            }
        }),
        Some(_) => None,
        // The library reports this only as text.
        None => source.to_string().contains("does not support TLS").then_some(
            "turn it on there (ssl = on in postgresql.conf); sslmode=disable in the URL goes \
             without, where nobody can read along",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encryption_settings_are_taken_out_of_the_url() {
        let verified =
            |file: Option<&str>| Encryption::Verified { authorities: file.map(PathBuf::from) };
        for (url, left, said) in [
            ("postgres://u:p@h/d", "postgres://u:p@h/d", Encryption::Off),
            (
                "postgres://u:p?sslmode=require@h/d",
                "postgres://u:p?sslmode=require@h/d",
                Encryption::Off,
            ),
            ("postgres://u:p@h/d?sslmode=disable", "postgres://u:p@h/d", Encryption::Off),
            (
                "postgres://h/d?connect_timeout=3&sslmode=require",
                "postgres://h/d?connect_timeout=3",
                verified(None),
            ),
            (
                "postgres://h/d?sslmode=verify-full&options=x",
                "postgres://h/d?options=x",
                verified(None),
            ),
            (
                "postgres://h/d?sslmode=verify-full&sslrootcert=system",
                "postgres://h/d",
                verified(None),
            ),
            (
                "postgres://h?sslrootcert=%2Fa%20b.pem&ssl%6Dode=verify-full",
                "postgres://h",
                verified(Some("/a b.pem")),
            ),
        ] {
            assert_eq!(read(url).ok(), Some((left.to_owned(), said)), "{url}");
        }
    }

    #[test]
    fn weak_or_ambiguous_tls_settings_are_refused_with_the_next_step() {
        for (query, next) in [
            ("sslmode=prefer", "say sslmode=verify-full"),
            ("sslmode=allow", "say sslmode=verify-full"),
            ("ssl%6Dode=prefer", "say sslmode=verify-full"),
            ("sslmode=verify-ca", "say sslmode=verify-full"),
            ("sslmode=verify-ca&sslrootcert=/ca.pem", "say sslmode=verify-full"),
            ("sslmode=", "sslmode is verify-full"),
            ("sslmode", "sslmode is verify-full"),
            ("sslmode=Require", "sslmode is verify-full"),
            ("sslmode=disable&sslmode=require", "once at most"),
            ("sslmode=require&ssl%6Dode=disable", "once at most"),
            ("sslrootcert=/ca.pem", "only with sslmode=verify-full"),
            ("sslmode=disable&sslrootcert=/ca.pem", "only with sslmode=verify-full"),
            ("sslmode=verify-full&sslrootcert=", "name one"),
            ("sslmode=verify-full&sslrootcert=%ff", "UTF-8"),
            ("sslmode=verify-full&sslcert=/me.pem", "give a password"),
            ("sslmode=verify-full&sslnegotiation=direct", "leave the others out"),
        ] {
            match read(&format!("postgres://u:s3cret@h/d?{query}")) {
                Err(StoreError::Invalid { message }) => {
                    assert!(
                        message.contains(next) && !message.contains("s3cret"),
                        "{query}: {message}"
                    );
                }
                other => panic!("{query}: {other:?}"),
            }
        }
    }
}
