//! What is particular to one agent of the Agent Client Protocol, as data.
//!
//! The profiles of known agents are files in `agents/`, compiled in. An operator adds others to
//! `plexus.toml` in the same form. `docs/agents.md` says why each agent sets which fields.

mod tool;

use std::collections::BTreeMap;

use plexus_wire::AsksFor;
use serde::{Deserialize, Deserializer};

use crate::codex::Prices;

pub use self::tool::{Acts, ToolProfile};

/// The known agents: the name that users write, and the profile.
const KNOWN: [(&str, &str); 4] = [
    ("claude_acp", include_str!("../../../agents/claude_acp.toml")),
    ("gemini", include_str!("../../../agents/gemini.toml")),
    ("goose", include_str!("../../../agents/goose.toml")),
    ("opencode", include_str!("../../../agents/opencode.toml")),
];

/// What is particular to one agent.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// What people call it.
    pub label: String,
    /// Its program, which is looked for in `PATH`, or a path.
    pub program: String,
    /// The version whose behaviour this profile describes.
    #[serde(default)]
    pub version: Option<String>,
    /// How a person installs it.
    #[serde(default)]
    pub install: Option<String>,
    /// The arguments that make it speak the protocol. `{home}` is its own home directory,
    /// `{session}` the directory of its session's runs, which is deleted with the session.
    #[serde(default)]
    pub args: Vec<String>,
    /// The calls that it asks about. Only a claim that somebody has checked belongs here.
    #[serde(default)]
    pub asks_for: AsksFor,
    /// Tools that run without a question and change nothing.
    #[serde(default)]
    pub never_asks: Vec<String>,
    /// How the output of a completed call begins if the call did not run.
    #[serde(default)]
    pub did_not_run: Vec<String>,
    /// The modes in which it asks as `asks_for` says. A session opens in the first. Without any,
    /// the mode in which it opened is the one that it must stay in.
    #[serde(default)]
    pub modes: Vec<String>,
    /// How a message of the agent begins that reports a change of mode.
    #[serde(default)]
    pub mode_text: Option<String>,
    /// Where the complete input of a call is.
    #[serde(default)]
    pub input: InputPlace,
    /// Where the name of a tool is.
    #[serde(default)]
    pub tool_name: NamePlace,
    /// How a call is denied.
    #[serde(default)]
    pub deny: DenyWay,
    /// How it continues an ended conversation.
    #[serde(default)]
    pub resume: ResumeWay,
    /// When the history of a loaded conversation comes.
    #[serde(default)]
    pub history: History,
    /// Whether it copies conversations.
    #[serde(default)]
    pub fork: bool,
    /// Whether it has no tools at all, so that none has to be disallowed.
    #[serde(default)]
    pub without_tools: bool,
    /// Whether it uses the MCP servers that a client names, and asks about their tools.
    #[serde(default)]
    pub mcp: bool,
    /// Whether it shows those servers in the arguments of a process, and substitutes variables of
    /// its environment (`${NAME}`) in them.
    #[serde(default)]
    pub mcp_variables: bool,
    /// Whether it asks its user with forms, where a client takes them.
    #[serde(default)]
    pub forms: bool,
    /// Whether it takes images in prompts. It must say so itself too.
    #[serde(default)]
    pub images: bool,
    /// Whether it takes directories in addition to the working directory.
    #[serde(default)]
    pub add_dirs: bool,
    /// How the agent learns which model to use.
    #[serde(default)]
    pub model: ModelWay,
    /// How the agent learns the system prompt of its session; not by `option`.
    #[serde(default)]
    pub system_prompt: ModelWay,
    /// Where the tokens of a turn are.
    #[serde(default)]
    pub tokens: TokensPlace,
    /// Whether it says what a conversation has cost.
    #[serde(default)]
    pub cost: bool,
    /// What its models cost, by the names that sessions give them; `None` for an agent that no
    /// setting has prices for.
    #[serde(skip)]
    pub prices: Option<Prices>,
    /// The model of a session that names none, where the server chooses it.
    #[serde(skip)]
    pub default_model: Option<String>,
    /// The variables that it inherits from the server, by name.
    #[serde(default)]
    pub inherits: Vec<String>,
    /// Variables that no session may set, by name; a `*` at the end matches any suffix.
    #[serde(default)]
    pub guarded_env: Vec<String>,
    /// Variables that it has whatever its session says. `{home}` is its own home directory.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Paths that must not exist in the working directory, because the agent would run them without
    /// a question.
    #[serde(default)]
    pub absent: Vec<String>,
    /// What the request that opens a session carries as `_meta`.
    #[serde(default)]
    pub session_meta: Option<toml::Table>,
    /// The home directory that is made for it; without one, it has the server's.
    #[serde(default)]
    pub home: Option<HomeProfile>,
    /// The hosts that it reaches within a wall without asking: those of its models.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Whether it listens on a port of its own, which the landlock tier of a wall forbids.
    #[serde(default)]
    pub listens: bool,
    /// The agent that it wraps in the protocol, whose files and variables it has.
    #[serde(default)]
    pub runs: Option<Runs>,
    /// What its tools act on, by their names.
    #[serde(default)]
    pub tools: BTreeMap<String, ToolProfile>,
}

