//! Permission answers: the forms that the two channels may send, and what each means to the CLI.

use serde_json::Value;

/// The effect of an answer on a tool call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    /// The tool runs, with another input if one was given.
    Allow { input: Option<Value>, updates: Vec<Value> },
    /// The tool does not run; the message is its result.
    Deny { message: String },
    /// The tool does not run and the turn ends; the message is lost.
    DenyAndInterrupt,
    /// The tool does not run because the answer cannot be used, or will never arrive. The call
    /// counts as denied.
    Unusable { message: String },
    /// The question itself failed. The model sees a tool error; nobody denied anything.
    Failed { error: String },
    /// There is no permit tool to ask. The CLI gives up altogether.
    NobodyToAsk { error: String },
}

/// The CLI's error for a tool result that is not one text block.
const NOT_ONE_TEXT: &str = "Permission prompt tool returned an invalid result. Expected a single text block param with \
                            type=\"text\" and a string text value.";

/// Who gave an answer, for the error about a bad one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answerer {
    PermitTool,
    ControlChannel,
}

/// Reads a permission result: `{"behavior":"allow",…}` or `{"behavior":"deny","message":…}`.
pub(crate) fn parse(answer: &Value, from: Answerer) -> Answer {
    match answer.get("behavior").and_then(Value::as_str) {
        Some("allow") => {
            let input = match answer.get("updatedInput") {
                None => None,
                // An empty object means the original input, in this version of the CLI.
                Some(Value::Object(fields)) if fields.is_empty() => None,
                Some(input @ Value::Object(_)) => Some(input.clone()),
                Some(_) => return unusable(from),
            };
            let updates = answer
                .get("updatedPermissions")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            Answer::Allow { input, updates }
        }
        Some("deny") => match answer.get("message").and_then(Value::as_str) {
            None => unusable(from),
            Some(_) if answer.get("interrupt") == Some(&Value::Bool(true)) => {
                Answer::DenyAndInterrupt
            }
            Some(message) => Answer::Deny { message: message.to_owned() },
        },
        Some(_) | None => unusable(from),
    }
}

/// Reads the result of an MCP server's permit tool.
pub(crate) fn parse_tool_result(result: &Value) -> Answer {
    let content =
        result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let first_text = content
        .first()
        .filter(|block| block.get("type").and_then(Value::as_str) == Some("text"))
        .and_then(|block| block.get("text"))
        .and_then(Value::as_str);
    if result.get("isError") == Some(&Value::Bool(true)) {
        return Answer::Failed { error: first_text.unwrap_or("unknown error").to_owned() };
    }
    // The CLI prefers structured content over the text, even when the right text is also there.
    if result.get("structuredContent").is_some() {
        return Answer::Failed { error: NOT_ONE_TEXT.to_owned() };
    }
    let Some(text) = first_text else { return Answer::Failed { error: NOT_ONE_TEXT.to_owned() } };
    match serde_json::from_str(text) {
        Ok(answer) => parse(&answer, Answerer::PermitTool),
        Err(_) => unusable(Answerer::PermitTool),
    }
}

fn unusable(from: Answerer) -> Answer {
    let from = match from {
        Answerer::PermitTool => "permission prompt tool",
        Answerer::ControlChannel => "canUseTool callback",
    };
    let message = format!(
        "The {from} returned an invalid permission result. Expected {{behavior: 'allow', \
         updatedInput?: object}} or \
         {{behavior: 'deny', message: string}}. updatedPermissions may hold at most 4096 updates, \
         rules and directories \
         in all."
    );
    Answer::Unusable { message }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of_text(text: &str) -> Answer {
        parse_tool_result(&json!({"content": [{"type": "text", "text": text}]}))
    }

    #[test]
    fn an_allow_runs_with_the_input_it_carries() {
        let allow = |input| Answer::Allow { input, updates: vec![] };
        assert_eq!(
            of_text(r#"{"behavior":"allow","updatedInput":{"a":1}}"#),
            allow(Some(json!({"a": 1})))
        );
        assert_eq!(of_text(r#"{"behavior":"allow"}"#), allow(None));
        assert_eq!(of_text(r#"{"behavior":"allow","updatedInput":{}}"#), allow(None));
    }

    #[test]
    fn a_deny_carries_its_message_unless_it_interrupts() {
        let message = "no".to_owned();
        assert_eq!(of_text(r#"{"behavior":"deny","message":"no"}"#), Answer::Deny { message });
        assert_eq!(
            of_text(r#"{"behavior":"deny","message":"no","interrupt":true}"#),
            Answer::DenyAndInterrupt
        );
    }

    #[test]
    fn a_malformed_permission_result_counts_as_denied() {
        for text in [
            r#"{"behavior":"allow","updatedInput":null}"#,
            r#"{"behavior":"allow","updatedInput":"x"}"#,
            r#"{"behavior":"deny"}"#,
            r#"Sure: {"behavior":"allow"}"#,
            r#"{"behavior":"maybe"}"#,
        ] {
            assert!(matches!(of_text(text), Answer::Unusable { .. }), "{text}");
        }
        let second = json!({"content": [{"type": "text", "text": "see below"}, {"type": "text", "text": "{\"behavior\":\"allow\"}"}]});
        assert!(matches!(parse_tool_result(&second), Answer::Unusable { .. }));
    }

    #[test]
    fn a_tool_error_denies_nothing() {
        let allow = r#"{"behavior":"allow"}"#;
        for result in [
            json!({"content": [{"type": "text", "text": allow}], "structuredContent": {}}),
            json!({"content": []}),
            json!({"content": [{"type": "text", "text": allow}], "isError": true}),
        ] {
            assert!(matches!(parse_tool_result(&result), Answer::Failed { .. }), "{result}");
        }
    }
}
