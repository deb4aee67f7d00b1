//! `plexus serve`: from the configuration to a running server, and to its end.
//!
//! In reading order: [`arguments`] are the flags; this file is the life of a server; [`listen`]
//! takes the ports or says who has them; [`tls`] has the certificate of the encrypted one;
//! [`descriptors`] makes room for connections; [`logging`] writes the log and changes its level;
//! [`telemetry`] hands it to a collector; [`pages`] are the addresses that are no doors
//! ([`dashboard`], [`metrics`], `/healthz`); [`steward`] has the operator's methods over the server
//! itself; [`shared`] opens a store that other servers use too, and [`relay`] reaches them.

pub mod arguments;
mod dashboard;
mod descriptors;
pub mod listen;
pub mod logging;
mod metrics;
pub(crate) mod pages;
mod port_owner;
pub(crate) mod relay;
pub(crate) mod shared;
pub(crate) mod steward;
#[cfg(feature = "otel")]
pub mod telemetry;
#[cfg(not(feature = "otel"))]
#[path = "no_telemetry.rs"]
pub mod telemetry;
pub(crate) mod tls;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use plexus_engine::Engine;
use plexus_engine::settings::Reach;
use plexus_engine::wall::{NoWall, WallSettings};
use plexus_store::{Prompts, UnixMillis};
use plexus_tls::serving::Serving;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use self::telemetry::Telemetry;
use crate::agent::{Agent, choose_codex};
use crate::config::{Sources, StoreUrl};
use crate::data_dir::clock_behind;
use crate::wiring::PlexusBuilder;
use crate::{ProgramLine, config};
use plexus_notify::{Receivers, receiver};
use plexus_render::error::could_not;
use plexus_render::screen;

/// The operator's rules, in the data directory; read at the start and on SIGHUP.
pub const RULE_FILE: &str = "loopback.toml";

/// What `plexus serve` is started with.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The data directory.
    pub data_dir: PathBuf,
    /// Whether a store that lost sessions is used without them.
    pub accept_older_store: bool,
    /// Where configuration comes from.
    pub sources: Sources,
    /// Whether the process starts a session of its own (`setsid`), so that closing the terminal
    /// that started it does not reach it.
    pub own_session: bool,
}

