//! The egress process of a run: outside the wall, and all that the agent has of the network.
//!
//! The stage starts it before it restricts itself, below a [guard](super::guard) that the shim
//! adopts: it outlives the server, and ends with the run. It reads one file and has the real
//! key from its environment. Its stdin is a connection to the stage, which hands the doors over.
//! Hosts on its list pass; about another it asks the server as the agent does about a tool, by
//! `loopback.permit`, and asks the next server again when that was restarted.

use std::collections::HashMap;
use std::ffi::OsString;
use std::future::Future;
use std::io::{self, Write as _};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use plexus_client::Client;
use plexus_confine::egress::{
    ApiKey, Bounds, Connection, Decide, Decision, Egress, EgressOptions, Holder, HostPattern,
    ListedHosts, ModelApi, ServerDoor, UpstreamProxy,
};
use plexus_engine::tools::NETWORK_TOOL;
use plexus_engine::wall::asker_file;
use plexus_wire::{ErrorKind, Object, PermitAnswer, PermitRequest, SecretToken};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::guard;

/// The numbers of the doors, which are their ports where the agent has a network of its own.
pub(super) const PROXY_DOOR: u16 = 8200;
pub(super) const MODEL_DOOR: u16 = 8201;
/// How long an allow counts for further connections to the same host and port: a package manager
/// opens dozens for one command. A rule counts for longer.
const ALLOW_LASTS: Duration = Duration::from_secs(60);
/// How long to wait before a server that was not there is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// What the process that serves says to its guard once it has every door.
pub(super) const READY: &str = "+";
/// The arguments of the three processes: the starter, the guard, and the one that serves.
pub(super) const START: &str = "--egress";
pub(super) const GUARD: &str = "--egress-guard";
pub(super) const SERVE: &str = "--egress-serve";
pub(super) const LOG: &str = "egress.log";

/// What an egress process serves. Private to this user: it holds a token of the run.
#[derive(Serialize, Deserialize)]
pub(super) struct EgressFile {
    /// Where its own files are.
    pub(super) dir: PathBuf,
    /// Where a server announces itself.
    pub(super) data_dir: PathBuf,
    /// Whether there is a proxy.
    pub(super) proxy: bool,
    /// The hosts that pass unasked.
    pub(super) hosts: Vec<HostPattern>,
    /// The token for asking about other hosts; without one they are refused.
    pub(super) asks_with: Option<String>,
    /// The port at which the agent calls the server.
    pub(super) server: Option<u16>,
    /// The model's API.
    pub(super) model: Option<ModelFile>,
}

/// The door to the model's API.
#[derive(Serialize, Deserialize)]
pub(super) struct ModelFile {
    /// Where the API is.
    pub(super) upstream: String,
    /// The variable with the real key.
    pub(super) variable: String,
    /// What the agent shows instead.
    pub(super) stand_in: String,
}

impl EgressFile {
    /// Writes it for the process, readable by this user alone, and returns where.
    pub(super) fn write(&self) -> io::Result<PathBuf> {
        let path = self.dir.join("egress.json");
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        Ok(path)
    }
}

/// Whether a word after `confine` makes this an egress process.
#[must_use]
pub fn is_egress(word: &OsString) -> bool {
    [START, GUARD, SERVE].iter().any(|one| word == one)
}

/// Runs as one of three: `confine --egress FILE`, which starts the guard and ends, the guard of the
/// egress process, or that process.
#[expect(clippy::print_stderr, reason = "the agent's own stderr, or the log of the egress process")]
pub fn egress(mut args: impl Iterator<Item = OsString>) -> u8 {
    let (word, file) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
    let file = Path::new(&file);
    let stage = match StageLine::from_stdin() {
        Ok(stage) => stage,
        Err(error) => {
            eprintln!("{error:#}");
            return 1;
        }
    };
    let outcome = match word.to_str() {
        Some(GUARD) => {
            guard::stand(file, &args.next().unwrap_or_default().to_string_lossy(), stage)
        }
        Some(SERVE) => {
            let served = serve(file, args.next().and_then(|pid| pid.to_str()?.parse().ok()), stage);
            // Into the log. The stderr of the others is the agent's, in which the stage says what
            // it was told.
            served.inspect_err(|error| eprintln!("{error:#}"))
        }
        Some(_) | None => guard::start(file, stage),
    };
    u8::from(outcome.is_err())
}

