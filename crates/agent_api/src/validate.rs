//! The checks before anything is started, and their order.
//!
//! First the prompt is checked, then the keys of the extensions, then values (directories among
//! them), and last their combinations. A request that is wrong in two ways gets the error of the
//! earlier step, whichever backend it goes to: only [`check`] defines that order. A backend with
//! keys of its own checks their values after it.

use std::{
    env,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    AgentWrapperCapabilities, AgentWrapperError, AgentWrapperKind, AgentWrapperRunRequest,
    capabilities::{
        EXEC_ADD_DIRS, EXEC_EXTERNAL_SANDBOX, EXEC_NON_INTERACTIVE, SESSION_FORK, SESSION_RESUME,
    },
    extensions::{CoreExtensions, SessionStart},
};

/// A request that may be started: its values are valid and do not contradict each other.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckedRequest {
    /// The directory of the run: absolute, and it exists.
    pub working_dir: PathBuf,
    /// Whether nobody is there to answer; true unless the request says otherwise.
    pub non_interactive: bool,
    /// Whether the agent's own checks are off, because the host isolates it.
    pub external_sandbox: bool,
    /// The requested model.
    pub model: Option<String>,
    /// Additional directories for the agent: absolute, and they exist.
    pub add_dirs: Vec<PathBuf>,
    /// The session in which the run begins.
    pub session: SessionStart,
}

/// Checks `request` against `capabilities`.
///
/// `default_working_dir` is the backend's, for a request without one; without either it is that of
/// this process. A relative directory is resolved against the one of this process at this moment.
pub fn check(
    agent_kind: &AgentWrapperKind,
    capabilities: &AgentWrapperCapabilities,
    request: &AgentWrapperRunRequest,
    default_working_dir: Option<&Path>,
) -> Result<CheckedRequest, AgentWrapperError> {
    check_prompt(request)?;
    check_keys(agent_kind, capabilities, request)?;

    let core = CoreExtensions::read(request)?;
    check_env(request)?;
    if request.timeout == Some(Duration::ZERO) {
        return Err(AgentWrapperError::invalid_request("the timeout must be longer than nothing"));
    }
    let working_dir = working_dir(request.working_dir.as_deref().or(default_working_dir))?;
    let add_dirs = add_dirs(&core.add_dirs, &working_dir)?;

    let session = match (core.resume, core.fork) {
        (None, None) => SessionStart::New,
        (Some(selector), None) => SessionStart::Resume(selector),
        (None, Some(selector)) => SessionStart::Fork(selector),
        (Some(_), Some(_)) => {
            return Err(AgentWrapperError::invalid_request(format!(
                "{SESSION_RESUME} and {SESSION_FORK} exclude each other"
            )));
        }
    };
    if core.external_sandbox && !core.non_interactive {
        return Err(AgentWrapperError::invalid_request(format!(
            "{EXEC_EXTERNAL_SANDBOX} asks nobody, so {EXEC_NON_INTERACTIVE} cannot be false"
        )));
    }
    Ok(CheckedRequest {
        working_dir,
        non_interactive: core.non_interactive,
        external_sandbox: core.external_sandbox,
        model: core.model,
        add_dirs,
        session,
    })
}

/// Does the first step: the prompt is not blank.
pub(crate) fn check_prompt(request: &AgentWrapperRunRequest) -> Result<(), AgentWrapperError> {
    if request.prompt.trim().is_empty() {
        return Err(AgentWrapperError::invalid_request("the prompt is blank"));
    }
    if request.prompt.contains('\0') {
        return Err(AgentWrapperError::invalid_request("the prompt holds a NUL character"));
    }
    Ok(())
}

/// Does the second step: the backend advertises every key.
pub(crate) fn check_keys(
    agent_kind: &AgentWrapperKind,
    capabilities: &AgentWrapperCapabilities,
    request: &AgentWrapperRunRequest,
) -> Result<(), AgentWrapperError> {
    match request.extensions.keys().find(|key| !capabilities.contains(key)) {
        Some(key) => Err(AgentWrapperError::unsupported(agent_kind, key)),
        None => Ok(()),
    }
}

/// Refuses an environment that no process can have, instead of failing when the process is started.
fn check_env(request: &AgentWrapperRunRequest) -> Result<(), AgentWrapperError> {
    let name_is_wrong = |name: &str| name.is_empty() || name.contains(['=', '\0']);
    if request.env.iter().any(|(name, value)| name_is_wrong(name) || value.contains('\0')) {
        return Err(AgentWrapperError::invalid_request(
            "an environment name must not be empty or hold `=`, and neither name nor value may \
             hold a NUL character",
        ));
    }
    Ok(())
}

