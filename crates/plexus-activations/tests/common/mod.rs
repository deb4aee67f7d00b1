//! A whole hub for tests: the engine over a SQLite store in a folder of its own, children held by
//! the real shim and played by the simulator.
//!
//! A [`SimulatedHub`] can be restarted on the same folder while its children live on, as a server
//! would be. Dropping it leaves no process behind.
#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use plexus_agents::ClaudeCode;
use plexus_core::{
    ActivationInfo, Call, CallError, Caller, Hub, Reader, Reply, ReplyStream, SecretToken,
};
use plexus_engine::agents::Drivers;
use plexus_engine::settings::Prestart;
use plexus_engine::{Engine, ProgramLine, Settings};
use plexus_store::{Durability, Prompts, Pruned, SqliteOptions, SqliteStore, Store};
use plexus_wire::FIRST_AGENT;
use serde_json::{Value, json};
use tempfile::TempDir;
pub(crate) use testkit::wait::PATIENCE as DEADLINE;

/// A hub with children, and the folder it lives in.
pub(crate) struct SimulatedHub {
    folder: Folder,
    settings: Settings,
    drivers: Drivers,
    store: Arc<dyn Store>,
    engine: Arc<Engine>,
    hub: Arc<Hub>,
}

impl SimulatedHub {
    /// A hub with the defaults, except that children have little grace.
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// A hub with other settings.
    pub(crate) async fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let drivers = Drivers::default().with(FIRST_AGENT, Arc::new(ClaudeCode));
        Self::with_drivers(drivers, change).await
    }

    /// A hub with other agents and settings.
    pub(crate) async fn with_drivers(drivers: Drivers, change: impl FnOnce(&mut Settings)) -> Self {
        let folder = Folder(tempfile::Builder::new().prefix("plexus-hub-").tempdir().unwrap());
        for dir in ["data", "work", "config"] {
            std::fs::create_dir(folder.path().join(dir)).unwrap();
        }
        let program = |name: &str, variable: &str| ProgramLine {
            program: testkit::server::binary(name, variable).unwrap(),
            leading: vec![],
        };
        let agent = program("plexus-sim", "PLEXUS_SIM_BIN");
        let shim = program("plexus-shim", "PLEXUS_SHIM_BIN");
        let mut settings = Settings::new(folder.path().join("data"), shim);
        settings.install(FIRST_AGENT, agent);
        settings.grace = Duration::from_secs(1);
        // Tests count processes and run directories, so no agent is started before its first chat.
        // A test about that turns it on.
        settings.prestart = Prestart::Off;
        change(&mut settings);
        let (store, engine, hub) = build(&settings, &drivers);
        engine.start().await.unwrap();
        Self { folder, settings, drivers, store, engine, hub }
    }

    /// Ends everything of the server but its children, and starts it again on the same folder.
    /// Returns how many runs it picked up.
    pub(crate) async fn restart(self) -> (Self, usize) {
        self.down().await.up().await
    }

    /// Ends everything of the server but its children.
    pub(crate) async fn down(self) -> Down {
        self.engine.stop().await;
        self.store.close().await.unwrap();
        let Self { folder, settings, drivers, .. } = self;
        Down { folder, settings, drivers }
    }

    /// Calls a method as the operator.
    pub(crate) async fn call(&self, method: &str, params: Value) -> Result<Value, CallError> {
        self.call_as(Caller::Operator, method, params).await
    }

    /// Calls a method as somebody.
    pub(crate) async fn call_as(
        &self,
        caller: Caller,
        method: &str,
        params: Value,
    ) -> Result<Value, CallError> {
        self.answer(Call::plain(caller), method, params).await
    }

    /// Calls a method as the operator, for an answer that this reader reads. The test expects that
    /// it works.
    pub(crate) async fn read_by(&self, reader: Reader, method: &str, params: Value) -> Value {
        let call = Call { reader, ..Call::plain(Caller::Operator) };
        self.answer(call, method, params).await.unwrap()
    }

    async fn answer(&self, call: Call, method: &str, params: Value) -> Result<Value, CallError> {
        let params = plexus_core::method::raw(&params).unwrap();
        match self.hub.call(call, method, Some(params)).await? {
            Reply::Value(answer) => Ok(serde_json::from_str(answer.give().await?.get()).unwrap()),
            Reply::Stream(_) => panic!("{method} answered with a stream"),
        }
    }

    /// Says whether a door without room may refuse the answer of a method.
    pub(crate) fn may_be_refused(&self, method: &str) -> bool {
        let method = self.hub.descriptor(&Caller::Operator, method).unwrap();
        method.hints.read_only || method.changes_when_given
    }

    /// Calls a method as the operator and drops the answer, as a door without room for it does.
    pub(crate) async fn refuse(&self, method: &str, params: Value) {
        let params = plexus_core::method::raw(&params).unwrap();
        let call = Call::plain(Caller::Operator);
        drop(self.hub.call(call, method, Some(params)).await.unwrap());
    }

    /// Calls a method of which the test expects that it works.
    #[track_caller]
    pub(crate) fn ok(&self, method: &str, params: Value) -> impl Future<Output = Value> {
        let place = std::panic::Location::caller();
        async move {
            let answer = self.call(method, params).await;
            answer.unwrap_or_else(|error| panic!("{method} at {place}: {error:?}"))
        }
    }

    /// Calls a method that answers with a stream.
    pub(crate) async fn stream(&self, method: &str, params: Value) -> ReplyStream {
        let params = plexus_core::method::raw(&params).unwrap();
        let call = Call { can_stream: true, ..Call::plain(Caller::Operator) };
        match self.hub.call(call, method, Some(params)).await.unwrap() {
            Reply::Stream(stream) => stream,
            Reply::Value(answer) => panic!("{method} answered {answer:?}"),
        }
    }

    /// Creates a session that works in the folder of this hub. `more` adds to the parameters of
    /// `create` or replaces them.
    pub(crate) async fn create(&self, name: &str, more: Value) -> String {
        let created = self.ok("agents.create", self.create_params(name, more)).await;
        created["id"].as_str().unwrap().to_owned()
    }

    /// The parameters of `create` for a session of this hub.
    pub(crate) fn create_params(&self, name: &str, more: Value) -> Value {
        // The simulator keeps its conversations there, away from those of whoever runs the test.
        let env = json!({"CLAUDE_CONFIG_DIR": self.folder.path().join("config")});
        let mut params = json!({"name": name, "working_dir": self.work(), "env": env});
        for (key, value) in more.as_object().unwrap() {
            params[key] = value.clone();
        }
        params
    }

    /// The session as `get` shows it.
    pub(crate) async fn session(&self, session: &str) -> Value {
        self.ok("claudecode.get", json!({"session_id": session})).await["session"].clone()
    }

    /// How many processes have served a session.
    pub(crate) async fn runs(&self, session: &str) -> usize {
        self.store.runs(session.parse().unwrap()).await.unwrap().len()
    }

    /// Starts a chat.
    pub(crate) async fn chat(&self, session: &str, prompt: &str) -> u64 {
        let started = self
            .ok("claudecode.chat_async", json!({"session_id": session, "prompt": prompt}))
            .await;
        assert_eq!(started["type"], "started");
        started["chat"].as_u64().unwrap()
    }

    /// Starts a chat and waits for its end; returns all its events.
    pub(crate) async fn chat_to_end(&self, session: &str, prompt: &str) -> Vec<Value> {
        let chat = self.chat(session, prompt).await;
        self.wait_for_end(session, chat).await;
        self.events(session, chat).await
    }

    /// Waits until the session is in this state, and returns the last `poll` (of the newest chat,
    /// from 0 on, moving nobody).
    pub(crate) async fn wait_for_status(&self, session: &str, status: &str) -> Value {
        self.wait_for(session, &format!("status {status}"), |page| page["status"] == status).await
    }

    /// Waits until the newest chat shows an event of this type, and returns the event.
    pub(crate) async fn wait_for_event(&self, session: &str, kind: &str) -> Value {
        let found = |page: &Value| event_of(page, kind).is_some();
        let page = self.wait_for(session, &format!("a {kind} event"), found).await;
        event_of(&page, kind).unwrap()
    }

    /// Waits until a page of the newest chat is as wanted.
    pub(crate) async fn wait_for(
        &self,
        session: &str,
        what: &str,
        mut wanted: impl FnMut(&Value) -> bool,
    ) -> Value {
        let began = std::time::Instant::now();
        loop {
            let page = self
                .ok("claudecode.poll", json!({"session_id": session, "from_seq": 0, "limit": 1000}))
                .await;
            if wanted(&page) {
                return page;
            }
            assert!(began.elapsed() < DEADLINE, "{what} did not come; the last page was {page:#}");
            let total = page["total_events"].as_u64().unwrap();
            let rest = json!({"session_id": session, "from_seq": total, "wait_ms": 200});
            // A chat that begins meanwhile has fewer events than the one before it.
            let _waited = self.call("claudecode.poll", rest).await;
        }
    }

    /// Waits until this chat has ended, and returns how: `complete`, `failed` or `cancelled`.
    pub(crate) async fn wait_for_end(&self, session: &str, chat: u64) -> String {
        let began = std::time::Instant::now();
        loop {
            let total = self.page(session, chat, 0, 1).await["total_events"].as_u64().unwrap();
            let params =
                json!({"session_id": session, "chat": chat, "from_seq": total, "wait_ms": 500});
            let page = self.ok("claudecode.poll", params).await;
            match page["status"].as_str().unwrap() {
                "running" | "awaiting_permission" => {}
                ended => return ended.to_owned(),
            }
            assert!(
                began.elapsed() < DEADLINE,
                "the end of chat {chat} did not come; it has {:#?}",
                self.events(session, chat).await
            );
        }
    }

    /// Reads one page of a chat, moving nobody.
    pub(crate) async fn page(&self, session: &str, chat: u64, from_seq: u64, limit: u64) -> Value {
        self.ok(
            "claudecode.poll",
            json!({"session_id": session, "chat": chat, "from_seq": from_seq, "limit": limit}),
        )
        .await
    }

    /// Reads all events of a chat, and checks that they are numbered without gap or repeat.
    pub(crate) async fn events(&self, session: &str, chat: u64) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let page = self.page(session, chat, events.len() as u64, 1000).await;
            for event in page["events"].as_array().unwrap() {
                assert_eq!(
                    event["seq"],
                    events.len(),
                    "a gap or a repeat in the events of chat {chat}"
                );
                events.push(event["event"].clone());
            }
            if page["has_more"] == false {
                return events;
            }
        }
    }

    /// Waits for the permission request of a session, and returns it as `poll` shows it.
    pub(crate) async fn wait_for_approval(&self, session: &str) -> Value {
        let page = self
            .wait_for(session, "a permission request", |page| {
                page["pending_approvals"].as_array().is_some_and(|list| !list.is_empty())
            })
            .await;
        page["pending_approvals"][0].clone()
    }

    /// Answers a permission request.
    pub(crate) async fn respond(&self, approval: &Value, approve: bool) {
        let answer = self
            .ok("loopback.respond", json!({"approval_id": approval["id"], "approve": approve}))
            .await;
        assert_eq!(answer["type"], "ok");
    }

    /// Waits for the next permission request and allows it.
    pub(crate) async fn allow_next(&self, session: &str) {
        let approval = self.wait_for_approval(session).await;
        self.respond(&approval, true).await;
    }

    /// The folder that sessions work in.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// The server's data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The directory of the `n`-th run of a session.
    pub(crate) fn run_dir(&self, session: &str, n: u32) -> PathBuf {
        self.data().join("runs").join(session).join(n.to_string())
    }

    /// The store.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The hub.
    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// How many children live, warm ones included.
    pub(crate) fn children(&self) -> usize {
        self.engine.children()
    }

    /// Parks every child for which that is safe, and returns how many there were.
    pub(crate) async fn park_children(&self) -> usize {
        self.engine.park_children().await
    }

    /// Ends every child and waits until none lives.
    pub(crate) async fn end_children(&self) {
        self.engine.end_children("the test is over").await;
    }

    /// Prunes what ended before now, and old run directories. Returns how many directories went.
    pub(crate) async fn prune(&self, before: plexus_store::UnixMillis) -> u64 {
        self.engine.prune(before, Prompts::Keep).await.unwrap().1
    }

    /// Prunes everything that has ended.
    pub(crate) async fn prune_all(&self, prompts: Prompts) -> Pruned {
        let later = plexus_store::UnixMillis(plexus_store::UnixMillis::now().0 + 60_000);
        self.engine.prune(later, prompts).await.unwrap().0
    }

    /// The processes that hold and play the `n`-th run of a session: its shim, and its child.
    pub(crate) fn pids(&self, session: &str, n: u32) -> (u32, u32) {
        let pids =
            plexus_shim::layout::RunDir::new(self.run_dir(session, n)).read_pid().unwrap().unwrap();
        (u32::try_from(pids.shim_pid).unwrap(), u32::try_from(pids.child_pid).unwrap())
    }

    /// Every process that was started by this hub: shims, agents and their tools.
    pub(crate) fn processes(&self) -> Vec<testkit::process::Process> {
        processes(self.folder.path())
    }
}

