//! A hub without children: sessions that ask over `permit` as somebody else's child would, over a
//! store in memory or in a file.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plexus_agents::ClaudeCode;
use plexus_core::{ActivationInfo, Call, CallError, Caller, Hub, Reply, SecretToken, SessionId};
use plexus_engine::agents::Drivers;
use plexus_engine::{Engine, ProgramLine, Settings};
use plexus_store::{
    AuditLine, Durability, MemoryStore, PageRequest, SqliteOptions, SqliteStore, Store, Topic,
};
use plexus_wire::FIRST_AGENT;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::DEADLINE;

/// A hub without children.
pub(crate) struct ChildlessHub {
    pub(crate) hub: Arc<Hub>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) folder: Arc<TempDir>,
}

/// A method that lists permission requests, the field that holds them, and what their id is called
/// there.
struct List {
    method: &'static str,
    field: &'static str,
    id: &'static str,
}

const PENDING: List = List { method: "loopback.pending", field: "approvals", id: "id" };
const DECIDED: List = List { method: "loopback.history", field: "decisions", id: "approval_id" };

impl ChildlessHub {
    /// Over a store in memory.
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// Over a store in memory, with other settings.
    pub(crate) async fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        Self::over(Arc::new(MemoryStore::new()), folder, change).await
    }

    /// Over a file in `folder`, where an earlier hub may have been.
    pub(crate) async fn in_file(folder: Arc<TempDir>) -> Self {
        let options = SqliteOptions {
            sync: Durability::Normal,
            ..SqliteOptions::new(folder.path().join("data"))
        };
        Self::over(Arc::new(SqliteStore::open(&options).unwrap()), folder, |_| {}).await
    }

    async fn over(
        store: Arc<dyn Store>,
        folder: Arc<TempDir>,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let nothing = || ProgramLine { program: "/nonexistent/agent".into(), leading: vec![] };
        std::fs::create_dir_all(folder.path().join("data")).unwrap();
        std::fs::create_dir_all(folder.path().join("work")).unwrap();
        let mut settings = Settings::new(folder.path().join("data"), nothing());
        settings.install(FIRST_AGENT, nothing());
        settings.prestart = plexus_engine::settings::Prestart::Off;
        change(&mut settings);
        let engine = Engine::new(
            Arc::clone(&store),
            settings,
            &Drivers::default().with(FIRST_AGENT, Arc::new(ClaudeCode)),
            &SecretToken::new("plx_operator-of-the-hub-0123456789"),
        );
        let hub = Hub::new(ActivationInfo {
            namespace: "plexus",
            version: (1, 0, 0),
            description: "a hub for tests",
        });
        plexus_activations::register_all(&engine, &hub).unwrap();
        engine.set_url("http://127.0.0.1:1".into());
        engine.start().await.unwrap();
        Self { hub, store, engine, folder }
    }

    /// Ends the server; another hub may start in the same folder.
    pub(crate) async fn down(&self) {
        self.engine.stop().await;
        self.store.close().await.unwrap();
    }

    pub(crate) async fn call(&self, method: &str, params: Value) -> Result<Value, CallError> {
        self.call_as(Caller::Operator, method, params).await
    }

    pub(crate) async fn call_as(
        &self,
        caller: Caller,
        method: &str,
        params: Value,
    ) -> Result<Value, CallError> {
        let params = plexus_core::method::raw(&params).unwrap();
        match self.hub.call(Call::plain(caller), method, Some(params)).await? {
            Reply::Value(answer) => Ok(serde_json::from_str(answer.give().await?.get()).unwrap()),
            Reply::Stream(_) => panic!("{method} answered with a stream"),
        }
    }

    #[track_caller]
    pub(crate) fn ok(&self, method: &str, params: Value) -> impl Future<Output = Value> {
        let place = std::panic::Location::caller();
        async move {
            self.call(method, params)
                .await
                .unwrap_or_else(|error| panic!("{method} at {place}: {error:?}"))
        }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Creates a session as somebody. `more` adds to the parameters of `create` or replaces them.
    pub(crate) async fn create_as(
        &self,
        caller: Caller,
        name: &str,
        more: Value,
    ) -> Result<SessionId, CallError> {
        let mut params = json!({"name": name, "working_dir": self.work()});
        for (key, value) in more.as_object().unwrap() {
            params[key] = value.clone();
        }
        let created = self.call_as(caller, "claudecode.create", params).await?;
        Ok(created["id"].as_str().unwrap().parse().unwrap())
    }

    /// Creates a session of the operator's.
    pub(crate) async fn create(&self, name: &str, more: Value) -> SessionId {
        self.create_as(Caller::Operator, name, more).await.unwrap()
    }

    /// A session asks, and waits for its answer.
    pub(crate) async fn permit(
        &self,
        session: SessionId,
        id: &str,
        tool: &str,
        input: Value,
    ) -> Value {
        let params = json!({"tool_name": tool, "input": input, "tool_use_id": id});
        self.call_as(Caller::Child(session), "loopback.permit", params).await.unwrap()
    }

    /// A session asks, in a task of its own; returns the task and the approval that it became.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        session: SessionId,
        id: &str,
        tool: &str,
        input: Value,
    ) -> (tokio::task::JoinHandle<Value>, Value) {
        let (hub, id, tool) = (Arc::clone(self), id.to_owned(), tool.to_owned());
        let name = id.clone();
        let answer = tokio::spawn(async move { hub.permit(session, &id, &tool, input).await });
        (answer, self.asked_for(session, &name).await)
    }

    /// Waits until this call of a session is on record: pending, or already decided where its
    /// deadline is short.
    async fn asked_for(&self, session: SessionId, tool_use_id: &str) -> Value {
        self.listed(session, tool_use_id, &[PENDING, DECIDED]).await
    }

    /// Waits until this call of a session is pending.
    pub(crate) async fn pending_for(&self, session: SessionId, tool_use_id: &str) -> Value {
        self.listed(session, tool_use_id, &[PENDING]).await
    }

    /// Waits until one of these lists has this call of a session.
    async fn listed(&self, session: SessionId, tool_use_id: &str, lists: &[List]) -> Value {
        let mut wake = self.store.watch(Topic::Session(session));
        let wait = async {
            loop {
                wake.seen();
                for List { method, field, id } in lists {
                    let page = self.ok(method, json!({"session_id": session})).await;
                    let found = page[field]
                        .as_array()
                        .unwrap()
                        .iter()
                        .find(|it| it["tool_use_id"] == tool_use_id);
                    if let Some(mut found) = found.cloned() {
                        found["id"] = found[id].clone();
                        return found;
                    }
                }
                wake.changed().await;
            }
        };
        within("a permission request", wait).await
    }

    pub(crate) async fn respond(
        &self,
        caller: Caller,
        approval: &Value,
        approve: bool,
    ) -> Result<Value, CallError> {
        self.call_as(
            caller,
            "loopback.respond",
            json!({"approval_id": approval["id"], "approve": approve}),
        )
        .await
    }

    /// The newest decision of a session.
    pub(crate) async fn last_decision(&self, session: SessionId) -> Value {
        let history = self.ok("loopback.history", json!({"session_id": session, "limit": 1})).await;
        history["decisions"][0].clone()
    }

    /// The audit lines of this kind, newest first.
    pub(crate) async fn audit(&self, kind: &str) -> Vec<AuditLine> {
        let page = self.store.audit(None, PageRequest::first(1_000)).await.unwrap();
        let lines = page.items.into_iter().map(|numbered| numbered.line);
        lines.filter(|line| line.kind == kind).collect()
    }
}

/// Waits for `work`, and says what did not come when it does not.
pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    testkit::wait::within(what, DEADLINE, work).await
}

/// The answer that a task got.
pub(crate) async fn answer(task: tokio::task::JoinHandle<Value>) -> Value {
    within("an answer", task).await.unwrap()
}

/// The input of a Bash call.
pub(crate) fn bash(command: &str) -> Value {
    json!({ "command": command })
}

/// Sleeps until the clock has passed this many seconds more: what a test of stored times cannot
/// avoid.
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}
