//! The arguments of the commands for parents, editors, phones and receivers: `mcp`, `mcp-config`,
//! `acp`, `parents`, `devices`, `notify`.

use clap::{Args, Subcommand};

use crate::complete::sessions;

/// `plexus mcp`.
#[derive(Args, Debug)]
pub struct Mcp {
    /// The name of the parent; the same name owns the same children again [default: made from the
    /// directory].
    #[arg(long = "as", value_name = "NAME")]
    pub name: Option<String>,
    /// Act as the operator: see and decide everything.
    #[arg(long, conflicts_with = "name")]
    pub operator: bool,
    /// Which tools are listed; the others can be called too.
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
    /// Create a parent of this name and print its token, for MCP over HTTP [default: MCP over
    /// stdio, without a token].
    #[arg(long = "as", value_name = "NAME")]
    pub name: Option<String>,
    /// End the earlier tokens of that name.
    #[arg(long, requires = "name")]
    pub replace: bool,
    /// Which tools are listed; the others can be called too.
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
    #[arg(long, short, value_name = "NAME|ID", add = sessions())]
    pub session: Option<String>,
    /// The model of new sessions, as the agent names it.
    #[arg(long, short)]
    pub model: Option<String>,
    /// In new sessions, also ask about what the agent would do without asking, such as reading
    /// files.
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

/// `plexus devices`.
#[derive(Args, Debug)]
pub struct Devices {
    /// What to do; without it they are listed.
    #[command(subcommand)]
    pub command: Option<DevicesCommand>,
    /// Print JSON.
    #[arg(long, global = true)]
    pub json: bool,
}

/// What to do with devices.
#[derive(Subcommand, Debug)]
pub enum DevicesCommand {
    /// End the token of a device, and close its connections at once.
    Revoke {
        /// Its name.
        name: String,
    },
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
    /// Send a test message to a receiver, and say whether it was accepted.
    Test {
        /// Its name.
        name: String,
    },
}
