//! Secrets of receivers: from a file that nobody else can read, or from a variable.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use plexus_core::SecretToken;

/// Reads a secret. `field` is the name of its settings, without `_file` and `_env`.
pub(crate) fn read(
    field: &str,
    file: Option<&Path>,
    variable: Option<&str>,
    env: &[(OsString, OsString)],
) -> Result<SecretToken, String> {
    maybe(field, file, variable, env)?
        .ok_or_else(|| format!("name either {field}_file or {field}_env"))
}

/// The same where it may be left out.
pub(crate) fn maybe(
    field: &str,
    file: Option<&Path>,
    variable: Option<&str>,
    env: &[(OsString, OsString)],
) -> Result<Option<SecretToken>, String> {
    let secret = match (file, variable) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => return Err(format!("name either {field}_file or {field}_env")),
        (Some(path), None) => of_file(path)?,
        (None, Some(name)) => of_variable(name, env)?,
    };
    if secret.expose().is_empty() {
        return Err(format!("its {field} is empty"));
    }
    Ok(Some(secret))
}

fn of_file(path: &Path) -> Result<SecretToken, String> {
    let read = |error: std::io::Error| format!("read {}: {error}", path.display());
    let mode = std::fs::metadata(path).map_err(read)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!(
            "{} can be read by others (mode {mode:o}); chmod 600 it",
            path.display()
        ));
    }
    let text = std::fs::read_to_string(path).map_err(read)?;
    Ok(SecretToken::new(text.trim_end_matches(['\r', '\n'])))
}

fn of_variable(name: &str, env: &[(OsString, OsString)]) -> Result<SecretToken, String> {
    let value =
        env.iter().find(|(variable, _)| *variable == *name).and_then(|(_, value)| value.to_str());
    value
        .map(SecretToken::new)
        .ok_or_else(|| format!("the variable {name} is not set, or is not text"))
}
