//! The command line, as clap reads it.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Parser, Subcommand};
use plexus_client::wire::{LastDecisions, RuleDecision, RuleId, RuleSecs, Uses};

use crate::config::{Sources, default_data_dir, real_path, user_config_file};
use crate::serve::ServeOptions;

/// Supervise Claude Code sessions: you, a program or another agent answers what they ask.
#[derive(Parser, Debug)]
#[command(name = "plexus", version, arg_required_else_help = true, max_term_width = 100)]
pub struct Arguments {
    /// What every command takes.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// What every command takes.
#[derive(Args, Debug)]
pub struct Global {
    /// Where the server keeps its data [default: $XDG_STATE_HOME/plexus or ~/.local/state/plexus].
    #[arg(long, global = true, value_name = "DIR", env = "PLEXUS_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
}

impl Global {
    /// Returns the data directory.
    ///
    /// # Errors
    /// When none is named and none can be found.
    pub fn data_dir(&self) -> anyhow::Result<PathBuf> {
        match &self.data_dir {
            Some(dir) => Ok(real_path(&std::path::absolute(dir)?)),
            None => default_data_dir().map_err(super::could_not),
        }
    }
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run an agent here and answer what it asks.
    ///
    /// Starts a server when none runs. Exit codes: 0 the chat completed, 1 something did not work,
    /// 2 wrong usage, 3 the chat failed, 4 the chat was cancelled by somebody else, 5 it completed
    /// but something was denied or expired, 130 you pressed Ctrl-C.
    Run(Run),
    /// Watch a session and answer what it asks.
    Attach(Attach),
    /// List sessions with status, age and cost.
    Ps(Json),
    /// Show what happened in a session.
    Logs(Logs),
    /// List what waits for an answer, or show all of one.
    Pending {
        /// Only of this session, or only this approval and all of it.
        #[arg(value_name = "SESSION|ID")]
        session: Option<String>,
        /// How it is printed.
        #[command(flatten)]
        json: Json,
    },
    /// Run a shell command that waits over a copy, within its wall and without a network, and show
    /// what it changes. It decides nothing.
    Preview {
        /// The approval: its id, or the beginning of it.
        #[arg(value_name = "ID")]
        approval: String,
        /// How it is printed.
        #[command(flatten)]
        json: Json,
    },
    /// Allow a call that waits.
    Approve(Approve),
    /// Deny a call that waits.
    Deny(Deny),
    /// Answer everything that waits, one after the other, across sessions.
    Review {
        /// Only of this session.
        #[arg(value_name = "NAME|ID")]
        session: Option<String>,
    },
    /// Tell a session something: into its running chat, or as its next prompt.
    Send {
        /// The session.
        #[arg(value_name = "NAME|ID")]
        session: String,
        /// What to tell it.
        #[arg(required = true)]
        text: Vec<String>,
    },
    /// Make a session that goes on where another one is now.
    Fork {
        /// The session.
        #[arg(value_name = "NAME|ID")]
        session: String,
        /// The new session's name.
        name: String,
    },
    /// Remove sessions with everything below them.
    Rm {
        /// The sessions.
        #[arg(value_name = "NAME|ID", required = true)]
        sessions: Vec<String>,
    },
    /// Ask a session to stop what it does.
    Cancel {
        /// The session.
        #[arg(value_name = "NAME|ID")]
        session: String,
        /// Why; readers of the chat see it.
        #[arg(long)]
        reason: Option<String>,
    },
    /// List, add, remove and try rules, which answer before anybody is asked.
    Rules(Rules),
    /// Show all sessions as a tree, or what was said and done in one, with its forks.
    Tree {
        /// The session.
        #[arg(value_name = "NAME|ID")]
        session: Option<String>,
        /// How it is printed.
        #[command(flatten)]
        json: Json,
    },
    /// Call any method of the server; `plexus call plexus.methods` lists them.
    Call {
        /// The method, such as claudecode.list.
        method: String,
        /// Its parameters, as a JSON object.
        #[arg(default_value = "{}")]
        params: String,
    },
    /// Run the server in the foreground.
    Serve(Serve),
    /// Stop the server; its children go on running.
    Stop {
        /// End the children first.
        #[arg(long, conflicts_with = "park")]
        children: bool,
        /// Park the children that wait for a decision first, so that they survive a restart of the
        /// machine.
        #[arg(long)]
        park: bool,
    },
    /// Open the dashboard in a browser.
    Dashboard {
        /// Only print the link.
        #[arg(long)]
        print: bool,
    },
    /// Serve MCP on stdin and stdout, for a parent agent.
    Mcp(Mcp),
    /// Print what to paste into a parent agent's MCP configuration.
    McpConfig(McpConfig),
    /// Be an agent for an editor: speak the Agent Client Protocol on stdin and stdout.
    ///
    /// Each conversation of the editor is a session of the server, and goes on without the editor.
    /// Starts a server when none runs; one that goes away later is waited for.
    Acp(Acp),
    /// Print what to paste into an editor that is to talk to `plexus acp`.
    AcpConfig {
        /// The editor.
        editor: Editor,
    },
    /// List parents outside that have a token of their own, or take their tokens back.
    Parents(Parents),
    /// List receivers outside that are told what happens, or test one.
    Notify(Notify),
    /// Print the operator's token.
    Token,
    /// Look for what usually goes wrong, and say the next step.
    Doctor(Json),
    /// Run a program inside a wall: it reads and writes listed files and reaches listed hosts.
    ///
    /// Exit codes: the program's own, or 125 when the wall could not be built; the program has not
    /// run then.
    Confine(super::confine::Confine),
    /// Remove what ended long ago.
    Prune {
        /// How long ago, in days: 30d or 30.
        #[arg(long, value_parser = days, value_name = "DAYS")]
        older_than: u64,
        /// Also remove the texts of prompts, which stay otherwise.
        #[arg(long)]
        prompts: bool,
        /// How it is printed.
        #[command(flatten)]
        json: Json,
    },
    /// Move everything from the SQLite file of the data directory into the PostgreSQL of
    /// DATABASE_URL or store.url.
    Migrate {
        /// Where from.
        #[arg(long, value_parser = ["sqlite"])]
        from: String,
        /// Where to.
        #[arg(long, value_parser = ["postgres"])]
        to: String,
    },
    /// A tour with simulated agents that needs nothing and ends by itself.
    Demo(Demo),
    /// Play a Claude Code CLI from a script, without a model.
    #[command(disable_help_flag = true)]
    Sim {
        /// The CLI's own flags.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write manual pages into a directory.
    Man {
        /// The directory.
        dir: PathBuf,
    },
}

/// How a result is printed.
#[derive(Args, Debug, Clone, Copy)]
pub struct Json {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `plexus logs`.
#[derive(Args, Debug)]
pub struct Logs {
    /// The session.
    #[arg(value_name = "NAME|ID")]
    pub session: String,
    /// Go on with what happens next.
    #[arg(long, short)]
    pub follow: bool,
    /// Only this chat.
    #[arg(long)]
    pub chat: Option<u32>,
    /// Print events as JSON, one a line.
    #[arg(long)]
    pub json: bool,
}

/// Which approvals a command is about.
#[derive(Args, Debug)]
#[group(skip)]
pub struct Which {
    /// The approvals; `plexus pending` lists them. The beginning of an id is enough.
    #[arg(value_name = "ID", required_unless_present = "all")]
    pub ids: Vec<String>,
    /// Everything that waits; it is shown first.
    #[arg(long, conflicts_with = "ids")]
    pub all: bool,
    /// Only of this session.
    #[arg(long, value_name = "NAME|ID", requires = "all")]
    pub session: Option<String>,
}

/// `plexus approve`.
#[derive(Args, Debug)]
pub struct Approve {
    /// What is allowed.
    #[command(flatten)]
    pub which: Which,
    /// The answer to a question: a number or label of an option, or own words; once for each thing
    /// that is asked.
    #[arg(long, value_name = "TEXT")]
    pub answer: Vec<String>,
    /// What runs instead of what was asked: a JSON object.
    #[arg(long, value_name = "JSON")]
    pub input: Option<String>,
    /// Remember a rule for calls like it; without a pattern, for exactly this call.
    #[arg(long, value_name = "PATTERN", num_args = 0..=1, default_missing_value = "")]
    pub remember: Option<String>,
    /// Remember it for every session.
    #[arg(long, requires = "remember")]
    pub everywhere: bool,
    /// Something for the record.
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
        /// As if this session asked.
        #[arg(long, value_name = "NAME|ID")]
        session: Option<String>,
    },
    /// Propose rules that your own decisions speak for; none is added by itself.
    Suggest {
        /// How many of your newest decisions are looked at [default: 100].
        #[arg(long, value_name = "NUMBER", value_parser = number::<LastDecisions>)]
        last: Option<LastDecisions>,
    },
}

/// `plexus rules add`.
#[derive(Args, Debug)]
pub struct RuleAdd {
    /// What it says.
    #[arg(value_parser = PossibleValuesParser::new(["allow", "deny", "ask"])
        .try_map(|word| serde_json::from_value::<RuleDecision>(word.into())))]
    pub decision: RuleDecision,
    /// Which calls, such as Bash(git diff:*), Read(/src/**) or WebFetch(domain:example.org).
    pub pattern: String,
    /// For whom.
    #[command(flatten)]
    pub scope: ScopeArgs,
    /// Why it is there.
    #[arg(long)]
    pub reason: Option<String>,
    /// After how many seconds it ends.
    #[arg(long, value_name = "SECONDS", value_parser = number::<RuleSecs>)]
    pub expires_in_secs: Option<RuleSecs>,
    /// How often it may answer.
    #[arg(long, value_parser = number::<Uses>)]
    pub uses: Option<Uses>,
}

