//! Finds out what this machine can enforce, by building each wall around a process that then ends.
//!
//! Files and versions only say what might work: a container refuses calls that its kernel has.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::dry_run;
use crate::files;
use crate::machine::{CannotBuild, Machine, Tier};
use crate::plan::{Plan, plan};
use crate::wall::{Profile, Wall};

/// How the stage is started: a program whose `main` calls [`crate::main`] after these arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StageProgram {
    /// The program.
    pub program: PathBuf,
    /// The arguments before `FILE`.
    pub arguments: Vec<OsString>,
}

impl StageProgram {
    /// Names this very program, as `plexus confine --stage`.
    ///
    /// # Errors
    /// When the program's own file cannot be found.
    pub fn this() -> io::Result<Self> {
        let arguments = ["confine", "--stage"].map(OsString::from).to_vec();
        Ok(Self { program: std::env::current_exe()?, arguments })
    }

    /// Returns the command that becomes `program` within the plan of `file`.
    #[must_use]
    pub fn command(&self, file: &Path, program: &std::ffi::OsStr) -> Command {
        let mut command = self.stage(file);
        command.arg("--").arg(program);
        command
    }

    fn stage(&self, file: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg(file);
        command
    }
}

/// Tries every tier. Takes a few milliseconds for each.
#[must_use]
pub fn probe(stage: &StageProgram) -> Machine {
    let landlock_abi = files::abi().map_or(0, |abi| u8::try_from(abi as i32).unwrap_or(u8::MAX));
    Machine {
        landlock_abi,
        full: attempt(stage, Tier::Full).err(),
        landlock: attempt(stage, Tier::Landlock).err(),
        dry_run: dry_run::attempt(stage).err(),
    }
}

/// The words of a step and its next step are one line of the stage's stderr.
pub(crate) fn cannot(words: &str) -> CannotBuild {
    let words = words.trim().trim_start_matches("confine: ");
    let (missing, next) = words.split_once("; ").unwrap_or((
        words,
        "run on Linux 6.7 or newer with Landlock, or go without a wall by choice",
    ));
    CannotBuild { missing: missing.to_owned(), next: next.to_owned() }
}

fn attempt(stage: &StageProgram, tier: Tier) -> Result<(), CannotBuild> {
    let dir = RunDir::new().map_err(|error| cannot(&format!("make a directory: {error}")))?;
    let believed = Machine { landlock_abi: 0, full: None, landlock: None, dry_run: None };
    let mut wall = Wall::new(Profile::Strict, dir.path().join("work"), dir.temp_dir());
    wall.tier = Some(tier);
    let planned = plan(&wall, &believed).map_err(|error| cannot(&error.to_string()))?;
    check(stage, &planned, &dir)
}

/// Runs a stage that only builds its wall.
pub(crate) fn check(stage: &StageProgram, planned: &Plan, dir: &RunDir) -> Result<(), CannotBuild> {
    let file = dir.put(planned).map_err(|error| cannot(&format!("write the plan: {error}")))?;
    match stage.stage(&file).arg("--check").stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) if output.stderr.is_empty() => {
            Err(cannot(&format!("build a wall: the stage ended with {}", output.status)))
        }
        Ok(output) => Err(cannot(&String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(cannot(&format!("start the stage: {error}"))),
    }
}

/// A directory for one run, for this user alone, that goes with its value.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// Makes one in the temporary directory of this machine.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new() -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let name = format!("plexus-confine-{:016x}", u64::from_ne_bytes(random));
        let path = std::env::temp_dir().join(name);
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        let dir = Self { path: path.canonicalize()? };
        for name in ["work", "temp"] {
            fs::create_dir(dir.path.join(name))?;
        }
        Ok(dir)
    }

    /// Returns the directory. The program does not see it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the files of a plan and writes it down, for the stage. Returns the plan's file.
    ///
    /// # Errors
    /// When they cannot be made, or there is a plan already.
    pub fn put(&self, plan: &Plan) -> io::Result<PathBuf> {
        plan.prepare()?;
        let file = self.path.join("plan");
        plan.write_to(&file)?;
        Ok(file)
    }

    /// Returns the part of it that is the run's temporary directory.
    #[must_use]
    pub fn temp_dir(&self) -> PathBuf {
        self.path.join("temp")
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        let _left_behind_in_the_temporary_directory = remove_flat(&self.path);
    }
}

/// Removes a directory that a confined program has filled. Each directory in it is first moved to
/// the top, so that neither paths nor a recursion grow with a depth that the program chose.
fn remove_flat(root: &Path) -> io::Result<()> {
    let mut moved: u64 = 0;
    let mut left = vec![root.to_owned()];
    let mut empty = Vec::new();
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                fs::remove_file(entry.path())?;
                continue;
            }
            // The kernel makes a directory without rights in the state of an overlay.
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o700))?;
            let at_the_top = root.join(format!("{moved}.moved"));
            moved += 1;
            fs::rename(entry.path(), &at_the_top)?;
            left.push(at_the_top);
        }
        if dir != root {
            empty.push(dir);
        }
    }
    empty.into_iter().try_for_each(fs::remove_dir)?;
    fs::remove_dir(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_that_is_deeper_than_a_path_can_be_is_removed() {
        let dir = RunDir::new().unwrap();
        let path = dir.path().to_owned();
        // Made from the inside out, because the whole of it has no name.
        let name = "d".repeat(200);
        for _ in 0..50 {
            let work = path.join("work");
            fs::rename(&work, path.join("inner")).unwrap();
            fs::create_dir(&work).unwrap();
            fs::rename(path.join("inner"), work.join(&name)).unwrap();
        }
        fs::write(path.join("temp/file"), "x").unwrap();
        std::os::unix::fs::symlink("/", path.join("temp/link")).unwrap();
        fs::set_permissions(path.join("temp"), fs::Permissions::from_mode(0o000)).unwrap();
        drop(dir);
        assert!(!path.exists());
    }
}
