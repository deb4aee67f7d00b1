//! Starting a child: the row first, then the directory with everything in it, then the process. A crash in between leaves nothing unexplained.

use std::collections::BTreeMap;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use claude_code::{MAX_PROMPT_ARGUMENT_BYTES, ProbeError, control};
use plexus_core::{Caller, SessionId};
use plexus_shim::layout::{InboxSeq, LayoutError, RunDir};
use plexus_shim::{Options, StdinSource};
use plexus_store::{
    AppendEvents, AssignRun, Change, Chat, CreateRun, EndRun, JsonText, Patch, Priority,
    RevokeTokens, Run as StoredRun, RunKey, Session, StoreError, UpdateRun,
};
use plexus_wire::{ChannelChoice, ChatEvent, McpConfig};
use serde_json::json;

use super::Core;
use super::config::{SessionConfig, SessionState};
use super::event::ToNewEvent;
use super::hold::Hold;
use super::launch::{Channel, Conversation, Launch, PERMIT_SERVER, mcp_permit_server, mcp_server};
use super::run::{Keeping, Origin, Run, close_questions};
use super::translate::{Begun, OpenChat, Translation};

/// How often the end of a run is tried anew because an answer to one of its questions came in between. One try an answer: far more than a run has
/// open questions.
const END_TRIES: u32 = 100;

/// Why a child could not be started. The text goes to the reader of the chat.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("could not {0}")]
    Store(#[from] StoreError),
    #[error("could not use the agent: {0}")]
    Probe(#[from] ProbeError),
    #[error("could not prepare the run: {0}")]
    Layout(#[from] LayoutError),
    #[error("could not write {}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("could not start {}: {source}", program.display())]
    Spawn { program: PathBuf, source: std::io::Error },
    #[error("could not watch the process: {0}")]
    Watch(std::io::Error),
    #[error(
        "could not start the agent: this server does not know its own address, which the MCP channel needs"
    )]
    NoAddress,
    #[error(
        "could not start the agent: this server's lease is over, and another may have taken over"
    )]
    Untrusted,
    #[error("could not start the agent: {} is no longer the directory that it was; create a session for the new one", .0.display())]
    Moved(PathBuf),
}

/// Starts a process for `chat` and returns its run, not yet running.
pub(crate) async fn start(
    core: &Arc<Core>,
    session: &Session,
    chat: &Chat,
    prompt: &str,
    keeping: Keeping,
) -> Result<Run, StartError> {
    let config = SessionConfig::of(session)?;
    let agent = core.probe().await?;
    let channel = match config.channel {
        ChannelChoice::Control => Channel::Control,
        ChannelChoice::Mcp => Channel::Mcp,
        ChannelChoice::Auto => agent.channel,
    };
    check_dirs(core, &config)?;
    let conversation = conversation(session, keeping)?;
    let key = RunKey { session: session.id, n: session.next_run };
    let dir = RunDir::new(core.settings.run_dir(key));
    let mcp_config = needs_mcp(&config, channel).then(|| dir.path().join("mcp.json"));
    let in_argv = channel == Channel::Mcp && prompt.len() <= MAX_PROMPT_ARGUMENT_BYTES;
    let launch = Launch {
        config: &config,
        channel,
        conversation,
        mcp_config: mcp_config.as_deref(),
        partial_messages: core.settings.live_deltas,
        prompt: in_argv.then_some(prompt),
    };

    let cost = match &launch.conversation {
        Conversation::New => 0.0,
        Conversation::Resume(_) | Conversation::Fork { .. } => cost_before(core, session).await?,
    };
    let translation = Translation {
        chat: Some(OpenChat::new(chat.number, Some(chat.prompt_uuid), Begun::WithProcess)),
        cost_before: cost,
        cost_total: cost,
        ..Translation::default()
    };
    let stored = create_row(core, key, channel, keeping, &agent.label, &translation).await?;
    plexus_fault::point!("launch.row.committed");
    match launch_child(core, &stored, &launch, prompt, chat).await {
        Ok(hold) => {
            Ok(Run::new(Arc::clone(core), &stored, channel, keeping, Origin::Started, hold)?)
        }
        Err(error) => {
            undo(core, key, &dir).await;
            Err(error)
        }
    }
}

