//! Recorded conversations with the four known agents.

use plexus_engine::driver::{Say, Step};
use plexus_wire::ChatEvent;
use serde_json::json;
use testkit::fixtures::acp::{self, Recorded};

use super::play::{Play, shown};
use crate::acp::AcpMemory;

/// The recordings of agents as children, with the name of each one's profile.
fn recordings() -> Vec<(String, &'static str, Vec<Recorded>)> {
    let known = [
        ("claude-agent-acp-", "claude_acp"),
        ("gemini-", "gemini"),
        ("goose-", "goose"),
        ("opencode-", "opencode"),
    ];
    let all = acp::all().unwrap().into_iter();
    let of_children = all.filter_map(|(name, lines)| {
        let (_, agent) = known.iter().find(|(begin, _)| name.starts_with(begin))?;
        Some((name, *agent, lines))
    });
    of_children.collect()
}

fn played(name: &str, agent: &str) -> Play {
    let mut play = Play::of(agent);
    play.recorded(&acp::read(name).unwrap(), |_| {});
    play
}

#[test]
fn recordings_mean_what_stands_in_the_snapshots() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/acp");
    let update = std::env::var_os("UPDATE_SNAPSHOTS").is_some();
    for (name, agent, _) in recordings() {
        let steps = shown(&played(&name, agent).steps);
        let path = folder.join(format!("{name}.txt"));
        if update {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &steps).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(steps, expected, "{name}");
    }
}

#[test]
fn recordings_mean_the_same_from_every_starting_point() {
    for (name, agent, lines) in recordings() {
        let whole = played(&name, agent);
        assert!(!whole.steps.iter().any(|step| matches!(step, Step::Unreadable { .. })), "{name}");
        // A server that takes over before each line knows only the stored memory.
        let mut taken_over = Play::of(agent);
        taken_over.recorded(&lines, |play| {
            let stored = serde_json::to_string(&play.memory).unwrap();
            let recalled: AcpMemory = serde_json::from_str(&stored).unwrap();
            assert_eq!(recalled, play.memory, "{name}");
            play.memory = recalled;
        });
        assert_eq!(taken_over.steps, whole.steps, "{name}");
        // A server without any memory reads every line without a failure of its own.
        for from in 0..lines.len() {
            Play::of(agent).recorded(&lines[from..], |_| {});
        }
    }
}

#[test]
fn a_question_is_held_back_until_its_input_is_whole() {
    let play = played("opencode-mcp", "opencode");
    let asks: Vec<_> = play
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Asked(ask) => Some((ask.tool_name.as_str(), ask.input.to_value().unwrap())),
            _ => None,
        })
        .collect();
    // The request itself says `{}`; the update that has the input came one line later.
    assert_eq!(asks, [("plexus_poll", json!({"text": "abc", "deep": {"a": [1, 2]}}))]);
}

#[test]
fn a_tool_that_ran_without_a_question_is_named() {
    for (name, agent, ran) in [
        ("opencode-unasked", "opencode", 2),
        ("gemini-unasked", "gemini", 1),
        ("opencode-allow", "opencode", 0),
        ("goose-allow", "goose", 0),
        ("claude-agent-acp-allow", "claude_acp", 0),
        ("gemini-allow", "gemini", 0),
        ("gemini-cancel_tool", "gemini", 0),
    ] {
        let play = played(name, agent);
        let unasked = |step: &&Step| matches!(step, Step::Ran { request_id: None, .. });
        let count = play.steps.iter().filter(unasked).count();
        assert_eq!(count > 0, ran > 0, "{name}: {}", shown(&play.steps));
    }
}

#[test]
fn a_mode_in_which_less_is_asked_is_a_breach() {
    let breaches = |name, agent| {
        let steps = played(name, agent).steps;
        steps.iter().filter(|step| matches!(step, Step::Breach(_))).count()
    };
    assert!(breaches("goose-modes", "goose") > 0);
    assert_eq!(breaches("goose-allow", "goose"), 0);
    // Its plan mode only reads. The text that reports the mode is not shown as the model's.
    let slip = played("gemini-slip", "gemini");
    let text = shown(&slip.steps);
    assert!(!text.contains("MODE_UPDATE"), "{text}");
}

#[test]
fn the_history_of_a_loaded_session_is_not_told_again() {
    for (name, agent) in
        [("goose-load", "goose"), ("gemini-load", "gemini"), ("opencode-kill_ask", "opencode")]
    {
        let play = played(name, agent);
        let said: Vec<_> = play
            .steps
            .iter()
            .filter_map(|step| match step {
                Step::Event(ChatEvent::Content { text }) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(said.last(), Some(&"Going on."), "{name}");
        let unique: std::collections::BTreeSet<_> = said.iter().collect();
        assert_eq!(unique.len(), said.len(), "{name}: {said:?}");
    }
}

#[test]
fn after_the_end_of_a_turn_nothing_can_be_allowed() {
    for (name, agent) in [
        ("opencode-cancel_ask", "opencode"),
        ("gemini-cancel_ask", "gemini"),
        ("claude-agent-acp-cancel_ask", "claude_acp"),
    ] {
        let play = played(name, agent);
        let key = play.asked();
        assert_eq!(play.decide(&key, true), Vec::<serde_json::Value>::new(), "{name}");
        let closed = play.steps.iter().any(|step| match step {
            Step::Withdrawn { request_id } | Step::Settled { request_id } => *request_id == key,
            _ => false,
        });
        assert!(closed, "{name}: {}", shown(&play.steps));
        assert_eq!(play.write(&Say::Interrupt).len(), 1, "{name}: only the cancel itself");
    }
}
