//! A small hub behind real doors on a real listener: methods that echo, sleep, stream, and block until somebody answers.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use plexus_core::method::stream_reply;
use plexus_core::{
    Activation, ActivationInfo, Audience, Authenticator, Call, CallError, Caller, Door, Hub, MethodTable, ResourceForm,
    Resume, SecretToken, SessionId, Shape, StreamItem, WireForm,
};
use plexus_transport::{AllowedHosts, Doors, Limits, router, serve};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How long a test waits for what must come.
pub(crate) const SOON: Duration = Duration::from_secs(120);

pub(crate) const OPERATOR: &str = "plx_operator";
pub(crate) const PARENT: &str = "plx_parent";
pub(crate) const CHILD: &str = "plx_child";
pub(crate) const OTHER_CHILD: &str = "plx_other_child";

/// What the hub's methods share; it outlives a server, as a store does.
#[derive(Default)]
pub(crate) struct Desk {
    questions: Mutex<HashMap<String, Option<Value>>>,
    /// The inputs of permission requests, by the id of their tool use.
    pub(crate) permits: Mutex<HashMap<String, Map<String, Value>>>,
    /// Tokens that are no longer good.
    pub(crate) revoked: Mutex<Vec<String>>,
    changed: Notify,
    /// Counts answers, for those who listen.
    version: tokio::sync::watch::Sender<u64>,
    /// Calls whose work goes on.
    pub(crate) working: AtomicUsize,
    /// Questions asked, again or not.
    pub(crate) asked: AtomicUsize,
}

impl Desk {
    pub(crate) fn answer(&self, key: &str, answer: Value) {
        self.questions.lock().unwrap().insert(key.into(), Some(answer));
        self.changed.notify_waiters();
        self.version.send_modify(|version| *version += 1);
    }

    pub(crate) fn knows(&self, key: &str) -> bool {
        self.questions.lock().unwrap().contains_key(key)
    }

    pub(crate) fn working(&self) -> usize {
        self.working.load(Ordering::SeqCst)
    }

