//! Turns a checked request into a process of the CLI.

use claude_code::{ClaudeClient, ClaudePrintRequest, ClaudePrintStreamJsonHandle, Environment};

use super::{
    config::{ClaudeCodeBackendConfig, ClaudeCodeEnvironment, ClaudeCodeProjectSettings},
    sessions::SessionToUse,
};
use crate::{
    AgentWrapperError, AgentWrapperRunRequest, backends::shared::outcome::in_full,
    validate::CheckedRequest,
};

/// Tells the CLI that it runs in a sandbox; otherwise root may not turn its checks off.
const IN_SANDBOX: (&str, &str) = ("IS_SANDBOX", "1");

/// Starts the process, which is running when this returns.
pub(super) async fn start(
    config: &ClaudeCodeBackendConfig,
    request: AgentWrapperRunRequest,
    checked: CheckedRequest,
    session: SessionToUse,
) -> Result<ClaudePrintStreamJsonHandle, AgentWrapperError> {
    let mut client = ClaudeClient::builder().environment(match config.environment {
        ClaudeCodeEnvironment::Inherit => Environment::Inherit,
        ClaudeCodeEnvironment::Clear => Environment::Clear,
    });
    if let Some(binary) = &config.binary {
        client = client.binary(binary);
    }
    if let Some(grace) = config.termination_grace {
        client = client.termination_grace(grace);
    }
    let print = print_request(config, request, checked, session);
    client
        .build()
        .print_stream_json(print)
        .await
        .map_err(|error| AgentWrapperError::backend(in_full(&error)))
}

/// Translates the request into the CLI's terms. Later variables override earlier ones, so the order
/// of the environment is the order of precedence.
fn print_request(
    config: &ClaudeCodeBackendConfig,
    request: AgentWrapperRunRequest,
    checked: CheckedRequest,
    session: SessionToUse,
) -> ClaudePrintRequest {
    let mut print = ClaudePrintRequest::new(request.prompt)
        .include_partial_messages(true)
        .working_dir(checked.working_dir);
    if config.project_settings == ClaudeCodeProjectSettings::Ignore {
        print = print.setting_sources("user").strict_mcp_config(true);
    }
    if checked.external_sandbox {
        print = print.extra_arg("--dangerously-skip-permissions").env(IN_SANDBOX.0, IN_SANDBOX.1);
    }
    for (name, value) in config.env.iter().chain(&request.env) {
        print = print.env(name, value);
    }
    if let Some(timeout) = request.timeout.or(config.default_timeout) {
        print = print.timeout(timeout);
    }
    if let Some(model) = checked.model {
        print = print.model(model);
    }
    for dir in checked.add_dirs {
        print = print.add_dir(dir);
    }
    match session {
        SessionToUse::New => print,
        SessionToUse::Resume(id) => print.resume(id),
        SessionToUse::Fork(id) => print.resume(id).fork_session(true),
    }
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, time::Duration};

    use super::*;
    use crate::extensions::SessionStart;

    fn checked() -> CheckedRequest {
        CheckedRequest {
            working_dir: PathBuf::from("/w"),
            non_interactive: true,
            external_sandbox: false,
            model: None,
            add_dirs: Vec::new(),
            session: SessionStart::New,
        }
    }

    fn arguments(
        config: &ClaudeCodeBackendConfig,
        checked: CheckedRequest,
        session: SessionToUse,
    ) -> String {
        let print =
            print_request(config, AgentWrapperRunRequest::new("the prompt"), checked, session);
        print
            .arguments()
            .iter()
            .map(|argument| argument.to_str().unwrap())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn a_plain_request_streams_and_trusts_nothing_in_its_directory() {
        let seen = arguments(&ClaudeCodeBackendConfig::default(), checked(), SessionToUse::New);
        assert_eq!(
            seen,
            "--print --output-format stream-json --verbose --strict-mcp-config \
             --include-partial-messages \
             --setting-sources user -- the prompt"
        );
    }

    #[test]
    fn a_trusted_directory_may_bring_its_own_settings() {
        let config = ClaudeCodeBackendConfig {
            project_settings: ClaudeCodeProjectSettings::Trust,
            ..ClaudeCodeBackendConfig::default()
        };
        let seen = arguments(&config, checked(), SessionToUse::New);
        assert!(
            !seen.contains("--setting-sources") && !seen.contains("--strict-mcp-config"),
            "{seen}"
        );
    }

    #[test]
    fn every_extension_becomes_a_flag() {
        let config = ClaudeCodeBackendConfig::default();
        let rich = CheckedRequest {
            external_sandbox: true,
            model: Some("opus".to_owned()),
            add_dirs: vec!["/a".into(), "/b".into()],
            ..checked()
        };
        let seen = arguments(&config, rich, SessionToUse::Fork("id".to_owned()));
        let flags =
            ["--resume id", "--fork-session", "--model opus", "--add-dir /a", "--add-dir /b"];
        for flag in flags.into_iter().chain(["--dangerously-skip-permissions"]) {
            assert!(seen.contains(flag), "{flag} is not in {seen}");
        }
        let resumed = arguments(&config, checked(), SessionToUse::Resume("id".to_owned()));
        assert!(
            resumed.contains("--resume id") && !resumed.contains("--fork-session"),
            "{resumed}"
        );
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_an_error_that_names_it() {
        let config = ClaudeCodeBackendConfig {
            binary: Some("no-such-claude".into()),
            default_timeout: Some(Duration::from_secs(60)),
            ..ClaudeCodeBackendConfig::default()
        };
        let here = CheckedRequest { working_dir: ".".into(), ..checked() };
        let error = start(&config, AgentWrapperRunRequest::new("p"), here, SessionToUse::New)
            .await
            .err()
            .unwrap();
        let AgentWrapperError::Backend { message } = error else {
            panic!("not an error of the backend: {error:?}")
        };
        assert!(message.contains("no-such-claude"), "{message}");
    }
}
