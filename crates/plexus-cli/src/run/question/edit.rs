//! An edit of the input: what the editor is opened on, and what came out of it.

use plexus_client::wire::Object;
use serde_json::Value;

use super::{Move, Question, Step};
use plexus_render::screen::Screen;
use plexus_render::tool_call::{self, Extent};

/// What the editor is opened on.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::run) struct Editing {
    pub(in crate::run) text: String,
    /// The ending of the file.
    pub(in crate::run) ending: &'static str,
    /// The field that the text stands for; without it the whole input as JSON.
    field: Option<String>,
}

/// How much of the input is edited.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EditWhat {
    MainField,
    Everything,
}

impl Question {
    pub(super) fn editing(&self, what: EditWhat) -> Editing {
        let input = match &self.step {
            Step::Confirm { updated, .. } => &Value::Object(updated.clone()),
            Step::Choose | Step::Answer(_) | Step::Plan | Step::Reason | Step::Remember => {
                &self.input
            }
        };
        let main = match what {
            EditWhat::MainField => tool_call::main_field(&self.approval),
            EditWhat::Everything => None,
        };
        let editing = main.and_then(|(field, ending)| {
            let text = input[field.as_str()].as_str()?.to_owned();
            Some(Editing { text, ending, field: Some(field) })
        });
        editing.unwrap_or_else(|| Editing {
            text: format!("{input:#}\n"),
            ending: "json",
            field: None,
        })
    }

    /// Takes what came out of the editor: shows the difference and asks whether to run it.
    pub(in crate::run) fn edited(&mut self, editing: &Editing, text: &str, screen: Screen) -> Move {
        let updated: Object = match &editing.field {
            Some(field) => {
                // Editors end a file with a newline that was not meant.
                let text = if editing.text.ends_with('\n') {
                    text
                } else {
                    text.strip_suffix('\n').unwrap_or(text)
                };
                let mut input = self.input.as_object().cloned().unwrap_or_default();
                input.insert(field.clone(), Value::String(text.to_owned()));
                input
            }
            None => match serde_json::from_str::<Value>(text) {
                Ok(Value::Object(input)) => input,
                Ok(_) => {
                    return Move::Ask(vec![
                        "  that is not a JSON object; nothing is changed".into(),
                    ]);
                }
                Err(error) => {
                    return Move::Ask(vec![format!(
                        "  that is not JSON ({error}); nothing is changed"
                    )]);
                }
            },
        };
        if Some(&updated) == self.input.as_object() {
            self.step = Step::Choose;
            return Move::Ask(vec!["  nothing is changed".into()]);
        }
        let old = editing
            .field
            .as_deref()
            .map_or_else(|| format!("{:#}\n", self.input), |field| self.field_text(field));
        let new = editing.field.as_deref().map_or_else(
            || format!("{:#}\n", Value::Object(updated.clone())),
            |field| updated[field].as_str().unwrap_or_default().to_owned(),
        );
        let change = (with_newline(&old), with_newline(&new));
        let lines = tool_call::diff(&change.0, &change.1, Extent::Short, screen);
        self.step = Step::Confirm { updated, change };
        Move::Ask(lines.into_iter().map(|line| format!("  {line}")).collect())
    }

    fn field_text(&self, field: &str) -> String {
        self.input[field].as_str().unwrap_or_default().to_owned()
    }
}

fn with_newline(text: &str) -> String {
    if text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}
