use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;

use super::identity::Stat;
use super::*;

fn run_dir() -> (tempfile::TempDir, RunDir) {
    let temp = tempfile::tempdir().unwrap();
    let run = RunDir::new(temp.path().join("run"));
    run.create().unwrap();
    (temp, run)
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn pid_file() -> PidFile {
    PidFile {
        format_version: FORMAT_VERSION,
        shim_pid: 2,
        shim_start: 3,
        child_pid: 4,
        child_start: 5,
        child_pgid: 4,
        started_at_ms: 6,
        boot_id: boot_id(),
    }
}

#[test]
fn everything_is_private() {
    let (_temp, run) = run_dir();
    run.put_inbox(InboxSeq::FIRST, b"{}").unwrap();
    run.put_close().unwrap();
    run.mark_idle().unwrap();
    run.write_pid(&pid_file()).unwrap();
    for dir in [run.path(), &run.inbox(), &run.journal()] {
        assert_eq!(mode(dir), DIR_MODE, "{}", dir.display());
    }
    for file in [
        run.lease(),
        run.idle_mark(),
        run.pid_file(),
        run.inbox_message(InboxSeq::FIRST),
        run.inbox().join("close"),
    ] {
        assert_eq!(mode(&file), FILE_MODE, "{}", file.display());
    }
}

#[test]
fn creating_again_keeps_what_is_there_and_makes_it_private() {
    let (_temp, run) = run_dir();
    run.put_inbox(InboxSeq::FIRST, b"{}").unwrap();
    std::fs::set_permissions(run.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    run.create().unwrap();
    assert_eq!(mode(run.path()), DIR_MODE);
    assert_eq!(run.inbox_state().unwrap().waiting, [InboxSeq::FIRST]);
}

#[test]
fn a_link_in_place_of_a_directory_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::create_dir(temp.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(temp.path().join("elsewhere"), temp.path().join("run")).unwrap();
    assert!(RunDir::new(temp.path().join("run")).create().is_err());
}

#[test]
fn records_are_read_back_and_their_absence_is_no_error() {
    let (_temp, run) = run_dir();
    assert_eq!(run.read_pid().unwrap(), None);
    run.write_pid(&pid_file()).unwrap();
    assert_eq!(run.read_pid().unwrap(), Some(pid_file()));
    let exit = ExitFile { signal: Some(9), ..ExitFile::without_status("why") };
    run.write_exit(&exit).unwrap();
    assert_eq!(run.read_exit().unwrap(), Some(exit));
}

#[test]
fn fields_of_a_later_release_are_ignored_and_its_formats_are_refused() {
    let (_temp, run) = run_dir();
    std::fs::write(run.exit_file(), r#"{"format_version":1,"code":0,"at_ms":7,"colour":"blue"}"#)
        .unwrap();
    assert_eq!(run.read_exit().unwrap().unwrap().code, Some(0));
    std::fs::write(run.exit_file(), r#"{"format_version":2}"#).unwrap();
    assert!(matches!(run.read_exit(), Err(LayoutError::NewerFormat { found: 2, .. })));
    std::fs::write(run.exit_file(), r#"{"format_ver"#).unwrap();
    assert!(matches!(run.read_exit(), Err(LayoutError::Malformed { .. })));
}

#[test]
fn only_one_object_on_one_line_is_a_message() {
    for good in ["{}", "{\"a\":[1,2]}\n", "{\"text\":\"line\\nbreak\"}", "{\"é\":\"\\u0000\"}"] {
        assert_eq!(check_message(good.as_bytes()).unwrap(), good.trim_end().as_bytes());
    }
    let bad: &[&[u8]] = &[
        b"",
        b"\n",
        b"[]",
        b"1",
        b"null",
        b"{",
        b"{}{}",
        b"{} {}",
        b"{}\n{}",
        b"{}\n\n",
        b"{\n}",
        b"{}\r\n",
        b" {}",
        b"{\"a\":\"\xff\"}",
        b"{a:1}",
    ];
    for message in bad {
        assert!(
            matches!(check_message(message), Err(LayoutError::BadMessage(_))),
            "{}",
            String::from_utf8_lossy(message)
        );
    }
    let deep = format!("{}{}", "{\"a\":".repeat(100_000), "1".to_owned() + &"}".repeat(100_000));
    assert!(check_message(deep.as_bytes()).is_ok(), "depth costs no stack");
}

#[test]
fn the_next_number_is_above_everything_that_was_used() {
    let (_temp, run) = run_dir();
    assert_eq!(run.inbox_state().unwrap().next_seq(), InboxSeq::FIRST);
    for seq in [3, 2] {
        run.put_inbox(InboxSeq(seq), b"{}").unwrap();
    }
    for name in [
        "00000001.sent",
        ".00000009.json.1.0.tmp",
        "9.json",
        "00000000.json",
        "+0000008.json",
        "notes",
    ] {
        std::fs::write(run.inbox().join(name), "").unwrap();
    }
    let state = InboxState {
        last_sent: Some(InboxSeq(1)),
        waiting: vec![InboxSeq(2), InboxSeq(3)],
        bad: vec![],
        close_waiting: false,
    };
    assert_eq!(run.inbox_state().unwrap(), state);
    assert_eq!(state.next_seq(), InboxSeq(4));
    std::fs::write(run.inbox().join("00000007.bad"), "").unwrap();
    assert_eq!(run.inbox_state().unwrap().next_seq(), InboxSeq(8));
}

#[test]
fn segments_are_listed_in_order_and_other_files_are_not() {
    let (_temp, run) = run_dir();
    for name in [
        "000010.jsonl",
        "000002.jsonl",
        "1000000.jsonl",
        "2.jsonl",
        "0000003.jsonl",
        "000000.jsonl",
        "x",
    ] {
        std::fs::write(run.journal().join(name), "").unwrap();
    }
    assert_eq!(run.segments().unwrap(), [SegmentNo(2), SegmentNo(10), SegmentNo(1_000_000)]);
}

#[test]
fn a_failed_write_leaves_nothing_behind() {
    let (_temp, run) = run_dir();
    std::fs::create_dir(run.pid_file()).unwrap();
    assert!(run.write_pid(&pid_file()).is_err());
    let names: Vec<_> =
        std::fs::read_dir(run.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().ends_with(".tmp")), "{names:?}");
}

#[test]
fn a_programs_name_cannot_pretend_to_be_fields() {
    let line = b"42 (a) R 1 (b\n) S 7 41 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 3 0 12345 9 9";
    assert_eq!(
        Stat::parse(line),
        Some(Stat { state: b'S', parent: 7, group: 41, threads: 3, start: 12345 })
    );
    assert_eq!(Stat::parse(b"42 (a) S"), None);
    assert_eq!(Stat::parse(b""), None);
}

#[test]
fn a_zombie_is_gone_unless_its_threads_live() {
    let stat = |state, threads| Stat { state, parent: 1, group: 1, threads, start: 1 };
    assert!(stat(b'S', 1).lives());
    assert!(stat(b'T', 1).lives());
    assert!(!stat(b'Z', 1).lives());
    assert!(stat(b'Z', 2).lives());
}

#[test]
fn a_signal_reaches_only_the_process_that_was_meant() {
    let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let start = process_identity(pid).unwrap();
    assert_eq!(signal_process(pid, start + 1, Signal::KILL).unwrap(), Delivery::Gone);
    assert!(child.try_wait().unwrap().is_none(), "another start time means another process");
    assert_eq!(signal_process(pid, start, Signal::KILL).unwrap(), Delivery::Sent);
    let same = PidFile { child_pid: pid, child_start: start, ..pid_file() };
    // A process that was killed and not reaped is gone as well: wait without reaping.
    rustix::process::waitid(
        rustix::process::WaitId::Pid(rustix::process::Pid::from_raw(pid).unwrap()),
        rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT,
    )
    .unwrap();
    assert!(!same.child_lives());
    child.wait().unwrap();
    assert_eq!(signal_process(pid, start, Signal::KILL).unwrap(), Delivery::Gone);
}

#[test]
fn another_boot_means_another_process() {
    let me = i32::try_from(std::process::id()).unwrap();
    let mine = PidFile { shim_pid: me, shim_start: process_identity(me).unwrap(), ..pid_file() };
    assert!(mine.shim_lives());
    assert!(!PidFile { boot_id: Some("another".to_owned()), ..mine }.shim_lives());
}
