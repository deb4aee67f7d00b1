//! The script language: what a prompt makes the simulated model do.
//!
//! A prompt that begins with `sim:` is a script with one step a line; any other prompt is the
//! subject of a short story with one Write in it. The steps are documented at the root of the crate
//! and in `docs/simulator.md`.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::wire::raw;

/// What a prompt must begin with to be a script.
pub(crate) const SCRIPT_PREFIX: &str = "sim:";

/// The file that a plain prompt's story writes, relative to the working directory.
pub(crate) const STORY_FILE: &str = "plexus-sim.txt";

/// The most events that one `burst` may ask for: a slip of the keyboard should not fill a disk.
const MAX_BURST_EVENTS: u64 = 10_000_000;
/// The longest text of one `burst` event: four times the longest line that a supervisor reads by
/// default.
const MAX_BURST_BYTES: usize = 64 * 1024 * 1024;

/// The id under which a `request` is sent.
#[derive(Debug, Clone)]
pub(crate) enum RequestId {
    /// A new one, as the real CLI makes them.
    Proper,
    /// Whatever the script says.
    As(Value),
    Missing,
}

/// One step of a script.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Say(String),
    /// Says it word by word, with a pause after each.
    Slowly {
        millis: u64,
        text: String,
    },
    Think(String),
    /// Tool calls of one message; more than one is a `parallel`.
    Tools(Vec<ToolStep>),
    /// Says one thing when the last tools all ran, and another when one of them did not.
    SayByOutcome {
        ran: String,
        refused: String,
    },
    /// Sends a request of this subtype on the control channel and says what was answered.
    Request {
        subtype: String,
        id: RequestId,
    },
    Sleep {
        millis: u64,
    },
    /// Begins a turn of its own later, when nobody has asked for anything.
    Wake {
        millis: u64,
        text: String,
    },
    Burst {
        events: u64,
        bytes: usize,
    },
    Stderr(String),
    /// Says the earlier prompts of this conversation.
    Recall,
    /// The model's API fails with this status.
    Fail {
        status: u16,
    },
    Garbage,
    Unknown,
    Hang,
    Exit(u8),
    Crash,
}

/// A tool call as the script gives it. The input keeps `${last.…}` until the call is made.
#[derive(Debug, Clone)]
pub(crate) struct ToolStep {
    pub(crate) name: String,
    pub(crate) input: Box<RawValue>,
    pub(crate) manners: Manners,
}

/// How a tool call gets its permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manners {
    /// As the rules say.
    Good,
    /// It asks, withdraws the question and runs, as if a hook of the repository had accepted it.
    Overrules,
    /// It never asks, and claims that somebody answered.
    Lies,
}

/// A script that cannot be played, told by its line.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("sim script, line {line}: {problem}")]
pub(crate) struct ScriptError {
    line: usize,
    problem: Problem,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
enum Problem {
    #[error(
        "unknown step `{0}`; the steps are say, slowly, think, tool, parallel, overrule, breach, \
         request, sleep, wake, burst, stderr, recall, fail, garbage, unknown, hang, exit, crash"
    )]
    UnknownStep(String),
    #[error("`{0}` needs {1}")]
    Missing(&'static str, &'static str),
    #[error("`{step}` wants a number up to {max}, not `{word}`")]
    BadNumber { step: &'static str, word: String, max: u64 },
    #[error("the input of `{tool}` must be a JSON object: {reason}")]
    BadInput { tool: String, reason: String },
}

/// Turns a prompt into steps. `earlier` counts the prompts of the conversation before this one.
pub(crate) fn steps_of(prompt: &str, earlier: usize) -> Result<Vec<Step>, ScriptError> {
    match prompt.trim_start().strip_prefix(SCRIPT_PREFIX) {
        Some(script) => parse(script),
        None => Ok(story(prompt, earlier)),
    }
}

/// The story of a plain prompt.
fn story(prompt: &str, earlier: usize) -> Vec<Step> {
    let opening = match earlier {
        0 => format!("I will write {STORY_FILE}."),
        1 => format!("Going on after 1 earlier prompt, I will write {STORY_FILE}."),
        n => format!("Going on after {n} earlier prompts, I will write {STORY_FILE}."),
    };
    let content = format!("What the simulator was asked:\n{prompt}\n");
    let write = tool("Write", &json!({"file_path": STORY_FILE, "content": content}));
    vec![
        Step::Say(opening),
        Step::Tools(vec![write]),
        Step::SayByOutcome {
            ran: format!("Done: {STORY_FILE} is written."),
            refused: format!("I was not allowed to write {STORY_FILE}, so I stop here."),
        },
    ]
}

fn tool(name: &str, input: &serde_json::Value) -> ToolStep {
    ToolStep { name: name.to_owned(), input: raw(input), manners: Manners::Good }
}

fn parse(script: &str) -> Result<Vec<Step>, ScriptError> {
    let mut steps = Vec::new();
    for (index, line) in script.lines().enumerate() {
        let line = line.trim();
        // A prompt with images says of each that it is there.
        if line.is_empty() || line.starts_with('#') || line.starts_with("[image ") {
            continue;
        }
        steps.push(parse_step(line).map_err(|problem| ScriptError { line: index + 1, problem })?);
    }
    Ok(steps)
}

