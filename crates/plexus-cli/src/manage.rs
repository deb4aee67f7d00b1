//! The server and the ways into it: `stop`, `token`, `dashboard`, `call`, `mcp`, `mcp-config`.

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use plexus_client::wire::{McpServer, ParentParams, SecretToken, StopParams};
use plexus_client::{Client, ClientError, LOCK_FILE, read_announcement, read_operator_token};
use plexus_transport::{FULL_QUERY, ToolList, Whereabouts};
use serde_json::{Value, json};

use super::args::{Global, Mcp, McpConfig, Tools};
use super::server::{self, failed};
use super::{exit, program};
use plexus_render::error::{complain, could_not};
use plexus_render::sanitize;
use plexus_render::screen;

/// How long a server may take to stop: open requests finish, and its store closes.
const STOP_DEADLINE: Duration = Duration::from_secs(60);

/// `plexus stop`.
pub(super) async fn stop(global: &Global, children: bool, park: bool) -> Result<u8> {
    let data_dir = global.data_dir()?;
    let client = server::find(&data_dir).await?;
    // Sent only when it is set: a server of an earlier version does not know the field.
    let how = StopParams { children: Some(children), park: park.then_some(true) };
    let told = client.server().stop(&how).await.map_err(failed)?;
    let deadline = Instant::now() + STOP_DEADLINE;
    while read_announcement(&data_dir).is_some() || lock_is_held(&data_dir) {
        if Instant::now() > deadline {
            bail!(
                "could not stop the server within {} s; its log says why",
                STOP_DEADLINE.as_secs()
            );
        }
        tokio::time::sleep(server::LOOK_EVERY).await;
    }
    screen::line(&screen::server_stopped(told.children))?;
    Ok(exit::OK)
}

/// Whether the lock is held, which a server releases last.
fn lock_is_held(data_dir: &Path) -> bool {
    let Ok(file) = std::fs::File::open(data_dir.join(LOCK_FILE)) else { return false };
    matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock))
}

/// `plexus token`.
pub(super) fn token(global: &Global) -> Result<u8> {
    screen::line(read_operator_token(&global.data_dir()?).map_err(failed)?.expose())?;
    Ok(exit::OK)
}

/// `plexus dashboard`.
pub(super) async fn dashboard(global: &Global, print_only: bool) -> Result<u8> {
    let (client, _) = server::find_or_start(&global.data_dir()?, &[]).await?;
    let address = dashboard_address(&client).await?;
    let has_display = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    let opened = !print_only
        && std::io::stdout().is_terminal()
        && (has_display || cfg!(target_os = "macos"))
        && open(&address).await;
    if opened {
        screen::line("opened the dashboard; if nothing shows, run `plexus dashboard --print`")?;
    } else {
        screen::line(&address)?;
        complain("the link works once, within a minute");
    }
    Ok(exit::OK)
}

/// Returns a link that signs in once.
pub(super) async fn dashboard_address(client: &Client) -> Result<String> {
    let told = client.identity().code().await.map_err(failed)?;
    Ok(format!("{}/#code={}", client.url().map_err(failed)?, told.code))
}

async fn open(address: &str) -> bool {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let Ok(mut command) = program::command(opener) else { return false };
    let (stdout, stderr) = (std::process::Stdio::null(), std::process::Stdio::null());
    let status = command.arg(address).stdout(stdout).stderr(stderr).status();
    status.await.is_ok_and(|status| status.success())
}

/// `plexus call`: any method by its name, so that nothing is out of reach from a shell.
pub(super) async fn call(global: &Global, method: &str, params: &str) -> Result<u8> {
    let params: Value =
        serde_json::from_str(params).context("could not read the parameters: they are not JSON")?;
    let client = Client::from_data_dir(global.data_dir()?);
    match client.call_by_name::<Value>(method, params).await {
        Ok(result) => {
            screen::line(&serde_json::to_string_pretty(&result)?)?;
            Ok(exit::OK)
        }
        // A program reads this: the error object as it is.
        Err(ClientError::Call(error)) => {
            screen::line(&serde_json::to_string_pretty(&json!({"error": error}))?)?;
            Ok(exit::FAILED)
        }
        Err(error) => Err(failed(error)),
    }
}

/// `plexus mcp`: MCP on stdin and stdout, for a parent agent. Nothing else may write to stdout
/// here.
pub(super) async fn mcp(global: &Global, arguments: &Mcp) -> Result<u8> {
    let data_dir = global.data_dir()?;
    let (client, found) = server::find_or_start(&data_dir, &[]).await?;
    if let server::Found::Started { log } = found {
        complain(&format!("started a server (log: {})", log.display()));
    }
    let token = if arguments.operator {
        read_operator_token(&data_dir).map_err(failed)?
    } else {
        let name = match &arguments.name {
            Some(name) => name.clone(),
            None => default_parent_name()?,
        };
        parent_token(&client, &name, Earlier::Stay).await?
    };
    // A server that is started again may take another port; its data directory says which.
    let server = Whereabouts::new(client.url().map_err(failed)?, move || client.url().ok());
    let tools = match arguments.tools {
        Tools::Short => ToolList::Short,
        Tools::Full => ToolList::Full,
    };
    plexus_transport::bridge_stdio(server, token, tools).await.map_err(could_not)?;
    Ok(exit::OK)
}

/// Names a parent after its directory: started again there, it finds its children.
fn default_parent_name() -> Result<String> {
    let here = std::env::current_dir().context("could not find the current directory")?;
    Ok(format!("mcp {}", sanitize::one_line(&here.display().to_string()))
        .chars()
        .take(200)
        .collect())
}

/// What becomes of a parent's earlier tokens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Earlier {
    Stay,
    End,
}

async fn parent_token(client: &Client, name: &str, earlier: Earlier) -> Result<SecretToken> {
    let mut params = ParentParams::new(name);
    params.replace = Some(earlier == Earlier::End);
    let told = client.identity().parent(&params).await.map_err(failed)?;
    Ok(SecretToken::new(told.token))
}

/// `plexus mcp-config`: what to paste into a parent's configuration.
pub(super) async fn mcp_config(global: &Global, arguments: &McpConfig) -> Result<u8> {
    let data_dir = global.data_dir()?;
    let entry = match &arguments.name {
        Some(name) => {
            let (client, _) = server::find_or_start(&data_dir, &[]).await?;
            let earlier = if arguments.replace { Earlier::End } else { Earlier::Stay };
            let token = parent_token(&client, name, earlier).await?;
            let url = client.url().map_err(failed)?;
            complain(
                "this holds a token: keep it out of repositories. The same name again makes \
                 another token for the same parent; `plexus parents revoke` ends them.",
            );
            json!(McpServer {
                r#type: "http".to_owned(),
                url: match arguments.tools {
                    Tools::Short => format!("{url}/mcp"),
                    Tools::Full => format!("{url}/mcp?{FULL_QUERY}"),
                },
                headers: [("Authorization".to_owned(), format!("Bearer {}", token.expose()))]
                    .into(),
                timeout: None,
            })
        }
        None => {
            let own = std::env::current_exe().context("could not find this program itself")?;
            let mut words = vec!["mcp".to_owned()];
            if global.data_dir.is_some() {
                words.extend(["--data-dir".to_owned(), data_dir.display().to_string()]);
            }
            if arguments.tools == Tools::Full {
                words.extend(["--tools".to_owned(), "full".to_owned()]);
            }
            json!({"type": "stdio", "command": own, "args": words})
        }
    };
    screen::line(&serde_json::to_string_pretty(&json!({"mcpServers": {"plexus": entry}}))?)?;
    Ok(exit::OK)
}
