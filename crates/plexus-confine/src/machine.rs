//! The tiers, and what this machine can enforce, in words for the person who decides.

use serde::{Deserialize, Serialize};

/// The mechanisms that a wall is made of. The order goes from weak to strong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Landlock and seccomp: where no user namespace can be had, such as in a container.
    Landlock,
    /// User, mount, network and IPC namespaces, Landlock and seccomp.
    Full,
}

impl std::fmt::Display for Tier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Landlock => "landlock",
            Self::Full => "full",
        })
    }
}

/// The first Landlock ABI with a right for truncation (Linux 6.2). Below it a file that may not be
/// written can be emptied.
pub(crate) const ABI_OF_TRUNCATE: u8 = 3;
/// The first Landlock ABI that limits TCP (Linux 6.7). The landlock tier has nothing else for it.
pub(crate) const ABI_OF_TCP: u8 = 4;
/// The first Landlock ABI that keeps signals inside (Linux 6.12).
pub(crate) const ABI_OF_SIGNALS: u8 = 6;

/// What was found by trying: for each tier that it works, or why not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The newest Landlock ABI that both kernel and library know; 0 for none.
    pub landlock_abi: u8,
    /// Why the full tier cannot be built; `None` when it was built.
    pub full: Option<CannotBuild>,
    /// Why the landlock tier cannot be built; `None` when it was built.
    pub landlock: Option<CannotBuild>,
    /// Why a dry run cannot be made; `None` when it can.
    pub dry_run: Option<CannotBuild>,
}

/// Why a wall cannot be built here, and what to do about it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{missing}; next: {next}")]
pub struct CannotBuild {
    /// The words of the step that failed.
    pub missing: String,
    /// The next step.
    pub next: String,
}

impl Machine {
    /// One that can build everything: what a probe believes until it has tried.
    pub(crate) const ANY: Self =
        Self { landlock_abi: 0, full: None, landlock: None, dry_run: None };

    /// Returns the strongest tier that works here.
    #[must_use]
    pub fn best(&self) -> Option<Tier> {
        match (&self.full, &self.landlock) {
            (None, _) => Some(Tier::Full),
            (Some(_), None) => Some(Tier::Landlock),
            (Some(_), Some(_)) => None,
        }
    }

    /// Chooses the tier for a wall that asks for `wanted`, or for the best one.
    ///
    /// # Errors
    /// When it cannot be built here. Nothing weaker is chosen in its place.
    pub fn choose(&self, wanted: Option<Tier>) -> Result<Tier, CannotBuild> {
        let refusal = match wanted {
            Some(Tier::Full) => &self.full,
            Some(Tier::Landlock) => &self.landlock,
            None => match self.best() {
                Some(best) => return Ok(best),
                None => &self.landlock,
            },
        };
        match (refusal, wanted) {
            (Some(why), _) => Err(why.clone()),
            (None, Some(tier)) => Ok(tier),
            (None, None) => Ok(Tier::Landlock),
        }
    }

    /// Returns what a wall of this tier does not hold on this machine.
    #[must_use]
    pub fn gaps(&self, tier: Tier) -> Vec<&'static str> {
        let mut gaps = vec![
            "names, arguments, connections and mounts of other processes can be seen, and the \
             scheduling of those of the same user changed",
            "memory, processor time and the number of processes are not limited",
            "an allowed host that takes uploads is a way out for everything that can be read",
            "code that the program leaves in the working directory (build scripts, tests) is not \
             confined when it is run outside later",
        ];
        match tier {
            Tier::Full => gaps.push(
                "files that run code outside and do not exist yet (a new .git, .vscode or .envrc), \
                 except in git directories, can be made; they are reported afterwards",
            ),
            Tier::Landlock => gaps.extend([
                "git hooks and configuration in the working directory, and editor and agent \
                 settings, can be changed; they are reported afterwards",
                "the network is limited by port: an allowed port is open on every host",
                "times, modes and attributes of files outside can be changed (chmod, utime), and \
                 their existence and size seen",
                "other terminals of the same user can be written to (workspace)",
                "Unix sockets, shared memory of System V and listening on a port are refused \
                 altogether, so programs that use them between their own processes fail",
            ]),
        }
        if self.landlock_abi < ABI_OF_SIGNALS {
            gaps.push("other processes of the same user can be signalled (needs Linux 6.12)");
        }
        gaps
    }

    /// Returns what a wall of this tier holds on this machine.
    #[must_use]
    pub fn enforced(&self, tier: Tier) -> Vec<&'static str> {
        let mut held = vec![
            "files outside the listed paths can be neither read nor written",
            "memory, environment and descriptors of other processes are closed",
            "raw sockets, UDP past loopback, io_uring, new namespaces, kernel keys and modules are \
             refused",
        ];
        match tier {
            Tier::Full => held.extend([
                "the only network is the egress process, which knows the allowed hosts",
                "git hooks and configuration, editor and agent settings stay as they are",
            ]),
            Tier::Landlock => held.push("TCP goes to the ports of the egress process only"),
        }
        if self.landlock_abi >= ABI_OF_SIGNALS {
            held.push("signals reach processes inside the wall only");
        }
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(missing: &str) -> Option<CannotBuild> {
        Some(CannotBuild { missing: missing.into(), next: "do something".into() })
    }

    #[test]
    fn a_tier_that_was_asked_for_is_never_replaced_by_a_weaker_one() {
        let machine = |full, landlock| Machine { landlock_abi: 7, full, landlock, dry_run: None };
        let both = machine(None, None);
        let container = machine(refused("no namespaces"), None);
        let old = machine(refused("no namespaces"), refused("no Landlock"));
        for (machine, wanted, expected) in [
            (&both, None, Ok(Tier::Full)),
            (&both, Some(Tier::Landlock), Ok(Tier::Landlock)),
            (&container, None, Ok(Tier::Landlock)),
            (&container, Some(Tier::Full), Err("no namespaces")),
            (&old, None, Err("no Landlock")),
            (&old, Some(Tier::Landlock), Err("no Landlock")),
        ] {
            let got = machine.choose(wanted).map_err(|why| why.missing);
            assert_eq!(got, expected.map_err(str::to_owned), "{wanted:?}");
        }
    }
}
