//! Starting a child: the row first, then the directory with everything in it, then the process. A
//! crash in between leaves nothing unexplained.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use plexus_core::digest::input_digest;
use plexus_core::{CallError, Caller, SessionId};
use plexus_shim::layout::{InboxSeq, LayoutError, RunDir};
use plexus_shim::{Options, StdinSource};
use plexus_store::{
    AppendEvents, AssignRun, Change, Chat, CreateRun, EndRun, JsonText, Patch, Priority,
    RevokeTokens, RunKey, RunRecord, SessionRecord, Store, StoreError, UnixMillis, UpdateRun,
};
use plexus_wire::{ChannelChoice, ChatEvent, Confine, FIRST_AGENT, ProjectSettings};
use serde::{Deserialize, Serialize};

use crate::agents::{Agent, Agents};
use crate::driver::{
    Begin, Channel, Conversation, FirstPrompt, Launch, LaunchError, McpDoor, Mind, Plan, Stdin,
    UnusableProgram,
};
use crate::event::ToNewEvent;
use crate::handles::CONE;
use crate::hold::Hold;
use crate::home::{HomeError, Homes, find_unwanted};
use crate::identity::Identity;
use crate::instructions;
use crate::parking::transcript::Unwakeable;
use crate::prompt::Prompt;
use crate::replan::Replans;
use crate::run::state::{Begun, OpenChat, Prestarted, RunState};
use crate::run::{Keeping, NoExit, Origin, Run, RunKeeper, RunTools, close_questions};
use crate::session::{SessionConfig, SessionState};
use crate::settings::Settings;
use crate::wall::NoWall;
use crate::walled::{Start, Walled, wall_words};

/// The names of the variables that every child inherits from the server. A command that is tried in
/// a dry run inherits them too. A driver adds those of its agent.
pub(crate) const INHERITED: &[&str] = &[
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TMPDIR", "SHELL",
    "TZ",
];

/// The variables that lead to the network, which every child inherits too.
const LEAD_OUT: &[&str] = &[
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Why a child could not be started. The text goes to the reader of the chat.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("could not {0}")]
    Store(#[from] StoreError),
    #[error("could not use the agent: {0}")]
    Unusable(#[from] UnusableProgram),
    #[error("could not {0}")]
    Unknown(CallError),
    #[error("could not start the agent: {0}")]
    Launch(#[from] LaunchError),
    #[error("could not make the agent's home ready: {0}")]
    Home(#[from] HomeError),
    #[error("could not build the wall that this session asks for, so nothing was started: {0}")]
    Wall(#[from] NoWall),
    #[error("could not prepare the run: {0}")]
    Layout(#[from] LayoutError),
    #[error("could not write {}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("could not start {}: {source}", program.display())]
    Spawn { program: PathBuf, source: std::io::Error },
    #[error("could not watch the process: {0}")]
    Watch(std::io::Error),
    #[error(
        "could not start the agent: this server does not know its own address, which the MCP \
         channel needs"
    )]
    NoAddress,
    #[error(
        "could not start the agent: this server's lease has ended, and another server may \
         have taken over"
    )]
    Untrusted,
    #[error("could not start the agent: it would run what is in {} without asking; remove \
        it first", .0.display())]
    Unwanted(PathBuf),
    #[error("could not wake the agent: {0}; nothing ran")]
    Unwakeable(#[from] Unwakeable),
    #[error(
        "could not copy the conversation: it has just been woken; try again when its chat has ended"
    )]
    JustWoken,
    #[error("could not start the agent: {} is no longer the directory that it was; create a \
        session for the new one", .0.display())]
    Moved(PathBuf),
}

/// Where this server is reached, once it listens.
#[derive(Debug, Default)]
pub struct Address(RwLock<Option<String>>);

impl Address {
    /// The address, if it is known.
    #[must_use]
    pub fn get(&self) -> Option<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says where this server listens.
    pub fn set(&self, url: String) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(url);
    }
}

/// Starts children.
pub(crate) struct Starter {
    pub(crate) tools: RunTools,
    pub(crate) agents: Agents,
    pub(crate) identity: Arc<Identity>,
    pub(crate) address: Arc<Address>,
    homes: Homes,
}

