//! Claude Code: everything that is particular to the `claude` CLI.
//!
//! - [`launch`]: its arguments, environment and MCP configuration.
//! - [`read`]: what its lines mean.
//! - [`write`]: what we say to it.
//! - [`question`]: questions to its user.
//! - [`memory`]: the state kept from earlier lines.
//! - [`park`]: when a process that waits may end, and how the next one asks again.

pub(crate) mod launch;
mod memory;
mod park;
mod question;
mod read;
mod write;

use std::path::Path;

use agent_lines::journal::LineContent;
use claude_code::{ProbeError, ProbedCli};
use plexus_engine::driver::{
    Begin, Channel, ChildEnv, Conversation, Driver, Identified, Launch, LaunchError, NotParkable,
    OutLine, Plan, ProjectFiles, Say, Step, TranscriptPlace, UnusableProgram, VersionAnswer,
    WaitingCall, WakeMark, WokenCall,
};
use plexus_rules::notation;
use plexus_wire::{
    AgentPowers, Answers, AsksFor, CostPower, DenyReason, ForkPower, Question, ToolCall,
};
use serde_json::Value;

use plexus_engine::wall::WallNeeds;

pub use self::memory::ClaudeMemory;

/// The driver of Claude Code.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClaudeCode;

impl Driver for ClaudeCode {
    type Memory = ClaudeMemory;

    fn kind(&self) -> &'static str {
        "claude_code"
    }

    fn powers(&self) -> AgentPowers {
        AgentPowers {
            edit_input: true,
            deny_reason: DenyReason::InAnswer,
            steer: true,
            resume: true,
            fork: ForkPower::Anywhere,
            warm: true,
            park: true,
            cost: CostPower::Usd,
            says_who_accepted: true,
            asks_for: AsksFor::Everything,
            mcp_servers: true,
            images: true,
        }
    }

    fn permit_flags(&self) -> Option<&'static [&'static str]> {
        Some(launch::PERMIT_FLAGS)
    }

    fn prompts_repeat(&self) -> bool {
        true
    }

    /// It sends nothing until its first prompt, with which its conversation begins.
    fn prestarts(&self) -> bool {
        true
    }

    fn identify(
        &self,
        program: &Path,
        version: VersionAnswer,
    ) -> Result<Identified, UnusableProgram> {
        let (label, asks_again) = match version {
            VersionAnswer::BuiltIn => ("the built-in simulator (no claude CLI)".to_owned(), true),
            VersionAnswer::Said(answer) => {
                let unusable = |error: ProbeError| UnusableProgram(error.to_string());
                let cli = ProbedCli::judge(program, answer).map_err(unusable)?;
                let newer = cli.is_newer_than_tested();
                let note = if newer { ", newer than any we have tested" } else { "" };
                let asks_again = park::asks_again(&cli.version.to_string());
                (format!("claude {}{note}", cli.version), asks_again)
            }
        };
        Ok(Identified { label, channel: Channel::Control, asks_again })
    }

    fn begin(&self, begin: &Begin<'_>) -> ClaudeMemory {
        let cost_usd = begin.cost_usd;
        // On this channel the CLI does not name the prompt. A woken call goes on without one.
        let names_no_prompt = begin.channel == Channel::Mcp
            || matches!(begin.conversation, Conversation::Wake { .. });
        ClaudeMemory {
            cost_before: cost_usd,
            cost_total: cost_usd,
            turns_without_prompt: u32::from(names_no_prompt),
            ..ClaudeMemory::default()
        }
    }

    fn project_files(&self) -> ProjectFiles {
        launch::PROJECT_FILES
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<Plan, LaunchError> {
        launch::plan(launch)
    }

    /// Rules are written in the notation of this CLI.
    fn tool_call(&self, tool_name: &str, input: &Value) -> ToolCall {
        notation::read(tool_name, input)
    }

    fn wall(&self) -> Option<WallNeeds> {
        Some(launch::wall())
    }

    fn question(&self, tool_name: &str, input: &Value) -> Option<Question> {
        question::read(tool_name, input)
    }

    fn answered(
        &self,
        _tool_name: &str,
        input: &Value,
        answers: &Answers,
    ) -> Result<Value, String> {
        question::answered(input, answers)
    }

    fn answers(&self, tool_name: &str, input: &Value) -> Option<Answers> {
        question::answers(tool_name, input)
    }

    fn read(&self, memory: &mut ClaudeMemory, line: &LineContent) -> Vec<Step> {
        read::line(memory, line)
    }

    fn write(&self, _memory: &ClaudeMemory, say: &Say<'_>) -> Vec<OutLine> {
        write::lines(say)
    }

    fn transcript(&self, conversation: &str, env: ChildEnv<'_>) -> Option<TranscriptPlace> {
        park::transcript(conversation, env)
    }

    fn parkable(
        &self,
        memory: &ClaudeMemory,
        call: &WaitingCall<'_>,
        transcript: &str,
    ) -> Result<WakeMark, NotParkable> {
        park::parkable(memory, call, transcript)
    }

    fn woken_call(&self, tool_use_id: &str, transcript: &str) -> WokenCall {
        park::woken_call(tool_use_id, transcript)
    }
}
