//! `plexus doctor`: looks at everything that usually goes wrong, and says the next step.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Result;
use plexus_client::{Client, ClientError, read_announcement};
use plexus_store::{SqliteOptions, SqliteStore, Store};
use serde::Serialize;
use serde_json::{Value, json};

use super::args::Global;
use super::screen::{self, Screen, Tone};
use super::{exit, sanitize};
use crate::agent::{Agent, AgentChoice, INSTALL_HINT};
use crate::config::{self, Config, Sources, user_config_file};

/// How one look went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Good,
    /// It works, but not as one would expect.
    Odd,
    Bad,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Finding {
    what: &'static str,
    verdict: Verdict,
    words: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    next: String,
}

impl Finding {
    fn good(what: &'static str, words: impl Into<String>) -> Self {
        Self { what, verdict: Verdict::Good, words: words.into(), next: String::new() }
    }

    fn odd(what: &'static str, words: impl Into<String>, next: impl Into<String>) -> Self {
        Self { what, verdict: Verdict::Odd, words: words.into(), next: next.into() }
    }

    fn bad(what: &'static str, words: impl Into<String>, next: impl Into<String>) -> Self {
        Self { what, verdict: Verdict::Bad, words: words.into(), next: next.into() }
    }
}

/// Runs the command. Exits 1 when something must be repaired.
pub(super) async fn doctor(global: &Global, json: bool) -> Result<u8> {
    let data_dir = global.data_dir()?;
    let sources = Sources {
        files: [Some(data_dir.join("plexus.toml")), user_config_file()].into_iter().flatten().collect(),
        env: std::env::vars_os().collect(),
        set: Vec::new(),
    };
    let (configuration, config) = match config::load(&sources) {
        Ok(config) => (Finding::good("configuration", "read"), config),
        Err(error) => (
            Finding::bad("configuration", error.to_string(), "repair it, or remove it to use the defaults"),
            Config::default(),
        ),
    };
    let server = look_at_server(&data_dir).await;
    let runs = server.verdict == Verdict::Good;
    let mut findings = vec![configuration, look_at_agent(&config).await, look_at_data_dir(&data_dir)];
    findings.push(look_at_store(&data_dir, runs).await);
    findings.extend(look_at_nodes(&data_dir, runs).await);
    findings.extend(look_at_lost(&data_dir));
    findings.push(if runs { Finding::good("port", "the server has it") } else { look_at_port(&config).await });
    findings.push(server);
    findings.extend([look_at_directory(&data_dir), look_at_files(), look_at_disk(&data_dir)]);
    if json {
        screen::line(&serde_json::to_string_pretty(&findings)?)?;
    } else {
        show(&findings)?;
    }
    Ok(if findings.iter().any(|finding| finding.verdict == Verdict::Bad) { exit::FAILED } else { exit::OK })
}

fn show(findings: &[Finding]) -> Result<()> {
    let screen = Screen::stdout();
    for finding in findings {
        let (sign, tone) = match finding.verdict {
            Verdict::Good => ("✓", Tone::Good),
            Verdict::Odd => ("!", Tone::Warn),
            Verdict::Bad => ("✗", Tone::Bad),
        };
        screen::line(&format!("{} {:<13} {}", screen.paint(tone, sign), finding.what, sanitize::text(&finding.words)))?;
        if !finding.next.is_empty() {
            screen::line(&format!("  {:<13} {}", "", screen.paint(Tone::Faint, &format!("→ {}", finding.next))))?;
        }
    }
    Ok(())
}