impl Starter {
    pub(crate) fn new(
        tools: RunTools,
        agents: Agents,
        identity: Arc<Identity>,
        address: Arc<Address>,
    ) -> Self {
        Self { tools, agents, identity, address, homes: Homes::default() }
    }

    /// Starts a process for `chat` and returns its run, not yet running.
    pub(crate) async fn start(
        &self,
        keeper: Weak<dyn RunKeeper>,
        session: &SessionRecord,
        chat: &Chat,
        prompt: &Prompt,
        keeping: Keeping,
    ) -> Result<Run, StartError> {
        let prepared = self.prepare(session).await?;
        self.settle_woken(session, &prepared.config, &prepared.agent.driver).await?;
        let conversation = conversation(session, keeping)?;
        let cost = match &conversation {
            Conversation::New => 0.0,
            Conversation::Resume(_) | Conversation::Fork { .. } | Conversation::Wake { .. } => {
                cost_before(&*self.tools.store, session).await?
            }
        };
        let open = OpenChat::new(chat.number, Some(chat.prompt_uuid), Begun::WithProcess);
        let state = RunState::begin(prepared.mind(&conversation, cost), open);
        let prompt =
            FirstPrompt { id: chat.prompt_uuid, text: &prompt.text, images: &prompt.images };
        let launch = First { conversation, prompt: Some(prompt), keeping };
        self.start_prepared(keeper, session, &prepared, launch, &state).await
    }

    /// Starts a process that waits for the first chat of a session, and returns its run, not yet
    /// running; `None` where the agent must have a prompt to start.
    pub(crate) async fn prestart(
        &self,
        keeper: Weak<dyn RunKeeper>,
        session: &SessionRecord,
    ) -> Result<Option<Run>, StartError> {
        let prepared = self.prepare(session).await?;
        let conversation = conversation(session, Keeping::Kept)?;
        // Hooks of a trusted project may run when a process starts; that is for a chat to cause.
        let may_start = conversation == Conversation::New
            && prepared.channel == Channel::Control
            && prepared.config.project_settings != ProjectSettings::Trust
            && prepared.agent.driver.prestarts();
        if !may_start {
            return Ok(None);
        }
        let told = prepared.told.iter().map(|words| ChatEvent::notice(words.as_str())).collect();
        let start = prepared.digest(&self.tools.settings)?;
        let state =
            RunState::prestart(prepared.mind(&conversation, 0.0), Prestarted { told, start });
        let launch = First { conversation, prompt: None, keeping: Keeping::Kept };
        self.start_prepared(keeper, session, &prepared, launch, &state).await.map(Some)
    }

    /// Says what the first process of a session would be started with now, as a digest.
    pub(crate) async fn start_digest(&self, session: &SessionRecord) -> Result<String, StartError> {
        Ok(self.prepare(session).await?.digest(&self.tools.settings)?)
    }