/// The home directory of an agent, which keeps a person's own settings out.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HomeProfile {
    /// Files of the person's own home that are linked into it, where they exist: logins.
    #[serde(default)]
    pub links: Vec<String>,
    /// Directories of it that must be empty, because the agent would run their files without a
    /// question.
    #[serde(default)]
    pub empty: Vec<String>,
    /// Files that are written before each start.
    #[serde(default)]
    pub files: Vec<HomeFileProfile>,
}

/// A file of an agent's home directory.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HomeFileProfile {
    /// Where it is.
    pub path: String,
    /// Its text, unless it is JSON.
    #[serde(default)]
    pub text: Option<String>,
    /// Its content as JSON.
    #[serde(default)]
    pub json: Option<toml::Table>,
    /// Values that are copied from the same file in the person's home, as dotted paths.
    #[serde(default)]
    pub keep: Vec<String>,
}

/// An agent with a driver of its own that another program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runs {
    /// Claude Code.
    ClaudeCode,
}

/// Where the complete input of a call is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputPlace {
    /// In `rawInput` of the request.
    #[default]
    Request,
    /// In `rawInput` of the update that says `in_progress`; the request is held back until then.
    Update,
    /// Nowhere: the title and the content of the request are all there is.
    Shown,
}

/// Where the name of a tool is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NamePlace {
    /// In a field of the call.
    #[default]
    Field,
    /// In the title of the first line about the call.
    FirstTitle,
    /// In the call's id, up to `__`.
    IdPrefix,
    /// Where Goose has it, or else in the title of the request.
    Goose,
}

/// How a call is denied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DenyWay {
    /// By the option of the kind `reject_once`, which carries no reason.
    #[default]
    Option,
    /// By an error, whose message reaches the model.
    Error,
}

/// How an agent continues an ended conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResumeWay {
    /// It does not.
    #[default]
    None,
    /// By `session/load`, which replays its history.
    Load,
    /// By `session/resume`, which does not.
    Resume,
}

/// When the history of a loaded conversation comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// Before the answer to `session/load`.
    #[default]
    BeforeAnswer,
    /// In part after it.
    AfterAnswer,
}

/// How an agent is told the model.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum ModelWay {
    /// Not at all.
    #[default]
    None,
    /// By the session's option of the category `model`.
    Option,
    /// By this variable.
    Env(String),
    /// By this argument, followed by the model.
    Args(String),
}

/// Where the tokens of a turn are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokensPlace {
    /// Nowhere, or only those of the last request to the model.
    #[default]
    None,
    /// In `usage` of the answer to the prompt.
    Turn,
    /// In `_meta.quota` of it.
    Quota,
}