/// For whom a rule is.
#[derive(Args, Debug)]
#[group(multiple = false)]
pub struct ScopeArgs {
    /// Only for this session [default: for all].
    #[arg(long, value_name = "NAME|ID")]
    pub session: Option<String>,
    /// For this session and everything below it.
    #[arg(long, value_name = "NAME|ID")]
    pub subtree: Option<String>,
}

/// `plexus mcp`.
#[derive(Args, Debug)]
pub struct Mcp {
    /// Who the parent is; the same name again owns the same children [default: the parent of this
    /// directory].
    #[arg(long = "as", value_name = "NAME")]
    pub name: Option<String>,
    /// Act as the operator: see and decide everything.
    #[arg(long, conflicts_with = "name")]
    pub operator: bool,
    /// Which tools are listed; all can be called.
    #[arg(long, value_name = "LIST", default_value = "short")]
    pub tools: Tools,
}

/// Which tools a parent's MCP client lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Tools {
    /// What a model needs to supervise, in at most 12 KB, and `plexus_call` for the rest.
    Short,
    /// Every method, with its whole schemas.
    Full,
}

/// `plexus mcp-config`.
#[derive(Args, Debug)]
pub struct McpConfig {
    /// Make an identity of this name and print it with its token, for MCP over HTTP [default: MCP
    /// over stdio, without a token].
    #[arg(long = "as", value_name = "NAME")]
    pub name: Option<String>,
    /// End the earlier tokens of that name.
    #[arg(long, requires = "name")]
    pub replace: bool,
    /// Which tools are listed; all can be called.
    #[arg(long, value_name = "LIST", default_value = "short")]
    pub tools: Tools,
}

