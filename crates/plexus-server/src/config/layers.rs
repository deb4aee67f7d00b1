//! Puts the layers of configuration over each other: defaults, file, environment, flags.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::{Config, StoreUrl};

/// Where configuration comes from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The files to look for; the first that exists is read.
    pub files: Vec<PathBuf>,
    /// Variables of the environment.
    pub env: Vec<(OsString, OsString)>,
    /// Keys with their values as text, from the command line; the last one counts.
    pub set: Vec<(String, String)>,
}

impl Sources {
    /// The sources of a data directory: its own file, that of the user, and the environment.
    #[must_use]
    pub fn of(data_dir: &Path) -> Self {
        let files = [Some(data_dir.join("plexus.toml")), super::user_config_file()];
        Self {
            files: files.into_iter().flatten().collect(),
            env: std::env::vars_os().collect(),
            set: Vec::new(),
        }
    }
}

/// Why the configuration was not taken. Every variant names the key or the file.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file does not say what we know.
    #[error("read {}: {}", path.display(), source.to_string().trim_end())]
    File {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// There is no such key.
    #[error("set {key:?}: there is no such key; the keys are {}", known.join(", "))]
    UnknownKey {
        /// The key.
        key: String,
        /// Those that exist.
        known: Vec<String>,
    },
    /// The value does not fit the key.
    #[error("set {key} ({origin}): {problem}")]
    Value {
        /// The key.
        key: String,
        /// The variable or flag that said so.
        origin: String,
        /// What is wrong.
        problem: String,
    },
}

/// Reads all layers.
///
/// # Errors
/// When a file cannot be read, a key is unknown or a value does not fit.
pub fn load(sources: &Sources) -> Result<Config, ConfigError> {
    let defaults = table_of(&Config::default());
    let keys = leaves(&defaults, "");
    let mut merged = defaults;
    if let Some((path, text)) = first_file(&sources.files)? {
        let wrap = |source| ConfigError::File { path: path.clone(), source: Box::new(source) };
        // Read as a whole first: its errors name line and column.
        toml::from_str::<Config>(&text).map_err(wrap)?;
        overlay(&mut merged, toml::from_str::<Table>(&text).map_err(wrap)?);
    }
    for (key, default) in &keys {
        let name = variable_of(key);
        let Some(value) =
            sources.env.iter().find(|(variable, _)| *variable == *name).map(|(_, value)| value)
        else {
            continue;
        };
        let origin = format!("from {name}");
        let text = value.to_str().ok_or_else(|| wrong(key, &origin, "it is not UTF-8"))?;
        put(&mut merged, key, typed(key, default, text, &origin)?);
    }
    if let Some(url) = database_url(&sources.env) {
        put(&mut merged, "store.url", Value::String(url));
    }
    for (key, text) in &sources.set {
        let Some((_, default)) = keys.iter().find(|(known, _)| known == key) else {
            return Err(ConfigError::UnknownKey {
                key: key.clone(),
                known: keys.into_iter().map(|(key, _)| key).collect(),
            });
        };
        if key == "store.url" && StoreUrl::new(text.as_str()).has_password() {
            return Err(wrong(
                key,
                "from the command line",
                "everybody on this machine can read it there; use DATABASE_URL or plexus.toml",
            ));
        }
        put(&mut merged, key, typed(key, default, text, "from the command line")?);
    }
    let config: Config =
        Value::Table(merged).try_into().map_err(|error: toml::de::Error| ConfigError::Value {
            key: "a key".into(),
            origin: "all layers together".into(),
            problem: error.message().to_owned(),
        })?;
    if !config.store.url.is_empty() && !config.store.url.is_postgres() {
        return Err(wrong("store.url", "of all layers", "it begins with postgres://, or is empty"));
    }
    if config.limits.running_children == 0 {
        return Err(wrong("limits.running_children", "of all layers", "no agent could run with 0"));
    }
    super::reach::check(&config).map_err(|(key, problem)| wrong(key, "of all layers", &problem))?;
    config.acp_agents().map_err(|problem| wrong("agents", "of all layers", &problem))?;
    Ok(config)
}

