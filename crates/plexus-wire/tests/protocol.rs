//! The JSON examples of `docs/protocol.md`, each read as the type of its method: what the page
//! shows has every field of the type and no other.
//!
//! The page cuts some values short. A text with `…` in it stands for any text or id, and
//! `"…": "… as METHOD shows it"` for the fields that the example of that method shows.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::path::Path;

use plexus_wire::method::{self, Visitor};
use plexus_wire::{
    AuditBody, AuditLine, CallError, ChatEvent, ChatStarted, Handle, Method, params,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// What takes the place of a text that was cut short: it is read as a text and as an id.
const ANY_ID: &str = "01a1de6b-0000-7000-8000-000000000000";

/// Methods of `agents` that the first stage did not have under its own name, `claudecode`.
const ONLY_AGENTS: [&str; 3] = ["kinds", "search", "changes"];

/// The parameters and the answer of each method, by its name.
type Page = BTreeMap<String, [Value; 2]>;

fn text() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md");
    std::fs::read_to_string(page).unwrap()
}

/// The values of the first block of JSON of a section.
fn block(section: &str) -> Vec<Value> {
    let Some(rest) = section.split("\n```json\n").nth(1) else { return Vec::new() };
    let block = rest.split("\n```").next().unwrap();
    let values = serde_json::Deserializer::from_str(block).into_iter();
    values.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{error}: {block}"))
}

fn page() -> Page {
    let text = text();
    let sections = text.split("\n### ").skip(1).filter_map(|section| section.split_once('\n'));
    let mut page: Page = sections
        .filter_map(|(method, section)| {
            let values = <[Value; 2]>::try_from(block(section)).ok()?;
            Some((method.to_owned(), values))
        })
        .collect();
    // The page shows the methods of sessions once, and they have two names.
    let second_name = |(method, values): (&String, &[Value; 2])| {
        let name = method.strip_prefix("agents.").filter(|name| !ONLY_AGENTS.contains(name))?;
        Some((format!("claudecode.{name}"), values.clone()))
    };
    let second_names: Vec<_> = page.iter().filter_map(second_name).collect();
    page.extend(second_names);
    page
}

/// Puts in what the page cuts short.
fn filled(value: &Value, page: &Page) -> Value {
    match value {
        Value::String(text) if text == "… a JSON Schema" => json!({"type": "object"}),
        Value::String(text) if text.contains('…') => ANY_ID.into(),
        Value::Array(items) => {
            // An item that only says what stands there shows nothing to check.
            let shown = items.iter().filter(|item| !is_reference(item));
            shown.map(|item| filled(item, page)).collect()
        }
        Value::Object(fields) => {
            let mut all = match fields.get("…") {
                Some(words) => referred(words.as_str().unwrap(), fields, page),
                None => Map::new(),
            };
            let own = fields.iter().filter(|(name, _)| *name != "…");
            all.extend(own.map(|(name, value)| match (name.as_str(), value) {
                // A handle may be given as its text; it is the same as the object.
                ("handle", Value::String(text)) => {
                    (name.clone(), json!(text.parse::<Handle>().unwrap()))
                }
                _ => (name.clone(), filled(value, page)),
            }));
            Value::Object(all)
        }
        other => other.clone(),
    }
}

fn is_reference(item: &Value) -> bool {
    item.as_str().is_some_and(|text| text.starts_with("… "))
}

/// Finds what `… as METHOD shows it` means: the first object of that method's answer that has the
/// fields which stand beside the words.
fn referred(words: &str, beside: &Map<String, Value>, page: &Page) -> Map<String, Value> {
    let name = words.split(' ').nth(2).unwrap();
    let suffix = format!(".{name}");
    let (_, [_, answer]) = page
        .iter()
        .find(|(method, _)| *method == name || method.ends_with(&suffix))
        .unwrap_or_else(|| panic!("{words:?} names no method with an example"));
    let fits = |fields: &Map<String, Value>| {
        beside.keys().all(|key| key == "…" || fields.contains_key(key))
    };
    let found = first(answer, &fits).unwrap_or_else(|| panic!("{words:?} leads nowhere"));
    match filled(&Value::Object(found), page) {
        Value::Object(fields) => fields,
        other => panic!("{other}"),
    }
}

