//! The parts of one answer, and how its script is found in a prompt.
//!
//! A prompt may contain its own script: the steps as a JSON array between `@@` and `@@`, as in
//!
//! ```text
//! go @@[{"calls": [{"shell": ["touch made.txt", {}]}]}, {"texts": ["done"]}]@@
//! ```
//!
//! The newest script in the conversation counts, and the step is the number of answers after it.
//! The conversation itself is therefore the only state.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Encloses a script in a prompt.
const FENCE: &str = "@@";

/// One answer of the model: reasoning first, then texts, then calls; or a failure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// A summary of the reasoning, before everything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Texts, each its own message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<String>,
    /// Calls of tools; several run in parallel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// Characters in each delta of a text; one delta when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<usize>,
    /// Milliseconds between two deltas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_ms: Option<u64>,
    /// Fails instead of, or after, the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail: Option<Failure>,
    /// Fails only this many times, then plays the content; always fails when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// A shell command, with further arguments of the tool.
    Shell(String, Value),
    /// A patch.
    Patch(String),
    /// Any tool with arguments in JSON; one of an MCP server as `NAMESPACE/NAME`.
    Function(String, Value),
}

/// How an answer fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// An HTTP error with this status and this error kind, instead of the content.
    Status(u16, String),
    /// The stream breaks off in the middle of the content, without an error.
    Cut,
    /// The stream sends the content and then nothing more, but stays open.
    Hang,
}

impl Step {
    /// Says a text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self { texts: vec![text.to_owned()], ..Self::default() }
    }

    /// Runs a shell command.
    #[must_use]
    pub fn shell(command: &str) -> Self {
        Self::default().and_call(Call::Shell(command.to_owned(), json!({})))
    }

    /// Runs a shell command outside the sandbox, which needs permission.
    #[must_use]
    pub fn escalated(command: &str) -> Self {
        let arguments = json!({
            "sandbox_permissions": "require_escalated",
            "justification": "a step of the script",
        });
        Self::default().and_call(Call::Shell(command.to_owned(), arguments))
    }

    /// Adds a file with one line.
    #[must_use]
    pub fn add_file(path: &str, line: &str) -> Self {
        let patch = format!("*** Begin Patch\n*** Add File: {path}\n+{line}\n*** End Patch");
        Self::default().and_call(Call::Patch(patch))
    }

    /// Calls one more tool in the same answer.
    #[must_use]
    pub fn and_call(mut self, call: Call) -> Self {
        self.calls.push(call);
        self
    }

    /// Thinks before the rest.
    #[must_use]
    pub fn reasoning(mut self, summary: &str) -> Self {
        self.reasoning = Some(summary.to_owned());
        self
    }

    /// Sends texts in deltas of `chunk` characters, `pause_ms` apart.
    #[must_use]
    pub fn slowly(mut self, chunk: usize, pause_ms: u64) -> Self {
        (self.chunk, self.pause_ms) = (Some(chunk), Some(pause_ms));
        self
    }

    /// Fails every time.
    #[must_use]
    pub fn failing(mut self, failure: Failure) -> Self {
        self.fail = Some(failure);
        self
    }

    /// Fails the first `times` requests, then plays its content.
    #[must_use]
    pub fn failing_first(mut self, failure: Failure, times: u32) -> Self {
        (self.fail, self.times) = (Some(failure), Some(times));
        self
    }
}

/// Returns a prompt that contains its own script.
#[must_use]
pub fn prompt(steps: &[Step]) -> String {
    format!("go {FENCE}{}{FENCE}", json!(steps))
}

/// The step that a conversation has reached.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) step: Step,
    /// Identifies this script.
    key: String,
    number: usize,
}

impl Found {
    /// Returns the prefix of the ids of this step's calls; it says which step a call belongs to.
    pub(super) fn call_prefix(&self) -> String {
        format!("call_{}_{}", self.key, self.number)
    }
}

