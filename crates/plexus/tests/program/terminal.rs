//! `plexus run` as a person meets it: in a terminal, with a keyboard.

use crate::installation::{Installation, eventually, executable};
use crate::pty::Terminal;

const ASKS: &str = "[?] > ";

fn run(installation: &Installation, prompt: &str) -> Terminal {
    Terminal::start(installation, 100, &[], &["run", "--once", prompt])
}

#[test]
fn a_new_user_approves_a_write_and_sees_the_outcome() {
    let installation = Installation::new();
    let mut terminal = run(&installation, "say hello");
    terminal.wait_for("started a server");
    terminal.wait_for("wants Write");
    terminal.wait_for("+ say hello");
    terminal.answer(ASKS, "y\n");
    terminal.wait_for("allowed");
    terminal.wait_for("Done: plexus-sim.txt is written.");
    terminal.wait_for("complete in");
    terminal.wait_for("plexus run --session");
    let (code, shown) = terminal.finish();
    assert_eq!(code, 0, "{shown}");
    assert!(
        std::fs::read_to_string(installation.work().join("plexus-sim.txt"))
            .unwrap()
            .contains("say hello")
    );
    assert_eq!(
        shown.matches("Done: plexus-sim.txt").count(),
        1,
        "live text and its event are shown once:\n{shown}"
    );
}

#[test]
fn a_denial_carries_its_reason_to_the_agent() {
    let installation = Installation::new();
    let mut terminal = run(&installation, "hello");
    terminal.answer(ASKS, "?\n");
    terminal.wait_for("deny it, with a reason");
    terminal.answer(ASKS, "n\n");
    terminal.answer("why not?", "write it elsewhere\n");
    terminal.wait_for("denied: write it elsewhere");
    terminal.wait_for("I was not allowed to write");
    terminal.wait_for("complete · 1 denied in");
    assert_eq!(terminal.finish().0, 5);
    assert!(!installation.work().join("plexus-sim.txt").exists());
}

#[test]
fn an_edited_input_is_what_runs() {
    let installation = Installation::new();
    let editor = installation.work().join("editor.sh");
    executable(&editor, "#!/bin/sh\necho 'written by a person' > \"$1\"\n");
    let mut terminal = Terminal::start(
        &installation,
        100,
        &[("EDITOR", editor.to_str().unwrap())],
        &["run", "--once", "hello"],
    );
    terminal.answer(ASKS, "e\n");
    terminal.wait_for("+ written by a person");
    terminal.answer("run it like this?", "y\n");
    terminal.wait_for("allowed as edited");
    assert_eq!(terminal.finish().0, 0);
    assert_eq!(
        std::fs::read_to_string(installation.work().join("plexus-sim.txt")).unwrap(),
        "written by a person\n"
    );
}

#[test]
fn a_long_call_can_be_seen_whole_before_it_is_answered() {
    let installation = Installation::new();
    let content: String = (0..200).map(|n| format!("line {n}\\n")).collect();
    let script = format!(
        "sim:\ntool Write {{\"file_path\":\"long.txt\",\"content\":\"{content}\"}}\nsay end"
    );
    // A pager that numbers what it gets, with an argument of its own.
    let mut terminal =
        Terminal::start(&installation, 100, &[("PAGER", "cat -n")], &["run", "--once", &script]);
    terminal.wait_for("… 140 more lines");
    terminal.answer(ASKS, "v\n");
    terminal.wait_for("203\t  + line 199");
    terminal.answer(ASKS, "y\n");
    terminal.wait_for("complete in");
    assert_eq!(terminal.finish().0, 0);
    assert!(installation.work().join("long.txt").exists());
}

#[test]
fn without_a_pager_a_long_call_is_seen_whole_all_the_same() {
    let installation = Installation::new();
    let content: String = (0..100).map(|n| format!("line {n}\\n")).collect();
    let script = format!(
        "sim:\ntool Write {{\"file_path\":\"long.txt\",\"content\":\"{content}\"}}\nsay end"
    );
    let mut terminal = Terminal::start(
        &installation,
        100,
        &[("PAGER", "no-such-pager")],
        &["run", "--once", &script],
    );
    terminal.answer(ASKS, "v\n");
    terminal.wait_for("+ line 99");
    terminal.answer(ASKS, "n\n");
    terminal.answer("why not?", "too long\n");
    assert_eq!(terminal.finish().0, 5, "something was denied");
}

