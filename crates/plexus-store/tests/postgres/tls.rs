//! The connection to the database is encrypted when the URL asks for it, and only to the intended
//! database; a weaker connection is never used instead.

use std::net::Ipv4Addr;
use std::sync::OnceLock;

use plexus_store::{Priority, Store, StoreError, Topic};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use tempfile::TempDir;
use testkit::postgres::{self, Postgres, PostgresOptions, Tls};
use testkit::wait::{PATIENCE, eventually_async, within};

use crate::fixture::{append, database, open, session_with_chat};

/// A database with TLS, whose certificate for 127.0.0.1 comes from an authority that no machine
/// trusts.
struct Encrypted {
    cluster: Postgres,
    authority: String,
}

impl Encrypted {
    /// Returns the one that the tests here share.
    async fn shared() -> anyhow::Result<&'static Self> {
        static SHARED: OnceLock<Encrypted> = OnceLock::new();
        Ok(tokio::task::spawn_blocking(|| SHARED.get_or_init(Self::start)).await?)
    }

    fn start() -> Self {
        let authority = authority("ours");
        let key = KeyPair::generate().expect("a key");
        let mut host = CertificateParams::new(Vec::new()).expect("names");
        host.subject_alt_names.push(SanType::IpAddress(Ipv4Addr::LOCALHOST.into()));
        let certificate = host.signed_by(&key, &authority).expect("a certificate").pem();
        let tls = Some(Tls { certificate, key: key.serialize_pem() });
        let cluster = postgres::own_with(PostgresOptions { tls, ..PostgresOptions::default() });
        Self { cluster, authority: authority.pem() }
    }

    /// Creates an empty database and returns its URL and its name.
    async fn database(&'static self) -> anyhow::Result<(String, String)> {
        let url = tokio::task::spawn_blocking(|| self.cluster.fresh_database()).await??;
        let name = url.rsplit('/').next().expect("a database").to_owned();
        Ok((url, name))
    }

    /// Returns whether each connection of ours to a database is encrypted, as the database sees it.
    async fn seen(&'static self, database: String) -> anyhow::Result<Vec<String>> {
        let sql = format!(
            "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name \
             = 'plexus' AND datname = '{database}'"
        );
        let seen = tokio::task::spawn_blocking(move || self.cluster.sql(&database, &sql)).await??;
        Ok(seen.lines().map(str::to_owned).collect())
    }
}

fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).expect("names");
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority")
}

/// Returns the URL parameter that trusts the authorities in a file with this text.
fn believing(folder: &TempDir, name: &str, authorities: &str) -> anyhow::Result<String> {
    let path = folder.path().join(name);
    std::fs::write(&path, authorities)?;
    Ok(format!("sslrootcert={}", path.display()))
}

/// Returns the error for a URL that gets no connection. A timeout on a loaded machine does not
/// count.
async fn refused(url: &str) -> String {
    eventually_async("a refusal", PATIENCE, || async {
        match open(url).await {
            Err(StoreError::Unavailable { message, .. }) if message.contains("did not answer") => {
                None
            }
            Err(error @ (StoreError::Unavailable { .. } | StoreError::Invalid { .. })) => {
                Some(format!("{error} {error:?}"))
            }
            other => panic!("{other:?}"),
        }
    })
    .await
}

pub(crate) async fn every_connection_of_a_url_that_asks_for_encryption_has_it() -> anyhow::Result<()>
{
    let encrypted = Encrypted::shared().await?;
    let folder = tempfile::tempdir()?;
    let trust = believing(&folder, "ours.pem", &encrypted.authority)?;
    for mode in ["require", "verify-full"] {
        let (url, name) = encrypted.database().await?;
        let url = format!("{url}?sslmode={mode}&{trust}");
        let (one, other) = (open(&url).await?, open(&url).await?);
        assert!(one.encrypted());
        let id = session_with_chat(one.as_ref(), "s").await?;
        let mut wake = other.watch(Topic::Session(id));
        let commit = one.commit(vec![append(id, 0..3)], Priority::Normal).await?.commit;
        within("a wake over an encrypted connection", PATIENCE, async {
            while wake.changed().await < commit {}
        })
        .await;
        assert_eq!(other.session(id).await?.name, "s");
        // The writers and listeners of both handles, and a reader.
        let seen = encrypted.seen(name).await?;
        assert!(seen.len() >= 5 && seen.iter().all(|ssl| ssl == "t"), "{mode}: {seen:?}");
        one.close().await?;
        other.close().await?;
    }
    let (url, name) = encrypted.database().await?;
    let plain = open(&format!("{url}?sslmode=disable")).await?;
    let seen = encrypted.seen(name).await?;
    assert!(
        !plain.encrypted() && seen.len() >= 2 && seen.iter().all(|ssl| ssl == "f"),
        "it can be told apart: {seen:?}"
    );
    plain.close().await?;
    Ok(())
}

pub(crate) async fn a_database_with_the_wrong_certificate_gets_no_connection() -> anyhow::Result<()>
{
    let encrypted = Encrypted::shared().await?;
    let folder = tempfile::tempdir()?;
    let ours = believing(&folder, "ours.pem", &encrypted.authority)?;
    let other = believing(&folder, "other.pem", &authority("other").pem())?;
    // An authority of the same name with another key, as an impostor would have.
    let alike = believing(&folder, "alike.pem", &authority("ours").pem())?;
    let (url, _) = encrypted.database().await?;
    // The same address under a host name that the certificate is not for.
    let elsewhere = url.replace("@127.0.0.1:", "@elsewhere.example:");
    assert_ne!(elsewhere, url);
    for mode in ["require", "verify-full"] {
        for (url, why, next) in [
            (format!("{url}?sslmode={mode}&{other}"), "UnknownIssuer", "as sslrootcert"),
            (format!("{url}?sslmode={mode}&{alike}"), "BadSignature", "as sslrootcert"),
            (
                format!("{elsewhere}?hostaddr=127.0.0.1&sslmode={mode}&{ours}"),
                "elsewhere.example",
                "say in the URL the host",
            ),
            // With the authorities of this machine, if it has any.
            (format!("{url}?sslmode={mode}"), "", "sslrootcert"),
        ] {
            let said = refused(&url).await;
            assert!(said.contains(why) && said.contains(next), "{mode}: {said}");
            assert!(!said.contains(encrypted.cluster.password()), "{mode}: {said}");
        }
    }
    // This address and this authority work, so the refusals above had the expected reasons.
    open(&format!("{url}?sslmode=require&{ours}")).await?.close().await?;
    Ok(())
}

pub(crate) async fn a_database_without_encryption_is_refused_by_a_url_that_asks_for_it()
-> anyhow::Result<()> {
    let url = database().await?;
    let password = postgres::shared().password();
    let folder = tempfile::tempdir()?;
    let trust = believing(&folder, "ca.pem", &authority("ours").pem())?;
    for mode in ["require", "verify-full"] {
        let said = refused(&format!("{url}?sslmode={mode}&{trust}")).await;
        assert!(
            said.contains("does not support TLS") && said.contains("ssl = on"),
            "{mode}: {said}"
        );
        assert!(!said.contains(password), "{mode}: {said}");
    }
    open(&format!("{url}?sslmode=disable")).await?.close().await?;
    Ok(())
}
