//! `loopback.preview`: who may have a waiting command tried, with what, and how many at a time.

use std::sync::{Arc, Condvar, Mutex};

use plexus_core::{Caller, ErrorKind};
use plexus_engine::session::SessionConfig;
use plexus_engine::wall::{NoWall, Offer, Site, Stage, Trial, WallNeeds, WallSettings, Walls};
use plexus_wire::{Confine, PreviewEnd, Previewed};
use serde_json::{Value, json};

use crate::childless_hub::ChildlessHub;
use crate::common::DEADLINE;

/// Notes what is tried, and holds it while it is told to.
#[derive(Debug, Default)]
struct Tried {
    trials: Mutex<Vec<Trial>>,
    is_held: Mutex<bool>,
    released: Condvar,
}

impl Tried {
    fn hold(&self, held: bool) {
        *self.is_held.lock().unwrap() = held;
        self.released.notify_all();
    }

    fn count(&self) -> usize {
        self.trials.lock().unwrap().len()
    }
}

/// A machine that has every wall.
#[derive(Debug)]
struct Able(Arc<Tried>);

impl Walls for Able {
    fn offer(&self, _: Confine, _: Option<&WallNeeds>) -> Result<Offer, NoWall> {
        Ok(Offer { tier: "full".into(), enforced: vec![], gaps: vec![] })
    }

    fn check(&self, _: &SessionConfig, _: &WallNeeds) -> Result<(), NoWall> {
        Ok(())
    }

    fn build(&self, _: &Site<'_>) -> Result<Stage, NoWall> {
        Err(NoWall::Refused("nothing starts in this test".into()))
    }

    fn preview(&self, trial: &Trial) -> Result<Previewed, NoWall> {
        self.0.trials.lock().unwrap().push(trial.clone());
        let held = self.0.is_held.lock().unwrap();
        drop(self.0.released.wait_while(held, |held| *held).unwrap());
        if trial.command.contains("impossible") {
            return Err(NoWall::Refused("no overlay here; next: another TMPDIR".into()));
        }
        let (stdout, stderr) = (trial.command.clone(), String::new());
        let end = PreviewEnd::Exited { code: 0 }.into();
        Ok(Previewed { end, changes: vec![], cut: false, stdout, stderr, note: String::new() })
    }

    fn key(&self, _: &WallNeeds, _: &dyn Fn(&str) -> bool) -> String {
        String::new()
    }
}

async fn hub() -> (Arc<ChildlessHub>, Arc<Tried>) {
    let tried = Arc::new(Tried::default());
    let walls: Arc<dyn Walls> = Arc::new(Able(Arc::clone(&tried)));
    let wall = WallSettings { walls: Some(walls), default: Confine::Workspace };
    (Arc::new(ChildlessHub::with(|settings| settings.wall = wall).await), tried)
}

#[tokio::test]
async fn a_caller_that_may_allow_a_command_may_try_it() {
    let (hub, tried) = hub().await;
    let env = json!({"KEPT": "k", "ANTHROPIC_API_KEY": "secret"});
    let top = json!({"can_spawn": true, "may_decide": ["Bash(make:*)"], "env": env});
    let top = Caller::Session(hub.create("top", top).await);
    let more = json!({"confine": "strict", "env": env});
    let below = hub.create_as(top, "below", more).await.unwrap();
    let (_asks, asked) = hub.ask(below, "t1", "Bash", json!({"command": "make all"})).await;
    assert_eq!(asked["preview"], true);
    let params = json!({"approval_id": asked["id"]});
    for caller in [Caller::Operator, top] {
        let told = hub.call_as(caller, "loopback.preview", params.clone()).await.unwrap();
        assert_eq!((&told["stdout"], &told["end"]["how"]), (&json!("make all"), &json!("exited")));
    }
    let trial = tried.trials.lock().unwrap()[0].clone();
    assert_eq!((trial.config.confine, &trial.start_in), (Confine::Strict, &None));
    let names: Vec<_> = trial.env.keys().filter_map(|name| name.to_str()).collect();
    assert!(names.contains(&"KEPT") && names.contains(&"PATH"), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("KEY") || name.contains("PROXY")), "{names:?}");

    // It decides nothing: the question is still open, and is then answered once.
    let decided = json!({"approval_id": asked["id"], "approve": false});
    hub.ok("loopback.respond", decided).await;
    let late = hub.call("loopback.preview", params).await.unwrap_err();
    assert_eq!(late.kind, ErrorKind::Conflict, "{late:?}");
    assert_eq!(tried.count(), 2);
}

