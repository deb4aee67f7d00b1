//! Reading parameters. Unknown fields, wrong types and numbers out of range are refused here and
//! nowhere else, with the path of the field.

use serde::de::DeserializeOwned;

use crate::error::CallError;
use crate::private_keys::refuse_private_keys;

/// Reads typed parameters.
///
/// # Errors
/// `invalid`, whose `field` is the path of what is wrong: `budget.turns`, `session_ids[2]`.
pub fn read<P: DeserializeOwned>(text: &str) -> Result<P, CallError> {
    refuse_private_keys(text).map_err(|error| refused(".", &error))?;
    let mut json = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        refused(&path, error.inner())
    })
}

fn refused(path: &str, error: &serde_json::Error) -> CallError {
    // The position is of no use to a caller that sent an object.
    let said = error.to_string();
    let said = said.split(" at line ").next().unwrap_or_default();
    let field = field(path, said);
    let message = match &field {
        Some(field) if !said.contains(&format!("`{field}`")) => format!("{field}: {said}"),
        _ => said.to_owned(),
    };
    let refused = CallError::invalid(format_args!("read the parameters: {message}"))
        .with_hint("plexus.schema shows the parameters of every method");
    match field {
        Some(field) => refused.with_field(field),
        None => refused,
    }
}

/// A missing field is found at the object that lacks it, so its name is taken from the message.
fn field(path: &str, said: &str) -> Option<String> {
    let inside = Some(path).filter(|path| *path != ".");
    let missing = said.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
    match (inside, missing) {
        (Some(path), Some(name)) => Some(format!("{path}.{name}")),
        (None, Some(name)) => Some(name.to_owned()),
        (inside, None) => inside.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::CreateParams;
    use crate::error::ErrorKind;
    use crate::{ConfigureParams, PollParams, WaitParams};

    const ID: &str = "01a1de6b-3b15-70ca-afc7-c3f165592f7c";

    fn refused<P: DeserializeOwned>(text: &str) -> (String, Option<String>) {
        let error = read::<P>(text).err().expect("it is refused");
        assert_eq!(error.kind, ErrorKind::Invalid);
        (error.message, error.field)
    }

    #[test]
    fn a_refusal_names_the_path_of_the_field() {
        let poll =
            |more: &str| refused::<PollParams>(&format!(r#"{{"session_id":"{ID}"{more}}}"#)).1;
        let create = |more: &str| {
            refused::<CreateParams>(&format!(r#"{{"name":"a","working_dir":"/"{more}}}"#)).1
        };
        let cases = [
            (poll(r#","limt":5"#), "limt"),
            (poll(r#","limit":0"#), "limit"),
            (poll(r#","limit":1001"#), "limit"),
            (poll(r#","limit":99999999999"#), "limit"),
            (poll(r#","limit":-1"#), "limit"),
            (poll(r#","limit":"5""#), "limit"),
            (poll(r#","wait_ms":60001"#), "wait_ms"),
            (poll(r#","chat":4294967296"#), "chat"),
            (refused::<ConfigureParams>("{}").1, "session_id"),
            (refused::<PollParams>(r#"{"session_id":"x"}"#).1, "session_id"),
            (
                refused::<WaitParams>(&format!(r#"{{"session_ids":["{ID}",7]}}"#)).1,
                "session_ids[1]",
            ),
            (create(r#","budget":{"turns":-1}"#), "budget.turns"),
            (create(r#","budget":{"turnz":1}"#), "budget.turnz"),
            (create(r#","env":{"A":1}"#), "env.A"),
            (create(r#","supervise":"some""#), "supervise"),
        ];
        for (found, wanted) in cases {
            assert_eq!(found.as_deref(), Some(wanted));
        }
    }

    #[test]
    fn the_message_names_the_field_too() {
        let (message, _) = refused::<PollParams>(&format!(r#"{{"session_id":"{ID}","limit":0}}"#));
        assert_eq!(message, "read the parameters: limit: 0 is not between 1 and 1000");
        let (message, field) = refused::<PollParams>("[]");
        assert!(message.starts_with("read the parameters: "), "{message}");
        assert_eq!(field, None);
    }
}