async fn look_at_agent(config: &Config) -> Finding {
    const WHAT: &str = "agent";
    let own = std::env::current_exe().unwrap_or_default();
    let agent = Agent::choose(&config.claude_bin, &own, std::env::var_os("PATH").as_deref());
    match agent.choice {
        AgentChoice::Simulator => Finding::good(WHAT, agent.label()),
        AgentChoice::Fallback => Finding::odd(WHAT, agent.label(), INSTALL_HINT),
        AgentChoice::Named | AgentChoice::Found => match claude_code::probe_version(&agent.line.program).await {
            Ok(probed) if probed.version < claude_code::OLDEST_SUPPORTED_VERSION => Finding::odd(
                WHAT,
                format!("{} is older than any that was tested; it is supervised over MCP", agent.label()),
                "update it: claude update",
            ),
            Ok(probed) if probed.is_newer_than_tested() => Finding::odd(
                WHAT,
                format!("{} is newer than any that was tested", agent.label()),
                "if something looks wrong, look for a newer Plexus",
            ),
            Ok(_) => Finding::good(WHAT, agent.label()),
            Err(error) => Finding::bad(
                WHAT,
                format!("{}: {error}", agent.label()),
                "does it run by hand? name another with --claude-bin",
            ),
        },
    }
}

fn look_at_data_dir(dir: &Path) -> Finding {
    const WHAT: &str = "data";
    match dir.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Finding::good(WHAT, format!("{} is made at the first start", dir.display()))
        }
        Err(error) => Finding::bad(WHAT, format!("{}: {error}", dir.display()), "name another with --data-dir"),
        Ok(found) if !found.is_dir() => {
            Finding::bad(WHAT, format!("{} is not a directory", dir.display()), "name another with --data-dir")
        }
        Ok(found) if found.permissions().mode() & 0o077 != 0 => Finding::odd(
            WHAT,
            format!("{} can be read by others", dir.display()),
            format!("chmod 700 {}; `plexus serve` does so too", dir.display()),
        ),
        Ok(_) => Finding::good(WHAT, dir.display().to_string()),
    }
}

/// With a server running, the store is its; without one it can be looked at from here.
async fn look_at_store(dir: &Path, server_runs: bool) -> Finding {
    const WHAT: &str = "store";
    if server_runs {
        return match Client::from_data_dir(dir).call::<Value>("health.state", json!({})).await {
            Ok(state) => {
                let count = |name: &str| state["counts"][name].as_u64().unwrap_or(0);
                Finding::good(
                    WHAT,
                    format!(
                        "{} sessions, {} events, {} children",
                        count("sessions"),
                        count("events"),
                        state["children"]
                    ),
                )
            }
            Err(error) => Finding::bad(WHAT, error.to_string(), "the server's log says more"),
        };
    }
    if !dir.join("plexus.db").exists() {
        return Finding::good(WHAT, "none yet");
    }
    let store = match SqliteStore::open(&SqliteOptions::new(dir)) {
        Ok(store) => store,
        Err(error) => {
            return Finding::bad(WHAT, error.to_string(), "a backup can take its place; the file was left as it is");
        }
    };
    let finding = match store.integrity().await {
        Ok(problems) if problems.is_empty() => Finding::good(WHAT, "whole"),
        Ok(problems) => {
            Finding::bad(WHAT, problems.join("; "), "put a backup in its place; keep the file, it may still be read")
        }
        Err(error) => Finding::bad(WHAT, error.to_string(), "is the disk well?"),
    };
    match store.close().await {
        Ok(()) => finding,
        Err(error) => Finding::bad(WHAT, error.to_string(), "is the disk well?"),
    }
}

/// The servers that share the store, as the one that runs here sees them.
async fn look_at_nodes(dir: &Path, server_runs: bool) -> Vec<Finding> {
    const WHAT: &str = "node";
    if !server_runs {
        return Vec::new();
    }
    let Ok(state) = Client::from_data_dir(dir).call::<Value>("health.state", json!({})).await else {
        return Vec::new();
    };
    let nodes = state["nodes"].as_array().cloned().unwrap_or_default();
    let seen = nodes.iter().filter(|node| matches!(node["state"].as_str(), Some("alive" | "expired")));
    seen.map(|node| {
        let number = |key: &str| node[key].as_u64().unwrap_or(0);
        let words = format!(
            "{}{} at {}: heard of {:.1} s ago, {} s of its lease left, {} runs",
            node["name"].as_str().unwrap_or("?"),
            if node["this"] == json!(true) { " (this one)" } else { "" },
            node["url"].as_str().unwrap_or("?"),
            number("heartbeat_age_ms") as f64 / 1e3,
            number("lease_left_ms") / 1_000,
            number("open_runs"),
        );
        match node["state"].as_str() {
            Some("alive") => Finding::good(WHAT, words),
            _ => Finding::odd(WHAT, words, "start it again, or wait: another node ends what it left open"),
        }
    })
    .collect()
}

