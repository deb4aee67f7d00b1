//! The arguments of the commands that decide: `approve`, `deny`, `rules`.

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Subcommand};
use plexus_client::wire::{LastDecisions, RuleDecision, RuleId, RuleSecs, Uses};

use crate::complete::{approvals, sessions};

/// Which approvals a command is about.
#[derive(Args, Debug)]
#[group(skip)]
pub struct Which {
    /// The approvals; `plexus pending` lists them. The beginning of an id is enough.
    #[arg(value_name = "ID", add = approvals(), required_unless_present = "all")]
    pub ids: Vec<String>,
    /// Decide everything that waits; without --json it is shown first.
    #[arg(long, conflicts_with = "ids")]
    pub all: bool,
    /// Only the approvals of this session.
    #[arg(long, value_name = "NAME|ID", add = sessions(), requires = "all")]
    pub session: Option<String>,
}

/// `plexus approve`.
#[derive(Args, Debug)]
pub struct Approve {
    /// What is allowed.
    #[command(flatten)]
    pub which: Which,
    /// The answer to a question: the number or label of an option, or your own words; once for each
    /// part of the question.
    #[arg(long, value_name = "TEXT")]
    pub answer: Vec<String>,
    /// The input to run instead of the one that was asked about: a JSON object.
    #[arg(long, value_name = "JSON")]
    pub input: Option<String>,
    /// Remember a rule for calls like it; without a pattern, for exactly this call.
    #[arg(long, value_name = "PATTERN", num_args = 0..=1, default_missing_value = "")]
    pub remember: Option<String>,
    /// Remember it for every session.
    #[arg(long, requires = "remember")]
    pub everywhere: bool,
    /// A note for the record.
    #[arg(long)]
    pub message: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `plexus deny`.
#[derive(Args, Debug)]
pub struct Deny {
    /// What is denied.
    #[command(flatten)]
    pub which: Which,
    /// Why; the agent reads it.
    #[arg(long, short)]
    pub reason: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `plexus rules`.
#[derive(Args, Debug)]
pub struct Rules {
    /// What to do; without it they are listed.
    #[command(subcommand)]
    pub command: Option<RulesCommand>,
    /// Print JSON.
    #[arg(long, global = true)]
    pub json: bool,
}

/// What to do with rules.
#[derive(Subcommand, Debug)]
pub enum RulesCommand {
    /// Add a rule.
    Add(RuleAdd),
    /// Remove a rule.
    Remove {
        /// Its id.
        id: RuleId,
    },
    /// Say what would happen to a call, and why.
    Test {
        /// The tool.
        tool: String,
        /// Its input, as a JSON object.
        input: String,
        /// Test it as if this session asked.
        #[arg(long, value_name = "NAME|ID", add = sessions())]
        session: Option<String>,
    },
    /// Suggest rules from your own decisions; none is added automatically.
    Suggest {
        /// How many of your newest decisions to use [default: 100].
        #[arg(long, value_name = "NUMBER", value_parser = number::<LastDecisions>)]
        last: Option<LastDecisions>,
    },
}

/// `plexus rules add`.
#[derive(Args, Debug)]
pub struct RuleAdd {
    /// What the rule decides.
    #[arg(value_parser = PossibleValuesParser::new(["allow", "deny", "ask"])
        .try_map(|word| serde_json::from_value::<RuleDecision>(word.into())))]
    pub decision: RuleDecision,
    /// The calls it is about, such as Bash(git diff:*), Read(/src/**) or
    /// WebFetch(domain:example.org).
    pub pattern: String,
    /// For whom.
    #[command(flatten)]
    pub scope: ScopeArgs,
    /// Why it is there.
    #[arg(long)]
    pub reason: Option<String>,
    /// The rule ends after this many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = number::<RuleSecs>)]
    pub expires_in_secs: Option<RuleSecs>,
    /// The rule ends after this many answers.
    #[arg(long, value_parser = number::<Uses>)]
    pub uses: Option<Uses>,
}

/// For whom a rule is.
#[derive(Args, Debug)]
#[group(multiple = false)]
pub struct ScopeArgs {
    /// Only for this session [default: for all].
    #[arg(long, value_name = "NAME|ID", add = sessions())]
    pub session: Option<String>,
    /// For this session and everything below it.
    #[arg(long, value_name = "NAME|ID", add = sessions())]
    pub subtree: Option<String>,
}

/// Reads a number that knows its range.
fn number<N>(text: &str) -> Result<N, String>
where
    N: TryFrom<u64, Error: std::fmt::Display>,
{
    let number: u64 = text.parse().map_err(|error| format!("{error}"))?;
    N::try_from(number).map_err(|error| error.to_string())
}