/// `plexus acp`.
#[derive(Args, Debug)]
pub struct Acp {
    /// The kind of agent of new sessions, such as `claude_code` [default: the server's].
    #[arg(long, value_name = "KIND")]
    pub agent: Option<String>,
    /// Make every conversation this session, which is created when it does not exist.
    #[arg(long, short, value_name = "NAME|ID")]
    pub session: Option<String>,
    /// The model of new sessions, as the agent names it.
    #[arg(long, short)]
    pub model: Option<String>,
    /// In new sessions, ask also about what the agent would do unasked, such as reading files.
    #[arg(long)]
    pub supervise_all: bool,
}

/// An editor that speaks the Agent Client Protocol.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Editor {
    /// Zed.
    Zed,
    /// An IDE of JetBrains.
    Jetbrains,
    /// Neovim with avante.nvim.
    Neovim,
}

/// `plexus parents`.
#[derive(Args, Debug)]
pub struct Parents {
    /// What to do; without it they are listed.
    #[command(subcommand)]
    pub command: Option<ParentsCommand>,
    /// Print JSON.
    #[arg(long, global = true)]
    pub json: bool,
}

/// What to do with parents outside.
#[derive(Subcommand, Debug)]
pub enum ParentsCommand {
    /// End every token of a parent; its sessions stay.
    Revoke {
        /// Its name.
        name: String,
    },
}

