//! The agents that this server knows: the driver of each, its program, and the result of asking it
//! for its version.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use plexus_core::CallError;
use plexus_wire::FIRST_AGENT;
use tokio::sync::{Mutex, OnceCell};

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
    /// The last answer of [`Agent::identify_now`], and when its program was started.
    last: Mutex<Option<(Instant, Result<Identified, UnusableProgram>)>>,
}

impl Agent {
    fn new(name: &str, driver: &Arc<dyn AnyDriver>, program: Option<ProgramLine>) -> Self {
        Self {
            name: name.to_owned(),
            driver: Arc::clone(driver),
            program,
            identified: OnceCell::new(),
            last: Mutex::new(None),
        }
    }

    /// Asks the program for its version, once.
    ///
    /// # Errors
    /// When it is not installed or cannot be used, with what to do about it.
    pub async fn identify(&self) -> Result<&Identified, UnusableProgram> {
        self.identified.get_or_try_init(|| self.identify_now()).await
    }

    /// Asks the program for its version again: it may have been replaced since it was asked last.
    /// Callers that wait at the same time share the answer of a process that was started after all
    /// of them had called: where many agents are woken at once, a process for each is too many.
    ///
    /// # Errors
    /// As [`Agent::identify`].
    pub async fn identify_now(&self) -> Result<Identified, UnusableProgram> {
        let line = self.installed()?;
        if !line.leading.is_empty() {
            return self.driver.identify(&line.program, VersionAnswer::BuiltIn);
        }
        let called = Instant::now();
        let mut last = self.last.lock().await;
        if let Some((began, answer)) = &*last
            && *began >= called
        {
            return answer.clone();
        }
        let began = Instant::now();
        let version = VersionAnswer::Said(agent_lines::ask_version(&line.program).await);
        let answer = self.driver.identify(&line.program, version);
        *last = Some((began, answer.clone()));
        answer
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
            let agent = Agent::new(name, driver, settings.programs.get(name).cloned());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::testing::Echo;

    #[tokio::test]
    async fn callers_share_the_version_of_a_process_that_started_after_they_called() {
        let dir = tempfile::tempdir().unwrap();
        let (program, asked) = (dir.path().join("program"), dir.path().join("asked"));
        let text = format!("#!/bin/sh\necho asked >> '{}'\necho 1.2.3\n", asked.display());
        // Written by another process: a program that a fork of this one holds open cannot be run.
        let write = ["-c", "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh", text.as_str()];
        let written = std::process::Command::new("sh").args(write).arg(&program).status();
        assert!(written.unwrap().success());
        let times = || std::fs::read_to_string(&asked).unwrap_or_default().lines().count();
        let driver: Arc<dyn AnyDriver> = Arc::new(Echo);
        let line = ProgramLine { program, leading: Vec::new() };
        let agent = Agent::new("echo", &driver, Some(line));
        // The first caller starts a process; the others have called since, and share the second.
        for answer in futures::future::join_all((0..20).map(|_| agent.identify_now())).await {
            answer.unwrap();
        }
        assert_eq!(times(), 2);
        // An answer that was there before is never taken: the program may have been replaced.
        agent.identify_now().await.unwrap();
        assert_eq!(times(), 3);
    }
}
