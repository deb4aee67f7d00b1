//! A scripted stand-in for the Anthropic Messages API, for the real CLI to talk to.
//!
//! It listens on a free loopback port and answers `POST /v1/messages`, as a stream and as one JSON
//! object, and everything else with something harmless. What it says comes, in this order, from
//!
//! 1. a responder or a queue that the test has set ([`MessagesApi::respond_with`],
//!    [`MessagesApi::enqueue`]),
//! 2. a script inside the prompt itself (see [`script`]), which needs no state here: it works for
//!    many children at once and for resumed conversations,
//! 3. a plain answer that repeats the beginning of the prompt.
//!
//! Side requests of the CLI (titles, summaries: those that offer no tools) get a short text and use
//! up no step. Every request is kept for assertions.
//!
//! - [`script`]: what one answer is made of, and how it is found in a prompt.
//! - [`request`]: what the CLI sent, and what a test asks about it.
//! - [`sse`]: an answer as server-sent events and as one object.
//! - `gemini`: the same behind the API of Gemini CLI.

mod gemini;
pub mod request;
pub mod script;
pub(crate) mod serve;
pub(crate) mod sse;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use request::{Recorded, ToolResult};
pub use script::{Failure, PLAN_FILE, Step, ToolUse, prompt};

use crate::wait::within;

/// Decides what to answer to a main request; `None` leaves it to the queue and the script in the
/// prompt.
pub type Responder = dyn Fn(&Recorded) -> Option<Step> + Send + Sync;

/// A running stand-in; dropping it closes its port.
#[derive(Debug)]
pub struct MessagesApi {
    address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

/// What the handlers share.
#[derive(Default)]
struct State {
    inner: Mutex<Inner>,
    /// Counts recorded requests, for those who wait for one.
    arrivals: watch::Sender<usize>,
}

#[derive(Default)]
struct Inner {
    requests: Vec<Recorded>,
    queue: VecDeque<Step>,
    responder: Option<Arc<Responder>>,
    /// How often a failing step of a script was played, for steps that fail only the first few
    /// times.
    failures: HashMap<String, u32>,
}

impl MessagesApi {
    /// Starts a stand-in on a free loopback port.
    pub async fn start() -> Result<Self> {
        Self::start_at("127.0.0.1").await
    }

    /// Starts a stand-in on a free port of this address. Agents with a proxy use it for all
    /// addresses of loopback but the first.
    pub async fn start_at(host: &str) -> Result<Self> {
        let listener =
            TcpListener::bind((host, 0)).await.context("could not listen for the Messages API")?;
        let address = listener.local_addr()?;
        let state = Arc::new(State::default());
        let task = tokio::spawn(serve::serve(listener, Arc::clone(&state)));
        Ok(Self { address, state, task })
    }

    /// Returns the value for `ANTHROPIC_BASE_URL`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds an answer to the queue; main requests take from it before they look at their prompt.
    pub fn enqueue(&self, step: Step) {
        self.state.lock().queue.push_back(step);
    }

    /// Sets what decides about every main request from now on.
    pub fn respond_with(
        &self,
        responder: impl Fn(&Recorded) -> Option<Step> + Send + Sync + 'static,
    ) {
        self.state.lock().responder = Some(Arc::new(responder));
    }

    /// Returns every request so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Recorded> {
        self.state.lock().requests.clone()
    }

    /// Forgets the requests so far, so that a stand-in that runs for hours does not grow.
    pub fn forget_requests(&self) {
        self.state.lock().requests.clear();
    }

    /// Returns the requests of the conversation itself, without titles, token counts and the like.
    #[must_use]
    pub fn main_requests(&self) -> Vec<Recorded> {
        let mut requests = self.requests();
        requests.retain(Recorded::is_main);
        requests
    }

    /// Returns the results of tools that the CLI has sent back, each once, in the order of their
    /// first appearance.
    #[must_use]
    pub fn tool_results(&self) -> Vec<ToolResult> {
        let mut found: Vec<ToolResult> = Vec::new();
        for request in self.main_requests() {
            for result in request.tool_results() {
                if !found.iter().any(|known| known.tool_use_id == result.tool_use_id) {
                    found.push(result);
                }
            }
        }
        found
    }

    /// Waits until `count` main requests have arrived, and returns them.
    ///
    /// # Panics
    ///
    /// When fewer have come by the deadline.
    pub async fn wait_for_main_requests(&self, count: usize, deadline: Duration) -> Vec<Recorded> {
        let mut arrivals = self.state.arrivals.subscribe();
        let what = format!("main request number {count} at the Messages API");
        within(&what, deadline, async {
            loop {
                arrivals.mark_unchanged();
                let requests = self.main_requests();
                // The sender lives as long as `self`, so `changed` cannot fail.
                if requests.len() >= count || arrivals.changed().await.is_err() {
                    return requests;
                }
            }
        })
        .await
    }
}

impl Drop for MessagesApi {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A test that panicked while it held the lock has failed already; the others should not
        // fail for it.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, request: Recorded) {
        self.lock().requests.push(request);
        self.arrivals.send_modify(|count| *count += 1);
    }

    /// Chooses the answer to a request that has been recorded.
    fn choose(&self, request: &Recorded) -> Step {
        if !request.is_main() {
            return Step::text("side answer");
        }
        let responder = self.lock().responder.clone();
        if let Some(step) = responder.and_then(|decide| decide(request)) {
            return step;
        }
        let mut inner = self.lock();
        if let Some(step) = inner.queue.pop_front() {
            return step;
        }
        let Some(found) = script::find(&request.body) else {
            let head: String = request.last_user_text().chars().take(80).collect();
            return Step::text(&format!("You said: {head}"));
        };
        let key = found.key();
        let mut step = found.step;
        if let (Some(_), Some(times)) = (step.fail, step.times) {
            let played = inner.failures.entry(key).or_default();
            *played += 1;
            if *played > times {
                step.fail = None;
            }
        }
        step
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("requests", &self.lock().requests.len())
            .finish_non_exhaustive()
    }
}

/// The answer to a prompt whose script has ended.
fn script_ended() -> Step {
    Step::text("The script has ended.")
}

/// Shorthand for tests: a tool use as it stands in a script.
#[must_use]
pub fn tool(name: &str, input: Value) -> ToolUse {
    ToolUse(name.to_owned(), input)
}
