//! Simulates years of waiting: each step sets the virtual clock to the next moment at which
//! something is due.

use crate::agents::Agents;
use plexus_core::{Caller, SessionId};
use plexus_store::{
    ApprovalStatus, CreateSession, JsonText, MemoryStore, NewRule, PageRequest, SessionRecord,
    UpdateSession, virtual_time,
};
use plexus_wire::{RuleDecision, RuleId, RuleScope};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use serde_json::json;

use super::super::{Answer, Question};
use super::*;
use crate::approvals::shown::ApprovalViews;
use crate::rulebook::Rulebook;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Deadlines under enforcement, over a store in memory.
struct Scene {
    store: Arc<dyn Store>,
    approvals: Arc<Approvals>,
    latecomers: Latecomers,
}

impl Scene {
    fn new() -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let agents = Agents::default();
        let operator = plexus_core::SecretToken::new("nobody's");
        let hooks = crate::hooks::Hooks::new(&operator, ApprovalViews::new(agents.clone()));
        let rulebook = Arc::new(Rulebook::new(Arc::clone(&store)));
        let approvals = Arc::new(Approvals::new(Arc::clone(&store), rulebook, hooks, agents));
        virtual_time::set(UnixMillis::now());
        Self { store, approvals, latecomers: Latecomers::default() }
    }

    async fn session(
        &self,
        name: &str,
        parent: Option<SessionId>,
        more: serde_json::Value,
    ) -> SessionRecord {
        let mut config = json!({
            "working_dir": "/", "model": null, "system_prompt": null, "loopback_enabled": true, "loopback_timeout_secs": 0, "escalate_after_secs": null,
            "supervise": "default", "can_spawn": parent.is_none(), "may_decide": ["Bash"], "project_settings": "ignore", "channel": "control",
            "allowed_tools": [], "disallowed_tools": [], "add_dirs": [], "env": {}, "budget": null,
        });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let create =
            CreateSession { config: JsonText::from(config), ..CreateSession::new(name, parent) };
        let id = create.id;
        self.store.commit(vec![Change::CreateSession(create)], Priority::Normal).await.unwrap();
        self.store.session(id).await.unwrap()
    }

    async fn ask(&self, session: &SessionRecord) -> ApprovalRecord {
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
            person_only: None,
        };
        self.approvals.open(&question).await.unwrap()
    }

    /// Does what is due and advances the clock to the next due time, until `until`.
    async fn pass(&mut self, until: UnixMillis) {
        while UnixMillis::now() < until {
            let now = UnixMillis::now();
            let next = look(&self.approvals, &mut self.latecomers).await.unwrap().unwrap_or(until);
            // As in the real loop, time advances by at least a millisecond, so that this ends.
            virtual_time::set(next.clamp(now.plus(Duration::from_millis(1)), until.max(now)));
        }
    }

    /// Lets time pass until an approval is decided, and returns it with how long it had waited.
    async fn decided(&mut self, asked: &ApprovalRecord) -> (ApprovalRecord, Duration) {
        loop {
            let record = self.store.approval(asked.id).await.unwrap();
            if let Some(decision) = &record.decision {
                let waited = decision.at.after(asked.created_at);
                return (record, waited);
            }
            self.pass(UnixMillis::now().plus(DAY)).await;
        }
    }
}

fn allow_everything() -> NewRule {
    NewRule {
        id: RuleId::generate(),
        decision: RuleDecision::Allow,
        pattern: "Bash".to_owned(),
        scope: RuleScope::All,
        author: Owner::Operator,
        ends_with: None,
        expires_at: None,
        uses: None,
        reason: None,
        matches: Vec::new(),
        does_not_match: Vec::new(),
    }
}

/// Returns whether it came no earlier than due and less than a second late.
fn in_time(took: Duration, due: Duration) -> bool {
    took >= due && took < due + Duration::from_secs(1)
}

#[tokio::test]
async fn a_deadline_two_years_away_is_kept_and_told_of_before() {
    let mut scene = Scene::new();
    let two_years = DAY * 730;
    let session =
        scene.session("patient", None, json!({"loopback_timeout_secs": two_years.as_secs()})).await;
    let asked = scene.ask(&session).await;
    let (record, took) = scene.decided(&asked).await;
    assert_eq!(
        (record.status, record.decision.unwrap().by),
        (ApprovalStatus::Expired, DecidedBy::Deadline)
    );
    assert!(in_time(took, two_years), "it took {took:?}");
    // Each reminder comes at half of the time left, until that is less than `MIN_REMINDER`.
    assert!((20..=24).contains(&record.escalations), "reminded {} times", record.escalations);
}

#[tokio::test]
async fn a_request_without_a_deadline_is_reminded_of_and_never_expires() {
    let mut scene = Scene::new();
    // Thousands of reminders.
    let season = DAY * 60;
    let session = scene.session("endless", None, json!({})).await;
    let asked = scene.ask(&session).await;
    scene.pass(UnixMillis::now().plus(season)).await;
    let record = scene.store.approval(asked.id).await.unwrap();
    let times = u32::try_from(season.as_secs() / REMIND_EVERY.as_secs()).unwrap();
    assert_eq!(record.status, ApprovalStatus::Pending);
    assert!(
        record.escalations.abs_diff(times) <= 1,
        "reminded {} times in place of {times}",
        record.escalations
    );
    let allow = Answer {
        approve: true,
        message: None,
        updated_input: None,
        answers: None,
        input_digest: None,
    };
    scene.approvals.respond(&Caller::Operator, asked.id, allow, None).await.unwrap();
    assert_eq!(scene.decided(&asked).await.0.status, ApprovalStatus::Allowed);
}