/// `plexus notify`.
#[derive(Args, Debug)]
pub struct Notify {
    /// What to do; without it they are listed.
    #[command(subcommand)]
    pub command: Option<NotifyCommand>,
    /// Print JSON.
    #[arg(long, global = true)]
    pub json: bool,
}

/// What to do with receivers outside.
#[derive(Subcommand, Debug)]
pub enum NotifyCommand {
    /// Send a test message to a receiver, and say whether it was taken.
    Test {
        /// Its name.
        name: String,
    },
}

/// `plexus demo`.
#[derive(Args, Debug)]
pub struct Demo {
    /// Keep the server and its dashboard until Ctrl-C.
    #[arg(long)]
    pub stay: bool,
}

/// `plexus run`.
#[derive(Args, Debug)]
pub struct Run {
    /// What to tell the agent; `-` reads it from stdin.
    #[arg(required = true)]
    pub prompt: Vec<String>,
    /// Go on with this session instead of creating one.
    #[arg(long, short, value_name = "NAME|ID", conflicts_with_all = ["agent", "name", "model", "supervise_all", "no_wall", "trust_project", "timeout", "allow_tools", "add_dirs", "budget_usd"])]
    pub session: Option<String>,
    /// The agent of the new session, such as `codex` [default: claude_code].
    #[arg(long, short)]
    pub agent: Option<String>,
    /// The new session's name [default: made from the directory].
    #[arg(long, short)]
    pub name: Option<String>,
    /// The model, as the CLI names it.
    #[arg(long, short)]
    pub model: Option<String>,
    /// Ask also about what the agent would do unasked, such as reading files.
    #[arg(long)]
    pub supervise_all: bool,
    /// Without a wall: a command that you allow can do what you can do.
    #[arg(long)]
    pub no_wall: bool,
    /// Read the settings and hooks of this project too, which run unasked.
    #[arg(long)]
    pub trust_project: bool,
    /// After how many seconds a question is denied by itself; 0 never [default: 0].
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<u64>,
    /// A tool that it may use unasked, such as `Bash(git diff:*)`; may come several times.
    #[arg(long = "allow-tool", value_name = "PATTERN")]
    pub allow_tools: Vec<String>,
    /// One more directory that it may work in; may come several times.
    #[arg(long = "add-dir", value_name = "DIR")]
    pub add_dirs: Vec<PathBuf>,
    /// What it and everything below it may cost, in US dollars.
    #[arg(long, value_name = "DOLLARS")]
    pub budget_usd: Option<f64>,
    /// Start it and leave; `plexus attach` comes back to it.
    #[arg(long, short)]
    pub detach: bool,
    /// The agent for a server that has to be started: a path, or `sim`.
    #[arg(long, value_name = "PATH")]
    pub claude_bin: Option<String>,
    /// The same for Codex.
    #[arg(long, value_name = "PATH")]
    pub codex_bin: Option<String>,
    /// Print events as JSON, one a line. Nothing is asked.
    #[arg(long)]
    pub json: bool,
}

