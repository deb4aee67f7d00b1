//! The parts of one answer, and how its script is found in a prompt.
//!
//! A prompt may contain its own script: the steps as a JSON array between `@@` and `@@`, as in
//!
//! ```text
//! go @@[{"text": "I will run it.", "tools": [["Bash", {"command": "touch made.txt"}]]}, {"text": "done"}]@@
//! ```
//!
//! The newest script in the conversation counts, and the step is the number of assistant messages
//! after it. The conversation itself is therefore the only state.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::script_ended;

/// Placeholder in a script for the file in which the CLI wants the plan of this conversation. The
/// CLI names the file in the conversation when plan mode begins.
pub const PLAN_FILE: &str = "$PLAN_FILE";

/// Encloses a script in a prompt.
const FENCE: &str = "@@";

/// One answer of the model: thinking first, then text, then tool uses; or a failure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// A thinking block before everything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// A text block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Tool uses; several run in parallel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolUse>,
    /// Characters in each delta; one delta when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<usize>,
    /// Milliseconds between two deltas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_ms: Option<u64>,
    /// Milliseconds before the answer begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// Fails instead of, or after, the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail: Option<Failure>,
    /// Fails only this many times, then plays the content; always fails when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
}

/// A tool use in a step: `["Bash", {"command": "ls"}]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolUse(pub String, pub Value);

/// How an answer fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// An HTTP error of this status (400, 401, 429, 500, 529, …) with the API's own error object,
    /// instead of the content.
    Status(u16),
    /// The stream breaks off in the middle of the content, without an error. The plain form is not
    /// a stream and arrives whole.
    Cut,
    /// The stream sends the content and then an `error` event.
    Overloaded,
    /// The stream sends the content and then nothing more, but stays open.
    Hang,
}

impl Step {
    /// Says a text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self { text: Some(text.to_owned()), ..Self::default() }
    }

    /// Uses one tool.
    #[must_use]
    pub fn tool(name: &str, input: Value) -> Self {
        Self::default().and_tool(name, input)
    }

    /// Uses one more tool in the same answer.
    #[must_use]
    pub fn and_tool(mut self, name: &str, input: Value) -> Self {
        self.tools.push(ToolUse(name.to_owned(), input));
        self
    }

    /// Runs a shell command with the Bash tool.
    #[must_use]
    pub fn bash(command: &str) -> Self {
        Self::default().and_bash(command)
    }

    /// Runs one more shell command in the same answer.
    #[must_use]
    pub fn and_bash(self, command: &str) -> Self {
        self.and_tool("Bash", json!({"command": command, "description": "a step of the script"}))
    }

    /// Thinks before the rest.
    #[must_use]
    pub fn thinking(mut self, thinking: &str) -> Self {
        self.thinking = Some(thinking.to_owned());
        self
    }

    /// Sends the content in deltas of `chunk` characters, `pause_ms` apart.
    #[must_use]
    pub fn slowly(mut self, chunk: usize, pause_ms: u64) -> Self {
        (self.chunk, self.pause_ms) = (Some(chunk), Some(pause_ms));
        self
    }

    /// Waits before the answer begins.
    #[must_use]
    pub fn after_ms(mut self, delay_ms: u64) -> Self {
        self.delay_ms = Some(delay_ms);
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
pub(super) struct Found {
    pub(super) step: Step,
    text: String,
    number: usize,
}

impl Found {
    /// Returns a key that identifies this step of this script.
    pub(super) fn key(&self) -> String {
        format!("{}:{}", self.number, self.text)
    }
}

/// Finds the newest script in a conversation and the step that it has reached.
///
/// For a script that cannot be parsed, the answer is the reason as text, so that it shows in the
/// output of the test that wrote it.
pub(super) fn find(body: &Value) -> Option<Found> {
    let messages = body["messages"].as_array()?;
    let mut number = 0;
    for message in messages.iter().rev() {
        if message["role"] == "assistant" {
            number += 1;
        } else if let Some(text) = texts(message).into_iter().rev().find_map(fenced) {
            let whole = match plan_file(body) {
                Some(path) => text.replace(PLAN_FILE, &path),
                None => text.to_owned(),
            };
            let step = match serde_json::from_str::<Vec<Step>>(&whole) {
                Ok(steps) => steps.into_iter().nth(number).unwrap_or_else(script_ended),
                Err(error) => Step::text(&format!("The script cannot be read: {error}")),
            };
            return Some(Found { step, text: text.to_owned(), number });
        }
    }
    None
}

/// Returns the texts of a message. Results of tools are left out, because they may repeat a script.
pub(super) fn texts(message: &Value) -> Vec<&str> {
    match &message["content"] {
        Value::String(text) => vec![text],
        Value::Array(blocks) => blocks
            .iter()
            .filter(|block| block["type"] == "text")
            .filter_map(|block| block["text"].as_str())
            .collect(),
        _ => Vec::new(),
    }
}

/// Returns the path that a conversation names for its plan.
fn plan_file(body: &Value) -> Option<String> {
    let messages = body["messages"].to_string();
    let (before, after) = messages.split_once("/.claude/plans/")?;
    let start = before.rfind(|c: char| c.is_whitespace() || "\"\\`".contains(c))? + 1;
    let (name, _) = after.split_once(".md")?;
    Some(format!("{}/.claude/plans/{name}.md", &before[start..]))
}

fn fenced(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(FENCE)?;
    let (script, _) = rest.rsplit_once(FENCE)?;
    Some(script)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step_of(messages: Value) -> Option<Step> {
        find(&json!({ "messages": messages })).map(|found| found.step)
    }

    #[test]
    fn a_step_is_chosen_by_the_assistant_messages_since_its_script() {
        let script = prompt(&[Step::bash("ls"), Step::text("done")]);
        let user = json!({"role": "user", "content": script});
        let assistant = json!({"role": "assistant", "content": []});
        let result =
            json!({"role": "user", "content": [{"type": "tool_result", "content": "@@[]@@"}]});
        assert_eq!(step_of(json!([user])), Some(Step::bash("ls")));
        assert_eq!(step_of(json!([user, assistant, result])), Some(Step::text("done")));
        assert_eq!(step_of(json!([user, assistant, result, assistant])), Some(script_ended()));
    }

    #[test]
    fn a_newer_script_takes_over() {
        let first = json!({"role": "user", "content": prompt(&[Step::text("one")])});
        let second = json!({"role": "user", "content": [{"type": "text", "text": prompt(&[Step::text("two")])}]});
        let assistant = json!({"role": "assistant", "content": []});
        assert_eq!(step_of(json!([first, assistant, second])), Some(Step::text("two")));
    }

    #[test]
    fn a_conversation_without_a_script_has_no_step() {
        assert_eq!(step_of(json!([{"role": "user", "content": "mail me @@ home"}])), None);
    }

    #[test]
    fn the_short_form_of_the_recorded_prompts_is_understood() {
        let text = r#"go @@[{"text": "I will.", "tools": [["Bash", {"command": "ls"}]]}, {"fail": {"status": 529}}]@@"#;
        let step = step_of(json!([{"role": "user", "content": text}])).unwrap();
        assert_eq!(step, Step::text("I will.").and_tool("Bash", json!({"command": "ls"})));
    }

    #[test]
    fn a_script_with_a_mistake_says_so() {
        let step = step_of(json!([{"role": "user", "content": r#"@@[{"txet": "x"}]@@"#}])).unwrap();
        assert!(step.text.unwrap().contains("txet"));
    }
}
