//! Years of waiting in seconds: time is paused and goes on as fast as nothing happens.

use plexus_core::{Caller, SessionId};
use plexus_store::virtual_time::follow_the_runtime;
use plexus_store::{ApprovalStatus, CreateSession, JsonText, MemoryStore, Session};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use serde_json::json;
use tokio::time::Instant;

use super::super::approvals::{Answer, Question};
use super::super::rulebook::Rulebook;
use super::*;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Deadlines under enforcement, over a store in memory.
struct Scene {
    store: Arc<dyn Store>,
    approvals: Arc<Approvals>,
    _shutdown: tokio_util::sync::DropGuard,
}

impl Scene {
    fn new() -> Self {
        follow_the_runtime();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let approvals = Arc::new(Approvals::new(Arc::clone(&store), Arc::new(Rulebook::new(Arc::clone(&store)))));
        let shutdown = CancellationToken::new();
        tokio::spawn(enforce(Arc::clone(&approvals), shutdown.clone()));
        Self { store, approvals, _shutdown: shutdown.drop_guard() }
    }

    async fn session(&self, name: &str, parent: Option<SessionId>, more: serde_json::Value) -> Session {
        let mut config = json!({
            "working_dir": "/", "model": null, "system_prompt": null, "loopback_enabled": true, "loopback_timeout_secs": 0, "escalate_after_secs": null,
            "supervise": "default", "can_spawn": parent.is_none(), "may_decide": ["Bash"], "project_settings": "ignore", "channel": "control",
            "allowed_tools": [], "disallowed_tools": [], "add_dirs": [], "env": {}, "budget": null,
        });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let create = CreateSession { config: JsonText::from(config), ..CreateSession::new(name, parent) };
        let id = create.id;
        self.store.commit(vec![Change::CreateSession(create)], Priority::Normal).await.unwrap();
        self.store.session(id).await.unwrap()
    }

    async fn ask(&self, session: &Session) -> ApprovalRecord {
        let question = Question {
            session,
            chat: None,
            run: None,
            channel: "control",
            request_id: "r",
            tool_name: "Bash",
            tool_use_id: "toolu",
            input: JsonText::from(json!({"command": "make install"})),
            description: None,
        };
        self.approvals.open(&question).await.unwrap()
    }

    /// Waits until an approval is decided, and returns it with how long that took.
    async fn decided(&self, id: ApprovalId) -> (ApprovalRecord, Duration) {
        let began = Instant::now();
        let mut wake = self.store.watch(Topic::Approval(id));
        loop {
            wake.seen();
            let record = self.store.approval(id).await.unwrap();
            if record.status != ApprovalStatus::Pending {
                return (record, began.elapsed());
            }
            wake.changed().await;
        }
    }
}

/// The moment at which it was due, and at most a second later.
fn in_time(took: Duration, due: Duration) -> bool {
    took >= due && took < due + Duration::from_secs(1)
}

#[tokio::test(start_paused = true)]
async fn a_deadline_two_years_away_is_kept_and_told_of_before() {
    let scene = Scene::new();
    let two_years = DAY * 730;
    let session = scene.session("patient", None, json!({"loopback_timeout_secs": two_years.as_secs()})).await;
    let asked = scene.ask(&session).await;
    let (record, took) = scene.decided(asked.id).await;
    assert_eq!((record.status, record.decision.unwrap().by), (ApprovalStatus::Expired, DecidedBy::Deadline));
    assert!(in_time(took, two_years), "it took {took:?}");
    // At half of what is left, again and again, until less than a reminder is worth.
    assert!((20..=24).contains(&record.escalations), "reminded {} times", record.escalations);
}

#[tokio::test(start_paused = true)]
async fn whoever_asked_for_no_deadline_is_reminded_of_for_ever_and_never_expires() {
    let scene = Scene::new();
    let session = scene.session("endless", None, json!({})).await;
    let asked = scene.ask(&session).await;
    tokio::time::sleep(DAY * 60).await;
    let record = scene.store.approval(asked.id).await.unwrap();
    let times = u32::try_from((DAY * 60).as_secs() / REMIND_EVERY.as_secs()).unwrap();
    assert_eq!(record.status, ApprovalStatus::Pending);
    assert!(record.escalations.abs_diff(times) <= 1, "reminded {} times in place of {times}", record.escalations);
    let allow = Answer { approve: true, message: None, updated_input: None, input_digest: None };
    scene.approvals.respond(&Caller::Operator, asked.id, allow, None).await.unwrap();
    assert_eq!(scene.decided(asked.id).await.0.status, ApprovalStatus::Allowed);
}

#[tokio::test(start_paused = true)]
async fn every_question_of_many_goes_up_before_it_expires_and_expires_in_time() {
    let scene = Arc::new(Scene::new());
    let parent = scene.session("parent", None, json!({})).await;
    let mut random = TestRunner::deterministic();
    let seconds = 60..3 * 365 * DAY.as_secs();
    let mut waits = Vec::new();
    for index in 0..100 {
        let deadline = Duration::from_secs(seconds.new_tree(&mut random).unwrap().current());
        let config = json!({"loopback_timeout_secs": deadline.as_secs()});
        let child = scene.session(&format!("child-{index}"), Some(parent.id), config).await;
        let asked = scene.ask(&child).await;
        assert_eq!(asked.owner, Owner::Session(parent.id), "its parent is asked first");
        let scene = Arc::clone(&scene);
        waits.push((deadline, tokio::spawn(async move { scene.decided(asked.id).await })));
    }
    for (deadline, wait) in waits {
        let (record, took) = wait.await.unwrap();
        assert_eq!(record.status, ApprovalStatus::Expired);
        assert!(in_time(took, deadline), "{deadline:?} took {took:?}");
        assert_eq!(record.owner, Owner::Operator, "nobody above was asked before it expired");
        assert!(record.escalations > 0);
    }
}

#[test]
fn time_that_is_left_is_never_said_to_be_nothing() {
    let said = [0, 1, 999, 1_000, 1_001, 60_000].map(|ms| whole_secs(Duration::from_millis(ms)));
    assert_eq!(said, [1, 1, 1, 1, 2, 60]);
}
