//! Decides which tool calls run without a question, which are refused without one, and which need
//! an answer.
//!
//! The rules come from the command line (`--allowedTools`, `--disallowedTools`, `--settings`), from
//! answers with `updatedPermissions`, and from the permission mode. Other calls are judged as in
//! the CLI's default mode.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::cli::Options;
use crate::harmless;
use crate::wire::PermissionDecision;

/// The decision about a tool call before anybody is asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ruling {
    Runs(PermissionDecision),
    Refused {
        message: String,
        decision: PermissionDecision,
    },
    /// The model was never offered this tool.
    NoSuchTool,
    Asks(AskedBecause),
}

/// Why a call needs an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AskedBecause {
    /// An `ask` rule of `--settings`.
    Rule,
    /// No rule lets it run without an answer.
    Nothing,
}

/// The rules of this process.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    allow: Vec<Rule>,
    ask: Vec<Rule>,
    deny: Vec<Rule>,
    mode: String,
    cwd: PathBuf,
    /// Directories besides the working directory.
    directories: Vec<PathBuf>,
}

/// `Tool` or `Tool(content)`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    tool: String,
    content: Option<String>,
}

/// The part of a settings file that matters here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Settings {
    permissions: SettingsPermissions,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SettingsPermissions {
    allow: Vec<String>,
    ask: Vec<String>,
    deny: Vec<String>,
    #[serde(rename = "defaultMode")]
    default_mode: Option<String>,
}

/// `--settings` that is neither a readable file nor JSON.
#[derive(Debug, thiserror::Error)]
#[error("Error: Settings file not found or not valid: {0}")]
pub(crate) struct SettingsError(String);

const BY_CONFIGURATION: PermissionDecision =
    PermissionDecision { decision: "accept", source: "config", reason_type: None };
const REFUSED_BY_ITS_COMMANDS: PermissionDecision = PermissionDecision {
    decision: "reject",
    source: "config",
    reason_type: Some("subcommandResults"),
};
const BY_RULE: PermissionDecision =
    PermissionDecision { decision: "accept", source: "config", reason_type: Some("rule") };
const BY_MODE: PermissionDecision =
    PermissionDecision { decision: "accept", source: "config", reason_type: Some("mode") };
const BY_ITS_COMMANDS: PermissionDecision = PermissionDecision {
    decision: "accept",
    source: "config",
    reason_type: Some("subcommandResults"),
};
const REFUSED_BY_RULE: PermissionDecision =
    PermissionDecision { decision: "reject", source: "config", reason_type: Some("rule") };

impl Rules {
    pub(crate) fn new(options: &Options, cwd: &Path) -> Result<Self, SettingsError> {
        let settings = match &options.settings {
            Some(text) => read_settings(text)?,
            None => Settings::default(),
        }
        .permissions;
        let rules =
            |texts: &[String]| texts.iter().map(|text| Rule::parse(text)).collect::<Vec<_>>();
        let mode = options.permission_mode.clone().or(settings.default_mode);
        Ok(Self {
            allow: [rules(&options.allowed_tools), rules(&settings.allow)].concat(),
            ask: rules(&settings.ask),
            deny: [rules(&options.disallowed_tools), rules(&settings.deny)].concat(),
            mode: mode.unwrap_or_else(|| "default".to_owned()),
            cwd: cwd.to_owned(),
            directories: options.add_dirs.iter().map(|folder| cwd.join(folder)).collect(),
        })
    }

    pub(crate) fn mode(&self) -> &str {
        &self.mode
    }

    pub(crate) fn set_mode(&mut self, mode: &str) {
        self.mode = mode.to_owned();
    }

    /// Tells whether the model is offered this tool.
    pub(crate) fn offers(&self, tool: &str) -> bool {
        !self.deny.iter().any(|rule| rule.content.is_none() && rule.names(tool))
    }

    /// Judges a call before anybody is asked.
    pub(crate) fn judge(&self, tool: &str, input: &Value) -> Ruling {
        let subject = subject(input);
        let matches = |rules: &[Rule]| rules.iter().any(|rule| rule.matches(tool, subject));
        if !self.offers(tool) {
            return Ruling::NoSuchTool;
        }
        if matches(&self.deny) {
            return match tool {
                "Bash" => Ruling::Refused {
                    message: format!(
                        "Permission to use Bash with command {subject} has been denied."
                    ),
                    decision: REFUSED_BY_ITS_COMMANDS,
                },
                _ => Ruling::Refused {
                    message: format!("Permission to use {tool} has been denied."),
                    decision: REFUSED_BY_RULE,
                },
            };
        }
        if matches(&self.ask) {
            return Ruling::Asks(AskedBecause::Rule);
        }
        if matches(&self.allow) {
            return Ruling::Runs(BY_RULE);
        }
        match tool {
            "Read" if self.is_inside(subject) => Ruling::Runs(BY_MODE),
            "Write" | "Edit" if self.mode == "acceptEdits" && self.is_inside(subject) => {
                Ruling::Runs(BY_MODE)
            }
            "Bash" if harmless::is_harmless(subject, |path| self.is_inside(path)) => {
                Ruling::Runs(BY_ITS_COMMANDS)
            }
            "Skill" | "Task" | "ToolSearch" | "EnterWorktree" | "ListAgents" | "SendMessage"
            | "CronCreate" => Ruling::Runs(BY_CONFIGURATION),
            _ => Ruling::Asks(AskedBecause::Nothing),
        }
    }