/// A server that is away while its children live.
pub(crate) struct Down {
    folder: Folder,
    settings: Settings,
    drivers: Drivers,
}

impl Down {
    /// Starts it again. Returns how many runs it picked up.
    pub(crate) async fn up(self) -> (SimulatedHub, usize) {
        self.up_beside(async |_| {}).await
    }

    /// Starts it again while somebody else already uses the store. Returns how many runs it picked
    /// up.
    pub(crate) async fn up_beside(
        self,
        somebody: impl AsyncFnOnce(Arc<dyn Store>),
    ) -> (SimulatedHub, usize) {
        let Self { folder, settings, drivers } = self;
        let (store, engine, hub) = build(&settings, &drivers);
        let (_, picked_up) = tokio::join!(somebody(Arc::clone(&store)), engine.start());
        let picked_up = picked_up.unwrap();
        (SimulatedHub { folder, settings, drivers, store, engine, hub }, picked_up)
    }

    /// Sets the agents with which it starts again.
    pub(crate) fn set_agents(&mut self, drivers: Drivers) {
        self.drivers = drivers;
    }

    /// Changes the settings with which it starts again.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.settings);
    }

    /// The server's data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The folder that sessions work in.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }
}

fn build(settings: &Settings, drivers: &Drivers) -> (Arc<dyn Store>, Arc<Engine>, Arc<Hub>) {
    // What a test checks is the order of things, not the disk: flushing every commit would only
    // make it slow.
    let options =
        SqliteOptions { sync: Durability::Normal, ..SqliteOptions::new(&settings.data_dir) };
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&options).unwrap());
    let operator = SecretToken::new("plx_operator-of-the-test-hub-0123456789");
    let engine = Engine::new(Arc::clone(&store), settings.clone(), drivers, &operator);
    let hub = Hub::new(ActivationInfo {
        namespace: "plexus",
        version: (1, 0, 0),
        description: "a hub for tests",
    });
    plexus_activations::register_all(&engine, &hub).unwrap();
    (store, engine, hub)
}

