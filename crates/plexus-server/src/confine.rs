//! `plexus confine`: runs any program inside a wall, or only shows what it would change.
//!
//! This process stays outside as the egress process, and starts itself again as the stage that
//! becomes the program. Without the wall nothing runs.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use clap::{Args, ValueEnum};
use plexus_confine::dry_run::{self, DryRunError, End};
use plexus_confine::egress::{
    Bounds, Egress, EgressOptions, HostPattern, ListedHosts, UpstreamProxy,
};
use plexus_confine::guard::Watch;
use plexus_confine::{
    EXIT_NOT_CONFINED, Machine, Plan, PlanError, RunDir, StageProgram, Tier, Wall, plan,
};
use tokio::signal::unix::{SignalKind, signal};

use plexus_render::changed_files;
use plexus_render::error::{complain, could_not};
use plexus_render::screen::{self, Screen};
use plexus_render::tool_call::Extent;

use crate::wall::preview::shown;

/// The exit code when the program has none of its own.
const FAILED: u8 = 1;

/// `plexus confine`.
#[derive(Args, Debug)]
pub struct Confine {
    /// How tight: `workspace` reads tool chains and reaches allowed hosts, `strict` does neither.
    #[arg(long, value_enum, default_value = "workspace")]
    profile: ProfileName,
    /// Where the program works and may write [default: here].
    #[arg(long, value_name = "DIR")]
    working_dir: Option<PathBuf>,
    /// The mechanisms that must hold [default: the best that this machine has].
    #[arg(long, value_enum)]
    tier: Option<TierName>,
    /// Let this host through: example.org, *.example.org or example.org:8443.
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<HostPattern>,
    /// Let this path be read and executed too.
    #[arg(long, value_name = "PATH")]
    read: Vec<PathBuf>,
    /// Let this path be written too.
    #[arg(long, value_name = "PATH")]
    write: Vec<PathBuf>,
    /// Run on a copy, without network, and show which files would change.
    #[arg(long)]
    dry_run: bool,
    /// Print the dry run as JSON.
    #[arg(long, requires = "dry_run")]
    json: bool,
    /// The program and its arguments.
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// A profile with a wall.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProfileName {
    Workspace,
    Strict,
}

/// A tier that must hold.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum TierName {
    Full,
    Landlock,
}

/// Runs the command.
pub(crate) async fn confine(arguments: Confine) -> Result<u8> {
    match Run::begin(arguments) {
        Ok(run) => run.run().await,
        Err(error) => {
            complain(&format!("plexus: {error:#}"));
            Ok(EXIT_NOT_CONFINED)
        }
    }
}

/// One run: its files, and what this machine can enforce.
struct Run {
    arguments: Confine,
    stage: StageProgram,
    machine: Machine,
    dir: RunDir,
    wall: Wall,
}

impl Run {
    fn begin(mut arguments: Confine) -> Result<Self> {
        let stage = StageProgram::this().context("could not find this program")?;
        let machine = plexus_confine::probe(&stage).map_err(could_not_build)?;
        plexus_confine::sweep();
        let dir = RunDir::new().context("could not make a temporary directory")?;
        let working_dir = match arguments.working_dir.take() {
            Some(dir) => dir,
            None => std::env::current_dir().context("could not find the working directory")?,
        };
        let profile = match arguments.profile {
            ProfileName::Workspace => plexus_confine::Profile::Workspace,
            ProfileName::Strict => plexus_confine::Profile::Strict,
        };
        let mut wall = Wall::new(profile, working_dir, dir.temp_dir());
        wall.tier = arguments.tier.map(|tier| match tier {
            TierName::Full => Tier::Full,
            TierName::Landlock => Tier::Landlock,
        });
        wall.home = std::env::var_os("HOME").map(PathBuf::from);
        wall.read = std::mem::take(&mut arguments.read);
        wall.write = std::mem::take(&mut arguments.write);
        wall.hosts = std::mem::take(&mut arguments.allow_host);
        Ok(Self { arguments, stage, machine, dir, wall })
    }

    async fn run(self) -> Result<u8> {
        if self.arguments.dry_run {
            return tokio::task::spawn_blocking(move || self.dry_run()).await?;
        }
        match self.prepare().await {
            Ok(ready) => ready.run().await,
            Err(error) => {
                complain(&format!("plexus: {error:#}"));
                Ok(EXIT_NOT_CONFINED)
            }
        }
    }