#[test]
fn a_remembered_rule_answers_the_next_call() {
    let installation = Installation::new();
    let script =
        "sim:\ntool Bash {\"command\":\"touch a\"}\ntool Bash {\"command\":\"touch a\"}\nsay end";
    let mut terminal = run(&installation, script);
    terminal.answer(ASKS, "a\n");
    terminal.wait_for("exactly this command");
    terminal.answer("empty goes back > ", "1\n");
    terminal.wait_for("allowed by rule");
    assert_eq!(terminal.finish().0, 0);
}

#[test]
fn typing_before_the_question_does_not_answer_it() {
    let installation = Installation::new();
    let gate = installation.work().join("gate");
    let made = std::process::Command::new("mkfifo").arg(&gate).status().unwrap();
    assert!(made.success());
    // The first call runs unasked, and ends when a writer has opened the gate and closed it.
    let mut terminal = run(
        &installation,
        "sim:\nsay wait\ntool Bash {\"command\":\"cat gate\"}\n\
            tool Bash {\"command\":\"touch early\"}",
    );
    terminal.wait_for("wait");
    terminal.send("y\ny\n");
    let open = || {
        use std::os::unix::fs::OpenOptionsExt as _;
        // This fails as long as nobody reads.
        std::fs::OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&gate).ok()
    };
    drop(eventually("a reader at the gate", open));
    terminal.answer(ASKS, "n\n");
    terminal.answer("why not?", "\n");
    terminal.wait_for("denied");
    assert_eq!(terminal.finish().0, 5, "something was denied");
    assert!(!installation.work().join("early").exists());
}

#[test]
fn ctrl_c_stops_the_agent_and_what_happened_stays_on_record() {
    let installation = Installation::new();
    let mut terminal = run(&installation, "sim:\nsay before\ntool Bash {\"command\":\"touch x\"}");
    terminal.wait_for(ASKS);
    terminal.send("\u{3}");
    terminal.wait_for("asking the agent to stop");
    terminal.wait_for("cancelled in");
    let (code, shown) = terminal.finish();
    assert_eq!(code, 130, "{shown}");
    let name = shown
        .split("plexus logs ")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .expect("a name");
    let log = installation.works(&["logs", name]);
    assert!(log.contains("before") && log.contains("Ctrl-C"), "{log}");
    assert!(!installation.work().join("x").exists());
}

#[test]
fn a_second_ctrl_c_ends_an_agent_that_does_not_listen() {
    let installation = Installation::new();
    // The agent never gets the request to stop. Nothing else ends it, because the grace period is
    // longer than the test.
    let deaf = installation.work().join("deaf");
    let line = "grep --line-buffered -v '\"interrupt\"' | exec \"$PLEXUS\" sim \"$@\"";
    executable(
        &deaf,
        &format!("#!/bin/sh\n[ \"$1\" = --version ] && exec \"$PLEXUS\" sim \"$@\"\n{line}\n")
            .replace("$PLEXUS", env!("CARGO_BIN_EXE_plexus")),
    );
    let env = [("PLEXUS_CLAUDE_BIN", deaf.to_str().unwrap()), ("PLEXUS_LIMITS_GRACE_SECS", "600")];
    let mut terminal =
        Terminal::start(&installation, 100, &env, &["run", "--once", "sim:\nsay before\nhang"]);
    terminal.wait_for("before");
    terminal.send("\u{3}");
    terminal.wait_for("asking the agent to stop; Ctrl-C again ends it");
    terminal.send("\u{3}");
    terminal.wait_for("ending the agent");
    terminal.wait_for("cancelled in");
    let (code, shown) = terminal.finish();
    assert_eq!(code, 130, "{shown}");
    eventually("the end of the agent", || {
        (installation.call("health.state", &serde_json::json!({}))["children"] == 0).then_some(())
    });
}

