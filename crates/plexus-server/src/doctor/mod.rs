//! `plexus doctor`: looks at everything that usually goes wrong, and says the next step.
//!
//! In reading order: this file is the command and what a finding is; [`agent`] looks at the agent
//! and the tools it needs, [`acp`] at agents of the Agent Client Protocol, [`data`] at the data
//! directory, its store, its disk and the clock, [`nodes`] at the servers that share the store,
//! [`notify`] at receivers outside, [`refused`] at what came from outside and was turned away,
//! [`server`] at the server, its port and where it may work, [`reach`] at its certificate and its
//! address for other machines, [`wall`] at what this machine can enforce around a program.

mod acp;
mod agent;
mod codex;
mod data;
mod nodes;
mod notify;
mod reach;
mod refused;
mod server;
mod wall;

use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use crate::config::{self, Config, Sources};
use plexus_render::sanitize;
use plexus_render::screen::{self, Screen, Tone};

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

/// Runs the command. Returns whether everything works.
pub(crate) async fn doctor(data_dir: &Path, json: bool) -> Result<bool> {
    let sources = Sources::of(data_dir);
    let (configuration, config) = match config::load(&sources) {
        Ok(config) => (Finding::good("configuration", "read"), config),
        Err(error) => (
            Finding::bad(
                "configuration",
                error.to_string(),
                "repair it, or remove it to use the defaults",
            ),
            Config::default(),
        ),
    };
    let (server, runs) = server::look(data_dir).await;
    let mut findings = vec![
        configuration,
        data::look_at_rules(data_dir),
        agent::look(&config).await,
        agent::look_at_login(&config),
        codex::look(&config).await,
        codex::look_at_login(&config, data_dir),
        agent::look_at_tools(),
        agent::look_at_prestart(&config),
        data::look(data_dir),
        data::look_at_token(data_dir),
        if runs || config.store.url.is_empty() {
            data::look_at_store(data_dir, runs).await
        } else {
            nodes::look_at_database(&config.store.url).await
        },
        data::look_at_disk(data_dir),
        data::look_at_clock(data_dir),
    ];
    findings.extend(acp::look(&config).await);
    findings.extend(nodes::look(data_dir, runs).await);
    findings.extend(nodes::look_at_lost(data_dir));
    findings.extend(notify::look(data_dir, &config, runs).await);
    findings.extend(refused::look(data_dir, runs).await);
    findings.extend([
        if runs {
            Finding::good("port", "the server has it")
        } else {
            server::look_at_port(&config).await
        },
        server,
        server::look_at_directory(data_dir),
        server::look_at_files(),
    ]);
    findings.extend(reach::look_at_certificate(&config, data_dir));
    findings.extend(reach::look_at_address(&config));
    findings.extend(wall::look(&config.confine).await);
    if json {
        screen::line(&serde_json::to_string_pretty(&findings)?)?;
    } else {
        show(&findings)?;
    }
    Ok(findings.iter().all(|finding| finding.verdict != Verdict::Bad))
}

fn show(findings: &[Finding]) -> Result<()> {
    let screen = Screen::stdout();
    for finding in findings {
        let (sign, tone) = match finding.verdict {
            Verdict::Good => ("✓", Tone::Good),
            Verdict::Odd => ("!", Tone::Warn),
            Verdict::Bad => ("✗", Tone::Bad),
        };
        screen::line(&format!(
            "{} {:<13} {}",
            screen.paint(tone, sign),
            finding.what,
            sanitize::text(&finding.words)
        ))?;
        if !finding.next.is_empty() {
            screen::line(&format!(
                "  {:<13} {}",
                "",
                screen.paint(Tone::Faint, &format!("→ {}", finding.next))
            ))?;
        }
    }
    Ok(())
}
