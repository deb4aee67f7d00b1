//! `plexus run` as a conversation: the next line, lines while the agent works, and leaving.

use serde_json::json;

use crate::installation::{Installation, eventually};
use crate::pty::Terminal;

const ASKS: &str = "[?] > ";
const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const CTRL_Z: &str = "\u{1a}";

fn run(installation: &Installation, prompt: &str) -> Terminal {
    Terminal::start(installation, 100, &[], &["run", "--name", "talk", prompt])
}

#[test]
fn the_next_line_is_the_next_prompt() {
    let installation = Installation::new();
    let mut terminal = run(&installation, "sim:\nsay one");
    terminal.wait_for("complete in");
    terminal.answer("> ", "say hello\n");
    terminal.wait_for("wants Write");
    terminal.answer(ASKS, "n\n");
    terminal.answer("why not?", "not now\n");
    terminal.wait_for("complete · 1 denied in");
    // An empty line is not a prompt.
    terminal.answer("> ", "\n");
    terminal.answer("> ", CTRL_D);
    terminal.wait_for("plexus run --session talk");
    let (code, shown) = terminal.finish();
    assert_eq!(code, 5, "the last chat counts: {shown}");
    let chats = installation.call("agents.streams", &json!({"name": "talk"}));
    assert_eq!(chats["streams"].as_array().unwrap().len(), 2);
    let ps = installation.works(&["ps"]);
    assert!(ps.contains("complete · 1 denied") && ps.contains("talk"), "{ps}");
}

#[test]
fn a_line_typed_while_it_works_steers_it_and_is_not_written_over() {
    let installation = Installation::new();
    let mut terminal = run(&installation, "sim:\nsay begin\nhang");
    terminal.wait_for("begin");
    terminal.send("half");
    terminal.wait_for("» half");
    installation.works(&["send", "talk", "from elsewhere"]);
    let told = || installation.works(&["logs", "talk"]).contains("told: from elsewhere");
    eventually("the message of somebody else", || told().then_some(()));
    terminal.send(" a line\n");
    terminal.wait_for("told: from elsewhere");
    terminal.wait_for("told: half a line");
    terminal.send(CTRL_C);
    terminal.wait_for("cancelled in");
    // What is stopped can be told what to do instead.
    terminal.answer("> ", CTRL_D);
    let (code, shown) = terminal.finish();
    assert_eq!(code, 130, "{shown}");
    assert!(shown.contains("» half a line"), "something stands in the middle of it:\n{shown}");
}

#[test]
fn an_open_question_is_not_written_over() {
    let installation = Installation::new();
    let mut terminal = run(&installation, "hello");
    terminal.wait_for(ASKS);
    installation.works(&["send", "talk", "from elsewhere"]);
    let told = || installation.works(&["logs", "talk"]).contains("told: from elsewhere");
    eventually("the message of somebody else", || told().then_some(()));
    terminal.send("?\n");
    terminal.wait_for("allow this call once");
    terminal.answer(ASKS, "y\n");
    terminal.wait_for("told: from elsewhere");
    terminal.wait_for("complete in");
    terminal.answer("> ", CTRL_D);
    assert_eq!(terminal.finish().0, 0);
}

#[test]
fn a_person_leaves_and_the_agent_goes_on() {
    let installation = Installation::new();
    for (keys, prompt, shown) in [
        (CTRL_Z, "sim:\nsay begin\nhang", "begin"),
        ("/detach\n", "sim:\nsay begin\nhang", "begin"),
        ("d\n", "hello", ASKS),
        (CTRL_Z, "hello", ASKS),
    ] {
        let mut terminal = Terminal::start(&installation, 100, &[], &["run", prompt]);
        terminal.answer(shown, keys);
        terminal.wait_for("left; it keeps running: `plexus attach");
        let (code, shown) = terminal.finish();
        assert_eq!(code, 0, "{keys:?}: {shown}");
    }
    let sessions = installation.call("agents.list", &json!({}))["sessions"].clone();
    let busy = |session: &serde_json::Value| {
        session["status"] == "running" || session["status"] == "awaiting_permission"
    };
    assert_eq!(sessions.as_array().unwrap().iter().filter(|it| busy(it)).count(), 4);
}

#[test]
fn a_question_that_nobody_answers_in_time_says_that_it_expired() {
    let installation = Installation::new();
    let arguments = ["run", "--once", "--timeout", "15", "hello"];
    let mut terminal = Terminal::start(&installation, 100, &[], &arguments);
    terminal.wait_for("denied automatically in");
    terminal.wait_for("nobody answered in time: it expired");
    terminal.wait_for("complete · 1 expired in");
    assert_eq!(terminal.finish().0, 5);
}

#[test]
fn a_session_is_attached_to_and_goes_on() {
    let installation = Installation::new();
    installation.works(&["run", "--name", "talk", "sim:\nsay one"]);
    let mut terminal = Terminal::start(&installation, 100, &[], &["attach", "talk"]);
    terminal.wait_for("one");
    terminal.wait_for("complete in");
    terminal.answer("> ", "hello\n");
    terminal.answer(ASKS, "y\n");
    terminal.wait_for("Done: plexus-sim.txt is written.");
    terminal.wait_for("complete in");
    terminal.answer("> ", CTRL_C);
    assert_eq!(terminal.finish().0, 0, "between two chats Ctrl-C leaves");
}

#[test]
fn a_mode_answers_what_it_is_for() {
    let installation = Installation::new();
    let arguments = ["run", "--once", "--mode", "accept-edits", "hello"];
    let mut terminal = Terminal::start(&installation, 100, &[], &arguments);
    terminal.wait_for("Done: plexus-sim.txt is written.");
    let (code, shown) = terminal.finish();
    assert!(code == 0 && !shown.contains(ASKS), "{shown}");
    let mode = installation.call("agents.list", &json!({}))["sessions"][0]["mode"]["mode"].clone();
    assert_eq!(mode, "accept_edits");
}

#[test]
fn a_question_of_a_child_names_it_and_is_withdrawn_when_it_is_answered_elsewhere() {
    let installation = Installation::new();
    let mut terminal = run(&installation, "sim:\nsay begin\nhang");
    terminal.wait_for("begin");
    let parent = installation.call("agents.get", &json!({"name": "talk"}))["session"]["id"].clone();
    let child = json!({"name": "child", "parent": parent, "working_dir": installation.work()});
    installation.call("agents.create", &child);
    installation.call("agents.chat_async", &json!({"name": "child", "prompt": "hello"}));
    terminal.wait_for("child wants Write");
    terminal.wait_for(ASKS);
    installation.works(&["approve", installation.pending()["id"].as_str().unwrap()]);
    terminal.wait_for("answered elsewhere");
    terminal.send(CTRL_Z);
    terminal.wait_for("left; it keeps running");
    assert_eq!(terminal.finish().0, 0);
}
