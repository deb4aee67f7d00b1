//! A scripted stand-in for the OpenAI Responses API, for the real Codex CLI to talk to.
//!
//! It listens on a free loopback port and answers `POST /v1/responses` as a stream. A script inside
//! the prompt itself determines the answer (see [`script`]), so it works for many threads at once
//! and for resumed ones; a prompt without a script gets a short text. Every request is kept for
//! assertions.
//!
//! - [`script`]: the parts of one answer, and how its script is found in a prompt.
//! - [`answer`]: an answer as the API streams it.

mod answer;
pub mod script;
mod serve;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use script::{Call, Failure, Step, prompt};

/// A running stand-in; dropping it closes its port.
#[derive(Debug)]
pub struct ResponsesApi {
    address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

/// The state that the handlers share.
#[derive(Debug, Default)]
struct State(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// The bodies of the requests for an answer, in order.
    requests: Vec<Value>,
    /// How often a failing step was played, for steps that fail only the first few times.
    failures: HashMap<String, u32>,
}

impl ResponsesApi {
    /// Starts a stand-in on a free loopback port.
    pub async fn start() -> Result<Self> {
        Self::start_at("127.0.0.1").await
    }

    /// Starts a stand-in on a free port of this address. An agent with a proxy uses the proxy for
    /// every loopback address but the first.
    pub async fn start_at(host: &str) -> Result<Self> {
        let listener =
            TcpListener::bind((host, 0)).await.context("could not listen for the Responses API")?;
        let address = listener.local_addr()?;
        let state = Arc::new(State::default());
        let task = tokio::spawn(serve::serve(listener, Arc::clone(&state)));
        Ok(Self { address, state, task })
    }

    /// Returns its address, to which `/v1` is added in the CLI's settings.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the bodies of all requests for an answer so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Value> {
        self.state.lock().requests.clone()
    }

    /// Forgets the requests so far, so that a stand-in that runs for hours does not grow.
    pub fn forget_requests(&self) {
        self.state.lock().requests.clear();
    }

    /// Returns the whole input of the newest request, as JSON text.
    #[must_use]
    pub fn last_input(&self) -> String {
        self.requests().last().map(|body| body["input"].to_string()).unwrap_or_default()
    }

    /// Returns the tool outputs in the newest request, each as JSON text.
    #[must_use]
    pub fn tool_outputs(&self) -> Vec<String> {
        let last = self.requests().pop().unwrap_or_default();
        let items = last["input"].as_array().cloned().unwrap_or_default();
        items
            .iter()
            .filter_map(|item| item.get("output"))
            .map(|output| output.to_string())
            .collect()
    }
}

impl Drop for ResponsesApi {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A test that panicked with the lock held has failed already; the others should not fail
        // because of it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a request and chooses its answer.
    fn choose(&self, body: &Value) -> script::Found {
        let mut inner = self.lock();
        inner.requests.push(body.clone());
        let mut found = script::find(body);
        if let (Some(_), Some(times)) = (&found.step.fail, found.step.times) {
            let played = inner.failures.entry(found.call_prefix()).or_default();
            *played += 1;
            if *played > times {
                found.step.fail = None;
            }
        }
        found
    }
}
