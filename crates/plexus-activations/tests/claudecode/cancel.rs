//! Cancelling a chat in each state it can be in: it ends `cancelled`, its readers are told why, and
//! nothing is left alive.

use std::io::Write as _;
use std::time::Duration;

use plexus_core::Caller;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::{DEADLINE, SimulatedHub, types};
use crate::flow::WRITE;

async fn cancel(hub: &SimulatedHub, session: &str) -> Value {
    hub.ok("claudecode.cancel", json!({"session_id": session, "reason": "enough"})).await
}

/// The chat has ended as it should, and the session takes the next one.
async fn ends_cancelled_and_goes_on(hub: &SimulatedHub, session: &str, chat: u64) {
    assert_eq!(hub.wait_for_end(session, chat).await, "cancelled");
    let events = hub.events(session, chat).await;
    assert_eq!(events.last().unwrap(), &json!({"type": "error", "message": "cancelled: enough"}));
    assert_eq!(types(&events).iter().filter(|kind| **kind == "error").count(), 1);
    let next = hub.chat_to_end(session, "sim:\nsay still here").await;
    assert_eq!(next.last().unwrap()["type"], "complete");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_starting() {
    let hub = SimulatedHub::new().await;
    for attempt in 0..5 {
        let session = hub.create(&format!("starting-{attempt}"), json!({})).await;
        let chat = hub.chat(&session, "sim:\nhang").await;
        tokio::time::sleep(Duration::from_millis(attempt * 4)).await;
        assert_eq!(cancel(&hub, &session).await["type"], "cancelled");
        ends_cancelled_and_goes_on(&hub, &session, chat).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_streaming_the_child_stays_warm() {
    // A child that is slow to hear the interrupt may not be killed.
    let hub = SimulatedHub::with(|settings| settings.grace = Duration::from_secs(3_600)).await;
    let session = hub.create("streaming", json!({})).await;
    let chat = hub
        .chat(
            &session,
            "sim:\nsay first\nslowly 50 one two three four five six seven eight nine ten\nhang",
        )
        .await;
    hub.wait_for_event(&session, "content").await;
    cancel(&hub, &session).await;
    ends_cancelled_and_goes_on(&hub, &session, chat).await;
    assert_eq!(
        hub.runs(&session).await,
        1,
        "an interrupt is enough; the process serves the next chat"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_tool_that_goes_on_for_ever() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("tool", json!({})).await;
    let command = "touch started; while :; do sleep 0.1; done";
    let chat =
        hub.chat(&session, &format!("sim:\ntool Bash {}", json!({"command": command}))).await;
    hub.allow_next(&session).await;
    let started = hub.work().join("started");
    testkit::eventually_async("the tool's first act", DEADLINE, || {
        std::future::ready(started.exists().then_some(()))
    })
    .await;
    cancel(&hub, &session).await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "cancelled");
    hub.end_children().await;
    assert_eq!(hub.processes(), [], "the tool lives on");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_it_waits_for_permission() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("asking", json!({})).await;
    let chat = hub.chat(&session, WRITE).await;
    let approval = hub.wait_for_approval(&session).await;
    cancel(&hub, &session).await;
    ends_cancelled_and_goes_on(&hub, &session, chat).await;
    let late = hub
        .call("loopback.respond", json!({"approval_id": approval["id"], "approve": true}))
        .await
        .unwrap_err();
    assert_eq!(serde_json::to_value(late.kind).unwrap(), "conflict");
    assert!(!hub.work().join("note.txt").exists());
    assert_eq!(hub.ok("loopback.pending", json!({})).await["approvals"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_allow_leaves_over_mcp_while_a_chat_is_being_stopped() {
    // An agent that hears no interrupt, and a grace that is longer than the test.
    let deaf = "while :; do sleep 1; done";
    let hub = SimulatedHub::with(|settings| {
        settings.grace = Duration::from_secs(3_600);
        let leading = ["-c", deaf, "sh"].map(Into::into).to_vec();
        let program = plexus_engine::ProgramLine { program: "/bin/sh".into(), leading };
        settings.install(plexus_wire::FIRST_AGENT, program);
    })
    .await;
    let session = hub.create("asking", json!({})).await;
    let chat = hub.chat(&session, "anything").await;
    let runs = || std::future::ready((hub.children() == 1).then_some(()));
    testkit::eventually_async("a child", DEADLINE, runs).await;
    let permit = |call: &str| {
        let params = json!({"tool_name": "Write", "tool_use_id": call,
            "input": {"file_path": "note.txt", "content": "x"}});
        let caller = Caller::Child(session.parse().unwrap());
        hub.call_as(caller, "loopback.permit", params)
    };
    let decide = async {
        let asked = hub.wait_for_approval(&session).await;
        cancel(&hub, &session).await;
        // The agent still waits, so the question can be answered. The answer does not leave.
        hub.ok("loopback.respond", json!({"approval_id": asked["id"], "approve": true})).await;
    };
    let (answer, ()) = tokio::join!(permit("toolu_1"), decide);
    let answer = answer.unwrap();
    assert_eq!(answer["behavior"], "deny", "{answer}");
    assert_eq!(answer["message"], "denied: the chat is being stopped");
    let answer = permit("toolu_2").await.unwrap();
    assert_eq!(answer["behavior"], "deny", "{answer}");
    let why = "denied: could not ask for permission: the chat is being stopped";
    assert_eq!(answer["message"], why);
    let pending = hub.ok("loopback.pending", json!({})).await;
    assert_eq!(pending["approvals"], json!([]));
    // A second wish ends the process.
    cancel(&hub, &session).await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "cancelled");
    let history = hub.ok("loopback.history", json!({"session_id": session})).await;
    assert_eq!(history["decisions"][0]["delivered_at"], json!(null), "{history}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_allow_leaves_over_mcp_to_a_process_that_outlives_its_chat() {
    // An agent that ends its turn when it is interrupted, and does not leave when it should.
    let lingers = r#"while read -r line; do case "$line" in
        *'"type":"user"'*) prompt=$(printf %s "$line" | sed 's/.*"uuid":"\([^"]*\)".*/\1/');;
        *interrupt*) break;;
        esac; done
        echo '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"bye"}'
        echo "{\"type\":\"command_lifecycle\",\"command_uuid\":\"$prompt\",\"state\":\"completed\"}"
        echo '{"type":"system","subtype":"session_state_changed","state":"idle"}'
        while :; do sleep 1; done"#;
    let hub = SimulatedHub::with(|settings| {
        settings.grace = Duration::from_secs(3_600);
        settings.max_warm = 0;
        let leading = ["-c", lingers, "sh"].map(Into::into).to_vec();
        let program = plexus_engine::ProgramLine { program: "/bin/sh".into(), leading };
        settings.install(plexus_wire::FIRST_AGENT, program);
    })
    .await;
    let session = hub.create("lingering", json!({})).await;
    let chat = hub.chat(&session, "anything").await;
    let runs = || std::future::ready((hub.children() == 1).then_some(()));
    testkit::eventually_async("a child", DEADLINE, runs).await;
    let params = json!({"tool_name": "Write", "tool_use_id": "toolu_1",
        "input": {"file_path": "note.txt", "content": "x"}});
    let caller = Caller::Child(session.parse().unwrap());
    let permit = hub.call_as(caller, "loopback.permit", params);
    let decide = async {
        let asked = hub.wait_for_approval(&session).await;
        cancel(&hub, &session).await;
        assert_eq!(hub.wait_for_end(&session, chat).await, "cancelled");
        assert_eq!(hub.children(), 1, "the process has gone with its chat");
        hub.ok("loopback.respond", json!({"approval_id": asked["id"], "approve": true})).await;
    };
    let (answer, ()) = tokio::join!(permit, decide);
    let answer = answer.unwrap();
    assert_eq!(answer["behavior"], "deny", "{answer}");
    assert_eq!(answer["message"], "denied: the chat is being stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_child_has_nothing_to_cancel() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("idle", json!({})).await;
    hub.chat_to_end(&session, "sim:\nsay done").await;
    let nothing = hub.call("claudecode.cancel", json!({"session_id": session})).await.unwrap_err();
    assert_eq!(serde_json::to_value(nothing.kind).unwrap(), "conflict");
    assert_eq!(hub.children(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_session_ends_its_child_and_removes_its_files() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("doomed", json!({})).await;
    hub.chat(&session, "sim:\nsay on my way\nhang").await;
    hub.wait_for_event(&session, "content").await;
    let deleted = hub.ok("claudecode.delete", json!({"session_id": session})).await;
    assert_eq!(deleted, json!({"type": "deleted", "id": session}));
    assert_eq!(hub.processes(), []);
    assert!(!hub.data().join("runs").join(&session).exists());
    let gone = hub
        .call("claudecode.chat_async", json!({"session_id": session, "prompt": "x"}))
        .await
        .unwrap_err();
    assert_eq!(serde_json::to_value(gone.kind).unwrap(), "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_cancel_ends_the_process() {
    let hub = SimulatedHub::with(|settings| settings.grace = Duration::from_secs(60)).await;
    let session = hub.create("twice", json!({})).await;
    let chat = hub.chat(&session, "sim:\nsay here\nhang").await;
    hub.wait_for_event(&session, "content").await;
    // It cannot heed the interrupt, and its grace is long: only a second wish makes it go sooner.
    let child = hub.pids(&session, 0).1;
    testkit::process::signal(child, Signal::STOP);
    cancel(&hub, &session).await;
    cancel(&hub, &session).await;
    testkit::process::signal(child, Signal::CONT);
    ends_cancelled_and_goes_on(&hub, &session, chat).await;
    assert_eq!(hub.runs(&session).await, 2, "the process was kept for the next chat");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_floods_and_does_not_listen_cannot_put_off_its_end() {
    // Lines that cost nothing and never end, faster than anybody reads them, from a child that
    // reads nothing: there is always another one to look at.
    let flood = r#"yes '{"type":"keep_alive"}' | head -c 2000000 > blob; while :; do cat blob; sleep 0.05; done"#;
    let hub = SimulatedHub::with(|settings| {
        settings.grace = Duration::from_millis(200);
        let leading = ["-c", flood, "sh"].map(Into::into).to_vec();
        let program = plexus_engine::ProgramLine { program: "/bin/sh".into(), leading };
        settings.install(plexus_wire::FIRST_AGENT, program);
    })
    .await;
    let session = hub.create("flood", json!({})).await;
    let chat = hub.chat(&session, "anything").await;
    let journal = hub.run_dir(&session, 0).join("journal");
    let flooded = || {
        std::future::ready(
            std::fs::metadata(journal.join("000001.jsonl"))
                .ok()
                .filter(|file| file.len() > 100_000),
        )
    };
    testkit::eventually_async("a flood", DEADLINE, flooded).await;
    cancel(&hub, &session).await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "cancelled");
    assert_eq!(hub.processes(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_answer_to_an_interrupt_interrupts_only_a_chat_that_is_to_end() {
    let hub = SimulatedHub::with(|settings| settings.grace = Duration::from_secs(600)).await;
    let session = hub.create("late", json!({})).await;
    let chat = hub.chat(&session, "sim:\nsay here\nhang").await;
    hub.wait_for_event(&session, "content").await;
    // From here on the child says what the test says, and what it is sent stays in its inbox.
    testkit::process::signal(hub.pids(&session, 0).0, Signal::STOP);
    let prompt = hub.store().chat(session.parse().unwrap(), Some(0)).await.unwrap().prompt_uuid;
    let late = json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": "plexus-interrupt-late", "response": {"still_queued": [prompt]},
    }});
    let interrupts = |hub: &SimulatedHub| {
        let inbox = std::fs::read_dir(hub.run_dir(&session, 0).join("inbox")).unwrap();
        inbox
            .filter(|entry| {
                std::fs::read_to_string(entry.as_ref().unwrap().path())
                    .unwrap()
                    .contains("interrupt")
            })
            .count()
    };
    let says = async |hub: &SimulatedHub, name: &str| {
        let path = hub.run_dir(&session, 0).join("journal/000001.jsonl");
        let mut journal = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        // The line after it is read when everything that the line asks for is done.
        for line in [&late, &json!({"type": name})] {
            journal.write_all(format!("{line}\n").as_bytes()).unwrap();
            hub.wait_for(&session, name, |page| line == &late || page.to_string().contains(name))
                .await;
        }
        let last = format!("behind-{name}");
        journal.write_all(format!("{}\n", json!({"type": last})).as_bytes()).unwrap();
        hub.wait_for(&session, &last, |page| page.to_string().contains(&last)).await;
    };
    says(&hub, "first").await;
    assert_eq!(interrupts(&hub), 0, "nobody cancelled this chat");
    cancel(&hub, &session).await;
    assert_eq!(interrupts(&hub), 1);
    says(&hub, "second").await;
    assert_eq!(interrupts(&hub), 2, "its prompt is still queued, so it is interrupted again");
    assert_eq!(hub.page(&session, chat, 0, 1).await["status"], "running");
}
