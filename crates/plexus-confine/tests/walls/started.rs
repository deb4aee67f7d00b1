//! An egress process that the stage starts itself: it serves before the program runs, or nothing
//! runs and the stage says why.

use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, ensure};
use plexus_confine::egress::Egress;
use plexus_confine::{EXIT_NOT_CONFINED, Plan, RunDir, plan};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitOptions, getppid, pidfd_open, wait};

use crate::Case;
use crate::inside::{Inside, hosts, runtime, said};

pub(crate) const CASES: &[(&str, Case)] = &[
    ("an_egress_process_that_the_stage_starts_serves_the_program", serves),
    ("an_egress_process_that_starts_late_is_waited_for", starts_late),
    ("an_egress_process_that_does_not_start_ends_the_stage_with_the_reason", does_not_start),
    ("the_program_has_no_child_that_it_did_not_start", no_child),
];

/// The word after which this program has a part of its own in these cases.
pub(crate) const WORD: &str = "started";

/// Plays a part: `starter` leaves the egress process to others and ends, `late` lets the stage
/// wait, `serve` is the egress process, and `children` is the program inside.
pub(crate) fn main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let part = args.next().unwrap_or_default();
    let played = match part.to_str() {
        Some("starter") => start_server(),
        Some("late") => {
            std::thread::sleep(std::time::Duration::from_millis(300));
            start_server()
        }
        Some("serve") => serve(args),
        Some("children") => count_children(),
        _ => Err(anyhow::anyhow!("nobody plays {part:?}")),
    };
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start_server() -> Result<()> {
    let program = getppid().context("the stage is gone")?;
    let stage = Stdio::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut command = Command::new(std::env::current_exe()?);
    // The suite waits for the end of the program's output, which this process has too.
    command
        .args([WORD, "serve", &program.as_raw_pid().to_string()])
        .stdin(stage)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.process_group(0).spawn()?;
    Ok(())
}

/// Serves until the program that the stage becomes has ended.
fn serve(mut args: impl Iterator<Item = OsString>) -> Result<()> {
    let program = args.next().and_then(|pid| pid.to_str()?.parse().ok()).and_then(Pid::from_raw);
    let program = pidfd_open(program.context("no program is named")?, PidfdFlags::empty())?;
    let stage = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    runtime()?.block_on(async {
        let egress = Egress::take_over(hosts(&["allowed.example.org"], None)?, stage).await?;
        let end = tokio::task::spawn_blocking(move || {
            poll(&mut [PollFd::new(&program, PollFlags::IN)], None)
        });
        Ok(egress.run(async { drop(end.await) }).await?)
    })
}

fn count_children() -> Result<()> {
    let left = wait(WaitOptions::NOHANG);
    ensure!(matches!(left, Err(Errno::CHILD)), "{left:?}");
    println!("none");
    Ok(())
}

impl Inside {
    /// Runs a program whose stage starts these words as its egress process.
    fn run_starting(&self, words: &[&str], program: &[&str]) -> Result<std::process::Output> {
        let run_dir = RunDir::new()?;
        let mut planned: Plan = plan(&self.wall(&run_dir), &self.machine)?;
        planned.doors.proxy = Some(8200);
        planned.egress = Some(words.iter().map(|word| (*word).to_owned()).collect());
        let file = run_dir.put(&planned)?;
        let (program, arguments) = program.split_first().context("a program")?;
        let mut command = self.stage.command(&file, program.as_ref());
        Ok(command.args(arguments).stdin(Stdio::null()).output()?)
    }

    fn play(&self, part: &str, program: &[&str]) -> Result<String> {
        let exe = self.stage.program.to_string_lossy().into_owned();
        let program = [&[exe.as_str()], program].concat();
        said(&self.run_starting(&[&exe, WORD, part], &program)?)
    }
}

const REFUSED: &[&str] = &["fetch", "proxy", "CONNECT other.example.org:443 HTTP/1.1\\r\\n\\r\\n"];

fn serves(inside: &Inside) -> Result<()> {
    let answer = inside.play("starter", REFUSED)?;
    ensure!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    Ok(())
}

fn starts_late(inside: &Inside) -> Result<()> {
    let answer = inside.play("late", REFUSED)?;
    ensure!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    Ok(())
}

fn does_not_start(inside: &Inside) -> Result<()> {
    let reason = "could not start the egress process: ";
    for (words, why) in [
        (&["sh", "-c", "echo the key is not set >&0"][..], "the key is not set\n"),
        (&["sh", "-c", "head -c 1"], "it has ended\n"),
        (&["true"], "it has ended\n"),
        (&["/nowhere"], "No such file"),
        (&[], "it has no program"),
    ] {
        let output = inside.run_starting(words, &["echo", "started"])?;
        ensure!(output.status.code() == Some(i32::from(EXIT_NOT_CONFINED)), "{output:?}");
        ensure!(output.stdout.is_empty(), "the program started");
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(said.contains(&format!("{reason}{why}")), "{words:?}: {said}");
    }
    Ok(())
}

fn no_child(inside: &Inside) -> Result<()> {
    let said = inside.play("starter", &[WORD, "children"])?;
    ensure!(said == "none\n", "{said}");
    Ok(())
}
