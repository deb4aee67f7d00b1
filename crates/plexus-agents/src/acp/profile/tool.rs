//! What a tool of an agent acts on, by the names of its arguments.

use serde::Deserialize;

/// What a tool acts on.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolProfile {
    /// What kind of thing it does.
    pub acts: Acts,
    /// The argument with the command.
    #[serde(default)]
    pub command: Option<String>,
    /// Arguments with the directory of the command; the first that is present counts.
    #[serde(default)]
    pub cwd: Vec<String>,
    /// The argument with the path.
    #[serde(default)]
    pub path: Option<String>,
    /// The argument with the new content of the file.
    #[serde(default)]
    pub content: Option<String>,
    /// The argument with the text that is replaced.
    #[serde(default)]
    pub before: Option<String>,
    /// The argument with the text that replaces it.
    #[serde(default)]
    pub after: Option<String>,
    /// The argument that says whether every occurrence is replaced.
    #[serde(default)]
    pub every: Option<String>,
    /// Whether the changes are in the content that the agent shows.
    #[serde(default)]
    pub diff: bool,
    /// The argument with the address.
    #[serde(default)]
    pub url: Option<String>,
    /// Arguments that change nothing about what it acts on. Any other makes the target doubtful.
    #[serde(default)]
    pub harmless: Vec<String>,
    /// Why the arguments of a call never tell the whole target.
    #[serde(default)]
    pub doubt: Option<String>,
}

/// What kind of thing a tool does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Acts {
    /// Runs a shell command.
    Shell,
    /// Changes files.
    Write,
    /// Reads a file.
    Read,
    /// Reads everything below a directory.
    ReadTree,
    /// Sends a request to a server.
    Fetch,
    /// Starts an agent of its own.
    Agent,
    /// Keeps notes.
    Think,
}
