//! A disk without room, under the journal alone and under everything: what was said waits, nothing
//! is lost, and no request goes unseen.

use plexus_shim::layout::SegmentNo;
use serde_json::{Value, json};
use testkit::server::ServerOptions;
use testkit::small_disk::{SmallDisks, fill};

use crate::simulated_server::{DEADLINE, SimulatedServer, awaited, exists, shown, texts, until};

fn options(disks: &SmallDisks) -> ServerOptions {
    ServerOptions {
        launcher: disks.launcher(),
        seen_through: Some(disks.root()),
        ..ServerOptions::default()
    }
}

fn numbers(texts: &[&str]) -> Vec<usize> {
    texts.iter().map(|text| text.split(' ').next().unwrap().parse().unwrap()).collect()
}

/// Counts the questions about a write.
fn asked_to_write(events: &[Value]) -> usize {
    let is_question =
        |event: &&Value| event["type"] == "awaiting_approval" && event["tool_name"] == "Write";
    events.iter().filter(is_question).count()
}

/// The size of a page, which is what the small disk gives room by.
const PAGE: u64 = 4096;

pub(crate) async fn a_full_disk_that_leaves_half_a_line_of_the_journal_is_waited_out_also_across_a_kill()
 {
    const LINES: usize = 400;
    let mut disks = SmallDisks::new().unwrap();
    let mut setup = SimulatedServer::with(options(&disks)).await;
    disks.mount(&setup.server.own_data_dir().join("runs"), "4m").unwrap();
    let session = setup.create("full", json!({"allowed_tools": ["Bash"]})).await;
    let gate = json!({
        "command": "touch go.awaited; while ! test -e go; do sleep 0.05; done; touch gone"
    });
    let write = json!({"file_path": "note.txt", "content": "hello"});
    setup.chat(
        &session,
        &format!(
            "sim:\nsay begun\ntool Bash {gate}\nburst {LINES} 4000\ntool Write {write}\nsay over"
        ),
    )
    .await;
    exists(&setup.work().join(awaited("go"))).await;
    let filler = setup.server.data_dir().join("runs/filler");
    fill(&filler).unwrap();
    std::fs::write(setup.work().join("go"), "").unwrap();
    exists(&setup.work().join("gone")).await;
    // The child goes on to write more than a pipe holds, and the disk has room only up to the end
    // of a page. So half of the last line is on the disk, and stays so until there is room again.
    let segment = setup.run_dir(&session, 0).segment(SegmentNo(1));
    let at_the_end = || {
        std::future::ready(std::fs::metadata(&segment).ok().filter(|file| file.len() % PAGE == 0))
    };
    testkit::eventually_async("the last bytes that the disk takes", DEADLINE, at_the_end).await;
    let stands_still = async |setup: &SimulatedServer| {
        let page = setup
            .call("claudecode.poll", json!({"session_id": session, "from_seq": 0, "limit": 1000}))
            .await;
        assert_eq!(
            (&page["status"], &page["pending_approvals"]),
            (&json!("running"), &json!([])),
            "{page:#}"
        );
        assert!(texts(&shown(&page)).len() < LINES / 2, "where was there room for this?");
    };
    stands_still(&setup).await;
    setup.server.crash_and_restart().await.unwrap();
    stands_still(&setup).await;
    std::fs::remove_file(&filler).unwrap();
    let approval = setup.approval(&session).await;
    assert_eq!(approval["tool_name"], "Write");
    setup.allow(&approval).await;
    let (status, events) = setup.end(&session).await;
    let said = texts(&events);
    assert_eq!((status.as_str(), said.len()), ("complete", LINES + 2));
    assert_eq!(numbers(&said[1..=LINES]), (0..LINES).collect::<Vec<_>>());
    assert_eq!(asked_to_write(&events), 1);
    assert_eq!(std::fs::read_to_string(setup.work().join("note.txt")).unwrap(), "hello");
}

pub(crate) async fn while_the_store_cannot_be_written_a_request_waits_and_a_cancel_is_refused() {
    let mut disks = SmallDisks::new().unwrap();
    // The server's whole directory is on the small disk: its store as well as its journals.
    let folder = tempfile::tempdir().unwrap();
    disks.mount(folder.path(), "24m").unwrap();
    let setup = SimulatedServer::with(ServerOptions {
        folder: Some(folder.path().to_owned()),
        ..options(&disks)
    })
    .await;
    let session = setup.create("full", json!({"allowed_tools": ["Bash"]})).await;
    let write = json!({"file_path": "note.txt", "content": "hello"});
    setup
        .chat(&session, &format!("sim:\nsay begun\n{}\ntool Write {write}\nsay over", until("go")))
        .await;
    exists(&setup.work().join(awaited("go"))).await;
    let filler = setup.server.data_dir().join("filler");
    fill(&filler).unwrap();
    let refused = setup.refused("claudecode.cancel", json!({"session_id": session})).await;
    assert_eq!(refused.kind(), "unavailable", "{refused}");
    std::fs::write(setup.work().join("go"), "").unwrap();
    let page = setup.call("claudecode.poll", json!({"session_id": session, "from_seq": 0})).await;
    assert_eq!(page["status"], "running", "a wish that was refused is no wish");
    assert!(!setup.work().join("note.txt").exists());
    std::fs::remove_file(&filler).unwrap();
    let approval = setup.approval(&session).await;
    setup.allow(&approval).await;
    let (status, events) = setup.end(&session).await;
    assert_eq!((status.as_str(), texts(&events)), ("complete", vec!["begun", "over"]));
    assert_eq!(asked_to_write(&events), 1, "{events:#?}");
}

pub(crate) async fn while_the_store_cannot_be_written_a_delete_is_answered_with_an_error() {
    let mut disks = SmallDisks::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    disks.mount(folder.path(), "24m").unwrap();
    let setup = SimulatedServer::with(ServerOptions {
        folder: Some(folder.path().to_owned()),
        ..options(&disks)
    })
    .await;
    let session = setup.create("full", json!({})).await;
    setup.chat(&session, "sim:\nsay begun\nhang").await;
    setup.wait_for_words(&session, "begun").await;
    let filler = setup.server.data_dir().join("filler");
    fill(&filler).unwrap();
    let refused = setup.refused("claudecode.delete", json!({"session_id": session})).await;
    assert_eq!(refused.kind(), "unavailable", "{refused}");
    std::fs::remove_file(&filler).unwrap();
    setup.call("claudecode.delete", json!({"session_id": session})).await;
}
