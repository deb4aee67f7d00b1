//! The command line: the flags of the real CLI that the simulator understands, parsed as the real
//! CLI does.
//!
//! The parser is written by hand because the real one is unusual: some options take every word up
//! to the next option, an unknown option gives exit code 1, and everything after `--` is the
//! prompt.

use std::ffi::OsString;

use uuid::Uuid;

/// The parsed options.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) output: OutputFormat,
    /// Prompts and answers arrive as JSON lines on stdin.
    pub(crate) stream_input: bool,
    pub(crate) verbose: bool,
    pub(crate) partial_messages: bool,
    pub(crate) replay_user_messages: bool,
    pub(crate) model: Option<String>,
    pub(crate) resume: Option<String>,
    pub(crate) continue_last: bool,
    pub(crate) fork_session: bool,
    /// The message after which the resumed conversation continues.
    pub(crate) resume_session_at: Option<String>,
    pub(crate) session_id: Option<String>,
    /// Files, or inline JSON.
    pub(crate) mcp_config: Vec<String>,
    pub(crate) permission_prompt_tool: Option<String>,
    pub(crate) permission_mode: Option<String>,
    /// A file, or inline JSON.
    pub(crate) settings: Option<String>,
    pub(crate) allowed_tools: Vec<String>,
    pub(crate) disallowed_tools: Vec<String>,
    pub(crate) add_dirs: Vec<String>,
    pub(crate) max_turns: Option<u32>,
    pub(crate) prompt: Option<String>,
}

/// The format of stdout.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    /// The text of the result.
    #[default]
    Text,
    /// Only the result line.
    Json,
    /// Every line.
    StreamJson,
}

/// The meaning of the command line.
#[derive(Debug)]
pub(crate) enum Invocation {
    Run(Box<Options>),
    Version,
    Help,
}

/// A command line that the real CLI would refuse; the text goes to stderr and the exit code is 1.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum UsageError {
    #[error("error: unknown option '{0}'")]
    UnknownOption(String),
    #[error("error: option '{0}' argument missing")]
    MissingArgument(String),
    #[error("error: option '{flag}' argument '{value}' is invalid. Allowed choices are {choices}.")]
    BadChoice { flag: &'static str, value: String, choices: &'static str },
    #[error("error: an argument is not valid UTF-8")]
    NotUtf8,
    #[error("Error: When using --print, --output-format=stream-json requires --verbose")]
    NeedsVerbose,
    #[error("Error: --input-format=stream-json requires output-format=stream-json.")]
    NeedsStreamOutput,
    #[error(
        "Error: --replay-user-messages requires both --input-format=stream-json and \
         --output-format=stream-json."
    )]
    NeedsStreamInput,
    #[error("Error: Invalid session ID. Must be a valid UUID.")]
    BadSessionId,
    #[error(
        "Error: --session-id can only be used with --continue or --resume if --fork-session is \
         also specified."
    )]
    SessionIdWithResume,
    #[error("Error: {0} cannot be used by root or by a simulator")]
    SkipsPermissions(String),
}

/// Parses the words after the program's name.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation, UsageError> {
    let words = args
        .into_iter()
        .map(|word| word.into_string().map_err(|_| UsageError::NotUtf8))
        .collect::<Result<Vec<_>, _>>()?;
    let mut words = words.into_iter().peekable();
    let mut options = Options::default();
    while let Some(word) = words.next() {
        if word == "--" {
            options.prompt = words.next().or(options.prompt);
            break;
        }
        if !word.starts_with('-') || word == "-" {
            options.prompt.get_or_insert(word);
            continue;
        }
        let (flag, inline) = match word.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => {
                (flag.to_owned(), Some(value.to_owned()))
            }
            _ => (word, None),
        };
        let mut one = || {
            inline
                .clone()
                .or_else(|| words.next())
                .ok_or_else(|| UsageError::MissingArgument(flag.clone()))
        };
        match flag.as_str() {
            "-v" | "--version" => return Ok(Invocation::Version),
            "-h" | "--help" => return Ok(Invocation::Help),
            // The simulator has only print mode, and no hooks, telemetry or settings files, so
            // these flags do nothing.
            "-p"
            | "--print"
            | "--strict-mcp-config"
            | "--include-hook-events"
            | "--no-session-persistence" => {}
            "--verbose" => options.verbose = true,
            "--include-partial-messages" => options.partial_messages = true,
            "--replay-user-messages" => options.replay_user_messages = true,
            "--fork-session" => options.fork_session = true,
            "-c" | "--continue" => options.continue_last = true,
            "--resume-session-at" => options.resume_session_at = Some(one()?),
            "-r" | "--resume" => options.resume = Some(one()?),
            "--session-id" => options.session_id = Some(one()?),
            "--model" => options.model = Some(one()?),
            "--permission-prompt-tool" => options.permission_prompt_tool = Some(one()?),
            "--permission-mode" => options.permission_mode = Some(permission_mode(one()?)?),
            "--settings" => options.settings = Some(one()?),
            "--max-turns" => options.max_turns = Some(max_turns(one()?)?),
            "--output-format" => options.output = output_format(one()?)?,
            "--input-format" => options.stream_input = input_format(one()?)?,
            "--append-system-prompt"
            | "--system-prompt"
            | "--setting-sources"
            | "--fallback-model"
            | "--effort"
            | "--max-thinking-tokens"
            | "--max-budget-usd"
            | "--agents"
            | "-n"
            | "--name" => {
                one()?;
            }
            "--mcp-config" | "--allowedTools" | "--allowed-tools" | "--disallowedTools"
            | "--disallowed-tools" | "--add-dir" | "--tools" => {
                // These options take every word up to the next option, as in the real CLI.
                let mut values = vec![one()?];
                while let Some(value) = words.next_if(|word| !word.starts_with('-')) {
                    values.push(value);
                }
                match flag.as_str() {
                    "--mcp-config" => options.mcp_config.extend(values),
                    "--add-dir" => options.add_dirs.extend(values),
                    "--tools" => {}
                    "--allowedTools" | "--allowed-tools" => {
                        options.allowed_tools.extend(rule_list(&values))
                    }
                    _ => options.disallowed_tools.extend(rule_list(&values)),
                }
            }
            "--dangerously-skip-permissions" => return Err(UsageError::SkipsPermissions(flag)),
            _ => return Err(UsageError::UnknownOption(flag)),
        }
    }
    check(options)
}