/// Serves until it is told to stop. Says on stdout where it listens, and at the end how many
/// children go on. `customize` adds to the server, such as activations of the embedding program.
///
/// # Errors
/// Whatever keeps it from starting, with what to do about it.
pub async fn serve(
    options: ServeOptions,
    customize: impl FnOnce(PlexusBuilder) -> PlexusBuilder,
) -> Result<()> {
    if options.own_session {
        rustix::process::setsid().context("could not leave the terminal")?;
    }
    let config = config::load(&options.sources).map_err(could_not)?;
    let telemetry = Telemetry::start(&config)?;
    let log_level = logging::start(&config, telemetry.as_ref())?;
    if let Some(behind) = clock_behind(&options.data_dir) {
        tracing::warn!(
            behind_secs = behind.as_secs(),
            "the data was written in the future: the clock was set back. Deadlines and grants count \
             on from the newest time in the store; quiet hours and signed messages show the \
             machine's time"
        );
    }
    let mut door_limits = config.door_limits();
    descriptors::make_room(&mut door_limits);
    small_pages();
    let own = std::env::current_exe().context("could not find this program itself")?;
    let path = std::env::var_os("PATH");
    let agent = Agent::choose(&config.claude_bin, &own, path.as_deref());
    let codex = choose_codex(&config.codex_bin, &own, path.as_deref());
    let codex_program = codex.as_ref().map(|line| line.program.as_path());
    for program in [Some(agent.line.program.as_path()), codex_program].into_iter().flatten() {
        if !program.exists() {
            tracing::warn!(
                program = %program.display(),
                "this agent is not there: its sessions fail until it is"
            );
        }
    }
    // The port before the store: a taken port must not leave a half-made data directory behind.
    let listener = listen::bind(&config).await?;
    let encrypted = match listen::bind_tls(&config).await? {
        Some(listener) => {
            let address = listener.local_addr().context("could not use the listener")?;
            Some((listener, tls::certificate(&config, &options.data_dir, address)?))
        }
        None => None,
    };
    let reach = reach(&config, encrypted.as_ref())?;
    let receivers = receiver::receivers(&config.webhooks, &config.notify, &options.sources.env)
        .map_err(could_not)?;
    let walls = config.confine.walls(&options.data_dir).context("could not find this program")?;
    let mut builder = PlexusBuilder::new(&options.data_dir)
        .agent(agent.line.clone())
        .cone(
            ProgramLine { program: own.clone(), leading: vec!["cone".into()] },
            config.cone.profile(),
        )
        .shim(ProgramLine { program: own, leading: vec!["shim".into()] })
        .settings(|settings| {
            config.apply_to(settings);
            settings.wall = walls.clone();
            settings.reach = reach.clone();
        })
        .durability(config.durability())
        .accept_older_store(options.accept_older_store)
        .limits(door_limits)
        .allowed_hosts(config.allowed_hosts.iter().cloned())
        .receivers(receivers);
    if let Some(codex) = codex {
        let options = config.codex.options(&options.data_dir, |name| std::env::var_os(name));
        builder = builder.codex(codex, options);
    }
    for agent in config.acp_agents().map_err(anyhow::Error::msg)? {
        let program = agent.program(path.as_deref());
        builder = builder.acp(agent.name, agent.profile, program);
    }
    if !config.store.url.is_empty() {
        builder = builder
            .shared_store(shared::open(&config.store.url).await?, shared::membership(&config));
    }
    let plexus = customize(builder).build().map_err(could_not)?;
    let rules = plexus.data_dir().join(RULE_FILE);
    let count = load_rules(plexus.engine(), &rules)?;
    if count > 0 {
        tracing::info!(rules = count, path = %rules.display(), "rules read");
    }
    let url = crate::wiring::url_of(listener.local_addr().context("could not use the listener")?);
    greet(&url, plexus.data_dir(), &agent, &config.store.url);
    say(&format!("  wall   {}", wall_words(&walls)));
    say_reach(&reach, encrypted.as_ref());
    let shutdown = CancellationToken::new();
    let listening = Signals::listen()?;
    let upkeep = tokio::spawn(signals_until_stop(
        listening,
        shutdown.clone(),
        Reload {
            engine: Arc::clone(plexus.engine()),
            receivers: plexus.receivers().clone(),
            rules,
            sources: options.sources,
            log_level,
        },
    ));
    let pruning = tokio::spawn(prune_daily(
        Arc::clone(plexus.engine()),
        config.prune_after_days,
        shutdown.clone(),
    ));
    let stopped =
        plexus.serve_with_tls(listener, encrypted, shutdown.clone()).await.map_err(could_not);
    shutdown.cancel();
    let (_, _) = tokio::join!(upkeep, pruning);
    if let Some(telemetry) = telemetry {
        // It waits for a moment for a collector that does not answer, on a separate thread so that
        // nothing else waits.
        let _told = tokio::task::spawn_blocking(move || telemetry.finish()).await;
    }
    let stopped = stopped?;
    say(&match stopped.children {
        Some(children) => screen::server_stopped(children as u64),
        None => "stopped while it started; children keep running; the next start takes them over"
            .to_owned(),
    });
    Ok(())
}

/// Where people elsewhere reach this server: where the configuration says, else where it listens
/// with TLS.
fn reach(config: &config::Config, encrypted: Option<&(TcpListener, Serving)>) -> Result<Reach> {
    let listens = match encrypted {
        Some((listener, _)) => {
            let address = listener.local_addr().context("could not use the listener")?;
            Some(crate::wiring::url_of(address).replacen("http", "https", 1))
        }
        None => None,
    };
    let public = config.public_url.trim_end_matches('/');
    Ok(Reach {
        url: (!public.is_empty()).then(|| public.to_owned()).or(listens),
        fingerprint: encrypted.map(|(_, serving)| serving.fingerprint.clone()),
    })
}

fn say_reach(reach: &Reach, encrypted: Option<&(TcpListener, Serving)>) {
    if let Some(url) = &reach.url {
        say(&format!("  phone  {url} (plexus pair)"));
    }
    if let Some((listener, serving)) = encrypted {
        let address = listener.local_addr().map(|address| address.to_string());
        let address = address.unwrap_or_default();
        say(&format!("  tls    {address}, SHA-256 {}", serving.fingerprint));
        tracing::info!(address, fingerprint = serving.fingerprint, "listening with TLS");
    }
}

/// Turns off huge pages for this process. Each that the allocator touches counts 2 MiB, however
/// little of it is used: a session that waits would weigh ten times what it holds. The shim turns
/// them on again for its child.
fn small_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "huge pages stay on");
    }
}

fn greet(url: &str, data_dir: &Path, agent: &Agent, store: &StoreUrl) {
    say(&format!("plexus {} listens on {url}", env!("CARGO_PKG_VERSION")));
    say(&format!("  data   {}", data_dir.display()));
    if !store.is_empty() {
        say(&format!("  store  {store}, shared with other servers"));
    }
    say(&format!("  agent  {}", agent.label()));
    if agent.choice == crate::agent::AgentChoice::Fallback {
        say(&format!("         {}", screen::INSTALL_HINT));
    }
    say("  next   plexus run \"PROMPT\" in another terminal, or plexus dashboard");
    tracing::info!(url, data_dir = %data_dir.display(), agent = agent.label(), "listening");
}

