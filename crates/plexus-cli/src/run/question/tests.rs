//! What each line that is typed means, in tables.

use plexus_client::wire::{ApprovalId, SessionId};
use serde_json::json;

use super::*;

const SCREEN: fn() -> Screen = || Screen::plain(80);

fn asked_about(tool: &str, input: &Value, target: &Value) -> Question {
    Question::new(
        serde_json::from_value(json!({
            "id": ApprovalId::generate(), "session_id": SessionId::generate(),
            "session_name": "s", "tool_name": tool, "tool_use_id": "t", "input": input,
            "input_digest": "d", "status": "pending", "created_at": 0,
            "working_dir": "/home/me/project", "target": target,
            "risk": {"level": "high", "score": 66, "reasons": ["one", "two\u{1b}"]},
            "suggested_rules": [{"label": "l", "pattern": "Bash(ls:*)"}],
        }))
        .unwrap(),
    )
}

fn question() -> Question {
    let target = json!({"kind": "shell", "command": "ls"});
    asked_about("Bash", &json!({"command": "ls", "timeout": 1}), &target)
}

#[test]
fn a_command_is_shown_with_the_directory_in_which_it_runs() {
    let lines = question().shown(Extent::Whole, SCREEN());
    assert!(lines.iter().any(|line| line.contains("in /home/me/project")), "{lines:?}");
}

#[test]
fn a_call_of_high_risk_is_shown_with_its_reasons() {
    let lines = question().shown(Extent::Whole, SCREEN());
    assert!(lines.iter().any(|line| line.contains("one; two")), "{lines:?}");
    assert!(!lines.join("").contains('\u{1b}'), "{lines:?}");
}

/// Plays the lines; the last must decide.
fn decided(question: &mut Question, lines: &[&str]) -> RespondParams {
    let (last, first) = lines.split_last().unwrap();
    for line in first {
        let moved = question.take(line, SCREEN());
        assert!(matches!(moved, Move::Ask(_)), "{line}: {moved:?}");
    }
    match question.take(last, SCREEN()) {
        Move::Decide(answer) => *answer,
        other => panic!("{lines:?} gave {other:?}"),
    }
}

#[test]
fn each_way_through_the_dialogue_ends_in_its_answer() {
    let yes = decided(&mut question(), &["?", "nonsense", "", "y"]);
    assert!(yes.approve && yes.input_digest.as_deref() == Some("d") && yes.remember.is_none());

    let no = decided(&mut question(), &["n", "use git"]);
    assert_eq!((no.approve, no.message.as_deref()), (false, Some("use git")));

    let mut asked = question();
    let session = asked.approval.session_id;
    let always = decided(&mut asked, &["a", "7", "1"]);
    assert_eq!(
        always.remember,
        Some(Remember {
            pattern: Some("Bash(ls:*)".into()),
            ..Remember::new(RuleScope::Session(session))
        })
    );

    let everywhere = decided(&mut question(), &["a", "", "a", "Bash(git diff:*) all"]);
    assert_eq!(
        everywhere.remember,
        Some(Remember {
            pattern: Some("Bash(git diff:*)".into()),
            ..Remember::new(RuleScope::All)
        })
    );
}

#[test]
fn a_command_is_tried_over_a_copy_only_where_that_can_be_done() {
    let mut asked = question();
    assert!(!asked.prompt(SCREEN()).contains("[p]review"));
    let Move::Ask(lines) = asked.take("p", SCREEN()) else { panic!("it was tried") };
    assert!(lines[0].contains("a session with a wall"), "{lines:?}");
    asked.approval.preview = true;
    assert!(asked.prompt(SCREEN()).contains("[p]review"));
    assert_eq!(asked.take("p", SCREEN()), Move::Preview);
    assert!(decided(&mut asked, &["y"]).approve, "the preview has not ended the question");
}

fn asked_for(question: &Value) -> Question {
    let approval = question_approval(question);
    Question::new(serde_json::from_value(approval).unwrap())
}

fn question_approval(question: &Value) -> Value {
    let target = json!({"kind": "question"});
    let mut approval =
        serde_json::to_value(asked_about("Ask", &json!({}), &target).approval).unwrap();
    approval["question"] = question.clone();
    approval
}