#[test]
fn a_question_answered_elsewhere_is_withdrawn() {
    let installation = Installation::new();
    let mut terminal = run(&installation, "hello");
    terminal.wait_for(ASKS);
    let approval = installation.pending();
    installation.works(&["approve", approval["id"].as_str().unwrap()]);
    terminal.wait_for("answered elsewhere");
    terminal.wait_for("complete in");
    assert_eq!(terminal.finish().0, 0);
}

#[test]
fn a_narrow_terminal_gets_short_questions() {
    let installation = Installation::new();
    let mut terminal = Terminal::start(&installation, 30, &[], &["run", "--once", "hello"]);
    terminal.answer("y/n/e/a/v/? > ", "y\n");
    terminal.wait_for("complete in");
    assert_eq!(terminal.finish().0, 0);
}

#[test]
fn colours_come_only_where_they_are_wanted() {
    let installation = Installation::new();
    // The installation sets NO_COLOR; empty means unset.
    for (env, colours) in [
        (&[("NO_COLOR", "")][..], true),
        (&[], false),
        (&[("NO_COLOR", ""), ("TERM", "dumb")], false),
    ] {
        let mut terminal =
            Terminal::start(&installation, 100, env, &["run", "--once", "sim:\nsay hi"]);
        terminal.wait_for("complete in");
        let (code, shown) = terminal.finish();
        assert_eq!((code, shown.contains('\u{1b}')), (0, colours), "{env:?}: {shown:?}");
    }
}

#[test]
fn an_agent_cannot_control_the_terminal() {
    let installation = Installation::new();
    // Clears the screen, sets the title, rings, and hides a command behind a carriage return.
    let script = "sim:\nsay \u{1b}[2J\u{1b}]0;owned\u{7} hi\ntool Bash {\"command\":\"touch a\\r\\u001b[1Anothing\"}\nsay end";
    // A terminal that is never redrawn: each control character would be the agent's.
    let env = [("TERM", "dumb")];
    let mut terminal = Terminal::start(&installation, 100, &env, &["run", "--once", script]);
    terminal.wait_for("␛[2J");
    terminal.wait_for("␍␛[1Anothing");
    terminal.answer(ASKS, "n\n");
    terminal.answer("why not?", "no\n");
    let (code, shown) = terminal.finish();
    assert_eq!(code, 5, "something was denied: {shown}");
    // Plexus itself rings once, for its question.
    assert_eq!(shown.matches('\u{7}').count(), 1, "{shown:?}");
    let shown = shown.replace('\u{7}', "");
    let bad: Vec<char> =
        shown.chars().filter(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')).collect();
    assert!(bad.is_empty(), "{bad:?} in {shown:?}");
    assert!(!shown.replace("\r\n", "\n").contains('\r'), "{shown:?}");
}

#[test]
fn the_tour_stays_open_until_it_is_left() {
    let installation = Installation::new();
    let folder = installation.work();
    let env = [("TMPDIR", folder.to_str().unwrap())];
    let mut terminal = Terminal::start(&installation, 100, &env, &["demo", "--stay"]);
    terminal.wait_for("4 decisions");
    terminal.wait_for("The dashboard stays open until Ctrl-C");
    terminal.wait_for("#code=");
    terminal.send("\u{3}");
    let (code, shown) = terminal.finish();
    assert_eq!(code, 0, "{shown}");
    assert!(std::fs::read_dir(installation.work()).unwrap().next().is_none(), "nothing is left");
}

#[test]
fn a_session_goes_on_where_it_was() {
    let installation = Installation::new();
    let mut first = Terminal::start(
        &installation,
        100,
        &[],
        &["run", "--once", "--name", "mine", "sim:\nsay one"],
    );
    first.wait_for("complete in");
    assert_eq!(first.finish().0, 0);
    let mut second = Terminal::start(
        &installation,
        100,
        &[],
        &["run", "--once", "--session", "mine", "sim:\nrecall"],
    );
    second.wait_for("say one");
    let (code, shown) = second.finish();
    assert_eq!(code, 0, "{shown}");
}