/// Returns `DATABASE_URL` when `PLEXUS_STORE_URL` is not set. Other programs use the variable too,
/// so a URL of something other than PostgreSQL is ignored.
fn database_url(env: &[(OsString, OsString)]) -> Option<String> {
    let value = |wanted: &str| {
        env.iter().find(|(name, _)| name == wanted).and_then(|(_, value)| value.to_str())
    };
    let url = value("DATABASE_URL").filter(|_| value("PLEXUS_STORE_URL").is_none())?;
    StoreUrl::new(url).is_postgres().then(|| url.to_owned())
}

/// The name of the variable of a key: `limits.body_bytes` is `PLEXUS_LIMITS_BODY_BYTES`.
fn variable_of(key: &str) -> String {
    format!("PLEXUS_{}", key.replace('.', "_").to_ascii_uppercase())
}

fn first_file(files: &[PathBuf]) -> Result<Option<(PathBuf, String)>, ConfigError> {
    for path in files {
        match std::fs::read_to_string(path) {
            Ok(text) => return Ok(Some((path.clone(), text))),
            Err(error) if is_absent(&error, path) => {}
            Err(source) => return Err(ConfigError::Unreadable { path: path.clone(), source }),
        }
    }
    Ok(None)
}

fn is_absent(error: &std::io::Error, path: &Path) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
        && !path.is_file()
}

#[expect(clippy::expect_used, reason = "our own struct has nothing that TOML cannot say")]
fn table_of(config: &Config) -> Table {
    Table::try_from(config).expect("the configuration is TOML")
}

/// Lists the keys of a table with their values, those of its tables after a dot.
fn leaves(table: &Table, prefix: &str) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for (key, value) in table {
        match value {
            Value::Table(inner) => all.extend(leaves(inner, &format!("{prefix}{key}."))),
            value => all.push((format!("{prefix}{key}"), value.clone())),
        }
    }
    all
}

fn overlay(under: &mut Table, over: Table) {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(Value::Table(under)), Value::Table(over)) => overlay(under, over),
            (_, value) => {
                under.insert(key, value);
            }
        }
    }
}

fn put(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
        }
        Some((first, rest)) => {
            if let Some(Value::Table(inner)) = table.get_mut(first) {
                put(inner, rest, value);
            }
        }
    }
}

/// Reads a text as the type that the key's default has, and checks that the whole configuration
/// takes it.
fn typed(key: &str, default: &Value, text: &str, origin: &str) -> Result<Value, ConfigError> {
    let value = match default {
        Value::Integer(_) => Value::Integer(
            text.parse().map_err(|_| wrong(key, origin, "it is not a whole number"))?,
        ),
        Value::Boolean(_) => Value::Boolean(
            text.parse().map_err(|_| wrong(key, origin, "it is neither true nor false"))?,
        ),
        Value::Array(_) => Value::Array(
            text.split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(|item| Value::String(item.to_owned()))
                .collect(),
        ),
        Value::String(_) | Value::Float(_) | Value::Datetime(_) | Value::Table(_) => {
            Value::String(text.to_owned())
        }
    };
    let mut alone = table_of(&Config::default());
    put(&mut alone, key, value.clone());
    Value::Table(alone)
        .try_into::<Config>()
        .map_err(|error| wrong(key, origin, error.message()))?;
    Ok(value)
}

