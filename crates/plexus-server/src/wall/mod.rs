//! The walls of this machine, as the engine asks for them.
//!
//! In reading order: this file chooses what a wall lets through and writes its files;
//! [`config_dir`] makes the directory in which a confined agent keeps its configuration; [`egress`]
//! is the process that is all of the agent's network, and [`guard`] stands beside it; [`preview`]
//! shows what a dry run changed.

mod config_dir;
pub(crate) mod egress;
mod guard;
pub(crate) mod preview;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use plexus_confine::egress::{ApiKey, HostPattern};
use plexus_confine::guard::{Watch, places};
use plexus_confine::{Doors, Machine, Plan, Profile, StageProgram, Tier, Wall, dry_run, plan};
use plexus_engine::session::SessionConfig;
use plexus_engine::wall::{ModelDoor, NoWall, Offer, Site, Stage, Trial, WallNeeds, Walls};
use plexus_wire::{Confine, Previewed};

use self::egress::{EgressFile, ModelFile};

/// The file with the state of what programs outside run, as it was when the run started.
const WATCHED: &str = "watched";
/// The shell that reads a command in a dry run, as agents use it.
const SHELL: &str = "bash";

/// Builds walls with the mechanisms of this machine.
#[derive(Debug)]
pub struct MachineWalls {
    stage: StageProgram,
    /// Found out by building each wall, once that has told.
    machine: OnceLock<Machine>,
    /// The tier that must hold; without one, the best of this machine.
    wanted: Option<Tier>,
    /// The server's directory, which no wall may open.
    data_dir: PathBuf,
    /// What the operator lets every wall read.
    read: Vec<PathBuf>,
    /// The hosts that the operator lets every wall reach.
    hosts: Vec<HostPattern>,
}

impl MachineWalls {
    /// Builds walls with this very program as their stage.
    ///
    /// # Errors
    /// When the program's own file cannot be found.
    pub fn new(
        data_dir: impl Into<PathBuf>,
        wanted: Option<Tier>,
        read: Vec<PathBuf>,
        hosts: Vec<HostPattern>,
    ) -> io::Result<Self> {
        let (stage, data_dir) = (StageProgram::this()?, data_dir.into());
        Ok(Self { stage, machine: OnceLock::new(), wanted, data_dir, read, hosts })
    }

    fn machine(&self) -> Result<&Machine, NoWall> {
        if let Some(machine) = self.machine.get() {
            return Ok(machine);
        }
        let machine = plexus_confine::probe(&self.stage).map_err(|error| {
            NoWall::Unknown(format!("could not {error}; next: mend that, and try again"))
        })?;
        plexus_confine::sweep();
        Ok(self.machine.get_or_init(|| machine))
    }

    fn tier(&self) -> Result<Tier, NoWall> {
        self.machine()?.choose(self.wanted).map_err(no_wall)
    }

    /// The tier for an agent that must be able to work within it.
    fn tier_for(&self, needs: &WallNeeds) -> Result<Tier, NoWall> {
        match self.tier()? {
            Tier::Landlock if needs.listens => Err(NoWall::Refused(
                "this agent serves itself on a port, which the tier landlock lets nobody do; next: \
                 run it where the tier full works (plexus doctor says why it does not), or create \
                 it with confine none"
                    .into(),
            )),
            tier => Ok(tier),
        }
    }

    /// What every run of a session may read and write, without what is its agent's own.
    fn wall_of(&self, config: &SessionConfig, temp_dir: &Path) -> Result<Wall, NoWall> {
        check_read(&self.read)?;
        let mut wall = Wall::new(profile_of(config.confine)?, &config.working_dir, temp_dir);
        wall.tier = Some(self.tier()?);
        wall.home = config.home();
        wall.write.clone_from(&config.add_dirs);
        wall.read.clone_from(&self.read);
        Ok(wall)
    }

    fn plan(&self, wall: &Wall) -> Result<Plan, NoWall> {
        let planned = plan(wall, self.machine()?).map_err(no_wall)?;
        let data = self.data_dir.canonicalize().unwrap_or_else(|_| self.data_dir.clone());
        let opens = |root: &&PathBuf| data.starts_with(root);
        match planned.read.iter().chain(&planned.write).find(opens) {
            Some(root) => Err(NoWall::Refused(format!(
                "the server's own data directory lies in {}, which is open within the wall; next: \
                 start the server with another --data-dir",
                root.display()
            ))),
            None => Ok(planned),
        }
    }

