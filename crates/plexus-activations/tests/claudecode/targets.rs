//! What a tool call acts on is told in one form for every agent: beside its events, in pages and in
//! streams, and with its decision.

use std::sync::Arc;

use futures::StreamExt as _;
use plexus_agents::acp::{Homes, Profile};
use plexus_agents::{Acp, ClaudeCode, Codex, CodexOptions};
use plexus_core::Reader;
use plexus_engine::ProgramLine;
use plexus_engine::agents::Drivers;
use plexus_wire::FIRST_AGENT;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::SimulatedHub;

/// A hub with an agent of each kind, all of them the simulator, and the folder with the home of
/// Codex.
async fn hub_of_all() -> (TempDir, SimulatedHub) {
    let sim = testkit::server::binary("plexus-sim", "PLEXUS_SIM_BIN").unwrap();
    let home = tempfile::tempdir().unwrap();
    let profile = json!({
        "label": "Simulated", "program": &sim, "args": ["--as", "acp"], "asks_for": "everything",
        "modes": ["ask"], "tool_name": "field",
        "tools": {"Write": {"acts": "write", "path": "file_path", "content": "content"}},
    });
    let profile = Profile::of("other", toml::Table::try_from(profile).unwrap()).unwrap();
    let codex = CodexOptions { home: home.path().join("codex"), ..CodexOptions::default() };
    let drivers = Drivers::default()
        .with(FIRST_AGENT, Arc::new(ClaudeCode))
        .with("codex", Arc::new(Codex::new(codex)))
        .with("other", Arc::new(Acp::new(profile, Homes::default())));
    let hub = SimulatedHub::with_drivers(drivers, |settings| {
        let leading = vec!["--as".into(), "codex".into()];
        settings.install("codex", ProgramLine { program: sim.clone(), leading });
        settings.install("other", ProgramLine { program: sim, leading: Vec::new() });
    });
    (home, hub.await)
}

/// Checks that a target is the new file of the simulator.
fn check(agent: &str, target: &Value) {
    let changes = target["changes"].as_array().unwrap_or_else(|| panic!("{agent}: {target}"));
    let [change] = changes.as_slice() else { panic!("{agent}: {target}") };
    assert_eq!((&target["kind"], &change["edit"]), (&json!("write"), &json!("whole")), "{agent}");
    let path = change["path"].as_str().unwrap();
    assert!(path.ends_with("plexus-sim.txt"), "{agent}: {path}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_calls_of_every_agent_are_shown_with_what_they_act_on() {
    let (_home, hub) = hub_of_all().await;
    for agent in [FIRST_AGENT, "codex", "other"] {
        let supervise = json!({"agent": agent, "supervise": "all"});
        let session = hub.create(agent, supervise).await;
        hub.chat(&session, "hello").await;
        let approval = hub.wait_for_approval(&session).await;
        check(agent, &approval["target"]);
        hub.respond(&approval, true).await;
        hub.wait_for_end(&session, 0).await;

        let page = hub.page(&session, 0, 0, 1000).await;
        let events = page["events"].as_array().unwrap();
        for event in events {
            let tells = ["tool_use", "awaiting_approval"]
                .contains(&event["event"]["type"].as_str().unwrap());
            match tells {
                true => check(agent, &event["target"]),
                false => assert_eq!(event.get("target"), None, "{agent}: {event:#}"),
            }
        }
        let of = |kind: &str| events.iter().find(|event| event["event"]["type"] == kind).unwrap();
        assert_eq!(of("tool_use")["event"].get("target"), None, "it is not of the stored event");

        let mut stream = hub.stream("agents.follow", json!({"session_id": session})).await;
        for expected in events {
            let item = stream.next().await.unwrap().unwrap();
            let item: Value = serde_json::from_str(item.body.get()).unwrap();
            assert_eq!(item["target"], expected["target"], "{agent}");
        }

        let of_session = json!({"session_id": session});
        let history = hub.ok("loopback.history", of_session.clone()).await;
        assert_eq!(history["decisions"][0]["target"], approval["target"], "{agent}");
        let history = hub.read_by(Reader::Model, "loopback.history", of_session).await;
        let decided = &history["decisions"][0];
        assert_eq!((decided.get("target"), &decided["input"]), (None, &approval["input"]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_an_agent_that_is_gone_has_no_target() {
    let (_home, hub) = hub_of_all().await;
    let session = hub.create("gone", json!({"agent": "codex", "supervise": "all"})).await;
    hub.chat(&session, "hello").await;
    let approval = hub.wait_for_approval(&session).await;
    hub.respond(&approval, true).await;
    hub.wait_for_end(&session, 0).await;
    let mut down = hub.down().await;
    down.set_agents(Drivers::default().with(FIRST_AGENT, Arc::new(ClaudeCode)));
    let (hub, _) = down.up().await;
    let page = hub.page(&session, 0, 0, 1000).await;
    let events = page["events"].as_array().unwrap();
    assert!(events.iter().any(|event| event["event"]["type"] == "tool_use"), "{page:#}");
    assert!(events.iter().all(|event| event.get("target").is_none()), "{page:#}");
    let history = hub.ok("loopback.history", json!({"session_id": session})).await;
    assert_eq!(history["decisions"][0].get("target"), None);
}
