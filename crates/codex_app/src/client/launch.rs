//! The command line of a supervised server. It keeps the repository, and most settings of the user,
//! from deciding what runs.
//!
//! `docs/codex-cli.md` gives the reason for each switch.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Features that run, fetch or decide something by themselves.
const DISABLED: [&str; 13] = [
    // Otherwise the server asks a repository of plugins at every start.
    "plugins",
    "remote_plugin",
    "apps",
    // A hook can answer a question instead of us.
    "hooks",
    // A goal starts turn after turn by itself.
    "goals",
    "multi_agent",
    "shell_snapshot",
    "image_generation",
    "memories",
    "skill_mcp_dependency_install",
    "tool_suggest",
    // Otherwise a shell that was allowed once accepts any later input without permission.
    "unified_exec_tty",
    // Otherwise the server retries a refused connection for ever, and the turn never ends.
    "unbounded_connection_retries",
];

/// Settings that accompany the disabled features.
const SETTINGS: [&str; 7] = [
    // Some models have subagents although `multi_agent` is off.
    "agents.enabled=false",
    "web_search=\"disabled\"",
    "skills.bundled.enabled=false",
    // Otherwise the model is told of the repository's skills, trusted or not.
    "skills.include_instructions=false",
    // Otherwise each command sees keys and tokens of our environment.
    "shell_environment_policy.ignore_default_excludes=false",
    "analytics.enabled=false",
    "check_for_update_on_startup=false",
];

/// How a server is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    cwd: PathBuf,
    trust: Trust,
    writable: Vec<PathBuf>,
    extra: Vec<OsString>,
}

/// Whether the settings, rules, hooks, MCP servers and instructions of a repository apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    /// None apply: a directory that somebody else wrote cannot run anything unasked.
    #[default]
    Untrusted,
    /// All apply, as if the user had started the CLI there and trusted it.
    Trusted,
}

/// Why the command line cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The path is not UTF-8. The protocol names directories in JSON, which allows nothing else.
    #[error("the path {} is not UTF-8", path.display())]
    NotUtf8 {
        /// The path.
        path: PathBuf,
    },
    /// The path is relative. The server matches directories by their absolute path.
    #[error("the path {} is not absolute", path.display())]
    NotAbsolute {
        /// The path.
        path: PathBuf,
    },
}

impl Launch {
    /// Creates the settings of a server for threads that work in `cwd`, an absolute path. Nothing
    /// there is trusted.
    pub fn new(cwd: impl Into<PathBuf>) -> Self {
        Self { cwd: cwd.into(), trust: Trust::default(), writable: Vec::new(), extra: Vec::new() }
    }

    /// Sets whether the settings in the directory apply.
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// Lets sandboxed commands write here as well, an absolute path.
    pub fn writable(mut self, dir: impl Into<PathBuf>) -> Self {
        self.writable.push(dir.into());
        self
    }

    /// Adds an argument after all others; a later setting wins.
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.extra.push(argument.into());
        self
    }

    /// Returns the directory.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Returns the arguments of the program.
    pub fn arguments(&self) -> Result<Vec<OsString>, LaunchError> {
        let level = match self.trust {
            Trust::Untrusted => "untrusted",
            Trust::Trusted => "trusted",
        };
        // A table is needed here, because the server silently ignores the dotted form of this
        // setting.
        let cwd = toml_string(&self.cwd)?;
        let projects = format!("projects={{{cwd}={{trust_level=\"{level}\"}}}}");
        let mut settings = vec![projects];
        settings.extend(SETTINGS.map(str::to_owned));
        if !self.writable.is_empty() {
            let roots: Result<Vec<_>, _> =
                self.writable.iter().map(|dir| toml_string(dir)).collect();
            settings.push(format!("sandbox_workspace_write.writable_roots=[{}]", roots?.join(",")));
        }
        let features = DISABLED.iter().flat_map(|feature| ["--disable".into(), feature.into()]);
        let settings =
            settings.into_iter().flat_map(|setting| [OsString::from("-c"), setting.into()]);
        let arguments = [OsString::from("app-server")].into_iter().chain(features).chain(settings);
        Ok(arguments.chain(self.extra.iter().cloned()).collect())
    }
}

/// Returns a path as a TOML string, which allows the escapes of JSON.
fn toml_string(path: &Path) -> Result<String, LaunchError> {
    if !path.is_absolute() {
        return Err(LaunchError::NotAbsolute { path: path.to_owned() });
    }
    match path.to_str() {
        // JSON leaves this one control character unescaped, and TOML does not accept it.
        Some(text) => Ok(serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")),
        None => Err(LaunchError::NotUtf8 { path: path.to_owned() }),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn the_directory_is_untrusted_whatever_is_in_its_name() {
        let arguments = |launch: &Launch| {
            let words = launch.arguments().expect("a command line");
            words.iter().map(|word| word.to_str().expect("UTF-8").to_owned()).collect::<Vec<_>>()
        };
        let odd = Launch::new("/a \"b\"={x}\u{7f}\n");
        let untrusted = "projects={\"/a \\\"b\\\"={x}\\u007f\\n\"={trust_level=\"untrusted\"}}";
        assert_eq!(arguments(&odd)[0], "app-server");
        assert!(arguments(&odd).contains(&untrusted.to_owned()), "{:?}", arguments(&odd));
        let trusted = arguments(&Launch::new("/a").trust(Trust::Trusted));
        assert!(trusted.contains(&"projects={\"/a\"={trust_level=\"trusted\"}}".to_owned()));
        let roots = arguments(&Launch::new("/a").writable("/b").writable("/c"));
        let expected = "sandbox_workspace_write.writable_roots=[\"/b\",\"/c\"]";
        assert!(roots.contains(&expected.to_owned()), "{roots:?}");
    }

    #[test]
    fn a_path_that_the_protocol_cannot_name_is_refused() {
        let relative = Launch::new("a").arguments().expect_err("relative");
        assert!(matches!(relative, LaunchError::NotAbsolute { .. }));
        let bytes = PathBuf::from(OsString::from_vec(b"/\xff".to_vec()));
        let error = Launch::new(bytes).arguments().expect_err("no UTF-8");
        assert!(matches!(error, LaunchError::NotUtf8 { .. }));
    }
}
