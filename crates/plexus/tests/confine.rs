//! `plexus confine` as a person uses it. Where this machine cannot build a wall, its cases are
//! ignored with the reason; with `PLEXUS_REQUIRE_WALL=1` they fail.

#![allow(
    clippy::expect_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a suite with a `main` of its own says what it does"
)]

#[path = "confine/sessions.rs"]
mod sessions;
#[path = "confine/without.rs"]
mod without;

use std::fs;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use plexus_confine::{EXIT_NOT_CONFINED, Profile, RunDir, StageProgram, Tier, Wall, plan};
use rustix::process::{Pid, Signal};
use testkit::wait::PATIENCE;

const PLEXUS: &str = env!("CARGO_BIN_EXE_plexus");
/// The cases fail instead of being ignored.
const REQUIRED: &str = "PLEXUS_REQUIRE_WALL";

type Case = fn(&HomeWithProject, &str) -> Result<()>;

const CASES: &[(&str, Case)] = &[
    ("the_operators_token_cannot_be_read", token),
    ("the_exit_code_is_the_programs_own", exit_code),
    ("nothing_starts_when_a_path_is_missing", missing),
    ("a_change_of_what_runs_outside_is_reported", reported),
    ("why_there_is_no_egress_process_is_told_once", told_once),
    ("nothing_starts_where_the_working_directory_cannot_be_written", without::writing),
    (
        "sessions_do_not_start_where_the_working_directory_cannot_be_written",
        sessions::do_not_start_where_nothing_can_be_written,
    ),
    (
        "sessions_do_not_start_without_their_egress_process",
        sessions::do_not_start_without_their_egress_process,
    ),
    (
        "sessions_tell_what_was_left_for_programs_outside",
        sessions::tell_what_was_left_for_programs_outside,
    ),
];

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1).peekable();
    if args.next_if(|word| word == without::WORD).is_some() {
        return without::main(args);
    }
    let arguments = Arguments::from_args();
    let stage = stage();
    let machine = plexus_confine::probe(&stage).expect("plexus starts as a stage");
    let refusal =
        |why: &Option<plexus_confine::CannotBuild>| why.as_ref().map(|why| why.to_string());
    let mut trials = Vec::new();
    for (tier, why) in [("full", refusal(&machine.full)), ("landlock", refusal(&machine.landlock))]
    {
        for (name, case) in CASES {
            trials.push(trial(format!("{name}_in_{tier}"), why.clone(), move |place| {
                case(place, tier)
            }));
        }
    }
    trials.push(trial("a_dry_run_is_printed".into(), refusal(&machine.dry_run), dry_run));
    let ends = "a_dry_run_ends_with_whoever_started_it".to_owned();
    trials.push(trial(ends, refusal(&machine.dry_run), deserted));
    for (name, case) in [
        (
            "nothing_starts_without_landlock",
            without::landlock as fn(&HomeWithProject) -> Result<()>,
        ),
        ("nothing_starts_without_the_namespaces_that_were_asked_for", without::namespaces),
        ("a_program_runs_where_no_file_can_be_locked", without::locks),
        ("sessions_say_once_that_there_is_no_wall", sessions::say_once_that_there_is_none),
        (
            "sessions_do_not_start_where_their_wall_is_gone",
            sessions::do_not_start_where_the_wall_is_gone,
        ),
        (
            "sessions_have_the_weaker_tier_without_namespaces",
            sessions::have_the_weaker_tier_without_namespaces,
        ),
        (
            "sessions_are_refused_until_it_is_known_what_can_be_enforced",
            sessions::are_refused_until_it_is_known_what_can_be_enforced,
        ),
        (
            "sessions_are_refused_where_a_configured_path_is_missing",
            sessions::are_refused_where_a_configured_path_is_missing,
        ),
        (
            "sessions_of_run_have_no_wall_where_that_is_said",
            sessions::of_run_have_none_where_that_is_said,
        ),
    ] {
        trials.push(trial(name.into(), refusal(&machine.full), case));
    }
    trials.push(trial("doctor_says_what_is_enforced".into(), refusal(&machine.full), doctor));
    let sweeps = "a_start_removes_what_killed_runs_have_left".to_owned();
    trials.push(trial(sweeps, refusal(&machine.landlock), swept));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn stage() -> StageProgram {
    let arguments = ["confine", "--stage"].map(Into::into).to_vec();
    StageProgram { program: PLEXUS.into(), arguments }
}

