//! Dry runs: the real differences, nothing on the disk, and an end.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Result, ensure};
use plexus_confine::RunDir;
use plexus_confine::dry_run::{self, Change, ChangeKind, End, Limits, Preview, Program};

use crate::Case;
use crate::inside::Inside;

pub(crate) const CASES: &[(&str, Case)] = &[
    ("a_dry_run_lists_the_real_differences_and_changes_nothing", differences),
    ("a_dry_run_ends_when_its_time_is_over", out_of_time),
    ("a_dry_run_ends_when_it_writes_too_much", too_large),
    ("a_dry_run_has_no_network_and_leaves_no_process", alone),
    ("a_dry_run_shows_nothing_that_its_wall_hides", hidden),
    ("a_dry_run_starts_where_it_is_told_with_the_variables_it_is_given", told),
];

fn dry(inside: &Inside, script: &str, limits: Limits) -> Result<Preview> {
    let run_dir = RunDir::new()?;
    let program = ["sh", "-euc", script].map(OsString::from);
    let program = Program::of(&program);
    Ok(dry_run::run(&inside.stage, &inside.machine, &inside.wall(&run_dir), &program, limits)?)
}

fn differences(inside: &Inside) -> Result<()> {
    let project = inside.project();
    for (name, text) in [("kept", "k"), ("changed", "old\n"), ("gone", "g"), ("touched", "t")] {
        std::fs::write(project.join(name), text)?;
    }
    std::fs::create_dir(project.join("dir"))?;
    std::fs::write(project.join("dir/inner"), "i")?;
    let script = "echo new > changed; rm gone; touch touched; echo said; mkdir made; \
                  echo x > made/file; rm -r dir; mkdir dir; echo y > dir/other; exit 7";
    let preview = dry(inside, script, Limits::default())?;
    let change = |path: &str, kind, before: Option<&str>, after: Option<&str>| Change {
        path: path.into(),
        kind,
        is_file: path != "made",
        before: before.map(str::to_owned),
        after: after.map(str::to_owned),
    };
    let expected = Preview {
        end: End::Exited(7),
        changes: vec![
            change("changed", ChangeKind::Modified, Some("old\n"), Some("new\n")),
            change("dir/inner", ChangeKind::Removed, Some("i"), None),
            change("dir/other", ChangeKind::Added, None, Some("y\n")),
            change("gone", ChangeKind::Removed, Some("g"), None),
            change("made", ChangeKind::Added, None, None),
            change("made/file", ChangeKind::Added, None, Some("x\n")),
        ],
        is_cut: false,
        stdout: "said\n".to_owned(),
        stderr: String::new(),
    };
    ensure!(preview == expected, "{preview:#?}");
    ensure!(std::fs::read_to_string(project.join("changed"))? == "old\n", "the disk changed");
    ensure!(
        project.join("dir/inner").exists() && !project.join("made").exists(),
        "the disk changed"
    );
    let cut = dry(inside, script, Limits { changes: 2, ..Limits::default() })?;
    ensure!(cut.is_cut && cut.changes.len() == 2, "{cut:?}");
    Ok(())
}

fn out_of_time(inside: &Inside) -> Result<()> {
    let limits = Limits { time: Duration::from_secs(1), ..Limits::default() };
    let preview = dry(inside, "setsid sleep 3600", limits)?;
    ensure!(preview.end == End::OutOfTime, "{preview:?}");
    Ok(())
}

fn too_large(inside: &Inside) -> Result<()> {
    let limits =
        Limits { bytes: 1024 * 1024, time: Duration::from_secs(3600), ..Limits::default() };
    let preview = dry(inside, "head -c 4000000 /dev/urandom > large; sleep 3600", limits)?;
    ensure!(preview.end == End::TooLarge, "{preview:?}");
    // Too fast for a measurement while they run: the last one of each ends with 0 by itself.
    for fast in [
        "for n in 1 2 3 4 5 6 7 8; do head -c 900000 /dev/zero > f$n; done",
        "fallocate -l 3G large",
        "fallocate -l 3G large; rm large",
        "fallocate -l 3G \"$TMPDIR/large\"; rm \"$TMPDIR/large\"",
    ] {
        let preview = dry(inside, fast, limits)?;
        ensure!(preview.end == End::TooLarge, "{fast}: {preview:?}");
    }
    Ok(())
}

fn alone(inside: &Inside) -> Result<()> {
    // The daemon would hold the output open for an hour if it lived on.
    let script = "(setsid sleep 3600 &); ls /sys/class/net >/dev/null; cat /proc/net/route | wc -l";
    let preview = dry(inside, script, Limits::default())?;
    ensure!(preview.end == End::Exited(0) && preview.stdout == "1\n", "{preview:?}");
    Ok(())
}

/// A program that replaces links by its own files does not learn what the links led to: the target
/// is not shown as the earlier text.
fn hidden(inside: &Inside) -> Result<()> {
    let (project, secret) = (inside.project(), inside.dir.path().join("secret"));
    std::fs::create_dir(&secret)?;
    std::fs::write(secret.join("token"), "hidden")?;
    std::os::unix::fs::symlink(&secret, project.join("link"))?;
    std::os::unix::fs::symlink(secret.join("token"), project.join("file"))?;
    let script = "rm link file; mkdir link; echo x > link/token; echo y > file; \
                  mkdir closed; chmod 000 closed";
    let preview = dry(inside, script, Limits::default())?;
    let all = serde_json::to_string(&preview)?;
    ensure!(preview.end == End::Exited(0) && !all.contains("hidden"), "{preview:#?}");
    let paths: Vec<_> = preview.changes.iter().map(|it| it.path.to_string_lossy()).collect();
    ensure!(paths == ["closed", "file", "link", "link/token"], "{paths:?}");
    Ok(())
}

fn told(inside: &Inside) -> Result<()> {
    let run_dir = RunDir::new()?;
    std::fs::create_dir_all(inside.project().join("below"))?;
    let env = [("PATH", std::env::var("PATH")?), ("ONLY", "this".to_owned())];
    let env = env.map(|(name, value)| (OsString::from(name), OsString::from(value))).into();
    let words = ["sh", "-c", "echo $ONLY $HOME > made"].map(OsString::from);
    let run = |start_in: &std::path::Path| {
        let program = Program { words: &words, env: Some(&env), start_in: Some(start_in) };
        let wall = inside.wall(&run_dir);
        dry_run::run(&inside.stage, &inside.machine, &wall, &program, Limits::default())
    };
    let preview = run("below".as_ref())?;
    let made = preview.changes.iter().find(|it| it.path.ends_with("below/made"));
    ensure!(made.is_some_and(|it| it.after.as_deref() == Some("this\n")), "{preview:#?}");
    let refused = run(inside.dir.path()).err().map(|error| error.to_string());
    ensure!(refused.is_some_and(|why| why.contains("covers the working directory")));
    Ok(())
}
