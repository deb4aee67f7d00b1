//! The agents that this server knows: the driver of each, its program, and the result of asking it
//! for its version.

use std::collections::BTreeMap;
use std::sync::Arc;

use plexus_core::CallError;
use plexus_wire::FIRST_AGENT;
use tokio::sync::OnceCell;

use crate::driver::{AnyDriver, Identified, UnusableProgram, VersionAnswer};
use crate::settings::{ProgramLine, Settings};

/// The drivers of a server, by the names that users give their agents.
#[derive(Clone, Default)]
pub struct Drivers(BTreeMap<String, Arc<dyn AnyDriver>>);

impl Drivers {
    /// Adds an agent. Several agents may share one driver, each under its own name.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, driver: Arc<dyn AnyDriver>) -> Self {
        self.0.insert(name.into(), driver);
        self
    }
}

/// One agent.
pub struct Agent {
    /// What users call it.
    pub name: String,
    /// What is particular to it.
    pub driver: Arc<dyn AnyDriver>,
    /// Its program; `None` when it is not installed.
    pub program: Option<ProgramLine>,
    identified: OnceCell<Identified>,
}

impl Agent {
    /// Asks the program for its version, once.
    ///
    /// # Errors
    /// When it is not installed or cannot be used, with what to do about it.
    pub async fn identify(&self) -> Result<&Identified, UnusableProgram> {
        self.identified.get_or_try_init(|| self.identify_now()).await
    }

    /// Asks the program for its version again: it may have been replaced since it was asked last.
    ///
    /// # Errors
    /// As [`Agent::identify`].
    pub async fn identify_now(&self) -> Result<Identified, UnusableProgram> {
        let line = self.installed()?;
        let version = if line.leading.is_empty() {
            VersionAnswer::Said(agent_lines::ask_version(&line.program).await)
        } else {
            VersionAnswer::BuiltIn
        };
        self.driver.identify(&line.program, version)
    }

    /// Its program.
    ///
    /// # Errors
    /// When it is not installed.
    pub fn installed(&self) -> Result<&ProgramLine, UnusableProgram> {
        self.program.as_ref().ok_or_else(|| {
            UnusableProgram(format!(
                "{} is not installed on this machine; `plexus doctor` says how to install it",
                self.name
            ))
        })
    }
}

/// The agents that this server knows.
#[derive(Clone, Default)]
pub struct Agents(BTreeMap<String, Arc<Agent>>);

impl Agents {
    /// Joins each driver with the program that the settings name for it.
    #[must_use]
    pub fn new(drivers: &Drivers, settings: &Settings) -> Self {
        let agent = |(name, driver): (&String, &Arc<dyn AnyDriver>)| {
            let agent = Agent {
                name: name.clone(),
                driver: Arc::clone(driver),
                program: settings.programs.get(name).cloned(),
                identified: OnceCell::new(),
            };
            (name.clone(), Arc::new(agent))
        };
        Self(drivers.0.iter().map(agent).collect())
    }

    /// Finds an agent by its name.
    ///
    /// # Errors
    /// When this server knows none of that name; the hint lists those that it knows.
    pub fn get(&self, name: &str) -> Result<&Arc<Agent>, CallError> {
        self.0.get(name).ok_or_else(|| {
            let known: Vec<_> = self.0.keys().map(String::as_str).collect();
            CallError::invalid(format_args!(
                "use the agent {name:?}: this server has no such agent"
            ))
            .with_field("agent")
            .with_hint(format_args!("one of: {}", known.join(", ")))
        })
    }

    /// Returns all of them, the default agent of a session first.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Agent>> {
        let (first, others): (Vec<_>, Vec<_>) =
            self.0.values().partition(|agent| agent.name == FIRST_AGENT);
        first.into_iter().chain(others)
    }
}
