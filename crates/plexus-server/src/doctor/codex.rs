//! Codex, whether it can sign in, and whether its own directory lets its sandbox work.

use std::path::Path;

use codex_app::{OLDEST_SUPPORTED_VERSION, ProbeError};

use super::Finding;
use crate::agent::choose_codex;
use crate::config::Config;

/// How to get it.
const INSTALL: &str = "npm install -g @openai/codex, or name it with --codex-bin";

/// Finds Codex and asks it its version. It is one agent of several, so it may be missing.
pub(super) async fn look(config: &Config) -> Finding {
    const WHAT: &str = "codex";
    let own = std::env::current_exe().unwrap_or_default();
    let path = std::env::var_os("PATH");
    let Some(line) = choose_codex(&config.codex_bin, &own, path.as_deref()) else {
        return Finding::good(WHAT, format!("not installed ({INSTALL})"));
    };
    if !line.leading.is_empty() {
        return Finding::good(WHAT, "the built-in simulator");
    }
    let shown = line.program.display();
    match codex_app::probe_version(&line.program).await {
        Ok(probed) if probed.is_newer_than_tested() => Finding::odd(
            WHAT,
            format!("{shown}, version {}, is newer than any that was tested", probed.version),
            "if something looks wrong, look for a newer Plexus",
        ),
        Ok(probed) => Finding::good(WHAT, format!("{shown}, version {}", probed.version)),
        Err(ProbeError::TooOld { found, .. }) => Finding::bad(
            WHAT,
            format!("{shown} is version {found}; Plexus needs {OLDEST_SUPPORTED_VERSION} or newer"),
            "update it: npm install -g @openai/codex",
        ),
        Err(error) => Finding::bad(
            WHAT,
            format!("{shown}: {error}"),
            "does it run by hand? name another with --codex-bin",
        ),
    }
}

/// Looks for a login, and at the directory that sessions of Codex share.
pub(super) fn look_at_login(config: &Config, data_dir: &Path) -> Finding {
    const WHAT: &str = "codex login";
    let own = std::env::current_exe().unwrap_or_default();
    let path = std::env::var_os("PATH");
    let line = choose_codex(&config.codex_bin, &own, path.as_deref());
    if line.is_none_or(|line| !line.leading.is_empty()) {
        return Finding::good(WHAT, "none is needed");
    }
    let options = config.codex.options(data_dir, |name| std::env::var_os(name));
    let temporary = std::env::temp_dir();
    if options.home.starts_with(&temporary) {
        return Finding::odd(
            WHAT,
            format!(
                "{} lies below {}, where the sandbox of Codex cannot find its own helper",
                options.home.display(),
                temporary.display()
            ),
            "set codex.home to a directory elsewhere",
        );
    }
    let own_login = options.home.join("auth.json");
    match options.login.filter(|login| login.exists()) {
        Some(login) => Finding::good(WHAT, format!("{} is linked", login.display())),
        None if own_login.exists() => {
            Finding::good(WHAT, format!("found in {}", options.home.display()))
        }
        None => Finding::odd(
            WHAT,
            "none found",
            "run `codex login` as the user of the server; a model provider of your own in \
             codex.home/config.toml needs none",
        ),
    }
}
