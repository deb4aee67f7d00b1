//! A place where a test can mount small file systems and fill them: a mount namespace of its own,
//! held open by a shell.
//!
//! Nothing outside notices: the mounts are seen only by what is started with
//! [`SmallDisks::launcher`], and by us through `/proc`. It needs root or unprivileged user
//! namespaces; where neither is had, the caller is told why.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// Set where a namespace must be had: not having one is a failure there.
pub const REQUIRED: &str = "PLEXUS_REQUIRE_SMALL_DISK";

/// The mount namespace. It ends with this value, once nothing that was started in it lives.
#[derive(Debug)]
pub struct SmallDisks {
    shell: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// How a program enters it.
    enter: &'static [&'static str],
}

impl SmallDisks {
    /// Makes a namespace, or says why it cannot be had here.
    ///
    /// # Panics
    /// When it cannot be had and [`REQUIRED`] is set.
    #[must_use]
    pub fn new_or_explain(test: &str) -> Option<Self> {
        let forms: [(&[&str], &'static [&'static str]); 2] =
            [(&["-m"], &["--mount"]), (&["-rm"], &["--user", "--mount", "--preserve-credentials"])];
        let mut reasons = Vec::new();
        for (flags, enter) in forms {
            match Self::with(flags, enter) {
                Ok(disks) => return Some(disks),
                Err(error) => reasons.push(format!("unshare {}: {error:#}", flags.join(" "))),
            }
        }
        let why = format!("no small disk can be mounted here ({})", reasons.join("; "));
        assert!(std::env::var_os(REQUIRED).is_none(), "{test}: {why}");
        skipped(test, &why);
        None
    }

    fn with(flags: &[&str], enter: &'static [&'static str]) -> Result<Self> {
        let mut shell = Command::new("unshare")
            .args(flags)
            // One order a line; what it says ends with how it went.
            .args([
                "--",
                "sh",
                "-c",
                r#"while read -r order; do eval "$order" </dev/null 2>&1; echo "= $?"; done"#,
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("unshare could not be started")?;
        let orders = shell.stdin.take();
        let answers = BufReader::new(shell.stdout.take().context("no stdout")?);
        let mut disks = Self { shell, orders, answers, enter };
        // Tried on a place that exists everywhere, and taken away at once: being in a namespace
        // does not mean being allowed to mount there.
        disks.order("mount -t tmpfs -o size=1m plexus-test /mnt && umount /mnt")?;
        Ok(disks)
    }

    /// Mounts a file system of `size` (as `mount` reads it, such as `4m`) at a directory, which is
    /// made.
    pub fn mount(&mut self, at: &Path, size: &str) -> Result<()> {
        let at = at.to_str().context("a path that is not UTF-8")?;
        if at.contains(['\'', '\n']) {
            bail!("{at} would need quoting");
        }
        self.order(&format!(
            "mkdir -p '{at}' && mount -t tmpfs -o mode=0700,size={size} plexus-test '{at}'"
        ))
    }

    /// The words that start a program inside; the program becomes the process that they began as.
    #[must_use]
    pub fn launcher(&self) -> Vec<OsString> {
        let pid = self.shell.id().to_string();
        let words = ["nsenter", "--target", pid.as_str()]
            .into_iter()
            .chain(self.enter.iter().copied())
            .chain(["--"]);
        words.map(OsString::from).collect()
    }

    /// Where the namespace's root directory is seen from outside.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.shell.id()))
    }

    /// Where a path of the namespace is seen from outside.
    #[must_use]
    pub fn seen(&self, path: &Path) -> PathBuf {
        self.root().join(path.strip_prefix("/").unwrap_or(path))
    }

    fn order(&mut self, order: &str) -> Result<()> {
        let orders = self.orders.as_mut().context("the shell is gone")?;
        writeln!(orders, "{order}").context("the shell does not listen")?;
        let mut said = String::new();
        loop {
            let before = said.len();
            if self.answers.read_line(&mut said).context("the shell cannot be heard")? == 0 {
                if let Some(stderr) = &mut self.shell.stderr {
                    stderr.read_to_string(&mut said).context("the shell cannot be heard")?;
                }
                bail!("{}", said.trim());
            }
            match said[before..].trim_end() {
                "= 0" => return Ok(()),
                line if line.starts_with("= ") => bail!("{}", said.trim()),
                _ => {}
            }
        }
    }
}

impl Drop for SmallDisks {
    fn drop(&mut self) {
        // At the end of its orders the shell leaves; one that cannot be waited for has left.
        drop(self.orders.take());
        let _left = self.shell.wait();
    }
}

#[expect(
    clippy::print_stderr,
    reason = "whoever runs the test must see that it was skipped, and why"
)]
fn skipped(test: &str, why: &str) {
    eprintln!("SKIPPED {test}: {why}");
}

/// A file that takes all the room there is, until it is removed.
///
/// # Errors
/// When it cannot be made for another reason than that there is no room.
pub fn fill(path: &Path) -> Result<()> {
    let mut file =
        File::create(path).with_context(|| format!("could not make {}", path.display()))?;
    // Large pieces first, then what is left, to the last byte.
    for size in [64 * 1024, 4 * 1024, 1] {
        let piece = vec![b'x'; size];
        loop {
            match file.write_all(&piece) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => break,
                Err(error) => return Err(error).context("could not fill the disk"),
            }
        }
    }
    Ok(())
}