/// The connection to the stage. It waits there, with an agent that has not started, for the word
/// that its doors are taken or for the reason why they are not.
pub(super) struct StageLine(UnixStream);

impl StageLine {
    /// Takes it from stdin, which is empty afterwards: the stage learns that a process of ours has
    /// ended by the end of this connection, which nobody else may hold open.
    fn from_stdin() -> Result<Self> {
        let stage = io::stdin().as_fd().try_clone_to_owned().context("hear the stage")?;
        rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?).context("leave stdin")?;
        Ok(Self(stage.into()))
    }

    /// Returns the stdin of the process that goes on in our place.
    pub(super) fn pass_on(&self) -> io::Result<Stdio> {
        Ok(OwnedFd::from(self.0.try_clone()?).into())
    }

    /// Whether the stage still waits. A process closes its descriptors before its pid can be given
    /// to another, so as long as it waits its pid is its own.
    pub(super) fn waits(&self) -> io::Result<bool> {
        let mut ended = [PollFd::new(&self.0, PollFlags::empty())];
        Ok(poll(&mut ended, Some(&Timespec::default()))? == 0)
    }

    /// Tells the stage why there is no egress process.
    pub(super) fn refuse(mut self, why: &anyhow::Error) {
        // A stage that is gone needs no reason.
        let _gone = write!(self.0, "{why:#}");
    }

    /// Does something without which there is no egress process: the stage is told why it failed.
    pub(super) fn or_refuse<T>(self, done: Result<T>) -> Result<(Self, T)> {
        match done {
            Ok(done) => Ok((self, done)),
            Err(error) => {
                self.refuse(&error);
                Err(error)
            }
        }
    }
}

pub(super) fn read(path: &Path) -> Result<EgressFile> {
    let text = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("read {}", path.display()))
}

#[expect(clippy::print_stdout, reason = "the guard waits for this line")]
fn serve(path: &Path, agent: Option<i32>, stage: StageLine) -> Result<()> {
    let prepared = read(path).and_then(|file| {
        // Not the working directory, which its owner may want to unmount or to remove.
        std::env::set_current_dir(&file.dir).context("enter the directory of the run")?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok((options(file, agent)?, runtime))
    });
    let (stage, (options, runtime)) = stage.or_refuse(prepared)?;
    runtime.block_on(async {
        let egress = Egress::take_over(options, stage.0).await.context("take the doors over")?;
        // Before the stage hears of it: from then on an agent may run that the guard must end.
        println!("{READY}");
        io::stdout().flush()?;
        plexus_fault::point!("egress.serves");
        // It ends with the run: the shim ends all that is below it.
        Ok(egress.run(std::future::pending()).await?)
    })
}

fn options(file: EgressFile, agent: Option<i32>) -> Result<EgressOptions> {
    let model = file.model.map(|model| {
        let key = std::env::var(&model.variable).context("the key of the model is not set")?;
        let stand_in = ApiKey::new(model.stand_in);
        Ok::<_, anyhow::Error>(ModelApi::new(&model.upstream, ApiKey::new(key), stand_in, None)?)
    });
    let listed = ListedHosts(file.hosts);
    let decider: Option<Arc<dyn Decide>> = match (file.proxy, file.asks_with) {
        (false, _) => None,
        (true, None) => Some(Arc::new(listed)),
        (true, Some(token)) => {
            let token = SecretToken::new(token);
            let (dir, data_dir) = (file.dir, file.data_dir.clone());
            let server = Server { dir, data_dir, token, agent, allowed: Mutex::default() };
            Some(Arc::new(Asking(Arc::new(server), listed)))
        }
    };
    let data_dir = file.data_dir;
    let server = file.server.map(|port| {
        let find = move || address_of(&data_dir);
        ServerDoor { port, find: Arc::new(find) }
    });
    let upstream = UpstreamProxy::from_variables(|name| std::env::var(name).ok());
    let upstream = upstream.map_err(anyhow::Error::msg)?;
    let (model, bounds) = (model.transpose()?, Bounds::default());
    Ok(EgressOptions { decider, model, bounds, server, upstream })
}