    /// Chooses the doors of a run, and writes down what the egress process serves.
    fn open_doors(&self, site: &Site<'_>, dir: &Path, tier: Tier) -> Result<Network, NoWall> {
        let login_hosts = site.needs.login_hosts.as_slice();
        let key = site.needs.model.and_then(|model| Some((model, key_in(&model, site.env)?)));
        let (model, hosts) = match (&key, site.config.confine) {
            (Some((door, variable)), _) => (Some(model_file(door, variable, site.env)?), &[][..]),
            (None, Confine::Strict) => return Err(NoWall::Refused(strict_needs_a_key(site.needs))),
            (None, Confine::None | Confine::Workspace) => (None, login_hosts),
        };
        let proxy = site.config.confine == Confine::Workspace;
        let listed = hosts.iter().map(|host| host.parse()).collect::<Result<Vec<_>, _>>();
        let mut hosts = listed.map_err(no_wall)?;
        if proxy {
            hosts.extend(self.hosts.iter().cloned());
        }
        let server = site.server.as_deref().map(port_of).transpose()?;
        let doors = Doors {
            proxy: proxy.then_some(egress::PROXY_DOOR),
            model: model.as_ref().map(|_| egress::MODEL_DOOR),
            server,
            // The stage starts the egress process and needs no name for it.
            socket: None,
        };
        let file = EgressFile {
            dir: dir.to_owned(),
            data_dir: site.data_dir.to_owned(),
            proxy,
            hosts,
            asks_with: site.asks_with.as_ref().map(|token| token.expose().to_owned()),
            // In the landlock tier the program reaches this machine's port itself.
            server: server.filter(|_| tier == Tier::Full),
            model,
        };
        Ok(Network { doors, key, file })
    }
}

/// What is particular to the second ring, around each command.
struct Ring {
    hidden: Vec<PathBuf>,
    read: Vec<PathBuf>,
}

/// How a run reaches the network.
struct Network {
    doors: Doors,
    key: Option<(ModelDoor, &'static str)>,
    file: EgressFile,
}

impl Walls for MachineWalls {
    fn offer(&self, profile: Confine, needs: Option<&WallNeeds>) -> Result<Offer, NoWall> {
        profile_of(profile)?;
        let tier = needs.map_or_else(|| self.tier(), |needs| self.tier_for(needs))?;
        let words = |list: Vec<&'static str>| list.into_iter().map(str::to_owned).collect();
        Ok(Offer {
            tier: tier.to_string(),
            enforced: words(self.machine()?.enforced(tier)),
            gaps: words(self.machine()?.gaps(tier)),
        })
    }

    fn check(&self, config: &SessionConfig, needs: &WallNeeds) -> Result<(), NoWall> {
        self.tier_for(needs)?;
        let wall = self.wall_of(config, &self.data_dir)?;
        self.plan(&wall).map(drop)
    }

