//! The server, its port, where agents may work, and what the system lets it open.

use std::path::Path;

use plexus_client::{Client, ClientError, read_announcement};

use super::Finding;
use crate::config::Config;

/// Looks for the server, and says whether it answers.
pub(super) async fn look(dir: &Path) -> (Finding, bool) {
    const WHAT: &str = "server";
    if let Err(error @ ClientError::Announcement { .. }) = Client::from_data_dir(dir).url() {
        return (Finding::bad(WHAT, format!("could not {error}"), error.hint()), false);
    }
    let Some(announced) = read_announcement(dir) else {
        return (
            Finding::odd(WHAT, "none runs", "plexus run starts one, or start it with plexus serve"),
            false,
        );
    };
    let own = env!("CARGO_PKG_VERSION");
    match Client::from_data_dir(dir).plexus().version().await {
        Ok(_) if announced.version != own => {
            let words = format!(
                "{} is version {}, this program is {own}",
                announced.url, announced.version
            );
            (
                Finding::odd(
                    WHAT,
                    words,
                    "plexus stop, then start it again; children go on running",
                ),
                true,
            )
        }
        Ok(_) => {
            (Finding::good(WHAT, format!("{} (process {})", announced.url, announced.pid)), true)
        }
        Err(ClientError::Unreachable { .. }) => {
            let words = format!("the one at {} ended without being stopped", announced.url);
            (Finding::odd(WHAT, words, "start it again: it takes over its children"), false)
        }
        Err(error) => (Finding::bad(WHAT, error.to_string(), error.hint()), false),
    }
}

/// Looks whether the port is free.
pub(super) async fn look_at_port(config: &Config) -> Finding {
    match crate::serve::listen::bind(config).await {
        Ok(_) => Finding::good("port", format!("{} is free", config.listen)),
        Err(error) => Finding::bad(
            "port",
            format!("{error:#}"),
            "set listen in plexus.toml, or PLEXUS_LISTEN",
        ),
    }
}

/// Looks whether an agent could run here.
pub(super) fn look_at_directory(data_dir: &Path) -> Finding {
    const WHAT: &str = "directory";
    let Ok(here) = std::env::current_dir() else {
        return Finding::bad(WHAT, "the current directory is gone", "cd to another");
    };
    if data_dir.starts_with(&here) || here.starts_with(data_dir) {
        return Finding::odd(
            WHAT,
            format!("no agent can run in {}: Plexus keeps its data there", here.display()),
            "run in the directory of a project",
        );
    }
    Finding::good(WHAT, format!("an agent can run in {}", here.display()))
}

/// Looks at what the system lets a server open: each child needs a few descriptors, and each
/// followed journal a watch.
pub(super) fn look_at_files() -> Finding {
    const WHAT: &str = "open files";
    const ENOUGH: u64 = 1_024;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let instances = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_instances")
        .ok()
        .and_then(|text| text.trim().parse::<u64>().ok());
    match (limit, instances) {
        (Some(limit), _) if limit < ENOUGH => {
            Finding::odd(WHAT, format!("at most {limit}"), "ulimit -n 4096 before plexus serve")
        }
        (_, Some(instances)) if instances < 16 => Finding::odd(
            WHAT,
            format!("only {instances} inotify instances"),
            "sysctl fs.inotify.max_user_instances=128",
        ),
        _ => Finding::good(
            WHAT,
            limit.map_or("no limit".to_owned(), |limit| format!("at most {limit}")),
        ),
    }
}
