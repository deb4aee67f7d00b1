//! The store is linearizable: concurrent calls on approvals and chats get answers that some
//! sequential order would give.
//!
//! Random callers work on one approval and the chats of one session at the same time. Each call is
//! recorded with the times of its start and its answer. The test then searches for an order in
//! which a small model gives every caller the same answer, and in which no call comes before one
//! that was answered before it started. When there is no such order, some caller got a wrong
//! answer.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "the helpers of a test may stop loudly too"
)]

mod common;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plexus_core::{ApprovalId, SessionId};
use plexus_store::{
    AppendEvents, ApprovalStatus, Change, CreateSession, Durability, EndChat, Ending, Fate, Fresh,
    JsonText, MemoryStore, NewEvent, Priority, ReadLimit, SettleApproval, SqliteOptions,
    SqliteStore, StartChat, Store, StoreError, UnixMillis, Verdict,
};
use proptest::prelude::*;
use serde_json::json;

use crate::common::{decision, question};

/// How many programs are tried with the engine in memory, and with files.
const IN_MEMORY: u32 = 200;
const ON_DISK: u32 = 40;

/// A caller's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Decision {
    Allow,
    AllowEdited,
    Deny,
    Expire,
    Cancel,
}

impl Decision {
    fn verdict(self) -> Verdict {
        match self {
            Self::Allow => Verdict::Allow { updated_input: None },
            Self::AllowEdited => {
                Verdict::Allow { updated_input: Some(JsonText::from(json!({"command": "ls -l"}))) }
            }
            Self::Deny => Verdict::Deny,
            Self::Expire => Verdict::Expire,
            Self::Cancel => Verdict::Cancel,
        }
    }

    fn status(self) -> ApprovalStatus {
        self.verdict().status()
    }
}

/// One call of a caller.
#[derive(Debug, Clone, Copy)]
enum Call {
    Decide(Decision),
    Settle(Fate),
    Look,
    Start,
    Append(u32),
    End(u32),
    Count(u32),
}

/// The answer that the caller got.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Told {
    Decided { fresh: bool },
    Stands(ApprovalStatus),
    Settled { fresh: bool },
    Refused,
    Seen { status: ApprovalStatus, delivered: bool, void: bool },
    Chat(u32),
    Appended { first: u32 },
    Events(Option<u32>),
    Done,
}

/// A call with the times of its start and its answer, on one clock.
#[derive(Debug, Clone)]
struct Noted {
    call: Call,
    told: Told,
    began: u64,
    answered: u64,
}

/// The sequential model of the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Model {
    decided: Option<Decision>,
    fate: Option<bool>,
    /// For each chat: how many events it has, and whether it is open.
    chats: Vec<(u32, bool)>,
}

impl Model {
    fn answer(&mut self, call: Call) -> Told {
        match call {
            Call::Decide(decision) => match self.decided {
                None => {
                    self.decided = Some(decision);
                    Told::Decided { fresh: true }
                }
                Some(standing) if standing == decision => Told::Decided { fresh: false },
                Some(standing) => Told::Stands(standing.status()),
            },
            Call::Settle(fate) => {
                let delivered = fate == Fate::Delivered;
                match (self.decided, self.fate) {
                    (None, _) => Told::Refused,
                    (Some(_), None) => {
                        self.fate = Some(delivered);
                        Told::Settled { fresh: true }
                    }
                    (Some(_), Some(settled)) if settled == delivered => {
                        Told::Settled { fresh: false }
                    }
                    (Some(_), Some(_)) => Told::Refused,
                }
            }
            Call::Look => Told::Seen {
                status: self.decided.map_or(ApprovalStatus::Pending, Decision::status),
                delivered: self.fate == Some(true),
                void: self.fate == Some(false),
            },
            Call::Start => {
                if self.chats.iter().any(|(_, open)| *open) {
                    return Told::Refused;
                }
                self.chats.push((1, true));
                Told::Chat(self.chats.len() as u32 - 1)
            }
            Call::Append(chat) => match self.chats.get_mut(chat as usize) {
                Some((events, true)) => {
                    *events += 1;
                    Told::Appended { first: *events - 1 }
                }
                _ => Told::Refused,
            },
            Call::End(chat) => match self.chats.get_mut(chat as usize) {
                Some((events, open @ true)) => {
                    *events += 1;
                    *open = false;
                    Told::Done
                }
                _ => Told::Refused,
            },
            Call::Count(chat) => {
                Told::Events(self.chats.get(chat as usize).map(|(events, _)| *events))
            }
        }
    }
}