    fn build(&self, site: &Site<'_>) -> Result<Stage, NoWall> {
        let dir = plexus_engine::wall::files_of(site.run_dir);
        let temp = dir.join("temp");
        make_dir(&temp).map_err(|error| at(&temp, &error))?;
        let mut wall = self.wall_of(site.config, &temp)?;
        // An agent with a home directory of ours still has the tool chains of the user's.
        if site.home.is_none() {
            wall.home = site.env.get(OsStr::new("HOME")).map(PathBuf::from);
        }
        let tier = self.tier_for(site.needs)?;
        let network = self.open_doors(site, &dir, tier)?;
        wall.doors = network.doors;
        wall.read.extend(site.files.iter().cloned());
        let program = program_of(&site.program.program, site.env)?;
        wall.read.extend(home_of(&program, wall.home.as_deref()));
        let mut env: BTreeMap<OsString, OsString> = BTreeMap::new();
        // The agent's own way to this server, with a token, is not its commands'.
        let mut ring = Ring { hidden: site.files.clone(), read: Vec::new() };
        let made = match (&site.needs.config, site.home) {
            (Some(needs), _) => Some(config_dir::prepare(needs, site, wall.home.as_deref())),
            (None, home) => home.map(|home| config_dir::open_home(home, site)),
        };
        if let Some(made) = made.transpose().map_err(|error| at(&site.config_dir, &error))? {
            ring.hidden.extend(made.write.iter().chain([&made.dir]).cloned());
            ring.read = made.commands_read;
            wall.read.extend(made.read);
            wall.write.extend(made.write);
            let variable = site.needs.config.as_ref().map(|config| config.variable);
            env.extend(variable.map(|name| (name.into(), made.dir.clone().into())));
            // Settings of agents are protected where programs outside obey them. In a home
            // directory of ours they are this agent's own, of this session alone.
            if site.needs.config.is_none() {
                let own = places(&made.dir).into_iter().filter(|place| is_really_there(place));
                let own: Vec<_> = own.collect();
                ring.hidden.extend(own.iter().cloned());
                wall.write.extend(own);
            }
            wall.write.push(made.dir);
        }
        env.extend(site.needs.env.iter().map(|(name, value)| (name.into(), value.into())));
        let inside = dir.join("inside");
        if site.needs.shell_prefix.is_some() {
            make_dir(&inside).map_err(|error| at(&inside, &error))?;
            wall.read.extend([inside.clone(), self.stage.program.clone()]);
        }
        let mut planned = self.plan(&wall)?;
        if let Some((door, variable)) = network.key {
            let keys = door.keys.iter().map(|name| (*name).to_owned());
            planned.withheld = keys.chain([door.address.to_owned()]).collect();
            planned.model_variable = Some(door.address.to_owned());
            let stand_in = network.file.model.as_ref().map(|model| model.stand_in.clone());
            planned.variables.extend(stand_in.map(|value| (variable.to_owned(), value)));
        }
        if let Some(variable) = site.needs.shell_prefix {
            planned.keep_apart(&ring.hidden).map_err(no_wall)?;
            let ring = planned.ring(&ring.hidden, &ring.read);
            let shell = ring.write_ring(&inside, &self.stage.program);
            let shell = shell.map_err(|error| at(&inside, &error))?;
            env.insert(variable.into(), shell.into());
        }
        let serves = network.file.write().map_err(|error| at(&dir, &error))?;
        planned.egress = Some(self.egress_words(&serves)?);
        planned.prepare().map_err(|error| at(&temp, &error))?;
        let file = dir.join("plan");
        planned.write_to(&file).map_err(|error| at(&file, &error))?;
        let data = self.data_dir.canonicalize().unwrap_or_else(|_| self.data_dir.clone());
        let is_theirs = |path: &&PathBuf| !path.starts_with(&data);
        let theirs: Vec<_> = planned.write.iter().filter(is_theirs).cloned().collect();
        let watched = dir.join(WATCHED);
        let watch = serde_json::to_vec(&Watch::begin(&theirs)).map_err(no_wall)?;
        std::fs::write(&watched, watch).map_err(|error| at(&watched, &error))?;
        let mut args = self.stage.arguments.clone();
        args.extend([file.into_os_string(), "--".into(), program.into_os_string()]);
        Ok(Stage { program: self.stage.program.clone(), args, env })
    }

    fn changed_outside(&self, run_dir: &Path) -> Vec<PathBuf> {
        let file = plexus_engine::wall::files_of(run_dir).join(WATCHED);
        let watch = std::fs::read(file).ok().and_then(|text| serde_json::from_slice(&text).ok());
        watch.map_or_else(Vec::new, |watch: Watch| watch.changed())
    }

    fn preview(&self, trial: &Trial) -> Result<Previewed, NoWall> {
        let wall = self.wall_of(&trial.config, &self.data_dir)?;
        // For its check that the wall does not open the server's own files.
        self.plan(&wall)?;
        let words = [SHELL, "-c", &trial.command].map(OsString::from);
        let program = dry_run::Program {
            words: &words,
            env: Some(&trial.env),
            start_in: trial.start_in.as_deref(),
        };
        let ran = dry_run::run(&self.stage, self.machine()?, &wall, &program, preview::LIMITS);
        ran.map(preview::shown).map_err(no_wall)
    }

