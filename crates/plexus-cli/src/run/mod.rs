//! `plexus run "PROMPT"`: the main job for a person. Finds or starts a server, creates a session in
//! the current directory, shows what happens, asks about each tool call, and ends with the outcome,
//! the cost and how to go on.
//!
//! In reading order: this file starts the chat; [`supervise`] is the loop that shows what happens,
//! [`asking`] its part about questions, [`talking`] its part about lines to the agent, [`ending`]
//! its part about the end of a chat; [`view`] prints events, [`live`] keeps live pieces of text
//! apart from what comes whole; [`question`] is the dialogue about one call; [`keyboard`] reads
//! keys and can stop reading, [`line`] makes lines of them; [`editor`] opens `$EDITOR`, [`pager`]
//! `$PAGER`.

mod asking;
mod editor;
mod ending;
mod keyboard;
mod line;
mod pager;
mod question;
mod review;
pub(super) mod supervise;
mod talking;
mod view;

use std::io::{IsTerminal, Read};
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};
use plexus_client::wire::{
    Budget, ChatParams, Confine, CreateParams, ErrorKind, FIRST_AGENT, Mode, ModeSecs,
    ModeSetParams, PageLimit, PollParams, Polled, ProjectSettings, Refused, Session, SessionId,
    SessionRef, SessionStatus, Supervise,
};
use plexus_client::{Client, ClientError};

use super::args::{Attach, Global, Run, RunMode};
use super::exit;
use super::find::session as find_session;
use super::server::{self, Found, failed};
use plexus_client::paths::find_program;
use plexus_client::working_dir::{drawn_name, refuse_our_own_data};
use plexus_render::sanitize;
use plexus_render::screen::{self, Screen, Tone};
pub(super) use review::review;
use supervise::{Supervision, Talk, Watched};
pub(super) use view::{Form, View};

/// How many seconds a mode lasts that a person asked for: about as long as somebody watches.
const MODE_SECS: u64 = 3_600;

/// How often a name that is taken is drawn again.
const NAME_TRIES: usize = 5;

/// Runs the command.
pub(super) async fn run(global: &Global, arguments: Run) -> Result<u8> {
    let data_dir = global.data_dir()?;
    let prompt = prompt_of(&arguments)?;
    refuse_what_no_chat_takes(&arguments, &prompt)?;
    let here = std::env::current_dir().context("could not find the current directory")?;
    if arguments.session.is_none() {
        refuse_our_own_data(&here, &data_dir)?;
    }
    let screen = Screen::stdout();
    let form = if arguments.json { Form::Json } else { Form::Text };
    let (client, found) = server::find_or_start(&data_dir, &arguments.serve_arguments()).await?;
    if let (Found::Started { log }, Form::Text) = (&found, form) {
        let words = format!(
            "started a server; it keeps running (log: {}; `plexus stop` ends it)",
            log.display()
        );
        screen::line(&screen.paint(Tone::Faint, &words))?;
        if arguments.agent.as_deref().is_none_or(|agent| agent == FIRST_AGENT) {
            warn_of_simulator(&arguments, screen)?;
        }
    }
    let session = match &arguments.session {
        Some(name) => find_session(&client, name).await.map_err(failed)?,
        None => create(&client, &arguments, &here).await?,
    };
    if let Some(mode) = arguments.mode {
        set_mode(&client, session.id, mode).await?;
    }
    let before = position_behind(&client, session.id, session.chat).await.map_err(failed)?;
    let params = ChatParams::new(SessionRef::id(session.id), prompt);
    let chat = client.agents().chat_async(&params).await.map_err(failed)?.chat;
    if form == Form::Text {
        let name = sanitize::one_line(&session.name).into_owned();
        let folder = session.working_dir.display().to_string();
        screen::line(&format!(
            "{} {}",
            screen.paint(Tone::Strong, &name),
            screen.paint(Tone::Faint, &sanitize::one_line(&folder))
        ))?;
    }
    if arguments.detach {
        if form == Form::Text {
            let name = supervise::name_for_a_shell(&session);
            let words = format!(
                "it keeps running: `plexus attach {name}` watches it, `plexus review` answers it"
            );
            screen::line(&screen.paint(Tone::Faint, &words))?;
        }
        return Ok(exit::OK);
    }
    let watched = Watched { session, chat, cursor: before };
    let talk = if arguments.once { Talk::Once } else { Talk::On };
    Supervision::new(client, watched, screen, form, talk).run().await
}

/// Warns a person who has no agent installed that the simulator answers.
fn warn_of_simulator(arguments: &Run, screen: Screen) -> Result<()> {
    let variable = std::env::var_os("PLEXUS_CLAUDE_BIN").is_some_and(|named| !named.is_empty());
    let is_named = variable || arguments.claude_bin.as_ref().is_some_and(|named| !named.is_empty());
    let path = std::env::var_os("PATH");
    if is_named || find_program("claude".as_ref(), path.as_deref()).is_some() {
        return Ok(());
    }
    let words = "there is no `claude` in PATH: the built-in simulator plays the agent";
    screen::line(&screen.paint(Tone::Warn, words))?;
    screen::line(&screen.paint(Tone::Faint, &format!("  {}", screen::INSTALL_HINT)))?;
    Ok(())
}

