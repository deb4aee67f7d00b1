//! `plexus changes`: what changed in a session's directory since the session began.

use anyhow::Result;
use plexus_client::wire::{ChangesFound, ChangesSource, SessionRef};

use super::args::Global;
use super::complete::sessions;
use super::exit;
use super::find::session as find_session;
use super::server::{self, failed};
use plexus_render::changed_files::changed;
use plexus_render::sanitize;
use plexus_render::screen::{self, Screen, Tone, counted};
use plexus_render::tool_call::Extent;

/// `plexus changes`.
#[derive(clap::Args, Debug)]
pub struct Changes {
    /// The session.
    #[arg(value_name = "NAME|ID", add = sessions())]
    pub session: String,
    /// Only the paths, without their differences.
    #[arg(long)]
    pub names: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub(super) async fn changes(global: &Global, arguments: &Changes) -> Result<u8> {
    let client = server::find(&global.data_dir()?).await?;
    let session = find_session(&client, &arguments.session).await.map_err(failed)?;
    let mut found = client.agents().changes(&SessionRef::id(session.id)).await.map_err(failed)?;
    if arguments.names {
        found.changes.iter_mut().for_each(|change| change.diff = None);
    }
    if arguments.json {
        screen::line(&serde_json::to_string_pretty(&found)?)?;
    } else {
        let shown = lines(&found, Screen::stdout());
        shown.iter().try_for_each(|line| screen::line(line))?;
    }
    Ok(exit::OK)
}

fn lines(found: &ChangesFound, screen: Screen) -> Vec<String> {
    let mut lines = changed(&found.changes, Extent::Whole, screen);
    let more = if found.cut { ", and more that are not listed" } else { "" };
    let how = match found.source.known() {
        Some(ChangesSource::Git) if found.changes.len() == 1 => {
            "differs from the beginning of the session"
        }
        Some(ChangesSource::Git) => "differ from the beginning of the session",
        _ if found.changes.len() == 1 => "was edited by the tools of the agent",
        _ => "were edited by the tools of the agent",
    };
    lines.push(format!("{} {how}{more}", counted(found.changes.len() as u64, "file")));
    lines.extend(
        found.note.as_deref().map(|note| screen.paint(Tone::Faint, &sanitize::one_line(note))),
    );
    lines
}
