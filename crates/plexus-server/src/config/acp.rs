//! Agents of the Agent Client Protocol: those that are known, and those that `plexus.toml` adds.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use plexus_agents::acp::Profile;
use plexus_engine::settings::ProgramLine;

use super::Config;
use crate::agent::find;
use plexus_client::paths::find_program;

/// Names that other kinds of agents have.
const TAKEN: [&str; 3] = ["claude_code", "codex", "cone"];

/// An agent of the Agent Client Protocol.
#[derive(Clone, PartialEq, Debug)]
pub struct AcpAgent {
    /// What users write.
    pub name: String,
    /// What is particular to it.
    pub profile: Profile,
}

impl AcpAgent {
    /// Finds its program: in `PATH`, or where its profile says. `None`: it is not installed.
    #[must_use]
    pub fn program(&self, path: Option<&OsStr>) -> Option<ProgramLine> {
        let named = OsStr::new(&self.profile.program);
        let program = match self.profile.program.contains('/') {
            true => find(Path::new(named), path),
            false => find_program(named, path)?,
        };
        Some(ProgramLine { program, leading: Vec::new() })
    }
}

impl Config {
    /// Returns the agents of the Agent Client Protocol, those that are known first.
    ///
    /// # Errors
    /// Says what is wrong with an agent that the configuration names.
    pub fn acp_agents(&self) -> Result<Vec<AcpAgent>, String> {
        agents(&self.agents)
    }
}

fn agents(tables: &BTreeMap<String, toml::Table>) -> Result<Vec<AcpAgent>, String> {
    let mut agents: Vec<AcpAgent> = Profile::known()
        .into_iter()
        .map(|(name, profile)| AcpAgent { name: name.to_owned(), profile })
        .collect();
    for (name, table) in tables {
        match agents.iter_mut().find(|agent| agent.name == *name) {
            Some(known) => known.profile.program = program_of(name, table)?,
            None => {
                check_name(name)?;
                let profile =
                    Profile::of(name, table.clone()).map_err(|error| error.to_string())?;
                agents.push(AcpAgent { name: name.clone(), profile });
            }
        }
    }
    Ok(agents)
}

/// Reads the program of a known agent. Nothing else of it can be set: the rest of its profile was
/// found by running it, and our promises about it rest on that.
fn program_of(name: &str, table: &toml::Table) -> Result<String, String> {
    match (table.get("program").and_then(toml::Value::as_str), table.len()) {
        (Some(program), 1) => Ok(program.to_owned()),
        _ => Err(format!(
            "the agent {name} is known: only its `program` can be named; give another profile \
             another name"
        )),
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if TAKEN.contains(&name) {
        return Err(format!("{name} is not an agent of the Agent Client Protocol"));
    }
    match !name.is_empty() && name.chars().all(is_plain) {
        true => Ok(()),
        false => {
            Err(format!("the name {name:?} of an agent has other letters than a-z, 0-9 and _"))
        }
    }
}

#[cfg(test)]
mod tests {
    use plexus_wire::AsksFor;

    use super::*;

    fn read(text: &str) -> Result<Vec<AcpAgent>, String> {
        let config: Config = toml::from_str(text).map_err(|error| error.to_string())?;
        config.acp_agents()
    }

    #[test]
    fn an_operator_names_a_program_or_adds_an_agent() {
        let known: Vec<_> = read("").unwrap().into_iter().map(|agent| agent.name).collect();
        assert_eq!(known, ["claude_acp", "gemini", "goose", "opencode"]);
        let text = "[agents.goose]\nprogram = '/opt/goose'\n\
                    [agents.own]\nlabel = 'Own'\nprogram = 'own-agent'\nargs = ['--acp']\n";
        let agents = read(text).unwrap();
        let goose = agents.iter().find(|agent| agent.name == "goose").unwrap();
        assert_eq!(goose.program(None).unwrap().program.to_str(), Some("/opt/goose"));
        let own = agents.last().unwrap();
        assert_eq!((own.name.as_str(), own.profile.asks_for), ("own", AsksFor::Configured));
        assert_eq!(own.program(None), None);
    }

    #[test]
    fn a_faulty_agent_entry_is_named() {
        for (text, expected) in [
            ("[agents.goose]\nenv = { GOOSE_MODE = 'auto' }", "only its `program`"),
            ("[agents.codex]\nlabel = 'x'\nprogram = 'x'", "codex"),
            ("[agents.'A b']\nlabel = 'x'\nprogram = 'x'", "a-z"),
            ("[agents.own]\nlabel = 'x'", "program"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
