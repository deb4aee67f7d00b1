//! Finds or creates the session that the editor opens, and lists those that it may open.

use std::path::{Path, PathBuf};

use plexus_client::wire::{
    AgentKind, AgentPowers, CreateParams, ErrorKind, ListParams, NoParams, Session, SessionId,
    SessionRef, Supervise, method,
};
use serde_json::{Map, Value, json};

use crate::refusal::Refusal;
use crate::server::Server;
use crate::servers::Servers;
use plexus_client::paths::real_path;
use plexus_client::working_dir::{drawn_name, refuse_our_own_data};

/// How often a name that is taken is drawn again.
const NAME_TRIES: usize = 5;

/// Sessions that a list shows, the newest ones.
const MAX_LISTED: usize = 1_000;

/// What new conversations of the editor are opened with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The kind of agent of new sessions; the server's first one by default.
    pub agent: Option<String>,
    /// The one session that serves every conversation, by name or id.
    pub session: Option<String>,
    /// The model of new sessions.
    pub model: Option<String>,
    /// How much of what new sessions do is asked about.
    pub supervise: Option<Supervise>,
    /// Where the server keeps its data.
    pub data_dir: PathBuf,
}

/// The name that the editor gave itself; noted with the sessions that it creates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Editor(pub(crate) String);

/// What a new conversation asks for.
#[derive(Clone, Debug)]
pub(crate) struct New {
    pub(crate) cwd: String,
    pub(crate) more_dirs: Vec<String>,
    pub(crate) servers: Servers,
}

/// A conversation that is opened again.
#[derive(Clone, Debug)]
pub(crate) struct Again {
    pub(crate) session: String,
    pub(crate) cwd: String,
    pub(crate) servers: Servers,
}

/// A session that was found or created, and what the editor is told about it.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub(crate) session: Box<Session>,
    pub(crate) notes: Vec<String>,
}

impl Opened {
    fn new(session: Session, servers: &Servers) -> Self {
        Self { session: Box::new(session), notes: servers.notes() }
    }

    /// A session that was there already: it has the servers that it was created with.
    fn again(session: Session, servers: Servers) -> Self {
        let servers = servers.beyond(&session.mcp_servers);
        Self::new(session, &servers)
    }
}

/// Returns what the agent of new sessions can do. An agent that the server does not know can do
/// nothing.
pub(crate) async fn powers(server: &Server, settings: &Settings) -> Result<AgentPowers, Refusal> {
    let agent = match &settings.session {
        None => settings.agent.clone(),
        Some(which) => match server.call::<method::agents::Get>(&named(which)).await {
            Ok(found) => Some(found.session.agent),
            Err(error) if error.kind() == ErrorKind::NotFound => settings.agent.clone(),
            Err(error) => return Err(error.into()),
        },
    };
    let kinds = server.call::<method::agents::Kinds>(&NoParams {}).await?.agents;
    // A session that names no agent gets the first one.
    let is_it = |kind: &AgentKind| agent.as_ref().is_none_or(|agent| *agent == kind.agent);
    Ok(kinds.into_iter().find(is_it).map(|kind| kind.powers).unwrap_or_default())
}

/// Opens a new conversation: a new session, or the one that the command line names.
pub(crate) async fn begin(
    server: &Server,
    settings: &Settings,
    editor: &Editor,
    new: New,
) -> Result<Opened, Refusal> {
    let dir = directory(&new.cwd)?;
    refuse_our_own_data(&dir, &settings.data_dir)
        .map_err(|error| Refusal::params(format!("{error:#}")))?;
    let Some(which) = &settings.session else {
        return create(server, settings, editor, &dir, new, Name::Drawn).await;
    };
    match server.call::<method::agents::Get>(&named(which)).await {
        Ok(found) => Ok(Opened::again(fitting(found.session, &dir)?, new.servers)),
        Err(error)
            if error.kind() == ErrorKind::NotFound && which.parse::<SessionId>().is_err() =>
        {
            create(server, settings, editor, &dir, new, Name::Given(which)).await
        }
        Err(error) => Err(error.into()),
    }
}

/// Finds a session that the editor opens again.
pub(crate) async fn find(
    server: &Server,
    settings: &Settings,
    again: Again,
) -> Result<Opened, Refusal> {
    let dir = directory(&again.cwd)?;
    let id = &again.session;
    let unknown = || Refusal::not_found(format!("there is no session {id:?}"));
    let id: SessionId = id.parse().map_err(|_| unknown())?;
    let session = match server.call::<method::agents::Get>(&SessionRef::id(id)).await {
        Ok(found) => fitting(found.session, &dir)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(unknown()),
        Err(error) => return Err(error.into()),
    };
    match &settings.session {
        Some(which) if *which != session.name && *which != session.id.to_string() => {
            Err(Refusal::params(format!("this door was started for the session {which:?} only")))
        }
        Some(_) | None => Ok(Opened::again(session, again.servers)),
    }
}

