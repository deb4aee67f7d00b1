//! The command line of a supervised server: nothing of the repository and little of the user's
//! settings decides what runs.
//!
//! Why each switch is there is in `docs/codex-cli.md`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Features that run, fetch or decide something by themselves.
const DISABLED: [&str; 13] = [
    // Else the server asks a repository of plugins at every start.
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
    // Else one allowed shell takes any later line without a question.
    "unified_exec_tty",
    // Else a refused connection is tried again for ever, and the turn never ends.
    "unbounded_connection_retries",
];

/// Settings that go with them.
const SETTINGS: [&str; 7] = [
    // Some models have subagents although `multi_agent` is off.
    "agents.enabled=false",
    "web_search=\"disabled\"",
    "skills.bundled.enabled=false",
    // Else skills of the repository are told to the model, trusted or not.
    "skills.include_instructions=false",
    // Else each command sees keys and tokens of our environment.
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

/// What counts of the settings, rules, hooks, MCP servers and instructions that lie in a
/// repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    /// None of it: a directory that somebody else wrote cannot run anything unasked.
    #[default]
    Untrusted,
    /// All of it, as if the user had started the CLI there and trusted it.
    Trusted,
}

/// Why there is no such command line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The protocol names directories in JSON, which has no other letters.
    #[error("the path {} is not UTF-8", path.display())]
    NotUtf8 {
        /// The path.
        path: PathBuf,
    },
    /// The server matches directories by their whole path.
    #[error("the path {} is not absolute", path.display())]
    NotAbsolute {
        /// The path.
        path: PathBuf,
    },
}

impl Launch {
    /// Starts a server for threads that work in `cwd`, an absolute path, and trusts nothing there.
    pub fn new(cwd: impl Into<PathBuf>) -> Self {
        Self { cwd: cwd.into(), trust: Trust::default(), writable: Vec::new(), extra: Vec::new() }
    }

    /// Says what counts of what lies in the directory.
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
        // As a table: the dotted form of this setting is silently ignored.
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

/// A path as a string of TOML, which takes the escapes of JSON.
fn toml_string(path: &Path) -> Result<String, LaunchError> {
    if !path.is_absolute() {
        return Err(LaunchError::NotAbsolute { path: path.to_owned() });
    }
    match path.to_str() {
        // JSON leaves this one control character as it is, and TOML does not take it.
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