/// Why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the profile of the agent {name} is not valid: {problem}")]
pub struct ProfileError {
    name: String,
    problem: String,
}

impl Profile {
    /// The known agents, by the names that users write.
    #[must_use]
    pub fn known() -> Vec<(&'static str, Self)> {
        #[expect(clippy::expect_used, reason = "the files are compiled in, and a test reads them")]
        let read = |text| toml::from_str(text).expect("a known profile");
        KNOWN.map(|(name, text)| (name, read(text))).into()
    }

    /// The agent that is a model without tools, in a program of ours.
    #[must_use]
    pub fn cone() -> Self {
        #[expect(clippy::expect_used, reason = "the file is compiled in, and a test reads it")]
        toml::from_str(include_str!("../../../agents/cone.toml")).expect("a known profile")
    }

    /// Reads a profile that an operator wrote.
    ///
    /// # Errors
    /// When it is not a profile, with the reason.
    pub fn of(name: &str, table: toml::Table) -> Result<Self, ProfileError> {
        let wrong = |problem: String| ProfileError { name: name.to_owned(), problem };
        let profile: Self =
            table.try_into().map_err(|error: toml::de::Error| wrong(error.message().to_owned()))?;
        if profile.system_prompt == ModelWay::Option {
            return Err(wrong("`system_prompt` is told by `env:NAME` or `args:--NAME`".into()));
        }
        let outside = |path: &str| {
            std::path::Path::new(path)
                .components()
                .any(|part| !matches!(part, std::path::Component::Normal(_)))
        };
        let home = profile.home.iter();
        let files = home.clone().flat_map(|home| home.files.iter().map(|file| &file.path));
        let others = home.flat_map(|home| home.links.iter().chain(&home.empty));
        let mut paths = files.chain(others).chain(&profile.absent);
        match paths.find(|path| outside(path)) {
            Some(path) => Err(wrong(format!("{path:?} is not a path below a directory"))),
            None => Ok(profile),
        }
    }
}

impl<'de> Deserialize<'de> for ModelWay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.split_once(':') {
            None if text == "none" => Ok(Self::None),
            None if text == "option" => Ok(Self::Option),
            Some(("env", name)) => Ok(Self::Env(name.to_owned())),
            Some(("args", name)) => Ok(Self::Args(name.to_owned())),
            _ => Err(serde::de::Error::custom(
                "the model is told by `none`, `option`, `env:NAME` or `args:--NAME`",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_profiles_are_whole() {
        for (name, profile) in Profile::known() {
            assert!(profile.version.is_some() && profile.install.is_some(), "{name}");
            assert_ne!(profile.asks_for, AsksFor::Configured, "{name}");
            assert!(!profile.modes.is_empty(), "{name} has no mode that it must stay in");
        }
        for (name, text) in KNOWN {
            Profile::of(name, toml::from_str(text).unwrap()).unwrap();
        }
    }

    #[test]
    fn a_profile_of_an_operator_asks_for_what_its_agent_is_configured_to() {
        let table = |text: &str| toml::from_str::<toml::Table>(text).unwrap();
        let profile = Profile::of("own", table("label = 'Own'\nprogram = 'own'\n")).unwrap();
        assert_eq!(profile.asks_for, AsksFor::Configured);
        for (text, expected) in [
            ("label = 'Own'", "program"),
            ("label = 'Own'\nprogram = 'own'\nmodell = 'x'", "modell"),
            ("label = 'Own'\nprogram = 'own'\nmodel = 'x'", "env:NAME"),
            ("label = 'Own'\nprogram = 'own'\nsystem_prompt = 'option'", "system_prompt"),
            ("label = 'Own'\nprogram = 'own'\nabsent = ['../x']", "../x"),
            ("label = 'Own'\nprogram = 'own'\n[[home.files]]\npath = '/etc/x'", "/etc/x"),
        ] {
            let error = Profile::of("own", table(text)).unwrap_err().to_string();
            assert!(error.contains("own") && error.contains(expected), "{error}");
        }
    }
}
