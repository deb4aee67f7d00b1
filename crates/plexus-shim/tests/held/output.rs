//! The child's output in the journal.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use plexus_shim::WHOLE_LINE_BYTES;
use plexus_shim::layout::{RunDir, SegmentNo};

use crate::harness::{Shim, journal, wait_for, without_stdin};

#[test]
fn lines_are_whole_and_in_order() {
    let mut shim =
        Shim::start("printf on; sleep 0.05; printf 'e\\ntwo\\n\\nthr'; sleep 0.05; printf ee");
    let exit = shim.end();
    assert_eq!((exit.code, exit.signal, exit.reason), (Some(0), None, None));
    assert_eq!(shim.journal(), "one\ntwo\n\nthree\n");
}

#[test]
fn stderr_is_told_apart() {
    let mut shim = Shim::start("echo out; sleep 0.05; printf 'bad \"news\"' >&2");
    shim.end();
    assert_eq!(shim.journal(), "out\n{\"type\":\"plexus_stderr\",\"text\":\"bad \\\"news\\\"\"}\n");
}

#[test]
fn segments_hold_whole_lines_and_together_everything() {
    let mut shim = Shim::start_with("seq 1 20000", |options| options.segment_bytes = 1_000);
    shim.end();
    let segments = shim.run.segments().unwrap();
    assert!(segments.len() > 100, "{}", segments.len());
    for (number, segment) in (1..).zip(&segments) {
        let text = std::fs::read_to_string(shim.run.segment(*segment)).unwrap();
        assert_eq!(*segment, SegmentNo(number));
        assert!(
            text.ends_with('\n') && text.len() < 1_000 + "20000\n".len(),
            "{segment}: {} bytes",
            text.len()
        );
    }
    let expected: String = (1..=20_000).map(|number| format!("{number}\n")).collect();
    assert!(shim.journal() == expected, "something is missing, doubled or out of order");
}

#[test]
fn a_line_longer_than_what_is_held_is_one_line_still() {
    let length = WHOLE_LINE_BYTES + 1_000_000;
    let mut shim = Shim::start(&format!(
        "echo before; head -c {length} /dev/zero | tr '\\0' x; echo; echo after"
    ));
    shim.end();
    let text = shim.journal();
    let lengths: Vec<_> = text.lines().map(str::len).collect();
    assert_eq!(lengths, ["before".len(), length, "after".len()]);
}

#[test]
fn a_flood_waits_for_the_server() {
    const LAST: usize = 100_000;
    const BACKLOG: u64 = 40_000;
    // The chunk that the shim had read when it stopped, and the line it was in, may come on top.
    const MOST: u64 = BACKLOG + 64 * 1024 + 100;
    let mut shim = Shim::start_with(&format!("seq 1 {LAST}"), |options| {
        without_stdin(options);
        options.segment_bytes = 10_000;
        options.backlog_bytes = BACKLOG;
    });
    let size = |run: &RunDir| -> u64 {
        run.segments()
            .unwrap()
            .iter()
            .map(|no| std::fs::metadata(run.segment(*no)).unwrap().len())
            .sum()
    };
    wait_for("a backlog", || (size(&shim.run) > BACKLOG).then_some(()));
    // Gives a shim that fails to stop time to show it; one that stops passes however long this is.
    std::thread::sleep(Duration::from_millis(200));
    let mut taken = String::new();
    let mut most = 0;
    wait_for("all lines", || {
        most = most.max(size(&shim.run));
        let segments = shim.run.segments().unwrap();
        let is_over = shim.run.read_exit().unwrap().is_some();
        let complete = if is_over { segments.len() } else { segments.len().saturating_sub(1) };
        for number in segments.iter().take(complete) {
            let path = shim.run.segment(*number);
            taken += &std::fs::read_to_string(&path).unwrap();
            std::fs::remove_file(path).unwrap();
        }
        is_over.then_some(())
    });
    taken += &shim.journal();
    shim.end();
    let expected: String = (1..=LAST).map(|number| format!("{number}\n")).collect();
    assert!(taken == expected, "something is missing, doubled or out of order");
    assert!(most <= MOST, "{most} bytes lay there");
}

#[test]
fn a_full_disk_is_waited_out() {
    // A shell in a mount namespace of its own makes a small disk, nearly fills it and runs the shim
    // there. It stays until it is told, so that the disk can be read through its `/proc/PID/root`.
    const SCRIPT: &str = r#"mount -t tmpfs -o size=1m plexus-test "$1" || exit 77
        mkdir -m 700 "$1/run" "$1/run/journal" "$1/run/inbox"; head -c 900000 /dev/zero > "$1/filler"
        "$2" --dir "$1/run" --stdin null --segment-bytes 50000 -- seq 1 100000; read -r end"#;
    let temp = tempfile::tempdir().unwrap();
    let mut shell = Command::new("unshare")
        .args(["-m", "sh", "-c", SCRIPT, "sh"])
        .arg(temp.path())
        .arg(env!("CARGO_BIN_EXE_plexus-shim"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let disk = PathBuf::from(format!("/proc/{}/root", shell.id()))
        .join(temp.path().strip_prefix("/").unwrap());
    let is_there = wait_for("the small disk", || {
        shell
            .try_wait()
            .unwrap()
            .map(|_| false)
            .or_else(|| disk.join("run/pid.json").exists().then_some(true))
    });
    if !is_there {
        eprintln!(
            "SKIPPED a_full_disk_is_waited_out: this user may not mount a tmpfs in a namespace of \
             its own"
        );
        return;
    }
    wait_for("a full disk", || (rustix::fs::statvfs(&disk).unwrap().f_bavail == 0).then_some(()));
    let run = RunDir::new(disk.join("run"));
    assert!(
        journal(&run).len() < 150_000 && run.read_exit().unwrap().is_none(),
        "the disk is full, and nobody has gone"
    );
    std::fs::remove_file(disk.join("filler")).unwrap();
    let exit = wait_for("exit.json", || run.read_exit().unwrap());
    let text = journal(&run);
    drop(shell.stdin.take());
    shell.wait().unwrap();
    assert_eq!((exit.code, exit.reason), (Some(0), None));
    let expected: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert!(text == expected, "something is missing, doubled or out of order");
}

#[test]
fn a_child_may_close_its_output_and_live_on() {
    let mut shim = Shim::start("echo last; exec >&- 2>&-; read -r line; exit 5");
    shim.wait_for_line("last");
    assert!(shim.pid().child_lives());
    shim.run.put_close().unwrap();
    assert_eq!(shim.end().code, Some(5));
}
