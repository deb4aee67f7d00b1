//! The command line, as clap reads it.
//!
//! In reading order: this file has the commands; `work` has the arguments of those that work with
//! agents, `decide` of those that decide, and `outside` of those for parents and editors.

mod decide;
mod outside;
mod work;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::complete::{approvals, everything, sessions};
pub use decide::{Approve, Deny, RuleAdd, Rules, RulesCommand, ScopeArgs, Which};
pub use outside::{
    Acp, Devices, DevicesCommand, Editor, Mcp, McpConfig, Notify, NotifyCommand, Parents,
    ParentsCommand, Tools,
};
use plexus_client::paths::{default_data_dir, real_path};
pub use work::{Attach, Demo, Logs, Run, RunMode};

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
            None => default_data_dir().map_err(plexus_render::error::could_not),
        }
    }
}

/// How a result is printed.
#[derive(Args, Debug, Clone, Copy)]
pub struct Json {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run an agent here and answer what it asks.
    ///
    /// Starts a server when none runs. Exit codes: 0 the chat completed, 1 the command failed,
    /// 2 wrong usage, 3 the chat failed, 4 the chat was cancelled by somebody else, 5 it completed
    /// but something was denied or expired, 130 you pressed Ctrl-C.
    Run(Run),
    /// Watch a session and answer what it asks.
    Attach(Attach),
    /// List sessions with status, age and cost.
    Ps(Json),
    /// Show what happened in a session.
    Logs(Logs),
    /// Show what changed in a session's directory since the session began.
    Changes(crate::changes::Changes),
    /// Find what was asked, said and done, in all sessions.
    ///
    /// All words must occur. '"Words in quotes"' must occur together, and word* matches every word
    /// that begins like this. Without words it lists everything, newest first.
    Search(crate::search::Search),
    /// List the approvals that wait for an answer, or show one in full.
    Pending {
        /// Only the approvals of this session, or this approval in full.
        #[arg(value_name = "SESSION|ID", add = everything())]
        session: Option<String>,
        /// How it is printed.
        #[command(flatten)]
        json: Json,
    },
    /// Run a waiting shell command on a copy, within its wall and without a network, and show what
    /// it changes. It decides nothing.
    Preview {
        /// The approval: its id, or the beginning of it.
        #[arg(value_name = "ID", add = approvals())]
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
        /// Only the approvals of this session.
        #[arg(value_name = "NAME|ID", add = sessions())]
        session: Option<String>,
    },
    /// Tell a session something: into its running chat, or as its next prompt.
    Send {
        /// The session.
        #[arg(value_name = "NAME|ID", add = sessions())]
        session: String,
        /// What to tell it.
        #[arg(required = true)]
        text: Vec<String>,
    },
    /// Create a session that continues the conversation of another one from where it is now.
    Fork {
        /// The session.
        #[arg(value_name = "NAME|ID", add = sessions())]
        session: String,
        /// The new session's name.
        name: String,
    },
    /// Give a session another name; its id stays.
    Rename {
        /// The session.
        #[arg(value_name = "NAME|ID", add = sessions())]
        session: String,
        /// The name it gets.
        name: String,
    },
    /// Remove sessions with everything below them.
    Rm {
        /// The sessions.
        #[arg(value_name = "NAME|ID", add = sessions(), required = true)]
        sessions: Vec<String>,
    },
    /// Ask a session to stop its running chat.
    Cancel {
        /// The session.
        #[arg(value_name = "NAME|ID", add = sessions())]
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
        #[arg(value_name = "NAME|ID", add = sessions())]
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
    /// Stop the server; its children keep running.
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
    /// Each conversation of the editor is a session of the server, and outlives the editor.
    /// Starts a server when none runs, and waits for one that goes away later.
    Acp(Acp),
    /// Print what to paste into an editor so that it uses `plexus acp`.
    AcpConfig {
        /// The editor.
        editor: Editor,
    },
    /// List the parents outside that have a token, or revoke their tokens.
    Parents(Parents),
    /// Give a phone a token that may read and decide: prints a QR code and a link that work once.
    Pair {
        /// What to call it [default: phone, or phone-2 and so on].
        #[arg(long)]
        name: Option<String>,
        /// How it is printed.
        #[command(flatten)]
        json: Json,
    },
    /// List the phones that may read and decide, or revoke one.
    Devices(Devices),
    /// List the receivers of notifications and webhooks, or test one.
    Notify(Notify),
    /// Print the operator's token.
    Token,
    /// Show a tour with simulated agents; it needs nothing and ends by itself.
    Demo(Demo),
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