fn prompt_of(arguments: &Run) -> Result<String> {
    let prompt = arguments.prompt.join(" ");
    if prompt != "-" {
        return Ok(prompt);
    }
    if std::io::stdin().is_terminal() {
        bail!("could not read the prompt: `-` reads it from stdin, and stdin is a terminal");
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("could not read the prompt from stdin")?;
    Ok(text)
}

/// Refuses what the server would refuse only after the session was made.
fn refuse_what_no_chat_takes(arguments: &Run, prompt: &str) -> Result<()> {
    if prompt.trim().is_empty() {
        bail!(
            "could not start a chat: the prompt is empty: say what the agent is to do, as in \
             plexus run \"Fix the tests\""
        );
    }
    match arguments.budget_usd {
        Some(cost) if cost.is_nan() || cost <= 0.0 => bail!(
            "could not start a chat with --budget-usd {cost}: an agent cannot begin with nothing \
             to spend; give it more than 0, or leave the flag out"
        ),
        Some(_) | None => Ok(()),
    }
}

async fn create(client: &Client, arguments: &Run, here: &Path) -> Result<Session> {
    for attempt in 1..=NAME_TRIES {
        let name = match &arguments.name {
            Some(name) => name.clone(),
            None => drawn_name(here),
        };
        let session = CreateParams {
            agent: arguments.agent.clone(),
            model: arguments.model.clone(),
            supervise: arguments.supervise_all.then_some(Supervise::All),
            confine: arguments.no_wall.then_some(Confine::None),
            project_settings: arguments.trust_project.then_some(ProjectSettings::Trust),
            // A person answers when there is time.
            loopback_timeout_secs: Some(arguments.timeout.unwrap_or(0)),
            allowed_tools: some(&arguments.allow_tools),
            add_dirs: match arguments.add_dirs.as_slice() {
                [] => None,
                dirs => Some(dirs.iter().map(|dir| here.join(dir)).collect()),
            },
            budget: arguments
                .budget_usd
                .map(|cost| Budget { cost_usd: Some(cost), ..Budget::default() }),
            // A prompt that follows at once starts the agent itself.
            prestart: (!arguments.prompt.is_empty()).then_some(false),
            ..CreateParams::new(name, here)
        };
        match client.agents().create(&session).await {
            Ok(created) => {
                return client.session(&SessionRef::id(created.id)).await.map_err(failed);
            }
            Err(error)
                if error.kind() == ErrorKind::Conflict
                    && arguments.name.is_none()
                    && attempt < NAME_TRIES => {}
            Err(error) => return Err(failed(error)),
        }
    }
    bail!("could not find a free name for the session")
}

async fn set_mode(client: &Client, session: SessionId, mode: RunMode) -> Result<()> {
    let mode = match mode {
        RunMode::Ask => Mode::Ask,
        RunMode::AcceptEdits => Mode::AcceptEdits,
        RunMode::AllowAll => Mode::AllowAll,
    };
    let secs = ModeSecs::try_from(MODE_SECS)
        .map_err(|error| anyhow!("could not set the mode: {error}"))?;
    let params = ModeSetParams::new(session, mode, secs);
    client.loopback().mode_set(&params).await.map_err(failed)?;
    Ok(())
}

fn some(list: &[String]) -> Option<Vec<String>> {
    (!list.is_empty()).then(|| list.to_vec())
}

/// Reads a page of a chat from an event on, and moves nobody's position.
pub(super) async fn poll_from(
    client: &Client,
    session: SessionId,
    chat: u32,
    from: u32,
) -> Result<Polled, ClientError> {
    let params = PollParams {
        chat: Some(chat),
        from_seq: Some(from),
        limit: Some(PageLimit::MAX),
        ..PollParams::new(session)
    };
    client.agents().poll(&params).await
}

/// Returns the position after the newest event of a chat; none for a session without a chat.
async fn position_behind(
    client: &Client,
    session: SessionId,
    chat: Option<u32>,
) -> Result<Option<String>, ClientError> {
    let Some(chat) = chat else { return Ok(None) };
    let total = poll_from(client, session, chat, 0).await?.total_events;
    Ok(poll_from(client, session, chat, total.saturating_sub(1)).await?.cursor)
}

/// Shows a session that may run already, and answers for it.
pub(super) async fn attach(global: &Global, arguments: &Attach) -> Result<u8> {
    let which = arguments.session.as_str();
    let client = server::find(&global.data_dir()?).await?;
    let session = find_session(&client, which).await.map_err(failed)?;
    let Some(chat) = session.chat else {
        bail!(
            "could not attach to {}: it has no chat yet; start one with plexus run --session {} \"PROMPT\"",
            session.name,
            session.name
        );
    };
    let before = position_behind(&client, session.id, chat.checked_sub(1)).await.map_err(failed)?;
    let form = if arguments.json { Form::Json } else { Form::Text };
    let watched = Watched { session, chat, cursor: before };
    let talk = if arguments.once { Talk::Once } else { Talk::On };
    Supervision::new(client, watched, Screen::stdout(), form, talk).run().await
}

/// Returns the exit code for a chat that ended this way.
fn code_of(status: SessionStatus, refused: Refused) -> u8 {
    match status {
        SessionStatus::Complete if !refused.is_none() => exit::REFUSED,
        SessionStatus::Complete => exit::OK,
        SessionStatus::Cancelled => exit::CANCELLED,
        SessionStatus::Failed
        | SessionStatus::Idle
        | SessionStatus::Running
        | SessionStatus::AwaitingPermission => exit::CHAT_FAILED,
    }
}
