//! The results of the last tools, for `${last.FIELD}` in the following steps.

use serde_json::Value;

use crate::ask::ToolCall;
use crate::message::made_up;
use crate::script::ToolStep;
use crate::wire::{Block, raw};

const OPEN: &str = "${last.";

/// The outcome of the last tool step.
#[derive(Debug)]
pub(crate) struct Last {
    /// The result's text, parsed as JSON if possible.
    pub(crate) value: Value,
    pub(crate) all_ran: bool,
}

impl Default for Last {
    fn default() -> Self {
        Self { value: Value::Null, all_ran: true }
    }
}

/// A `${last.…}` that refers to nothing.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("sim script: ${{last.{0}}} names nothing in the last tool's result")]
pub(crate) struct Unresolved(String);

impl Last {
    /// Reads the text of a result.
    pub(crate) fn of_text(text: &str, all_ran: bool) -> Self {
        Self {
            value: serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
            all_ran,
        }
    }

    /// Replaces every `${last.…}` in a text with its value.
    pub(crate) fn fill_text(&self, text: &str) -> Result<String, Unresolved> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPEN) {
            let (path, tail) = after.split_once('}').ok_or_else(|| Unresolved(after.to_owned()))?;
            filled.push_str(before);
            match self.find(path)? {
                Value::String(text) => filled.push_str(text),
                value => filled.push_str(&value.to_string()),
            }
            rest = tail;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    /// Makes the call of a step, and the block that shows it.
    pub(crate) fn fill_call(&self, step: ToolStep) -> Result<(Block, ToolCall), Unresolved> {
        let mut input: Value = serde_json::from_str(step.input.get()).unwrap_or(Value::Null);
        let mut raw_input = step.input;
        if raw_input.get().contains(OPEN) {
            self.fill_value(&mut input)?;
            raw_input = raw(&input);
        }
        let id = made_up("toolu_sim");
        let block =
            Block::ToolUse { id: id.clone(), name: step.name.clone(), input: raw_input.clone() };
        Ok((
            block,
            ToolCall {
                id,
                name: step.name,
                raw_input,
                input,
                manners: step.manners,
                early_answer: None,
            },
        ))
    }

    fn fill_value(&self, value: &mut Value) -> Result<(), Unresolved> {
        match value {
            Value::String(text) => {
                // A string that consists of one reference becomes the value itself, which may be a
                // number or a list.
                let whole = text.strip_prefix(OPEN).and_then(|path| path.strip_suffix('}'));
                *value = match whole.filter(|path| !path.contains('}')) {
                    Some(path) => self.find(path)?.clone(),
                    None => Value::String(self.fill_text(text)?),
                };
            }
            Value::Array(items) => items.iter_mut().try_for_each(|item| self.fill_value(item))?,
            Value::Object(fields) => {
                fields.values_mut().try_for_each(|field| self.fill_value(field))?
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        Ok(())
    }

    fn find(&self, path: &str) -> Result<&Value, Unresolved> {
        path.split('.')
            .try_fold(&self.value, |value, key| match value {
                Value::Array(items) => items.get(key.parse::<usize>().ok()?),
                value => value.get(key),
            })
            .ok_or_else(|| Unresolved(path.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::script::Manners;

    #[test]
    fn fields_of_the_last_result_are_found_by_their_path() {
        let last = Last::of_text(r#"{"id":"s1","list":[{"n":7}]}"#, true);
        assert_eq!(last.fill_text("a ${last.id} b ${last.list.0.n}").unwrap(), "a s1 b 7");
        let step = ToolStep {
            name: "x".to_owned(),
            input: serde_json::from_str(r#"{"whole":"${last.list.0}","part":"<${last.id}>"}"#)
                .unwrap(),
            manners: Manners::Good,
        };
        let (_, call) = last.fill_call(step).unwrap();
        assert_eq!(call.input, json!({"whole": {"n": 7}, "part": "<s1>"}));
    }

    #[test]
    fn a_reference_to_nothing_is_an_error() {
        let last = Last::of_text("plain text", true);
        assert_eq!(last.fill_text("${last.id}").unwrap_err(), Unresolved("id".to_owned()));
    }
}
