//! The wall around a child, as the engine sees it: who builds it, and what that needs to know.
//!
//! The engine knows no mechanism. The program that wires the server gives it a [`Walls`]; without
//! one no wall can be had, and a session that asks for one is refused. Nothing that asked for a
//! wall is ever started without it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plexus_core::{CallError, SecretToken, SessionId};
use plexus_store::RunKey;
use plexus_wire::{Confine, Previewed};

use crate::driver::AgentHome;
use crate::session::SessionConfig;
use crate::settings::{ProgramLine, Settings};

/// The directory of an agent's own configuration, in the directory of its session.
const CONFIG_DIR: &str = "config";

/// Builds walls.
pub trait Walls: Debug + Send + Sync + 'static {
    /// Says what this machine enforces with a profile that has a wall, around an agent with these
    /// needs where one is named.
    ///
    /// # Errors
    /// When it cannot build that wall, or the agent cannot work within it.
    fn offer(&self, profile: Confine, needs: Option<&WallNeeds>) -> Result<Offer, NoWall>;

    /// Checks that a session with this configuration could be started within its wall.
    ///
    /// # Errors
    /// When it could not, with the next step.
    fn check(&self, config: &SessionConfig, needs: &WallNeeds) -> Result<(), NoWall>;

    /// Makes the files of a run's wall, and says what to start instead of the agent.
    ///
    /// # Errors
    /// When it cannot be built. The run is not started then.
    fn build(&self, site: &Site<'_>) -> Result<Stage, NoWall>;

    /// Runs a command within the wall of its session over a copy of the working directory, without
    /// a network, and says what it changed there. Blocks for as long as the command may take.
    ///
    /// # Errors
    /// When that cannot be done here. The command has not run then.
    fn preview(&self, trial: &Trial) -> Result<Previewed, NoWall>;

    /// Returns the files in the writable places of a run that changed since it started and that
    /// programs outside the wall run or take orders from. Reads them all, so it blocks for a
    /// moment.
    fn changed_outside(&self, run_dir: &Path) -> Vec<PathBuf> {
        let _ = run_dir;
        Vec::new()
    }

    /// Says where the key of the model is, for a child with these variables.
    fn key(&self, needs: &WallNeeds, has: &dyn Fn(&str) -> bool) -> String;
}

/// What a wall holds on this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offer {
    /// What it is made of.
    pub tier: String,
    /// What it prevents, in words.
    pub enforced: Vec<String>,
    /// What it does not prevent, in words.
    pub gaps: Vec<String>,
}

/// Why there is no wall, with the next step.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoWall {
    /// It cannot be had: not on this machine, not around this agent, or not as it was asked for.
    #[error("{0}")]
    Refused(String),
    /// What this machine can enforce could not be found out. The next try may.
    #[error("{0}")]
    Unknown(String),
}

impl NoWall {
    pub(crate) fn for_this_agent() -> Self {
        Self::Refused("this agent cannot be confined; next: create it with confine none".into())
    }
}

/// The place of a wall: one run.
#[derive(Debug)]
pub struct Site<'a> {
    /// What the session was created with.
    pub config: &'a SessionConfig,
    /// The agent's program.
    pub program: &'a ProgramLine,
    /// What is particular to the agent.
    pub needs: &'a WallNeeds,
    /// The environment that the child would have without a wall.
    pub env: &'a BTreeMap<OsString, OsString>,
    /// The server's directory, in which it announces where it listens.
    pub data_dir: &'a Path,
    /// The private directory of the run.
    pub run_dir: &'a Path,
    /// The directory of the session in which the agent keeps its configuration.
    pub config_dir: PathBuf,
    /// The agent's home directory, made ready in `config_dir`, for an agent that has one of ours.
    pub home: Option<&'a AgentHome>,
    /// That of the session whose conversation this one begins with a copy of.
    pub copied_from: Option<PathBuf>,
    /// Files of the run directory that the agent reads.
    pub files: Vec<PathBuf>,
    /// Whether the agent calls this server, and where that listens.
    pub server: Option<String>,
    /// The token with which the network's questions are asked; none when nobody is asked.
    pub asks_with: Option<SecretToken>,
}

