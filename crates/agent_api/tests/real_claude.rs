//! The contract for `claude_code` with the real CLI, which talks to a stand-in for its service:
//! every statement, and the endings that only the real CLI can show.
//!
//! If the CLI or the network namespace that confines it is not available, everything here is
//! ignored, and the reason is printed; with `PLEXUS_REQUIRE_REAL_CLAUDE=1` that is a failure.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a failed test is allowed to stop loudly"
)]

mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = support::stand_in::play_if_asked() {
        return code;
    }
    #[cfg(target_os = "linux")]
    return linux::suite().run();
    #[cfg(not(target_os = "linux"))]
    ExitCode::SUCCESS
}

#[cfg(target_os = "linux")]
mod linux {
    use std::path::{Path, PathBuf};

    use agent_api::{
        AgentWrapperOutcome, AgentWrapperRunRequest, capabilities,
        conformance::{self, Scenario, Subject},
    };
    use anyhow::{Result, ensure};
    use serde_json::json;
    use testkit::{
        messages_api::{Failure, MessagesApi, Step, prompt},
        real_claude::{Sandbox, suite::Suite},
    };

    use super::support::{
        Ended,
        cases::{check, numbered},
        claude::{ClaudeSubject, run_to_end},
    };

    /// The one scenario that is too long for a script in a prompt.
    const DOES_NOT_APPLY: &[&str] = &["a_timeout_fires_while_nobody_reads"];

    /// The longest text in a script; the script is a prompt of the CLI.
    const MAX_SCRIPTED_BYTES: usize = 1024 * 1024;

    pub(super) fn suite() -> Suite {
        let statements = conformance::statements().into_iter();
        statements
            .filter(|statement| !DOES_NOT_APPLY.contains(&statement.name()))
            .fold(Suite::new(), |suite, statement| {
                suite.case(numbered(statement), async move |cli: PathBuf| {
                    check(statement, &BackendWithClaude::start(&cli).await?.subject).await
                })
            })
            .case(
                "nobody_logged_in_is_a_failure_in_our_words",
                nobody_logged_in_is_a_failure_in_our_words,
            )
            .case(
                "a_refused_key_is_a_failure_in_our_words",
                a_refused_key_is_a_failure_in_our_words,
            )
            .case("a_resumed_session_remembers", a_resumed_session_remembers)
            .case(
                "a_background_task_does_not_end_the_run_early",
                a_background_task_does_not_end_the_run_early,
            )
            .case("an_external_sandbox_asks_nobody", an_external_sandbox_asks_nobody)
            .case("a_broken_answer_is_not_said_twice", a_broken_answer_is_not_said_twice)
            .case("hooks_of_the_directory_do_not_run", hooks_of_the_directory_do_not_run)
    }

    /// The backend over the real CLI in a sandbox, and the stand-in for the API of its model.
    struct BackendWithClaude {
        api: MessagesApi,
        _sandbox: Sandbox,
        subject: ClaudeSubject,
    }

    impl BackendWithClaude {
        async fn start(cli: &Path) -> Result<Self> {
            let api = MessagesApi::start().await?;
            let sandbox = Sandbox::new(&api)?;
            let subject = ClaudeSubject::over_real_cli(cli, scripted_prompt, sandbox.env());
            Ok(Self { api, _sandbox: sandbox, subject })
        }

        async fn run(&self, request: AgentWrapperRunRequest) -> Result<Ended> {
            run_to_end(&self.subject.backend(), request).await
        }

        fn script(&self, steps: &[Step]) -> AgentWrapperRunRequest {
            self.subject.prompt(prompt(steps))
        }
    }

    /// Returns the scenario as a script for the stand-in, which finds it in the prompt.
    fn scripted_prompt(scenario: &Scenario, work: &Path) -> Option<String> {
        let read = |secret: &str| json!({"file_path": work.join(format!("{secret}.txt"))});
        let steps = match scenario {
            Scenario::Say { text } => vec![Step::text(text)],
            Scenario::UseTool { before, secret, after } => {
                vec![Step::text(before).and_tool("Read", read(secret)), Step::text(after)]
            }
            Scenario::NeedLeave { text } => {
                vec![Step::text(text).and_bash("touch made"), Step::text("done")]
            }
            Scenario::Hang { text } => vec![Step::text(text).failing(Failure::Hang)],
            Scenario::Flood { messages, bytes } => {
                let all = usize::try_from(*messages).ok()?.checked_mul(*bytes)?;
                if all > MAX_SCRIPTED_BYTES {
                    return None;
                }
                // The CLI writes a line for each delta, so pieces of one text yield as many events
                // as separate texts.
                vec![Step::text(&"x".repeat(all)).slowly(*bytes, 0)]
            }
            Scenario::Fail { secret } => vec![Step::text(secret).failing(Failure::Status(400))],
            Scenario::Leak { text, secret } => {
                vec![Step::tool("Read", read(secret)).thinking(secret), Step::text(text)]
            }
        };
        Some(prompt(&steps))
    }

