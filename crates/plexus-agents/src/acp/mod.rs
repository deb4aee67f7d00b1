//! Agents of the Agent Client Protocol: everything that is common to them is here, and what is
//! particular to one is data.
//!
//! - [`profile`]: what is particular to one agent.
//! - [`launch`]: how it is started.
//! - [`read`]: what its lines mean.
//! - [`write`]: what we say to it.
//! - [`target`]: what a call of one of its tools acts on.
//! - [`memory`]: the state kept from earlier lines.

mod launch;
mod memory;
pub mod profile;
mod read;
mod target;
mod write;

use std::path::{Path, PathBuf};

use agent_lines::VersionError;
use agent_lines::journal::LineContent;
use plexus_engine::driver::{
    Begin, Channel, Conversation, Driver, Identified, Launch, LaunchError, OutLine, Plan, Say,
    Step, UnusableProgram, VersionAnswer,
};
use plexus_engine::wall::WallNeeds;
use plexus_wire::{
    AgentPowers, Answers, AsksFor, CostPower, DenyReason, ForkPower, Question, ToolCall, ToolTarget,
};
use serde_json::Value;

use crate::codex::Price;
use crate::forms;

pub use self::memory::AcpMemory;
pub use self::profile::Profile;
use self::profile::{DenyWay, ModelWay, ResumeWay, Runs, TokensPlace};

/// How many characters of a program's version output are shown.
const MAX_VERSION_CHARS: usize = 64;

/// The driver of one agent of the Agent Client Protocol.
#[derive(Clone, Debug)]
pub struct Acp {
    profile: Profile,
    homes: Homes,
}

/// Where the files of an agent are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Homes {
    /// The home directory that is made for the agent, if its profile wants one.
    pub own: PathBuf,
    /// The home directory of the server's user, whose login the agent uses. A session cannot name
    /// another: the files there decide which programs the agent loads.
    pub user: PathBuf,
}

impl Acp {
    /// Makes the driver of the agent that the profile describes.
    #[must_use]
    pub fn new(profile: Profile, homes: Homes) -> Self {
        Self { profile, homes }
    }

    fn has_prices(&self) -> bool {
        self.profile.prices.as_ref().is_some_and(|prices| !prices.is_empty())
    }

    /// Returns the model that a session uses, where that is known.
    fn model_of<'a>(&'a self, named: Option<&'a str>) -> Option<&'a str> {
        named.or(self.profile.default_model.as_deref())
    }

    fn price_of(&self, named: Option<&str>) -> Option<Price> {
        let prices = self.profile.prices.as_ref()?;
        prices.get(self.model_of(named)?).copied()
    }

    /// Returns what is particular to the agent.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }
}

impl Driver for Acp {
    type Memory = AcpMemory;