impl Run {
    /// Returns what a server that has to be started is told.
    #[must_use]
    pub fn serve_arguments(&self) -> Vec<String> {
        let programs = [("--claude-bin", &self.claude_bin), ("--codex-bin", &self.codex_bin)];
        let named = programs.into_iter().filter_map(|(flag, path)| Some((flag, path.clone()?)));
        named.flat_map(|(flag, path)| [flag.to_owned(), path]).collect()
    }
}

/// `plexus attach`.
#[derive(Args, Debug)]
pub struct Attach {
    /// The session.
    #[arg(value_name = "NAME|ID")]
    pub session: String,
    /// Print events as JSON, one a line. Nothing is asked.
    #[arg(long)]
    pub json: bool,
}

/// `plexus serve`.
#[derive(Args, Debug)]
pub struct Serve {
    /// Where to listen; port 0 takes a free one [default: 127.0.0.1:4445].
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Listen also where other machines can reach it.
    #[arg(long)]
    allow_non_loopback: bool,
    /// The agent: a path, or `sim` for the built-in simulator [default: claude from PATH, else the
    /// simulator].
    #[arg(long, value_name = "PATH")]
    claude_bin: Option<String>,
    /// The CLI of Codex: a path, or `sim` for the built-in simulator [default: codex from PATH].
    #[arg(long, value_name = "PATH")]
    codex_bin: Option<String>,
    /// How permission requests travel.
    #[arg(long, value_parser = ["auto", "control", "mcp"])]
    channel: Option<String>,
    /// What is logged to stderr, such as `info` or `plexus_activations=debug`.
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// Read this file instead of plexus.toml in the data directory or ~/.config/plexus.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Leave the terminal of whoever started it.
    #[arg(long, hide = true)]
    new_session: bool,
    /// Set any key of plexus.toml, such as limits.running_children=8.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
}

impl Serve {
    /// Returns what the server is started with.
    ///
    /// # Errors
    /// When there is no data directory.
    pub fn options(self, global: &Global) -> anyhow::Result<ServeOptions> {
        let data_dir = global.data_dir()?;
        let files = match self.config {
            Some(file) => {
                anyhow::ensure!(
                    file.is_file(),
                    "could not read {}: it is not a file",
                    file.display()
                );
                vec![file]
            }
            None => [Some(data_dir.join("plexus.toml")), user_config_file()]
                .into_iter()
                .flatten()
                .collect(),
        };
        let mut set = self.set;
        let flags = [
            ("listen", self.listen),
            ("claude_bin", self.claude_bin),
            ("codex_bin", self.codex_bin),
            ("channel", self.channel),
            ("log", self.log),
        ];
        set.extend(flags.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        if self.allow_non_loopback {
            set.push(("allow_non_loopback".into(), "true".into()));
        }
        Ok(ServeOptions {
            data_dir,
            own_session: self.new_session,
            sources: Sources { files, env: std::env::vars_os().collect(), set },
        })
    }
}

fn days(text: &str) -> Result<u64, String> {
    text.strip_suffix('d')
        .unwrap_or(text)
        .parse()
        .map_err(|_| "that is not a number of days, such as 30d".to_owned())
}

/// Reads a number that knows its range.
fn number<N>(text: &str) -> Result<N, String>
where
    N: TryFrom<u64, Error: std::fmt::Display>,
{
    let number: u64 = text.parse().map_err(|error| format!("{error}"))?;
    N::try_from(number).map_err(|error| error.to_string())
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("that is not KEY=VALUE".to_owned()),
    }
}
