//! What can be lost beside the server: half a message, a shim, a child, a pid. Each with a real
//! server that is killed and started again: afterwards the events are complete, in order, once, and
//! the status is right. Half a line is what a full disk leaves: see `full_disk`.

use std::io::Write as _;

use plexus_shim::layout::SegmentNo;
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::process;

use crate::simulated_server::{DEADLINE, SimulatedServer, awaited, exists, texts, types, until};

fn last_words(events: &[Value]) -> &str {
    events.last().unwrap()["message"].as_str().unwrap()
}

pub(crate) async fn killed_between_the_exit_of_a_child_and_our_noticing() {
    for (channel, last_step, expected) in
        [("mcp", "say over", "complete"), ("control", "say over\nexit 0", "failed")]
    {
        let mut setup = SimulatedServer::new().await;
        let session =
            setup.create("unnoticed", json!({"channel": channel, "allowed_tools": ["Bash"]})).await;
        setup
            .chat(&session, &format!("sim:\nsay begun\n{}\nburst 20 10\n{last_step}", until("go")))
            .await;
        exists(&setup.work().join(awaited("go"))).await;
        // The server stands still, so it cannot notice; then it is gone.
        process::signal(setup.server.pid().unwrap(), Signal::STOP);
        std::fs::write(setup.work().join("go"), "").unwrap();
        exists(&setup.run_dir(&session, 0).path().join("exit.json")).await;
        setup.server.kill_9().unwrap();
        setup.server.start_again().await.unwrap();
        let (status, events) = setup.end(&session).await;
        assert_eq!((channel, status.as_str()), (channel, expected));
        let said = texts(&events);
        assert_eq!((said.len(), said[0], said[21]), (22, "begun", "over"), "{said:?}");
        assert!(
            said[1..21].iter().enumerate().all(|(n, text)| text.starts_with(&format!("{n} "))),
            "{said:?}"
        );
        assert_eq!(
            types(&events).iter().filter(|kind| ["complete", "error"].contains(kind)).count(),
            1
        );
        assert_eq!(
            expected == "failed",
            events.last().unwrap().to_string().contains("exit code 0")
        );
    }
}

pub(crate) async fn killed_in_the_middle_of_a_write_to_the_inbox() {
    let mut setup = SimulatedServer::new().await;
    let session = setup.create("inbox", json!({})).await;
    setup
        .chat(&session, "sim:\nsay begun\ntool Bash {\"command\":\"echo x >> ran\"}\nsay over")
        .await;
    let approval = setup.approval(&session).await;
    let (dir, shim) = (setup.run_dir(&session, 0), setup.pids(&session, 0).0);
    // Nobody takes the answer, so it is still in the inbox when the server dies.
    process::signal(shim, Signal::STOP);
    setup.allow(&approval).await;
    let inbox = dir.path().join("inbox");
    let answer =
        testkit::eventually_async("the answer in the inbox", DEADLINE, || {
            let mut files = std::fs::read_dir(&inbox).unwrap().map(|entry| entry.unwrap().path());
            std::future::ready(files.find(|path| {
                std::fs::read_to_string(path).is_ok_and(|text| text.contains("behavior"))
            }))
        })
        .await;
    setup.server.kill_9().unwrap();
    // As it is while it is written: under a name that nobody reads, and half.
    let text = std::fs::read(&answer).unwrap();
    std::fs::write(inbox.join(".half-a-message"), &text[..text.len() / 2]).unwrap();
    std::fs::remove_file(&answer).unwrap();
    process::signal(shim, Signal::CONT);
    setup.server.start_again().await.unwrap();
    let (status, events) = setup.end(&session).await;
    assert_eq!(
        (status.as_str(), texts(&events)),
        ("complete", vec!["begun", "over"]),
        "{events:#?}"
    );
    for kind in ["awaiting_approval", "approval_resolved", "tool_result"] {
        assert_eq!(types(&events).iter().filter(|other| **other == kind).count(), 1, "{kind}");
    }
    assert_eq!(std::fs::read_to_string(setup.work().join("ran")).unwrap(), "x\n", "it ran once");
    let history = setup.call("loopback.history", json!({})).await;
    assert!(history["decisions"][0]["delivered_at"].is_number(), "{history:#}");
}

