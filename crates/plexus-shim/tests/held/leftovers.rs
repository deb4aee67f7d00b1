//! Many runs leave nothing behind, and a long one gathers nothing.

use plexus_shim::layout::InboxSeq;

use crate::harness::{Shim, assert_nobody_is_left};

#[test]
fn two_hundred_runs_leave_no_process_and_no_temporary_file() {
    let mut shims = Vec::new();
    for number in 0..200 {
        let mut shim = Shim::start("(sleep 600 > /dev/null 2>&1 &); echo hi");
        assert_eq!(shim.exit().code, Some(0), "run {number}");
        let names: Vec<_> = std::fs::read_dir(shim.run.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert!(names.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{names:?}");
        shims.push(shim);
    }
    assert_nobody_is_left(&mut shims);
}

#[test]
fn two_hundred_messages_and_segments_leave_no_descriptor() {
    let mut shim = Shim::start_with("cat", |options| options.segment_bytes = 1);
    let descriptors = format!("/proc/{}/fd", shim.pid().shim_pid);
    let mut counts = Vec::new();
    for number in 1..=200 {
        shim.run.put_inbox(InboxSeq(number), format!("{{\"n\":{number}}}").as_bytes()).unwrap();
        if number % 100 == 0 {
            shim.wait_for_line(&format!("{{\"n\":{number}}}"));
            counts.push(std::fs::read_dir(&descriptors).unwrap().count());
        }
    }
    assert_eq!(counts.first(), counts.last());
    shim.run.put_close().unwrap();
    assert_eq!(shim.end().code, Some(0));
}
