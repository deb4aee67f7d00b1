//! Patterns in the CLI's own notation, parsed once: `Bash(git diff:*)`, `Read(/src/**)`,
//! `WebFetch(domain:example.org)`, `mcp__github__*`.
//!
//! A form that the CLI reads and we do not (a `*` in the middle of a command, a subdomain wildcard)
//! is an error, never silently something narrower: a deny that means less than its author thinks is
//! worse than one that is refused.

use std::fmt;
use std::str::FromStr;

use super::files::{Family, PathPattern};
use super::notation::NETWORK_TOOL;
use super::paths::MAX_PATH_BYTES;
use super::reach::Reach;
use super::shell;

/// A parsed pattern. Displays exactly as it was written.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    kind: Kind,
}

/// The calls that a pattern covers.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// Every call of these tools.
    Tools(Vec<String>),
    /// Every tool whose name starts with `prefix`: the tools of one MCP server.
    McpPrefix { server: String, prefix: String },
    /// Bash commands.
    Command(CommandPattern),
    /// Files and directories, for a family of tools.
    Path(Family, Box<PathPattern>),
    /// One host, in its ASCII form and as it was written.
    Domain { ascii: String, written: String },
    /// One host and port that a wall asks about.
    Reach(Reach),
}

/// A pattern for one simple command.
#[derive(Debug, Clone)]
pub(crate) enum CommandPattern {
    /// This command: as the whole text, or as one part of a compound when it is made of plain
    /// words.
    Exact { text: String, words: Option<Vec<String>> },
    /// These words, then any plain arguments.
    Prefix { words: Vec<String> },
}

/// Why a pattern was refused, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("pattern `{pattern}`, column {column}: {problem}")]
pub struct PatternError {
    /// The pattern as written.
    pub pattern: String,
    /// Where it went wrong, counted in characters from 1.
    pub column: usize,
    /// What is wrong.
    pub problem: PatternProblem,
}

/// The problems that a pattern can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message is its own description")]
pub enum PatternProblem {
    #[error("a pattern starts with the name of a tool")]
    NoTool,
    #[error("`{0}` cannot be part of a tool's name")]
    ToolCharacter(char),
    #[error("a `*` in a tool's name is understood only at the end of `mcp__SERVER__*`")]
    ToolWildcard,
    #[error("an MCP pattern names its server: `mcp__SERVER` or `mcp__SERVER__TOOL`")]
    McpServer,
    #[error("`(` is not closed at the end of the pattern")]
    Unclosed,
    #[error("there is nothing between the parentheses; leave them out to mean the whole tool")]
    Empty,
    #[error("rules for `{0}` take no argument")]
    NoArgument(String),
    #[error("`*` is understood at the end, as `:*`; write `\\*` for a star of the command itself")]
    Wildcard,
    #[error(
        "the words before `:*` must be plain words, without operators, quotes that hide \
         expansions, or variables"
    )]
    NotPlainWords,
    #[error("control characters are not allowed")]
    Control,
    #[error("`..` in a path pattern: write the directory that is meant")]
    ParentDirectory,
    #[error("`~` is understood only as `~/`, the home directory")]
    Tilde,
    #[error("`**` stands for whole directories and must be a path component of its own")]
    DoubleStar,
    #[error("not a path pattern: {0}")]
    Glob(String),
    #[error("no path is longer than {MAX_PATH_BYTES} bytes")]
    Long,
    #[error("write `domain:HOST`")]
    NoDomain,
    #[error("not a host name")]
    Host,
    #[error("a host is named exactly; `*` is not understood here")]
    HostWildcard,
}

impl Pattern {
    /// Returns the pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Says whether the pattern names different files in different working directories.
    pub fn is_relative(&self) -> bool {
        match &self.kind {
            Kind::Path(_, path) => path.is_relative(),
            Kind::Tools(_)
            | Kind::McpPrefix { .. }
            | Kind::Command(_)
            | Kind::Domain { .. }
            | Kind::Reach(_) => false,
        }
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let kind = parse(text).map_err(|(at, problem)| PatternError {
            pattern: text.to_owned(),
            column: text.get(..at).map_or(0, |before| before.chars().count()) + 1,
            problem,
        })?;
        Ok(Self { text: text.to_owned(), kind })
    }
}