/// The directories must still be what they were when the session was created: a link put in their place could lead to our own data.
fn check_dirs(core: &Core, config: &SessionConfig) -> Result<(), StartError> {
    let data =
        core.settings.data_dir.canonicalize().unwrap_or_else(|_| core.settings.data_dir.clone());
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

/// Makes the directory with everything in it, and starts the shim there.
async fn launch_child(
    core: &Core,
    stored: &StoredRun,
    launch: &Launch<'_>,
    prompt: &str,
    chat: &Chat,
) -> Result<Hold, StartError> {
    let key = stored.key;
    let dir = RunDir::new(core.settings.run_dir(key));
    make_dirs(core, key.session)?;
    dir.create()?;
    if let Some(path) = launch.mcp_config {
        write_mcp_config(core, key, launch.config, launch.channel, path).await?;
    }
    let mut options = Options::new(dir.path(), &core.settings.agent.program);
    options.args = core.settings.agent.leading.iter().cloned().chain(launch.arguments()).collect();
    options.grace = core.settings.grace;
    options.idle = core.settings.warm_idle;
    options.leash = core.settings.leash;
    options.stdin = match (launch.channel, launch.prompt.is_some()) {
        (Channel::Control, _) => {
            dir.put_inbox(
                InboxSeq::FIRST,
                control::user_prompt(Some(&chat.prompt_uuid.to_string()), prompt)
                    .as_str()
                    .as_bytes(),
            )?;
            StdinSource::Inbox
        }
        (Channel::Mcp, true) => StdinSource::Null,
        (Channel::Mcp, false) => {
            let path = dir.path().join("prompt");
            write_private(&path, prompt.as_bytes())?;
            StdinSource::File(path)
        }
    };
    if !core.trust.stands() {
        return Err(StartError::Untrusted);
    }
    plexus_fault::point!("launch.dir.made");
    let child = spawn(core, &dir, &options, launch)?;
    plexus_fault::point!("launch.shim.started");
    Hold::started(child).map_err(StartError::Watch)
}

/// Leaves nothing of a run whose process could not be started. What cannot be removed now is found when the server starts again.
async fn undo(core: &Core, key: RunKey, dir: &RunDir) {
    if let Err(error) = end_unstarted(core, key, dir, "the process could not be started").await {
        tracing::warn!(run = %key, %error, "could not end a run that never started");
    }
}

/// Ends a run whose process never began, and says why.
pub(super) async fn end_unstarted(
    core: &Core,
    key: RunKey,
    dir: &RunDir,
    reason: &str,
) -> Result<(), StoreError> {
    if let Err(error) = std::fs::remove_dir_all(dir.path())
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(run = %key, %error, "could not remove the directory of a run that never started");
    }
    let exit = JsonText::from(json!({"reason": reason}));
    let mut tries = 0;
    loop {
        // A child whose shim was killed before it could say that there is one may have asked over MCP all the same. A question that stayed open
        // would keep its chat from being served anew.
        let mut changes = close_questions(core, key).await?;
        let end = EndRun { run: key, exit: exit.clone() };
        changes.extend([Change::EndRun(end), Change::RevokeTokens(RevokeTokens::Run(key))]);
        match core.store.commit(changes, Priority::Normal).await {
            // Somebody answered between the look and the commit.
            Err(StoreError::Conflict { .. }) if tries < END_TRIES => tries += 1,
            ended => return ended.map(drop),
        }
    }
}

fn conversation(session: &Session, keeping: Keeping) -> Result<Conversation, StoreError> {
    let SessionState { fork_from, fork_behind, .. } = SessionState::of(session)?;
    Ok(match (keeping, fork_from, &session.claude_session_id) {
        (_, Some(of), _) => Conversation::Fork { of, behind: fork_behind },
        (Keeping::Kept, None, Some(id)) => Conversation::Resume(id.clone()),
        (Keeping::Ephemeral, None, Some(id)) => Conversation::Fork { of: id.clone(), behind: None },
        (_, None, None) => Conversation::New,
    })
}

