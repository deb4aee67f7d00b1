//! What happens without a server.

use std::time::Duration;

use crate::harness::{Shim, wait_for};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn an_idle_child_without_a_server_has_its_stdin_closed() {
    let mut shim = Shim::start_with("cat; echo left; exit 6", |options| options.idle = SECOND);
    drop(shim.pid());
    shim.run.mark_idle().unwrap();
    let exit = shim.end();
    assert_eq!((exit.code, exit.reason.as_deref()), (Some(6), Some("idle, and no server came")));
    assert_eq!(shim.journal(), "left\n");
}

#[test]
fn one_that_does_not_leave_then_goes_down_the_ladder() {
    // A child that was slow may be asked before it listens, and killed before it answers.
    wait_for("a child that is asked, answers and is killed", || {
        let mut shim =
            Shim::start_with("trap 'echo asked' TERM; while :; do sleep 0.02; done", |options| {
                options.orphan = SECOND;
                options.grace = SECOND / 10;
            });
        let exit = shim.end();
        assert_eq!(exit.reason.as_deref(), Some("no server and no output for too long"));
        (exit.signal == Some(9) && shim.journal() == "asked\n").then_some(())
    });
}

#[test]
fn a_leash_ends_the_child_at_once() {
    // The grace is far longer than the deadline of the test: the child is not asked.
    let mut shim = Shim::start_with(
        "trap 'echo asked' TERM; while :; do echo on; sleep 0.02; done",
        |options| {
            options.leash = Some(SECOND);
        },
    );
    let exit = shim.end();
    assert_eq!(
        (exit.signal, exit.reason.as_deref()),
        (Some(9), Some("no server renewed the leash"))
    );
    assert!(!shim.journal().contains("asked"));
}

#[test]
fn a_run_whose_directory_was_removed_is_ended() {
    // Never marked idle: the short limit only makes the shim look often.
    let mut shim = Shim::start_with("exec sleep 600", |options| options.idle = SECOND);
    drop(shim.pid());
    wait_for("an empty place", || std::fs::remove_dir_all(shim.run.path()).ok());
    wait_for("the end of the shim", || shim.process.try_wait().unwrap());
    assert_eq!(shim.family(), Vec::<i32>::new());
    assert!(!shim.run.path().exists());
}
