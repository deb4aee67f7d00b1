//! Runs a program within a wall and returns what it said.

use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use plexus_confine::egress::{Bounds, Egress, EgressOptions, ListedHosts, ModelApi};
use plexus_confine::{Machine, Profile, RunDir, StageProgram, Tier, Wall, plan};

/// One case: a project to work in, and a wall of one tier around it.
pub(crate) struct Inside {
    pub(crate) tier: Tier,
    pub(crate) stage: StageProgram,
    pub(crate) machine: Machine,
    pub(crate) dir: tempfile::TempDir,
}

impl Inside {
    pub(crate) fn new(tier: Tier, stage: StageProgram, machine: Machine) -> std::io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("plexus-walls").tempdir()?;
        std::fs::create_dir(dir.path().join("project"))?;
        Ok(Self { tier, stage, machine, dir })
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    /// A `workspace` wall around the project, with the tool chains of whoever runs the tests.
    pub(crate) fn wall(&self, run_dir: &RunDir) -> Wall {
        let mut wall = Wall::new(Profile::Workspace, self.project(), run_dir.temp_dir());
        wall.tier = Some(self.tier);
        wall.home = std::env::var_os("HOME").map(PathBuf::from);
        wall.read = vec![self.stage.program.clone()];
        wall
    }

    /// Runs a program without network.
    pub(crate) fn run(&self, program: &[&str]) -> Result<Output> {
        self.run_with(|_| {}, None, program)
    }

    /// Runs a shell script without network, which must succeed, and returns its output.
    pub(crate) fn script(&self, script: &str) -> Result<String> {
        let output = self.run(&["sh", "-euc", script])?;
        said(&output)
    }

    /// Runs a program within a wall that was changed, with an egress process.
    pub(crate) fn run_with(
        &self,
        change: impl FnOnce(&mut Wall),
        egress: Option<EgressOptions>,
        program: &[&str],
    ) -> Result<Output> {
        let run_dir = RunDir::new()?;
        let mut wall = self.wall(&run_dir);
        change(&mut wall);
        let runtime = runtime()?;
        if let Some(options) = egress {
            let _within = runtime.enter();
            let egress = match self.tier {
                Tier::Full => Egress::listen_inside(options, &run_dir.path().join("egress"))?,
                Tier::Landlock => runtime.block_on(Egress::listen_here(options))?,
            };
            wall.doors = egress.doors().clone();
            runtime.spawn(egress.run(std::future::pending()));
        }
        let planned = plan(&wall, &self.machine)?;
        let file = run_dir.put(&planned)?;
        let (program, arguments) = program.split_first().context("a program")?;
        let mut command = self.stage.command(&file, program.as_ref());
        let output = command.args(arguments).stdin(std::process::Stdio::null()).output()?;
        runtime.shutdown_background();
        Ok(output)
    }
}

/// A runtime for an egress process.
pub(crate) fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()
}

/// The output of a program that must have succeeded.
pub(crate) fn said(output: &Output) -> Result<String> {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    anyhow::ensure!(output.status.success(), "{}: {out}{err}", output.status);
    Ok(out.into_owned())
}

/// What an egress process serves that lets these hosts through.
pub(crate) fn hosts(hosts: &[&str], model: Option<ModelApi>) -> Result<EgressOptions> {
    let hosts = hosts.iter().map(|host| host.parse()).collect::<Result<_, _>>()?;
    let decider = Arc::new(ListedHosts(hosts));
    Ok(EgressOptions {
        decider: Some(decider),
        model,
        bounds: Bounds::default(),
        server: None,
        upstream: None,
    })
}