fn first(value: &Value, fits: &impl Fn(&Map<String, Value>) -> bool) -> Option<Map<String, Value>> {
    match value {
        Value::Object(fields) if fits(fields) && !fields.contains_key("…") => {
            Some(fields.clone())
        }
        Value::Object(fields) => fields.values().find_map(|value| first(value, fits)),
        Value::Array(items) => items.iter().find_map(|item| first(item, fits)),
        _ => None,
    }
}

/// Reads `shown` as a `T` and says what the page has too much or too little.
fn check<T: DeserializeOwned + Serialize>(what: &str, shown: &Value, problems: &mut Vec<String>) {
    match params::read::<T>(&shown.to_string()) {
        Err(error) => problems.push(format!("{what}: {}", error.message)),
        Ok(read) => {
            let written = serde_json::to_value(&read).unwrap();
            if written != *shown {
                problems
                    .push(format!("{what}:\n  the page says {shown}\n  the type says {written}"));
            }
        }
    }
}

struct Checker {
    page: Page,
    problems: Vec<String>,
    checked: usize,
}

impl Visitor for Checker {
    fn visit<M: Method>(&mut self, _: &'static str, _: &'static str) {
        let name = M::FULL_NAME;
        let Some([asked, answer]) = self.page.get(name) else {
            self.problems.push(format!("{name} has no example"));
            return;
        };
        let answer = filled(answer, &self.page);
        let problems = &mut self.problems;
        check::<M::Params>(&format!("{name}, parameters"), &filled(asked, &self.page), problems);
        check::<M::Result>(&format!("{name}, result"), &answer, problems);
        inside(name, &answer, problems);
        self.checked += 1;
    }
}

/// Checks what a result holds as JSON of its own: events and bodies of audit lines.
fn inside(name: &str, value: &Value, problems: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(event @ Value::Object(_)) = fields.get("event") {
                check::<ChatEvent>(&format!("{name}, event"), event, problems);
                if matches!(serde_json::from_value(event.clone()), Ok(ChatEvent::Other(_))) {
                    problems.push(format!("{name}: no event is like {event}"));
                }
            }
            if let Ok(line) = serde_json::from_value::<AuditLine>(value.clone()) {
                check::<AuditBody>(&format!("{name}, body"), &fields["body"], problems);
                if matches!(line.read(), Ok(AuditBody::Other(_))) {
                    problems.push(format!("{name}: no audit line is like {value}"));
                }
            }
            fields.values().for_each(|value| inside(name, value, problems));
        }
        Value::Array(items) => items.iter().for_each(|item| inside(name, item, problems)),
        _ => {}
    }
}

#[test]
fn every_example_of_the_protocol_has_the_type_of_its_method() {
    let mut checker = Checker { page: page(), problems: Vec::new(), checked: 0 };
    method::each(&mut checker);
    assert!(checker.problems.is_empty(), "{}", checker.problems.join("\n"));
    assert_eq!(checker.checked, checker.page.len(), "an example belongs to no method");
}

#[test]
fn the_example_of_an_error_is_one() {
    let shown = block(&text()).remove(0);
    let data = filled(&shown["error"]["data"], &Page::new());
    let mut problems = Vec::new();
    check::<CallError>("an error", &data, &mut problems);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn an_extra_field_and_a_missing_one_are_found() {
    let mut problems = Vec::new();
    for shown in [
        json!({"type": "started", "session_id": ANY_ID, "chat": 0, "more": 1}),
        json!({"type": "started", "session_id": ANY_ID}),
    ] {
        check::<ChatStarted>("it", &shown, &mut problems);
    }
    assert_eq!(problems.len(), 2, "{problems:?}");
}