    async fn nobody_logged_in_is_a_failure_in_our_words(cli: PathBuf) -> Result<()> {
        let setup = BackendWithClaude::start(&cli).await?;
        let mut request = setup.script(&[Step::text("hello")]);
        request.env.insert("ANTHROPIC_API_KEY".to_owned(), String::new());
        let ended = setup.run(request).await?;
        ended.failed_with("the agent is not logged in, or its credentials were refused")?;
        ensure!(ended.text().is_empty(), "the CLI's own words came as text: {:?}", ended.text());
        Ok(())
    }

    async fn a_refused_key_is_a_failure_in_our_words(cli: PathBuf) -> Result<()> {
        let setup = BackendWithClaude::start(&cli).await?;
        let mut request = setup.script(&[Step::text("hello").failing(Failure::Status(401))]);
        request.env.insert("CLAUDE_CODE_MAX_RETRIES".to_owned(), "0".to_owned());
        let ended = setup.run(request).await?;
        ended.failed_with("the agent is not logged in, or its credentials were refused")
    }

    async fn a_resumed_session_remembers(cli: PathBuf) -> Result<()> {
        let setup = BackendWithClaude::start(&cli).await?;
        setup.run(setup.script(&[Step::text("the word is quince")])).await?.succeeded()?;
        for key in [capabilities::SESSION_RESUME, capabilities::SESSION_FORK] {
            let again = setup
                .script(&[Step::text("I know")])
                .with_extension(key, json!({"selector": "last"}));
            setup.run(again).await?.succeeded()?;
            let requests = setup.api.main_requests();
            let sent = requests.last().map(|request| request.body.to_string()).unwrap_or_default();
            ensure!(
                sent.contains("the word is quince"),
                "{key}: the model was not told what it had said before"
            );
        }
        Ok(())
    }

    async fn a_background_task_does_not_end_the_run_early(cli: PathBuf) -> Result<()> {
        let setup = BackendWithClaude::start(&cli).await?;
        let background =
            json!({"command": "sleep 1", "description": "a nap", "run_in_background": true});
        let steps = [Step::tool("Bash", background), Step::text("first"), Step::text("second")];
        // `sleep` needs permission, so the checks are off.
        let request =
            setup.script(&steps).with_extension(capabilities::EXEC_EXTERNAL_SANDBOX, true);
        let backend = setup.subject.backend_in_sandbox().expect("this backend has one");
        let ended = run_to_end(&backend, request).await?;
        let completion = ended.succeeded()?;
        ensure!(ended.text() == "firstsecond", "the agent said {:?}", ended.text());
        ensure!(completion.final_text.as_deref() == Some("second"), "{:?}", completion.final_text);
        Ok(())
    }

    async fn an_external_sandbox_asks_nobody(cli: PathBuf) -> Result<()> {
        let setup = BackendWithClaude::start(&cli).await?;
        let made = setup.subject.work().join("made");
        let steps = [Step::bash("touch made"), Step::text("done")];
        setup.run(setup.script(&steps)).await?.succeeded()?;
        ensure!(!made.exists(), "a tool ran that nobody had allowed");
        let request =
            setup.script(&steps).with_extension(capabilities::EXEC_EXTERNAL_SANDBOX, true);
        let backend = setup.subject.backend_in_sandbox().expect("this backend has one");
        let ended = run_to_end(&backend, request).await?;
        ensure!(ended.succeeded()?.outcome == AgentWrapperOutcome::Succeeded);
        ensure!(made.exists(), "the tool did not run though the checks were off");
        Ok(())
    }

    async fn a_broken_answer_is_not_said_twice(cli: PathBuf) -> Result<()> {
        let setup = BackendWithClaude::start(&cli).await?;
        let step = Step::text("half of this text").slowly(4, 100).failing_first(Failure::Cut, 1);
        let ended = setup.run(setup.script(&[step])).await?;
        ended.broke_off_and_was_said_once("half of this text")
    }

    async fn hooks_of_the_directory_do_not_run(cli: PathBuf) -> Result<()> {
        let setup = BackendWithClaude::start(&cli).await?;
        let hooked = setup.subject.work().join("hooked");
        let hook = json!([{"hooks": [{"type": "command", "command": format!("touch {}", hooked.display())}]}]);
        let settings = json!({"hooks": {"SessionStart": hook, "UserPromptSubmit": hook}});
        let folder = setup.subject.work().join(".claude");
        std::fs::create_dir(&folder)?;
        std::fs::write(folder.join("settings.json"), settings.to_string())?;
        setup.run(setup.script(&[Step::text("hello")])).await?.succeeded()?;
        ensure!(!hooked.exists(), "a hook of the directory ran unasked");
        Ok(())
    }
}
