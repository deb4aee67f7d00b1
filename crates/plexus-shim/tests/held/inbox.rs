//! From the inbox to the child's stdin.

use plexus_shim::StdinSource;
use plexus_shim::layout::{InboxSeq, InboxState};
use rustix::process::Signal;

use crate::harness::{Shim, wait_for};

#[test]
fn messages_arrive_in_order_and_then_stdin_closes() {
    let prepared = Shim::prepare("cat; echo closed; exit 4", |_| {});
    // The first ten wait before there is a shim.
    for number in (1..=10).rev() {
        prepared.run.put_inbox(InboxSeq(number), format!("{{\"n\":{number}}}").as_bytes()).unwrap();
    }
    let mut shim = prepared.start();
    shim.wait_for_line("{\"n\":10}");
    for number in 11..=50 {
        shim.run.put_inbox(InboxSeq(number), format!("{{\"n\":{number}}}\n").as_bytes()).unwrap();
    }
    shim.run.put_close().unwrap();
    assert_eq!(shim.end().code, Some(4));
    let expected: String = (1..=50).map(|number| format!("{{\"n\":{number}}}\n")).collect();
    assert_eq!(shim.journal(), expected + "closed\n");
    let state = InboxState { last_sent: Some(InboxSeq(50)), ..InboxState::default() };
    assert_eq!(shim.run.inbox_state().unwrap(), state);
}

#[test]
fn more_messages_than_fit_one_turn_arrive() {
    let prepared = Shim::prepare("cat", |_| {});
    for number in 1..=1_000 {
        prepared.run.put_inbox(InboxSeq(number), format!("{{\"n\":{number}}}").as_bytes()).unwrap();
    }
    prepared.run.put_close().unwrap();
    let mut shim = prepared.start();
    assert_eq!(shim.end().code, Some(0));
    let expected: String = (1..=1_000).map(|number| format!("{{\"n\":{number}}}\n")).collect();
    assert!(shim.journal() == expected, "something is missing, doubled or out of order");
}

#[test]
fn a_late_number_is_sent_late_and_no_number_twice() {
    let mut shim = Shim::start("cat");
    for number in [2, 1, 1, 2] {
        let message = format!("{{\"n\":{number}}}");
        shim.run.put_inbox(InboxSeq(number), message.as_bytes()).unwrap();
        shim.wait_for_line(&message);
        wait_for("an empty inbox", || {
            shim.run.inbox_state().unwrap().waiting.is_empty().then_some(())
        });
        assert_eq!(shim.run.inbox_state().unwrap().last_sent, Some(InboxSeq(2)));
    }
    shim.run.put_inbox(InboxSeq(3), b"{\"n\":3}").unwrap();
    shim.run.put_close().unwrap();
    shim.end();
    assert_eq!(shim.journal(), "{\"n\":2}\n{\"n\":1}\n{\"n\":3}\n");
}

#[test]
fn a_file_that_is_no_message_is_set_aside_and_never_sent() {
    let prepared = Shim::prepare("cat", |_| {});
    let inbox = prepared.run.inbox();
    let secret = prepared.temp.path().join("secret");
    std::fs::write(&secret, "{\"secret\":1}").unwrap();
    std::fs::write(inbox.join("00000001.json"), "{\"two\":1}\n{\"lines\":2}").unwrap();
    std::os::unix::fs::symlink(&secret, inbox.join("00000002.json")).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let fifo = inbox.join("00000003.json");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    std::fs::create_dir(inbox.join("00000004.json")).unwrap();
    prepared.run.put_inbox(InboxSeq(5), b"{\"good\":1}").unwrap();
    prepared.run.put_close().unwrap();
    let mut shim = prepared.start();
    shim.end();
    assert_eq!(shim.journal(), "{\"good\":1}\n");
    let state = InboxState {
        last_sent: Some(InboxSeq(5)),
        bad: (1..=4).map(InboxSeq).collect(),
        ..InboxState::default()
    };
    assert_eq!(shim.run.inbox_state().unwrap(), state);
}

#[test]
fn a_child_that_does_not_read_holds_up_nothing_else() {
    let script = "while ! [ -e \"$GO\" ]; do sleep 0.02; done; seq 1 20000; exec sleep 600";
    let mut prepared = Shim::prepare(script, |_| {});
    let go = prepared.temp.path().join("go");
    prepared.command.env("GO", &go);
    let mut shim = prepared.start();
    drop(shim.pid());
    let large = format!("{{\"text\":\"{}\"}}", "x".repeat(1_000_000));
    shim.run.put_inbox(InboxSeq(1), b"{}").unwrap();
    shim.run.put_inbox(InboxSeq(2), large.as_bytes()).unwrap();
    shim.run.put_inbox(InboxSeq(3), b"{}").unwrap();
    let state = InboxState {
        last_sent: Some(InboxSeq(1)),
        waiting: vec![InboxSeq(2), InboxSeq(3)],
        ..InboxState::default()
    };
    wait_for("a full pipe", || (shim.run.inbox_state().unwrap() == state).then_some(()));
    std::fs::write(go, "").unwrap();
    shim.wait_for_line("20000");
    shim.signal(Signal::TERM);
    assert_eq!(shim.end().signal, Some(15));
    assert_eq!(shim.run.inbox_state().unwrap(), state, "what it did not get stays");
}

#[test]
fn a_child_can_close_stdin_and_what_it_did_not_get_stays() {
    let mut shim = Shim::start("exec <&-; echo closed; exec sleep 600");
    shim.wait_for_line("closed");
    shim.run.put_inbox(InboxSeq(1), b"{\"n\":1}").unwrap();
    shim.run.put_inbox(InboxSeq(2), b"{\"n\":2}").unwrap();
    shim.signal(Signal::TERM);
    assert_eq!(shim.end().signal, Some(15));
    let waiting = vec![InboxSeq(1), InboxSeq(2)];
    assert_eq!(shim.run.inbox_state().unwrap(), InboxState { waiting, ..InboxState::default() });
}

#[test]
fn stdin_can_be_a_file_or_nothing() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "from a file\n").unwrap();
    for (stdin, journal) in [
        (StdinSource::Null, "end\n"),
        (StdinSource::File(file.path().to_path_buf()), "from a file\nend\n"),
    ] {
        let mut shim = Shim::start_with("cat; echo end", |options| options.stdin = stdin);
        assert_eq!(shim.end().code, Some(0));
        assert_eq!(shim.journal(), journal);
    }
}