/// Finds the newest script in the conversation and the step that it has reached.
pub(super) fn find(body: &Value) -> Found {
    let items = body["input"].as_array().map_or(&[][..], Vec::as_slice);
    for (at, item) in items.iter().enumerate().rev() {
        let Some(script) = texts(item).into_iter().rev().find_map(fenced) else { continue };
        let mut hasher = DefaultHasher::new();
        script.hash(&mut hasher);
        let key = format!("{:04x}", hasher.finish() & 0xffff);
        let number = answers(&items[at + 1..], &key);
        let step = match serde_json::from_str::<Vec<Step>>(script) {
            Ok(steps) => {
                steps.into_iter().nth(number).unwrap_or_else(|| Step::text("The script has ended."))
            }
            Err(error) => Step::text(&format!("The script cannot be read: {error}")),
        };
        return Found { step, key, number };
    }
    Found { step: Step::text("There is no script."), key: "none".to_owned(), number: 0 }
}

/// Counts the answers of the model. The items of one answer are adjacent, except that outputs may
/// stand between parallel calls. Calls are therefore counted by their ids.
fn answers(items: &[Value], key: &str) -> usize {
    let (mut count, mut inside) = (0_usize, false);
    for item in items {
        let id = item["call_id"].as_str().and_then(|id| id.strip_prefix(&format!("call_{key}_")));
        let step =
            id.and_then(|id| id.split('_').next()).and_then(|step| step.parse::<usize>().ok());
        let is_answer = match item["type"].as_str() {
            Some("function_call" | "custom_tool_call" | "reasoning") => true,
            _ => item["role"] == "assistant",
        };
        match step {
            Some(step) if is_answer => count = count.max(step + 1),
            None if is_answer && !inside => count += 1,
            Some(_) | None => {}
        }
        inside = is_answer;
    }
    count
}

/// Returns the texts that others than the model have written. Tool outputs are left out, because
/// they may repeat a script.
fn texts(item: &Value) -> Vec<&str> {
    if item["role"] != "user" {
        return Vec::new();
    }
    let parts = item["content"].as_array().into_iter().flatten();
    parts.filter_map(|part| part["text"].as_str()).collect()
}

fn fenced(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(FENCE)?;
    let (script, _) = rest.rsplit_once(FENCE)?;
    Some(script)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(text: &str) -> Value {
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
    }

    fn step_of(input: Value) -> Found {
        find(&json!({ "input": input }))
    }

    #[test]
    fn a_step_is_chosen_by_the_answers_since_its_script() {
        let steps = [Step::shell("ls").and_call(Call::Patch("p".to_owned())), Step::text("done")];
        let script = user(&prompt(&steps));
        let first = step_of(json!([script]));
        assert_eq!(first.step, steps[0]);
        let id = |n| format!("{}_{n}", first.call_prefix());
        let call = |n| json!({"type": "function_call", "call_id": id(n)});
        let output =
            |n| json!({"type": "function_call_output", "call_id": id(n), "output": "@@[]@@"});
        // Outputs may stand between parallel calls, or after them.
        let between = json!([script, call(0), output(0), call(1), output(1)]);
        assert_eq!(step_of(between).step, steps[1]);
        let after = json!([script, call(0), call(1), output(0), output(1)]);
        assert_eq!(step_of(after).step, steps[1]);
        let said = json!({"type": "message", "role": "assistant", "content": []});
        let ended = json!([script, call(0), output(0), said]);
        assert_eq!(step_of(ended).step, Step::text("The script has ended."));
    }

    #[test]
    fn a_newer_script_takes_over() {
        let said = json!({"type": "message", "role": "assistant", "content": []});
        let (one, two) = ([Step::text("one")], [Step::text("two")]);
        let input = json!([user(&prompt(&one)), said, user(&prompt(&two))]);
        assert_eq!(step_of(input).step, two[0]);
    }

    #[test]
    fn a_script_with_a_mistake_says_so() {
        let found = step_of(json!([user(r#"@@[{"txet": "x"}]@@"#)]));
        assert!(found.step.texts[0].contains("txet"));
        assert_eq!(step_of(json!([user("hello")])).step.texts, ["There is no script."]);
    }
}
