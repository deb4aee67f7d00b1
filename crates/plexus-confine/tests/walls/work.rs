//! Work that must succeed inside: editing, git, cargo, npm and pip.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::Case;
use crate::inside::{Inside, said};

pub(crate) const CASES: &[(&str, Case)] = &[
    ("files_are_edited", edit),
    ("git_commits", git),
    ("a_linked_worktree_commits", worktree),
    ("cargo_builds_offline", cargo),
    ("npm_installs_a_local_package", npm),
    ("pip_installs_a_local_package", pip),
    ("an_added_directory_is_written", added_directory),
    ("a_plan_can_be_started_again", again),
    ("programs_talk_through_pipes_and_terminals", pipes),
];

/// Says which tool a case wants that is not here.
pub(crate) fn missing_tool(case: &str) -> Option<String> {
    let tool = ["git", "cargo", "npm", "pip"].into_iter().find(|tool| case.starts_with(tool))?;
    let arguments: &[&str] = match tool {
        "pip" => &["-m", "pip", "--version"],
        _ => &["--version"],
    };
    let program = if tool == "pip" { "python3" } else { tool };
    let found = Command::new(program).args(arguments).output();
    let is_there = found.is_ok_and(|output| output.status.success());
    (!is_there).then(|| format!("{tool} is not installed"))
}

fn edit(inside: &Inside) -> Result<()> {
    inside.script(
        "mkdir -p a/b; echo one > a/b/f; mv a/b/f a/g; cp a/g h; ln -s h l; rm a/g; cat l > n",
    )?;
    let text = std::fs::read_to_string(inside.project().join("n"))?;
    ensure!(text == "one\n", "{text}");
    // The temporary directory is the run's own.
    let listed =
        inside.script("touch \"$TMPDIR/mine\"; ls \"$TMPDIR\"; test -w /dev/null; id -u")?;
    ensure!(listed.lines().any(|line| line == "mine"), "{listed}");
    Ok(())
}

/// Makes a repository with one commit, outside.
fn repository(inside: &Inside) -> Result<()> {
    let script = "git init -q -b main .; git config user.name A; git config user.email a@b.c; \
                  echo one > one; git add one; git commit -qm one";
    said(&Command::new("sh").args(["-euc", script]).current_dir(inside.project()).output()?)?;
    Ok(())
}

fn git(inside: &Inside) -> Result<()> {
    repository(inside)?;
    // A global setting replaces its file, and git must read it afterwards.
    let log = inside.script(
        "echo two > two; git add two; git commit -qm two; git branch side; git checkout -q side; \
         git config --global alias.last 'log -1 --format=%s'; git last; git stash list; git gc -q; \
         git status --short",
    )?;
    ensure!(log == "two\n", "{log}");
    let log = inside.script(
        "echo s >> two; git stash -q; git stash pop -q; git commit -qam three
         git switch -q main; echo m > m; git add m; git commit -qm m; git switch -q side
         GIT_SEQUENCE_EDITOR=\"sed -i '1iexec true'\" git rebase -q -i main
         git switch -q main; git merge -q --no-ff -m merged side; git tag t; git branch -d side >&2
         git worktree add -q inner 2>&1; echo w > inner/w; git -C inner add w
         git -C inner commit -qm inner; git worktree remove --force inner
         git pack-refs --all; git gc -q --prune=now; git fsck --no-progress; git status --short
         git log --topo-order --format=%s",
    )?;
    ensure!(log == "merged\nthree\nm\ntwo\none\n", "{log}");
    Ok(())
}

fn worktree(inside: &Inside) -> Result<()> {
    repository(inside)?;
    let script = "git worktree add -q ../linked";
    said(&Command::new("sh").args(["-euc", script]).current_dir(inside.project()).output()?)?;
    let linked = inside.dir.path().join("linked");
    let program = [
        "sh",
        "-euc",
        "echo 3 > three; git add three; git commit -qm three; git log -1 --format=%s",
    ];
    let output = inside.run_with(|wall| wall.working_dir = linked, None, &program)?;
    let log = said(&output)?;
    ensure!(log == "three\n", "{log}");
    Ok(())
}

