//! The values of the core extensions: the values that each `agent_api.*` key accepts.
//!
//! | key | value | without it |
//! |---|---|---|
//! | `agent_api.exec.non_interactive` | `true` or `false`: whether nobody is there to answer | `true` |
//! | `agent_api.exec.external_sandbox.v1` | `true` or `false`: whether the agent's own checks are off | `false` |
//! | `agent_api.config.model.v1` | the model's name, at most 128 bytes | the agent's own choice |
//! | `agent_api.exec.add_dirs.v1` | `{"dirs": ["…"]}`, 1 to 16 existing directories of at most 1,024 bytes | none |
//! | `agent_api.session.resume.v1` | `{"selector": "last"}` or `{"selector": "id", "id": "…"}` | a new session |
//! | `agent_api.session.fork.v1` | the same, not together with `resume` | a new session |
//!
//! This module checks only values; [`validate`](crate::validate) decides which keys a backend
//! accepts, and the order of refusals. No message repeats a value: a caller may have put a secret
//! there.

use serde_json::{Map, Value};

use crate::{
    AgentWrapperError, AgentWrapperRunRequest,
    bounds::{MAX_ADD_DIR_BYTES, MAX_ADD_DIRS, MAX_MODEL_ID_BYTES, MAX_SESSION_ID_BYTES},
    capabilities::{
        CONFIG_MODEL, EXEC_ADD_DIRS, EXEC_EXTERNAL_SANDBOX, EXEC_NON_INTERACTIVE, SESSION_FORK,
        SESSION_RESUME,
    },
};

/// The session in which a run begins.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionStart {
    /// A new session.
    New,
    /// This session, which the run continues.
    Resume(SessionSelector),
    /// A copy of this session, which itself stays unchanged.
    Fork(SessionSelector),
}

impl SessionStart {
    /// Returns the session to continue or copy.
    pub fn selector(&self) -> Option<&SessionSelector> {
        match self {
            Self::New => None,
            Self::Resume(selector) | Self::Fork(selector) => Some(selector),
        }
    }
}

/// Which session to continue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionSelector {
    /// The session of the working directory that was used last.
    Last,
    /// The one with this id.
    Id(String),
}

/// The values of a request's core extensions, with defaults for absent ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CoreExtensions {
    pub(crate) non_interactive: bool,
    pub(crate) external_sandbox: bool,
    pub(crate) model: Option<String>,
    /// The paths as given, trimmed.
    pub(crate) add_dirs: Vec<String>,
    pub(crate) resume: Option<SessionSelector>,
    pub(crate) fork: Option<SessionSelector>,
}

impl CoreExtensions {
    /// Reads every core value of `request`, in the order of the keys.
    pub(crate) fn read(request: &AgentWrapperRunRequest) -> Result<Self, AgentWrapperError> {
        let mut core = Self {
            non_interactive: true,
            external_sandbox: false,
            model: None,
            add_dirs: Vec::new(),
            resume: None,
            fork: None,
        };
        for (key, value) in &request.extensions {
            match key.as_str() {
                EXEC_NON_INTERACTIVE => core.non_interactive = boolean(key, value)?,
                EXEC_EXTERNAL_SANDBOX => core.external_sandbox = boolean(key, value)?,
                CONFIG_MODEL => core.model = Some(model(key, value)?),
                EXEC_ADD_DIRS => core.add_dirs = add_dirs(key, value)?,
                SESSION_RESUME => core.resume = Some(selector(key, value)?),
                SESSION_FORK => core.fork = Some(selector(key, value)?),
                // `agent_api.run` and the like are advertised but are not extensions. A backend
                // checks its own keys itself.
                other if other.starts_with("agent_api.") => {
                    return Err(wrong(key, "takes no value"));
                }
                _ => {}
            }
        }
        Ok(core)
    }
}

fn wrong(key: &str, what: &str) -> AgentWrapperError {
    AgentWrapperError::invalid_request(format!("{key}: {what}"))
}

