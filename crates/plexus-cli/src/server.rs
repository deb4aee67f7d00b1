//! Finds the server of a data directory, or starts one.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use plexus_client::{Client, ClientError, PORT_TAKEN, read_announcement};

use super::hints;
use plexus_render::error::could_not;

/// The log of a server that a command started.
pub(crate) const LOG_FILE: &str = "server.log";

/// How long a server may take to start, on a loaded machine.
pub(super) const START_DEADLINE: Duration = Duration::from_secs(60);

/// How often to look whether it has.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(30);

/// The most of a server's last words that is shown: an error that lists every key fits, and a log
/// at its lowest level does not fill the screen.
const MAX_LAST_WORDS: u64 = 8 * 1024;

/// How it went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// A server was there.
    Running,
    /// One was started, with its log here.
    Started { log: PathBuf },
}

/// Returns a client of the running server.
///
/// # Errors
/// When none runs.
pub(crate) async fn find(data_dir: &Path) -> Result<Client> {
    let client = Client::from_data_dir(data_dir);
    match client.plexus().version().await {
        Ok(_) => Ok(client),
        Err(error) if absent(&error) => {
            bail!(
                "could not find a server: none runs with its data in {}; start one with `plexus \
                 serve`",
                data_dir.display()
            )
        }
        Err(error) => Err(failed(error)),
    }
}

/// Returns a client of the running server; starts one when there is none.
///
/// # Errors
/// When it cannot be started; its own last words are in the message.
pub(crate) async fn find_or_start(
    data_dir: &Path,
    arguments: &[String],
) -> Result<(Client, Found)> {
    let client = Client::from_data_dir(data_dir);
    match client.plexus().version().await {
        Ok(_) => return Ok((client, Found::Running)),
        Err(error) if absent(&error) => {}
        Err(error) => return Err(failed(error)),
    }
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data_dir)
        .with_context(|| format!("could not create {}", data_dir.display()))?;
    let log = data_dir.join(LOG_FILE);
    match start(&client, data_dir, &log, arguments).await {
        Ok(()) => {}
        // This server can have another port: clients find it by its data directory.
        Err(error) if error.to_string().contains(PORT_TAKEN) => {
            let elsewhere =
                [arguments, &["--listen".to_owned(), "127.0.0.1:0".to_owned()]].concat();
            start(&client, data_dir, &log, &elsewhere).await?;
        }
        Err(error) => return Err(error),
    }
    Ok((client, Found::Started { log }))
}

async fn start(client: &Client, data_dir: &Path, log: &Path, arguments: &[String]) -> Result<()> {
    // The log goes on over many starts, and only what this one says counts.
    let begins = log.metadata().map_or(0, |found| found.len());
    let mut child = spawn(data_dir, log, arguments)?;
    let deadline = Instant::now() + START_DEADLINE;
    loop {
        if read_announcement(data_dir).is_some() && client.plexus().version().await.is_ok() {
            return Ok(());
        }
        if let Some(status) = child.try_wait().context("could not watch the server")? {
            bail!("could not start a server ({status}):\n{}", last_words(log, begins));
        }
        if Instant::now() > deadline {
            bail!(
                "could not start a server: it did not answer within {} s; its log is {}",
                START_DEADLINE.as_secs(),
                log.display()
            );
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn absent(error: &ClientError) -> bool {
    matches!(error, ClientError::NoServer(_) | ClientError::Unreachable { .. })
}

/// Starts `plexus serve` as a process of its own: it outlives this command and its terminal.
fn spawn(data_dir: &Path, log: &Path, arguments: &[String]) -> Result<Child> {
    let own = std::env::current_exe().context("could not find this program itself")?;
    let log_file = OpenOptions::new().create(true).append(true).mode(0o600).open(log);
    let log_file = log_file.with_context(|| format!("could not open {}", log.display()))?;
    let mut command = Command::new(own);
    command
        .args(["serve", "--new-session", "--data-dir"])
        .arg(data_dir)
        .args(arguments)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log_file.try_clone().context("could not open the log twice")?)
        .stderr(log_file);
    command.spawn().context("could not start plexus serve")
}

/// Returns what a server has written since its log had this length; the end of it when it is long.
fn last_words(log: &Path, begins: u64) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(log)?;
        let from = begins.max(file.metadata()?.len().saturating_sub(MAX_LAST_WORDS));
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(MAX_LAST_WORDS).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end();
        Ok(if from > begins { format!("… {text}") } else { text.to_owned() })
    };
    read().unwrap_or_else(|error| format!("could not read {}: {error}", log.display()))
}

/// Turns a client's error into a sentence with its hint.
pub(crate) fn failed(error: ClientError) -> anyhow::Error {
    let hint = hints::with_commands(error.hint());
    let told = could_not(error);
    if hint.is_empty() { told } else { anyhow::anyhow!("{told}\n  {hint}") }
}
