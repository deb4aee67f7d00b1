//! The test hub with real doors on a real listener, on its own threads so that it can die like a
//! process.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plexus_core::{ActivationInfo, Authenticator, CallError, Caller, Hub, SecretToken, SessionId};
use plexus_transport::{AllowedHosts, Doors, Limits, router, serve};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::activation::TestActivation;
use super::{HubState, soon};

pub(crate) const OPERATOR: &str = "plx_operator";
pub(crate) const PARENT: &str = "plx_parent";
pub(crate) const CHILD: &str = "plx_child";
pub(crate) const OTHER_CHILD: &str = "plx_other_child";

struct Tokens {
    callers: HashMap<&'static str, Caller>,
    state: Arc<HubState>,
}

#[async_trait]
impl Authenticator for Tokens {
    async fn authenticate(&self, token: &SecretToken) -> Result<Caller, CallError> {
        let revoked =
            self.state.revoked.lock().unwrap().iter().any(|revoked| revoked == token.expose());
        let caller = self.callers.get(token.expose()).copied().filter(|_| !revoked);
        caller.ok_or_else(|| CallError::unauthorized("know this token"))
    }

    fn revocations(&self) -> tokio::sync::watch::Receiver<u64> {
        self.state.revocations.subscribe()
    }
}

/// A running server; dropping it stops it as `kill -9` would: connections break without a message.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) doors: Doors,
    pub(crate) http: reqwest::Client,
    runtime: Option<tokio::runtime::Runtime>,
    served: Option<tokio::task::JoinHandle<()>>,
    shutdown: CancellationToken,
}

impl Server {
    pub(crate) async fn start(state: &Arc<HubState>) -> Self {
        Self::with(state, Limits::default()).await
    }

    pub(crate) async fn with(state: &Arc<HubState>, limits: Limits) -> Self {
        Self::at(state, limits, "127.0.0.1:0".parse().unwrap()).await
    }

    /// Starts a server that will be killed and started again at its address.
    pub(crate) async fn lasting(state: &Arc<HubState>) -> Self {
        let address = testkit::server::lasting_address().unwrap().parse().unwrap();
        Self::at(state, Limits::default(), address).await
    }

    pub(crate) async fn at(state: &Arc<HubState>, limits: Limits, address: SocketAddr) -> Self {
        Self::with_more(state, limits, address, |_| {}).await
    }

    /// Starts the server on its own threads, so that it can die like a process. `more` registers
    /// further activations with the hub.
    pub(crate) async fn with_more(
        state: &Arc<HubState>,
        limits: Limits,
        address: SocketAddr,
        more: impl FnOnce(&Hub),
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let hub = Hub::new(ActivationInfo {
            namespace: "plexus",
            version: (0, 1, 0),
            description: "a test hub",
        });
        hub.register(Arc::new(TestActivation(Arc::clone(state)))).unwrap();
        more(&hub);
        let session = |n| uuid::Uuid::from_u128(n).to_string().parse::<SessionId>().unwrap();
        let callers = HashMap::from([
            (OPERATOR, Caller::Operator),
            (PARENT, Caller::Session(session(1))),
            (CHILD, Caller::Child(session(2))),
            (OTHER_CHILD, Caller::Child(session(3))),
        ]);
        let tokens = Tokens { callers, state: Arc::clone(state) };
        let listener = runtime
            .spawn(async move {
                // The port of a server that was just killed may not be free at once.
                for _ in 0..100 {
                    match TcpListener::bind(address).await {
                        Ok(listener) => return listener,
                        Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                    }
                }
                TcpListener::bind(address).await.expect("the port is free")
            })
            .await
            .unwrap();
        let address = listener.local_addr().unwrap();
        let hosts = AllowedHosts::loopback(address.port(), []);
        let doors =
            Doors::new(hub, Arc::new(tokens), hosts, limits).with_instructions("Echo first.");
        let shutdown = CancellationToken::new();
        let (served, stop) = (doors.clone(), shutdown.clone());
        let served = runtime
            .spawn(async move { serve(listener, router(served.clone()), &served, stop).await });
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { address, doors, http, runtime: Some(runtime), served: Some(served), shutdown }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) async fn rpc(&self, token: &str, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let response =
            self.http.post(self.url("/rpc")).bearer_auth(token).json(&body).send().await.unwrap();
        response.json().await.unwrap()
    }

    /// Asks the server to stop, and waits until it has.
    pub(crate) async fn stop(&mut self) {
        self.shutdown.cancel();
        let served = self.served.take().unwrap();
        soon("the end of the server", served).await.unwrap();
    }

    /// Stops the server as if its process were killed.
    pub(crate) fn kill(mut self) -> SocketAddr {
        self.runtime.take().unwrap().shutdown_background();
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown.cancel();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
