//! Landlock: files by the lists of the plan, TCP by port, signals and abstract sockets inside only.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, LandlockStatus,
    NetPort, PathBeneath, RestrictSelf, Ruleset, RulesetAttr as _, RulesetCreated,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{FileType, fstat};

use crate::apart::OPEN;
use crate::machine::{ABI_OF_SIGNALS, ABI_OF_TCP, ABI_OF_TRUNCATE, Tier};
use crate::mounts::open_plain;
use crate::plan::Plan;
use crate::stage::StageError;

/// Asks the kernel for its newest ABI that we know, without restricting anything. The error says
/// why there is none.
pub(crate) fn abi() -> Result<ABI, &'static str> {
    match RestrictSelf::default().no_new_privs(false).apply().map(|status| status.landlock) {
        Ok(LandlockStatus::Available { effective_abi, .. }) => Ok(effective_abi),
        Ok(LandlockStatus::NotEnabled) => {
            Err("Landlock is in this kernel and not enabled: add it to lsm= at boot")
        }
        Ok(LandlockStatus::NotImplemented) => {
            Err("this kernel has no Landlock, or a filter around us refuses it")
        }
        Err(_) => Err("what this kernel knows of Landlock could not be found out"),
    }
}

/// Which ring of a wall is built.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ring {
    /// The wall itself.
    Outer,
    /// A second ring, around a command. The outer one limits connections already. Files that are
    /// hidden from the command do exist in the agent's file system, so even their names must not be
    /// listed.
    Inner,
}

/// Restricts this thread and all that comes from it.
pub(crate) fn restrict(plan: &Plan, ring: Ring) -> Result<(), StageError> {
    let abi = abi().map_err(|why| StageError::new("use Landlock", why).next(OLD_KERNEL))?;
    let least = match plan.tier {
        Tier::Full => ABI_OF_TRUNCATE,
        Tier::Landlock => ABI_OF_TCP,
    };
    if (abi as i32) < i32::from(least) {
        let why = format!("this kernel has ABI {}, and {least} is the least", abi as i32);
        return Err(StageError::new("use Landlock", why).next(OLD_KERNEL));
    }
    let fail = |error: RulesetError| StageError::new("use Landlock", error);
    // Best effort, the crate's default, would drop rights in silence.
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))
        .map_err(fail)?;
    let limits_tcp = plan.tier == Tier::Landlock && ring == Ring::Outer;
    if limits_tcp {
        rules = rules.handle_access(AccessNet::ConnectTcp | AccessNet::BindTcp).map_err(fail)?;
    }
    if abi as i32 >= i32::from(ABI_OF_SIGNALS) {
        rules = rules.scope(Scope::Signal | Scope::AbstractUnixSocket).map_err(fail)?;
    }
    let mut rules = rules.create().map_err(fail)?;
    rules = add_paths(rules, plan, ring, abi)?;
    if limits_tcp {
        for port in plan.doors.ports() {
            let rule = NetPort::new(port, AccessNet::ConnectTcp);
            rules = rules.add_rule(rule).map_err(fail)?;
        }
    }
    let status = rules.restrict_self().map_err(fail)?;
    if status.ruleset != RulesetStatus::FullyEnforced || !status.no_new_privs {
        return Err(StageError::new("use Landlock", format!("it was applied in part: {status:?}")));
    }
    Ok(())
}

const OLD_KERNEL: &str = "Linux 6.7 or newer with Landlock enabled is needed (6.12 for signals)";

fn add_paths(
    mut rules: RulesetCreated,
    plan: &Plan,
    ring: Ring,
    abi: ABI,
) -> Result<RulesetCreated, StageError> {
    let control: BitFlags<AccessFs> =
        if abi >= ABI::V5 { AccessFs::IoctlDev.into() } else { BitFlags::EMPTY };
    let read = AccessFs::from_read(abi);
    // No devices are made, and those that may be controlled are listed.
    let write = AccessFs::from_all(abi) & !AccessFs::MakeChar & !AccessFs::MakeBlock & !control;
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::ReadDir | control;
    let private: &[&str] = match plan.tier {
        Tier::Full => OPEN,
        Tier::Landlock => &[],
    };
    let temp = plan.temp_inside();
    let writable = plan.write.iter().chain(plan.layers.keys()).map(PathBuf::as_path);
    let writable = writable.chain([temp.as_path()]).chain(private.iter().map(Path::new));
    for path in writable {
        rules = add(rules, &plan.inside(path), write, abi)?;
    }
    for path in &plan.read {
        rules = add(rules, &plan.inside(path), read, abi)?;
    }
    for path in &plan.devices {
        rules = add(rules, path, device, abi)?;
    }
    if plan.tier == Tier::Full {
        rules = add(rules, Path::new("/dev/pts"), device, abi)?;
        if ring == Ring::Outer {
            // Everything that exists inside is listed, so its names may be seen.
            rules = add(rules, Path::new("/"), AccessFs::ReadDir.into(), abi)?;
        }
    }
    Ok(rules)
}

fn add(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
    abi: ABI,
) -> Result<RulesetCreated, StageError> {
    let handle: OwnedFd = open_plain(path)?;
    let meta = fstat(&handle).map_err(|error| StageError::path("look at", path, error))?;
    let access = match FileType::from_raw_mode(meta.st_mode) {
        FileType::Directory => access,
        _ => access & AccessFs::from_file(abi),
    };
    rules
        .add_rule(PathBeneath::new(handle, access))
        .map_err(|error| StageError::path("permit", path, error))
}
