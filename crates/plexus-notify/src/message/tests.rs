//! What a message says, and that it is never longer than its receiver takes.

use plexus_wire::HookMessage;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Detail, Frame, Message};
use crate::kinds::To;
use crate::notify;

const URL: &str = "https://plexus.example.org";
const SESSION: &str = "01a1de6b-3b15-70ca-afc7-c3f165592f7c";

/// The receivers that show messages to people.
fn receivers() -> Vec<To> {
    let env = [("TOKEN".into(), "1:token".into())];
    let entries = [
        "to = \"ntfy\"\ntopic = \"t\"",
        "to = \"slack\"\nchannel = \"C\"\ntoken_env = \"TOKEN\"",
        "to = \"telegram\"\nchat = 5\ntoken_env = \"TOKEN\"",
        "to = \"webpush\"",
        "to = \"desktop\"",
    ];
    let read = |entry: &&str| {
        let entry = toml::from_str(&format!("name = \"me\"\n{entry}")).unwrap();
        notify::receiver(&entry, &env).unwrap().to
    };
    entries.iter().map(read).collect()
}

fn telegram() -> To {
    receivers().remove(2)
}

/// A request whose session has this name, for this input.
fn request(name: &str, tool: &str, input: Value, target: Value) -> HookMessage {
    serde_json::from_value(json!({
        "id": Uuid::now_v7(),
        "type": "approval.escalated",
        "created_at": 1,
        "approval": {
            "id": Uuid::now_v7(),
            "session_id": Uuid::now_v7(),
            "session_name": name,
            "tool_name": tool,
            "tool_use_id": "t",
            "input": input,
            "input_digest": "0".repeat(64),
            "target": target,
            "description": null,
            "status": "pending",
            "created_at": 1,
            "expires_at": 9_999_999_999_u64,
            "working_dir": "/home/me/project",
            "risk": {"level": "high", "score": 70, "reasons": ["it writes ".repeat(9), "b"]},
        },
        "respond": {
            "expires_at": 9_999_999_999_999_u64,
            "token": format!("plx_hook_{}", "a".repeat(112)),
            "url": format!("{URL}/hooks/respond"),
        },
    }))
    .unwrap()
}

/// A request of a shell.
fn command(name: &str, command: &str) -> HookMessage {
    let target = json!({"kind": "shell", "command": command});
    request(name, "Bash", json!({"command": command}), target)
}

fn about(events: Vec<HookMessage>, to: &To, detail: Detail) -> Message {
    let names = [(SESSION.parse().unwrap(), "review".to_owned())].into();
    Message::about(events, Frame { detail, to, names: &names, public_url: Some(URL) }).unwrap()
}

#[test]
fn a_finished_message_is_never_longer_than_its_receiver_takes() {
    // Quotes and line breaks take more room in JSON, a line break more in a list, and some letters
    // more bytes or more UTF-16 units.
    let texts = ["a long line ", "\"\\", "short line\n", "🦀", "ß€"];
    for to in receivers() {
        for detail in [Detail::None, Detail::Summary, Detail::Full] {
            for count in [1, 2, 3, 16] {
                for names in [1, 33, 500] {
                    for (text, size) in
                        texts.iter().flat_map(|it| [0, 40, 700, 9_000].map(|n| (it, n)))
                    {
                        let name = text.trim().chars().cycle().take(names).collect::<String>();
                        let said: String = text.chars().cycle().take(size).collect();
                        let events = (0..count).map(|_| command(&name, &said)).collect();
                        let message = about(events, &to, detail);
                        let case = format!(
                            "{} {detail:?}, {count} times {size} of {text:?}, names of {names}",
                            to.word()
                        );
                        assert!(to.takes(&message), "{case}: {message:#?}");
                        assert_eq!(message.items.len(), count, "{case}");
                        let last = format!("{count}. Still waiting: ");
                        assert!(count == 1 || message.body.contains(&last), "{case}");
                        let cut = message.body.contains("(cut)");
                        let pressed = message.items.iter().any(|item| item.press.is_some());
                        assert!(!(cut && pressed && count == 1), "{case}: it is cut");
                    }
                }
            }
        }
    }
}

