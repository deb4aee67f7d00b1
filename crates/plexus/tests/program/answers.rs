//! Answering from a terminal and from a shell: questions of an agent, several at once, and the
//! whole queue.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::installation::{Installation, eventually, text};
use crate::pty::Terminal;

/// Approvals and sessions of the queue that is walked through.
const MANY: usize = 12;

fn asks() -> String {
    let options = json!([
        {"label": "SQLite", "description": "one file"},
        {"label": "PostgreSQL", "description": "a server"},
    ]);
    let input = json!({"questions": [
        {"question": "Which database?", "header": "DB", "options": options, "multiSelect": false},
        {"question": "Which extras?", "header": "X", "options": options, "multiSelect": true},
    ]});
    format!("sim:\ntool AskUserQuestion {input}\nsay went on")
}

/// The answers of the newest decision.
fn answers(installation: &Installation) -> Value {
    installation.call("loopback.history", &json!({"limit": 1}))["decisions"][0]["answers"].clone()
}

#[test]
fn a_question_is_answered_in_the_terminal() {
    let installation = Installation::new();
    let mut terminal = Terminal::start(&installation, 100, &[], &["run", "--once", &asks()]);
    terminal.wait_for("1 of 2: Which database?");
    terminal.wait_for("2  PostgreSQL");
    terminal.answer("a number, or your words", "3\n");
    terminal.wait_for("there is no number 3");
    terminal.answer("a number, or your words", "2\n");
    terminal.wait_for("2 of 2: Which extras?");
    terminal.answer("numbers, as 1,2, or your words", "1,2\n");
    terminal.wait_for("answered: ");
    terminal.wait_for("went on");
    let (code, shown) = terminal.finish();
    assert_eq!(code, 0, "{shown}");
    let expected =
        json!({"Which database?": ["PostgreSQL"], "Which extras?": ["SQLite", "PostgreSQL"]});
    assert_eq!(answers(&installation), expected);
}

#[test]
fn a_question_is_answered_from_the_shell_and_what_does_not_fit_is_said() {
    let installation = Installation::new();
    installation.works(&["run", "--detach", "--name", "asks", &asks()]);
    let approval = installation.pending();
    let id = approval["id"].as_str().unwrap();
    let shown = installation.works(&["pending", id]);
    assert!(shown.contains("Which database?") && shown.contains("1  SQLite"), "{shown}");
    for (words, complaint) in [
        (vec!["approve", id], "this is a question"),
        (vec!["approve", id, "--answer", "1"], "it asks 2 things, and you gave 1 answers"),
        (vec!["approve", id, "--answer", "9", "--answer", "1"], "there is no number 9"),
        (vec!["approve", id, "--remember"], "no rule answers one"),
        (vec!["approve", "0000000"], "plexus pending"),
    ] {
        let said = installation.fails(&words);
        assert!(said.contains(complaint), "{words:?}: {said}");
    }
    installation.works(&["approve", id, "--answer", "sqlite", "--answer", "my own words"]);
    let expected = json!({"Which database?": ["SQLite"], "Which extras?": ["my own words"]});
    assert_eq!(answers(&installation), expected);
    eventually("the answers in the log, in the order of the questions", || {
        let log = installation.works(&["logs", "asks"]);
        log.contains("answered: SQLite; my own words").then_some(())
    });
    let again = installation.fails(&["approve", id, "--answer", "2", "--answer", "1"]);
    assert!(again.contains("it was already allowed by the operator"), "{again}");
}

#[test]
fn a_plan_is_sent_back_and_then_approved() {
    let installation = Installation::new();
    let plan = json!({"plan": "# The plan\n1. first this"});
    let prompt = format!("sim:\ntool ExitPlanMode {plan}\ntool ExitPlanMode {plan}");
    let mut terminal = Terminal::start(&installation, 100, &[], &["run", "--once", &prompt]);
    terminal.wait_for("has a plan");
    terminal.wait_for("1. first this");
    terminal.answer("carry it out?", "n\n");
    terminal.answer("what should be different?", "add tests\n");
    terminal.wait_for("denied: add tests");
    terminal.answer("carry it out?", "y\n");
    terminal.wait_for("complete · 1 denied in");
    assert_eq!(terminal.finish().0, 5, "something was denied");
}

#[test]
fn the_whole_queue_is_reviewed_by_keyboard() {
    let installation = Installation::new();
    for n in 0..MANY {
        let prompt = format!("sim:\ntool Bash {{\"command\":\"touch made-{n}\"}}");
        installation.works(&["run", "--detach", "--name", &format!("s{n}"), &prompt]);
    }
    let waiting = || -> Vec<Value> {
        serde_json::from_str(&installation.works(&["pending", "--json"])).unwrap()
    };
    eventually("a request of every session", || (waiting().len() == MANY).then_some(()));
    assert_eq!(
        installation.works(&["pending"]).lines().count(),
        MANY + 1,
        "a line each, and a hint"
    );
    let mut terminal = Terminal::start(&installation, 100, &[], &["review"]);
    terminal.wait_for(&format!("({MANY} left"));
    terminal.answer("allow? ", "n\n");
    terminal.answer("why not?", "not that one\n");
    for _ in 1..MANY {
        terminal.answer("allow? ", "y\n");
    }
    terminal.wait_for("that is all");
    assert_eq!(terminal.finish().0, 0);
    assert_eq!(waiting().len(), 0);
    let made =
        || (0..MANY).filter(|n| installation.work().join(format!("made-{n}")).exists()).count();
    eventually("all files but one", || (made() == MANY - 1).then_some(()));
}

