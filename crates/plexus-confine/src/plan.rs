//! A wall for this machine: every path canonical, every list complete, nothing left to decide.
//!
//! [`plan`] looks at the file system and changes nothing. [`Plan::prepare`] makes the files that
//! the plan needs in the run's temporary directory. The stage reads the plan from a file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::guard::{Mask, Place};
use crate::machine::{CannotBuild, Machine, Tier};
use crate::profile::{DEVICES, SECRETS_OF_THE_SYSTEM, SYSTEM, TERMINALS, TOOL_CHAINS};
use crate::wall::{Doors, Profile, Wall};
use crate::{environment, git, guard};

/// What the stage builds. All paths are absolute and without links.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The mechanisms.
    pub tier: Tier,
    /// The profile that it was made from.
    pub profile: Profile,
    /// The program starts here.
    pub working_dir: PathBuf,
    /// May be read and executed.
    pub read: BTreeSet<PathBuf>,
    /// May be read, executed and written.
    pub write: BTreeSet<PathBuf>,
    /// May be read, written and controlled.
    pub devices: BTreeSet<PathBuf>,
    /// Below `write`, and not to be changed. The full tier mounts those that exist read-only.
    pub protect: BTreeSet<PathBuf>,
    /// Those of them that the full tier makes where nothing is, so that the program cannot. A plan
    /// of an earlier release has none.
    #[serde(default)]
    pub(crate) masks: BTreeMap<PathBuf, Mask>,
    /// Below `read`, and empty inside. Full tier only; the landlock tier lists around them.
    pub hide: BTreeSet<PathBuf>,
    /// Names that are links, and what they lead to.
    pub links: BTreeMap<PathBuf, PathBuf>,
    /// What the ring hides in a directory that the program may write as a whole: mounted
    /// elsewhere, with a link in its place. Full tier only. A plan of an earlier release has none.
    #[serde(default)]
    pub apart: BTreeSet<PathBuf>,
    /// The run's temporary directory. The program sees `tmp` of it, in the full tier as `/tmp`.
    pub temp_dir: PathBuf,
    /// The ports to the egress process.
    pub doors: Doors,
    /// The words that start the egress process, which the stage does before everything else and
    /// instead of connecting to a socket. Its stdin is a connection to the stage, on which it takes
    /// over the listeners ([`crate::egress::Egress::take_over`]) or says why it does not. It gets
    /// the variables that this program does not.
    pub egress: Option<Vec<String>>,
    /// Variables for the program.
    pub variables: BTreeMap<String, String>,
    /// Variables that the program does not get, because they hold the real key.
    pub withheld: BTreeSet<String>,
    /// The variable from which the program takes the address of its model's API.
    pub model_variable: Option<String>,
    /// Directories that look writable, while changes go into the second directory. Full tier only.
    pub layers: BTreeMap<PathBuf, PathBuf>,
    /// The working directory is such a layer, and all processes end with the first.
    pub is_dry_run: bool,
    /// The most bytes of one file that the program may write. A plan of an earlier release has no
    /// limit.
    #[serde(default)]
    pub(crate) max_file_bytes: Option<u64>,
    /// Files that are copied into the temporary directory: git's configuration.
    pub copies: Vec<(PathBuf, PathBuf)>,
    /// Links that are made in the temporary directory, name and target: cargo's home.
    pub cache_links: BTreeMap<PathBuf, PathBuf>,
    /// What this wall does not prevent, for the person who decides.
    pub gaps: Vec<String>,
}

