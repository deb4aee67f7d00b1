//! Every statement of the contract, over `claude_code` with the real CLI, which talks to a stand-in for its service.
//!
//! Where the CLI or the network namespace that it is locked into cannot be had, everything here is ignored, and the reason is
//! printed; with `PLEXUS_REQUIRE_REAL_CLAUDE=1` that is a failure.

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

    use agent_api::conformance::{self, Scenario, Statement, Verdict};
    use anyhow::{Result, bail};
    use serde_json::json;
    use testkit::{
        messages_api::{Failure, MessagesApi, Step, prompt},
        real_claude::{Sandbox, suite::Suite},
    };

    use super::support::claude::ClaudeSubject;

    /// The one scenario that a script in a prompt has no room for.
    const DOES_NOT_APPLY: &[&str] = &["a_timeout_fires_while_nobody_reads"];

    /// The longest text that a script may have to say; the script is a prompt of the CLI.
    const MAX_SCRIPTED_BYTES: usize = 1024 * 1024;

    pub(super) fn suite() -> Suite {
        let statements = conformance::statements().into_iter();
        statements
            .filter(|statement| !DOES_NOT_APPLY.contains(&statement.name()))
            .fold(Suite::new(), |suite, statement| suite.case(statement.name(), move |cli| check(statement, cli)))
    }

    async fn check(statement: Statement, cli: PathBuf) -> Result<()> {
        let api = MessagesApi::start().await?;
        let sandbox = Sandbox::new(&api)?;
        let subject = ClaudeSubject::over_real_cli(&cli, scripted_prompt, sandbox.env());
        match statement.check(&subject).await {
            Verdict::Holds => Ok(()),
            Verdict::DoesNotApply(why) => bail!("this should apply: {why}"),
            Verdict::Broken(what) => bail!("{what}"),
        }
    }

    /// The scenarios as scripts for the stand-in, which finds them in the prompt.
    fn scripted_prompt(scenario: &Scenario, work: &Path) -> Option<String> {
        let read = |secret: &str| json!({"file_path": work.join(format!("{secret}.txt"))});
        let steps = match scenario {
            Scenario::Say { text } => vec![Step::text(text)],
            Scenario::UseTool { before, secret, after } => {
                vec![Step::text(before).and_tool("Read", read(secret)), Step::text(after)]
            }
            Scenario::NeedLeave { text } => vec![Step::text(text).and_bash("touch made"), Step::text("done")],
            Scenario::Hang { text } => vec![Step::text(text).failing(Failure::Hang)],
            Scenario::Flood { messages, bytes } => {
                let all = usize::try_from(*messages).ok()?.checked_mul(*bytes)?;
                if all > MAX_SCRIPTED_BYTES {
                    return None;
                }
                // The CLI writes a line for each delta, so pieces of one text are as many events as texts would be.
                vec![Step::text(&"x".repeat(all)).slowly(*bytes, 0)]
            }
            Scenario::Fail { secret } => vec![Step::text(secret).failing(Failure::Status(400))],
            Scenario::Leak { text, secret } => {
                vec![Step::tool("Read", read(secret)).thinking(secret), Step::text(text)]
            }
        };
        Some(prompt(&steps))
    }
}
