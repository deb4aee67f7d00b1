//! Files that a program leaves in a git directory, where nothing was before: git outside must not
//! run what they say.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Result, ensure};

use crate::Case;
use crate::inside::{Inside, said};

pub(crate) const CASES: &[(&str, Case)] = &[("git_outside_runs_nothing_that_was_planted", planted)];

/// One way to have git outside run something.
struct Attack {
    name: &'static str,
    /// Plants it. Each step may fail.
    plant: &'static str,
    /// What a person does afterwards.
    outside: &'static str,
}

/// Makes a directory whose configuration runs a command, for the attacks that lead git there.
const OTHER: &str = "mkdir -p other/objects other/refs other/hooks
    printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = touch \"%s/ran\" #\\n' \
        \"$PWD\" > other/config
    printf '[core]\\n\\tfsmonitor = touch \"%s/ran\" #\\n' \"$PWD\" > settings
    printf '#!/bin/sh\\ntouch \"%s/ran\"\\n' \"$PWD\" > script
    chmod +x script";

const ATTACKS: &[Attack] = &[
    Attack {
        name: "write commondir",
        plant: "echo ../other > .git/commondir",
        outside: "git status",
    },
    Attack {
        name: "move a file to commondir",
        plant: "echo ../other > c; mv -f c .git/commondir",
        outside: "git status",
    },
    Attack {
        name: "remove commondir first",
        plant: "rm -f .git/commondir; echo ../other > .git/commondir",
        outside: "git status",
    },
    Attack {
        name: "link commondir",
        plant: "echo ../other > c; ln -f c .git/commondir || ln -sfn ../c .git/commondir",
        outside: "git status",
    },
    Attack {
        name: "write commondir in a copy that takes the place of .git",
        plant: "cp -r .git copy; mv .git old; mv copy .git; echo ../other > .git/commondir",
        outside: "git status",
    },
    Attack {
        name: "write commondir of a submodule",
        plant: "echo ../../../other > .git/modules/part/commondir",
        outside: "git -C part status",
    },
    Attack {
        name: "write config.worktree",
        plant: "cp settings .git/config.worktree",
        outside: "git status",
    },
    Attack {
        name: "make a directory of hooks",
        plant: "mkdir .git/hooks; cp script .git/hooks/pre-commit",
        outside: "git commit -q --allow-empty -m x",
    },
    Attack {
        name: "move a directory of hooks",
        plant: "mkdir h; cp script h/pre-commit; rmdir .git/hooks; mv -T h .git/hooks",
        outside: "git commit -q --allow-empty -m x",
    },
    Attack {
        name: "choose a filter by attributes",
        plant: "mkdir .git/info; echo '* filter=own' > .git/info/attributes; echo new > one",
        outside: "git add one",
    },
];

/// Makes a repository without anything that git does not need, with a submodule's directory.
fn repository(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    let script = "git init -q --template= -b main .; git config user.name A
        git config user.email a@b.c; git config extensions.worktreeConfig true
        git config filter.own.clean \"touch '$PWD/ran'; cat\"
        mkdir .git/modules
        git init -q --template= -b main --separate-git-dir .git/modules/part part
        echo one > one; git add one; git commit -qm one";
    said(&shell(dir, script)?)?;
    Ok(())
}

fn shell(dir: &Path, script: &str) -> Result<Output> {
    let mut command = Command::new("sh");
    command.args(["-euc", script]).current_dir(dir);
    // The user's own settings could have a monitor of files too.
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    Ok(command.output()?)
}

fn planted(inside: &Inside) -> Result<()> {
    for (number, attack) in ATTACKS.iter().enumerate() {
        let plant = format!("{OTHER}\n{}", attack.plant);
        let ran = |dir: &Path| -> Result<bool> {
            // Git may refuse to work where something else than it expects was left.
            shell(dir, attack.outside)?;
            Ok(dir.join("ran").exists())
        };
        let open = inside.dir.path().join(format!("open-{number}"));
        repository(&open)?;
        shell(&open, &format!("set +e\n{plant}"))?;
        ensure!(ran(&open)?, "{}: it does not even work without a wall", attack.name);

        let project = inside.dir.path().join(format!("project-{number}"));
        repository(&project)?;
        let words = ["sh", "-uc", plant.as_str()];
        let output = inside.run_with(|wall| wall.working_dir.clone_from(&project), None, &words)?;
        let began = project.join("script").exists();
        ensure!(began, "{}: {}", attack.name, String::from_utf8_lossy(&output.stderr));
        ensure!(!ran(&project)?, "{}: git outside ran what was planted", attack.name);
        said(&shell(&project, "git status; git fsck; git worktree add -q linked; git gc -q")?)?;
    }
    Ok(())
}