    /// Holds the very thread, as a process that is killed or frozen would, until there is a question of that key.
    fn stand_still_until(&self, key: &str) {
        let began = std::time::Instant::now();
        while !self.knows(key) && began.elapsed() < SOON {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn work(self: &Arc<Self>) -> Working {
        self.working.fetch_add(1, Ordering::SeqCst);
        Working(Arc::clone(self))
    }

    async fn wait_for_answer(self: &Arc<Self>, key: &str) -> Result<Exact, CallError> {
        let _working = self.work();
        self.asked.fetch_add(1, Ordering::SeqCst);
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            match self.questions.lock().unwrap().get(key) {
                Some(Some(answer)) => return Ok(Exact(answer.clone())),
                Some(None) => {}
                None => return Err(CallError::not_found("find the question")),
            }
            changed.await;
        }
    }
}

struct Working(Arc<Desk>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.working.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(crate) struct TestActivation(pub Arc<Desk>);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Echo {
    /// Comes back.
    text: String,
}

#[derive(Serialize, JsonSchema)]
struct Echoed {
    text: String,
    caller: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Sleep {
    ms: u64,
}

#[derive(Serialize, JsonSchema)]
struct Slept {
    ms: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Count {
    #[serde(default)]
    cursor: Option<String>,
    #[serde(default)]
    session_id: Option<String>,
    #[serde(default)]
    bytes: usize,
    #[serde(default)]
    to: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct Counted {
    n: u64,
    session_id: Option<String>,
    pad: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Ask {
    key: String,
    #[serde(default)]
    input: Map<String, Value>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Key {
    key: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Permit {
    #[serde(rename = "tool_name")]
    _tool_name: String,
    input: Map<String, Value>,
    tool_use_id: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PermitAgain {
    tool_use_id: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MaybeKey {
    #[serde(default, rename = "key")]
    _key: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(transparent)]
struct Exact(#[schemars(with = "Map<String, Value>")] Value);

#[async_trait]
impl Activation for TestActivation {
    fn info(&self) -> ActivationInfo {
        ActivationInfo { namespace: "test", version: (1, 0, 0), description: "for tests" }
    }

    fn methods(self: Arc<Self>) -> MethodTable {
        let desk = || Arc::clone(&self.0);
        let (sleeper, counter, asker, rejoiner, ender) = (desk(), desk(), desk(), desk(), desk());
        let (reader, watcher, lister) = (desk(), desk(), desk());
        let (permitter, again) = (desk(), desk());
        MethodTable::new("test")
            .unary(
                "echo",
                "Says what it was told.",
                |method| {
                    method.audience = Audience::Everyone;
                    method.hints.read_only = true;
                },
                |call: Call, echo: Echo| async move {
                    if echo.text == "fail" {
                        return Err(CallError::conflict("echo that").with_standing(json!({"said": "before"})));
                    }
                    Ok(Echoed { text: echo.text, caller: format!("{:?}", call.caller) })
                },
            )
            .unary(
                "sleep",
                "Waits.",
                |method| method.hints.waits = true,
                move |call: Call, sleep: Sleep| {
                    let desk = Arc::clone(&sleeper);
                    async move {
                        let _working = desk.work();
                        call.progress.report("asleep");
                        tokio::time::sleep(Duration::from_millis(sleep.ms)).await;
                        Ok(Slept { ms: sleep.ms })
                    }
                },
            )
            .streaming::<Count, Counted, _, _>(
                "count",
                "Counts for ever, or up to a number.",
                |method| method.door = Door::Events,
                move |_call, count: Count| {
                    let desk = Arc::clone(&counter);
                    async move {
                        let from = count.cursor.as_deref().map_or(Ok(0), |cursor| {
                            cursor.parse::<u64>().map(|n| n + 1).map_err(|_| CallError::invalid("read the cursor"))
                        })?;
                        let working = desk.work();
                        let pad = "x".repeat(count.bytes);
                        let end = count.to.unwrap_or(u64::MAX);
                        let stream = futures::stream::unfold((from, working), move |(n, working)| {
                            let item = Counted { n, session_id: count.session_id.clone(), pad: pad.clone() };
                            async move {
                                tokio::task::yield_now().await;
                                let body = Arc::from(plexus_core::method::raw(&item).unwrap());
                                (n < end)
                                    .then_some((Ok(StreamItem { cursor: Some(n.to_string()), body }), (n + 1, working)))
                            }
                        });
                        Ok(stream_reply(stream))
                    }
                },
            )
            .unary(
                "ask",
                "Blocks until somebody answers.",
                |method| {
                    method.audience = Audience::Child;
                    method.wire = WireForm::ExactText;
                    method.resume = Some(Resume { key: "key", rejoin: "ask_again" });
                    method.on_cancel = Some("ask_end");
                    method.hints.waits = true;
                },
                move |_call, ask: Ask| {
                    let desk = Arc::clone(&asker);
                    async move {
                        if ask.input.contains_key("bad") {
                            return Err(CallError::invalid("use that input").with_hint("leave out bad"));
                        }
                        if ask.input.contains_key("stands_still") {
                            desk.stand_still_until("go");
                        }
                        desk.questions.lock().unwrap().entry(ask.key.clone()).or_default();
                        desk.wait_for_answer(&ask.key).await
                    }
                },
            )
            .unary(
                "ask_again",
                "Joins.",
                |method| {
                    method.audience = Audience::Child;
                    method.door = Door::Internal;
                },
                move |_call, key: Key| {
                    let desk = Arc::clone(&rejoiner);
                    async move { desk.wait_for_answer(&key.key).await }
                },
            )
            .unary(
                "ask_end",
                "Ends.",
                |method| {
                    method.audience = Audience::Child;
                    method.door = Door::Internal;
                },
                move |_call, key: Key| {
                    let desk = Arc::clone(&ender);
                    async move {
                        desk.questions.lock().unwrap().remove(&key.key);
                        desk.changed.notify_waiters();
                        Ok(Slept { ms: 0 })
                    }
                },
            )
            .unary(
                "permit",
                "Asks for permission, as the CLI does.",
                |method| {
                    method.audience = Audience::Child;
                    method.wire = WireForm::ExactText;
                    method.resume = Some(Resume { key: "tool_use_id", rejoin: "permit_again" });
                    method.hints.waits = true;
                },
                move |_call, permit: Permit| {
                    let desk = Arc::clone(&permitter);
                    async move {
                        desk.permits.lock().unwrap().insert(permit.tool_use_id.clone(), permit.input);
                        desk.questions.lock().unwrap().entry(permit.tool_use_id.clone()).or_default();
                        desk.wait_for_answer(&permit.tool_use_id).await
                    }
                },
            )
            .unary(
                "permit_again",
                "Joins.",
                |method| {
                    method.audience = Audience::Child;
                    method.door = Door::Internal;
                },
                move |_call, permit: PermitAgain| {
                    let desk = Arc::clone(&again);
                    async move { desk.wait_for_answer(&permit.tool_use_id).await }
                },
            )
            .unary(
                "question",
                "One question and its answer.",
                |method| {
                    method.door = Door::Internal;
                    method.resource = Some(ResourceForm { uri: "test://questions/{key}", changes: "changes" });
                },
                move |_call, key: Key| {
                    let desk = Arc::clone(&reader);
                    async move {
                        let answer = desk.questions.lock().unwrap().get(&key.key).cloned();
                        answer
                            .map(|answer| Exact(json!({"answer": answer})))
                            .ok_or_else(|| CallError::not_found("find it"))
                    }
                },
            )
            .streaming::<MaybeKey, Counted, _, _>(
                "changes",
                "Tells that something changed.",
                |method| method.door = Door::Internal,
                move |_call, _key: MaybeKey| {
                    let desk = Arc::clone(&watcher);
                    async move {
                        let changes = futures::stream::unfold(
                            (desk.version.subscribe(), desk.work()),
                            |(mut version, working)| async move {
                                version.changed().await.ok()?;
                                let body = Arc::from(plexus_core::method::raw(&json!({})).unwrap());
                                Some((Ok(StreamItem { cursor: None, body }), (version, working)))
                            },
                        );
                        Ok(stream_reply(changes))
                    }
                },
            )
            .unary(
                "questions",
                "How many there are.",
                |method| {
                    method.hints.read_only = true;
                    method.resource = Some(ResourceForm { uri: "test://questions", changes: "changes" });
                },
                move |_call, _none: Nothing| {
                    let desk = Arc::clone(&lister);
                    async move { Ok(Slept { ms: desk.questions.lock().unwrap().len() as u64 }) }
                },
            )
            .unary(
                "secret",
                "For the operator.",
                |method| method.audience = Audience::Operator,
                |_call, echo: Echo| async move { Ok(Echoed { text: echo.text, caller: String::new() }) },
            )
            .streaming::<Count, Counted, _, _>(
                "either",
                "One answer where there is no stream.",
                |method| method.shape = Shape::Either,
                |_call, _count: Count| async move { plexus_core::Reply::of(&json!({"type": "ok"})) },
            )
    }
}

struct Tokens {
    callers: HashMap<&'static str, Caller>,
    desk: Arc<Desk>,
}

#[async_trait]
impl Authenticator for Tokens {
    async fn authenticate(&self, token: &SecretToken) -> Result<Caller, CallError> {
        let revoked = self.desk.revoked.lock().unwrap().iter().any(|revoked| revoked == token.expose());
        let caller = self.callers.get(token.expose()).copied().filter(|_| !revoked);
        caller.ok_or_else(|| CallError::unauthorized("know this token"))
    }
}

/// A running server; dropping it stops it as `kill -9` would: connections break, nothing is said.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) doors: Doors,
    pub(crate) http: reqwest::Client,
    runtime: Option<tokio::runtime::Runtime>,
    served: Option<tokio::task::JoinHandle<()>>,
    shutdown: CancellationToken,
}

impl Server {
    pub(crate) async fn start(desk: &Arc<Desk>) -> Self {
        Self::with(desk, Limits::default()).await
    }

    pub(crate) async fn with(desk: &Arc<Desk>, limits: Limits) -> Self {
        Self::at(desk, limits, "127.0.0.1:0".parse().unwrap()).await
    }

    /// Runs on threads of its own, so that it can die as a process does.
    pub(crate) async fn at(desk: &Arc<Desk>, limits: Limits, address: SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let hub = Hub::new(ActivationInfo { namespace: "plexus", version: (0, 1, 0), description: "a test hub" });
        hub.register(Arc::new(TestActivation(Arc::clone(desk)))).unwrap();
        let session = |n| uuid::Uuid::from_u128(n).to_string().parse::<SessionId>().unwrap();
        let callers = HashMap::from([
            (OPERATOR, Caller::Operator),
            (PARENT, Caller::Session(session(1))),
            (CHILD, Caller::Child(session(2))),
            (OTHER_CHILD, Caller::Child(session(3))),
        ]);
        let tokens = Tokens { callers, desk: Arc::clone(desk) };
        let listener = runtime
            .spawn(async move {
                // The port of a server that was just killed may take a moment to be free.
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
        let doors = Doors::new(hub, Arc::new(tokens), hosts, limits).with_instructions("Echo first.");
        let shutdown = CancellationToken::new();
        let (served, stop) = (doors.clone(), shutdown.clone());
        let served = runtime.spawn(async move { serve(listener, router(served.clone()), &served, stop).await });
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { address, doors, http, runtime: Some(runtime), served: Some(served), shutdown }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) async fn rpc(&self, token: &str, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let response = self.http.post(self.url("/rpc")).bearer_auth(token).json(&body).send().await.unwrap();
        response.json().await.unwrap()
    }

    /// Asks the server to stop, and waits until it has.
    pub(crate) async fn stop(&mut self) {
        self.shutdown.cancel();
        let served = self.served.take().unwrap();
        soon("the end of the server", served).await.unwrap();
    }

    /// Ends the process, so to speak.
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

/// Waits until `condition` holds.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = tokio::time::Instant::now() + SOON;
    while !condition() {
        assert!(tokio::time::Instant::now() < deadline, "{what} did not come within {SOON:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits for `future`.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.unwrap_or_else(|_| panic!("{what} did not come within {SOON:?}"))
}