fn working_dir(asked: Option<&Path>) -> Result<PathBuf, AgentWrapperError> {
    let missing = || AgentWrapperError::invalid_request("the working directory does not exist");
    let here = || env::current_dir().map_err(|_| missing());
    let dir = match asked {
        Some(dir) if dir.is_absolute() => dir.to_owned(),
        Some(dir) => here()?.join(dir),
        None => here()?,
    };
    if dir.is_dir() { Ok(dir) } else { Err(missing()) }
}

fn add_dirs(asked: &[String], working_dir: &Path) -> Result<Vec<PathBuf>, AgentWrapperError> {
    let resolve = |(at, dir): (usize, &String)| {
        let dir = working_dir.join(dir);
        if dir.is_dir() {
            Ok(dir)
        } else {
            Err(AgentWrapperError::invalid_request(format!(
                "{EXEC_ADD_DIRS}: dirs[{at}] is not a directory"
            )))
        }
    };
    asked.iter().enumerate().map(resolve).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capabilities::CONFIG_MODEL;
    use serde_json::json;

    fn checked(request: &AgentWrapperRunRequest) -> Result<CheckedRequest, AgentWrapperError> {
        let capabilities =
            [CONFIG_MODEL, EXEC_ADD_DIRS, EXEC_EXTERNAL_SANDBOX, EXEC_NON_INTERACTIVE]
                .into_iter()
                .chain([SESSION_FORK, SESSION_RESUME])
                .collect();
        check(&AgentWrapperKind::new("test").unwrap(), &capabilities, request, None)
    }

    fn message_of(request: &AgentWrapperRunRequest) -> String {
        match checked(request) {
            Err(AgentWrapperError::InvalidRequest { message }) => message,
            other => panic!("expected an invalid request, got {other:?}"),
        }
    }

    #[test]
    fn the_steps_come_in_their_order() {
        let last = json!({"selector": "last"});
        let mut request = AgentWrapperRunRequest::new(" \n\t")
            .with_extension("agent_api.nope.v1", json!(1))
            .with_extension(CONFIG_MODEL, json!(1))
            .with_extension(SESSION_RESUME, last.clone())
            .with_extension(SESSION_FORK, last);
        request.working_dir = Some("does/not/exist".into());
        assert_eq!(message_of(&request), "the prompt is blank");

        request.prompt = "p".to_owned();
        let unsupported = AgentWrapperError::UnsupportedCapability {
            agent_kind: "test".to_owned(),
            capability: "agent_api.nope.v1".to_owned(),
        };
        assert_eq!(checked(&request), Err(unsupported));

        request.extensions.remove("agent_api.nope.v1");
        assert_eq!(message_of(&request), "agent_api.config.model.v1: must be a string");
        request.extensions.insert(CONFIG_MODEL.to_owned(), json!("m"));
        assert_eq!(message_of(&request), "the working directory does not exist");
        request.working_dir = None;
        assert!(message_of(&request).ends_with("exclude each other"));
        request.extensions.remove(SESSION_FORK);
        assert!(checked(&request).is_ok());
    }

    #[test]
    fn an_external_sandbox_contradicts_somebody_to_ask() {
        let sandbox = AgentWrapperRunRequest::new("p").with_extension(EXEC_EXTERNAL_SANDBOX, true);
        assert!(checked(&sandbox).unwrap().external_sandbox);
        let both = sandbox.with_extension(EXEC_NON_INTERACTIVE, false);
        assert!(message_of(&both).contains(EXEC_EXTERNAL_SANDBOX));
    }

    #[test]
    fn directories_are_resolved_and_must_exist() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("inner")).unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        let mut request = AgentWrapperRunRequest::new("p")
            .with_extension(EXEC_ADD_DIRS, json!({"dirs": ["inner"]}));
        request.working_dir = Some(dir.path().to_owned());
        assert_eq!(checked(&request).unwrap().add_dirs, [dir.path().join("inner")]);

        for wrong in ["missing", "file"] {
            request.extensions.insert(EXEC_ADD_DIRS.to_owned(), json!({"dirs": ["inner", wrong]}));
            assert_eq!(
                message_of(&request),
                "agent_api.exec.add_dirs.v1: dirs[1] is not a directory"
            );
        }
        request.working_dir = Some(dir.path().join("file"));
        assert_eq!(message_of(&request), "the working directory does not exist");
    }

    #[test]
    fn an_environment_that_no_process_can_have_is_refused() {
        for (name, value) in [("", "v"), ("A=B", "v"), ("A", "v\0"), ("A\0", "v")] {
            let mut request = AgentWrapperRunRequest::new("p");
            request.env.insert(name.to_owned(), value.to_owned());
            assert!(message_of(&request).contains("environment"));
        }
        assert!(message_of(&AgentWrapperRunRequest::new("a\0b")).contains("NUL"));
        let hurried = AgentWrapperRunRequest {
            timeout: Some(Duration::ZERO),
            ..AgentWrapperRunRequest::new("p")
        };
        assert!(message_of(&hurried).contains("timeout"));
    }
}