#[tokio::test]
async fn nothing_is_tried_for_others_and_nothing_else_is() {
    let (hub, tried) = hub().await;
    let top = json!({"can_spawn": true, "may_decide": ["Bash(make:*)"]});
    let top = Caller::Session(hub.create("top", top).await);
    let below = hub.create_as(top, "below", json!({})).await.unwrap();
    let stranger = Caller::Session(hub.create("stranger", json!({"can_spawn": true})).await);
    let open = hub.create("open", json!({"confine": "none"})).await;
    let rm = json!({"command": "rm -r x"});
    let write = json!({"file_path": "a", "content": ""});
    for (caller, session, tool, input, kind, says) in [
        (top, below, "Bash", &rm, ErrorKind::Forbidden, "your creator did not list it"),
        (Caller::Session(below), below, "Bash", &rm, ErrorKind::NotFound, "find the approval"),
        (Caller::Child(below), below, "Bash", &rm, ErrorKind::Forbidden, "not for you"),
        (stranger, below, "Bash", &rm, ErrorKind::NotFound, "find the approval"),
        (Caller::Operator, below, "Write", &write, ErrorKind::Invalid, "not a shell command"),
        (Caller::Operator, open, "Bash", &rm, ErrorKind::Invalid, "its session has no wall"),
    ] {
        let id = format!("{says} {caller:?}");
        let (_asks, asked) = hub.ask(session, &id, tool, input.clone()).await;
        let params = json!({"approval_id": asked["id"]});
        let refused = hub.call_as(caller, "loopback.preview", params).await.unwrap_err();
        assert_eq!(refused.kind, kind, "{refused:?}");
        assert!(refused.message.contains(says), "{refused:?}");
    }
    assert_eq!(tried.count(), 0);
    let (_asks, asked) = hub.ask(below, "t", "Bash", json!({"command": "impossible"})).await;
    let params = json!({"approval_id": asked["id"]});
    let refused = hub.call("loopback.preview", params).await.unwrap_err();
    assert!(refused.message.contains("no overlay here; next: another TMPDIR"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_so_many_are_tried_at_a_time_and_the_operator_has_a_place() {
    let (hub, tried) = hub().await;
    let top = json!({"can_spawn": true, "may_decide": ["*"]});
    let top = Caller::Session(hub.create("top", top).await);
    let below = hub.create_as(top, "below", json!({})).await.unwrap();
    let (_asks, asked) = hub.ask(below, "t1", "Bash", json!({"command": "make"})).await;
    let params: Value = json!({"approval_id": asked["id"]});
    tried.hold(true);
    let mut running = Vec::new();
    for caller in [top, top, top, Caller::Operator] {
        let (hub, params) = (Arc::clone(&hub), params.clone());
        let before = tried.count();
        running.push(tokio::spawn(async move {
            hub.call_as(caller, "loopback.preview", params).await.map(drop)
        }));
        let begun = || std::future::ready((tried.count() > before).then_some(()));
        testkit::eventually_async("a dry run", DEADLINE, begun).await;
    }
    for caller in [top, Caller::Operator] {
        let refused = hub.call_as(caller, "loopback.preview", params.clone()).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Busy, "{refused:?}");
        assert!(refused.retry_after_ms.is_some());
    }
    // Nothing waits for them: the question is answered meanwhile.
    hub.ok("loopback.respond", json!({"approval_id": asked["id"], "approve": true})).await;
    tried.hold(false);
    for ended in running {
        ended.await.unwrap().unwrap();
    }
    assert_eq!(tried.count(), 4);
}
