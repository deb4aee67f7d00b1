//! Run directories that an accident has left: `prune` removes what is old and belongs to nobody,
//! and nothing else.

use std::path::Path;
use std::time::{Duration, SystemTime};

use plexus_shim::layout::RunDir;
use plexus_store::UnixMillis;
use serde_json::json;

use crate::common::SimulatedHub;

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