/// Why a wall cannot be planned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The profile `none` is not a wall.
    #[error("the profile none builds no wall; start the program without one")]
    NoWall,
    /// This machine cannot build it.
    #[error("this machine cannot build the wall: {0}")]
    Machine(#[from] CannotBuild),
    /// A path that was named is missing or cannot be looked at.
    #[error("{role} {}: {source}", path.display())]
    Path {
        /// What the path is for.
        role: &'static str,
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// A path that was named would open more than it says.
    #[error("{role} {}: {reason}", path.display())]
    TooMuch {
        /// What the path is for.
        role: &'static str,
        /// The path.
        path: PathBuf,
        /// Why it is refused, with the next step.
        reason: &'static str,
    },
    /// `strict` reaches the model only.
    #[error("the profile strict has no proxy and no hosts; use workspace, or leave the hosts out")]
    HostsInStrict,
}

/// Makes the plan of a wall for this machine.
///
/// # Errors
/// When the machine cannot build it, or a path that the caller named is missing or would open too
/// much. Paths of the profile that do not exist are skipped.
pub fn plan(wall: &Wall, machine: &Machine) -> Result<Plan, PlanError> {
    if wall.profile == Profile::None {
        return Err(PlanError::NoWall);
    }
    if wall.profile == Profile::Strict && (wall.doors.proxy.is_some() || !wall.hosts.is_empty()) {
        return Err(PlanError::HostsInStrict);
    }
    let tier = machine.choose(wall.tier)?;
    let home = wall.home.as_deref().and_then(|home| home.canonicalize().ok());
    let working_dir = writable(&wall.working_dir, "working directory", home.as_deref())?;
    if !working_dir.is_dir() {
        let source = io::ErrorKind::NotADirectory.into();
        return Err(PlanError::Path { role: "working directory", path: working_dir, source });
    }
    let temp_dir = named(&wall.temp_dir, "temporary directory")?;
    let mut plan = Plan {
        tier,
        profile: wall.profile,
        read: BTreeSet::new(),
        write: BTreeSet::from([working_dir.clone()]),
        devices: BTreeSet::new(),
        protect: BTreeSet::new(),
        masks: BTreeMap::new(),
        hide: BTreeSet::new(),
        links: BTreeMap::new(),
        apart: BTreeSet::new(),
        temp_dir,
        doors: wall.doors.clone(),
        egress: None,
        variables: BTreeMap::new(),
        withheld: BTreeSet::new(),
        model_variable: None,
        layers: BTreeMap::new(),
        is_dry_run: false,
        max_file_bytes: None,
        copies: Vec::new(),
        cache_links: BTreeMap::new(),
        gaps: machine.gaps(tier).into_iter().map(str::to_owned).collect(),
        working_dir,
    };
    plan.guard(guard::places_of_project(&plan.working_dir));
    for path in &wall.write {
        let path = writable(path, "writable path", home.as_deref())?;
        plan.guard(guard::places_of_project(&path));
        plan.write.insert(path);
    }
    // A path that the operator lists as writable is writable, even where a guard would protect it.
    let listed = plan.write.clone();
    let is_listed = |place: &PathBuf| listed.iter().any(|path| path.starts_with(place));
    plan.protect.retain(|place| !is_listed(place));
    plan.masks.retain(|place, _| !is_listed(place));
    for dir in git::directories(&plan.working_dir) {
        plan.guard(guard::places_of_git(&dir));
        plan.write.insert(dir);
    }
    let files = [Some(plan.temp_dir.clone()), wall.doors.socket.clone()];
    for path in files.into_iter().flatten() {
        if plan.write.iter().any(|root| path.starts_with(root)) {
            let reason = "the program could change it; set TMPDIR to a directory elsewhere";
            return Err(PlanError::TooMuch { role: "file of the wall", path, reason });
        }
    }
    for path in &wall.read {
        plan.add_read(&named(path, "readable path")?, path);
    }
    plan.add_profile(home.as_deref());
    plan.drop_what_is_covered();
    // A layer is what a dry run is made of.
    let can_layer = tier == Tier::Full && machine.dry_run.is_none();
    environment::add(&mut plan, home.as_deref(), can_layer);
    Ok(plan)
}

/// A path that the caller named: it must exist.
fn named(path: &Path, role: &'static str) -> Result<PathBuf, PlanError> {
    path.canonicalize().map_err(|source| PlanError::Path { role, path: path.to_owned(), source })
}

/// A path that the caller wants writable: it must exist, and must not contain the home directory
/// or the system.
fn writable(path: &Path, role: &'static str, home: Option<&Path>) -> Result<PathBuf, PlanError> {
    let path = named(path, role)?;
    let refused = |reason| PlanError::TooMuch { role, path: path.clone(), reason };
    if home.is_some_and(|home| home.starts_with(&path)) {
        return Err(refused("it contains the home directory; name a directory below it"));
    }
    let is_system = |system: &str| {
        let system = Path::new(system);
        let is_kernels = matches!(system.to_str(), Some("/proc" | "/sys" | "/etc"));
        system.starts_with(&path) || (is_kernels && path.starts_with(system))
    };
    if path.starts_with("/dev") || SYSTEM.iter().any(|system| is_system(system)) {
        return Err(refused("it belongs to the system; name a directory of your own"));
    }
    Ok(path)
}

impl Plan {
    /// Adds places to protect.
    fn guard(&mut self, places: Vec<Place>) {
        let masks = places.iter().filter_map(|place| Some((place.path.clone(), place.mask?)));
        self.masks.extend(masks);
        self.protect.extend(places.into_iter().map(|place| place.path));
    }

    fn add_profile(&mut self, home: Option<&Path>) {
        let sees_secrets = sees_secrets();
        for system in SYSTEM.iter().map(Path::new) {
            let Ok(path) = system.canonicalize() else { continue };
            if sees_secrets && system == Path::new("/etc") && self.tier == Tier::Landlock {
                around(&path, &mut self.read);
            } else {
                self.add_read(&path, system);
            }
        }
        if sees_secrets && self.tier == Tier::Full {
            let secrets =
                SECRETS_OF_THE_SYSTEM.iter().filter_map(|p| Path::new(p).canonicalize().ok());
            self.hide.extend(secrets);
        }
        let tools = match self.profile {
            Profile::Workspace => TOOL_CHAINS,
            Profile::None | Profile::Strict => &[],
        };
        for path in home.iter().flat_map(|home| tools.iter().map(|name| home.join(name))) {
            if let Ok(found) = path.canonicalize() {
                self.add_read(&found, &path);
            }
        }
        self.devices.extend(DEVICES.iter().map(PathBuf::from).filter(|path| path.exists()));
        // The full tier has terminals of its own.
        if self.tier == Tier::Landlock && self.profile == Profile::Workspace {
            self.devices.extend(TERMINALS.iter().map(PathBuf::from).filter(|path| path.exists()));
        }
    }

    /// Adds a path, and the name that leads to it when that is a link.
    fn add_read(&mut self, path: &Path, name: &Path) {
        let name = std::path::absolute(name).unwrap_or_else(|_| name.to_owned());
        if name != path {
            self.links.insert(name, path.to_owned());
        }
        self.read.insert(path.to_owned());
    }

    /// A path below another one of the same kind adds nothing, nor does one below a writable one.
    fn drop_what_is_covered(&mut self) {
        let below = |path: &Path, roots: &BTreeSet<PathBuf>| {
            path.ancestors().skip(1).any(|above| roots.contains(above))
        };
        let (read, write) = (self.read.clone(), self.write.clone());
        self.write.retain(|path| !below(path, &write));
        // A readable path below a writable one stays writable: to protect it is the guard's work.
        self.read
            .retain(|path| !below(path, &read) && !below(path, &write) && !write.contains(path));
    }

    /// Makes the files that the plan needs in the temporary directory.
    ///
    /// # Errors
    /// When they cannot be made.
    pub fn prepare(&self) -> io::Result<()> {
        environment::prepare(self)
    }

    /// Writes the plan for the stage, readable by this user alone.
    ///
    /// # Errors
    /// When the file exists or cannot be written, or a path is not text.
    pub fn write_to(&self, file: &Path) -> io::Result<()> {
        let text = serde_json::to_vec(self)?;
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
        file.write_all(&text)
    }

    /// Returns where the program sees its temporary directory.
    #[must_use]
    pub fn temp_inside(&self) -> PathBuf {
        match self.tier {
            Tier::Full => "/tmp".into(),
            Tier::Landlock => self.temp_dir.join("tmp"),
        }
    }
}

/// Whether this user could read what belongs to root: as root, or by a group. `/etc/ssh` is open to
/// everybody but for the keys in it.
fn sees_secrets() -> bool {
    use rustix::fs::{Access, access};
    let mut secrets = SECRETS_OF_THE_SYSTEM.iter().filter(|path| **path != "/etc/ssh");
    rustix::process::geteuid().is_root()
        || secrets.any(|path| access(*path, Access::READ_OK).is_ok())
}

/// Everything in a directory of the system but the secrets, for a mechanism that can only add.
fn around(dir: &Path, read: &mut BTreeSet<PathBuf>) {
    let is_secret = |path: &Path| SECRETS_OF_THE_SYSTEM.iter().any(|s| path == Path::new(s));
    let holds_secret =
        |path: &Path| SECRETS_OF_THE_SYSTEM.iter().any(|s| Path::new(s).starts_with(path));
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(target) = path.canonicalize() else { continue };
        // A link may lead out of the directory: then the profile says whether it may be read.
        if is_secret(&target) || !target.starts_with("/etc") {
            continue;
        }
        if holds_secret(&target) {
            around(&target, read);
        } else {
            read.insert(target);
        }
    }
}