fn boolean(key: &str, value: &Value) -> Result<bool, AgentWrapperError> {
    value.as_bool().ok_or_else(|| wrong(key, "must be true or false"))
}

fn model(key: &str, value: &Value) -> Result<String, AgentWrapperError> {
    let model = value.as_str().ok_or_else(|| wrong(key, "must be a string"))?.trim();
    if model.is_empty() {
        return Err(wrong(key, "must not be blank"));
    }
    if model.len() > MAX_MODEL_ID_BYTES {
        return Err(wrong(key, &format!("must be at most {MAX_MODEL_ID_BYTES} bytes long")));
    }
    argument(key, model)
}

fn add_dirs(key: &str, value: &Value) -> Result<Vec<String>, AgentWrapperError> {
    let object = closed_object(key, value, &["dirs"])?;
    let dirs = object
        .get("dirs")
        .and_then(Value::as_array)
        .ok_or_else(|| wrong(key, "needs a list `dirs`"))?;
    if dirs.is_empty() || dirs.len() > MAX_ADD_DIRS {
        return Err(wrong(key, &format!("`dirs` must have 1 to {MAX_ADD_DIRS} entries")));
    }
    let entry = |(at, dir): (usize, &Value)| {
        let dir =
            dir.as_str().ok_or_else(|| wrong(key, &format!("dirs[{at}] must be a string")))?.trim();
        if dir.is_empty() {
            return Err(wrong(key, &format!("dirs[{at}] must not be blank")));
        }
        if dir.len() > MAX_ADD_DIR_BYTES {
            return Err(wrong(
                key,
                &format!("dirs[{at}] must be at most {MAX_ADD_DIR_BYTES} bytes long"),
            ));
        }
        Ok(dir.to_owned())
    };
    dirs.iter().enumerate().map(entry).collect()
}

fn selector(key: &str, value: &Value) -> Result<SessionSelector, AgentWrapperError> {
    let object = closed_object(key, value, &["selector", "id"])?;
    match (object.get("selector").and_then(Value::as_str), object.get("id")) {
        (Some("last"), None) => Ok(SessionSelector::Last),
        (Some("last"), Some(_)) => Err(wrong(key, "the selector `last` takes no id")),
        (Some("id"), Some(id)) => {
            let id = id.as_str().ok_or_else(|| wrong(key, "the id must be a string"))?.trim();
            if id.is_empty() {
                return Err(wrong(key, "the id must not be blank"));
            }
            if id.len() > MAX_SESSION_ID_BYTES {
                return Err(wrong(
                    key,
                    &format!("the id must be at most {MAX_SESSION_ID_BYTES} bytes long"),
                ));
            }
            argument(key, id).map(SessionSelector::Id)
        }
        (Some("id"), None) => Err(wrong(key, "the selector `id` needs an id")),
        _ => Err(wrong(key, "the selector must be `last` or `id`")),
    }
}

/// Refuses a text that an agent's command line would not treat as a value.
fn argument(key: &str, text: &str) -> Result<String, AgentWrapperError> {
    if text.starts_with('-') || text.contains(char::is_control) {
        return Err(wrong(key, "must not begin with a dash or hold control characters"));
    }
    Ok(text.to_owned())
}