    fn kind(&self) -> &'static str {
        "acp"
    }

    fn powers(&self) -> AgentPowers {
        let profile = &self.profile;
        AgentPowers {
            edit_input: false,
            deny_reason: match profile.deny {
                DenyWay::Error => DenyReason::InAnswer,
                DenyWay::Option => DenyReason::None,
            },
            steer: false,
            resume: profile.resume != ResumeWay::None,
            fork: if profile.fork { ForkPower::Head } else { ForkPower::None },
            warm: true,
            park: false,
            cost: match (profile.cost || self.has_prices(), profile.tokens) {
                (true, _) => CostPower::Usd,
                (false, TokensPlace::Turn | TokensPlace::Quota) => CostPower::Tokens,
                (false, TokensPlace::None) => CostPower::None,
            },
            says_who_accepted: false,
            asks_for: profile.asks_for,
            mcp_servers: profile.mcp,
            images: profile.images,
        }
    }

    fn unpriced(&self, model: Option<&str>) -> Option<String> {
        if self.profile.cost || self.price_of(model).is_some() {
            return None;
        }
        let instead = "limit tokens, turns or time instead of dollars";
        Some(match (&self.profile.prices, self.model_of(model)) {
            (Some(_), Some(model)) => {
                format!("add {model:?} to cone.prices in plexus.toml, or {instead}")
            }
            _ => instead.to_owned(),
        })
    }

    fn identify(
        &self,
        program: &Path,
        version: VersionAnswer,
    ) -> Result<Identified, UnusableProgram> {
        let profile = &self.profile;
        let said = match version {
            VersionAnswer::BuiltIn => "(built in)".to_owned(),
            VersionAnswer::Said(Ok(said)) => {
                said.trim().lines().next().unwrap_or("of an unknown version").to_owned()
            }
            // An agent that an operator added may not print its version at all.
            VersionAnswer::Said(Err(VersionError::Silent)) if profile.version.is_none() => {
                "of an unknown version".to_owned()
            }
            VersionAnswer::Said(Err(error)) => {
                return Err(UnusableProgram(format!("{}: {error}", program.display())));
            }
        };
        let said: String = said.chars().take(MAX_VERSION_CHARS).collect();
        let note = match &profile.version {
            Some(known) if !said.contains(known.as_str()) => {
                format!(", not the version {known} whose behaviour is known")
            }
            _ if profile.asks_for == AsksFor::Configured => {
                ", NOT CHECKED: it asks only about what its own settings say".to_owned()
            }
            _ => String::new(),
        };
        let label = format!("{} {said}{note}", profile.label);
        Ok(Identified { label, channel: Channel::Control, asks_again: false })
    }

    fn begin(&self, begin: &Begin<'_>) -> AcpMemory {
        let session = match begin.conversation {
            Conversation::Resume(id) => Some(id.clone()),
            Conversation::New | Conversation::Fork { .. } | Conversation::Wake { .. } => None,
        };
        let model = (self.profile.model == ModelWay::Option).then(|| begin.config.model.clone());
        AcpMemory {
            session,
            model: model.flatten(),
            price: self.price_of(begin.config.model.as_deref()),
            cost_before: begin.cost_usd,
            cost_total: begin.cost_usd,
            ..AcpMemory::default()
        }
    }

    fn must_be_absent(&self) -> Vec<PathBuf> {
        self.profile.absent.iter().map(PathBuf::from).collect()
    }

    /// Most agents keep a session as soon as it is opened, and each reads files of its own then.
    fn prestarts(&self) -> bool {
        false
    }

    /// Everything it writes outside the session's directories must be known: either it has a home
    /// directory of ours, or it is an agent whose files are known.
    fn wall(&self) -> Option<WallNeeds> {
        match (self.profile.runs, &self.profile.home) {
            (Some(Runs::ClaudeCode), _) => Some(crate::claude::launch::wall()),
            (None, Some(_)) => {
                let login_hosts = self.profile.hosts.clone();
                let listens = self.profile.listens;
                Some(WallNeeds { login_hosts, listens, ..WallNeeds::default() })
            }
            (None, None) => None,
        }
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<Plan, LaunchError> {
        launch::plan(&self.profile, &self.homes, launch)
    }

    fn tool_call(&self, tool_name: &str, input: &Value) -> ToolCall {
        match self.profile.tools.get(tool_name) {
            Some(tool) => tool.tool_call(tool_name, input),
            None if tool_name == read::FORM => ToolCall::new(tool_name, ToolTarget::Question {}),
            None => ToolCall::unknown(tool_name),
        }
    }

    /// The allow of a form carries what the user answered.
    fn takes_edit(&self, tool_name: &str) -> bool {
        tool_name == read::FORM
    }

    fn question(&self, tool_name: &str, input: &Value) -> Option<Question> {
        (tool_name == read::FORM).then(|| forms::read(input)).flatten()
    }

    fn answered(&self, _: &str, input: &Value, answers: &Answers) -> Result<Value, String> {
        forms::answered(input, answers)
    }

    fn answers(&self, tool_name: &str, input: &Value) -> Option<Answers> {
        (tool_name == read::FORM).then(|| forms::answers(input)).flatten()
    }

    fn read(&self, memory: &mut AcpMemory, line: &LineContent) -> Vec<Step> {
        read::line(&self.profile, memory, line)
    }

    fn write(&self, memory: &AcpMemory, say: &Say<'_>) -> Vec<OutLine> {
        write::lines(&self.profile, memory, say)
    }
}
