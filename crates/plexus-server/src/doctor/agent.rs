//! The agent, whether it can sign in, and the tools that it works with.

use std::ffi::OsStr;
use std::path::PathBuf;

use claude_code::{OLDEST_SUPPORTED_VERSION, ProbeError};
use plexus_engine::parking::available_memory;
use plexus_engine::settings::Prestart;
use plexus_engine::supervisor::{PRESTART_MEMORY_BYTES, memory_allows};

use super::Finding;
use crate::agent::{Agent, AgentChoice};
use crate::config::Config;
use plexus_client::paths::find_program;
use plexus_render::screen::INSTALL_HINT;

/// Variables that let Claude Code reach a model without a login of its own.
const CREDENTIALS: [&str; 6] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
];

/// Finds the agent and asks it its version.
pub(super) async fn look(config: &Config) -> Finding {
    const WHAT: &str = "agent";
    let own = std::env::current_exe().unwrap_or_default();
    let agent = Agent::choose(&config.claude_bin, &own, std::env::var_os("PATH").as_deref());
    match agent.choice {
        AgentChoice::Simulator => Finding::good(WHAT, agent.label()),
        AgentChoice::Fallback => Finding::odd(WHAT, agent.label(), INSTALL_HINT),
        AgentChoice::Named | AgentChoice::Found => {
            match claude_code::probe_version(&agent.line.program).await {
                Ok(probed) if probed.is_newer_than_tested() => Finding::odd(
                    WHAT,
                    format!("{} is newer than any that was tested", agent.label()),
                    "if something looks wrong, look for a newer Plexus",
                ),
                Ok(probed) => {
                    Finding::good(WHAT, format!("{}, version {}", agent.label(), probed.version))
                }
                Err(ProbeError::TooOld { found, .. }) => Finding::bad(
                    WHAT,
                    format!(
                        "{} is version {found}; Plexus needs {OLDEST_SUPPORTED_VERSION} or newer",
                        agent.label()
                    ),
                    "update it: claude update, or npm install -g @anthropic-ai/claude-code",
                ),
                Err(error) => Finding::bad(
                    WHAT,
                    format!("{}: {error}", agent.label()),
                    "does it run by hand? name another with --claude-bin",
                ),
            }
        }
    }
}

/// Looks for a login, so that a missing one is reported before the first chat fails. Whether a
/// login has expired is not checked.
pub(super) fn look_at_login(config: &Config) -> Finding {
    const WHAT: &str = "login";
    let own = std::env::current_exe().unwrap_or_default();
    let agent = Agent::choose(&config.claude_bin, &own, std::env::var_os("PATH").as_deref());
    if agent.is_simulated() {
        return Finding::good(WHAT, "the simulator needs none");
    }
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if let Some(name) = CREDENTIALS.iter().find(|name| is_set(name)) {
        return Finding::good(WHAT, format!("{name} is set here; the server needs it too"));
    }
    let folder = std::env::var_os("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    let folder =
        folder.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".claude")));
    let Some(folder) = folder else {
        return Finding::odd(
            WHAT,
            "HOME is not set",
            "set HOME, or the agent finds neither its login nor its settings",
        );
    };
    let has_helper = || {
        std::fs::read_to_string(folder.join("settings.json"))
            .is_ok_and(|text| text.contains("apiKeyHelper"))
    };
    if folder.join(".credentials.json").exists() || has_helper() {
        return Finding::good(WHAT, format!("found in {}", folder.display()));
    }
    Finding::odd(
        WHAT,
        format!("none found in {}, and no key is set", folder.display()),
        "run `claude` once and sign in, or set ANTHROPIC_API_KEY for the server",
    )
}

/// Looks for what almost every agent uses.
pub(super) fn look_at_tools() -> Finding {
    const WHAT: &str = "tools";
    let path = std::env::var_os("PATH");
    let is_there = |name: &str| find_program(OsStr::new(name), path.as_deref()).is_some();
    if !["bash", "zsh"].into_iter().any(is_there) {
        return Finding::bad(
            WHAT,
            "there is neither bash nor zsh in PATH, and the agent runs its commands in one of them",
            "install bash, or repair PATH",
        );
    }
    if !is_there("git") {
        return Finding::odd(
            WHAT,
            "there is no git in PATH; agents look at a project with it",
            "install git",
        );
    }
    Finding::good(WHAT, "a shell and git")
}

/// Says whether agents are started before their first prompt, which depends on the memory.
pub(super) fn look_at_prestart(config: &Config) -> Finding {
    const WHAT: &str = "prestart";
    const MIB: u64 = 1024 * 1024;
    let needed = PRESTART_MEMORY_BYTES / MIB;
    let early = "agents start before their first prompt";
    let late = "agents start with their first prompt";
    let words = match (config.warm.prestart, available_memory().map(|bytes| bytes / MIB)) {
        _ if config.warm.max == 0 => format!("{late}: warm.max is 0"),
        (Prestart::Off, _) => format!("{late}: warm.prestart is off"),
        (Prestart::On, _) => format!("{early}: warm.prestart is on"),
        (Prestart::Auto, None) => format!("{early}: this machine does not say how much is free"),
        (Prestart::Auto, Some(free)) => {
            let when = if memory_allows() { early } else { late };
            format!("{when}: {free} MiB of memory are available, and {needed} are wanted for that")
        }
    };
    Finding::good(WHAT, words)
}
