//! Walls that cannot be built: the program does not start, and the error names the next step.

use anyhow::{Context as _, Result, ensure};
use plexus_confine::{EXIT_NOT_CONFINED, RunDir, Wall, plan};

use crate::Case;
use crate::inside::{Inside, said};

pub(crate) const CASES: &[(&str, Case)] = &[
    ("a_path_that_does_not_exist_is_named", missing_path),
    ("a_working_directory_that_opens_too_much_is_refused", too_much),
    ("a_link_put_there_since_the_plan_ends_the_stage", swapped),
    ("an_egress_process_that_is_gone_ends_the_stage", egress_gone),
    ("a_program_that_is_not_there_is_named", no_program),
    ("a_plan_that_cannot_be_read_starts_nothing", bad_plan),
    ("a_place_that_refuses_namespaces_starts_nothing", no_namespaces),
    ("secrets_of_the_starter_are_not_in_the_environment", variables),
];

impl Inside {
    fn refused(&self, change: impl FnOnce(&mut Wall)) -> Result<String> {
        let run_dir = RunDir::new()?;
        let mut wall = self.wall(&run_dir);
        change(&mut wall);
        Ok(plan(&wall, &self.machine).err().context("the wall was planned")?.to_string())
    }

    /// Runs the stage with a plan, and expects that it starts nothing.
    fn stage_fails(&self, change: impl FnOnce(&mut plexus_confine::Plan)) -> Result<String> {
        let run_dir = RunDir::new()?;
        let mut planned = plan(&self.wall(&run_dir), &self.machine)?;
        planned.prepare()?;
        change(&mut planned);
        let file = run_dir.path().join("plan");
        planned.write_to(&file)?;
        let output =
            self.stage.command(&file, "sh".as_ref()).args(["-c", "echo started"]).output()?;
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.code() == Some(i32::from(EXIT_NOT_CONFINED)), "{output:?}");
        ensure!(output.stdout.is_empty(), "the program started");
        Ok(why)
    }
}

fn missing_path(inside: &Inside) -> Result<()> {
    for (change, role) in [
        ((|wall| wall.read.push("/nowhere".into())) as fn(&mut Wall), "readable path /nowhere"),
        (|wall| wall.write.push("/nowhere".into()), "writable path /nowhere"),
        (|wall| wall.working_dir = "/nowhere".into(), "working directory /nowhere"),
    ] {
        let why = inside.refused(change)?;
        ensure!(why.starts_with(role) && why.contains("No such file"), "{why}");
    }
    Ok(())
}

fn too_much(inside: &Inside) -> Result<()> {
    let home = inside.dir.path().to_owned();
    let why = inside.refused(|wall| {
        wall.home = Some(home.clone());
        wall.working_dir = home;
    })?;
    ensure!(why.contains("it contains the home directory"), "{why}");
    let within = inside.project();
    let why = inside.refused(|wall| wall.temp_dir = within)?;
    ensure!(why.contains("set TMPDIR to a directory elsewhere"), "{why}");
    for path in ["/", "/etc", "/usr", "/proc/self", "/dev/shm"] {
        let why = inside.refused(|wall| {
            wall.home = None;
            wall.write.push(path.into());
        })?;
        ensure!(why.contains("it belongs to the system"), "{path}: {why}");
    }
    Ok(())
}

fn swapped(inside: &Inside) -> Result<()> {
    let added = inside.dir.path().join("added");
    std::fs::create_dir(&added)?;
    let run_dir = RunDir::new()?;
    let mut wall = inside.wall(&run_dir);
    wall.write.push(added.clone());
    let planned = plan(&wall, &inside.machine)?;
    let file = run_dir.put(&planned)?;
    let secret = inside.dir.path().join("secret");
    std::fs::create_dir(&secret)?;
    std::fs::remove_dir(&added)?;
    std::os::unix::fs::symlink(&secret, &added)?;
    let output = inside.stage.command(&file, "true".as_ref()).output()?;
    let why = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(i32::from(EXIT_NOT_CONFINED)), "{output:?}");
    ensure!(why.contains("a link was put there since the plan"), "{why}");
    Ok(())
}

fn egress_gone(inside: &Inside) -> Result<()> {
    let socket = inside.dir.path().join("gone");
    let why = match inside.tier {
        plexus_confine::Tier::Full => inside.stage_fails(|plan| {
            plan.doors.proxy = Some(8200);
            plan.doors.socket = Some(socket);
        })?,
        // The port leads nowhere, and nothing else is open: the program has no network.
        plexus_confine::Tier::Landlock => return Ok(()),
    };
    ensure!(why.contains("reach the egress process") && why.contains("must run before"), "{why}");
    Ok(())
}

fn no_program(inside: &Inside) -> Result<()> {
    let output = inside.run(&["no-such-program"])?;
    let why = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(i32::from(EXIT_NOT_CONFINED)), "{output:?}");
    ensure!(why.contains("could not start no-such-program") && why.contains("--read"), "{why}");
    Ok(())
}

fn bad_plan(inside: &Inside) -> Result<()> {
    let file = inside.dir.path().join("plan");
    std::fs::write(&file, "{\"tier\":\"full\"}")?;
    let output = inside.stage.command(&file, "true".as_ref()).output()?;
    ensure!(output.status.code() == Some(i32::from(EXIT_NOT_CONFINED)), "{output:?}");
    let why = inside.stage_fails(|plan| plan.working_dir = "/nowhere".into())?;
    ensure!(why.contains("/nowhere"), "{why}");
    Ok(())
}

/// Inside a wall no further namespace can be had, as in a container.
fn no_namespaces(inside: &Inside) -> Result<()> {
    let project = inside.project();
    let temp = RunDir::new()?;
    let mut wall = Wall::new(plexus_confine::Profile::Workspace, &project, temp.temp_dir());
    wall.tier = Some(plexus_confine::Tier::Full);
    let believed =
        plexus_confine::Machine { landlock_abi: 0, full: None, landlock: None, dry_run: None };
    let inner = plan(&wall, &believed)?;
    inner.prepare()?;
    inner.write_to(&project.join("plan"))?;
    let exe = inside.stage.program.to_string_lossy().into_owned();
    let program = [exe.as_str(), "confine", "--stage", "plan", "--", "echo", "started"];
    let output = inside.run(&program)?;
    let why = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(i32::from(EXIT_NOT_CONFINED)), "{output:?}");
    ensure!(output.stdout.is_empty() && why.contains("could not make namespaces"), "{why}");
    ensure!(why.contains("the tier landlock works without"), "{why}");
    Ok(())
}

fn variables(inside: &Inside) -> Result<()> {
    let run_dir = RunDir::new()?;
    let planned = plan(&inside.wall(&run_dir), &inside.machine)?;
    let file = run_dir.put(&planned)?;
    let output = inside
        .stage
        .command(&file, "env".as_ref())
        .envs([("PLEXUS_TOKEN", "t"), ("SSH_AUTH_SOCK", "s"), ("KEPT", "k")])
        .output()?;
    let seen = said(&output)?;
    ensure!(!seen.contains("PLEXUS_TOKEN") && !seen.contains("SSH_AUTH_SOCK"), "{seen}");
    ensure!(seen.contains("KEPT=k"), "{seen}");
    Ok(())
}