fn parse_step(line: &str) -> Result<Step, Problem> {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    match word {
        "say" => text("say", rest).map(Step::Say),
        "slowly" => {
            let (millis, words) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            let millis = number("slowly", millis, u64::from(u32::MAX))?;
            Ok(Step::Slowly { millis, text: text("slowly", words.trim())? })
        }
        "think" => text("think", rest).map(Step::Think),
        "stderr" => text("stderr", rest).map(Step::Stderr),
        "tool" => Ok(Step::Tools(vec![parse_tool("tool", rest, Manners::Good)?])),
        "overrule" => Ok(Step::Tools(vec![parse_tool("overrule", rest, Manners::Overrules)?])),
        "breach" => Ok(Step::Tools(vec![parse_tool("breach", rest, Manners::Lies)?])),
        "request" => {
            let (subtype, id) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            Ok(Step::Request { subtype: text("request", subtype)?, id: request_id(id.trim())? })
        }
        "parallel" => {
            let calls =
                rest.split(";;").map(|call| parse_tool("parallel", call.trim(), Manners::Good));
            Ok(Step::Tools(calls.collect::<Result<_, _>>()?))
        }
        "sleep" => Ok(Step::Sleep { millis: number("sleep", rest, u64::from(u32::MAX))? }),
        "wake" => {
            let (millis, words) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            let millis = number("wake", millis, u64::from(u32::MAX))?;
            Ok(Step::Wake { millis, text: text("wake", words.trim())? })
        }
        "burst" => {
            let (events, bytes) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            let max_bytes = u64::try_from(MAX_BURST_BYTES).unwrap_or(u64::MAX);
            let bytes = number("burst", bytes.trim(), max_bytes)?;
            Ok(Step::Burst {
                events: number("burst", events, MAX_BURST_EVENTS)?,
                bytes: usize::try_from(bytes).unwrap_or(MAX_BURST_BYTES),
            })
        }
        "exit" => {
            let code = number("exit", rest, u64::from(u8::MAX))?;
            Ok(Step::Exit(u8::try_from(code).unwrap_or(u8::MAX)))
        }
        "recall" => Ok(Step::Recall),
        "fail" => {
            let status = number("fail", rest, 599)?;
            Ok(Step::Fail { status: u16::try_from(status).unwrap_or(500) })
        }
        "garbage" => Ok(Step::Garbage),
        "unknown" => Ok(Step::Unknown),
        "hang" => Ok(Step::Hang),
        "crash" => Ok(Step::Crash),
        other => Err(Problem::UnknownStep(other.to_owned())),
    }
}

fn text(step: &'static str, rest: &str) -> Result<String, Problem> {
    if rest.is_empty() { Err(Problem::Missing(step, "a text")) } else { Ok(rest.to_owned()) }
}

fn number(step: &'static str, word: &str, max: u64) -> Result<u64, Problem> {
    match word.parse() {
        Ok(value) if value <= max => Ok(value),
        _ => Err(Problem::BadNumber { step, word: word.to_owned(), max }),
    }
}

fn request_id(word: &str) -> Result<RequestId, Problem> {
    match word {
        "" => Ok(RequestId::Proper),
        "none" => Ok(RequestId::Missing),
        json => serde_json::from_str(json)
            .map(RequestId::As)
            .map_err(|_| Problem::Missing("request", "an id in JSON, or none")),
    }
}

fn parse_tool(step: &'static str, call: &str, manners: Manners) -> Result<ToolStep, Problem> {
    let (name, input) = call.split_once(char::is_whitespace).unwrap_or((call, "{}"));
    if name.is_empty() {
        return Err(Problem::Missing(step, "the name of a tool"));
    }
    let bad = |reason: String| Problem::BadInput { tool: name.to_owned(), reason };
    let input: Box<RawValue> =
        serde_json::from_str(input.trim()).map_err(|error| bad(error.to_string()))?;
    if !input.get().starts_with('{') {
        return Err(bad("it is not an object".to_owned()));
    }
    Ok(ToolStep { name: name.to_owned(), input, manners })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_of_the_language_is_understood() {
        let script = "sim:\n# a comment\nsay hello there\nslowly 1 word by word\nthink hm\ntool Bash {\"command\":\"ls\"}\n\
                      parallel Read {\"file_path\":\"a\"} ;; Read {\"file_path\":\"b\"}\nsleep 5\nwake 5 up\nburst 3 10\n\
                      stderr oh\noverrule Bash {}\nbreach Bash {}\nrequest x\nrecall\nfail 529\ngarbage\nunknown\nhang\nexit 3\ncrash\n";
        let steps = steps_of(script, 0).unwrap();
        let names: Vec<String> = steps
            .iter()
            .map(|step| format!("{step:?}").split(['(', ' ', '{']).next().unwrap().to_owned())
            .collect();
        assert_eq!(
            names,
            [
                "Say", "Slowly", "Think", "Tools", "Tools", "Sleep", "Wake", "Burst", "Stderr",
                "Tools", "Tools", "Request", "Recall", "Fail", "Garbage", "Unknown", "Hang",
                "Exit", "Crash"
            ]
        );
        let Step::Tools(calls) = &steps[4] else { panic!("not tools: {:?}", steps[4]) };
        assert_eq!(
            calls.iter().map(|call| call.input.get()).collect::<Vec<_>>(),
            ["{\"file_path\":\"a\"}", "{\"file_path\":\"b\"}"]
        );
    }

    #[test]
    fn a_bad_line_is_named_by_its_number_and_its_problem() {
        for (script, expected) in [
            ("sim:\nsay a\njump", "line 3: unknown step `jump`"),
            ("sim:\ntool", "line 2: `tool` needs the name of a tool"),
            (
                "sim:\ntool Bash [1]",
                "the input of `Bash` must be a JSON object: it is not an object",
            ),
            ("sim:\nburst 1", "line 2: `burst` wants a number"),
            ("sim:\nexit 300", "line 2: `exit` wants a number up to 255, not `300`"),
        ] {
            let error = steps_of(script, 0).unwrap_err().to_string();
            assert!(error.contains(expected), "{script:?} gave {error:?}");
        }
    }
}
