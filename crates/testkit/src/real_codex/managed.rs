//! The real CLI on a machine whose administrator has left commands to a person.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

/// A rule that leaves every `touch` to a person.
const REQUIREMENTS: &str = "[rules]\nprefix_rules = [{ pattern = [{ token = \"touch\" }], \
                            decision = \"prompt-user\", justification = \"a person must look\" }]\n";

/// A CLI that reads a managed rule. The CLI takes such rules only from `/etc/codex`, so it is
/// started in a mount namespace of its own, where `/etc` has that directory; the machine's `/etc`
/// stays as it is.
#[derive(Debug)]
pub struct ManagedCli {
    folder: TempDir,
}

impl ManagedCli {
    /// Makes a program that starts `cli` with the rule.
    pub fn new(cli: &Path) -> Result<Self> {
        // Not below /tmp, as the sandbox of the CLI.
        let folder = tempfile::Builder::new()
            .prefix("managed-codex-")
            .tempdir_in("/var/tmp")
            .context("could not make a folder")?;
        let etc = folder.path().join("etc");
        std::fs::create_dir_all(etc.join("codex")).context("could not make a folder")?;
        std::fs::write(etc.join("codex/requirements.toml"), REQUIREMENTS)
            .context("could not write the rule")?;
        let cli = cli.canonicalize().context("could not find the CLI")?;
        let words = format!("{}{}", etc.display(), cli.display());
        ensure!(!words.contains(['\'', ':', ',', '\\']), "{words} would need quoting");
        let script = format!(
            "#!/bin/sh\nexec unshare --mount -- sh -c '{} && exec \"$@\"' sh '{}' \"$@\"\n",
            mount(&etc),
            cli.display()
        );
        let managed = Self { folder };
        std::fs::write(managed.program(), script).context("could not write the program")?;
        make_executable(&managed.program())?;
        Ok(managed)
    }

    /// Returns the program, which takes the arguments of the CLI.
    #[must_use]
    pub fn program(&self) -> PathBuf {
        self.folder.path().join("codex")
    }

    /// Says why no such program can be started here, if that is so.
    #[must_use]
    pub fn lacking() -> Option<String> {
        let folder = TempDir::new().ok()?;
        // As root, or in the user namespace that a suite enters.
        let reason = |flags: &str| {
            let tried = Command::new("unshare")
                .args([flags, "--", "sh", "-c", &mount(folder.path())])
                .output()
                .map_err(|error| format!("unshare: {error}"));
            match tried {
                Ok(output) if output.status.success() => None,
                Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
                Err(reason) => Some(reason),
            }
        };
        reason("-m").and_then(|_| reason("-rm")).map(|why| format!("/etc cannot be covered: {why}"))
    }
}

/// The command that lays a directory over `/etc`.
fn mount(over: &Path) -> String {
    format!("mount -t overlay plexus-test -o ro,lowerdir={}:/etc /etc", over.display())
}

fn make_executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    let permissions = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, permissions).context("could not make it executable")
}
