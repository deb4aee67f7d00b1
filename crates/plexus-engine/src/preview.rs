//! Dry runs of waiting shell commands, for those who decide about them.
//!
//! A dry run is information: it decides nothing, nothing is bound to it, and nothing waits for it.
//! It has the wall of the session that asks and a copy of its directory. The number of dry runs at
//! a time is bounded.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use plexus_core::{CallError, Caller};
use plexus_store::{ApprovalRecord, SessionRecord};
use plexus_wire::{ApprovalStatus, Confine, Previewed, ToolTarget};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::approvals::Approvals;
use crate::approvals::shown::as_decision;
use crate::authority::Deed;
use crate::session::SessionConfig;
use crate::settings::Settings;
use crate::start::{INHERITED, check_dirs};
use crate::wall::{Trial, WallNeeds};

/// Dry runs that anybody may have at a time. Each takes a processor for some seconds.
const AT_ONCE: usize = 3;
/// Dry runs beyond those, for the operator alone: sessions cannot take all places.
const OPERATORS_OWN: usize = 1;
/// When to try again while all places are taken: as long as a dry run lasts.
const RETRY_MS: u64 = 5_000;

/// Runs waiting commands over a copy.
pub struct Previews {
    settings: Arc<Settings>,
    approvals: Arc<Approvals>,
    places: Arc<Semaphore>,
    operators_own: Arc<Semaphore>,
}

impl Previews {
    pub(crate) fn new(settings: Arc<Settings>, approvals: Arc<Approvals>) -> Self {
        Self {
            settings,
            approvals,
            places: Arc::new(Semaphore::new(AT_ONCE)),
            operators_own: Arc::new(Semaphore::new(OPERATORS_OWN)),
        }
    }

    /// Runs the command of an approval that `caller` reaches and may allow, over a copy. The
    /// session must be one whose child runs on this server.
    ///
    /// # Errors
    /// When the caller may not decide it, it is decided, it is no shell command, its session has no
    /// wall, the limit of dry runs is reached, or this machine cannot make a dry run.
    pub async fn run(
        &self,
        caller: &Caller,
        record: &ApprovalRecord,
        session: &SessionRecord,
    ) -> Result<Previewed, CallError> {
        if record.status != ApprovalStatus::Pending {
            return Err(CallError::conflict("preview the command: nothing waits any more")
                .with_standing(as_decision(record)));
        }
        let config = SessionConfig::of(session)?;
        let input: Value = record.input.read()?;
        let tool = self.approvals.views.tools.read(&config, &record.tool_name, &input);
        let deed = Deed::of(record, &config, &tool);
        // A caller that may not allow it may not run it over a copy either: the output tells what
        // its files hold.
        self.approvals.check_allow(caller, record, &deed).await?;
        let (command, start_in) = command_of(tool.target, &record.tool_name)?;
        if config.confine == Confine::None {
            return Err(CallError::invalid("preview the command: its session has no wall")
                .with_field("approval_id")
                .with_hint("a command is only tried within the wall that it would run in"));
        }
        check_dirs(&self.settings, &config).map_err(cannot)?;
        let place = self.place(caller)?;
        let needs = self.approvals.agents.get(&config.agent)?.driver.wall();
        let env = environment(&config, needs.as_ref(), |name| std::env::var_os(name));
        let walls = Arc::clone(self.settings.wall.walls().map_err(cannot)?);
        let trial = Trial { config, env, command, start_in };
        let running = tokio::task::spawn_blocking(move || {
            let previewed = walls.preview(&trial);
            drop(place);
            previewed
        });
        let ended = running.await.map_err(|_| CallError::internal("preview the command"))?;
        ended.map_err(cannot)
    }

    fn place(&self, caller: &Caller) -> Result<OwnedSemaphorePermit, CallError> {
        let free = Arc::clone(&self.places).try_acquire_owned().ok();
        let own = || match caller {
            Caller::Operator => Arc::clone(&self.operators_own).try_acquire_owned().ok(),
            Caller::Session(_) | Caller::Child(_) | Caller::Device(_) => None,
        };
        free.or_else(own).ok_or_else(|| {
            CallError::busy("preview the command: the limit of dry runs is reached", RETRY_MS)
        })
    }
}

fn cannot(why: impl std::fmt::Display) -> CallError {
    CallError::invalid(format_args!("preview the command: {why}"))
        .with_hint("decide by the command itself; `plexus doctor` says whether dry runs work here")
}

/// The command of a call, and where it starts.
fn command_of(target: ToolTarget, tool: &str) -> Result<(String, Option<PathBuf>), CallError> {
    match target {
        ToolTarget::Shell { command, cwd, language } if language.is_posix() => Ok((command, cwd)),
        ToolTarget::Shell { .. } => {
            Err(CallError::invalid("preview the command: it is not for a POSIX shell")
                .with_field("approval_id"))
        }
        _ => Err(CallError::invalid(format_args!("preview {tool}: it is not a shell command"))
            .with_field("approval_id")
            .with_hint("loopback.files shows what a call that writes files would change")),
    }
}

/// The variables of the command: those that a child inherits and its session names, without a way
/// to the network and without the key of the model, which stays outside of the wall.
fn environment(
    config: &SessionConfig,
    needs: Option<&WallNeeds>,
    own: impl Fn(&str) -> Option<OsString>,
) -> BTreeMap<OsString, OsString> {
    let inherited = INHERITED.iter().filter_map(|name| Some((OsString::from(name), own(name)?)));
    let named = config.env.iter().map(|(name, value)| (name.into(), value.into()));
    let mut env: BTreeMap<_, _> = inherited.chain(named).collect();
    for model in needs.into_iter().flat_map(|needs| &needs.model) {
        for name in model.keys.iter().chain([&model.address]) {
            env.remove(std::ffi::OsStr::new(name));
        }
    }
    env
}