/// Returns the directory of a run in which the files of its wall are. Nobody within can see it.
#[must_use]
pub fn files_of(run_dir: &Path) -> PathBuf {
    run_dir.join("wall")
}

/// Returns the file in which the egress process notes who opened the connection that a question of
/// the network is about: its pid and start time. `None` for a name that no such question has; the
/// name comes from whoever asks, so it must not lead elsewhere.
#[must_use]
pub fn asker_file(files: &Path, question: &str) -> Option<PathBuf> {
    let id = question.strip_prefix("network-")?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_name = (1..=64).contains(&id.len()) && id.bytes().all(is_plain);
    is_name.then(|| files.join(format!("asker-{id}")))
}

/// A command that is run over a copy.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What its session was created with.
    pub config: SessionConfig,
    /// Its variables.
    pub env: BTreeMap<OsString, OsString>,
    /// The command, for a POSIX shell.
    pub command: String,
    /// Where it starts; absent: in the session's working directory.
    pub start_in: Option<PathBuf>,
}

/// What to start within a wall.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stage {
    /// The program that builds the wall around itself and becomes the agent.
    pub program: PathBuf,
    /// Its arguments, of which the agent's own program is the last.
    pub args: Vec<OsString>,
    /// Variables of the agent.
    pub env: BTreeMap<OsString, OsString>,
}

/// What a wall must know of a kind of agent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WallNeeds {
    /// Where it keeps its configuration, unless it has a home directory of ours.
    pub config: Option<ConfigDir>,
    /// Where its model is, for an agent that takes the address from its environment.
    pub model: Option<ModelDoor>,
    /// The hosts that an agent without such a door, or with a login of its own, reaches unasked.
    pub login_hosts: Vec<String>,
    /// Variables that it has within a wall.
    pub env: &'static [(&'static str, &'static str)],
    /// The variable with a program that the agent puts before each shell command, for a second,
    /// tighter wall around it.
    pub shell_prefix: Option<&'static str>,
    /// Whether it serves itself on a port, which not every wall lets it do.
    pub listens: bool,
}

/// Where an agent keeps its configuration. Within a wall each session has a directory of its own,
/// so that no session can write what another one obeys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConfigDir {
    /// The variable that names it.
    pub variable: &'static str,
    /// Where it is without the variable, in the home directory.
    pub in_home: &'static str,
    /// What the user configured there, which the agent reads and does not write.
    pub read: &'static [&'static str],
    /// Its login, which it refreshes itself.
    pub logins: &'static [&'static str],
    /// A file of state that is copied once. Without the variable it lies in the home directory.
    pub state: Option<&'static str>,
    /// The directory of its conversations.
    pub conversations: &'static str,
    /// Whether all but its conversations is removed before each start: its commands can write here,
    /// and what lies here may decide without a question.
    pub starts_anew: bool,
    /// Directories of it that its commands read. The rest is closed to them.
    pub commands_read: &'static [&'static str],
}

/// Where an agent's model is. The agent gets the address of the egress process and a stand-in, and
/// the egress process puts the real key in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelDoor {
    /// The variable with the address.
    pub address: &'static str,
    /// The address without the variable.
    pub default: &'static str,
    /// The variables that may hold a key, in the order in which the agent takes them.
    pub keys: &'static [&'static str],
}

/// The walls of a server, and which one a session has that does not say.
#[derive(Clone, Debug, Default)]
pub struct WallSettings {
    /// Who builds them; without one no wall can be had.
    pub walls: Option<Arc<dyn Walls>>,
    /// The profile of a session that names none, where this machine can build it.
    pub default: Confine,
}