/// What the conversation had cost when a CLI last left it: that of the source, for a fork that has none of its own yet.
async fn cost_before(core: &Core, session: &Session) -> Result<f64, StoreError> {
    let state = SessionState::of(session)?;
    let Some(source) = state.fork_of else { return Ok(state.conversation_cost) };
    match core.store.session(source).await {
        Ok(source) => Ok(SessionState::of(&source)?.conversation_cost),
        Err(StoreError::NotFound { .. }) => Ok(state.conversation_cost),
        Err(error) => Err(error),
    }
}

fn needs_mcp(config: &SessionConfig, channel: Channel) -> bool {
    config.can_spawn || (channel == Channel::Mcp && config.loopback_enabled)
}

async fn create_row(
    core: &Core,
    key: RunKey,
    channel: Channel,
    keeping: Keeping,
    label: &str,
    translation: &Translation,
) -> Result<StoredRun, StoreError> {
    let chat = translation.chat.as_ref().map_or(0, |chat| chat.number);
    let ephemeral = keeping == Keeping::Ephemeral;
    let notice = ChatEvent::notice(format!("{label}, asking over the {} channel", channel.name()))
        .to_new_event()?;
    let changes = vec![
        Change::CreateRun(CreateRun {
            session: key.session,
            expects_n: Some(key.n),
            channel: channel.name().to_owned(),
            launch: JsonText::from(json!({ "agent": label, "ephemeral": ephemeral })),
        }),
        Change::AssignRun(AssignRun { session: key.session, chat, run: key.n }),
        Change::UpdateRun(UpdateRun {
            translation: Patch::Set(JsonText::of(translation)?),
            ..UpdateRun::of(key)
        }),
        Change::AppendEvents(AppendEvents { session: key.session, chat, events: vec![notice] }),
    ];
    core.store.commit(changes, Priority::Normal).await?;
    core.store.run(key).await
}

/// Whether a stored run was for an ephemeral chat.
pub(crate) fn keeping_of(stored: &StoredRun) -> Keeping {
    if stored.launch.to_value()["ephemeral"] == json!(true) {
        Keeping::Ephemeral
    } else {
        Keeping::Kept
    }
}

/// The directories above a run directory, private like it.
fn make_dirs(core: &Core, session: SessionId) -> Result<(), StartError> {
    for path in [core.settings.data_dir.join("runs"), core.settings.session_dir(session)] {
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

/// Writes the MCP configuration of a child: `plexus` to ask through, `plexus_hub` to supervise children of its own with.
async fn write_mcp_config(
    core: &Core,
    key: RunKey,
    config: &SessionConfig,
    channel: Channel,
    path: &Path,
) -> Result<(), StartError> {
    let url = core.url().ok_or(StartError::NoAddress)?;
    let mut servers = BTreeMap::new();
    if channel == Channel::Mcp && config.loopback_enabled {
        let token = core.identity.mint(Caller::Child(key.session), Some(key)).await?;
        servers.insert(PERMIT_SERVER.into(), mcp_permit_server(&url, &token));
    }
    if config.can_spawn {
        let token = core.identity.mint(Caller::Session(key.session), Some(key)).await?;
        servers.insert("plexus_hub".into(), mcp_server(&url, &token));
    }
    let config = JsonText::of(&McpConfig { mcp_servers: servers })?;
    write_private(path, config.as_str().as_bytes())
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
    core: &Core,
    dir: &RunDir,
    options: &Options,
    launch: &Launch<'_>,
) -> Result<tokio::process::Child, StartError> {
    let shim = &core.settings.shim;
    let path = dir.shim_log();
    let log = create_private(&path).map_err(|source| StartError::Write { path, source })?;
    let mut command = tokio::process::Command::new(&shim.program);
    command
        .args(&shim.leading)
        .args(options.to_args())
        .env_clear()
        .envs(launch.environment(|name| std::env::var_os(name)))
        .current_dir(&launch.config.working_dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .process_group(0)
        .kill_on_drop(false);
    command.spawn().map_err(|source| StartError::Spawn { program: shim.program.clone(), source })
}