    fn key(&self, needs: &WallNeeds, has: &dyn Fn(&str) -> bool) -> String {
        let outside = |model: &ModelDoor| model.keys.iter().any(|name| has(name));
        let words = if needs.model.as_ref().is_some_and(outside) {
            "outside the wall: the agent has a stand-in that is worthless elsewhere"
        } else if needs.shell_prefix.is_some() {
            "within the wall: the agent keeps its login itself; its commands cannot read it"
        } else {
            "within the wall: the agent keeps its login or key itself, and its commands can read it"
        };
        words.into()
    }
}

impl MachineWalls {
    fn egress_words(&self, file: &Path) -> Result<Vec<String>, NoWall> {
        let words =
            [self.stage.program.as_path(), Path::new("confine"), Path::new(egress::START), file];
        let text = |path: &Path| {
            let text = path.to_str().map(str::to_owned);
            text.ok_or_else(|| NoWall::Refused(format!("the path {} is not text", path.display())))
        };
        words.into_iter().map(text).collect()
    }
}

/// Checks that what the operator lets every wall read is there. A wall without it would not be the
/// one that was configured.
pub(crate) fn check_read(read: &[PathBuf]) -> Result<(), NoWall> {
    match read.iter().find(|path| !path.exists()) {
        Some(path) => Err(NoWall::Refused(format!(
            "confine.read of plexus.toml names {}, which is not there; next: make it, or take it \
             out of plexus.toml",
            path.display()
        ))),
        None => Ok(()),
    }
}

fn no_wall(error: impl std::fmt::Display) -> NoWall {
    NoWall::Refused(error.to_string())
}

fn at(path: &Path, error: &dyn std::fmt::Display) -> NoWall {
    NoWall::Refused(format!("{}: {error}", path.display()))
}

fn profile_of(profile: Confine) -> Result<Profile, NoWall> {
    match profile {
        Confine::None => Err(NoWall::Refused("the profile none builds no wall".into())),
        Confine::Workspace => Ok(Profile::Workspace),
        Confine::Strict => Ok(Profile::Strict),
    }
}

/// Whether something is at a path itself, and not where a link leads.
fn is_really_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| !meta.is_symlink())
}

fn make_dir(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// The variable that holds the key of the model, if one does.
fn key_in(model: &ModelDoor, env: &BTreeMap<OsString, OsString>) -> Option<&'static str> {
    let is_set =
        |name: &&&'static str| env.get(OsStr::new(**name)).is_some_and(|value| !value.is_empty());
    model.keys.iter().find(is_set).copied()
}

fn model_file(
    door: &ModelDoor,
    variable: &'static str,
    env: &BTreeMap<OsString, OsString>,
) -> Result<ModelFile, NoWall> {
    let text = |name: &str| env.get(OsStr::new(name)).and_then(|value| value.to_str());
    let key = ApiKey::new(text(variable).unwrap_or_default());
    let stand_in = ApiKey::stand_in_for(&key).map_err(no_wall)?;
    let upstream = text(door.address).unwrap_or(door.default).to_owned();
    let stand_in = stand_in.reveal().to_owned();
    Ok(ModelFile { upstream, variable: variable.to_owned(), stand_in })
}

fn strict_needs_a_key(needs: &WallNeeds) -> String {
    match &needs.model {
        Some(model) => format!(
            "strict reaches the model alone, with a key that stays outside, and there is none; \
             next: set {}, or use workspace",
            model.keys.first().copied().unwrap_or("a key")
        ),
        None => "strict reaches the model alone, and this agent takes no address for it; next: \
                 use workspace"
            .into(),
    }
}

fn port_of(url: &str) -> Result<u16, NoWall> {
    let port = url::Url::parse(url).ok().and_then(|url| url.port_or_known_default());
    port.ok_or_else(|| NoWall::Refused(format!("{url} names no port")))
}

/// The agent's program, found as the shim would find it, without links.
fn program_of(program: &Path, env: &BTreeMap<OsString, OsString>) -> Result<PathBuf, NoWall> {
    let found = if program.components().count() > 1 {
        program.canonicalize().ok()
    } else {
        let path = env.get(OsStr::new("PATH")).cloned().unwrap_or_default();
        std::env::split_paths(&path).find_map(|dir| dir.join(program).canonicalize().ok())
    };
    found.ok_or_else(|| NoWall::Refused(format!("{} could not be found", program.display())))
}

/// What must be readable for a program to run: the packages that it was installed with, else the
/// directory that it lies in, else only itself.
fn home_of(program: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let packages = program.ancestors().filter(|dir| dir.ends_with("node_modules")).last();
    let dir = packages.or_else(|| program.parent())?;
    let opens_home = home.is_some_and(|home| home.starts_with(dir)) || dir.parent().is_none();
    Some(if opens_home { program.to_owned() } else { dir.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configured_path_that_is_not_there_is_named_with_the_next_step() {
        let why = check_read(&["/".into(), "/nowhere".into()]).unwrap_err().to_string();
        assert!(why.contains("names /nowhere, which is not there; next: make it"), "{why}");
        assert_eq!(check_read(&["/".into()]), Ok(()));
    }
}