impl WallSettings {
    pub(crate) fn walls(&self) -> Result<&Arc<dyn Walls>, NoWall> {
        let none = "this server builds no walls; next: create it with confine none";
        self.walls.as_ref().ok_or_else(|| NoWall::Refused(none.into()))
    }

    /// Says what this machine enforces with a profile; `None` for the profile without a wall.
    ///
    /// # Errors
    /// When it cannot build that wall.
    pub fn offer(
        &self,
        profile: Confine,
        needs: Option<&WallNeeds>,
    ) -> Result<Option<Offer>, NoWall> {
        match profile {
            Confine::None => Ok(None),
            Confine::Workspace | Confine::Strict => self.walls()?.offer(profile, needs).map(Some),
        }
    }

    /// Returns the profile of a session that names none.
    ///
    /// # Errors
    /// When it would have a wall, and this machine cannot build it or not around this agent.
    pub(crate) fn default_for(&self, needs: Option<&WallNeeds>) -> Result<Confine, NoWall> {
        if self.default != Confine::None && needs.is_none() {
            return Err(NoWall::for_this_agent());
        }
        self.offer(self.default, needs).map(|_| self.default)
    }

    /// Returns why a session that names no profile has no wall, where it would have one elsewhere.
    pub(crate) fn why_no_default(&self, needs: Option<&WallNeeds>) -> Option<String> {
        match self.default_for(needs) {
            Err(NoWall::Refused(why)) => Some(why),
            Ok(_) | Err(NoWall::Unknown(_)) => None,
        }
    }

    /// Chooses the profile of a new session: what it asks for, else the default unless that is
    /// refused, and never looser than that of its parent. While nobody knows whether the default
    /// can be built it stays chosen, for [`WallSettings::check`] to refuse.
    #[must_use]
    pub fn choose(
        &self,
        wanted: Option<Confine>,
        parent: Option<Confine>,
        needs: Option<&WallNeeds>,
    ) -> Confine {
        let default = match self.default_for(needs) {
            Err(NoWall::Refused(_)) => Confine::None,
            Ok(_) | Err(NoWall::Unknown(_)) => self.default,
        };
        wanted.unwrap_or_else(|| default.max(parent.unwrap_or_default()))
    }

    /// Checks that a session with this configuration could be started within its wall.
    ///
    /// # Errors
    /// When it could not, with the next step: `invalid`, or `unavailable` when that is not known.
    pub fn check(
        &self,
        config: &SessionConfig,
        needs: Option<&WallNeeds>,
    ) -> Result<(), CallError> {
        if config.confine == Confine::None {
            return Ok(());
        }
        let checked = match needs {
            Some(needs) => self.walls().and_then(|walls| walls.check(config, needs)),
            None => Err(NoWall::for_this_agent()),
        };
        checked.map_err(|why| {
            let message = format!("confine this session: {why}");
            let error = match why {
                NoWall::Refused(_) => CallError::invalid(message).with_field("confine"),
                NoWall::Unknown(_) => CallError::unavailable(message),
            };
            error.with_hint(
                "with `none` its commands may do what you may; `plexus doctor` says what this \
                 machine can enforce",
            )
        })
    }

    /// Makes the files of a run's wall.
    ///
    /// # Errors
    /// When it cannot be built.
    pub(crate) fn build(&self, site: &Site<'_>) -> Result<Stage, NoWall> {
        self.walls()?.build(site)
    }

    /// Describes the wall of a session for its reader.
    #[must_use]
    pub fn shown(&self, config: &SessionConfig, needs: Option<&WallNeeds>) -> plexus_wire::Wall {
        let mut shown = plexus_wire::Wall::of(config.confine);
        match self.offer(config.confine, needs) {
            Ok(Some(offer)) => {
                shown.tier = Some(offer.tier);
                shown.enforced = offer.enforced;
                shown.gaps = offer.gaps;
                let has = |name: &str| {
                    config.env.contains_key(name) || std::env::var_os(OsStr::new(name)).is_some()
                };
                shown.key = self.walls.as_deref().zip(needs).map(|(walls, it)| walls.key(it, &has));
            }
            // A session without a wall that the default would have given one.
            Ok(None) => shown.missing = self.why_no_default(needs),
            Err(why) => shown.missing = Some(why.to_string()),
        }
        shown
    }
}