/// Searches for a sequential order that explains all answers.
fn is_explained(notes: &[Noted]) -> bool {
    fn search(notes: &[Noted], done: u64, model: &Model, seen: &mut HashSet<(u64, Model)>) -> bool {
        if done == (1 << notes.len()) - 1 {
            return true;
        }
        if !seen.insert((done, model.clone())) {
            return false;
        }
        let open = || notes.iter().enumerate().filter(|(index, _)| done & (1 << index) == 0);
        // The next call must have started before any of the remaining ones was answered.
        let first_answer = open().map(|(_, note)| note.answered).min().unwrap_or(0);
        open().filter(|(_, note)| note.began < first_answer).any(|(index, note)| {
            let mut next = model.clone();
            next.answer(note.call) == note.told && search(notes, done | (1 << index), &next, seen)
        })
    }
    search(notes, 0, &Model::default(), &mut HashSet::new())
}

fn call() -> impl Strategy<Value = Call> {
    use Decision::{Allow, AllowEdited, Cancel, Deny, Expire};
    let decision = prop::sample::select(vec![Allow, AllowEdited, Deny, Expire, Cancel]);
    let fate = prop::sample::select(vec![Fate::Delivered, Fate::Void]);
    prop_oneof![
        4 => decision.prop_map(Call::Decide),
        2 => fate.prop_map(Call::Settle),
        3 => Just(Call::Look),
        3 => Just(Call::Start),
        3 => (0..2_u32).prop_map(Call::Append),
        2 => (0..2_u32).prop_map(Call::End),
        2 => (0..2_u32).prop_map(Call::Count),
    ]
}

fn callers() -> impl Strategy<Value = Vec<Vec<Call>>> {
    prop::collection::vec(prop::collection::vec(call(), 1..6), 2..5)
}

struct Scene {
    store: Arc<dyn Store>,
    session: SessionId,
    approval: ApprovalId,
    clock: AtomicU64,
}