fn wrong(key: &str, origin: &str, problem: &str) -> ConfigError {
    ConfigError::Value {
        key: key.to_owned(),
        origin: origin.to_owned(),
        problem: problem.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(file: Option<&Path>, env: &[(&str, &str)], set: &[(&str, &str)]) -> Sources {
        Sources {
            files: file.map(Path::to_owned).into_iter().collect(),
            env: env
                .iter()
                .map(|(name, value)| (OsString::from(name), OsString::from(value)))
                .collect(),
            set: set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        }
    }

    #[test]
    fn flags_beat_variables_beat_the_file_beats_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plexus.toml");
        std::fs::write(&file, "listen = \"a\"\nlog = \"a\"\n[limits]\nstreams = 1\nconnections = 1\n[warm]\nmax = 1\n")
            .unwrap();
        let env = [
            ("PLEXUS_LOG", "b"),
            ("PLEXUS_LIMITS_CONNECTIONS", "2"),
            ("PLEXUS_WARM_MAX", "2"),
            ("PLEXUS_OTHER", "x"),
        ];
        let config =
            load(&sources(Some(&file), &env, &[("warm.max", "3"), ("allowed_hosts", "a, b")]))
                .unwrap();
        assert_eq!((config.listen.as_str(), config.log.as_str()), ("a", "b"));
        assert_eq!((config.limits.streams, config.limits.connections, config.warm.max), (1, 2, 3));
        assert_eq!(config.allowed_hosts, ["a", "b"]);
        assert_eq!(config.limits.grace_secs, Config::default().limits.grace_secs);
    }

    #[test]
    fn every_key_is_in_the_table_of_operations() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
        let page = std::fs::read_to_string(page).unwrap();
        let keys = leaves(&table_of(&Config::default()), "");
        let missing: Vec<&String> = keys
            .iter()
            .map(|(key, _)| key)
            .filter(|key| !page.contains(&format!("`{key}`")))
            .collect();
        assert!(keys.len() > 40, "{keys:?}");
        assert!(missing.is_empty(), "docs/operations.md does not name {missing:?}");
    }

    #[test]
    fn database_url_names_a_postgresql_and_nothing_else_and_the_command_line_takes_no_password() {
        let url = |env: &[(&str, &str)]| {
            load(&sources(None, env, &[])).unwrap().store.url.expose().to_owned()
        };
        assert_eq!(url(&[("DATABASE_URL", "postgres://u:p@db/one")]), "postgres://u:p@db/one");
        assert_eq!(url(&[("DATABASE_URL", "mysql://u:p@db/other")]), "");
        let both =
            [("DATABASE_URL", "postgres://db/one"), ("PLEXUS_STORE_URL", "postgres://db/two")];
        assert_eq!(url(&both), "postgres://db/two");
        assert_eq!(
            load(&sources(None, &[], &[("store.url", "postgres://u@db/x")]))
                .unwrap()
                .store
                .url
                .to_string(),
            "postgres://u@db/x"
        );
        for set in ["postgres://u:secret@db/x", "mysql://secret"] {
            let error = load(&sources(None, &[], &[("store.url", set)])).unwrap_err().to_string();
            assert!(error.contains("store.url") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plexus.toml");
        std::fs::write(&file, "[limits]\nstreems = 1\n").unwrap();
        for (sources, expected) in [
            (sources(Some(&file), &[], &[]), "streems"),
            (sources(None, &[("PLEXUS_LIMITS_STREAMS", "many")], &[]), "PLEXUS_LIMITS_STREAMS"),
            (sources(None, &[("PLEXUS_SYNC", "perhaps")], &[]), "PLEXUS_SYNC"),
            (sources(None, &[], &[("limits.streems", "1")]), "limits.streems"),
            (sources(None, &[], &[("limits.streams", "-1")]), "limits.streams"),
        ] {
            let error = load(&sources).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_missing_file_is_no_error_and_the_first_that_exists_counts() {
        let folder = tempfile::tempdir().unwrap();
        let second = folder.path().join("second.toml");
        std::fs::write(&second, "log = \"debug\"\n").unwrap();
        let sources =
            Sources { files: vec![folder.path().join("first.toml"), second], ..Sources::default() };
        assert_eq!(load(&sources).unwrap().log, "debug");
    }
}
