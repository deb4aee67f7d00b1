//! Run directories that an accident has left: `prune` removes what is old and belongs to nobody,
//! and nothing else.

use std::path::Path;
use std::time::{Duration, SystemTime};

use plexus_shim::layout::RunDir;
use plexus_store::UnixMillis;
use serde_json::json;

use crate::common::SimulatedHub;

/// How long anything may take on a loaded machine.
const DEADLINE: Duration = Duration::from_secs(120);

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// A run directory as a run leaves it that was never cleaned up.
fn leave(path: &Path) -> RunDir {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let dir = RunDir::new(path);
    dir.create().unwrap();
    std::fs::write(path.join("journal/000001.jsonl"), "{}\n").unwrap();
    dir
}

/// Makes everything in a directory look as old as `age`.
fn make_old(path: &Path, age: Duration) {
    for entry in std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            make_old(&entry, age);
        } else {
            std::fs::File::open(&entry).unwrap().set_modified(SystemTime::now() - age).unwrap();
        }
    }
    std::fs::File::open(path).unwrap().set_modified(SystemTime::now() - age).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn prune_removes_old_run_directories_that_belong_to_nobody() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("runs", json!({})).await;
    hub.chat(&session, "sim:\nsay here\nhang").await;
    hub.wait_for_event(&session, "content").await;
    let runs = hub.data().join("runs");
    let unknown = "0190a1de-0000-7000-8000-000000000000";
    let (old, young) = (runs.join(unknown).join("3"), runs.join(&session).join("8"));
    let (living, ended, odd) =
        (runs.join(unknown).join("4"), runs.join(&session).join("7"), runs.join("not-ours"));
    for path in [&old, &young, &living, &ended] {
        leave(path);
    }
    std::fs::create_dir(&odd).unwrap();
    // A run that this store does not know, since it was restored from an older copy, and whose
    // child lives.
    let mut pids = RunDir::new(hub.run_dir(&session, 0)).read_pid().unwrap().unwrap();
    RunDir::new(&living).write_pid(&pids).unwrap();
    pids.shim_start += 1;
    pids.child_start += 1;
    RunDir::new(&old).write_pid(&pids).unwrap();
    for path in [&old, &living, &ended, &odd, &hub.run_dir(&session, 0)] {
        make_old(path, 3 * DAY);
    }
    let before = UnixMillis(UnixMillis::now().0 - i64::try_from(2 * DAY.as_millis()).unwrap());
    assert_eq!(hub.prune(before).await, 2);
    assert_eq!([old.exists(), ended.exists()], [false, false]);
    let stay = [young.exists(), living.exists(), odd.exists(), hub.run_dir(&session, 0).exists()];
    assert_eq!(stay, [true; 4], "young, living, not ours, open");

    // The last directory of a session that is gone takes the one above it along.
    std::fs::remove_file(living.join("pid.json")).unwrap();
    make_old(&living, 3 * DAY);
    assert_eq!(hub.prune(before).await, 1);
    assert!(!runs.join(unknown).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_copy_of_a_parked_transcript_goes_when_its_call_or_its_session_is_over() {
    let world =
        SimulatedHub::with(|settings| settings.park_after = Some(Duration::from_millis(1))).await;
    let copies = || {
        let folder = std::fs::read_dir(world.data().join("parked")).into_iter().flatten();
        folder.map(|copy| copy.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let parked = async |session: &str| {
        let is_parked = |page: &serde_json::Value| page["pending_approvals"][0]["parked"] == true;
        world.wait_for(session, "a parked question", is_parked).await
    };
    let session = world.create("parks", json!({})).await;
    let bash = |word: &str| format!("tool Bash {}", json!({"command": format!("echo {word}")}));
    world.chat(&session, &format!("sim:\n{}\n{}\nsay done", bash("a"), bash("b"))).await;
    // The process that was woken for the first call is parked with the second.
    let first = parked(&session).await["pending_approvals"][0].clone();
    world.respond(&first, true).await;
    let second = loop {
        let asked = parked(&session).await["pending_approvals"][0].clone();
        if asked["id"] != first["id"] {
            break asked;
        }
    };
    let own = format!("{}.jsonl", second["id"].as_str().unwrap());
    let only_its_own = || (copies() == [own.clone()]).then_some(());
    testkit::wait::eventually("the copy of the second call alone", DEADLINE, only_its_own);
    world.respond(&second, true).await;
    assert_eq!(world.wait_for_end(&session, 0).await, "complete");
    // A chat that is cancelled while it is parked, and a session that is deleted so, leave none.
    for end in ["claudecode.cancel", "claudecode.delete"] {
        let chat = world.chat(&session, &format!("sim:\n{}", bash("c"))).await;
        parked(&session).await;
        world.ok(end, json!({"session_id": session})).await;
        if end == "claudecode.cancel" {
            assert_eq!(world.wait_for_end(&session, chat).await, "cancelled");
        }
        let none = || copies().is_empty().then_some(());
        testkit::wait::eventually("no copy is left", DEADLINE, none);
    }
}