#[test]
fn a_question_of_the_agent_is_answered_part_by_part() {
    let options = json!([{"label": "SQLite"}, {"label": "PostgreSQL"}]);
    let question = json!({"kind": "choices", "questions": [
        {"id": "one", "text": "Which?", "options": options},
        {"id": "two", "text": "Name?", "free_text": true},
    ]});
    let mut asked = asked_for(&question);
    let shown = asked.shown(Extent::Short, SCREEN()).join("\n");
    assert!(shown.contains("s asks") && shown.contains("2  PostgreSQL"), "{shown}");
    assert!(!shown.contains("Name?"), "{shown}");
    let answer = decided(&mut asked, &["?", "3", "2", "my words"]);
    let texts = |text: &str| vec![text.to_owned()];
    let answers = Answers::from([
        ("one".to_owned(), texts("PostgreSQL")),
        ("two".to_owned(), texts("my words")),
    ]);
    assert_eq!((answer.approve, answer.answers), (true, Some(answers)));
    let denied = decided(&mut asked_for(&question), &["1", "n", "ask later"]);
    assert_eq!((denied.approve, denied.message.as_deref()), (false, Some("ask later")));
}

#[test]
fn a_plan_is_approved_or_sent_back() {
    let plan = json!({"kind": "plan", "plan": "# Do it\n1. now"});
    let shown = asked_for(&plan).shown(Extent::Short, SCREEN()).join("\n");
    assert!(shown.contains("has a plan") && shown.contains("1. now"), "{shown}");
    let yes = decided(&mut asked_for(&plan), &["?", "y"]);
    assert!(yes.approve && yes.answers.is_none());
    let back = decided(&mut asked_for(&plan), &["n", "add tests"]);
    assert_eq!((back.approve, back.message.as_deref()), (false, Some("add tests")));
}

#[test]
fn an_edit_is_shown_as_a_difference_and_then_confirmed() {
    let mut asked = question();
    let Move::Edit(editing) = asked.take("e", SCREEN()) else { panic!("no editor") };
    assert_eq!((editing.text.as_str(), editing.ending), ("ls", "sh"));
    assert_eq!(
        asked.edited(&editing, "ls -l\n", SCREEN()),
        Move::Ask(vec!["  - ls".into(), "  + ls -l".into()])
    );
    let answer = decided(&mut asked, &["what", "y"]);
    let updated = answer.updated_input.map(Value::Object);
    assert_eq!(updated, Some(json!({"command": "ls -l", "timeout": 1})));
    assert_eq!(answer.input_digest.as_deref(), Some("d"));
}

#[test]
fn a_long_call_and_a_long_edit_can_be_viewed_whole() {
    let long: String = (0..200).map(|n| format!("line {n}\n")).collect();
    let path = "/no/such/file";
    let change = json!({"path": path, "edit": "whole", "after": "/content"});
    let target = json!({"kind": "write", "changes": [change]});
    let mut asked = asked_about("Write", &json!({"file_path": path, "content": long}), &target);
    assert!(asked.shown(Extent::Short, SCREEN()).last().unwrap().contains("140 more lines"));
    let Move::View(lines) = asked.take("v", SCREEN()) else { panic!("no view") };
    assert_eq!(lines.len(), 203, "who wants what, its risk, the path, and every line");

    let Move::Edit(editing) = asked.take("e", SCREEN()) else { panic!("no editor") };
    let Move::Ask(short) = asked.edited(&editing, &long.replace("line", "word"), SCREEN()) else {
        panic!("no diff")
    };
    assert!(short.last().unwrap().contains("340 more lines"), "{short:?}");
    let Move::View(lines) = asked.take("v", SCREEN()) else { panic!("no view") };
    assert_eq!(lines.len(), 400);
    assert!(
        decided(&mut asked, &["y"]).updated_input.is_some(),
        "the view has not ended the question"
    );
}

#[test]
fn an_edit_that_is_no_input_changes_nothing() {
    let mut asked = question();
    let Move::Edit(editing) = asked.take("E", SCREEN()) else { panic!("no editor") };
    assert_eq!(editing.ending, "json");
    for text in ["", "[1]", "{", editing.text.as_str()] {
        let moved = asked.edited(&editing, text, SCREEN());
        assert!(
            matches!(&moved, Move::Ask(lines) if lines[0].contains("nothing is changed")),
            "{text}: {moved:?}"
        );
    }
    assert!(decided(&mut asked, &["y"]).updated_input.is_none());
}