    /// Finds out what a process of a session is started with, and whether it may be.
    async fn prepare(&self, session: &SessionRecord) -> Result<Prepared<'_>, StartError> {
        let config = SessionConfig::of(session)?;
        let agent = self.agents.get(&config.agent).map_err(StartError::Unknown)?;
        let identified = agent.identify().await?;
        let channel = match config.channel {
            ChannelChoice::Control => Channel::Control,
            ChannelChoice::Mcp => Channel::Mcp,
            ChannelChoice::Auto => identified.channel,
        };
        check_dirs(&self.tools.settings, &config)?;
        let unwanted = agent.driver.must_be_absent();
        if let Some(found) = find_unwanted(&config.working_dir, &unwanted) {
            return Err(StartError::Unwanted(found));
        }
        let project = instructions::Found::look(&config, &agent.driver.project_files());
        let wall = wall_words(&self.tools.settings, &config, agent);
        let label = &identified.label;
        let asks = format!("{label}, asking over the {} channel{wall}", channel.name());
        let told = std::iter::once(asks).chain(project.words(config.project_settings)).collect();
        let reads_instructions = project.is_read(config.project_settings);
        Ok(Prepared { agent, label, config, channel, reads_instructions, told })
    }

    async fn start_prepared(
        &self,
        keeper: Weak<dyn RunKeeper>,
        session: &SessionRecord,
        prepared: &Prepared<'_>,
        first: First<'_>,
        state: &RunState,
    ) -> Result<Run, StartError> {
        let Prepared { agent, config, channel, reads_instructions, told, .. } = prepared;
        let key = RunKey { session: session.id, n: session.next_run };
        let launched = Launched {
            name: &agent.name,
            agent: prepared.label,
            ephemeral: first.keeping == Keeping::Ephemeral,
            boot: self.tools.settings.boot.as_deref(),
        };
        let stored = self.create_row(key, *channel, &launched, told, state, Vec::new()).await?;
        plexus_fault::point!("launch.row.committed");
        let begun = Beginning {
            key,
            agent,
            config,
            channel: *channel,
            conversation: first.conversation,
            prompt: first.prompt,
            fork_of: SessionState::of(session)?.fork_of,
            reads_instructions: *reads_instructions,
        };
        match self.launch_child(begun).await {
            Ok(hold) => {
                let tools = self.tools.clone();
                Ok(Run::new(tools, keeper, &agent.driver, &stored, Origin::Started, hold)?)
            }
            Err(error) => {
                self.undo(key).await;
                Err(error)
            }
        }
    }

    /// Takes up a run that an earlier server started.
    pub(crate) fn found(
        &self,
        keeper: Weak<dyn RunKeeper>,
        stored: &RunRecord,
        hold: Hold,
    ) -> Result<Run, StartError> {
        let StartedAs { name } = stored.launch.read()?;
        let agent = self.agents.get(&name).map_err(StartError::Unknown)?;
        Ok(Run::new(self.tools.clone(), keeper, &agent.driver, stored, Origin::Found, hold)?)
    }

    /// Makes the directory with everything in it, and starts the shim there.
    pub(crate) async fn launch_child(&self, begun: Beginning<'_>) -> Result<Hold, StartError> {
        let settings = &self.tools.settings;
        let dir = RunDir::new(settings.run_dir(begun.key));
        make_dirs(settings, begun.key.session)?;
        dir.create()?;
        if begun.waits_for_prompt() {
            // The shim ends it by itself when no server comes for it.
            dir.mark_idle()?;
        }
        let asks = begun.channel == Channel::Mcp && begun.config.loopback_enabled;
        let permit_door = match asks {
            true => Some(self.door(Caller::Child(begun.key.session), begun.key).await?),
            false => None,
        };
        let hub_door = match begun.config.can_spawn {
            true => Some(self.door(Caller::Session(begun.key.session), begun.key).await?),
            false => None,
        };
        let calls_server = permit_door.is_some() || hub_door.is_some();
        let Beginning { key, config, fork_of, .. } = begun;
        let program = begun.agent.installed()?;
        let own_home = settings.config_dir(key.session);
        let plan = begun.agent.driver.launch(&Launch {
            config: begun.config,
            channel: begun.channel,
            conversation: begun.conversation,
            reads_instructions: begun.reads_instructions,
            permit_door,
            hub_door,
            run_dir: dir.path(),
            own_home: (config.confine != Confine::None).then_some(own_home.as_path()),
            live_text: settings.live_deltas,
            prompt: begun.prompt,
        })?;
        if let Some(home) = &plan.home {
            let env = environment(&plan, begun.config, |name| std::env::var_os(name));
            self.homes.make_ready(home, program, env).await?;
        }
        for file in &plan.files {
            write_private(&dir.path().join(&file.name), file.content.as_bytes())?;
        }
        let mut start = Start {
            program: program.program.clone(),
            args: Vec::new(),
            env: environment(&plan, config, |name| std::env::var_os(name)),
        };
        if config.confine != Confine::None {
            let asked = Walled { agent: begun.agent, key, config, plan: &plan, fork_of };
            self.put_behind_wall(&mut start, &asked, calls_server).await?;
        }
        let mut options = Options::new(dir.path(), &start.program);
        options.args =
            start.args.iter().chain(&program.leading).chain(&plan.args).cloned().collect();
        options.grace = settings.grace;
        options.idle = settings.warm_idle;
        options.leash = settings.leash;
        options.stdin = match &plan.stdin {
            Stdin::Nothing => StdinSource::Null,
            Stdin::Text(text) => {
                let path = dir.path().join("prompt");
                write_private(&path, text.as_bytes())?;
                StdinSource::File(path)
            }
            Stdin::Lines(lines) => {
                let mut seq = InboxSeq::FIRST;
                for line in lines {
                    dir.put_inbox(seq, line.as_bytes())?;
                    seq = seq.next();
                }
                StdinSource::Inbox
            }
        };
        if !self.tools.trust.stands() {
            return Err(StartError::Untrusted);
        }
        plexus_fault::point!("launch.dir.made");
        let child = spawn(settings, &dir, &options, &start.env, config)?;
        plexus_fault::point!("launch.shim.started");
        Hold::started(child).map_err(StartError::Watch)
    }

    /// This server as a child reaches it: with a token that ends with the run.
    async fn door(&self, caller: Caller, key: RunKey) -> Result<McpDoor, StartError> {
        let url = self.address.get().ok_or(StartError::NoAddress)?;
        Ok(McpDoor { url, token: self.identity.mint(caller, Some(key)).await? })
    }

    /// Leaves nothing of a run whose process could not be started. What cannot be removed now is
    /// found when the server starts again.
    pub(crate) async fn undo(&self, key: RunKey) {
        let dir = RunDir::new(self.tools.settings.run_dir(key));
        let why = "the process could not be started";
        if let Err(error) = self.end_unstarted(key, &dir, why).await {
            tracing::warn!(run = %key, %error, "could not end a run that never started");
        }
    }

    /// Ends a run whose process never began, and says why.
    pub(crate) async fn end_unstarted(
        &self,
        key: RunKey,
        dir: &RunDir,
        reason: &str,
    ) -> Result<(), StoreError> {
        self.remove_dir(key, dir);
        let exit = JsonText::of(&NoExit { reason })?;
        let mut replans = Replans::default();
        loop {
            // A shim that was killed before it could record its child may have a child that asked
            // over MCP. A question of it that stayed open would keep its chat from being served
            // again.
            let mut changes = close_questions(&self.tools.approvals, key, None).await?;
            let end = EndRun { run: key, exit: exit.clone() };
            changes.extend([Change::EndRun(end), Change::RevokeTokens(RevokeTokens::Run(key))]);
            match self.tools.store.commit(changes, Priority::Normal).await {
                Ok(_) => return Ok(()),
                // Somebody answered between the look and the commit.
                Err(error) => replans.after(error)?,
            }
        }
    }

    /// Removes the directory of a run that has no process.
    pub(crate) fn remove_dir(&self, key: RunKey, dir: &RunDir) {
        if let Err(error) = crate::files::remove_all(dir.path())
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(run = %key, %error, "could not remove the directory of a run");
        }
    }

    /// Stores the run, with other changes before it.
    pub(crate) async fn create_row(
        &self,
        key: RunKey,
        channel: Channel,
        launched: &Launched<'_>,
        told: &[String],
        state: &RunState,
        mut changes: Vec<Change>,
    ) -> Result<RunRecord, StoreError> {
        changes.push(Change::CreateRun(CreateRun {
            session: key.session,
            expects_n: Some(key.n),
            channel: channel.name().to_owned(),
            launch: JsonText::of(launched)?,
        }));
        let translation = Patch::Set(state.to_json()?);
        let update = UpdateRun { translation, ..UpdateRun::of(key) };
        if let Some(chat) = &state.chat {
            let (session, chat) = (key.session, chat.number);
            let events = told.iter().map(|words| ChatEvent::notice(words.as_str()).to_new_event());
            let events = events.collect::<Result<Vec<_>, _>>()?;
            changes.extend([
                Change::AssignRun(AssignRun { session, chat, run: key.n }),
                Change::UpdateRun(update),
                Change::AppendEvents(AppendEvents { session, chat, events }),
            ]);
        } else {
            let idle_since = Patch::Set(UnixMillis::now());
            changes.push(Change::UpdateRun(UpdateRun { idle_since, ..update }));
        }
        self.tools.store.commit(changes, Priority::Normal).await?;
        self.tools.store.run(key).await
    }
}

