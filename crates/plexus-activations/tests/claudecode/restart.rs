//! The server goes and comes back on the same data while its children live, or die: events are
//! complete, in order, once.

use std::io::Write as _;
use std::sync::Arc;

use plexus_core::digest::input_digest;
use plexus_core::{ApprovalId, SessionId};
use plexus_shim::layout::{RunDir, SegmentNo};
use plexus_store::{
    Again, AssignRun, Change, CreateRun, DecideApproval, DecidedBy, JsonText, OpenApproval, Owner,
    Priority, StartChat, Store, StoreError, UnixMillis, Verdict,
};
use serde_json::json;

use crate::common::{DEADLINE, SimulatedHub, texts, types};
use crate::flow::WRITE;

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{n} xxxx")).collect()
}

/// Texts of a `burst`, cut to their number and a few letters.
fn bursts(texts: &[&str]) -> Vec<String> {
    texts
        .iter()
        .map(|text| {
            text.split_once(' ').map_or_else(|| (*text).to_owned(), |(n, _)| format!("{n} xxxx"))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_child_streams() {
    let mut hub = SimulatedHub::new().await;
    let session = hub.create("streams", json!({})).await;
    let script: String = (0..40).map(|n| format!("\nsay {n} xxxx\nsleep 20")).collect();
    // It asks near the end, so that it is there for every restart, however slow they are.
    let asks = "tool Write {\"file_path\":\"note.txt\",\"content\":\"hello\"}\nsay 40 xxxx";
    let chat = hub.chat(&session, &format!("sim:{script}\n{asks}")).await;
    for _ in 0..4 {
        let before = hub.page(&session, chat, 0, 1).await["total_events"].as_u64().unwrap();
        hub.wait_for(&session, "another event, or the question", |page| {
            page["total_events"].as_u64().unwrap() > before
                || page["status"] == "awaiting_permission"
        })
        .await;
        let picked_up;
        (hub, picked_up) = hub.restart().await;
        assert_eq!(picked_up, 1);
    }
    hub.respond(&hub.wait_for_approval(&session).await, true).await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "complete");
    let events = hub.events(&session, chat).await;
    assert_eq!(bursts(&texts(&events)), numbered(41));
    assert_eq!(types(&events).iter().filter(|kind| **kind == "complete").count(), 1);
    // The same process, which never noticed, takes the next chat.
    hub.chat_to_end(&session, "sim:\nsay next").await;
    assert_eq!(hub.runs(&session).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_child_waits_for_permission() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("asks", json!({})).await;
    let chat = hub.chat(&session, WRITE).await;
    let approval = hub.wait_for_approval(&session).await;
    let (hub, _) = hub.restart().await;
    let (hub, _) = hub.restart().await;
    let still = hub.wait_for_approval(&session).await;
    assert_eq!(still["id"], approval["id"], "the same question, not asked again");
    hub.respond(&still, true).await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "complete");
    let events = hub.events(&session, chat).await;
    assert_eq!(types(&events).iter().filter(|kind| **kind == "awaiting_approval").count(), 1);
    assert_eq!(std::fs::read_to_string(hub.work().join("note.txt")).unwrap(), "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_server_is_away_the_child_finishes_and_leaves() {
    let hub = SimulatedHub::with(|settings| settings.max_warm = 0).await;
    let session = hub.create("away", json!({"allowed_tools": ["Bash"]})).await;
    let input = json!({"command": "touch runs; while ! test -e go; do sleep 0.05; done"});
    let script = format!("sim:\nsay begun\ntool Bash {input}\nburst 500 40\nsay over\nexit 0");
    let chat = hub.chat(&session, &script).await;
    // The server answers the call by a rule, so it may not go away before.
    let runs = hub.work().join("runs");
    testkit::eventually_async("the command", DEADLINE, || {
        std::future::ready(runs.exists().then_some(()))
    })
    .await;
    let down = hub.down().await;
    std::fs::write(down.work().join("go"), "").unwrap();
    let exit = down.data().join("runs").join(&session).join("0").join("exit.json");
    testkit::eventually_async("exit.json", DEADLINE, || {
        std::future::ready(exit.exists().then_some(()))
    })
    .await;
    let (hub, picked_up) = down.up().await;
    assert_eq!(picked_up, 1);
    assert_eq!(hub.wait_for_end(&session, chat).await, "failed", "it left without a result");
    let events = hub.events(&session, chat).await;
    assert_eq!(texts(&events).len(), 502);
    assert!(
        events.last().unwrap()["message"].as_str().unwrap().contains("exit code 0"),
        "{:?}",
        events.last()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_died_while_the_server_was_away_failed_with_everything_it_said() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("died", json!({})).await;
    let chat = hub.chat(&session, "sim:\nsay first\nsleep 200\nburst 200 30\nhang").await;
    hub.wait_for_event(&session, "content").await;
    let down = hub.down().await;
    let dir = RunDir::new(down.data().join("runs").join(&session).join("0"));
    let journal = dir.segment(SegmentNo(1));
    let said = || {
        std::future::ready(
            std::fs::read_to_string(&journal).unwrap().contains("199 xx").then_some(()),
        )
    };
    testkit::eventually_async("the child's last words", DEADLINE, said).await;
    kill(dir.read_pid().unwrap().unwrap().child_pid);
    let (hub, _) = down.up().await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "failed");
    let events = hub.events(&session, chat).await;
    assert_eq!(texts(&events).len(), 201);
    assert!(
        events.last().unwrap()["message"].as_str().unwrap().contains("signal 9"),
        "{:?}",
        events.last()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_line_of_a_shim_that_was_killed_is_told_of_and_nothing_before_it_is_lost() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("torn", json!({})).await;
    let chat = hub.chat(&session, "sim:\nsay whole\nhang").await;
    hub.wait_for_event(&session, "content").await;
    let down = hub.down().await;
    let dir = RunDir::new(down.data().join("runs").join(&session).join("0"));
    let pids = dir.read_pid().unwrap().unwrap();
    kill(pids.shim_pid);
    kill(pids.child_pid);
    let mut journal =
        std::fs::OpenOptions::new().append(true).open(dir.segment(SegmentNo(1))).unwrap();
    journal
        .write_all(b"{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"te")
        .unwrap();
    let (hub, _) = down.up().await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "failed");
    let events = hub.events(&session, chat).await;
    assert_eq!(types(&events), ["start", "notice", "content", "error", "error"], "{events:#?}");
    assert!(
        events[3]["message"].as_str().unwrap().contains("could not be read"),
        "{:?}",
        events[3]
    );
    assert!(
        !events[3].to_string().contains("\"te"),
        "nothing of a line that cannot be read is shown"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recycled_pid_is_not_taken_for_the_child() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("recycled", json!({})).await;
    let chat = hub.chat(&session, "sim:\nsay here\nhang").await;
    hub.wait_for_event(&session, "content").await;
    let down = hub.down().await;
    let dir = RunDir::new(down.data().join("runs").join(&session).join("0"));
    let mut pids = dir.read_pid().unwrap().unwrap();
    kill(pids.shim_pid);
    kill(pids.child_pid);
    // Somebody else has the numbers now: a process that must not be watched, and must not be hurt.
    let mut stranger = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    pids.shim_pid = i32::try_from(stranger.id()).unwrap();
    pids.child_pid = pids.shim_pid;
    dir.write_pid(&pids).unwrap();
    let (hub, _) = down.up().await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "failed");
    assert!(stranger.try_wait().unwrap().is_none(), "a stranger was killed");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_was_never_delivered_is_sent_again() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("undelivered", json!({})).await;
    let chat = hub.chat(&session, WRITE).await;
    let approval = hub.wait_for_approval(&session).await;
    // Decided in the store, and the server dies before the answer leaves: as if by another process
    // that never tells the run.
    let decide = allow(approval["id"].as_str().unwrap().parse().unwrap());
    hub.store().commit(vec![decide], Priority::Urgent).await.unwrap();
    // What a crash in the middle of a write leaves in the inbox is not a message.
    std::fs::write(
        hub.run_dir(&session, 0).join("inbox").join(".half-a-message"),
        "{\"type\":\"con",
    )
    .unwrap();
    let (hub, _) = hub.restart().await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "complete");
    assert_eq!(std::fs::read_to_string(hub.work().join("note.txt")).unwrap(), "hello");
    let history = hub.ok("loopback.history", json!({})).await;
    assert!(history["decisions"][0]["delivered_at"].is_number(), "{history:#}");
}

/// Stores what remains when shim and server are killed after the child has asked over MCP, but
/// before the shim could record that there is a child: the chat, the row of its run, and
/// `questions` open questions.
async fn silent_run(
    hub: &SimulatedHub,
    session: &str,
    prompt: &str,
    questions: usize,
) -> Vec<ApprovalId> {
    let session: SessionId = session.parse().unwrap();
    let launch = JsonText::from(json!({"agent": "claude", "ephemeral": false}));
    let mut changes = vec![
        Change::StartChat(StartChat::new(session, prompt)),
        Change::CreateRun(CreateRun {
            session,
            expects_n: Some(0),
            channel: "mcp".to_owned(),
            launch,
        }),
        Change::AssignRun(AssignRun { session, chat: 0, run: 0 }),
    ];
    let ids: Vec<_> = (0..questions).map(|_| ApprovalId::generate()).collect();
    changes.extend(ids.iter().map(|id| {
        let input = json!({"file_path": "note.txt", "content": "hello"});
        Change::OpenApproval(OpenApproval {
            id: *id,
            session,
            chat: Some(0),
            run: Some(0),
            channel: "mcp".to_owned(),
            request_id: id.to_string(),
            tool_name: "Write".to_owned(),
            tool_use_id: id.to_string(),
            input_digest: input_digest(&input),
            input: JsonText::from(input),
            description: None,
            person_only: None,
            suggestions: JsonText::from(json!([])),
            owner: Owner::Operator,
            at: UnixMillis::now(),
            deadline: None,
            escalate_at: None,
            event: None,
            parent_event: None,
            outbox: vec![],
        })
    }));
    hub.store().commit(changes, Priority::Urgent).await.unwrap();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_a_run_that_left_nothing_else_is_closed_and_its_chat_is_served_anew() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("silent", json!({})).await;
    let lost = silent_run(&hub, &session, WRITE, 1).await[0];
    let (hub, _) = hub.restart().await;
    let asked = hub.wait_for_approval(&session).await;
    assert_ne!(asked["id"], json!(lost), "nobody waits for the answer to the old question");
    let history = hub.ok("loopback.history", json!({})).await;
    let closed = &history["decisions"][0];
    assert_eq!(
        (&closed["approval_id"], &closed["decided_by"]),
        (&json!(lost), &json!("agent_ended"))
    );
    hub.respond(&asked, true).await;
    assert_eq!(hub.wait_for_end(&session, 0).await, "complete");
    assert_eq!(std::fs::read_to_string(hub.work().join("note.txt")).unwrap(), "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_come_while_such_a_run_is_ended_do_not_keep_its_chat_from_being_served() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("silent", json!({})).await;
    let questions = silent_run(&hub, &session, "sim:\nsay served", 30).await;
    let answer_all = async |store: Arc<dyn Store>| {
        for id in questions {
            match store.commit(vec![allow(id)], Priority::Urgent).await {
                // Too late: it was closed with its run.
                Ok(_) | Err(StoreError::Conflict { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    let (hub, _) = hub.down().await.up_beside(answer_all).await;
    assert_eq!(hub.wait_for_end(&session, 0).await, "complete");
    assert_eq!(texts(&hub.events(&session, 0).await), ["served"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_was_asked_for_before_the_restart_is_carried_out_after_it() {
    let hub =
        SimulatedHub::with(|settings| settings.grace = std::time::Duration::from_secs(5)).await;
    let session = hub.create("late-cancel", json!({})).await;
    let chat = hub.chat(&session, "sim:\nsay here\nhang").await;
    hub.wait_for_event(&session, "content").await;
    hub.ok("claudecode.cancel", json!({"session_id": session, "reason": "enough"})).await;
    let (hub, _) = hub.restart().await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_child_is_known_to_be_idle_after_a_restart() {
    let hub = SimulatedHub::with(|settings| settings.max_warm = 1).await;
    let (a, b) = (hub.create("a", json!({})).await, hub.create("b", json!({})).await);
    hub.chat_to_end(&a, "sim:\nsay x").await;
    let (hub, _) = hub.restart().await;
    hub.chat_to_end(&b, "sim:\nsay y").await;
    let bounded = || std::future::ready((hub.children() == 1).then_some(()));
    testkit::eventually_async("one child left", DEADLINE, bounded).await;
    hub.chat_to_end(&b, "sim:\nsay z").await;
    assert_eq!(hub.runs(&b).await, 1, "the one that was idle longer had to leave");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_whose_pid_file_cannot_be_read_is_neither_doubled_nor_given_up() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("unreadable", json!({"allowed_tools": ["Bash"]})).await;
    let input = json!({"command": "while ! test -e go; do sleep 0.05; done"});
    let chat = hub.chat(&session, &format!("sim:\nsay here\ntool Bash {input}\nsay done")).await;
    hub.wait_for_event(&session, "content").await;
    let down = hub.down().await;
    let file = down.data().join("runs").join(&session).join("0/pid.json");
    let pids = std::fs::read(&file).unwrap();
    std::fs::write(&file, "{\"format_ver").unwrap();
    let (hub, _) = down.up().await;
    assert_eq!(
        (hub.children(), hub.runs(&session).await),
        (0, 1),
        "it lives, so nobody else may take its place"
    );
    assert_eq!(hub.session(&session).await["status"], "running");
    let down = hub.down().await;
    std::fs::write(&file, pids).unwrap();
    std::fs::write(down.work().join("go"), "").unwrap();
    let (hub, _) = down.up().await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "complete");
    assert_eq!(texts(&hub.events(&session, chat).await), ["here", "done"]);
    assert_eq!(hub.runs(&session).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_starts_while_the_server_stops_and_the_next_one_serves_it() {
    let hub = SimulatedHub::new().await;
    let (busy, late) = (hub.create("busy", json!({})).await, hub.create("late", json!({})).await);
    hub.chat(&busy, "sim:\nsay here\nhang").await;
    hub.wait_for_event(&busy, "content").await;
    hub.end_children().await;
    assert_eq!((hub.children(), hub.processes()), (0, vec![]));
    let chat = hub.chat(&late, "sim:\nsay served").await;
    let (hub, picked_up) = hub.restart().await;
    assert_eq!(picked_up, 0, "the server that stopped has started a child");
    assert_eq!(hub.wait_for_end(&late, chat).await, "complete");
    assert_eq!(texts(&hub.events(&late, chat).await), ["served"]);
    assert_eq!(hub.runs(&late).await, 1);
}

/// The operator's yes, said to the store.
fn allow(id: ApprovalId) -> Change {
    Change::DecideApproval(DecideApproval {
        id,
        expects_digest: None,
        verdict: Verdict::Allow { updated_input: None },
        by: DecidedBy::Operator,
        message: None,
        at: UnixMillis::now(),
        event: None,
        again: Again::Fine,
        outbox: vec![],
    })
}

fn kill(pid: i32) {
    let pid = u32::try_from(pid).unwrap();
    testkit::process::kill(pid);
    testkit::process::wait_until_gone(pid, DEADLINE);
}