fn trial(
    name: String,
    why: Option<String>,
    case: impl FnOnce(&HomeWithProject) -> Result<()> + Send + 'static,
) -> Trial {
    if let Some(why) = &why {
        eprintln!("ignored: {name}: {why}");
    }
    let is_ignored = why.is_some() && std::env::var_os(REQUIRED).is_none();
    let run = move || match why {
        Some(why) => Err(Failed::from(why)),
        None => case(&HomeWithProject::new()?).map_err(|error| Failed::from(format!("{error:#}"))),
    };
    Trial::test(name, run).with_ignored_flag(is_ignored)
}

/// A home with a project in it.
struct HomeWithProject {
    dir: tempfile::TempDir,
}

impl HomeWithProject {
    fn new() -> std::io::Result<Self> {
        let dir = tempfile::tempdir()?;
        fs::create_dir_all(dir.path().join("project/.git/hooks"))?;
        Ok(Self { dir })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PLEXUS);
        command.args(arguments).env("HOME", self.dir.path());
        command.current_dir(self.dir.path().join("project"));
        command
    }

    fn plexus(&self, arguments: &[&str]) -> Result<Output> {
        Ok(self.command(arguments).output()?)
    }
}

fn token(place: &HomeWithProject, tier: &str) -> Result<()> {
    let data = place.dir.path().join(".local/state/plexus");
    fs::create_dir_all(&data)?;
    fs::write(data.join("operator.token"), "plx_secret")?;
    let file = data.join("operator.token").to_string_lossy().into_owned();
    for profile in ["workspace", "strict"] {
        let words = ["confine", "--tier", tier, "--profile", profile, "--", "cat", &file];
        let output = place.plexus(&words)?;
        ensure!(output.status.code() == Some(1), "{output:?}");
        ensure!(!String::from_utf8_lossy(&output.stdout).contains("plx_"), "{output:?}");
    }
    Ok(())
}

fn exit_code(place: &HomeWithProject, tier: &str) -> Result<()> {
    let output =
        place.plexus(&["confine", "--tier", tier, "--", "sh", "-c", "echo out; exit 7"])?;
    ensure!(output.status.code() == Some(7) && output.stdout == b"out\n", "{output:?}");
    Ok(())
}

fn missing(place: &HomeWithProject, tier: &str) -> Result<()> {
    for words in [["--read", "/nowhere"], ["--write", "/nowhere"], ["--working-dir", "/nowhere"]] {
        let words = [&["confine", "--tier", tier], &words[..], &["--", "echo", "started"]].concat();
        let output = place.plexus(&words)?;
        ensure!(output.status.code() == Some(i32::from(EXIT_NOT_CONFINED)), "{output:?}");
        let why = String::from_utf8_lossy(&output.stderr);
        ensure!(output.stdout.is_empty() && why.contains("nothing was started"), "{output:?}");
        ensure!(why.contains("/nowhere"), "{why}");
    }
    Ok(())
}

fn reported(place: &HomeWithProject, tier: &str) -> Result<()> {
    let output = place.plexus(&[
        "confine",
        "--tier",
        tier,
        "--",
        "sh",
        "-c",
        "echo a > .envrc; echo b > c",
    ])?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && said.contains(".envrc changed: programs outside"), "{said}");
    ensure!(said.lines().count() == 1, "{said}");
    Ok(())
}