/// What a process of a session is started with.
struct Prepared<'a> {
    agent: &'a Agent,
    /// What its program said it is.
    label: &'a str,
    config: SessionConfig,
    channel: Channel,
    reads_instructions: bool,
    /// What the first chat is told of the start.
    told: Vec<String>,
}

impl Prepared<'_> {
    fn mind(&self, conversation: &Conversation, cost_usd: f64) -> Box<dyn Mind> {
        let begin = Begin { config: &self.config, channel: self.channel, conversation, cost_usd };
        Arc::clone(&self.agent.driver).begin(&begin)
    }

    /// A process that was started with another digest is not one that would be started now: its
    /// arguments, or the files of the project that it has read, may differ.
    fn digest(&self, settings: &Settings) -> Result<String, StoreError> {
        let files = instructions::stamps(&self.config, &self.agent.driver.read_at_start());
        let program = self.agent.program.as_ref();
        Ok(input_digest(&serde_json::json!({
            "program": program.map(|it| (&it.program, &it.leading)).map(|it| format!("{it:?}")),
            "config": self.config.to_json()?.to_value(),
            "channel": self.channel.name(),
            "reads_instructions": self.reads_instructions,
            "live_text": settings.live_deltas,
            "told": self.told,
            "files": files,
        })))
    }
}