/// Refuses combinations that the real CLI refuses.
fn check(options: Options) -> Result<Invocation, UsageError> {
    let stream_output = options.output == OutputFormat::StreamJson;
    if stream_output && !options.verbose {
        return Err(UsageError::NeedsVerbose);
    }
    if options.stream_input && !stream_output {
        return Err(UsageError::NeedsStreamOutput);
    }
    if options.replay_user_messages && !options.stream_input {
        return Err(UsageError::NeedsStreamInput);
    }
    if let Some(id) = &options.session_id {
        if Uuid::parse_str(id).is_err() {
            return Err(UsageError::BadSessionId);
        }
        if (options.resume.is_some() || options.continue_last) && !options.fork_session {
            return Err(UsageError::SessionIdWithResume);
        }
    }
    Ok(Invocation::Run(Box::new(options)))
}

/// Splits `Bash(git log:*),Read Edit` at commas and spaces outside parentheses.
pub(crate) fn rule_list(values: &[String]) -> Vec<String> {
    let mut rules = Vec::new();
    for value in values {
        let mut depth = 0_u32;
        let mut rule = String::new();
        for character in value.chars() {
            match character {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 && (character == ',' || character == ' ') {
                rules.push(std::mem::take(&mut rule));
            } else {
                rule.push(character);
            }
        }
        rules.push(rule);
    }
    rules.retain(|rule| !rule.is_empty());
    rules
}

fn output_format(value: String) -> Result<OutputFormat, UsageError> {
    match value.as_str() {
        "text" => Ok(OutputFormat::Text),
        "json" => Ok(OutputFormat::Json),
        "stream-json" => Ok(OutputFormat::StreamJson),
        _ => Err(UsageError::BadChoice {
            flag: "--output-format <format>",
            value,
            choices: "text, json, stream-json",
        }),
    }
}

fn input_format(value: String) -> Result<bool, UsageError> {
    match value.as_str() {
        "text" => Ok(false),
        "stream-json" => Ok(true),
        _ => Err(UsageError::BadChoice {
            flag: "--input-format <format>",
            value,
            choices: "text, stream-json",
        }),
    }
}

fn permission_mode(value: String) -> Result<String, UsageError> {
    match value.as_str() {
        "default" | "acceptEdits" | "plan" | "dontAsk" | "auto" => Ok(value),
        "bypassPermissions" => {
            Err(UsageError::SkipsPermissions("--permission-mode bypassPermissions".to_owned()))
        }
        _ => Err(UsageError::BadChoice {
            flag: "--permission-mode <mode>",
            value,
            choices: "acceptEdits, auto, bypassPermissions, default, dontAsk, plan",
        }),
    }
}

fn max_turns(value: String) -> Result<u32, UsageError> {
    value.parse().map_err(|_| UsageError::BadChoice {
        flag: "--max-turns <turns>",
        value,
        choices: "a number",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &[&str]) -> Options {
        match parse(words.iter().map(OsString::from)) {
            Ok(Invocation::Run(options)) => *options,
            other => panic!("{words:?} gave {other:?}"),
        }
    }

    #[test]
    fn the_command_line_of_the_mcp_channel_is_understood() {
        let options = options(&[
            "--print",
            "--output-format",
            "stream-json",
            "--verbose",
            "--strict-mcp-config",
            "--mcp-config",
            "a.json",
            "--permission-prompt-tool",
            "mcp__plexus__loopback_permit",
            "--include-partial-messages",
            "--model",
            "m",
            "--setting-sources",
            "user",
            "--disallowedTools",
            "SendMessage,ListAgents",
            "--",
            "--a prompt",
        ]);
        assert_eq!(options.output, OutputFormat::StreamJson);
        assert_eq!(options.mcp_config, ["a.json"]);
        assert_eq!(options.disallowed_tools, ["SendMessage", "ListAgents"]);
        assert_eq!(options.prompt.as_deref(), Some("--a prompt"));
        assert!(options.partial_messages && options.verbose);
    }

    #[test]
    fn an_unknown_option_is_refused_by_its_name() {
        let error = parse(["--frobnicate".into()]).unwrap_err();
        assert_eq!(error.to_string(), "error: unknown option '--frobnicate'");
    }

    #[test]
    fn stream_json_without_verbose_is_refused() {
        let error =
            parse(["-p", "--output-format=stream-json", "x"].map(OsString::from)).unwrap_err();
        assert_eq!(error, UsageError::NeedsVerbose);
    }

    #[test]
    fn commas_inside_parentheses_stay_in_their_rule() {
        assert_eq!(
            rule_list(&["Bash(git log,x),Read Edit".to_owned()]),
            ["Bash(git log,x)", "Read", "Edit"]
        );
    }
}