    async fn prepare(mut self) -> Result<Ready> {
        let egress = match self.arguments.profile {
            ProfileName::Workspace => Some(self.open_egress().await?),
            ProfileName::Strict => None,
        };
        if let Some(egress) = &egress {
            self.wall.doors = egress.doors().clone();
        }
        let planned = plan(&self.wall, &self.machine).map_err(could_not_plan)?;
        let file = self.dir.put(&planned).context("could not write the plan")?;
        Ok(Ready { run: self, egress, planned, file })
    }

    async fn open_egress(&self) -> Result<Egress> {
        let options = EgressOptions {
            decider: Some(Arc::new(ListedHosts(self.wall.hosts.clone()))),
            model: None,
            bounds: Bounds::default(),
            server: None,
            upstream: UpstreamProxy::from_variables(|name| std::env::var(name).ok())
                .map_err(anyhow::Error::msg)?,
        };
        let tier = self.machine.choose(self.wall.tier).map_err(could_not_build)?;
        let opened = match tier {
            Tier::Full => Egress::listen_inside(options, &self.dir.path().join("egress")),
            Tier::Landlock => Egress::listen_here(options).await,
        };
        opened.context("could not set up the network")
    }

    fn dry_run(self) -> Result<u8> {
        let limits = dry_run::Limits::default();
        let program = dry_run::Program::of(&self.arguments.program);
        match dry_run::run(&self.stage, &self.machine, &self.wall, &program, limits) {
            Ok(preview) if self.arguments.json => {
                screen::line(&serde_json::to_string_pretty(&preview)?)?;
                Ok(code_of(preview.end))
            }
            Ok(ran) => {
                let code = code_of(ran.end.clone());
                let shown = changed_files::previewed(&shown(ran), Extent::Whole, Screen::stdout());
                shown.iter().try_for_each(|line| screen::line(line))?;
                Ok(code)
            }
            Err(error) => {
                let error = match error {
                    DryRunError::Plan(error) => could_not_plan(error),
                    other => could_not_build(other),
                };
                complain(&format!("plexus: {error:#}"));
                Ok(EXIT_NOT_CONFINED)
            }
        }
    }
}

/// Says what is wrong with a wall that was asked for: these errors name the part of it.
fn could_not_plan(error: PlanError) -> anyhow::Error {
    match error {
        PlanError::Machine(error) => could_not_build(error),
        error => anyhow!("could not build the wall: {error}").context("nothing was started"),
    }
}

/// Returns the exit code for how a dry run ended: the program's own, and that of `kill -9` where it
/// was stopped because it took too much.
fn code_of(end: End) -> u8 {
    let code = match end {
        End::Exited(code) => code,
        End::Killed(signal) => 128 + signal,
        End::OutOfTime | End::TooLarge => 128 + rustix::process::Signal::KILL.as_raw(),
    };
    u8::try_from(code).unwrap_or(FAILED)
}

fn could_not_build(error: impl std::error::Error) -> anyhow::Error {
    could_not(error).context("nothing was started")
}

/// A run whose wall is planned and whose network is ready.
struct Ready {
    run: Run,
    egress: Option<Egress>,
    planned: Plan,
    file: PathBuf,
}

impl Ready {
    async fn run(self) -> Result<u8> {
        let Self { run, egress, planned, file } = self;
        let writable: Vec<PathBuf> = planned.write.iter().cloned().collect();
        let watch = Watch::begin(&writable);
        let (program, arguments) =
            run.arguments.program.split_first().context("could not start: name a program")?;
        let mut command = tokio::process::Command::from(run.stage.command(&file, program));
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let egress = tokio::spawn(async move {
            match egress {
                // The sender is dropped when the program has ended.
                Some(egress) => egress.run(async { drop(ended.await) }).await,
                None => Ok(()),
            }
        });
        let mut child = command
            .args(arguments)
            .kill_on_drop(true)
            .spawn()
            .context("could not start the stage")?;
        let code = wait(&mut child).await?;
        drop(end);
        egress.await?.context("could not serve the network of the program")?;
        for path in watch.changed() {
            complain(&format!(
                "plexus: {} changed: programs outside the wall may run what it says",
                path.display()
            ));
        }
        Ok(code)
    }
}

/// Waits for the program and passes on what ends it. Ctrl-C reaches the program by itself, which
/// belongs to the same group.
async fn wait(child: &mut tokio::process::Child) -> Result<u8> {
    use std::os::unix::process::ExitStatusExt as _;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {
                let pid = child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
                if let Some(pid) = pid {
                    rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
                }
            }
        }
    };
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(u8::try_from(code).unwrap_or(FAILED))
}