/// What a process begins with.
struct First<'a> {
    conversation: Conversation,
    prompt: Option<FirstPrompt<'a>>,
    keeping: Keeping,
}

/// What is known of a run before it has a process.
pub(crate) struct Beginning<'a> {
    pub(crate) key: RunKey,
    pub(crate) agent: &'a Agent,
    pub(crate) config: &'a SessionConfig,
    pub(crate) channel: Channel,
    pub(crate) conversation: Conversation,
    /// The prompt; `None` for a process that waits for one, or that is woken.
    pub(crate) prompt: Option<FirstPrompt<'a>>,
    /// The session whose conversation it copies.
    pub(crate) fork_of: Option<SessionId>,
    pub(crate) reads_instructions: bool,
}

impl Beginning<'_> {
    /// Whether nothing is to be done until a prompt comes.
    fn waits_for_prompt(&self) -> bool {
        self.prompt.is_none() && !matches!(self.conversation, Conversation::Wake { .. })
    }
}

/// What a run's row says of how it was started.
#[derive(Serialize)]
pub(crate) struct Launched<'a> {
    /// The agent's name.
    pub(crate) name: &'a str,
    /// What its program said it is.
    pub(crate) agent: &'a str,
    pub(crate) ephemeral: bool,
    /// The boot of the machine.
    pub(crate) boot: Option<&'a str>,
}

/// What is read of it again.
#[derive(Deserialize)]
struct StartedAs {
    /// The first stage had one agent, and did not name it.
    #[serde(default = "first_agent")]
    name: String,
}

fn first_agent() -> String {
    FIRST_AGENT.to_owned()
}

/// The directories must still be what they were when the session was created: a link put in their
/// place could lead to our own data.
pub(crate) fn check_dirs(settings: &Settings, config: &SessionConfig) -> Result<(), StartError> {
    // A model without tools reads nothing there, so it may run in the server's own directory.
    if config.agent == CONE {
        return Ok(());
    }
    let data = settings.data_dir.canonicalize().unwrap_or_else(|_| settings.data_dir.clone());
    for dir in std::iter::once(&config.working_dir).chain(&config.add_dirs) {
        let same = dir
            .canonicalize()
            .is_ok_and(|real| real == *dir && !real.starts_with(&data) && !data.starts_with(&real));
        if !same {
            return Err(StartError::Moved(dir.clone()));
        }
    }
    Ok(())
}

fn conversation(session: &SessionRecord, keeping: Keeping) -> Result<Conversation, StoreError> {
    let SessionState { fork_from, fork_behind, .. } = SessionState::of(session)?;
    Ok(match (keeping, fork_from, &session.claude_session_id) {
        (_, Some(of), _) => Conversation::Fork { of, up_to: fork_behind },
        (Keeping::Kept, None, Some(id)) => Conversation::Resume(id.clone()),
        (Keeping::Ephemeral, None, Some(id)) => Conversation::Fork { of: id.clone(), up_to: None },
        (_, None, None) => Conversation::New,
    })
}

