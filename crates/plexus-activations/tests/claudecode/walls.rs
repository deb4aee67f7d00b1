//! The wall of a session: who gets which, and that nothing is started without one that was asked
//! for.

use std::sync::Arc;

use plexus_core::Caller;
use plexus_engine::session::SessionConfig;
use plexus_engine::wall::{NoWall, Offer, Site, Stage, Trial, WallNeeds, WallSettings, Walls};
use plexus_wire::{Confine, Previewed};
use serde_json::json;

use crate::common::SimulatedHub;

/// A machine on which every wall is offered and none can be built.
#[derive(Debug)]
struct Promising;

impl Walls for Promising {
    fn offer(&self, _: Confine, _: Option<&WallNeeds>) -> Result<Offer, NoWall> {
        let (enforced, gaps) = (vec!["files".to_owned()], vec!["signals".to_owned()]);
        Ok(Offer { tier: "full".into(), enforced, gaps })
    }

    fn check(&self, config: &SessionConfig, _: &WallNeeds) -> Result<(), NoWall> {
        match config.add_dirs.is_empty() {
            true => Ok(()),
            false => Err(NoWall::Refused("it contains the home directory".into())),
        }
    }

    fn build(&self, _: &Site<'_>) -> Result<Stage, NoWall> {
        Err(NoWall::Refused("use Landlock: this kernel has none; next: Linux 6.7".into()))
    }

    fn preview(&self, _: &Trial) -> Result<Previewed, NoWall> {
        Err(NoWall::Refused("not in this test".into()))
    }

    fn key(&self, _: &WallNeeds, _: &dyn Fn(&str) -> bool) -> String {
        "outside".to_owned()
    }
}

async fn hub_with_wall(default: Confine) -> SimulatedHub {
    SimulatedHub::with(|settings| {
        settings.wall = WallSettings { walls: Some(Arc::new(Promising)), default };
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_starts_without_the_wall_that_was_asked_for() {
    let hub = hub_with_wall(Confine::Workspace).await;
    let session = hub.create("walled", json!({})).await;
    let shown = &hub.session(&session).await["confine"];
    let expected = json!({
        "profile": "workspace", "tier": "full", "enforced": ["files"], "gaps": ["signals"],
        "key": "outside",
    });
    assert_eq!(*shown, expected);
    let chat = hub.chat(&session, "hello").await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "failed");
    let events = hub.events(&session, chat).await;
    let last = events.last().unwrap()["message"].as_str().unwrap();
    assert!(last.contains("nothing was started: use Landlock: this kernel has none"), "{last}");
    assert_eq!(hub.children(), 0);
    assert!(!hub.run_dir(&session, 0).exists(), "what was prepared stays behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_never_has_a_looser_wall_than_its_parent() {
    let hub = hub_with_wall(Confine::None).await;
    let parent = hub.create("parent", json!({"confine": "workspace", "can_spawn": true})).await;
    let caller = Caller::Session(parent.parse().unwrap());
    let create = async |name: &str, more| {
        let params = hub.create_params(name, more);
        hub.call_as(caller, "claudecode.create", params).await
    };
    // Without a word it has its parent's; a tighter one may be asked for.
    for (name, more, expected) in
        [("same", json!({}), "workspace"), ("tighter", json!({"confine": "strict"}), "strict")]
    {
        let made = create(name, more).await.unwrap();
        let shown = hub.session(made["id"].as_str().unwrap()).await;
        assert_eq!(shown["confine"]["profile"], expected);
    }
    let refused = create("looser", json!({"confine": "none"})).await.unwrap_err();
    assert!(refused.message.contains("the wall none below one that has workspace"), "{refused}");
    // Nor when the operator makes it: what the child does is the parent's doing.
    let params = hub.create_params("put", json!({"confine": "none", "parent": parent}));
    let refused = hub.call("claudecode.create", params).await.unwrap_err();
    assert!(refused.message.contains("the wall none below one that has workspace"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_cannot_be_confined_is_refused_when_it_is_created() {
    let hub = hub_with_wall(Confine::None).await;
    let more = json!({"confine": "strict", "add_dirs": [hub.work()]});
    let params = hub.create_params("too much", more);
    let refused = hub.call("claudecode.create", params).await.unwrap_err();
    assert!(refused.message.contains("it contains the home directory"), "{refused}");
    assert_eq!(refused.field.as_deref(), Some("confine"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_walls_refuses_who_asks_for_one() {
    let hub = SimulatedHub::new().await;
    let params = hub.create_params("walled", json!({"confine": "workspace"}));
    let refused = hub.call("claudecode.create", params).await.unwrap_err();
    assert!(refused.message.contains("this server builds no walls"), "{refused}");
    let open = hub.create("open", json!({})).await;
    assert_eq!(hub.session(&open).await["confine"], json!({"profile": "none"}));
}
