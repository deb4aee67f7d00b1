//! Attacks from inside a wall: every attack, in every profile and tier, as root and as an ordinary
//! user.
//!
//! The attacks are a small program in C (`helper/`), because most of them are system calls that
//! Rust offers only as unsafe ones. This program is three things: the suite, one column of it
//! (started again as the user whom the column is about), and the stage. Where this machine cannot
//! build a wall, its columns are ignored with the reason; with `PLEXUS_REQUIRE_WALL=1` they fail.

#![allow(
    clippy::expect_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a suite with a `main` of its own says what it does"
)]

mod column;
mod fixture;
mod table;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result};
use libtest_mimic::{Arguments, Failed, Trial};
use plexus_confine::{StageProgram, Tier};

use column::{Column, Outcome};
use table::{ATTACKS, User};

/// The user whom root becomes to attack as an ordinary one.
const NOBODY: u32 = 65534;
/// The tests of a wall fail instead of being ignored.
const REQUIRED: &str = "PLEXUS_REQUIRE_WALL";

type Columns = BTreeMap<(User, String), BTreeMap<String, Outcome>>;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1).peekable();
    if args.next_if(|word| word == "confine").is_some() {
        return ExitCode::from(plexus_confine::main(args.skip(1)));
    }
    if args.next_if(|word| word == "column").is_some() {
        let words: Vec<String> = args.map(|word| word.to_string_lossy().into_owned()).collect();
        return match one_column(&words) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error:#}");
                ExitCode::FAILURE
            }
        };
    }
    match suite() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("the suite failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the outcomes of one column, for the suite that started this process.
fn one_column(words: &[String]) -> Result<()> {
    let [name, base] = words else { anyhow::bail!("column NAME BASE") };
    let column = Column::of_name(name).context("there is no such column")?;
    for (attack, outcome) in column::run(column, Path::new(base))? {
        let (word, why) = match outcome {
            Outcome::Succeeded => ("succeeded", String::new()),
            Outcome::Refused(why) => ("refused", why),
            Outcome::Untried(why) => ("untried", why),
        };
        println!("{attack}\t{word}\t{}", why.replace(['\n', '\t'], " "));
    }
    Ok(())
}

fn suite() -> Result<ExitCode> {
    let arguments = Arguments::from_args();
    let is_root = rustix::process::geteuid().is_root();
    let base = Arc::new(tempfile::Builder::new().prefix("plexus-attacks").tempdir()?);
    prepare(base.path(), is_root)?;
    let machine = plexus_confine::probe(&StageProgram::this()?)?;
    let is_required = std::env::var_os(REQUIRED).is_some();
    let seen: Arc<Mutex<Columns>> = Arc::default();
    let mut trials = Vec::new();
    let mut ignored = Vec::new();
    for user in [User::Ordinary, User::Root] {
        for column in Column::ALL {
            let why = match column {
                _ if user == User::Root && !is_root => Some("it wants root".to_owned()),
                Column::Nothing => None,
                Column::Wall(_, Tier::Full) => machine.full.as_ref().map(ToString::to_string),
                Column::Wall(_, Tier::Landlock) => {
                    machine.landlock.as_ref().map(ToString::to_string)
                }
            };
            let name = format!("{}_against_{}", user.name(), column.name());
            if let Some(why) = &why {
                ignored.push(format!("{name}: {why}"));
            }
            // Whether the tests run as root depends on who starts them, not on the machine.
            let may_ignore = !is_required || (user == User::Root && !is_root);
            let (base, seen) = (Arc::clone(&base), Arc::clone(&seen));
            let case = move || match why {
                Some(why) => Err(Failed::from(why)),
                None => check(user, column, is_root, base.path(), &seen)
                    .map_err(|error| Failed::from(format!("{error:#}"))),
            };
            let is_ignored =
                may_ignore && ignored.last().is_some_and(|line| line.starts_with(&name));
            trials.push(Trial::test(name, case).with_ignored_flag(is_ignored));
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    for line in ignored {
        eprintln!("ignored: {line}");
    }
    let seen = seen.lock().map_err(|_| anyhow::anyhow!("a column panicked"))?;
    if seen.len() == Column::ALL.len() * 2 && !conclusion.has_failed() {
        table::compare_with_document(&table::render(&seen))?;
    }
    Ok(conclusion.exit_code())
}

/// Builds the helper, and puts everything where an ordinary user finds it.
fn prepare(base: &Path, is_root: bool) -> Result<()> {
    let tools = base.join("tools");
    fs::create_dir(&tools)?;
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attacks/helper");
    let sources = ["main.c", "files.c", "processes.c", "network.c", "kernel.c"]
        .map(|name| sources.join(name));
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let built = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Werror", "-o"])
        .arg(tools.join("attack"))
        .args(&sources)
        .arg("-lrt")
        .status()
        .context("the C compiler could not be started")?;
    anyhow::ensure!(built.success(), "the helper could not be compiled");
    fs::copy(std::env::current_exe()?, tools.join("suite"))?;
    if is_root {
        fs::copy(tools.join("attack"), tools.join("suid"))?;
        fs::set_permissions(tools.join("suid"), fs::Permissions::from_mode(0o4755))?;
    }
    fs::set_permissions(base, fs::Permissions::from_mode(0o1777))?;
    Ok(())
}

/// Runs one column as its user, and compares it with what the table expects.
fn check(
    user: User,
    column: Column,
    is_root: bool,
    base: &Path,
    seen: &Mutex<Columns>,
) -> Result<()> {
    let program: PathBuf = base.join("tools/suite");
    let mut command = Command::new(program);
    command.args(["column", &column.name()]).arg(base).env("TMPDIR", base).current_dir(base);
    if user == User::Ordinary && is_root {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "the column did not run: {complaint}");
    let mut outcomes = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let mut parts = line.splitn(3, '\t');
        let (Some(name), Some(word)) = (parts.next(), parts.next()) else { continue };
        let why = parts.next().unwrap_or_default().to_owned();
        let outcome = match word {
            "succeeded" => Outcome::Succeeded,
            "refused" => Outcome::Refused(why),
            _ => Outcome::Untried(why),
        };
        outcomes.insert(name.to_owned(), outcome);
    }
    let wrong: Vec<String> = ATTACKS
        .iter()
        .filter_map(|attack| attack.complaint(user, column, outcomes.get(attack.name)))
        .collect();
    if let Ok(mut seen) = seen.lock() {
        seen.insert((user, column.name()), outcomes);
    }
    anyhow::ensure!(wrong.is_empty(), "not as the table says:\n{}", wrong.join("\n"));
    Ok(())
}
