//! Agents of the Agent Client Protocol: which are installed, in which version, and whether anybody
//! has checked what they ask about.

use std::sync::Arc;

use plexus_agents::Acp;
use plexus_agents::acp::Homes;
use plexus_engine::agents::{Agents, Drivers};
use plexus_engine::settings::{ProgramLine, Settings};
use plexus_wire::AsksFor;

use super::Finding;
use crate::config::{AcpAgent, Config};

const WHAT: &str = "acp agent";

/// Looks at each of them. A missing agent is not a fault.
pub(super) async fn look(config: &Config) -> Vec<Finding> {
    // A faulty configuration is reported as a finding of its own.
    let agents = config.acp_agents().unwrap_or_default();
    let mut findings = Vec::new();
    for agent in agents {
        findings.push(look_at(agent).await);
    }
    findings
}

async fn look_at(agent: AcpAgent) -> Finding {
    let AcpAgent { name, profile } = agent.clone();
    let Some(program) = agent.program(std::env::var_os("PATH").as_deref()) else {
        let install = profile.install.map(|how| format!(" ({how})")).unwrap_or_default();
        return Finding::good(WHAT, format!("{name}: not installed{install}"));
    };
    let shown = program.program.display().to_string();
    let tested = profile.version.as_ref().map(|version| format!("{} {version}", profile.label));
    let asks_for = profile.asks_for;
    let label = match identify(&name, Acp::new(profile, Homes::default()), program).await {
        Ok(label) => label,
        Err(problem) => {
            let next = format!("does it run by hand? name another in [agents.{name}]");
            return Finding::bad(WHAT, format!("{name}: {problem}"), next);
        }
    };
    let words = format!("{name}: {label}, {shown}");
    match asks_for {
        AsksFor::Configured => {
            Finding::odd(WHAT, words, "it does without asking what its own settings allow")
        }
        _ if tested.is_some_and(|tested| tested != label) => Finding::odd(
            WHAT,
            words,
            "the promises for it were tested with another version; install that one, or look for a \
             newer Plexus",
        ),
        _ => Finding::good(WHAT, words),
    }
}

async fn identify(name: &str, driver: Acp, program: ProgramLine) -> Result<String, String> {
    let nothing = ProgramLine { program: "".into(), leading: Vec::new() };
    let mut settings = Settings::new("", nothing);
    settings.install(name, program);
    let drivers = Drivers::default().with(name, Arc::new(driver));
    let agents = Agents::new(&drivers, &settings);
    let agent = agents.get(name).map_err(|error| error.message.clone())?;
    let identified = agent.identify().await.map_err(|error| error.to_string())?;
    Ok(identified.label.clone())
}
