//! The wall around programs: what this machine can enforce, and what it cannot.

use plexus_confine::{Machine, StageProgram, Tier};

use plexus_wire::Confine;

use super::Finding;
use crate::config::ConfineConfig;
use crate::wall::check_read;

/// Builds every wall once, and says what holds, and what sessions get.
pub(super) async fn look(config: &ConfineConfig) -> Vec<Finding> {
    const WHAT: &str = "wall";
    let probed = tokio::task::spawn_blocking(|| {
        let stage = StageProgram::this().map_err(|error| {
            let words = format!("could not find this program: {error}");
            Finding::bad(WHAT, words, "install it again; its file was replaced or removed")
        })?;
        plexus_confine::probe(&stage).map_err(|error| {
            let words = format!("could not {error}");
            Finding::bad(WHAT, words, "mend that; until then sessions with a wall are refused")
        })
    });
    match probed.await {
        Ok(Ok(machine)) => {
            let mut findings = describe(WHAT, &machine);
            findings.push(of_sessions(&machine, config));
            findings
        }
        Ok(Err(finding)) => vec![finding],
        Err(error) => vec![Finding::bad(WHAT, error.to_string(), "report this")],
    }
}

fn describe(what: &'static str, machine: &Machine) -> Vec<Finding> {
    let mut findings = Vec::new();
    let tier = match (machine.best(), &machine.full, &machine.landlock) {
        (Some(Tier::Full), ..) => {
            let words = format!("tier full, Landlock ABI {}", machine.landlock_abi);
            findings.push(Finding::good(what, words));
            Tier::Full
        }
        (Some(Tier::Landlock), Some(why), _) => {
            let words = format!(
                "tier landlock, Landlock ABI {}; not full: {}",
                machine.landlock_abi, why.missing
            );
            findings.push(Finding::odd(what, words, why.next.clone()));
            Tier::Landlock
        }
        (_, _, Some(why)) => {
            let words = format!("none can be built: {}", why.missing);
            return vec![Finding::odd(what, words, why.next.clone())];
        }
        (_, _, None) => return findings,
    };
    let held = machine.enforced(tier).join("; ");
    findings.push(Finding::good("wall holds", held));
    findings.push(Finding::good("wall gaps", machine.gaps(tier).join("; ")));
    match &machine.dry_run {
        None => findings.push(Finding::good("dry run", "works")),
        Some(why) => findings.push(Finding::odd("dry run", &why.missing, &why.next)),
    }
    findings
}

/// Says which wall a session that names none has, and why such a session would be refused.
fn of_sessions(machine: &Machine, config: &ConfineConfig) -> Finding {
    const WHAT: &str = "wall of sessions";
    let profile = config.profile;
    if profile == Confine::None {
        return Finding::odd(
            WHAT,
            "none: a command that is allowed can do what you can do",
            "remove confine.profile from plexus.toml",
        );
    }
    match (machine.choose(config.wanted_tier()), check_read(&config.read)) {
        (Ok(tier), Ok(())) => {
            Finding::good(WHAT, format!("{profile} (tier {tier}), unless a session names another"))
        }
        (Ok(_), Err(why)) => Finding::bad(
            WHAT,
            format!("{profile}, and every session with a wall is refused: {why}"),
            "correct confine.read in plexus.toml",
        ),
        (Err(why), _) => {
            let words = format!(
                "none, because {profile} cannot be built ({}); one that asks for it is refused",
                why.missing
            );
            Finding::odd(WHAT, words, why.next)
        }
    }
}
