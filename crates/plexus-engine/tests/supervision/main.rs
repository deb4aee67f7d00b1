//! The engine with a driver that is written here in a few lines, for an agent that is a shell
//! script: supervision needs to know nothing of any vendor.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod lines;

use std::sync::Arc;
use std::time::Duration;

use plexus_core::{Caller, ErrorKind, SecretToken, SessionId};
use plexus_engine::agents::Drivers;
use plexus_engine::approvals::{Answer, Question};
use plexus_engine::{Engine, ProgramLine, Settings};
use plexus_store::{
    ApprovalFilter, ApprovalRecord, ApprovalStatus, Change, ChatStatus, CreateSession, JsonText,
    MemoryStore, Priority, ReadLimit, Stage, StartChat, Store,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::lines::{AGENT, Lines};

/// How long anything may take on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// An engine whose only agent is [`AGENT`].
struct Supervised {
    folder: TempDir,
    store: Arc<dyn Store>,
    engine: Arc<Engine>,
}

impl Supervised {
    async fn new() -> Self {
        let supervised = Self::stopped();
        supervised.engine.start().await.unwrap();
        supervised
    }

    /// One whose engine has yet to be started.
    fn stopped() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for dir in ["data", "work"] {
            std::fs::create_dir(folder.path().join(dir)).unwrap();
        }
        let shim = ProgramLine {
            program: testkit::server::binary("plexus-shim", "PLEXUS_SHIM_BIN").unwrap(),
            leading: Vec::new(),
        };
        let mut settings = Settings::new(folder.path().join("data"), shim);
        let leading = ["-c", AGENT, "sh"].map(Into::into).to_vec();
        settings.install("lines", ProgramLine { program: "/bin/sh".into(), leading });
        settings.grace = Duration::from_secs(1);
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let drivers = Drivers::default().with("lines", Arc::new(Lines));
        let operator = SecretToken::new("plx_operator-of-the-test-engine-012345");
        let engine = Engine::new(Arc::clone(&store), settings, &drivers, &operator);
        Self { folder, store, engine }
    }

    /// Starts a chat in a new session.
    async fn chat(&self, prompt: &str) -> SessionId {
        let session = self.stored_chat(prompt).await;
        self.engine.supervisor.serve(session, 0);
        session
    }

    /// Stores a chat in a new session, which nobody serves yet.
    async fn stored_chat(&self, prompt: &str) -> SessionId {
        let config = json!({
            "agent": "lines", "working_dir": self.folder.path().join("work"), "model": null,
            "system_prompt": null, "loopback_enabled": true, "loopback_timeout_secs": 0,
            "escalate_after_secs": null, "supervise": "all", "can_spawn": false, "may_decide": [],
            "project_settings": "ignore", "channel": "auto", "allowed_tools": [],
            "disallowed_tools": [], "add_dirs": [], "env": {}, "budget": null,
        });
        let create = CreateSession {
            config: JsonText::of(&config).unwrap(),
            ..CreateSession::new("lines", None)
        };
        let session = create.id;
        let start = StartChat::new(session, prompt);
        let changes = vec![Change::CreateSession(create), Change::StartChat(start)];
        self.store.commit(changes, Priority::Normal).await.unwrap();
        session
    }

    async fn question(&self, session: SessionId) -> ApprovalRecord {
        let filter = ApprovalFilter {
            stage: Stage::Pending,
            session: Some(session),
            ..ApprovalFilter::default()
        };
        let page = plexus_store::PageRequest::first(1);
        let look = async || self.store.approvals(filter, page).await.unwrap().items.pop();
        testkit::eventually_async("a question", DEADLINE, look).await
    }

    async fn respond(&self, asked: &ApprovalRecord, approve: bool) {
        let answer = Answer {
            approve,
            message: (!approve).then(|| "not today".to_owned()),
            updated_input: None,
            answers: None,
            input_digest: None,
        };
        let approvals = &self.engine.approvals;
        approvals.respond(&Caller::Operator, asked.id, answer, None).await.unwrap();
    }

    /// Waits for the end of the chat, and returns its events.
    async fn events(&self, session: SessionId) -> Vec<Value> {
        let ended = async || {
            let chat = self.store.chat(session, Some(0)).await.unwrap();
            (chat.status != ChatStatus::Running).then_some(())
        };
        testkit::eventually_async("the end of the chat", DEADLINE, ended).await;
        let page = self.store.read_events(session, 0, 0, ReadLimit::events(100)).await.unwrap();
        page.events.iter().map(|event| event.body.to_value()).collect()
    }

    fn has_made(&self) -> bool {
        self.folder.path().join("work/made").exists()
    }
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["type"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allowed_call_runs_and_the_chat_completes() {
    let supervised = Supervised::new().await;
    let session = supervised.chat("make").await;
    let asked = supervised.question(session).await;
    assert_eq!(asked.tool_name, "Bash");
    assert!(!supervised.has_made(), "it ran before it was allowed");
    supervised.respond(&asked, true).await;
    let events = supervised.events(session).await;
    assert!(supervised.has_made(), "{events:#?}");
    assert_eq!(types(&events).last(), Some(&"complete"), "{events:#?}");
    let delivered = supervised.store.approval(asked.id).await.unwrap().delivered_at;
    assert!(delivered.is_some(), "the agent said that it does not wait any more");
    supervised.engine.end_children("the test is over").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_call_does_not_run_and_the_agent_hears_why() {
    let supervised = Supervised::new().await;
    let session = supervised.chat("make").await;
    let asked = supervised.question(session).await;
    supervised.respond(&asked, false).await;
    let events = supervised.events(session).await;
    assert!(!supervised.has_made());
    let said: Vec<&Value> = events.iter().filter(|event| event["type"] == "content").collect();
    assert!(said.iter().any(|event| event["text"].to_string().contains("not today")), "{said:?}");
    supervised.engine.end_children("the test is over").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_ran_unasked_is_a_breach() {
    let supervised = Supervised::new().await;
    let session = supervised.chat("breach").await;
    let events = supervised.events(session).await;
    let last = events.last().unwrap();
    assert!(last["message"].to_string().contains("nobody here allowed"), "{events:#?}");
    let chat = supervised.store.chat(session, Some(0)).await.unwrap();
    assert_eq!(chat.status, ChatStatus::Failed);
    supervised.engine.end_children("the test is over").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_the_agent_cannot_take_yet_is_refused_and_not_told() {
    let supervised = Supervised::new().await;
    let session = supervised.chat("make").await;
    let asked = supervised.question(session).await;
    let handle = supervised.engine.supervisor.handle(session).unwrap();
    let refused = handle.send(Caller::Operator, "and quickly".to_owned()).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Busy, "{refused}");
    supervised.respond(&asked, true).await;
    let events = supervised.events(session).await;
    assert_eq!(types(&events).last(), Some(&"complete"), "{events:#?}");
    assert!(!types(&events).contains(&"steered"), "{events:#?}");
    supervised.engine.end_children("the test is over").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_insists_on_what_is_not_served_is_ended() {
    let supervised = Supervised::new().await;
    let session = supervised.chat("insist").await;
    supervised.events(session).await;
    let chat = supervised.store.chat(session, Some(0)).await.unwrap();
    let why = chat.error.unwrap_or_default();
    assert!(why.contains("requests that could not be taken"), "{why}");
    supervised.engine.end_children("the test is over").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_without_a_process_is_served_also_while_its_session_asks_something_else() {
    let supervised = Supervised::stopped();
    let session = supervised.stored_chat("make").await;
    let config = supervised.store.session(session).await.unwrap();
    let question = Question {
        session: &config,
        chat: None,
        run: None,
        channel: "mcp",
        request_id: "of the network",
        tool_name: "Network",
        tool_use_id: "of the network",
        input: JsonText::from(json!({"host": "example.org", "port": 443})),
        description: None,
        person_only: None,
    };
    let elsewhere = supervised.engine.approvals.open(&question).await.unwrap();
    assert_eq!(elsewhere.status, ApprovalStatus::Pending);
    supervised.engine.start().await.unwrap();
    let asked = testkit::eventually_async("the question of the chat", DEADLINE, async || {
        let filter = ApprovalFilter {
            stage: Stage::Pending,
            session: Some(session),
            ..ApprovalFilter::default()
        };
        let page = plexus_store::PageRequest::first(2);
        let items = supervised.store.approvals(filter, page).await.unwrap().items;
        items.into_iter().find(|it| it.tool_name == "Bash")
    })
    .await;
    supervised.respond(&asked, true).await;
    let events = supervised.events(session).await;
    assert_eq!(types(&events).last(), Some(&"complete"), "{events:#?}");
    supervised.engine.end_children("the test is over").await;
}
