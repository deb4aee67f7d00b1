//! A mount namespace in which a test can mount small file systems and fill them. A shell holds it
//! open.
//!
//! The mounts are visible only to programs started with [`SmallDisks::launcher`], and to us through
//! `/proc`. It needs root or unprivileged user namespaces; without them, the cases that need it are
//! ignored ([`Cases::with_small_disk`](crate::cases::Cases::with_small_disk)).

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// Set where a missing namespace must be a failure.
pub const REQUIRED: &str = "PLEXUS_REQUIRE_SMALL_DISK";

/// The mount namespace. It ends with this value, once no process started in it is alive.
#[derive(Debug)]
pub struct SmallDisks {
    shell: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// How a program enters it.
    enter: &'static [&'static str],
}

impl SmallDisks {
    /// Makes a namespace.
    ///
    /// # Errors
    /// When there cannot be one here, with the reason.
    pub fn new() -> Result<Self> {
        let forms: [(&[&str], &'static [&'static str]); 2] =
            [(&["-m"], &["--mount"]), (&["-rm"], &["--user", "--mount", "--preserve-credentials"])];
        let mut reasons = Vec::new();
        for (flags, enter) in forms {
            match Self::with(flags, enter) {
                Ok(disks) => return Ok(disks),
                Err(error) => reasons.push(format!("unshare {}: {error:#}", flags.join(" "))),
            }
        }
        bail!("no small disk can be mounted here ({})", reasons.join("; "))
    }

    fn with(flags: &[&str], enter: &'static [&'static str]) -> Result<Self> {
        let mut shell = Command::new("unshare")
            .args(flags)
            // The shell reads one command a line; its output ends with the exit code.
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
        // A trial mount at a place that exists everywhere, removed at once: being in a namespace
        // does not imply permission to mount there.
        disks.order("mount -t tmpfs -o size=1m plexus-test /mnt && umount /mnt")?;
        Ok(disks)
    }

    /// Mounts a file system of `size` (in the notation of `mount`, such as `4m`) at a directory,
    /// which is created.
    pub fn mount(&mut self, at: &Path, size: &str) -> Result<()> {
        let at = at.to_str().context("a path that is not UTF-8")?;
        if at.contains(['\'', '\n']) {
            bail!("{at} would need quoting");
        }
        self.order(&format!(
            "mkdir -p '{at}' && mount -t tmpfs -o mode=0700,size={size} plexus-test '{at}'"
        ))
    }

    /// Returns the command line prefix that starts a program inside. The program replaces the
    /// process of the prefix.
    #[must_use]
    pub fn launcher(&self) -> Vec<OsString> {
        let pid = self.shell.id().to_string();
        let words = ["nsenter", "--target", pid.as_str()]
            .into_iter()
            .chain(self.enter.iter().copied())
            .chain(["--"]);
        words.map(OsString::from).collect()
    }

    /// Returns the path of the namespace's root directory as seen from outside.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.shell.id()))
    }

    /// Returns a path of the namespace as seen from outside.
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
        // The shell exits at the end of its input; if waiting fails, it has exited already.
        drop(self.orders.take());
        let _left = self.shell.wait();
    }
}

/// Fills the disk with a file; removing it frees the space.
///
/// # Errors
/// When writing fails for another reason than a full disk.
pub fn fill(path: &Path) -> Result<()> {
    let mut file =
        File::create(path).with_context(|| format!("could not make {}", path.display()))?;
    // Large pieces come first, then smaller ones, down to the last byte.
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
