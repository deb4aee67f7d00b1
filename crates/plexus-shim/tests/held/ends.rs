//! How a run ends, and that no process survives it. [`Shim::end`] checks the latter every time.

use std::time::Duration;

use plexus_shim::layout::{Delivery, signal_process};
use rustix::process::Signal;

use crate::harness::{Shim, wait_for, without_stdin};

const SHORT: Duration = Duration::from_millis(100);

#[test]
fn a_child_is_asked_first_and_heard_to_its_end() {
    let mut shim =
        Shim::start("trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.02; done");
    shim.wait_for_line("ready");
    shim.signal(Signal::TERM);
    let exit = shim.end();
    assert_eq!(
        (exit.code, exit.reason.as_deref()),
        (Some(7), Some("ended by a signal to the shim"))
    );
    assert_eq!(shim.journal(), "ready\nbye\n");
}

#[test]
fn a_child_that_will_not_end_is_killed_after_its_grace() {
    let mut shim =
        Shim::start_with("trap '' TERM; echo ready; while :; do sleep 0.02; done", |options| {
            options.grace = SHORT;
        });
    shim.wait_for_line("ready");
    shim.signal(Signal::TERM);
    assert_eq!(shim.end().signal, Some(9));
}

#[test]
fn a_second_request_does_not_wait_for_the_grace() {
    // The grace is far longer than the deadline of the test.
    let mut shim = Shim::start("trap 'echo asked' TERM; echo ready; while :; do sleep 0.02; done");
    shim.wait_for_line("ready");
    shim.signal(Signal::TERM);
    shim.wait_for_line("asked");
    shim.signal(Signal::TERM);
    assert_eq!(shim.end().signal, Some(9));
}

#[test]
fn a_stopped_child_can_be_ended() {
    let mut shim = Shim::start_with("echo ready; kill -STOP $$", |options| options.grace = SHORT);
    shim.wait_for_line("ready");
    shim.signal(Signal::TERM);
    assert_eq!(shim.end().signal, Some(9));
}

#[test]
fn a_hang_up_is_nothing_to_the_shim() {
    let mut shim = Shim::start("cat");
    drop(shim.pid());
    shim.signal(Signal::HUP);
    shim.run.put_close().unwrap();
    assert_eq!(shim.end().code, Some(0));
}

#[test]
fn descendants_are_ended_wherever_they_moved() {
    // Three kinds: in the background, in a session of its own, and forked twice into a session of
    // its own, with its parent gone.
    let script = r#"sleep 600 &
        setsid sleep 600 &
        setsid sh -c 'setsid sh -c "trap \"\" TERM HUP; sleep 600; :" &'
        echo ready; read -r line; exit 3"#;
    let mut shim = Shim::start(script);
    shim.wait_for_line("ready");
    // The shim, the child, two `sleep`s, and a shell with its own `sleep`.
    wait_for("six processes", || (shim.family().len() == 6).then_some(()));
    shim.run.put_close().unwrap();
    assert_eq!(shim.end().code, Some(3));
}

#[test]
fn processes_of_a_run_are_found_by_its_name_when_the_shim_is_gone() {
    let mut shim =
        Shim::start("setsid sh -c 'setsid sleep 600 &'; sleep 600 & echo ready; read -r line");
    shim.wait_for_line("ready");
    // The shim, the child and two `sleep`s. Before the last of them there is a shell that starts it
    // and exits, so four processes are the right four only when two of them are `sleep`s.
    let sleeps = |pid: &i32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
    };
    let mut family = wait_for("four processes, two of them asleep", || {
        let family = shim.family();
        (family.len() == 4 && family.iter().filter(|pid| sleeps(pid)).count() == 2)
            .then_some(family)
    });
    family.retain(|pid| *pid != shim.pid().shim_pid);
    shim.process.kill().unwrap();
    shim.process.wait().unwrap();
    // The child reads the end of its input and exits; the processes it has started do not.
    wait_for("two orphans", || (shim.run.members().len() == 2).then_some(()));
    for (pid, start) in shim.run.members() {
        assert!(family.contains(&pid), "a stranger was found");
        assert_eq!(signal_process(pid, start, Signal::KILL).unwrap(), Delivery::Sent);
    }
    wait_for("the end of the orphans", || shim.run.members().is_empty().then_some(()));
    wait_for("the end of everybody", || shim.family().is_empty().then_some(()));
}

#[test]
fn one_that_forks_and_goes_is_caught() {
    // The process is never where the last look found it: each starts its successor in a session of
    // its own and exits.
    let mut prepared = Shim::prepare("sh \"$RUNNER\" & echo ready; read -r line", |_| {});
    let runner = prepared.temp.path().join("runner");
    let trace = prepared.temp.path().join("trace");
    std::fs::write(&runner, "echo >> \"$TRACE\"; setsid sh \"$0\" &\n").unwrap();
    prepared.command.env("RUNNER", &runner).env("TRACE", &trace);
    let mut shim = prepared.start();
    let generations = || std::fs::metadata(&trace).map_or(0, |trace| trace.len());
    shim.wait_for_line("ready");
    wait_for("some generations", || (generations() > 20).then_some(()));
    shim.run.put_close().unwrap();
    let exit = shim.end();
    assert_eq!((exit.code, exit.reason), (Some(1), None));
    // A look at the processes can miss one that moves, but its trace cannot be missed: this leaves
    // time for many more generations.
    let last = generations();
    std::thread::sleep(SHORT * 3);
    assert_eq!(generations(), last, "it runs on");
}

#[test]
fn a_grandchild_that_holds_the_output_does_not_hold_the_end() {
    let mut shim = Shim::start_with("sleep 600 & seq 1 5000; exit 2", without_stdin);
    let exit = shim.end();
    assert_eq!((exit.code, exit.reason), (Some(2), None));
    assert!(shim.journal().ends_with("\n4999\n5000\n"));
}

#[test]
fn output_of_a_grandchild_is_kept_until_the_run_ends() {
    // The run ends soon after its child, perhaps before a slow grandchild has said everything.
    wait_for("a grandchild that says everything in time", || {
        let mut shim = Shim::start_with(
            "(sleep 0.05; echo late; printf unfinished; exec sleep 600) & exit 0",
            without_stdin,
        );
        shim.end();
        (shim.journal() == "late\nunfinished\n").then_some(())
    });
}

#[test]
fn a_killed_shim_leaves_a_child_that_reads_the_end_of_stdin_and_can_be_found() {
    // A shim that is gone holds nobody. `pid.json` names the process to end when the child does not
    // exit by itself.
    let mut prepared = Shim::prepare("echo ready; cat; : > \"$SEEN\"; exec sleep 600", |_| {});
    let seen = prepared.temp.path().join("seen");
    prepared.command.env("SEEN", &seen);
    let mut shim = prepared.start();
    shim.wait_for_line("ready");
    let pid = shim.pid();
    assert!(pid.shim_lives() && pid.child_lives());
    shim.signal(Signal::KILL);
    shim.process.wait().unwrap();
    wait_for("the end of stdin", || seen.exists().then_some(()));
    assert!(!pid.shim_lives() && pid.child_lives());
    assert_eq!(shim.run.read_exit().unwrap(), None);
    assert_eq!(shim.journal(), "ready\n");
    assert_eq!(
        signal_process(pid.child_pid, pid.child_start, Signal::KILL).unwrap(),
        Delivery::Sent
    );
    wait_for("the end of the child", || (!pid.child_lives()).then_some(()));
}
