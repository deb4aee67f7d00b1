//! Which program plays the agent: the one that was named, `claude` from `PATH`, or the simulator
//! inside our own binary.

use std::ffi::OsStr;
use std::path::{Path, PathBuf, absolute};

use plexus_client::paths::find_program;
use plexus_engine::settings::ProgramLine;

/// The word that means the built-in simulator where a program is expected.
pub const SIMULATOR: &str = "sim";

/// The agent, and how it was chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Agent {
    /// What is started.
    pub line: ProgramLine,
    /// How it was chosen.
    pub choice: AgentChoice,
}

/// How the agent was chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AgentChoice {
    /// Somebody named a program.
    Named,
    /// `claude` was found in `PATH`.
    Found,
    /// Somebody asked for the simulator.
    Simulator,
    /// There is no `claude`, so the simulator plays it.
    Fallback,
}

impl Agent {
    /// Chooses the agent. `named` is empty when nobody named one; `own` is our own program.
    #[must_use]
    pub fn choose(named: &Path, own: &Path, path: Option<&OsStr>) -> Self {
        let simulator = || ProgramLine { program: own.to_owned(), leading: vec![SIMULATOR.into()] };
        let program = |program: PathBuf| ProgramLine { program, leading: Vec::new() };
        if named == Path::new(SIMULATOR) {
            return Self { line: simulator(), choice: AgentChoice::Simulator };
        }
        if !named.as_os_str().is_empty() {
            return Self { line: program(find(named, path)), choice: AgentChoice::Named };
        }
        match find_program(OsStr::new("claude"), path) {
            Some(found) => Self { line: program(found), choice: AgentChoice::Found },
            None => Self { line: simulator(), choice: AgentChoice::Fallback },
        }
    }

    /// Says in a few words what the agent is.
    #[must_use]
    pub fn label(&self) -> String {
        match self.choice {
            AgentChoice::Named | AgentChoice::Found => self.line.program.display().to_string(),
            AgentChoice::Simulator => "the built-in simulator".to_owned(),
            AgentChoice::Fallback => {
                "the built-in simulator, because there is no `claude` in PATH".to_owned()
            }
        }
    }

    /// Says whether the simulator plays the agent.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        matches!(self.choice, AgentChoice::Simulator | AgentChoice::Fallback)
    }
}

/// Chooses the program of Codex; `None` when nobody named one and there is none in `PATH`.
#[must_use]
pub fn choose_codex(named: &Path, own: &Path, path: Option<&OsStr>) -> Option<ProgramLine> {
    if named == Path::new(SIMULATOR) {
        let leading = [SIMULATOR, "--as", "codex"].map(Into::into).into();
        return Some(ProgramLine { program: own.to_owned(), leading });
    }
    let program = match named.as_os_str().is_empty() {
        true => find_program(OsStr::new("codex"), path)?,
        false => find(named, path),
    };
    Some(ProgramLine { program, leading: Vec::new() })
}

/// Returns where a named program is. It is started in the directory of a session, where a relative
/// path would lead to a file of the agent's.
pub(crate) fn find(named: &Path, path: Option<&OsStr>) -> PathBuf {
    let is_name = named.components().count() == 1;
    let found = if is_name { find_program(named.as_os_str(), path) } else { absolute(named).ok() };
    found.unwrap_or_else(|| named.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn programs_are_found_at_absolute_paths_alone() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let claude = folder.path().join("claude");
        std::fs::write(&claude, "").unwrap();
        std::fs::set_permissions(&claude, std::fs::Permissions::from_mode(0o755)).unwrap();
        let relative = Path::new(folder.path().file_name().unwrap());
        let path = Some(relative.as_os_str());
        assert_eq!(find_program(OsStr::new("claude"), path), None);
        let own = Path::new("/own");
        assert_eq!(Agent::choose(Path::new(""), own, path).choice, AgentChoice::Fallback);
        let here = std::env::current_dir().unwrap();
        let named = relative.join("claude");
        assert_eq!(Agent::choose(&named, own, None).line.program, here.join(&named));
        assert_eq!(choose_codex(&named, own, None).unwrap().program, here.join(&named));
    }

    #[test]
    fn a_named_program_beats_claude_beats_the_simulator() {
        let folder = tempfile::tempdir().unwrap();
        let claude = folder.path().join("claude");
        std::fs::write(&claude, "").unwrap();
        let own = Path::new("/own");
        let path = Some(folder.path().as_os_str());
        let choose = |named: &str| Agent::choose(Path::new(named), own, path);

        assert_eq!(
            choose("").choice,
            AgentChoice::Fallback,
            "a file that cannot run is no program"
        );
        std::fs::set_permissions(&claude, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(choose("").line.program, claude);
        assert_eq!(choose("claude").line.program, claude);
        assert_eq!(choose("/x/other").line.program, Path::new("/x/other"));
        assert_eq!(
            choose("sim").line,
            ProgramLine { program: own.into(), leading: vec!["sim".into()] }
        );
        assert!(Agent::choose(Path::new(""), own, None).is_simulated());
        // The simulator plays Codex only when it is asked to.
        assert_eq!(choose_codex(Path::new(""), own, path), None);
        let simulated = choose_codex(Path::new("sim"), own, path).unwrap();
        assert_eq!(simulated.leading, ["sim", "--as", "codex"].map(OsStr::new));
    }
}
