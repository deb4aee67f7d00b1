//! The second ring, around a command: what it hides stays hidden where a directory above it is open
//! as a whole, as `/tmp` is in the full tier.

use std::fs;

use anyhow::{Result, ensure};
use plexus_confine::{RunDir, plan};

use crate::Case;
use crate::inside::{Inside, said};

pub(crate) const CASES: &[(&str, Case)] = &[
    ("a_command_reads_and_replaces_nothing_that_the_ring_hides_below_tmp", below_tmp),
    ("a_hidden_file_directly_in_tmp_is_refused", directly_in_tmp),
];

/// Tries to get at the agent's files, and says what succeeded.
const COMMAND: &str = r#"
cat "$AGENT/secret" "$LOGIN" && echo "reads"
cat "$(readlink -f "$AGENT")/secret" && echo "reads by another name"
echo x > "$AGENT/secret" && echo "writes"
: > "$AGENT/made" && echo "makes a file"
rm -rf "$AGENT" "$LOGIN" && echo "removes"
mv "$AGENT" "$AGENT.old" && echo "renames"
ln -sf /bin/true "$SHELL_OF_THE_RING" && echo "replaces the shell"
mv "$FIRST" /tmp/elsewhere && echo "moves the way"
cat "$AGENT/shared/note"
echo x > work || echo "cannot work"
mkdir -p "$TMPDIR/own/x" && mv "$TMPDIR/own" "$TMPDIR/other" || echo "has no temporary directory"
"#;

fn below_tmp(inside: &Inside) -> Result<()> {
    let dir = inside.dir.path().canonicalize()?;
    ensure!(dir.starts_with("/tmp"), "{} is the temporary directory", dir.display());
    let (agent, login, shell) = (dir.join("data/agent"), dir.join("home/login"), dir.join("shell"));
    for made in [&agent.join("shared"), &dir.join("home"), &shell] {
        fs::create_dir_all(made)?;
    }
    for file in [&agent.join("secret"), &agent.join("shared/note"), &login] {
        fs::write(file, "a text\n")?;
    }
    let run_dir = RunDir::new()?;
    let mut wall = inside.wall(&run_dir);
    wall.write.extend([agent.clone(), login.clone()]);
    wall.read.push(shell.clone());
    let mut planned = plan(&wall, &inside.machine)?;
    let hidden = [agent.clone(), login.clone()];
    planned.keep_apart(&hidden)?;
    let ring = planned.ring(&hidden, &[agent.join("shared")]);
    let shell = ring.write_ring(&shell, &inside.stage.program)?;
    let file = run_dir.put(&planned)?;
    let script = r#"
        cat "$AGENT/secret" "$LOGIN"
        echo "of the agent" > "$AGENT/own"
        "$SHELL_OF_THE_RING" "$COMMAND" 2>/dev/null
        cat "$AGENT/own"
    "#;
    let output = inside
        .stage
        .command(&file, "sh".as_ref())
        .args(["-euc", script])
        .env("AGENT", &agent)
        .env("LOGIN", &login)
        .env("FIRST", &dir)
        .env("SHELL_OF_THE_RING", &shell)
        .env("COMMAND", COMMAND)
        .output()?;
    let told = said(&output)?;
    ensure!(told == "a text\na text\na text\nof the agent\n", "{told}");
    ensure!(fs::read_to_string(agent.join("own"))? == "of the agent\n", "it is elsewhere");
    ensure!(fs::read_to_string(agent.join("secret"))? == "a text\n" && login.exists(), "changed");
    Ok(())
}

fn directly_in_tmp(inside: &Inside) -> Result<()> {
    let login = tempfile::NamedTempFile::new_in("/tmp")?;
    let run_dir = RunDir::new()?;
    let mut wall = inside.wall(&run_dir);
    wall.write.push(login.path().to_owned());
    let mut planned = plan(&wall, &inside.machine)?;
    let kept = planned.keep_apart(&[login.path().to_owned()]);
    match inside.tier {
        plexus_confine::Tier::Full => {
            let why = kept.err().map(|why| why.to_string()).unwrap_or_default();
            ensure!(why.contains("move it into a directory of its own"), "{why}");
        }
        // Nothing there is open but the run's own directory.
        plexus_confine::Tier::Landlock => kept?,
    }
    Ok(())
}