/// A problem and its byte offset.
pub(crate) type Refusal = (usize, PatternProblem);

fn parse(text: &str) -> Result<Kind, Refusal> {
    if let Some(at) = text.find(|c: char| c.is_control() && c != '\n' && c != '\t') {
        return Err((at, PatternProblem::Control));
    }
    let name_end = text.find('(').unwrap_or(text.len());
    let (tool, rest) = text.split_at(name_end);
    if tool.is_empty() {
        return Err((0, PatternProblem::NoTool));
    }
    if rest.is_empty() {
        return whole_tool(tool);
    }
    check_tool_name(tool)?;
    let start = name_end + 1;
    let argument = rest
        .strip_prefix('(')
        .and_then(|r| r.strip_suffix(')'))
        .ok_or((text.len(), PatternProblem::Unclosed))?;
    if argument.trim().is_empty() {
        return Err((start, PatternProblem::Empty));
    }
    // `Bash(*)` and `Read(*)` are the CLI's long forms for the whole tool.
    if argument == "*" && tool == "Bash" {
        return whole_tool(tool);
    }
    let moved = |(at, problem): Refusal| (start + at, problem);
    match tool {
        "Bash" => command(argument).map(Kind::Command).map_err(moved),
        "WebFetch" => domain(argument).map_err(moved),
        NETWORK_TOOL => Reach::parse(argument).map(Kind::Reach).map_err(moved),
        _ => match Family::of_rule(tool) {
            Some(family) => PathPattern::parse(argument)
                .map(|path| Kind::Path(family, Box::new(path)))
                .map_err(moved),
            None => Err((name_end, PatternProblem::NoArgument(tool.to_owned()))),
        },
    }
}

fn whole_tool(tool: &str) -> Result<Kind, Refusal> {
    if let Some(rest) = tool.strip_prefix("mcp__") {
        let at = "mcp__".len();
        let (name, wildcard) = match rest.strip_suffix('*') {
            Some(name) => (name, true),
            None => (rest, false),
        };
        check_tool_name(name).map_err(|(i, problem)| (at + i, problem))?;
        return match name.split_once("__") {
            None if wildcard || name.is_empty() => Err((at, PatternProblem::McpServer)),
            None => {
                Ok(Kind::McpPrefix { server: name.to_owned(), prefix: format!("mcp__{name}__") })
            }
            Some(("", _)) => Err((at, PatternProblem::McpServer)),
            Some((server, _)) if wildcard => {
                Ok(Kind::McpPrefix { server: server.to_owned(), prefix: format!("mcp__{name}") })
            }
            Some((_, "")) => Err((tool.len(), PatternProblem::McpServer)),
            Some(_) => Ok(Kind::Tools(vec![tool.to_owned()])),
        };
    }
    check_tool_name(tool)?;
    let tools = match Family::of_rule(tool) {
        Some(family) => family.tools().iter().map(|&tool| tool.to_owned()).collect(),
        None => vec![tool.to_owned()],
    };
    Ok(Kind::Tools(tools))
}

fn check_tool_name(name: &str) -> Result<(), Refusal> {
    match name.char_indices().find(|(_, c)| !(c.is_ascii_alphanumeric() || *c == '_' || *c == '-'))
    {
        None => Ok(()),
        Some((at, '*')) => Err((at, PatternProblem::ToolWildcard)),
        Some((at, c)) => Err((at, PatternProblem::ToolCharacter(c))),
    }
}

fn command(argument: &str) -> Result<CommandPattern, Refusal> {
    // A ` *` at the end is the CLI's newer form of `:*`.
    let prefix = argument
        .strip_suffix(":*")
        .or_else(|| argument.strip_suffix(" *").filter(|text| !text.ends_with('\\')));
    if let Some(prefix) = prefix {
        let text = unescape(prefix)?;
        return match shell::plain_words(&text) {
            Some(words) if !words.is_empty() => Ok(CommandPattern::Prefix { words }),
            _ => Err((0, PatternProblem::NotPlainWords)),
        };
    }
    let text = shell::trim(&unescape(argument)?).to_owned();
    let words = shell::plain_words(&text);
    Ok(CommandPattern::Exact { text, words })
}

