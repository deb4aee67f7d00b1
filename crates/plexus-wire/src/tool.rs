//! A tool call in one form for every agent: what it would act on, and how much harm that could do.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a tool call would act on. Agents name their tools and inputs differently; rules, risk,
/// diffs and screens read this form instead.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ToolTarget {
    /// Runs a shell command.
    Shell {
        /// The whole command.
        command: String,
        /// The directory in which it starts; absent: the session's `working_dir`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cwd: Option<PathBuf>,
        /// The shell that reads it; absent: a POSIX shell.
        #[serde(default, skip_serializing_if = "ShellLanguage::is_posix")]
        language: ShellLanguage,
    },
    /// Changes files.
    Write {
        /// The changes, in their order.
        changes: Vec<FileChange>,
    },
    /// Reads a file or a directory.
    Read {
        /// The path as it was written; absent: the session's `working_dir`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// Whether it reads everything below the path, as a search does.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        tree: bool,
    },
    /// Sends a request to a server of the network.
    Fetch {
        /// The address; absent for a web search.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
    },
    /// Opens a connection from within a wall.
    Connect {
        /// The host.
        host: String,
        /// Its port.
        port: u16,
    },
    /// Calls a tool of an MCP server.
    Mcp {
        /// The server, as the agent's configuration names it.
        server: String,
        /// Its tool.
        tool: String,
    },
    /// Starts an agent of the agent's own.
    Agent {},
    /// Keeps notes of its own, and changes nothing else.
    Think {},
    /// Asks its user something, and changes nothing.
    Question {},
    /// Something else.
    Other {},
}

/// The shell that reads a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum ShellLanguage {
    /// `sh`, `bash` and their like.
    #[default]
    Posix,
    /// PowerShell.
    PowerShell,
}

impl ShellLanguage {
    /// Says whether it is a POSIX shell, the only kind whose commands rules can read.
    #[must_use]
    pub fn is_posix(&self) -> bool {
        *self == Self::Posix
    }
}

/// A change of one file. The texts stay in the tool's input, where JSON Pointers (RFC 6901) find
/// them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct FileChange {
    /// The path as it was written.
    pub path: String,
    /// What happens to the file.
    #[serde(flatten)]
    pub edit: FileEdit,
}

/// What happens to a file. Every text is a JSON Pointer into the tool's input.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "edit", rename_all = "snake_case")]
pub enum FileEdit {
    /// Its content is replaced, or it is created.
    Whole {
        /// Where the new content is.
        after: String,
    },
    /// A text in it is replaced.
    Replace {
        /// Where the old text is.
        before: String,
        /// Where the new text is.
        after: String,
        /// Whether every occurrence is replaced.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        every: bool,
    },
    /// A part of it, such as a cell of a notebook, gets new content.
    Part {
        /// The name of the part; absent for a new one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Where the new content is.
        after: String,
    },
    /// A unified diff is applied to it.
    Diff {
        /// Where the diff is.
        diff: String,
    },
    /// It is deleted.
    Delete {},
    /// It changes in a way that the input does not show.
    Unknown {},
}

impl FileEdit {
    /// The pointers to its texts.
    pub fn pointers(&self) -> impl Iterator<Item = &str> {
        let pointers = match self {
            Self::Whole { after } | Self::Part { after, .. } => [Some(after), None],
            Self::Replace { before, after, .. } => [Some(before), Some(after)],
            Self::Diff { diff } => [Some(diff), None],
            Self::Delete {} | Self::Unknown {} => [None, None],
        };
        pointers.into_iter().flatten().map(String::as_str)
    }
}

/// What an agent's driver reads out of a tool call. It does not cross a door as a whole.
#[cfg(feature = "server")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolCall {
    /// The tool, as the agent names it.
    pub tool_name: String,
    /// What the call would act on.
    pub target: ToolTarget,
    /// Why the target does not tell everything that the call would do. A call with a doubt is never
    /// allowed by a rule about its command, path or host.
    pub doubt: Option<String>,
}

#[cfg(feature = "server")]
impl ToolCall {
    /// Makes a call whose target tells everything that it would do.
    #[must_use]
    pub fn new(tool_name: impl Into<String>, target: ToolTarget) -> Self {
        Self { tool_name: tool_name.into(), target, doubt: None }
    }

    /// Makes a call of which only the tool's name is known.
    #[must_use]
    pub fn unknown(tool_name: impl Into<String>) -> Self {
        Self::new(tool_name, ToolTarget::Other {})
    }

    /// Adds a doubt. The first one is kept.
    #[must_use]
    pub fn doubted(mut self, doubt: Option<impl Into<String>>) -> Self {
        self.doubt = self.doubt.or(doubt.map(Into::into));
        self
    }
}

/// How much harm a tool call could do. It orders queues and draws attention. It decides nothing,
/// and a low level is no promise.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Risk {
    /// The level.
    pub level: RiskLevel,
    /// The same as a number from 0 to 100, to sort by.
    pub score: u8,
    /// The reasons, the gravest first.
    pub reasons: Vec<String>,
}

/// How much harm a tool call could do.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema,
)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum RiskLevel {
    /// It only reads, as far as its words tell.
    Low,
    /// It changes something that can be changed back.
    Medium,
    /// It changes what is hard to change back, or reaches outside.
    High,
    /// It may destroy, reveal or take over.
    Critical,
}