#[tokio::test]
async fn every_question_of_many_goes_up_before_it_expires_and_expires_in_time() {
    let mut scene = Scene::new();
    let parent = scene.session("parent", None, json!({})).await;
    let mut random = TestRunner::deterministic();
    let seconds = 60..3 * 365 * DAY.as_secs();
    let mut questions = Vec::new();
    for index in 0..100 {
        let deadline = Duration::from_secs(seconds.new_tree(&mut random).unwrap().current());
        let config = json!({"loopback_timeout_secs": deadline.as_secs()});
        let child = scene.session(&format!("child-{index}"), Some(parent.id), config).await;
        let asked = scene.ask(&child).await;
        assert_eq!(asked.owner, Owner::Session(parent.id), "its parent is asked first");
        questions.push((deadline, asked));
    }
    for (deadline, asked) in questions {
        let (record, waited) = scene.decided(&asked).await;
        assert_eq!(record.status, ApprovalStatus::Expired);
        assert!(in_time(waited, deadline), "{deadline:?} took {waited:?}");
        assert_eq!(record.owner, Owner::Operator, "nobody above was asked before it expired");
        assert!(record.escalations > 0);
    }
}

#[tokio::test]
async fn a_rule_is_used_once_for_a_request_that_two_tasks_judge() {
    let scene = Scene::new();
    let session = scene.session("asks", None, json!({})).await;
    let asked = scene.ask(&session).await;
    let rule = NewRule { uses: Some(2), ..allow_everything() };
    scene.store.commit(vec![Change::AddRule(rule)], Priority::Normal).await.unwrap();
    scene.approvals.rulebook.widened();
    // Both have read that it waits.
    let first = scene.approvals.release_one(&asked).await.unwrap();
    let second = scene.approvals.release_one(&asked).await.unwrap();
    assert_eq!((first, second), (true, false));
    let rules = scene.store.rules(PageRequest::first(2)).await.unwrap().items;
    assert_eq!(rules.iter().map(|rule| rule.used).collect::<Vec<_>>(), [1]);
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_clock_set_back_prolongs_no_deadline() {
    let mut scene = Scene::new();
    let config = json!({"loopback_timeout_secs": MINUTE.as_secs()});
    let asked = scene.ask(&scene.session("patient", None, config).await).await;
    virtual_time::set_machine_back(DAY);
    virtual_time::pass(MINUTE);
    look(&scene.approvals, &mut scene.latecomers).await.unwrap();
    let record = scene.store.approval(asked.id).await.unwrap();
    assert_eq!(record.status, ApprovalStatus::Expired);
}

#[tokio::test]
async fn a_clock_set_back_prolongs_no_rule_and_no_mode() {
    let scene = Scene::new();
    let ends = UnixMillis::now().plus(MINUTE);
    let rule = NewRule { expires_at: Some(ends), ..allow_everything() };
    let asks = scene.session("asks", None, json!({})).await;
    let moded = scene.session("moded", None, json!({})).await;
    let state = json!({"mode": {"mode": "allow_all", "until": ends.as_secs()}});
    let allow_all =
        UpdateSession { state: Some(JsonText::from(state)), ..UpdateSession::of(moded.id) };
    virtual_time::set_machine_back(DAY);
    virtual_time::pass(MINUTE);
    let changes = vec![Change::AddRule(rule), Change::UpdateSession(allow_all)];
    scene.store.commit(changes, Priority::Normal).await.unwrap();
    scene.approvals.rulebook.widened();
    for session in [asks, scene.store.session(moded.id).await.unwrap()] {
        let asked = scene.ask(&session).await;
        assert_eq!(asked.status, ApprovalStatus::Pending, "{}", session.name);
    }
}

#[tokio::test]
async fn a_request_that_cannot_be_judged_holds_up_no_deadline() {
    let mut scene = Scene::new();
    let broken = scene.session("broken", None, json!({})).await;
    let unreadable = scene.ask(&broken).await;
    let config = UpdateSession {
        config: Some(JsonText::from(json!({"working_dir": 7}))),
        ..UpdateSession::of(broken.id)
    };
    scene.store.commit(vec![Change::UpdateSession(config)], Priority::Normal).await.unwrap();
    let session = scene.session("in time", None, json!({"loopback_timeout_secs": 30})).await;
    let asked = scene.ask(&session).await;
    // A rule for others has everything judged again that waits.
    scene.approvals.rulebook.widened();
    scene.pass(UnixMillis::now().plus(Duration::from_secs(31))).await;
    let expired = scene.store.approval(asked.id).await.unwrap();
    assert_eq!(expired.status, ApprovalStatus::Expired);
    let waits = scene.store.approval(unreadable.id).await.unwrap();
    assert_eq!(waits.status, ApprovalStatus::Pending, "nobody has decided about it");
}

#[test]
fn time_that_is_left_is_never_said_to_be_nothing() {
    let said = [0, 1, 999, 1_000, 1_001, 60_000].map(|ms| whole_secs(Duration::from_millis(ms)));
    assert_eq!(said, [1, 1, 1, 1, 2, 60]);
}