pub(crate) async fn a_recycled_pid_is_not_taken_for_the_child() {
    let mut setup = SimulatedServer::new().await;
    let session = setup.create("recycled", json!({})).await;
    setup.chat(&session, "sim:\nburst 5 10\nhang").await;
    setup.wait_for(&session, "its words", |page| page["total_events"] == 7).await;
    setup.server.kill_9().unwrap();
    let (dir, (shim, child)) = (setup.run_dir(&session, 0), setup.pids(&session, 0));
    for pid in [shim, child] {
        process::kill(pid);
        process::wait_until_gone(pid, DEADLINE);
    }
    // Somebody else has the numbers now: a process that must not be watched, and must not be hurt.
    let mut stranger = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let mut pids = dir.read_pid().unwrap().unwrap();
    pids.shim_pid = i32::try_from(stranger.id()).unwrap();
    pids.child_pid = pids.shim_pid;
    dir.write_pid(&pids).unwrap();
    setup.server.start_again().await.unwrap();
    let (status, events) = setup.end(&session).await;
    let hurt = stranger.try_wait().unwrap();
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert_eq!((status.as_str(), texts(&events).len(), hurt), ("failed", 5, None));
    assert!(last_words(&events).contains("nobody saw how"), "{events:#?}");
}

pub(crate) async fn a_shim_killed_under_a_server_that_runs_and_under_one_that_is_away() {
    for away in [false, true] {
        let mut setup = SimulatedServer::new().await;
        let session = setup.create("shim", json!({"allowed_tools": ["Bash"]})).await;
        setup.chat(&session, &format!("sim:\nburst 30 10\n{}", until("never"))).await;
        setup
            .wait_for(&session, "its words", |page| page["total_events"].as_u64() > Some(32))
            .await;
        let shim = setup.pids(&session, 0).0;
        if away {
            setup.server.kill_9().unwrap();
        }
        process::kill(shim);
        process::wait_until_gone(shim, DEADLINE);
        if away {
            // What a killed shim leaves in the middle of a write.
            let mut journal = std::fs::OpenOptions::new()
                .append(true)
                .open(setup.run_dir(&session, 0).segment(SegmentNo(1)))
                .unwrap();
            journal.write_all(b"{\"type\":\"assistant\",\"message\":{\"con").unwrap();
            setup.server.start_again().await.unwrap();
        }
        let (status, events) = setup.end(&session).await;
        assert_eq!((status.as_str(), texts(&events).len()), ("failed", 30), "{events:#?}");
        assert!(last_words(&events).contains("nobody saw how"), "{events:#?}");
        let errors = types(&events).iter().filter(|kind| **kind == "error").count();
        assert_eq!(errors, if away { 2 } else { 1 }, "half a line is told of, once: {events:#?}");
        setup.nothing_lives().await;
    }
}

pub(crate) async fn a_child_killed_under_a_server_that_runs_and_under_one_that_is_away() {
    for away in [false, true] {
        let mut setup = SimulatedServer::new().await;
        let session = setup.create("child", json!({"allowed_tools": ["Bash"]})).await;
        setup.chat(&session, &format!("sim:\nburst 30 10\n{}", until("never"))).await;
        setup
            .wait_for(&session, "its words", |page| page["total_events"].as_u64() > Some(32))
            .await;
        if away {
            setup.server.kill_9().unwrap();
        }
        process::kill(setup.pids(&session, 0).1);
        if away {
            exists(&setup.run_dir(&session, 0).path().join("exit.json")).await;
            setup.server.start_again().await.unwrap();
        }
        let (status, events) = setup.end(&session).await;
        assert_eq!((status.as_str(), texts(&events).len()), ("failed", 30), "{events:#?}");
        assert!(last_words(&events).contains("signal 9"), "{events:#?}");
        assert_eq!(types(&events).iter().filter(|kind| **kind == "error").count(), 1);
        setup.nothing_lives().await;
    }
}

/// Only a question on the control channel can be asked again by another process.
pub(crate) async fn over_mcp_an_agent_that_was_killed_with_its_shim_and_its_server_is_not_parked() {
    let mut setup = SimulatedServer::new().await;
    let session = setup.create("over mcp", json!({"channel": "mcp"})).await;
    setup.chat(&session, "sim:\ntool Bash {\"command\":\"echo ran >> ran\"}\nsay over").await;
    let approval = setup.approval(&session).await;
    let call = approval["tool_use_id"].as_str().unwrap().to_owned();
    let transcripts = setup.work().parent().unwrap().join("config/projects/plexus-sim");
    let written = async || {
        let mut files = std::fs::read_dir(&transcripts).ok()?.flatten();
        let has_call = |text: String| text.contains(&call);
        files.any(|it| std::fs::read_to_string(it.path()).is_ok_and(has_call)).then_some(())
    };
    testkit::eventually_async("the call is in the transcript", DEADLINE, written).await;
    let (shim, child) = setup.pids(&session, 0);
    setup.server.kill_9().unwrap();
    for pid in [shim, child] {
        process::kill(pid);
        process::wait_until_gone(pid, DEADLINE);
    }
    setup.server.start_again().await.unwrap();
    let (status, events) = setup.end(&session).await;
    assert_eq!(status, "failed", "{events:#?}");
    let pending = setup.call("loopback.pending", json!({})).await;
    assert_eq!(pending["approvals"], json!([]));
    assert!(!setup.work().join("ran").exists());
}
