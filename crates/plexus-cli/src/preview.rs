//! `plexus preview`: what a waiting command changes in a dry run, as a person reads it.

use anyhow::Result;
use plexus_client::Client;
use plexus_client::wire::{Approval, PreviewParams};

use super::args::Global;
use super::server::{self, failed};
use super::{exit, find};
use plexus_render::changed_files;
use plexus_render::sanitize;
use plexus_render::screen::{self, Screen};
use plexus_render::tool_call::Extent;

/// What is said while a command is tried.
pub(super) const TRYING: &str = "  (trying it on a copy, without a network)";

/// Runs the command.
pub(super) async fn preview(global: &Global, which: &str, json: bool) -> Result<u8> {
    let client = server::find(&global.data_dir()?).await?;
    let pending = client.pending(None).await.map_err(failed)?;
    let approval = find::approval(&client, &pending, which, find::Purpose::Preview).await?;
    let params = PreviewParams::new(approval.id);
    let previewed = client.loopback().preview(&params).await.map_err(failed)?;
    if json {
        screen::line(&serde_json::to_string_pretty(&previewed)?)?;
    } else {
        let shown = changed_files::previewed(&previewed, Extent::Whole, Screen::stdout());
        shown.iter().try_for_each(|line| screen::line(line))?;
    }
    Ok(exit::OK)
}

/// Tries the command of an approval, for a dialogue about it. An error is one of the lines.
pub(super) async fn tried(client: &Client, approval: &Approval, screen: Screen) -> Vec<String> {
    match client.loopback().preview(&PreviewParams::new(approval.id)).await {
        Ok(previewed) => changed_files::previewed(&previewed, Extent::Whole, screen),
        Err(error) => {
            vec![format!("could not {}", sanitize::one_line(&error.to_string()))]
        }
    }
}
