//! Receivers that speak TLS: only those with a certificate of a trusted authority are told.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use serde_json::json;
use tempfile::TempDir;
use testkit::wait::{PATIENCE, eventually_async};
use tokio_rustls::TlsAcceptor;

use crate::receiver::{Act, Receiver};
use crate::server_with_receivers::{ServerWithReceivers, entries};

/// A certificate authority.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Its own certificate, in a file.
    fn file(&self, folder: &TempDir, name: &str) -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, self.0.pem()).unwrap();
        path
    }

    /// Issues a certificate for a receiver at this host.
    fn vouch_for(&self, host: &str) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.into()], key.into())
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_is_told_over_tls_if_its_authority_is_known_and_it_is_who_was_meant() {
    let folder = tempfile::tempdir().unwrap();
    let (known, unknown) = (Authority::new("known"), Authority::new("unknown"));
    let receiver = Receiver::over_tls(|_| Act::Take, known.vouch_for("127.0.0.1")).await;
    let stranger = Receiver::over_tls(|_| Act::Take, unknown.vouch_for("127.0.0.1")).await;
    let other = Receiver::over_tls(|_| Act::Take, known.vouch_for("elsewhere.example")).await;
    let more =
        format!("events = [\"session.ended\"]\nca_file = {:?}", known.file(&folder, "known.pem"));
    let webhooks = [
        ("receiver", receiver.port, more.as_str()),
        ("stranger", stranger.port, more.as_str()),
        ("other", other.port, more.as_str()),
    ];
    let setup = ServerWithReceivers::configured(&entries("https", &webhooks)).await;
    let session = setup.create("s", json!({})).await;
    setup.chat_to_end(&session).await;
    let told = receiver.wait_for_type("session.ended").await.body();
    assert_eq!(told["session"]["id"], session.as_str());
    for (name, why) in [("stranger", "UnknownIssuer"), ("other", "not valid for name")] {
        // The message is retried, so the receiver may still mend its certificate.
        setup.wait_for_metric("plexus_webhook_failed_total", name, |failed| failed >= 2).await;
        assert_eq!(setup.metric("plexus_webhook_delivered_total", name).await, 0);
        assert_eq!(setup.metric("plexus_webhook_pending", name).await, 1);
        let said = |line: &&str| line.contains(name) && line.contains(why);
        eventually_async(&format!("a line of the log that says {why}"), PATIENCE, || {
            std::future::ready(setup.server.log().lines().any(|line| said(&line)).then_some(()))
        })
        .await;
    }
    assert!(
        stranger.letters().is_empty() && other.letters().is_empty(),
        "who is not believed learns nothing"
    );
    assert_eq!(setup.metric("plexus_webhook_failed_total", "receiver").await, 0);
}
