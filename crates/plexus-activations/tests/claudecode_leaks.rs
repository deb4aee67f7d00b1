//! Many runs in a row leave nothing behind. In a program of its own, since descriptors are counted
//! for the whole process. The full number, a thousand, runs with `PLEXUS_FULL=1`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use serde_json::json;

use crate::common::{DEADLINE, SimulatedHub};

#[tokio::test(flavor = "multi_thread")]
async fn runs_in_a_row_leave_nothing_behind() {
    let runs = if std::env::var_os("PLEXUS_FULL").is_some() { 1_000 } else { 30 };
    let hub = SimulatedHub::with(|settings| settings.max_warm = 0).await;
    let session = hub.create("again", json!({})).await;
    hub.chat_to_end(&session, "sim:\nsay warming up").await;
    let settled =
        || std::future::ready((hub.children() == 0 && hub.processes().is_empty()).then_some(()));
    testkit::eventually_async("the first child's end", DEADLINE, settled).await;
    let (fds, tasks) = (open_fds(), alive_tasks());
    for n in 0..runs {
        hub.chat_to_end(&session, &format!("sim:\nsay {n}")).await;
    }
    testkit::eventually_async("the end of every child", DEADLINE, settled).await;
    assert!(!hub.run_dir(&session, 0).exists());
    assert_eq!(
        std::fs::read_dir(hub.data().join("runs").join(&session)).unwrap().count(),
        0,
        "run directories are left"
    );
    let more = |now: usize, then: usize| now.saturating_sub(then);
    let few = || std::future::ready((more(alive_tasks(), tasks) == 0).then_some(()));
    testkit::eventually_async("the end of every task", DEADLINE, few).await;
    // The store's readers open connections as they are needed, more of them on a busy machine. If
    // each run leaked a descriptor, there would be more than this.
    let few = || std::future::ready((more(open_fds(), fds) < runs / 2).then_some(()));
    testkit::eventually_async("the end of every descriptor", DEADLINE, few).await;
}

fn open_fds() -> usize {
    testkit::process::open_fds(std::process::id()).unwrap()
}

fn alive_tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}
