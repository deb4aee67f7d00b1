//! One column of the table: every attack within one wall, as the user that this process runs as.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use plexus_confine::egress::{Bounds, Egress, EgressOptions, ListedHosts};
use plexus_confine::{Machine, Profile, RunDir, StageProgram, Tier, Wall, plan};

use crate::fixture::{self, Fixture};
use crate::table::ATTACKS;

/// The longest that one attack may take.
const ATTACK_DEADLINE: Duration = Duration::from_secs(60);

/// A column: no wall, or a profile in a tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Column {
    Nothing,
    Wall(Profile, Tier),
}

impl Column {
    pub(crate) const ALL: [Self; 5] = [
        Self::Nothing,
        Self::Wall(Profile::Workspace, Tier::Landlock),
        Self::Wall(Profile::Strict, Tier::Landlock),
        Self::Wall(Profile::Workspace, Tier::Full),
        Self::Wall(Profile::Strict, Tier::Full),
    ];

    pub(crate) fn name(self) -> String {
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::Wall(profile, tier) => format!("{profile}_{tier}"),
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|column| column.name() == name)
    }
}

/// What came of one attack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Succeeded,
    Refused(String),
    /// Something that the attack needs is missing here.
    Untried(String),
}

/// Runs all attacks of a column.
pub(crate) fn run(column: Column, base: &Path) -> Result<BTreeMap<&'static str, Outcome>> {
    let stage = StageProgram::this()?;
    let machine = plexus_confine::probe(&stage)?;
    let mut outcomes = BTreeMap::new();
    for attack in ATTACKS {
        let outcome = try_one(attack.name, column, base, &stage, &machine)
            .with_context(|| format!("the attack {}", attack.name))?;
        outcomes.insert(attack.name, outcome);
    }
    Ok(outcomes)
}

fn try_one(
    name: &str,
    column: Column,
    base: &Path,
    stage: &StageProgram,
    machine: &Machine,
) -> Result<Outcome> {
    let helper = base.join("tools/attack");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let run_dir = RunDir::new()?;
    let egress = match column {
        Column::Wall(Profile::Workspace, tier) => Some(open_egress(tier, &run_dir, &runtime)?),
        Column::Wall(..) | Column::Nothing => None,
    };
    let doors = egress.as_ref().map(|egress| egress.doors().clone()).unwrap_or_default();
    let fixture = Fixture::new(name, base, doors.proxy.unwrap_or(0), run_dir.path())?;
    if let Some(egress) = egress {
        runtime.spawn(egress.run(std::future::pending()));
    }
    let mut command = match column {
        Column::Nothing => {
            std::fs::write(run_dir.path().join("plan"), "")?;
            fixture::greet_at(&run_dir.path().join("egress"))?;
            let mut command = Command::new(&helper);
            command.current_dir(fixture.work());
            command
        }
        Column::Wall(profile, tier) => {
            let mut wall = Wall::new(profile, fixture.work(), run_dir.temp_dir());
            wall.tier = Some(tier);
            wall.home = Some(fixture.home());
            wall.read = vec![base.join("tools")];
            wall.doors = doors;
            let planned = plan(&wall, machine)?;
            let file = run_dir.put(&planned)?;
            stage.command(&file, helper.as_os_str())
        }
    };
    command.arg(name).envs(fixture.variables.iter().map(|(name, value)| (name, value)));
    command.env(
        "COVER",
        if matches!(column, Column::Wall(_, Tier::Full)) { "/tmp" } else { "/nowhere" },
    );
    command.env("SUID_PROGRAM", base.join("tools/suid"));
    let outcome = match outcome_of(&mut command)? {
        Outcome::Succeeded if !fixture.confirms(name) => {
            Outcome::Refused("only in a place of its own".to_owned())
        }
        outcome => outcome,
    };
    runtime.shutdown_background();
    Ok(outcome)
}

fn open_egress(tier: Tier, run_dir: &RunDir, runtime: &tokio::runtime::Runtime) -> Result<Egress> {
    let hosts = ListedHosts(vec!["allowed.example.org".parse()?]);
    let options = EgressOptions {
        decider: Some(Arc::new(hosts)),
        model: None,
        bounds: Bounds::default(),
        server: None,
        upstream: None,
    };
    let _within = runtime.enter();
    Ok(match tier {
        Tier::Full => Egress::listen_inside(options, &run_dir.path().join("egress"))?,
        Tier::Landlock => runtime.block_on(Egress::listen_here(options))?,
    })
}

fn outcome_of(command: &mut Command) -> Result<Outcome> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begun.elapsed() > ATTACK_DEADLINE {
            child.kill()?;
            child.wait()?;
            anyhow::bail!("it did not end within {ATTACK_DEADLINE:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let mut said = String::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_string(&mut said)?;
    }
    if let Some(mut err) = child.stderr.take() {
        err.read_to_string(&mut said)?;
    }
    let said = said.trim().to_owned();
    match status.code() {
        Some(0) => Ok(Outcome::Succeeded),
        Some(1) => Ok(Outcome::Refused(said)),
        Some(3) => Ok(Outcome::Untried(said)),
        _ => anyhow::bail!("it ended with {status}: {said}"),
    }
}