fn cargo(inside: &Inside) -> Result<()> {
    let project = inside.project();
    std::fs::create_dir(project.join("src"))?;
    std::fs::write(project.join("src/main.rs"), "fn main() { println!(\"built inside\"); }")?;
    let manifest = "[package]\nname = \"inside\"\nedition = \"2021\"\n[workspace]\n";
    std::fs::write(project.join("Cargo.toml"), manifest)?;
    let said = inside.script("cargo run --offline -q; cargo test --offline -q >/dev/null")?;
    ensure!(said == "built inside\n", "{said}");
    Ok(())
}

fn npm(inside: &Inside) -> Result<()> {
    let project = inside.project();
    std::fs::create_dir(project.join("part"))?;
    std::fs::write(project.join("part/package.json"), r#"{"name":"part","version":"1.0.0"}"#)?;
    std::fs::write(project.join("part/index.js"), "module.exports = 'from the part';")?;
    let manifest = r#"{"name":"whole","version":"1.0.0","dependencies":{"part":"file:./part"}}"#;
    std::fs::write(project.join("package.json"), manifest)?;
    let said = inside.script(
        "npm install --offline --no-audit --no-fund --silent; node -p 'require(\"part\")'",
    )?;
    ensure!(said.ends_with("from the part\n"), "{said}");
    Ok(())
}

fn pip(inside: &Inside) -> Result<()> {
    let make_wheel = r#"
import zipfile
with zipfile.ZipFile("part-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr("part.py", "WORDS = 'from the part'\n")
    wheel.writestr("part-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: part\nVersion: 1.0\n")
    wheel.writestr("part-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr("part-1.0.dist-info/RECORD", "part.py,,\npart-1.0.dist-info/METADATA,,\npart-1.0.dist-info/WHEEL,,\npart-1.0.dist-info/RECORD,,\n")
"#;
    std::fs::write(inside.project().join("make_wheel.py"), make_wheel)?;
    let said = inside.script(
        // Not pyenv's stand-in for python3, which rewrites itself after each installation.
        "python=$(python3 -c 'import sys; print(sys.executable)'); $python make_wheel.py; \
         $python -m pip install -q --no-index --disable-pip-version-check --root-user-action \
         ignore \
         --target site ./part-1.0-py3-none-any.whl; \
         PYTHONPATH=site python3 -c 'import part; print(part.WORDS)'",
    )?;
    ensure!(said == "from the part\n", "{said}");
    Ok(())
}

fn added_directory(inside: &Inside) -> Result<()> {
    let added = inside.dir.path().join("added");
    std::fs::create_dir(&added)?;
    let script = format!("echo x > {0}/f; echo x > {0}/../other || true", added.display());
    let program = ["sh", "-euc", script.as_str()];
    said(&inside.run_with(|wall| wall.write.push(added.clone()), None, &program)?)?;
    ensure!(added.join("f").exists(), "the file is not there");
    ensure!(!inside.dir.path().join("other").exists(), "the wall leaks");
    Ok(())
}

fn again(inside: &Inside) -> Result<()> {
    let run_dir = plexus_confine::RunDir::new()?;
    let planned = plexus_confine::plan(&inside.wall(&run_dir), &inside.machine)?;
    let file = run_dir.put(&planned)?;
    for _ in 0..2 {
        said(&inside.stage.command(&file, "true".as_ref()).output()?)?;
    }
    Ok(())
}

fn pipes(inside: &Inside) -> Result<()> {
    let said = inside.script(
        "mkfifo p; (echo through > p &) ; cat p; echo word | tr a-z A-Z; \
         test -c /dev/null; head -c 4 /dev/urandom | wc -c",
    )?;
    ensure!(said == "through\nWORD\n4\n", "{said}");
    Ok(())
}