impl Settings {
    /// Returns the directory in which the confined agent of a session keeps its configuration.
    #[must_use]
    pub fn config_dir(&self, session: SessionId) -> PathBuf {
        self.session_dir(session).join(CONFIG_DIR)
    }

    /// Returns the directory of a run that its wall needs.
    #[must_use]
    pub fn wall_dir(&self, key: RunKey) -> PathBuf {
        files_of(&self.run_dir(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that can build some walls, or of which nobody knows what it can build.
    #[derive(Debug)]
    enum Machine {
        Builds(&'static [Confine]),
        Unknown,
    }

    impl Walls for Machine {
        fn offer(&self, profile: Confine, _: Option<&WallNeeds>) -> Result<Offer, NoWall> {
            let offer = Offer { tier: "full".into(), enforced: vec![], gaps: vec![] };
            match self {
                Self::Builds(profiles) if profiles.contains(&profile) => Ok(offer),
                Self::Builds(_) => Err(NoWall::Refused("no Landlock".into())),
                Self::Unknown => Err(NoWall::Unknown("too many processes".into())),
            }
        }

        fn check(&self, config: &SessionConfig, needs: &WallNeeds) -> Result<(), NoWall> {
            self.offer(config.confine, Some(needs)).map(drop)
        }

        fn build(&self, _: &Site<'_>) -> Result<Stage, NoWall> {
            Err(NoWall::Refused("not in this test".into()))
        }

        fn preview(&self, _: &Trial) -> Result<Previewed, NoWall> {
            Err(NoWall::Refused("not in this test".into()))
        }

        fn key(&self, _: &WallNeeds, _: &dyn Fn(&str) -> bool) -> String {
            String::new()
        }
    }

    fn settings(machine: Option<Machine>) -> WallSettings {
        let walls = machine.map(|machine| Arc::new(machine) as Arc<dyn Walls>);
        WallSettings { walls, default: Confine::Workspace }
    }

    #[test]
    fn a_session_that_does_not_say_gets_the_default_where_the_machine_can() {
        use Confine::{None, Strict, Workspace};
        let able = settings(Some(Machine::Builds(&[Workspace, Strict])));
        let unknown = settings(Some(Machine::Unknown));
        let unable = settings(Some(Machine::Builds(&[])));
        for (settings, wanted, parent, expected) in [
            (&able, Option::None, Option::None, Workspace),
            (&able, Some(None), Option::None, None),
            (&able, Some(Strict), Option::None, Strict),
            (&able, Option::None, Some(Strict), Strict),
            (&able, Option::None, Some(None), Workspace),
            (&unable, Option::None, Option::None, None),
            // What was asked for is kept, so that the start fails instead of going without.
            (&unable, Some(Workspace), Option::None, Workspace),
            (&unable, Option::None, Some(Workspace), Workspace),
            (&settings(Option::None), Option::None, Option::None, None),
            // Not `None`: it may turn out that the machine can.
            (&unknown, Option::None, Option::None, Workspace),
            (&unknown, Some(None), Option::None, None),
        ] {
            let needs = WallNeeds::default();
            let got = settings.choose(wanted, parent, Some(&needs));
            assert_eq!(got, expected, "{wanted:?} below {parent:?}");
        }
        // An agent that cannot be confined goes without, unless its parent has a wall.
        assert_eq!(able.choose(Option::None, Option::None, Option::None), None);
        assert_eq!(able.choose(Option::None, Some(Strict), Option::None), Strict);
    }
}
