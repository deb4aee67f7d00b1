//! Where the configuration of a person is.

use std::ffi::OsString;
use std::path::PathBuf;

/// Returns where a person's own `plexus.toml` is looked for: `$XDG_CONFIG_HOME/plexus` or
/// `~/.config/plexus`.
#[must_use]
pub(super) fn user_config_file() -> Option<PathBuf> {
    config_from(|name| std::env::var_os(name))
}

fn config_from(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(folder.join("plexus/plexus.toml"))
}