/// Runs that ended while this server was away, and said more than the store knows.
fn look_at_lost(dir: &Path) -> Option<Finding> {
    let lost = plexus_activations::node::lost_runs(dir);
    let lines: u64 = lost.iter().map(|run| run.lines).sum();
    (!lost.is_empty()).then(|| {
        Finding::odd(
            "lost",
            format!(
                "{} runs ended without this server; {lines} lines that they had still said are in no chat",
                lost.len()
            ),
            format!("their journals are in {}; remove them when you have seen them", dir.join("lost").display()),
        )
    })
}

async fn look_at_port(config: &Config) -> Finding {
    match crate::serve::listen::bind(config).await {
        Ok(_) => Finding::good("port", format!("{} is free", config.listen)),
        Err(error) => Finding::bad("port", format!("{error:#}"), "set listen in plexus.toml, or PLEXUS_LISTEN"),
    }
}

async fn look_at_server(dir: &Path) -> Finding {
    const WHAT: &str = "server";
    let Some(announced) = read_announcement(dir) else {
        return Finding::odd(WHAT, "none runs", "plexus run starts one, or start it with plexus serve");
    };
    match Client::from_data_dir(dir).call::<Value>("plexus.version", json!({})).await {
        Ok(_) if announced.version != env!("CARGO_PKG_VERSION") => Finding::odd(
            WHAT,
            format!(
                "{} is version {}, this program is {}",
                announced.url,
                announced.version,
                env!("CARGO_PKG_VERSION")
            ),
            "plexus stop, then start it again; children go on running",
        ),
        Ok(_) => Finding::good(WHAT, format!("{} (process {})", announced.url, announced.pid)),
        Err(ClientError::Unreachable { .. }) => Finding::odd(
            WHAT,
            format!("the one at {} ended without saying so", announced.url),
            "start it again: it picks up its children",
        ),
        Err(error) => Finding::bad(WHAT, error.to_string(), error.hint()),
    }
}

fn look_at_directory(data_dir: &Path) -> Finding {
    const WHAT: &str = "directory";
    let Ok(here) = std::env::current_dir() else {
        return Finding::bad(WHAT, "the current directory is gone", "cd to another");
    };
    if data_dir.starts_with(&here) || here.starts_with(data_dir) {
        return Finding::odd(
            WHAT,
            format!("no agent can run in {}: Plexus keeps its data there", here.display()),
            "run in the directory of a project",
        );
    }
    Finding::good(WHAT, format!("an agent can run in {}", here.display()))
}

/// Each child needs a few descriptors and each followed journal a watch.
fn look_at_files() -> Finding {
    const WHAT: &str = "open files";
    const ENOUGH: u64 = 1_024;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let instances = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_instances")
        .ok()
        .and_then(|text| text.trim().parse::<u64>().ok());
    match (limit, instances) {
        (Some(limit), _) if limit < ENOUGH => {
            Finding::odd(WHAT, format!("at most {limit}"), "ulimit -n 4096 before plexus serve")
        }
        (_, Some(instances)) if instances < 16 => Finding::odd(
            WHAT,
            format!("only {instances} inotify instances"),
            "sysctl fs.inotify.max_user_instances=128",
        ),
        _ => Finding::good(WHAT, limit.map_or("no limit".to_owned(), |limit| format!("at most {limit}"))),
    }
}

fn look_at_disk(data_dir: &Path) -> Finding {
    const WHAT: &str = "disk";
    const ENOUGH_MIB: u64 = 512;
    let nearest = data_dir.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    match rustix::fs::statvfs(nearest) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize) / (1024 * 1024);
            if free < ENOUGH_MIB {
                Finding::bad(
                    WHAT,
                    format!("{free} MiB left where the data is"),
                    "make room: children stand still when the disk is full",
                )
            } else {
                Finding::good(WHAT, format!("{free} MiB left"))
            }
        }
        Err(error) => Finding::odd(WHAT, format!("could not look: {error}"), ""),
    }
}
