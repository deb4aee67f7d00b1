//! The contract over `acp` with real agents, which talk to a stand-in for their service: the
//! statements that only a real agent can show to be kept.
//!
//! Where an agent or the network namespace that it is locked into cannot be had, its cases are
//! ignored, and the reason is printed; with `PLEXUS_REQUIRE_ACP=1` that is a failure.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a failed test is allowed to stop loudly"
)]

mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    return linux::suite().run();
    #[cfg(not(target_os = "linux"))]
    ExitCode::SUCCESS
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{path::PathBuf, sync::Arc};

    use agent_api::{
        AgentWrapperBackend, AgentWrapperEventKind, AgentWrapperRunRequest,
        backends::acp::{AcpBackend, AcpBackendConfig, AcpEnvironment, AcpOffer},
        capabilities::{EXEC_EXTERNAL_SANDBOX, SESSION_FORK, SESSION_RESUME},
    };
    use anyhow::{Context, Result, ensure};
    use serde_json::{Value, json};
    use testkit::{
        messages_api::{Failure, MessagesApi, Step, prompt},
        real_acp::{Agent, Sandbox},
        real_cli::suite::Suite,
    };

    use super::support::{Ended, claude::run_to_end};

    pub(super) fn suite() -> Suite {
        macro_rules! cases {
            ($suite:expr, $agent:ident, [$($case:ident),* $(,)?]) => {
                $suite.with(Agent::$agent.cli())
                    $(.case(
                        concat!(stringify!($agent), "::", stringify!($case)),
                        |cli| $case(Agent::$agent, cli),
                    ))*
            };
        }
        let suite = Suite::of(Agent::OpenCode.cli());
        let suite = cases!(
            suite,
            OpenCode,
            [
                a_run_says_what_the_model_says_and_leaves_nothing,
                a_rejected_call_does_not_run_and_fails_the_run,
                an_external_sandbox_asks_nobody,
                a_resumed_session_remembers_and_a_fork_is_another_one,
                an_unknown_session_is_not_found,
            ]
        );
        let suite = cases!(
            suite,
            Goose,
            [
                a_run_says_what_the_model_says_and_leaves_nothing,
                a_rejected_call_does_not_run_and_fails_the_run,
                an_external_sandbox_asks_nobody,
            ]
        );
        cases!(
            suite,
            Claude,
            [
                a_run_says_what_the_model_says_and_leaves_nothing,
                a_rejected_call_does_not_run_and_fails_the_run,
                an_external_sandbox_asks_nobody,
                a_resumed_session_remembers_and_a_fork_is_another_one,
                an_unknown_session_is_not_found,
                refused_credentials_are_a_failure_in_our_words,
            ]
        )
    }

    /// The backend over a real agent in a sandbox, and the stand-in for the API of its model.
    struct BackendWithAgent {
        api: MessagesApi,
        sandbox: Sandbox,
        backend: Arc<dyn AgentWrapperBackend>,
        agent: Agent,
    }

    impl BackendWithAgent {
        async fn start(agent: Agent, cli: PathBuf) -> Result<Self> {
            let api = MessagesApi::start().await?;
            let sandbox = Sandbox::new(agent, &api)?;
            let mut config = AcpBackendConfig::new(cli, agent.arguments().iter().copied());
            config.environment = AcpEnvironment::Clear;
            config.env.extend(sandbox.env());
            config.expected_mode = Some(agent.mode().to_owned());
            config.allow_external_sandbox_exec = true;
            if let Some(Value::Object(meta)) = agent.session_meta().remove("_meta") {
                config.session_meta = meta;
            }
            config.offers = match agent {
                Agent::OpenCode => [AcpOffer::Resume, AcpOffer::Fork, AcpOffer::Model].into(),
                Agent::Goose => [AcpOffer::Resume].into(),
                // Its history would be told as new.
                Agent::Gemini => [].into(),
                Agent::Claude => {
                    [AcpOffer::Resume, AcpOffer::Fork, AcpOffer::Model, AcpOffer::AddDirs].into()
                }
            };
            Ok(Self { api, sandbox, backend: Arc::new(AcpBackend::new(config)), agent })
        }

        fn script(&self, steps: &[Step]) -> AgentWrapperRunRequest {
            let mut request = AgentWrapperRunRequest::new(prompt(steps));
            request.working_dir = Some(self.sandbox.work());
            request
        }

        async fn run(&self, request: AgentWrapperRunRequest) -> Result<Ended> {
            let ended = run_to_end(&self.backend, request).await?;
            let left = testkit::process::marked(self.sandbox.marker())?;
            ensure!(left.is_empty(), "{left:?} lives on");
            Ok(ended)
        }

        fn shell(&self, command: &str) -> Step {
            let input = json!({"command": command, "description": "a step"});
            Step::tool(self.agent.shell_tool(), input)
        }

        fn has(&self, file: &str) -> bool {
            self.sandbox.work().join(file).exists()
        }
    }

    fn session_of(ended: &Ended) -> Result<String> {
        let data = ended.succeeded()?.data.as_ref().context("no session")?;
        Ok(data["session"]["id"].as_str().context("no id")?.to_owned())
    }

    async fn a_run_says_what_the_model_says_and_leaves_nothing(
        agent: Agent,
        cli: PathBuf,
    ) -> Result<()> {
        let setup = BackendWithAgent::start(agent, cli).await?;
        let ended = setup.run(setup.script(&[Step::text("Good morning.").slowly(4, 10)])).await?;
        let completion = ended.succeeded()?;
        ensure!(completion.final_text.as_deref() == Some("Good morning."), "{completion:?}");
        ensure!(ended.text() == "Good morning.", "{:?}", ended.text());
        session_of(&ended)?;
        Ok(())
    }

    async fn a_rejected_call_does_not_run_and_fails_the_run(
        agent: Agent,
        cli: PathBuf,
    ) -> Result<()> {
        let setup = BackendWithAgent::start(agent, cli).await?;
        let steps = [setup.shell("touch made"), Step::text("I go on.")];
        let ended = setup.run(setup.script(&steps)).await?;
        ended.failed_with("the agent asked for leave, and nobody was there to give it")?;
        ensure!(!setup.has("made"), "it ran all the same");
        ensure!(ended.text().contains("I go on."), "{:?}", ended.text());
        for kind in [AgentWrapperEventKind::ToolCall, AgentWrapperEventKind::ToolResult] {
            ensure!(ended.count(kind) == 1, "{kind:?}: {:?}", ended.events);
        }
        ensure!(!format!("{:?}", ended.events).contains("touch made"), "{:?}", ended.events);
        Ok(())
    }

    async fn an_external_sandbox_asks_nobody(agent: Agent, cli: PathBuf) -> Result<()> {
        let setup = BackendWithAgent::start(agent, cli).await?;
        let steps = [setup.shell("touch made"), Step::text("Done.")];
        let request = setup.script(&steps).with_extension(EXEC_EXTERNAL_SANDBOX, true);
        let ended = setup.run(request).await?;
        ended.succeeded()?;
        ensure!(setup.has("made"), "it did not run: {:?}", ended.events);
        Ok(())
    }

    async fn a_resumed_session_remembers_and_a_fork_is_another_one(
        agent: Agent,
        cli: PathBuf,
    ) -> Result<()> {
        let setup = BackendWithAgent::start(agent, cli).await?;
        let first = setup.run(setup.script(&[Step::text("The word is plum.")])).await?;
        let first = session_of(&first)?;
        for (key, is_same) in [(SESSION_RESUME, true), (SESSION_FORK, false)] {
            let again = setup.script(&[Step::text("I know.")]);
            let again = again.with_extension(key, json!({"selector": "last"}));
            let ended = setup.run(again).await?;
            ensure!((session_of(&ended)? == first) == is_same, "{key}: {first}");
            ensure!(ended.text() == "I know.", "the history was told again: {:?}", ended.text());
            let asked = setup.api.main_requests().pop().context("no request")?;
            ensure!(asked.body.to_string().contains("The word is plum."), "{key} forgot");
        }
        Ok(())
    }

    async fn an_unknown_session_is_not_found(agent: Agent, cli: PathBuf) -> Result<()> {
        let setup = BackendWithAgent::start(agent, cli).await?;
        let nobodys = json!({"selector": "id", "id": "00000000-0000-4000-8000-00000000dead"});
        for key in [SESSION_RESUME, SESSION_FORK] {
            let request = setup.script(&[Step::text("no")]).with_extension(key, nobodys.clone());
            let ended = setup.run(request).await?;
            ended.failed_with("session not found").context(key)?;
        }
        let last = setup.script(&[Step::text("no")]);
        let last = last.with_extension(SESSION_RESUME, json!({"selector": "last"}));
        setup.run(last).await?.failed_with("no session found")
    }

    async fn refused_credentials_are_a_failure_in_our_words(
        agent: Agent,
        cli: PathBuf,
    ) -> Result<()> {
        let setup = BackendWithAgent::start(agent, cli).await?;
        let steps = [Step::text("no").failing(Failure::Status(401))];
        let ended = setup.run(setup.script(&steps)).await?;
        ended.failed_with("the agent is not logged in, or its credentials were refused")
    }
}