/// The directory of a hub. Processes that still run in it end when this is dropped.
struct Folder(TempDir);

impl Folder {
    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        for process in processes(self.path()) {
            testkit::process::kill(process.pid);
        }
    }
}

fn processes(folder: &Path) -> Vec<testkit::process::Process> {
    let marker = folder.display().to_string();
    testkit::process::marked(&marker).unwrap()
}

fn event_of(page: &Value, kind: &str) -> Option<Value> {
    page["events"]
        .as_array()?
        .iter()
        .map(|event| &event["event"])
        .find(|event| event["type"] == kind)
        .cloned()
}

/// The types of some events, in order: the shape of a chat at one glance.
pub(crate) fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

/// The texts of all `content` events.
pub(crate) fn texts(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .filter(|event| event["type"] == "content")
        .map(|event| event["text"].as_str().unwrap())
        .collect()
}

/// Takes `count` items of a stream.
pub(crate) async fn take(stream: &mut ReplyStream, count: usize) -> Vec<Value> {
    let mut items = Vec::new();
    while items.len() < count {
        let item = tokio::time::timeout(DEADLINE, stream.next()).await;
        let item = item
            .unwrap_or_else(|_| panic!("only {} of {count} items came: {items:#?}", items.len()));
        let item = item
            .unwrap_or_else(|| panic!("the stream ended after {} of {count} items", items.len()))
            .unwrap();
        items.push(serde_json::from_str(item.body.get()).unwrap());
    }
    items
}