/// Lists the sessions that may be opened, the newest first.
pub(crate) async fn list(
    server: &Server,
    settings: &Settings,
    cwd: Option<String>,
) -> Result<Value, Refusal> {
    let dir = cwd.as_deref().map(|cwd| real_path(Path::new(cwd)));
    let mut sessions: Vec<Session> = Vec::new();
    let mut cursor = None;
    loop {
        let page = server.call::<method::agents::List>(&ListParams::page(cursor)).await?;
        sessions.extend(page.sessions.into_iter().filter(|session| {
            let is_named = settings
                .session
                .as_ref()
                .is_none_or(|which| *which == session.name || *which == session.id.to_string());
            let is_there = dir.as_ref().is_none_or(|dir| real_path(&session.working_dir) == *dir);
            session.parent.is_none() && is_named && is_there
        }));
        sessions.sort_by_key(|session| std::cmp::Reverse(session.updated_at.0));
        sessions.truncate(MAX_LISTED);
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
    }
    let sessions: Vec<Value> = sessions.iter().map(shown).collect();
    Ok(json!({"sessions": sessions}))
}

fn shown(session: &Session) -> Value {
    let updated = jiff::Timestamp::from_millisecond(session.updated_at.0);
    json!({
        "sessionId": session.id, "cwd": session.working_dir, "title": session.name,
        "updatedAt": updated.ok().map(|at| at.to_string()),
    })
}

fn named(which: &str) -> SessionRef {
    which.parse().map_or_else(|_| SessionRef::named(which), SessionRef::id)
}

/// Returns the session if an editor may open it: no other session prompts it, and it works in the
/// editor's directory.
fn fitting(session: Session, dir: &Path) -> Result<Session, Refusal> {
    if let Some(parent) = session.parent {
        return Err(Refusal::params(format!(
            "{} was started by the session {parent}, which prompts it; \
             `plexus attach` and the dashboard show it",
            session.name
        )));
    }
    if real_path(&session.working_dir) != *dir {
        return Err(Refusal::params(format!(
            "{} works in {}, not in {}",
            session.name,
            session.working_dir.display(),
            dir.display()
        )));
    }
    Ok(session)
}

fn directory(cwd: &str) -> Result<PathBuf, Refusal> {
    let dir = Path::new(cwd);
    if !dir.is_absolute() {
        return Err(Refusal::params(format!("cwd {cwd:?} is not an absolute path")));
    }
    if !dir.is_dir() {
        return Err(Refusal::params(format!("cwd {cwd:?} is not a directory")));
    }
    Ok(real_path(dir))
}

/// How a new session is called.
#[derive(Clone, Copy)]
enum Name<'a> {
    Given(&'a str),
    Drawn,
}

async fn create(
    server: &Server,
    settings: &Settings,
    editor: &Editor,
    dir: &Path,
    new: New,
    name: Name<'_>,
) -> Result<Opened, Refusal> {
    let more_dirs: Vec<PathBuf> = new.more_dirs.into_iter().map(PathBuf::from).collect();
    let takes_servers = new.servers.given.is_empty() || powers(server, settings).await?.mcp_servers;
    let servers = match takes_servers {
        true => new.servers,
        false => new.servers.without_given("this agent cannot be given MCP servers"),
    };
    // A call whose answer was lost is made again; this key finds what the first one created.
    let request = SessionId::generate().to_string();
    let noted = json!({"editor": editor.0, "request": request});
    let metadata = Map::from_iter([("acp".to_owned(), noted.clone())]);
    for attempt in 1..=NAME_TRIES {
        let name_now = match name {
            Name::Given(name) => name.to_owned(),
            Name::Drawn => drawn_name(dir),
        };
        let params = CreateParams {
            agent: settings.agent.clone(),
            model: settings.model.clone(),
            supervise: settings.supervise,
            add_dirs: (!more_dirs.is_empty()).then(|| more_dirs.clone()),
            mcp_servers: (!servers.given.is_empty()).then(|| servers.given.clone()),
            metadata: Some(metadata.clone()),
            ..CreateParams::new(&name_now, dir)
        };
        let which = match server.call::<method::agents::Create>(&params).await {
            Ok(created) => SessionRef::id(created.id),
            Err(error) if error.kind() == ErrorKind::Conflict => SessionRef::named(name_now),
            Err(error) => return Err(error.into()),
        };
        let session = server.call::<method::agents::Get>(&which).await?.session;
        if session.metadata.to_value()["acp"] == noted {
            return Ok(Opened::new(session, &servers));
        }
        if matches!(name, Name::Given(_)) || attempt == NAME_TRIES {
            return Err(Refusal::params(format!("the name {} is taken", session.name)));
        }
    }
    Err(Refusal::failed("could not find a free name for the session"))
}