/// What the conversation had cost when a CLI last left it: that of the source, for a fork that has
/// none of its own yet.
async fn cost_before(store: &dyn Store, session: &SessionRecord) -> Result<f64, StoreError> {
    let state = SessionState::of(session)?;
    let Some(source) = state.fork_of else { return Ok(state.conversation_cost) };
    match store.session(source).await {
        Ok(source) => Ok(SessionState::of(&source)?.conversation_cost),
        Err(StoreError::NotFound { .. }) => Ok(state.conversation_cost),
        Err(error) => Err(error),
    }
}

/// The directories above a run directory, private like it.
fn make_dirs(settings: &Settings, session: SessionId) -> Result<(), StartError> {
    for path in [settings.data_dir.join("runs"), settings.session_dir(session)] {
        let made = std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
            .create(&path);
        match made {
            Err(source) if source.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(StartError::Write { path, source });
            }
            _ => {}
        }
    }
    Ok(())
}

/// The whole environment of a child, given the server's own. It is a list of names, so that neither
/// our own tokens nor what a surrounding agent left behind reaches a child.
fn environment(
    plan: &Plan,
    config: &SessionConfig,
    own: impl Fn(&str) -> Option<OsString>,
) -> BTreeMap<OsString, OsString> {
    let mut env: BTreeMap<OsString, OsString> = INHERITED
        .iter()
        .chain(LEAD_OUT)
        .copied()
        .chain(plan.inherited.iter().map(String::as_str))
        .filter_map(|name| own(name).map(|value| (OsString::from(name), value)))
        .collect();
    env.extend(config.env.iter().map(|(name, value)| (name.into(), value.into())));
    env.extend(plan.env.iter().cloned());
    env
}

fn write_private(path: &Path, bytes: &[u8]) -> Result<(), StartError> {
    let written =
        create_private(path).and_then(|mut file| std::io::Write::write_all(&mut file, bytes));
    written.map_err(|source| StartError::Write { path: path.to_owned(), source })
}

fn create_private(path: &Path) -> std::io::Result<std::fs::File> {
    std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Starts the shim, detached: its own process group, nothing of our stdio. It outlives us.
fn spawn(
    settings: &Settings,
    dir: &RunDir,
    options: &Options,
    env: &BTreeMap<OsString, OsString>,
    config: &SessionConfig,
) -> Result<tokio::process::Child, StartError> {
    let shim = &settings.shim;
    let path = dir.shim_log();
    let log = create_private(&path).map_err(|source| StartError::Write { path, source })?;
    let mut command = tokio::process::Command::new(&shim.program);
    command
        .args(&shim.leading)
        .args(options.to_args())
        .env_clear()
        .envs(env)
        .current_dir(&config.working_dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .process_group(0)
        .kill_on_drop(false);
    command.spawn().map_err(|source| StartError::Spawn { program: shim.program.clone(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_a_list_of_names() {
        let json = serde_json::json!({
            "working_dir": "/w", "loopback_enabled": true, "loopback_timeout_secs": 300,
            "supervise": "default", "can_spawn": false, "may_decide": [],
            "project_settings": "ignore", "channel": "auto", "allowed_tools": [],
            "disallowed_tools": [], "add_dirs": [],
            "env": {"TOKEN_OF_THE_SESSION": "x", "FORCED": "by the session"},
        });
        let config: SessionConfig = serde_json::from_value(json).unwrap();
        let plan = Plan {
            inherited: vec!["KEY_OF_THE_AGENT".to_owned()],
            env: vec![("FORCED".into(), "by the driver".into())],
            ..Plan::default()
        };
        // Whatever it asks for is there: what comes out is what it asked for, and nothing of ours.
        let env = environment(&plan, &config, |name| Some(OsString::from(name)));
        for name in ["PATH", "KEY_OF_THE_AGENT", "TOKEN_OF_THE_SESSION"] {
            assert!(env.contains_key(std::ffi::OsStr::new(name)), "{name}");
        }
        assert_eq!(env[std::ffi::OsStr::new("FORCED")], OsString::from("by the driver"));
        for name in env.keys().filter_map(|name| name.to_str()) {
            assert!(!name.starts_with("PLEXUS") && !name.starts_with("CLAUDE"), "{name}");
        }
    }
}
