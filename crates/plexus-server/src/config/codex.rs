//! What is configured of Codex: where it keeps its own files, whose login it uses, what models
//! cost.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use plexus_agents::CodexOptions;
use serde::{Deserialize, Serialize};

use super::prices::{ModelPrice, prices};

/// What is configured of Codex.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CodexConfig {
    /// Where Codex keeps settings and conversations of all sessions. If empty: the folder `codex` in
    /// the data directory. Do not use the user's own Codex home: Codex would obey the rules and
    /// hooks in it. Do not put it below the directory for temporary files: Codex's sandbox fails
    /// there.
    pub home: PathBuf,
    /// The `auth.json` that is linked into the home; empty for that of the user.
    pub login: PathBuf,
    /// What models cost. Without a price, a chat counts as free, and no budget in dollars starts it.
    pub prices: Vec<ModelPrice>,
}

impl CodexConfig {
    /// Returns what the driver is built from.
    #[must_use]
    pub fn options(
        &self,
        data_dir: &Path,
        env: impl Fn(&OsStr) -> Option<OsString>,
    ) -> CodexOptions {
        let or = |path: &Path, other: Option<PathBuf>| {
            if path.as_os_str().is_empty() { other } else { Some(path.to_owned()) }
        };
        CodexOptions {
            home: or(&self.home, None).unwrap_or_else(|| data_dir.join("codex")),
            login: or(&self.login, user_login(env)),
            prices: prices(&self.prices),
        }
    }
}

/// Where the user's own Codex keeps its login.
fn user_login(env: impl Fn(&OsStr) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name: &str| env(OsStr::new(name)).map(PathBuf::from);
    let home = folder("CODEX_HOME").or_else(|| folder("HOME").map(|home| home.join(".codex")));
    home.map(|home| home.join("auth.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_is_apart_from_that_of_the_user_whose_login_is_linked() {
        let env = |name: &OsStr| (name == "HOME").then(|| OsString::from("/home/u"));
        let options = CodexConfig::default().options(Path::new("/data"), env);
        assert_eq!(options.home, Path::new("/data/codex"));
        assert_eq!(options.login, Some("/home/u/.codex/auth.json".into()));
        let prices =
            vec![ModelPrice { model: "m".into(), input_usd: 2.0, ..ModelPrice::default() }];
        let config = CodexConfig { home: "/h".into(), login: "/l".into(), prices };
        let options = config.options(Path::new("/data"), env);
        assert_eq!((options.home, options.login), ("/h".into(), Some("/l".into())));
        assert_eq!(options.prices["m"].input, 2.0);
    }
}