#[test]
fn a_review_is_left_with_what_waits_still_waiting() {
    let installation = Installation::new();
    installation.works(&["run", "--detach", "hello"]);
    installation.pending();
    for (keys, code) in [("d\n", 0), ("\u{1a}", 0), ("\u{4}", 0), ("\u{3}", 130)] {
        let mut terminal = Terminal::start(&installation, 100, &[], &["review"]);
        terminal.answer("allow? ", keys);
        terminal.wait_for("left; 1 still wait");
        assert_eq!(terminal.finish().0, code, "{keys:?}");
    }
    assert_eq!(installation.pending()["tool_name"], "Write");
}

#[test]
fn several_are_decided_at_once_by_the_beginnings_of_their_ids() {
    let installation = Installation::new();
    for n in 0..3 {
        let prompt = format!("sim:\ntool Bash {{\"command\":\"touch made-{n}\"}}");
        installation.works(&["run", "--detach", "--name", &format!("s{n}"), &prompt]);
    }
    let waiting = || -> Vec<Value> {
        serde_json::from_str(&installation.works(&["pending", "--json"])).unwrap()
    };
    eventually("three requests", || (waiting().len() == 3).then_some(()));
    // Agents may ask in another order than they were started in.
    let mut asked = waiting();
    asked.sort_by_key(|it| it["input"]["command"].to_string());
    let ids: Vec<String> = asked.iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect();
    // All ids of one moment begin alike.
    let both = installation.fails(&["approve", &ids[0][..4]]);
    assert!(both.contains("3 approvals begin like this"), "{both}");
    let table = installation.works(&["pending", "s1"]);
    let short = table.split(' ').next().unwrap();
    assert!(short.len() >= 8 && short.len() < ids[0].len(), "{table}");
    installation.works(&["approve", &ids[0], &ids[1]]);
    let shown = installation.works(&["deny", "--all", "--session", "s2", "--reason", "no"]);
    assert!(shown.contains("touch made-2") && shown.contains("denied:"), "{shown}");
    eventually("two files", || {
        (installation.work().join("made-0").exists() && installation.work().join("made-1").exists())
            .then_some(())
    });
    assert!(!installation.work().join("made-2").exists());
}

#[test]
fn with_json_nothing_but_json_is_printed() {
    let installation = Installation::new();
    installation.works(&["run", "--detach", "hello"]);
    let approval = installation.pending();
    let denied = installation.works(&["deny", "--all", "--json"]);
    let denied: Value = serde_json::from_str(&denied).expect("JSON");
    assert_eq!(denied["approval_id"], approval["id"], "{denied}");
    for command in ["approve", "deny"] {
        assert_eq!(installation.works(&[command, "--all", "--json"]), "");
        assert_eq!(installation.works(&[command, "--all"]), "nothing waits\n");
    }
}

#[test]
fn a_session_is_told_forked_and_removed() {
    let installation = Installation::new();
    let run = installation.command(&["run", "--name", "one", "sim:\nsay first"]);
    let output = { run }.stdout(Stdio::piped()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let session = &installation.call("agents.list", &json!({}))["sessions"][0];
    let id = session["id"].as_str().unwrap().to_owned();
    assert!(installation.works(&["send", &id[..13], "sim:\nsay second"]).contains("started one"));
    eventually("the second answer", || {
        installation.works(&["logs", "one"]).contains("second").then_some(())
    });
    eventually("the end", || {
        let status =
            installation.call("agents.get", &json!({"name": "one"}))["session"]["status"].clone();
        (status == "complete").then_some(())
    });
    installation.works(&["fork", "one", "second"]);
    assert!(installation.works(&["rename", "second", "two"]).contains("second is two now"));
    for command in ["fork", "rename"] {
        let bad = installation.fails(&[command, "one", "tw\u{7}o"]);
        assert!(bad.contains("no control characters; U+0007 is one"), "{bad}");
    }
    // All ids of these years begin alike.
    let both = installation.fails(&["logs", &id[..4]]);
    assert!(
        both.contains("2 sessions are named or begin like this") && both.contains(&id),
        "{both}"
    );
    let taken = installation.fails(&["rename", "two", "one"]);
    assert!(taken.contains("the name is taken"), "{taken}");
    installation.works(&["rm", "one", "two"]);
    assert_eq!(installation.call("agents.list", &json!({}))["sessions"], json!([]));
    assert!(installation.fails(&["rm", "one"]).contains("plexus ps"));
}