/// Where the server of a data directory listens now.
fn address_of(data_dir: &Path) -> Option<SocketAddr> {
    let url = plexus_client::read_announcement(data_dir)?.url;
    let url = url::Url::parse(&url).ok()?;
    let (host, port) = (url.host_str()?.trim_matches(['[', ']']).to_owned(), url.port()?);
    (host, port).to_socket_addrs().ok()?.next()
}

/// Lets the listed hosts pass and asks about the others.
struct Asking(Arc<Server>, ListedHosts);

impl Decide for Asking {
    fn decide(
        &self,
        host: &str,
        port: u16,
        from: Connection,
    ) -> Pin<Box<dyn Future<Output = Decision> + Send>> {
        if self.1.has(host, port) || self.0.has_allowed(host, port) {
            return Box::pin(std::future::ready(Decision::Allow));
        }
        let (server, host) = (Arc::clone(&self.0), host.to_owned());
        Box::pin(async move { server.ask(host, port, from).await })
    }
}

/// The server that decides, found anew for each question.
struct Server {
    /// Where the files of this wall are.
    dir: PathBuf,
    data_dir: PathBuf,
    token: SecretToken,
    /// The agent's process, by which its network is found.
    agent: Option<i32>,
    /// What was allowed a moment ago, and when.
    allowed: Mutex<HashMap<(String, u16), Instant>>,
}

impl Server {
    fn has_allowed(&self, host: &str, port: u16) -> bool {
        let mut allowed = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        allowed.retain(|_, at| at.elapsed() < ALLOW_LASTS);
        allowed.contains_key(&(host.to_owned(), port))
    }

    /// Asks until somebody answers. The question keeps its name, so that a server that was started
    /// again takes it for the same one.
    async fn ask(&self, host: String, port: u16, from: Connection) -> Decision {
        let mut input = Object::default();
        input.insert("host".to_owned(), host.clone().into());
        input.insert("port".to_owned(), port.into());
        let request = PermitRequest {
            tool_name: NETWORK_TOOL.to_owned(),
            input,
            tool_use_id: format!("network-{}", plexus_wire::ApprovalId::generate()),
        };
        let note = self.note_asker(&request.tool_use_id, from).await;
        plexus_fault::point!("egress.asks");
        let decision = loop {
            match self.permit(&request).await {
                Ok(PermitAnswer::Allow { .. }) => {
                    let mut allowed = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
                    allowed.insert((host, port), Instant::now());
                    break Decision::Allow;
                }
                Ok(PermitAnswer::Deny { message }) => break Decision::Deny(message),
                Err(Some(why)) => break Decision::Deny(why),
                Err(None) => tokio::time::sleep(ASK_AGAIN).await,
            }
        };
        plexus_fault::point!("egress.answered");
        if let Some(note) = note {
            let _already_gone = std::fs::remove_file(note);
        }
        decision
    }

    /// Writes down who opened a connection, where the server looks for it and nobody within the
    /// wall can write. The search reads the files of all processes, so it has a thread of its own.
    /// Without this note the question is asked all the same.
    async fn note_asker(&self, question: &str, from: Connection) -> Option<PathBuf> {
        let (agent, path) = (self.agent?, asker_file(&self.dir, question)?);
        let note = move || {
            let Holder { started, pid } = from.process(agent)?;
            let mut options = std::fs::OpenOptions::new();
            let file = options.write(true).create_new(true).mode(0o600).open(&path);
            file.and_then(|mut file| writeln!(file, "{pid} {started}")).ok()?;
            Some(path)
        };
        tokio::task::spawn_blocking(note).await.ok()?
    }

    /// Asks the server that runs now. An error with words is final; one without is worth a retry.
    async fn permit(&self, request: &PermitRequest) -> Result<PermitAnswer, Option<String>> {
        let announced = plexus_client::read_announcement(&self.data_dir).ok_or(None)?;
        let client = Client::connect(announced.url, self.token.clone());
        client.loopback().permit(request).await.map_err(|error| match error.kind() {
            ErrorKind::Unauthorized | ErrorKind::Forbidden | ErrorKind::Invalid => {
                Some(format!("nobody could be asked: {error}"))
            }
            _ => None,
        })
    }
}
