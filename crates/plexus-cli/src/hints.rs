//! Hints of the server, for somebody at a shell. The server names methods, because most callers are
//! programs; here each becomes the command that does it.

/// The methods that have a command of their own.
const COMMANDS: &[(&str, &str)] = &[
    ("agents.cancel", "plexus cancel"),
    ("agents.chat", "plexus run"),
    ("agents.chat_async", "plexus send"),
    ("agents.delete", "plexus rm"),
    ("agents.follow", "plexus attach"),
    ("agents.fork", "plexus fork"),
    ("agents.get", "plexus ps"),
    ("agents.list", "plexus ps"),
    ("agents.poll", "plexus logs"),
    ("agents.rename", "plexus rename"),
    ("agents.search", "plexus search"),
    ("agents.send", "plexus send"),
    ("health.state", "plexus doctor"),
    ("identity.devices", "plexus devices"),
    ("identity.parent", "plexus mcp-config --as NAME"),
    ("identity.parents", "plexus parents"),
    ("identity.revoke", "plexus parents revoke"),
    ("loopback.pending", "plexus pending"),
    ("loopback.preview", "plexus preview"),
    ("loopback.respond", "plexus approve"),
    ("loopback.rules", "plexus rules"),
    ("loopback.rule_add", "plexus rules add"),
    ("notify.receivers", "plexus notify"),
    ("notify.test", "plexus notify test"),
    ("server.prune", "plexus prune"),
    ("server.stop", "plexus stop"),
];

/// Values of parameters that are a flag of a command.
const FLAGS: &[(&str, &str)] = &[("with `none` its commands", "with `--no-wall` its commands")];

/// The namespaces of methods.
const NAMESPACES: &[&str] = &[
    "agents",
    "arbor",
    "claudecode",
    "cone",
    "health",
    "identity",
    "loopback",
    "notify",
    "plexus",
    "server",
];

/// Says a hint with commands in place of methods.
pub(super) fn with_commands(hint: &str) -> String {
    let hint = FLAGS.iter().fold(hint.to_owned(), |hint, (value, flag)| hint.replace(value, flag));
    let mut told = String::with_capacity(hint.len());
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    for piece in hint.split_inclusive(|c: char| !is_part(c)) {
        let word = piece.trim_end_matches(|c: char| !is_part(c));
        let name = word.trim_end_matches('.');
        match command(name) {
            Some(command) => {
                // Some hints have put it in quotes already.
                let quote = if told.ends_with('`') { "" } else { "`" };
                told.push_str(&format!("{quote}{command}{quote}"));
                told.push_str(&piece[name.len()..]);
            }
            None => told.push_str(piece),
        }
    }
    told
}

fn command(word: &str) -> Option<String> {
    let (namespace, method) = word.split_once('.')?;
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    if !NAMESPACES.contains(&namespace) || method.is_empty() || !method.chars().all(is_name) {
        return None;
    }
    // Names of our own files look the same.
    if matches!(method, "toml" | "log" | "json" | "db") {
        return None;
    }
    let namespace = if namespace == "claudecode" { "agents" } else { namespace };
    let full = format!("{namespace}.{method}");
    let known = COMMANDS.iter().find(|(name, _)| *name == full);
    Some(known.map_or_else(|| format!("plexus call {full}"), |(_, command)| (*command).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_commands() {
        for (hint, told) in [
            ("names are exact; agents.list shows them", "names are exact; `plexus ps` shows them"),
            ("`identity.parents` lists them.", "`plexus parents` lists them."),
            ("see loopback.pending.", "see `plexus pending`."),
            ("with claudecode.budget_set", "with `plexus call agents.budget_set`"),
            ("in plexus.toml, or server.log", "in plexus.toml, or server.log"),
            ("`plexus pending` lists it: 1.5 s", "`plexus pending` lists it: 1.5 s"),
            ("identity.devices lists them", "`plexus devices` lists them"),
            ("with `none` its commands may", "with `--no-wall` its commands may"),
            ("", ""),
        ] {
            assert_eq!(with_commands(hint), told);
        }
    }
}
