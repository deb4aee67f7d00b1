//! Machines that cannot build a wall: this test starts programs under a seccomp filter that refuses
//! Landlock, as an old kernel does, namespaces, as a container does, or locks of files.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use anyhow::{Result, bail, ensure};
use plexus_confine::EXIT_NOT_CONFINED;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

use crate::{HomeWithProject, PLEXUS};

/// The word after which this program is that filter: `without WHAT PROGRAM ARGS…`.
pub(crate) const WORD: &str = "without";

/// Puts a filter around itself and becomes a program.
pub(crate) fn main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let what = args.next().unwrap_or_default();
    let program = args.next().unwrap_or_default();
    let error = match restrict(&what.to_string_lossy()) {
        Ok(()) => Command::new(program).args(args).exec().into(),
        Err(error) => error,
    };
    eprintln!("without: {error:#}");
    ExitCode::from(99)
}

fn restrict(what: &str) -> Result<()> {
    let landlock = [
        libc::SYS_landlock_create_ruleset,
        libc::SYS_landlock_add_rule,
        libc::SYS_landlock_restrict_self,
    ];
    match what {
        "landlock" => refuse(&landlock, libc::ENOSYS),
        "namespaces" => refuse(&[libc::SYS_unshare], libc::EPERM),
        "locks" => refuse(&[libc::SYS_flock], libc::ENOLCK),
        "both" => {
            refuse(&landlock, libc::ENOSYS)?;
            refuse(&[libc::SYS_unshare], libc::EPERM)
        }
        other => bail!("nobody knows {other}"),
    }
}

fn refuse(calls: &[i64], answer: i32) -> Result<()> {
    let rules: BTreeMap<i64, Vec<_>> = calls.iter().map(|call| (*call, vec![])).collect();
    let arch = std::env::consts::ARCH.try_into()?;
    let refuse = SeccompAction::Errno(answer.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?;
    Ok(apply_filter(&BpfProgram::try_from(filter)?)?)
}

impl HomeWithProject {
    /// Runs `plexus` without a mechanism; returns what it said, and its exit code.
    fn plexus_without(&self, what: &str, arguments: &[&str]) -> Result<(String, Option<i32>)> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([WORD, what, PLEXUS]).args(arguments).env("HOME", self.dir.path());
        let output = command.current_dir(self.dir.path().join("project")).output()?;
        let said = [output.stdout, output.stderr].concat();
        Ok((String::from_utf8_lossy(&said).into_owned(), output.status.code()))
    }
}

pub(crate) fn landlock(place: &HomeWithProject) -> Result<()> {
    for profile in ["workspace", "strict"] {
        let words = ["confine", "--profile", profile, "--", "echo", "started"];
        let (said, code) = place.plexus_without("landlock", &words)?;
        ensure!(code == Some(i32::from(EXIT_NOT_CONFINED)), "{code:?}: {said}");
        ensure!(said.contains("nothing was started") && !said.contains("started\n"), "{said}");
        ensure!(said.contains("Landlock") && said.contains("next: "), "{said}");
    }
    let (said, _) = place.plexus_without("landlock", &["doctor"])?;
    ensure!(said.contains("none can be built") && said.contains("Landlock"), "{said}");
    Ok(())
}

pub(crate) fn namespaces(place: &HomeWithProject) -> Result<()> {
    let words = ["confine", "--tier", "full", "--", "echo", "started"];
    let (said, code) = place.plexus_without("namespaces", &words)?;
    ensure!(code == Some(i32::from(EXIT_NOT_CONFINED)), "{code:?}: {said}");
    ensure!(said.contains("nothing was started") && said.contains("make namespaces"), "{said}");
    ensure!(said.contains("next: ") && !said.contains("started\n"), "{said}");
    // Without a tier by name the weaker one is taken, and a dry run says what it lacks.
    let words = ["confine", "--", "echo", "started"];
    let (said, code) = place.plexus_without("namespaces", &words)?;
    ensure!(code == Some(0) && said == "started\n", "{code:?}: {said}");
    let words = ["confine", "--dry-run", "--", "echo", "started"];
    let (said, code) = place.plexus_without("namespaces", &words)?;
    ensure!(code == Some(i32::from(EXIT_NOT_CONFINED)) && said.contains("next: "), "{said}");
    Ok(())
}

/// As on a network file system without a lock service.
pub(crate) fn locks(place: &HomeWithProject) -> Result<()> {
    let (said, code) = place.plexus_without("locks", &["confine", "--", "echo", "started"])?;
    ensure!(code == Some(0) && said == "started\n", "{code:?}: {said}");
    Ok(())
}

/// A working directory on a file system that takes no writes.
pub(crate) fn writing(place: &HomeWithProject, tier: &str) -> Result<()> {
    let script = "mount --bind . . && mount -o remount,bind,ro . && cd \"$PWD\" && \"$@\"";
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-c", script, "sh", PLEXUS])
        .args(["confine", "--tier", tier, "--", "echo", "started"])
        .env("HOME", place.dir.path())
        .current_dir(place.dir.path().join("project"))
        .output()?;
    let why = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(i32::from(EXIT_NOT_CONFINED)), "{output:?}");
    ensure!(output.stdout.is_empty() && why.contains("Read-only file system"), "{why}");
    ensure!(why.contains("on a file system that can be written"), "{why}");
    Ok(())
}
