//! Starts a child within its wall: the shim starts a stage, which becomes the agent.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use plexus_core::{Caller, SessionId};
use plexus_store::RunKey;
use plexus_wire::Confine;

use crate::agents::Agent;
use crate::driver::Plan;
use crate::session::SessionConfig;
use crate::settings::Settings;
use crate::start::{StartError, Starter};
use crate::wall::{NoWall, Site};

/// What the shim starts.
pub(crate) struct Start {
    pub(crate) program: PathBuf,
    /// What comes before the arguments of the agent's own program line.
    pub(crate) args: Vec<OsString>,
    pub(crate) env: BTreeMap<OsString, OsString>,
}

/// A run that asks for a wall.
pub(crate) struct Walled<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) key: RunKey,
    pub(crate) config: &'a SessionConfig,
    pub(crate) plan: &'a Plan,
    /// The session whose conversation it copies.
    pub(crate) fork_of: Option<SessionId>,
}

impl Starter {
    /// Puts a stage between the shim and the agent, which builds the wall around itself. Without
    /// the wall nothing starts.
    pub(crate) async fn put_behind_wall(
        &self,
        start: &mut Start,
        run: &Walled<'_>,
        calls_server: bool,
    ) -> Result<(), StartError> {
        let (settings, key) = (&self.tools.settings, run.key);
        let run_dir = settings.run_dir(key);
        // The one who is asked about a tool is asked about a host.
        let asks_with = match run.config.loopback_enabled {
            true => Some(self.identity.mint(Caller::Child(key.session), Some(key)).await?),
            false => None,
        };
        let needs = run.agent.driver.wall().ok_or_else(NoWall::for_this_agent)?;
        let stage = settings.wall.build(&Site {
            config: run.config,
            program: run.agent.installed()?,
            needs: &needs,
            env: &start.env,
            data_dir: &settings.data_dir,
            run_dir: &run_dir,
            config_dir: settings.config_dir(key.session),
            home: run.plan.home.as_ref().filter(|_| needs.config.is_none()),
            copied_from: run.fork_of.map(|source| settings.config_dir(source)),
            files: run.plan.files.iter().map(|file| run_dir.join(&file.name)).collect(),
            server: if calls_server { self.address.get() } else { None },
            asks_with,
        })?;
        start.program = stage.program;
        start.args = stage.args;
        start.env.extend(stage.env);
        Ok(())
    }
}

/// What the first notice of a run says of its wall: nothing where none was wanted.
pub(crate) fn wall_words(settings: &Settings, config: &SessionConfig, agent: &Agent) -> String {
    let needs = agent.driver.wall();
    match (config.confine, settings.wall.offer(config.confine, needs.as_ref())) {
        (Confine::None, _) => match settings.wall.why_no_default(needs.as_ref()) {
            Some(why) => format!(", without a wall: {why}"),
            None => String::new(),
        },
        (profile, Ok(Some(offer))) => format!(", within the wall {profile} ({})", offer.tier),
        // The start fails, and says why.
        (_, Ok(None) | Err(_)) => String::new(),
    }
}