#[test]
fn what_telegram_refused_fits() {
    // 17 sessions with names of 33 characters, and long commands of one line.
    let name = |n| format!("the-session-that-works-on-part-{n:02}");
    let line = format!("cargo test --workspace {}", "--package some-crate ".repeat(20));
    let events = (0..16).map(|n| command(&name(n), &line)).collect();
    let message = about(events, &telegram(), Detail::Summary);
    assert!(message.text().chars().count() <= 4_096, "{}", message.text());
    for n in 0..16 {
        assert!(message.body.contains(&format!("{}. Still waiting: {} asks", n + 1, name(n))));
    }
    // Three files of many short lines.
    let write = |n| {
        let content = "a line\n".repeat(530);
        let target =
            json!({"kind": "write", "changes": [{"path": format!("{n}.txt"), "kind": "write"}]});
        request("s", "Write", json!({"file_path": format!("{n}.txt"), "content": content}), target)
    };
    let message = about((0..3).map(write).collect(), &telegram(), Detail::Full);
    assert!(message.text().chars().count() <= 4_096, "{}", message.text());
    assert!(message.body.contains("denied automatically in"), "{}", message.body);
    assert!(message.items.iter().all(|item| item.press.is_none()), "nobody saw all of it");
}

#[test]
fn what_fits_is_whole_and_has_its_buttons() {
    for to in receivers() {
        for count in [1, 3] {
            let events = (0..count).map(|_| command("s", "touch note")).collect();
            let message = about(events, &to, Detail::Full);
            assert!(message.items.iter().all(|item| item.press.is_some()), "{message:#?}");
            for part in ["command: touch note", "in /home/me/project", "risk high: it writes"] {
                assert!(message.body.contains(part), "{part}: {}", message.body);
            }
        }
    }
}

#[test]
fn a_link_leads_to_the_first_request_on_the_page_for_phones() {
    let (one, other) = (command("a", "true"), command("b", "true"));
    let events = [one, other];
    let plexus_wire::HookBody::Asked { approval } = &events[0].body else { panic!() };
    let expected = format!("{URL}/approve/{}", approval.id);
    for many in [1, 2] {
        let message = about(events[..many].to_vec(), &telegram(), Detail::None);
        assert_eq!(message.url.as_deref(), Some(expected.as_str()));
    }
}

#[test]
fn a_decision_names_the_session_and_who_decided() {
    let resolved = |session: &str, status: &str, by: Value, receiver: Option<&str>| {
        let event: HookMessage = serde_json::from_value(json!({
            "id": Uuid::now_v7(),
            "type": "approval.resolved",
            "created_at": 1,
            "approval": {
                "approval_id": Uuid::now_v7(),
                "session_id": session,
                "tool_name": "Write",
                "tool_use_id": "t",
                "input_digest": "0",
                "status": status,
                "created_at": 1,
                "decided_by": by,
                "receiver": receiver,
            },
        }))
        .unwrap();
        about(vec![event], &telegram(), Detail::None).title
    };
    for (status, by, receiver, expected) in [
        ("allowed", json!("webhook"), Some("phone"), "review: Write was allowed through phone"),
        ("denied", json!("operator"), None, "review: Write was denied by operator"),
        ("allowed", json!({"rule": SESSION}), None, "review: Write was allowed by rule"),
        ("expired", json!("deadline"), None, "review: Write expired"),
        ("allowed", json!("webhook"), None, "review: Write was allowed by webhook"),
    ] {
        assert_eq!(resolved(SESSION, status, by, receiver), expected);
    }
    let gone = Uuid::now_v7().to_string();
    let title = resolved(&gone, "denied", json!("operator"), None);
    assert_eq!(title, format!("session {gone}: Write was denied by operator"));
}