fn closed_object<'a>(
    key: &str,
    value: &'a Value,
    known: &[&str],
) -> Result<&'a Map<String, Value>, AgentWrapperError> {
    let object = value.as_object().ok_or_else(|| wrong(key, "must be an object"))?;
    if object.keys().all(|field| known.contains(&field.as_str())) {
        Ok(object)
    } else {
        Err(wrong(key, "has a field that it does not take"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(key: &str, value: Value) -> Result<CoreExtensions, AgentWrapperError> {
        CoreExtensions::read(&AgentWrapperRunRequest::new("p").with_extension(key, value))
    }

    #[test]
    fn right_values_are_read() {
        assert!(!read(EXEC_NON_INTERACTIVE, json!(false)).unwrap().non_interactive);
        assert!(read(EXEC_EXTERNAL_SANDBOX, json!(true)).unwrap().external_sandbox);
        assert_eq!(read(CONFIG_MODEL, json!(" opus ")).unwrap().model.as_deref(), Some("opus"));
        assert_eq!(
            read(EXEC_ADD_DIRS, json!({"dirs": [" a ", "/b"]})).unwrap().add_dirs,
            ["a", "/b"]
        );
        assert_eq!(
            read(SESSION_RESUME, json!({"selector": "last"})).unwrap().resume,
            Some(SessionSelector::Last)
        );
        let by_id = read(SESSION_FORK, json!({"selector": "id", "id": " x "})).unwrap().fork;
        assert_eq!(by_id, Some(SessionSelector::Id("x".to_owned())));
    }

    #[test]
    fn wrong_values_are_refused_without_being_repeated() {
        let long = |bytes: usize| "hunter2".repeat(bytes);
        let cases = [
            (EXEC_NON_INTERACTIVE, json!("hunter2")),
            (EXEC_NON_INTERACTIVE, json!(null)),
            (EXEC_EXTERNAL_SANDBOX, json!(1)),
            (CONFIG_MODEL, json!(["hunter2"])),
            (CONFIG_MODEL, json!("  ")),
            (CONFIG_MODEL, json!("--hunter2")),
            (CONFIG_MODEL, json!("hun\nter2")),
            (CONFIG_MODEL, json!(long(MAX_MODEL_ID_BYTES))),
            (EXEC_ADD_DIRS, json!(["hunter2"])),
            (EXEC_ADD_DIRS, json!({"dirs": []})),
            (EXEC_ADD_DIRS, json!({"dirs": "hunter2"})),
            (EXEC_ADD_DIRS, json!({"dirs": [""]})),
            (EXEC_ADD_DIRS, json!({"dirs": ["hunter2", 1]})),
            (EXEC_ADD_DIRS, json!({"dirs": ["hunter2"], "more": "hunter2"})),
            (EXEC_ADD_DIRS, json!({"dirs": vec!["hunter2"; MAX_ADD_DIRS + 1]})),
            (EXEC_ADD_DIRS, json!({"dirs": [long(MAX_ADD_DIR_BYTES)]})),
            (SESSION_RESUME, json!("hunter2")),
            (SESSION_RESUME, json!({})),
            (SESSION_RESUME, json!({"selector": "hunter2"})),
            (SESSION_RESUME, json!({"selector": "last", "id": "hunter2"})),
            (SESSION_RESUME, json!({"selector": "id"})),
            (SESSION_RESUME, json!({"selector": "id", "id": " "})),
            (SESSION_RESUME, json!({"selector": "id", "id": 7})),
            (SESSION_RESUME, json!({"selector": "id", "id": "--hunter2"})),
            (SESSION_RESUME, json!({"selector": "id", "id": long(MAX_SESSION_ID_BYTES)})),
            (SESSION_FORK, json!({"selector": "last", "hunter2": true})),
            ("agent_api.run", json!("hunter2")),
        ];
        for (key, value) in cases {
            match read(key, value.clone()) {
                Err(AgentWrapperError::InvalidRequest { message }) => {
                    assert!(message.starts_with(key), "{message} does not name its key");
                    assert!(!message.contains("hunter2"), "{message} repeats the value");
                }
                other => panic!("{key} = {value} gave {other:?}"),
            }
        }
    }

    #[test]
    fn values_at_their_limits_are_right() {
        assert!(read(CONFIG_MODEL, json!("m".repeat(MAX_MODEL_ID_BYTES))).is_ok());
        let dirs = vec!["d".repeat(MAX_ADD_DIR_BYTES); MAX_ADD_DIRS];
        assert_eq!(
            read(EXEC_ADD_DIRS, json!({"dirs": dirs})).unwrap().add_dirs.len(),
            MAX_ADD_DIRS
        );
        assert!(
            read(SESSION_RESUME, json!({"selector": "id", "id": "i".repeat(MAX_SESSION_ID_BYTES)}))
                .is_ok()
        );
    }
}
