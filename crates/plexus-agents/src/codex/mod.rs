//! Codex: everything that is particular to `codex app-server`.
//!
//! - [`launch`]: its arguments, its home and the handshake.
//! - [`read`]: what its lines mean.
//! - [`write`]: what we say to it.
//! - [`memory`]: the state kept from earlier lines.
//! - [`question`]: questions to its user.
//! - [`tools`]: what a call would act on.
//! - [`command`]: the script in a command line.
//! - [`price`]: what a model costs.

mod command;
mod launch;
mod memory;
mod price;
mod question;
mod read;
#[cfg(test)]
mod tests;
mod tools;
mod write;

use std::path::{Path, PathBuf};

use agent_lines::journal::LineContent;
use codex_app::ProbedCodex;
use plexus_engine::driver::{
    Begin, Channel, Driver, Identified, Launch, LaunchError, OutLine, Plan, Say, Step,
    UnusableProgram, VersionAnswer,
};
use plexus_engine::wall::WallNeeds;
use plexus_wire::{
    AgentPowers, Answers, AsksFor, CostPower, DenyReason, ForkPower, Question, ToolCall,
};
use serde_json::Value;

pub use self::memory::CodexMemory;
pub use self::price::{Price, Prices};

/// The tool that runs a command, by the name under which the model calls it.
const EXEC: &str = "exec_command";

/// The tool that types into a running command.
const TYPE: &str = "write_stdin";

/// The tool that changes files.
const PATCH: &str = "apply_patch";

/// The tool that asks for more than the sandbox permits.
const PERMISSIONS: &str = "request_permissions";

/// The tool with which the model asks the user.
const ASK_USER: &str = "request_user_input";

/// The tool name for a question that an MCP server itself asks the user.
const MCP_ASK: &str = "mcp_elicitation";

/// What the driver is built from.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CodexOptions {
    /// Where Codex keeps settings, login and conversations of all children.
    pub home: PathBuf,
    /// The user's own login, which is linked into the home.
    pub login: Option<PathBuf>,
    /// What models cost.
    pub prices: Prices,
}

/// The driver of Codex.
#[derive(Clone, Debug, Default)]
pub struct Codex {
    options: CodexOptions,
}

impl Codex {
    /// Makes the driver.
    #[must_use]
    pub fn new(options: CodexOptions) -> Self {
        Self { options }
    }
}

impl Driver for Codex {
    type Memory = CodexMemory;

    fn kind(&self) -> &'static str {
        "codex"
    }

    fn powers(&self) -> AgentPowers {
        AgentPowers {
            edit_input: false,
            deny_reason: DenyReason::AsNextMessage,
            steer: true,
            resume: true,
            fork: ForkPower::Anywhere,
            warm: true,
            park: false,
            cost: if self.options.prices.is_empty() { CostPower::Tokens } else { CostPower::Usd },
            says_who_accepted: false,
            asks_for: AsksFor::Everything,
            mcp_servers: true,
            images: true,
        }
    }

    fn unpriced(&self, model: Option<&str>) -> Option<String> {
        let is_known = model.is_some_and(|model| self.options.prices.contains_key(model));
        (!is_known).then(|| {
            "name a model whose price is in codex.prices of plexus.toml, or limit tokens, turns or \
             time instead of dollars"
                .to_owned()
        })
    }

    fn tool_call(&self, tool_name: &str, input: &Value) -> ToolCall {
        tools::read(tool_name, input)
    }

    fn question(&self, tool_name: &str, input: &Value) -> Option<Question> {
        question::read(tool_name, input)
    }

    fn answered(&self, tool_name: &str, input: &Value, answers: &Answers) -> Result<Value, String> {
        question::answered(tool_name, input, answers)
    }

    fn answers(&self, tool_name: &str, input: &Value) -> Option<Answers> {
        question::answers(tool_name, input)
    }

    fn wall(&self) -> Option<WallNeeds> {
        Some(launch::wall())
    }

    /// A thread is on disk only once it has its first message.
    fn prestarts(&self) -> bool {
        true
    }

    fn read_at_start(&self) -> Vec<&'static str> {
        vec!["AGENTS.md", "AGENTS.override.md", ".codex"]
    }

    fn takes_edit(&self, tool_name: &str) -> bool {
        [ASK_USER, MCP_ASK].contains(&tool_name)
    }

    fn identify(
        &self,
        program: &Path,
        version: VersionAnswer,
    ) -> Result<Identified, UnusableProgram> {
        let label = match version {
            VersionAnswer::BuiltIn => "the built-in simulator (no codex CLI)".to_owned(),
            VersionAnswer::Said(answer) => {
                let cli = ProbedCodex::judge(program, answer)
                    .map_err(|error| UnusableProgram(error.to_string()))?;
                let newer = cli.is_newer_than_tested();
                let note = if newer { ", newer than any we have tested" } else { "" };
                format!("codex {}{note}", cli.version)
            }
        };
        Ok(Identified { label, channel: Channel::Control, asks_again: false })
    }

    fn begin(&self, begin: &Begin<'_>) -> CodexMemory {
        read::begin(begin)
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<Plan, LaunchError> {
        launch::plan(&self.options, launch)
    }

    fn read(&self, memory: &mut CodexMemory, line: &LineContent) -> Vec<Step> {
        read::line(memory, &self.options.prices, line)
    }

    fn write(&self, memory: &CodexMemory, say: &Say<'_>) -> Vec<OutLine> {
        write::lines(memory, say)
    }
}