    /// Applies the `updatedPermissions` of an answer, or of `apply_flag_settings`.
    pub(crate) fn update(&mut self, updates: &[Value]) {
        for update in updates {
            let text = |key: &str| update.get(key).and_then(Value::as_str);
            match text("type") {
                Some("setMode") => {
                    if let Some(mode) = text("mode") {
                        self.set_mode(mode);
                    }
                }
                Some("addRules") => {
                    let rules = update.get("rules").and_then(Value::as_array).into_iter().flatten();
                    let rules = rules.filter_map(|rule| {
                        let tool = rule.get("toolName")?.as_str()?.to_owned();
                        let content =
                            rule.get("ruleContent").and_then(Value::as_str).map(str::to_owned);
                        Some(Rule { tool, content })
                    });
                    match text("behavior") {
                        Some("deny") => self.deny.extend(rules),
                        Some("ask") => self.ask.extend(rules),
                        _ => self.allow.extend(rules),
                    }
                }
                Some("addDirectories") => {
                    let folders =
                        update.get("directories").and_then(Value::as_array).into_iter().flatten();
                    self.directories.extend(folders.filter_map(Value::as_str).map(PathBuf::from));
                }
                _ => {}
            }
        }
    }

    /// Tells whether a path is in the working directory or in an added one.
    pub(crate) fn is_inside(&self, path: &str) -> bool {
        let path = resolve(&self.cwd, path);
        path.starts_with(&self.cwd)
            || self.directories.iter().any(|folder| path.starts_with(folder))
    }
}

impl Rule {
    fn parse(text: &str) -> Self {
        match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
            Some((tool, content)) => {
                Self { tool: tool.to_owned(), content: Some(content.to_owned()) }
            }
            None => Self { tool: text.to_owned(), content: None },
        }
    }

    fn names(&self, tool: &str) -> bool {
        // `mcp__server` and `mcp__server__*` stand for every tool of that server.
        self.tool == tool
            || (self.tool.starts_with("mcp__")
                && tool
                    .strip_prefix(self.tool.trim_end_matches('*').trim_end_matches("__"))
                    .is_some_and(|rest| rest.starts_with("__")))
    }

    fn matches(&self, tool: &str, subject: &str) -> bool {
        self.names(tool)
            && match self.content.as_deref() {
                None | Some("*") => true,
                Some(content) => {
                    match content.strip_suffix(":*").or_else(|| content.strip_suffix('*')) {
                        Some(prefix) => subject.starts_with(prefix),
                        None => subject == content,
                    }
                }
            }
    }
}

/// Returns what a rule's content is compared with: the command or the path.
pub(crate) fn subject(input: &Value) -> &str {
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    text("command").or_else(|| text("file_path")).unwrap_or("")
}

/// Makes a path absolute and removes its dots without accessing the disk.
pub(crate) fn resolve(cwd: &Path, path: &str) -> PathBuf {
    let mut resolved = PathBuf::new();
    for part in cwd.join(path).components() {
        match part {
            std::path::Component::ParentDir => {
                resolved.pop();
            }
            std::path::Component::CurDir => {}
            part => resolved.push(part),
        }
    }
    resolved
}

fn read_settings(text: &str) -> Result<Settings, SettingsError> {
    let error = || SettingsError(text.to_owned());
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|_| error());
    }
    let file = std::fs::read_to_string(text).map_err(|_| error())?;
    serde_json::from_str(&file).map_err(|_| error())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rules(options: &Options) -> Rules {
        Rules::new(options, Path::new("/here")).unwrap()
    }

    fn asks(rules: &Rules, tool: &str, input: Value) -> bool {
        matches!(rules.judge(tool, &input), Ruling::Asks(_))
    }

    #[test]
    fn only_what_the_cli_holds_harmless_runs_unasked() {
        let rules = rules(&Options::default());
        for (tool, input, expected) in [
            ("Read", json!({"file_path": "a.txt"}), false),
            ("Read", json!({"file_path": "/here/a.txt"}), false),
            ("Read", json!({"file_path": "../a.txt"}), true),
            ("Read", json!({"file_path": "/etc/hostname"}), true),
            ("Write", json!({"file_path": "a.txt"}), true),
            ("Bash", json!({"command": "ls -la"}), false),
            ("Bash", json!({"command": "sleep 4; echo BG"}), false),
            ("Bash", json!({"command": "touch a && echo b"}), true),
            ("mcp__plexus__x", json!({}), true),
        ] {
            assert_eq!(asks(&rules, tool, input.clone()), expected, "{tool} {input}");
        }
    }

    #[test]
    fn settings_and_flags_change_what_asks() {
        let settings = json!({"permissions": {"ask": ["Read"], "allow": ["Bash(touch:*)"], "deny": ["Bash(rm:*)"]}});
        let rules = rules(&Options {
            settings: Some(settings.to_string()),
            allowed_tools: vec!["mcp__plexus".to_owned()],
            disallowed_tools: vec!["Write".to_owned()],
            ..Options::default()
        });
        assert!(asks(&rules, "Read", json!({"file_path": "a"})));
        assert_eq!(rules.judge("Bash", &json!({"command": "touch a"})), Ruling::Runs(BY_RULE));
        assert_eq!(rules.judge("mcp__plexus__x", &json!({})), Ruling::Runs(BY_RULE));
        assert_eq!(rules.judge("Write", &json!({"file_path": "a"})), Ruling::NoSuchTool);
        assert!(matches!(rules.judge("Bash", &json!({"command": "rm a"})), Ruling::Refused { .. }));
    }

    #[test]
    fn an_answers_session_rule_is_remembered() {
        let mut rules = rules(&Options::default());
        rules.update(&[json!({
            "type": "addRules", "behavior": "allow", "destination": "session",
            "rules": [{"toolName": "Bash", "ruleContent": "touch a"}]
        })]);
        assert!(!asks(&rules, "Bash", json!({"command": "touch a"})));
        assert!(asks(&rules, "Bash", json!({"command": "touch b"})));
    }
}