/// Reads `\*` as a star and `\\` as a backslash; any other backslash belongs to the command.
fn unescape(text: &str) -> Result<String, Refusal> {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        match c {
            '*' => return Err((at, PatternProblem::Wildcard)),
            '\\' => {
                out.push(
                    characters
                        .next_if(|(_, next)| matches!(next, '*' | '\\'))
                        .map_or('\\', |(_, next)| next),
                );
            }
            _ => out.push(c),
        }
    }
    Ok(out)
}

/// Writes a command so that [`unescape`] gives it back.
pub(crate) fn escape_command(command: &str) -> String {
    command.replace('\\', "\\\\").replace('*', "\\*")
}

fn domain(argument: &str) -> Result<Kind, Refusal> {
    let host = argument.strip_prefix("domain:").ok_or((0, PatternProblem::NoDomain))?;
    let at = "domain:".len();
    if let Some(star) = host.find('*') {
        return Err((at + star, PatternProblem::HostWildcard));
    }
    let plain = !host.is_empty()
        && !host.ends_with('.')
        && host.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '.');
    match url::Host::parse(host) {
        Ok(url::Host::Domain(ascii)) if plain => {
            Ok(Kind::Domain { ascii, written: host.to_lowercase() })
        }
        _ => Err((at, PatternProblem::Host)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_displays_as_it_was_written() {
        for text in [
            "Bash",
            "Bash(*)",
            "Bash(git diff:*)",
            "Bash(git diff *)",
            "Bash(npm test)",
            "Bash(ls \\*.rs)",
            "Bash(echo (a))",
            "Bash(a && b)",
            "Read(/src/**)",
            "Read(//src/**)",
            "Edit(~/notes/*.md)",
            "Write(docs/)",
            "Read(src/[ab].rs)",
            "WebFetch(domain:example.org)",
            "WebFetch(domain:bücher.example)",
            "mcp__github",
            "mcp__github__*",
            "mcp__github__get_*",
            "mcp__github__get_issue",
            "WebSearch",
        ] {
            assert_eq!(text.parse::<Pattern>().map(|p| p.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn a_bad_pattern_is_refused_with_its_column() {
        use PatternProblem as P;
        for (text, column, problem) in [
            ("", 1, P::NoTool),
            ("(x)", 1, P::NoTool),
            ("Ba sh", 3, P::ToolCharacter(' ')),
            ("*", 1, P::ToolWildcard),
            ("mcp__*", 6, P::McpServer),
            ("mcp__", 6, P::McpServer),
            ("mcp__git*hub__x", 9, P::ToolWildcard),
            ("Bash(git", 9, P::Unclosed),
            ("Bash()", 6, P::Empty),
            ("Bash( )", 6, P::Empty),
            ("Bash(git * main)", 10, P::Wildcard),
            ("Bash(:*)", 6, P::NotPlainWords),
            ("Bash(git && x:*)", 6, P::NotPlainWords),
            ("Bash($X:*)", 6, P::NotPlainWords),
            ("Bash(X=1 git:*)", 6, P::NotPlainWords),
            ("Bash(git\u{0})", 9, P::Control),
            ("Read(/a/../b)", 9, P::ParentDirectory),
            ("Read(~root/x)", 6, P::Tilde),
            ("Read(/a/b**)", 9, P::DoubleStar),
            ("WebFetch(example.org)", 10, P::NoDomain),
            ("WebFetch(domain:*.example.org)", 17, P::HostWildcard),
            ("WebFetch(domain:a b)", 17, P::Host),
            ("WebFetch(domain:127.0.0.1)", 17, P::Host),
            ("WebSearch(x)", 10, P::NoArgument("WebSearch".into())),
        ] {
            let error = text.parse::<Pattern>().expect_err(text);
            assert_eq!((error.column, error.problem), (column, problem), "{text}");
        }
    }
}
