//! What a caller asks for: a profile and the paths and hosts that this program needs beyond it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::egress::HostPattern;
use crate::machine::Tier;

/// How tightly a program is confined. The order goes from loose to tight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// No wall.
    None,
    /// Reads the system and the user's tool chains, writes the working directory, reaches the
    /// listed hosts.
    Workspace,
    /// Reads the system, writes the working directory, reaches the model and nothing else.
    Strict,
}

impl Profile {
    /// Returns the profile of a child that asks for `wanted` below a parent with this profile. A
    /// child that asks for nothing gets its parent's profile.
    ///
    /// # Errors
    /// When the child asks for a looser profile than its parent has.
    pub fn for_child(self, wanted: Option<Self>) -> Result<Self, LooserThanParent> {
        let wanted = wanted.unwrap_or(self);
        if wanted < self {
            return Err(LooserThanParent::Profile { parent: self, wanted });
        }
        Ok(wanted)
    }
}

impl std::fmt::Display for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Workspace => "workspace",
            Self::Strict => "strict",
        })
    }
}

/// A wall, as plain data.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wall {
    /// The lists of paths and the kind of network.
    pub profile: Profile,
    /// The tier that must hold. Without one, the best tier of this machine.
    #[serde(default)]
    pub tier: Option<Tier>,
    /// The program works here and may write here.
    pub working_dir: PathBuf,
    /// A directory for this run alone, readable by nobody else. The program's temporary files and
    /// package caches go there. The caller makes it and removes it.
    pub temp_dir: PathBuf,
    /// The user's home directory: tool chains and git's configuration are found from it.
    #[serde(default)]
    pub home: Option<PathBuf>,
    /// Further directories or files that may be written: added directories, and a configuration
    /// directory of the session's own.
    #[serde(default)]
    pub write: Vec<PathBuf>,
    /// Further directories or files that may be read and executed.
    #[serde(default)]
    pub read: Vec<PathBuf>,
    /// The hosts that the egress process lets through without asking.
    #[serde(default)]
    pub hosts: Vec<HostPattern>,
    /// Where the egress process listens. Without doors there is no network.
    #[serde(default)]
    pub doors: Doors,
}

impl Wall {
    /// Describes a wall without additions.
    #[must_use]
    pub fn new(
        profile: Profile,
        working_dir: impl Into<PathBuf>,
        temp: impl Into<PathBuf>,
    ) -> Self {
        Self {
            profile,
            tier: None,
            working_dir: working_dir.into(),
            temp_dir: temp.into(),
            home: None,
            write: Vec::new(),
            read: Vec::new(),
            hosts: Vec::new(),
            doors: Doors::default(),
        }
    }

    /// Checks that this wall, of a child, is nowhere looser than the wall of its parent.
    ///
    /// Paths are compared as they are written: both walls must name canonical paths.
    ///
    /// # Errors
    /// The first thing that the child would have and its parent has not.
    pub fn check_within(&self, parent: &Self) -> Result<(), LooserThanParent> {
        parent.profile.for_child(Some(self.profile))?;
        if parent.profile == Profile::None {
            return Ok(());
        }
        if let (Some(theirs), ours) = (parent.tier, self.tier)
            && ours.is_none_or(|ours| ours < theirs)
        {
            return Err(LooserThanParent::Tier { parent: theirs });
        }
        let may_write = |path: &Path| {
            let mut roots = parent.write.iter().chain([&parent.working_dir]);
            is_plain(path) && roots.any(|root| path.starts_with(root))
        };
        let may_read = |path: &Path| {
            is_plain(path)
                && (may_write(path) || parent.read.iter().any(|root| path.starts_with(root)))
        };
        if let Some(path) = self.write.iter().chain([&self.working_dir]).find(|p| !may_write(p)) {
            return Err(LooserThanParent::Write { path: path.clone() });
        }
        if let Some(path) = self.read.iter().find(|path| !may_read(path)) {
            return Err(LooserThanParent::Read { path: path.clone() });
        }
        let is_known = |host: &&HostPattern| parent.hosts.iter().any(|known| known.covers(host));
        match self.hosts.iter().find(|host| !is_known(host)) {
            Some(host) => Err(LooserThanParent::Host { host: host.to_string() }),
            None => Ok(()),
        }
    }
}