impl Scene {
    async fn new(store: Arc<dyn Store>) -> Arc<Self> {
        let session = CreateSession::new("s", None);
        let id = session.id;
        store.commit(vec![Change::CreateSession(session)], Priority::Normal).await.unwrap();
        let open = question(id, "r", "ls");
        let approval = open.id;
        store.commit(vec![Change::OpenApproval(open)], Priority::Normal).await.unwrap();
        Arc::new(Self { store, session: id, approval, clock: AtomicU64::new(0) })
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    async fn note(&self, call: Call) -> Noted {
        let began = self.tick();
        let told = self.make(call).await;
        Noted { call, told, began, answered: self.tick() }
    }

    async fn make(&self, call: Call) -> Told {
        let change = match call {
            Call::Decide(made) => Change::DecideApproval(decision(self.approval, made.verdict())),
            Call::Settle(fate) => Change::SettleApproval(SettleApproval {
                id: self.approval,
                fate,
                at: UnixMillis::now(),
            }),
            Call::Start => Change::StartChat(StartChat::new(self.session, "go")),
            Call::Append(chat) => Change::AppendEvents(AppendEvents {
                session: self.session,
                chat,
                events: vec![event("content")],
            }),
            Call::End(chat) => Change::EndChat(EndChat {
                session: self.session,
                chat,
                ending: Ending::Complete,
                usage: None,
                event: event("complete"),
            }),
            Call::Look => {
                let record = self.store.approval(self.approval).await.unwrap();
                let (delivered, void) = (record.delivered_at.is_some(), record.void_at.is_some());
                return Told::Seen { status: record.status, delivered, void };
            }
            Call::Count(chat) => {
                let read =
                    self.store.read_events(self.session, chat, 0, ReadLimit::events(1)).await;
                return Told::Events(read.ok().map(|read| read.total_events));
            }
        };
        match (call, self.store.commit(vec![change], Priority::Normal).await) {
            (Call::Decide(_), Ok(done)) => {
                Told::Decided { fresh: done.approval().unwrap().1 == Fresh::Made }
            }
            (Call::Decide(_), Err(StoreError::Conflict { standing, .. })) => {
                Told::Stands(serde_json::from_value(standing["status"].clone()).expect("a status"))
            }
            (Call::Settle(_), Ok(done)) => {
                Told::Settled { fresh: done.approval().unwrap().1 == Fresh::Made }
            }
            (Call::Start, Ok(done)) => Told::Chat(done.chat().unwrap().chat),
            (Call::Append(_), Ok(done)) => match done.outcomes[..] {
                [plexus_store::Outcome::Events { first_seq, .. }] => {
                    Told::Appended { first: first_seq }
                }
                ref other => panic!("no events in {other:?}"),
            },
            (_, Ok(_)) => Told::Done,
            (_, Err(StoreError::Conflict { .. } | StoreError::NotFound { .. })) => Told::Refused,
            (call, Err(error)) => panic!("{call:?}: {error}"),
        }
    }
}

fn event(kind: &str) -> NewEvent {
    NewEvent::now(kind, JsonText::from(json!({ "type": kind })))
}

/// Runs all callers at the same time, and returns the recorded calls.
async fn play(store: Arc<dyn Store>, callers: Vec<Vec<Call>>) -> Vec<Noted> {
    let scene = Scene::new(store).await;
    let start = Arc::new(tokio::sync::Barrier::new(callers.len()));
    let mut tasks = Vec::new();
    for calls in callers {
        let (scene, start) = (Arc::clone(&scene), Arc::clone(&start));
        tasks.push(tokio::spawn(async move {
            start.wait().await;
            let mut notes = Vec::new();
            for call in calls {
                notes.push(scene.note(call).await);
            }
            notes
        }));
    }
    let mut notes = Vec::new();
    for task in tasks {
        notes.extend(task.await.unwrap());
    }
    notes
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap()
}

fn try_all(cases: u32, open: impl Fn() -> (Arc<dyn Store>, Option<tempfile::TempDir>)) {
    let runtime = runtime();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases,
        ..ProptestConfig::default()
    });
    let tried = runner.run(&callers(), |callers| {
        let (store, _dir) = open();
        let notes = runtime.block_on(play(Arc::clone(&store), callers));
        runtime.block_on(store.close()).unwrap();
        prop_assert!(is_explained(&notes), "no order explains {notes:#?}");
        Ok(())
    });
    tried.unwrap();
}

#[test]
fn callers_of_memory_are_told_what_one_after_the_other_could_be_told() {
    try_all(IN_MEMORY, || (Arc::new(MemoryStore::new()), None));
}

#[test]
fn callers_of_sqlite_are_told_what_one_after_the_other_could_be_told() {
    try_all(ON_DISK, || {
        let dir = tempfile::tempdir().unwrap();
        let options = SqliteOptions { sync: Durability::Normal, ..SqliteOptions::new(dir.path()) };
        (Arc::new(SqliteStore::open(&options).unwrap()), Some(dir))
    });
}

#[test]
fn a_history_without_an_explanation_is_noticed() {
    let note = |call, told, began, answered| Noted { call, told, began, answered };
    let made = |decision, began, answered| {
        note(Call::Decide(decision), Told::Decided { fresh: true }, began, answered)
    };
    let seen = |status| Told::Seen { status, delivered: false, void: false };
    assert!(is_explained(&[
        made(Decision::Allow, 0, 3),
        note(Call::Look, seen(ApprovalStatus::Pending), 1, 2)
    ]));
    assert!(
        !is_explained(&[made(Decision::Allow, 0, 3), made(Decision::Deny, 1, 2)]),
        "decided twice"
    );
    let late = note(Call::Look, seen(ApprovalStatus::Pending), 2, 3);
    assert!(
        !is_explained(&[made(Decision::Allow, 0, 1), late]),
        "an acknowledged decision was not seen"
    );
    let append =
        |first, began, answered| note(Call::Append(0), Told::Appended { first }, began, answered);
    let start = note(Call::Start, Told::Chat(0), 0, 1);
    assert!(is_explained(&[start.clone(), append(2, 2, 5), append(1, 3, 4)]));
    assert!(!is_explained(&[start, append(1, 2, 5), append(1, 3, 4)]), "one number twice");
}
