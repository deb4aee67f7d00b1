//! What the input of a tool call may contain, so that its decider sees exactly the bytes that are
//! sent.

use plexus_core::auth::TOKEN_PREFIX;
use plexus_store::{JsonText, StoreError};
use serde_json::Value;

/// How many hexadecimal digits follow the prefix of a token of ours.
const TOKEN_DIGITS: usize = 64;

/// Reads the input of a permission request or of an edit.
///
/// An input is shown, digested, stored and sent as it is. Masking one of our tokens would show
/// something other than what is sent, and showing it would give its authority to the decider. Such
/// an input is refused.
///
/// # Errors
/// `Invalid` when the input cannot be parsed faithfully, or contains one of our tokens.
pub(crate) fn acceptable(input: &JsonText) -> Result<Value, StoreError> {
    let value: Value = input.read()?;
    if holds_token(&value) {
        return Err(StoreError::invalid(
            "take this input: it holds a token of this server, which belongs in no tool call",
        ));
    }
    Ok(value)
}

fn holds_token(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text_holds_token(text),
        Value::Array(items) => items.iter().any(holds_token),
        Value::Object(fields) => {
            fields.iter().any(|(key, value)| text_holds_token(key) || holds_token(value))
        }
    }
}

fn text_holds_token(text: &str) -> bool {
    text.match_indices(TOKEN_PREFIX).any(|(at, prefix)| {
        let after = text.as_bytes().get(at + prefix.len()..).unwrap_or_default();
        after.iter().take_while(|byte| byte.is_ascii_hexdigit()).count() >= TOKEN_DIGITS
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(value: &Value) -> JsonText {
        JsonText::from(value.clone())
    }

    #[test]
    fn a_token_is_refused_wherever_it_stands_and_however_it_is_written() {
        let token = crate::Identity::draw().unwrap();
        let token = token.expose();
        for input in [
            json!({"command": format!("curl -H 'Authorization: Bearer {token}' localhost")}),
            json!({"a": [{"b": token}]}),
            json!({"a": {token: 1}}),
        ] {
            assert!(acceptable(&text(&input)).is_err(), "{input}");
            let escaped = input.to_string().replace("plx", "\\u0070\\u006Cx");
            assert!(acceptable(&JsonText::parse(escaped).unwrap()).is_err(), "{input}");
        }
    }

    #[test]
    fn a_text_that_only_looks_like_a_token_is_shown() {
        for plain in ["plx_", "plx_the-name-of-a-directory-that-is-long", "plx_0123456789abcdef"] {
            let input = json!({ "command": plain, plain: [plain] });
            assert_eq!(acceptable(&text(&input)).unwrap(), input);
        }
    }

    #[test]
    fn a_key_that_would_be_read_as_something_else_is_refused() {
        let hostile = r#"{"sql":{"$serde_json::private::RawValue":"\"select 1\""}}"#;
        assert!(JsonText::parse(hostile).is_err());
        let stored: JsonText =
            JsonText::from(json!({"x": 1, "$serde_json::private::RawValue": "1"}));
        assert!(acceptable(&stored).is_err());
    }
}
