//! The wall around programs: what this machine can enforce, and what it cannot.

use plexus_confine::{Machine, StageProgram, Tier};

use super::Finding;

/// Builds every wall once, and says what holds.
pub(super) async fn look() -> Vec<Finding> {
    const WHAT: &str = "wall";
    let probed = tokio::task::spawn_blocking(|| {
        StageProgram::this().map(|stage| plexus_confine::probe(&stage))
    });
    match probed.await {
        Ok(Ok(machine)) => describe(WHAT, &machine),
        Ok(Err(error)) => vec![Finding::bad(
            WHAT,
            format!("could not find this program: {error}"),
            "install it again; its file was replaced or removed",
        )],
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