/// The stage says why, and the processes that it started say nothing more: whether they find no
/// file, or a stage that has failed itself.
fn told_once(place: &HomeWithProject, tier: &str) -> Result<()> {
    let machine = plexus_confine::probe(&stage())?;
    let project = place.dir.path().join("project");
    for (removed, why) in [(false, "read /nowhere: No such file"), (true, "No such file")] {
        let run_dir = RunDir::new()?;
        let mut wall = Wall::new(Profile::Workspace, &project, run_dir.temp_dir());
        wall.tier = Some(if tier == "full" { Tier::Full } else { Tier::Landlock });
        let mut planned = plan(&wall, &machine)?;
        planned.doors.proxy = Some(8200);
        planned.egress =
            Some([PLEXUS, "confine", "--egress", "/nowhere"].map(str::to_owned).to_vec());
        let file = run_dir.put(&planned)?;
        if removed {
            fs::remove_dir_all(&project)?;
        }
        let output = stage().command(&file, "true".as_ref()).stdin(Stdio::null()).output()?;
        ensure!(output.status.code() == Some(i32::from(EXIT_NOT_CONFINED)), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(said.lines().count() == 1 && said.contains(why), "{said}");
    }
    Ok(())
}

/// Directories of killed runs go while the program runs. `plexus doctor` leaves them alone, and so
/// does everybody those of builds that did not lock them.
fn swept(place: &HomeWithProject) -> Result<()> {
    let temp = place.dir.path().join("temporary");
    let [left, earlier] = ["plexus-run-0", "plexus-confine-0"].map(|name| temp.join(name));
    for dir in [&left, &earlier] {
        fs::create_dir_all(dir.join("temp/tmp"))?;
    }
    ensure!(place.command(&["doctor"]).env("TMPDIR", &temp).output()?.status.code().is_some());
    ensure!(left.exists(), "plexus doctor removed it");
    let mut command = place.command(&["confine", "--", "sleep", "3600"]);
    let mut run = command.env("TMPDIR", &temp).stderr(Stdio::null()).spawn()?;
    testkit::wait::eventually("the end of what was left", PATIENCE, || {
        (!left.exists()).then_some(())
    });
    ensure!(earlier.exists(), "its program may run");
    rustix::process::kill_process(Pid::from_child(&run), Signal::TERM)?;
    run.wait()?;
    Ok(())
}

fn dry_run(place: &HomeWithProject) -> Result<()> {
    let project = place.dir.path().join("project");
    fs::write(project.join("file"), "old\n")?;
    let output = place.plexus(&["confine", "--dry-run", "--", "sh", "-c", "echo new > file"])?;
    let said = String::from_utf8_lossy(&output.stdout);
    for line in ["M file", "  -old", "  +new", "1 change, exit code 0"] {
        ensure!(said.lines().any(|said| said.starts_with(line)), "{said}");
    }
    let failing = place.plexus(&["confine", "--dry-run", "--", "sh", "-c", "exit 3"])?;
    ensure!(failing.status.code() == Some(3), "{failing:?}");
    let words = ["confine", "--dry-run", "--json", "--", "rm", "file"];
    let preview: serde_json::Value = serde_json::from_slice(&place.plexus(&words)?.stdout)?;
    ensure!(preview["changes"][0]["kind"] == "removed", "{preview}");
    ensure!(fs::read_to_string(project.join("file"))? == "old\n", "the disk changed");
    Ok(())
}

/// After its starter is killed, only the stage can end a dry run.
fn deserted(place: &HomeWithProject) -> Result<()> {
    let seconds = (10_000_000 + std::process::id()).to_string();
    let script = format!("setsid sleep {seconds} & sleep {seconds}");
    let running = || {
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let words = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        words.filter(|words| *words == format!("sleep\0{seconds}\0").as_bytes()).count()
    };
    let both_run = || running() == 2;
    let mut starter =
        testkit::wait::eventually("a dry run", PATIENCE, || begin(place, &script, both_run));
    let killed = starter.kill();
    starter.wait()?;
    killed?;
    testkit::wait::eventually("the end of its programs", PATIENCE, || {
        (running() == 0).then_some(())
    });
    Ok(())
}

/// Starts a dry run and returns it once it works; nothing if its time limit passes first, on a
/// machine that stands still.
fn begin(place: &HomeWithProject, script: &str, works: impl Fn() -> bool) -> Option<Child> {
    let mut command = place.command(&["confine", "--dry-run", "--", "sh", "-c", script]);
    let mut starter = command.stdout(Stdio::null()).spawn().ok()?;
    while matches!(starter.try_wait(), Ok(None)) {
        if works() {
            return Some(starter);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    starter.wait().ok()?;
    None
}

fn doctor(place: &HomeWithProject) -> Result<()> {
    let output = place.plexus(&["doctor"])?;
    let said = String::from_utf8_lossy(&output.stdout);
    for words in
        ["tier full, Landlock ABI", "wall holds", "wall gaps", "dry run", "wall of sessions"]
    {
        ensure!(said.contains(words), "{said}");
    }
    Ok(())
}