/// Says what confines children whose session does not choose. It builds each wall once to find out.
fn wall_words(walls: &WallSettings) -> String {
    match (walls.default, walls.offer(walls.default, None)) {
        (profile, Ok(Some(offer))) => format!("{profile} (tier {})", offer.tier),
        (_, Ok(None)) => "none: a command that is allowed can do what you can do".to_owned(),
        (profile, Err(NoWall::Refused(why))) => {
            format!("none, because {profile} cannot be built: {why}")
        }
        (_, Err(NoWall::Unknown(why))) => {
            format!("not known, so sessions are refused unless they ask for none: {why}")
        }
    }
}

/// Tells the person who started the server. The log has its own lines, so a server whose reader is
/// gone, such as a pager that was closed, goes on.
fn say(line: &str) {
    let _nobody_reads_it = writeln!(std::io::stdout(), "{line}");
}

/// Says how many rules the rule file of a data directory has; `None` without a file.
///
/// # Errors
/// When the server would not start with it.
pub(crate) fn count_rules(data_dir: &Path) -> Result<Option<usize>> {
    let path = data_dir.join(RULE_FILE);
    let Some(text) = read_rule_file(&path)? else { return Ok(None) };
    let file = Engine::read_rules(&path, &text).map_err(unreadable)?;
    Ok(Some(file.rules.len()))
}

fn read_rule_file(path: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("could not read {}", path.display())),
    }
}

/// The errors of a rule file begin with its path.
fn unreadable(error: impl std::error::Error) -> anyhow::Error {
    anyhow::anyhow!("could not read {error}")
}

/// Loads the rule file, and returns how many rules it has; a missing file holds none.
fn load_rules(engine: &Engine, path: &Path) -> Result<usize> {
    let text = read_rule_file(path)?.unwrap_or_default();
    engine.load_rules(path, &text).map_err(unreadable)
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Listens from now on: a signal that comes while the server still starts is not lost.
    fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).context("could not listen for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }
}

struct Reload {
    engine: Arc<Engine>,
    receivers: Receivers,
    rules: PathBuf,
    sources: Sources,
    log_level: logging::LogLevel,
}

impl Reload {
    /// Reads the rules, the log level and the receivers again; what cannot be read stays as it was.
    fn reload(&self) {
        match load_rules(&self.engine, &self.rules) {
            Ok(rules) => tracing::info!(rules, "rules read again"),
            Err(error) => {
                tracing::error!(error = format!("{error:#}"), "the rules stay as they were")
            }
        }
        let config = config::load(&self.sources).map_err(anyhow::Error::from);
        match config
            .as_ref()
            .map_err(|error| anyhow!("{error:#}"))
            .and_then(|config| self.log_level.set(&config.log))
        {
            Ok(()) => tracing::info!("log level read again"),
            Err(error) => {
                tracing::error!(error = format!("{error:#}"), "the log level stays as it was")
            }
        }
        match config.and_then(|config| {
            Ok(receiver::receivers(&config.webhooks, &config.notify, &self.sources.env)?)
        }) {
            Ok(receivers) => {
                let count = receivers.len();
                self.receivers.set(receivers);
                tracing::info!(receivers = count, "receivers read again");
            }
            Err(error) => {
                tracing::error!(error = format!("{error:#}"), "the receivers stay as they were")
            }
        }
    }
}

async fn signals_until_stop(mut signals: Signals, shutdown: CancellationToken, reload: Reload) {
    loop {
        let name = tokio::select! {
            _ = signals.terminate.recv() => "SIGTERM",
            _ = signals.interrupt.recv() => "SIGINT",
            _ = signals.hangup.recv() => {
                reload.reload();
                continue;
            }
            () = shutdown.cancelled() => return,
        };
        tracing::info!(signal = name, "stopping");
        shutdown.cancel();
        return;
    }
}

/// How often old records are looked for.
const PRUNE_EVERY: Duration = Duration::from_secs(24 * 3_600);

async fn prune_daily(engine: Arc<Engine>, days: u64, shutdown: CancellationToken) {
    if days == 0 {
        return;
    }
    let mut tick = tokio::time::interval(PRUNE_EVERY);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = shutdown.cancelled() => return,
        }
        match engine
            .prune(steward::days_ago(UnixMillis::by_the_machine(), days), Prompts::Keep)
            .await
        {
            Ok((pruned, run_directories)) => {
                tracing::info!(
                    chats = pruned.chats,
                    events = pruned.events,
                    approvals = pruned.approvals,
                    run_directories,
                    "pruned"
                );
            }
            Err(error) => tracing::warn!(%error, "could not prune"),
        }
    }
}
