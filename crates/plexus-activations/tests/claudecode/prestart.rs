//! An agent that is started before its first chat. The chat uses it if the same agent would be
//! started now. Otherwise it is like any idle child, and whatever it asks before its chat is
//! denied.

use plexus_engine::Settings;
use plexus_engine::settings::Prestart;
use serde_json::{Value, json};

use crate::common::{DEADLINE, SimulatedHub, texts, types};
use crate::puppet::Puppet;

fn on(settings: &mut Settings) {
    settings.prestart = Prestart::On;
}

/// Waits until so many children live.
async fn children(hub: &SimulatedHub, count: usize) {
    let there = || std::future::ready((hub.children() == count).then_some(()));
    testkit::eventually_async(&format!("{count} children"), DEADLINE, there).await;
}

/// Waits until so many children are known to wait for a prompt.
async fn warm(hub: &SimulatedHub, count: u64) {
    let look = || async {
        let health = hub.ok("plexus.health", json!({})).await;
        (health["activations"]["agents"]["warm"] == count).then_some(())
    };
    testkit::eventually_async(&format!("{count} warm children"), DEADLINE, look).await;
}

/// Waits until the agent of a session is there, and returns the process.
async fn waits(hub: &SimulatedHub, session: &str) -> u32 {
    let dir = plexus_shim::layout::RunDir::new(hub.run_dir(session, 0));
    let pid = || std::future::ready(dir.read_pid().ok().flatten().map(|pids| pids.child_pid));
    let pid = testkit::eventually_async("an agent that waits", DEADLINE, pid).await;
    children(hub, 1).await;
    u32::try_from(pid).unwrap()
}

