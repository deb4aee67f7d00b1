//! Moves a whole test program into a network that has only loopback.
//!
//! The real CLI must never reach a real host, whatever it decides to do. A program that calls
//! [`enter_or_explain`] at the start of `main` is restarted, once, inside its own network
//! namespace. Its children (stand-ins, servers, the CLI) share that namespace. A namespace needs
//! root or unprivileged user namespaces; without them, the caller learns why it has none.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Set in the restarted program, so that it does not restart again.
const INSIDE: &str = "PLEXUS_TEST_NETNS";

/// Brings loopback up, then executes the given program.
const ENTER: &str = r#"ip link set lo up && exec "$@""#;

/// Returns once this program runs in a network namespace that has only loopback; otherwise returns
/// why it cannot.
///
/// The first call re-executes this program, with the same arguments and environment, inside the
/// namespace. Call it at the start of `main`, before threads, files and children exist.
pub fn enter_or_explain() -> Result<(), String> {
    if std::env::var_os(INSIDE).is_some() {
        return only_loopback();
    }
    let flags = allowed_flags()?;
    let program = std::env::current_exe()
        .map_err(|error| format!("this program cannot find itself: {error}"))?;
    let error = Command::new("unshare")
        .args(flags)
        .args(["--", "sh", "-c", ENTER, "sh"])
        .arg(program)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1")
        .exec();
    Err(format!("unshare could not be started: {error}"))
}

/// Finds out which form of `unshare` is permitted here: plain for root, with a user namespace for
/// everybody else.
fn allowed_flags() -> Result<&'static [&'static str], String> {
    let forms: [&[&str]; 2] = [&["-n"], &["-rn"]];
    let mut reasons = Vec::new();
    for flags in forms {
        match Command::new("unshare")
            .args(flags)
            .args(["--", "sh", "-c", ENTER, "sh", "true"])
            .output()
        {
            Ok(output) if output.status.success() => return Ok(flags),
            Ok(output) => {
                reasons.push(format!(
                    "unshare {}: {}",
                    flags.join(" "),
                    String::from_utf8_lossy(&output.stderr).trim()
                ));
            }
            Err(error) => reasons.push(format!("unshare: {error}")),
        }
    }
    Err(format!("no network namespace can be made here ({})", reasons.join("; ")))
}

/// Checks the interfaces instead of trusting the variable alone, which somebody may have exported.
fn only_loopback() -> Result<(), String> {
    let table = std::fs::read_to_string("/proc/net/dev")
        .map_err(|error| format!("/proc/net/dev: {error}"))?;
    let others: Vec<_> = interfaces(&table).filter(|name| *name != "lo").collect();
    if others.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "{INSIDE} is set, but this network has more than loopback: {}",
            others.join(", ")
        ))
    }
}

fn interfaces(table: &str) -> impl Iterator<Item = &str> {
    table.lines().filter_map(|line| line.split_once(':').map(|(name, _)| name.trim()))
}

/// Tells whether [`enter_or_explain`] restarted this program.
#[must_use]
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).as_deref() == Some(OsStr::new("1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_the_names_before_the_colon() {
        let table = "Inter-|   Receive\n face |bytes\n    lo:  0 0\n  eth0: 12 0\n";
        assert_eq!(interfaces(table).collect::<Vec<_>>(), ["lo", "eth0"]);
    }
}