/// `..` in a path would lead out of the directory that it starts with.
fn is_plain(path: &Path) -> bool {
    !path.components().any(|part| matches!(part, std::path::Component::ParentDir))
}

/// The ports on the program's loopback at which the egress process listens.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Doors {
    /// The HTTP proxy.
    #[serde(default)]
    pub proxy: Option<u16>,
    /// The model's API.
    #[serde(default)]
    pub model: Option<u16>,
    /// A server on this machine that the program may call, by its port.
    #[serde(default)]
    pub server: Option<u16>,
    /// The Unix socket at which the egress process takes over listeners that the stage made: in the
    /// program's own network, or in the landlock tier on free ports of this machine. Without one
    /// the stage starts the egress process, or it already listens on this machine.
    #[serde(default)]
    pub socket: Option<PathBuf>,
}

impl Doors {
    /// Returns the ports, the proxy's first.
    pub fn ports(&self) -> impl Iterator<Item = u16> {
        self.proxy.into_iter().chain(self.model).chain(self.server)
    }
}

/// A child asked for more than its parent has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LooserThanParent {
    /// The profile is looser.
    #[error("the profile {wanted} is looser than {parent}, the parent's")]
    Profile {
        /// The parent's profile.
        parent: Profile,
        /// The profile that the child asked for.
        wanted: Profile,
    },
    /// The tier is weaker, or not promised.
    #[error("the parent's wall has the tier {parent}, and the child's would be weaker")]
    Tier {
        /// The parent's tier.
        parent: Tier,
    },
    /// The parent may not write there.
    #[error("the parent may not write {}", path.display())]
    Write {
        /// The path.
        path: PathBuf,
    },
    /// The parent may not read there.
    #[error("the parent may not read {}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
    },
    /// The parent may not reach that host.
    #[error("the parent may not reach {host}")]
    Host {
        /// The host, as it was listed.
        host: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_never_gets_a_looser_profile_than_its_parent() {
        use Profile::{None, Strict, Workspace};
        for (parent, wanted, expected) in [
            (None, Option::None, Ok(None)),
            (None, Some(Strict), Ok(Strict)),
            (Workspace, Option::None, Ok(Workspace)),
            (Workspace, Some(None), Err(())),
            (Workspace, Some(Strict), Ok(Strict)),
            (Strict, Option::None, Ok(Strict)),
            (Strict, Some(Workspace), Err(())),
            (Strict, Some(None), Err(())),
        ] {
            let got = parent.for_child(wanted).map_err(|_| ());
            assert_eq!(got, expected, "{parent} -> {wanted:?}");
        }
    }

    fn parent() -> Wall {
        let mut wall = Wall::new(Profile::Workspace, "/w/project", "/t/parent");
        wall.read.push("/data/books".into());
        wall.hosts.push("*.example.org".parse().unwrap());
        wall
    }

    #[test]
    fn a_childs_wall_stays_within_its_parents() {
        let mut same = parent();
        same.working_dir = "/w/project/part".into();
        same.hosts = vec!["a.example.org".parse().unwrap()];
        same.read = vec!["/data/books/one".into(), "/w/project/other".into()];
        assert_eq!(same.check_within(&parent()), Ok(()));

        let with = |change: &dyn Fn(&mut Wall)| {
            let mut wall = parent();
            change(&mut wall);
            wall.check_within(&parent()).unwrap_err().to_string()
        };
        assert_eq!(
            with(&|wall| wall.write.push("/w/projects".into())),
            "the parent may not write /w/projects"
        );
        assert_eq!(
            with(&|wall| wall.write.push("/w/project/../other".into())),
            "the parent may not write /w/project/../other"
        );
        assert_eq!(with(&|wall| wall.read.push("/data".into())), "the parent may not read /data");
        assert_eq!(
            with(&|wall| wall.hosts.push("example.org".parse().unwrap())),
            "the parent may not reach example.org"
        );
        let mut full = parent();
        full.tier = Some(Tier::Full);
        assert!(matches!(parent().check_within(&full), Err(LooserThanParent::Tier { .. })));
        assert_eq!(full.check_within(&parent()), Ok(()));
    }
}
