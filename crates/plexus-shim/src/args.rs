//! The shim's command line. It is parsed by hand: a parser library would cost memory in every
//! child's shim, for a handful of flags.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How to call the shim.
pub(crate) const USAGE: &str = "usage: plexus shim --dir RUN_DIR [--stdin inbox|null|file:PATH] \
    [--grace-ms 5000] \
[--segment-bytes 8388608] [--backlog-bytes 268435456] [--idle-secs 300] [--orphan-secs 604800] \
[--leash-secs N] \
-- PROGRAM [ARGS...]";

/// Everything that a shim is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The run directory.
    pub dir: PathBuf,
    /// What the child's stdin is.
    pub stdin: StdinSource,
    /// How long each request to end waits before the next, less polite one.
    pub grace: Duration,
    /// How large a journal segment gets before the next line goes into a new one.
    pub segment_bytes: u64,
    /// How much journal may wait for the server before the shim stops reading. A single line may
    /// exceed it.
    pub backlog_bytes: u64,
    /// How long a child that is marked idle lives after a server was last seen.
    pub idle: Duration,
    /// How long any child lives without output after a server was last seen.
    pub orphan: Duration,
    /// How long the child may live at all after a server was last seen; `None` for no limit.
    pub leash: Option<Duration>,
    /// The program, found through `PATH` when it has no slash. No shell is involved.
    pub program: OsString,
    /// The program's arguments.
    pub args: Vec<OsString>,
}

/// What the child's stdin is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StdinSource {
    /// A pipe, fed from the inbox.
    Inbox,
    /// `/dev/null`.
    Null,
    /// A file, read from its beginning.
    File(PathBuf),
}

/// Why the command line was not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageError(String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{USAGE}", self.0)
    }
}

impl std::error::Error for UsageError {}

impl Options {
    /// Returns the defaults for holding `program` in `dir`.
    pub fn new(dir: impl Into<PathBuf>, program: impl Into<OsString>) -> Self {
        Self {
            dir: dir.into(),
            stdin: StdinSource::Inbox,
            grace: Duration::from_secs(5),
            segment_bytes: 8 * 1024 * 1024,
            backlog_bytes: 256 * 1024 * 1024,
            idle: Duration::from_secs(300),
            // A week: long enough for a machine that was left over the holidays, but not for ever.
            orphan: Duration::from_secs(604_800),
            leash: None,
            program: program.into(),
            args: Vec::new(),
        }
    }

    /// Reads the arguments after `plexus shim`.
    pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Self, UsageError> {
        let mut args = args.into_iter();
        let mut options = Self::new("", "");
        loop {
            let flag =
                args.next().ok_or_else(|| UsageError("there is no -- PROGRAM".to_owned()))?;
            if flag == "--" {
                break;
            }
            let flag =
                flag.into_string().map_err(|_| UsageError("a flag is not UTF-8".to_owned()))?;
            let mut value =
                || args.next().ok_or_else(|| UsageError(format!("{flag} needs a value")));
            match flag.as_str() {
                "--dir" => options.dir = PathBuf::from(value()?),
                "--stdin" => options.stdin = parse_stdin(&value()?)?,
                "--grace-ms" => options.grace = Duration::from_millis(number(&flag, &value()?)?),
                "--segment-bytes" => options.segment_bytes = number(&flag, &value()?)?,
                "--backlog-bytes" => options.backlog_bytes = number(&flag, &value()?)?,
                "--idle-secs" => options.idle = Duration::from_secs(number(&flag, &value()?)?),
                "--orphan-secs" => options.orphan = Duration::from_secs(number(&flag, &value()?)?),
                "--leash-secs" => {
                    options.leash = Some(Duration::from_secs(number(&flag, &value()?)?))
                }
                _ => return Err(UsageError(format!("{flag} is not a flag of the shim"))),
            }
        }
        options.program =
            args.next().ok_or_else(|| UsageError("there is no program after --".to_owned()))?;
        options.args = args.collect();
        options.check()
    }

    /// Returns the arguments after `plexus shim` that [`Options::parse`] reads back as these
    /// options.
    pub fn to_args(&self) -> Vec<OsString> {
        let stdin = match &self.stdin {
            StdinSource::Inbox => OsString::from("inbox"),
            StdinSource::Null => OsString::from("null"),
            StdinSource::File(path) => {
                let mut text = OsString::from("file:");
                text.push(path);
                text
            }
        };
        let mut args: Vec<OsString> =
            vec!["--dir".into(), self.dir.clone().into(), "--stdin".into(), stdin];
        let numbers = [
            ("--grace-ms", u64::try_from(self.grace.as_millis()).unwrap_or(u64::MAX)),
            ("--segment-bytes", self.segment_bytes),
            ("--backlog-bytes", self.backlog_bytes),
            ("--idle-secs", self.idle.as_secs()),
            ("--orphan-secs", self.orphan.as_secs()),
        ];
        let leash = self.leash.map(|leash| ("--leash-secs", leash.as_secs()));
        for (flag, value) in numbers.into_iter().chain(leash) {
            args.extend([flag.into(), value.to_string().into()]);
        }
        args.extend(["--".into(), self.program.clone()]);
        args.extend(self.args.iter().cloned());
        args
    }

    fn check(self) -> Result<Self, UsageError> {
        if self.dir.as_os_str().is_empty() {
            return Err(UsageError("--dir is missing".to_owned()));
        }
        if self.program.is_empty() {
            return Err(UsageError("the program is empty".to_owned()));
        }
        // With less, the open segment could fill the backlog alone, and the server can take only
        // closed ones.
        if self.segment_bytes == 0 || self.backlog_bytes / 2 < self.segment_bytes {
            return Err(UsageError(
                "--backlog-bytes must be at least twice --segment-bytes".to_owned(),
            ));
        }
        Ok(self)
    }
}

fn parse_stdin(value: &OsStr) -> Result<StdinSource, UsageError> {
    use std::os::unix::ffi::OsStrExt as _;
    match value.as_bytes() {
        b"inbox" => Ok(StdinSource::Inbox),
        b"null" => Ok(StdinSource::Null),
        bytes => match bytes.strip_prefix(b"file:") {
            Some(path) if !path.is_empty() => {
                Ok(StdinSource::File(PathBuf::from(OsStr::from_bytes(path))))
            }
            _ => Err(UsageError("--stdin takes inbox, null or file:PATH".to_owned())),
        },
    }
}

fn number(flag: &str, value: &OsStr) -> Result<u64, UsageError> {
    value
        .to_str()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| UsageError(format!("{flag} takes a whole number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, UsageError> {
        Options::parse(line.split(' ').map(OsString::from))
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut options = Options::new("run", "claude");
        options.args = vec!["-p".into(), "--".into(), "--dir".into()];
        options.leash = Some(Duration::from_secs(9));
        for stdin in [StdinSource::Inbox, StdinSource::Null, StdinSource::File("a b".into())] {
            options.stdin = stdin;
            assert_eq!(Options::parse(options.to_args()), Ok(options.clone()));
        }
    }

    #[test]
    fn malformed_arguments_are_refused() {
        for line in [
            "--dir d",
            "--dir d --",
            "-- sh",
            "--dir d --grace-ms -- sh",
            "--dir d --grace-ms soon -- sh",
            "--dir d --stdin tty -- sh",
            "--dir d --stdin file: -- sh",
            "--dir d --segment-bytes 0 -- sh",
            "--dir d --segment-bytes 10 --backlog-bytes 19 -- sh",
            "--dir d --shell -- sh",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
