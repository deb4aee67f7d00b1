//! The rules a person may want to remember for a call, narrow to wide. Each one is tried on the
//! call before it is offered, so that remembering it always covers this call.

use plexus_wire::{ShellLanguage, ToolTarget};

use super::call::Call;
use super::files::{Family, escape_path};
use super::known::{self, Effect};
use super::notation::NETWORK_TOOL;
use super::pattern::{Pattern, escape_command};
use super::reach::pattern_for;
use super::rule::{Decision, Rule};
use super::set::fits;
use super::shell::{self, Word};
use super::target::Target;

/// One rule to offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    /// The pattern, in the CLI's notation.
    pub pattern: Pattern,
    /// What it means, for a button or a menu.
    pub label: String,
}

/// The longest command that is offered word for word; a longer one will hardly occur again
/// unchanged.
const MAX_EXACT_BYTES: usize = 4096;

/// Known commands that are never offered with other arguments: they delete for good, or others see
/// the result.
const TOO_WIDE: &[&str] =
    &["rm", "rmdir", "mv", "chmod", "git reset", "git restore", "git rm", "git push", "git pull"];

/// Returns the rules that cover the call, narrowest first.
#[must_use]
pub fn suggest(call: &Call<'_>) -> Vec<Suggestion> {
    let mut offered: Vec<Suggestion> = Vec::new();
    // A question to the user is never answered by a rule.
    if call.tool.target == (ToolTarget::Question {}) {
        return offered;
    }
    for (text, label) in narrow(call).into_iter().chain(wide(call)) {
        let Ok(pattern) = text.parse::<Pattern>() else { continue };
        if offered.iter().any(|other| other.pattern == pattern) {
            continue;
        }
        let rule = Rule::new(Decision::Allow, pattern);
        if fits(&rule, call).is_ok() {
            offered.push(Suggestion { pattern: rule.pattern, label });
        }
    }
    offered
}

/// Returns the narrowest rule that covers the call, or `None` when that would be the whole of a
/// tool whose calls can be told apart. Remembering all of Bash because one command could not be
/// written as a rule would surprise people.
#[must_use]
pub fn narrowest(call: &Call<'_>) -> Option<Pattern> {
    let tool = call.rule_tool();
    let distinguishes =
        matches!(&*tool, "Bash" | "WebFetch" | NETWORK_TOOL) || Family::of_rule(&tool).is_some();
    let first = suggest(call).into_iter().next()?.pattern;
    if distinguishes && first.as_str() == tool { None } else { Some(first) }
}

type Offer = (String, String);

fn narrow(call: &Call<'_>) -> Vec<Offer> {
    match &call.tool.target {
        ToolTarget::Shell { command, language: ShellLanguage::Posix, .. } => commands(command),
        ToolTarget::Fetch { url: Some(url) } => host(url).into_iter().collect(),
        ToolTarget::Connect { host, port } => {
            vec![(pattern_for(host, *port), format!("connections to {host}"))]
        }
        ToolTarget::Read { .. } | ToolTarget::Write { .. } => {
            let tool = call.rule_tool();
            // A tool without its own notation is covered by the rule of its family.
            let named = if Family::of_rule(&tool).is_some() { &*tool } else { "Read" };
            match Target::all(call).as_slice() {
                [target] => target.real().map(|real| paths(named, &real.text)).unwrap_or_default(),
                // No single path names several files.
                _ => Vec::new(),
            }
        }
        _ => Vec::new(),
    }
}

fn wide(call: &Call<'_>) -> Vec<Offer> {
    let tool = call.rule_tool();
    let mut offers = vec![(tool.to_string(), format!("every use of {tool}"))];
    if let Some((server, _)) = tool.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
        offers.push((format!("mcp__{server}__*"), format!("every tool of the server {server}")));
    }
    offers
}

fn commands(command: &str) -> Vec<Offer> {
    let command = shell::trim(command);
    let mut offers = Vec::new();
    if command.len() <= MAX_EXACT_BYTES {
        offers.push((
            format!("Bash({})", escape_command(command)),
            "exactly this command".to_owned(),
        ));
    }
    let Some(words) = shell::plain_words(command) else { return offers };
    let words: Vec<Word> = words.into_iter().map(Word::Literal).collect();
    let entry = known::entry_of(&words).filter(|entry| !TOO_WIDE.contains(&entry.name().as_str()));
    let Some(entry) = entry else { return offers };
    let mut prefix = entry.name();
    // The script's name determines what runs, so it is part of the rule.
    if let [_, "run" | "run-script"] = entry.words()
        && let Some(script) = words.get(2).and_then(Word::literal).filter(|it| is_name(it))
    {
        prefix = format!("{prefix} {script}");
    }
    offers
        .push((format!("Bash({prefix}:*)"), format!("`{prefix}` with {}", meaning(entry.effect))));
    offers
}

/// Returns what a prefix rule allows, in words for the person who may remember it.
fn meaning(effect: Effect) -> &'static str {
    match effect {
        Effect::Shows => "arguments that only show files of this directory",
        Effect::Edits => "arguments that only change files that other rules allow to edit",
        Effect::Changes => "arguments that only change files of this directory",
        Effect::RunsProject => {
            "usual arguments; it runs code of this project, which can do anything"
        }
        Effect::Talks => "usual arguments; it talks to a server",
    }
}

fn is_name(word: &str) -> bool {
    !word.starts_with('-') && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:".contains(c))
}

fn paths(tool: &str, real: &str) -> Vec<Offer> {
    let mut offers = vec![
        (format!("{tool}({})", escape_path(real)), format!("{tool} of {real}")),
        (format!("{tool}({}/**)", escape_path(real)), format!("{tool} below {real}")),
    ];
    if let Some((directory, _)) =
        real.rsplit_once('/').filter(|(directory, _)| !directory.is_empty())
    {
        offers.push((
            format!("{tool}({}/**)", escape_path(directory)),
            format!("{tool} of everything below {directory}"),
        ));
    }
    offers
}

fn host(url: &str) -> Option<Offer> {
    let host = url::Url::parse(url).ok()?.host_str()?.to_owned();
    Some((format!("WebFetch(domain:{host})"), format!("pages of {host}")))
}