/// A hub with one session whose agent waits for its first chat, and its process.
async fn with_one_waiting(more: Value) -> (SimulatedHub, String, u32) {
    let hub = SimulatedHub::with(on).await;
    let session = hub.create("early", more).await;
    let pid = waits(&hub, &session).await;
    (hub, session, pid)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_chat_is_served_by_the_process_that_waited_for_it() {
    let (hub, session, pid) = with_one_waiting(json!({})).await;
    assert_eq!(hub.session(&session).await["status"], "idle", "it has had no chat");
    warm(&hub, 1).await;

    let events = hub.chat_to_end(&session, "sim:\nsay at once").await;
    assert_eq!(texts(&events), ["at once"]);
    assert_eq!((hub.runs(&session).await, hub.pids(&session, 0).1), (1, pid));
    let cold = hub.create("cold", json!({"prestart": false})).await;
    let cold_events = hub.chat_to_end(&cold, "sim:\nsay at once").await;
    assert_eq!(types(&events), types(&cold_events), "a reader sees the same");
    assert_eq!(events[1], cold_events[1], "the start is told of in the first chat");
    assert!(events[1]["message"].as_str().unwrap().contains("asking over the control channel"));

    hub.chat_to_end(&session, "sim:\nrecall").await;
    assert_eq!(hub.runs(&session).await, 1, "it stays warm like any other");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_that_follows_at_once_has_one_process_and_one_prompt() {
    let hub = SimulatedHub::with(on).await;
    for n in 0..8 {
        let session = hub.create(&format!("at-once-{n}"), json!({})).await;
        let events = hub.chat_to_end(&session, "sim:\nsay once").await;
        assert_eq!((texts(&events), hub.runs(&session).await), (vec!["once"], 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_would_be_started_otherwise_now_is_ended() {
    let (hub, session, _) = with_one_waiting(json!({"budget": {"turns": 50}})).await;
    let budget = json!({"session_id": session, "budget": {"turns": 40}});
    hub.ok("agents.budget_set", budget).await;
    hub.chat_to_end(&session, "sim:\nsay x").await;
    assert_eq!(hub.runs(&session).await, 2, "the limit of turns is one of its arguments");

    let (hub, session, _) = with_one_waiting(json!({})).await;
    std::fs::write(hub.work().join("CLAUDE.md"), "be kind").unwrap();
    let events = hub.chat_to_end(&session, "sim:\nsay x").await;
    assert_eq!(hub.runs(&session).await, 2, "it started before there were instructions");
    assert!(events.iter().any(|event| event["message"] == "read of the project: CLAUDE.md"));

    let again = hub.create("instructed", json!({})).await;
    let dir = plexus_shim::layout::RunDir::new(hub.run_dir(&again, 0));
    let there = || std::future::ready(dir.read_pid().ok().flatten());
    testkit::eventually_async("an agent that waits", DEADLINE, there).await;
    std::fs::write(hub.work().join("CLAUDE.md"), "be kind and brief").unwrap();
    hub.chat_to_end(&again, "sim:\nsay x").await;
    assert_eq!(hub.runs(&again).await, 2, "it may have read the older instructions");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ephemeral_first_chat_has_a_process_of_its_own() {
    let (hub, session, _) = with_one_waiting(json!({})).await;
    let chat = json!({"session_id": session, "prompt": "sim:\nsay aside", "ephemeral": true});
    let chat = hub.ok("agents.chat_async", chat).await["chat"].as_u64().unwrap();
    assert_eq!(hub.wait_for_end(&session, chat).await, "complete");
    assert_eq!(hub.runs(&session).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_are_started_than_may_be_idle_and_no_warm_child_leaves_for_one() {
    let hub = SimulatedHub::with(|settings| {
        on(settings);
        settings.max_warm = 2;
    })
    .await;
    let warm = hub.create("warm", json!({"prestart": false})).await;
    hub.chat_to_end(&warm, "sim:\nsay warm").await;
    self::warm(&hub, 1).await;
    let mut sessions = Vec::new();
    for n in 0..4 {
        sessions.push(hub.create(&format!("early-{n}"), json!({})).await);
    }
    waits_for_run(&hub, &sessions[0]).await;
    for session in &sessions[1..] {
        assert_eq!(hub.runs(session).await, 0, "there was no room for it");
    }
    hub.chat_to_end(&warm, "sim:\nrecall").await;
    assert_eq!(hub.runs(&warm).await, 1, "the warm child stayed");
    // All of them are served all the same, and what is idle stays within its bound.
    for session in &sessions {
        assert_eq!(texts(&hub.chat_to_end(session, "sim:\nsay x").await), ["x"]);
    }
    children(&hub, 2).await;
}

/// Waits until a session has had a process.
async fn waits_for_run(hub: &SimulatedHub, session: &str) {
    let there = || async { (hub.runs(session).await > 0).then_some(()) };
    testkit::eventually_async("a run", DEADLINE, there).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_that_needs_the_place_gets_it() {
    let hub = SimulatedHub::with(|settings| {
        on(settings);
        settings.max_running = 1;
    })
    .await;
    let early = hub.create("early", json!({})).await;
    waits(&hub, &early).await;
    let other = hub.create("other", json!({})).await;
    assert_eq!(texts(&hub.chat_to_end(&other, "sim:\nsay mine").await), ["mine"]);
    assert_eq!(texts(&hub.chat_to_end(&early, "sim:\nsay later").await), ["later"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_session_says_whether_its_agent_is_started_early() {
    let hub = SimulatedHub::new().await;
    let off = hub.create("by-default", json!({})).await;
    let on = hub.create("wanted", json!({"prestart": true})).await;
    waits_for_run(&hub, &on).await;
    assert_eq!(hub.runs(&off).await, 0, "this server's default is off");
    let over_mcp = hub.create("mcp", json!({"prestart": true, "channel": "mcp"})).await;
    let second = hub.create("second", json!({"prestart": true})).await;
    waits_for_run(&hub, &second).await;
    assert_eq!(hub.runs(&over_mcp).await, 0, "over MCP the prompt is an argument");
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_the_session_ends_it() {
    let (hub, session, _) = with_one_waiting(json!({})).await;
    hub.ok("agents.delete", json!({"session_id": session})).await;
    children(&hub, 0).await;
    assert!(hub.processes().is_empty(), "{:?}", hub.processes());
    // Also while it is being started.
    for n in 0..8 {
        let session = hub.create(&format!("short-{n}"), json!({})).await;
        hub.ok("agents.delete", json!({"session_id": session})).await;
    }
    let gone = || std::future::ready(hub.processes().is_empty().then_some(()));
    testkit::eventually_async("the end of all processes", DEADLINE, gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_server_picks_it_up() {
    let (hub, session, pid) = with_one_waiting(json!({})).await;
    let (hub, picked_up) = hub.restart().await;
    assert_eq!((picked_up, hub.children()), (1, 1));
    let events = hub.chat_to_end(&session, "sim:\nsay still here").await;
    assert_eq!(texts(&events), ["still here"]);
    assert_eq!((hub.runs(&session).await, hub.pids(&session, 0).1), (1, pid));
    let told = events.iter().filter(|event| event["type"] == "notice").count();
    assert_eq!(told, 1, "the start is told of once: {events:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_dies_is_replaced_by_the_first_chat() {
    let (hub, session, pid) = with_one_waiting(json!({})).await;
    testkit::process::kill(pid);
    children(&hub, 0).await;
    assert_eq!(hub.session(&session).await["status"], "idle", "nobody's chat has failed");
    assert_eq!(texts(&hub.chat_to_end(&session, "sim:\nsay second").await), ["second"]);
    assert_eq!(hub.runs(&session).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_dies_as_its_chat_comes_loses_nothing() {
    for n in 0..4 {
        let (hub, session, pid) = with_one_waiting(json!({})).await;
        let chat = hub.chat(&session, "sim:\nsay heard");
        let (chat, ()) = tokio::join!(chat, async {
            if n % 2 == 0 {
                tokio::task::yield_now().await;
            }
            testkit::process::kill(pid);
        });
        let ended = hub.wait_for_end(&session, chat).await;
        let events = hub.events(&session, chat).await;
        // The process may have had the prompt, and then its end is the end of the chat.
        match ended.as_str() {
            "complete" => assert_eq!(texts(&events), ["heard"]),
            _ => assert!(events.last().unwrap()["message"].is_string(), "{events:#?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_asks_before_a_chat_is_denied() {
    let (puppet, hub, session) = Puppet::waiting().await;
    let ask = json!({
        "type": "control_request", "request_id": "too-early",
        "request": {"subtype": "can_use_tool", "tool_name": "Bash", "tool_use_id": "toolu_1",
                    "input": {"command": "touch made"}},
    });
    puppet.say(&ask.to_string());
    let answer = puppet.hears(1, &["too-early", "behavior"]).await;
    let answer = &answer["response"]["response"];
    assert_eq!(answer["behavior"], "deny");
    assert!(answer["message"].as_str().unwrap().contains("no chat has begun"), "{answer}");
    let pending = hub.ok("loopback.pending", json!({})).await;
    assert_eq!(pending["approvals"], json!([]), "nobody is asked");
    assert_eq!(hub.children(), 1, "it may go on waiting");
    // The first chat tells of it.
    hub.chat(&session, "play").await;
    let told = |page: &Value| page.to_string().contains("no chat has begun");
    hub.wait_for(&session, "what it asked", told).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_begins_to_work_before_a_chat_is_ended() {
    let (puppet, hub, session) = Puppet::waiting().await;
    puppet.say_init(&json!([]));
    let gone = || std::future::ready(hub.processes().is_empty().then_some(()));
    testkit::eventually_async("its end", DEADLINE, gone).await;
    let shown = hub.session(&session).await;
    assert_eq!(shown["status"], "idle", "it has no chat of its own: {shown:#}");
}
