//! How much harm a tool call could do, as a level with its reasons.
//!
//! It looks only at words, so it serves to sort queues and to highlight calls. It decides nothing:
//! [`RuleSet`](crate::RuleSet) decides, and needs proof.

use std::path::Path;
use std::sync::LazyLock;

use plexus_wire::{FileEdit, Risk, RiskLevel, ToolCall, ToolTarget};
use regex::Regex;
use serde_json::Value;

/// A sign in the words of a shell command.
struct Sign {
    pattern: &'static str,
    score: u8,
    reason: &'static str,
}

const fn sign(pattern: &'static str, score: u8, reason: &'static str) -> Sign {
    Sign { pattern, score, reason }
}

/// Signs in a command, the most harmful first. Word boundaries keep `format` from being `rm`.
const SIGNS: &[Sign] = &[
    sign(r"\b(mkfs(\.\w+)?|dd\s+[^|;]*of=|wipefs|shred)\b", 98, "overwrites a device or file"),
    sign(r"\b(curl|wget)\b[^|;&]*\|\s*(sudo\s+)?\w*sh\b", 97, "runs a script from the network"),
    sign(r"(?i)\brm\s+(-[a-z]*[rf]|--recursive|--force)", 95, "deletes recursively or by force"),
    sign(r"\b(sudo|doas|su|pkexec)\b", 92, "runs as another user"),
    sign(
        concat!(
            r"(?i)(\.ssh\b|id_(rsa|ed25519)|\.aws\b|\.netrc|\.gnupg|\.env\b",
            r"|credentials|secrets?\b|tokens?\b)"
        ),
        88,
        "touches what may be secrets",
    ),
    sign(r"\bgit\s+push\b.*(--force|-f\b|\+)", 88, "rewrites a remote branch"),
    sign(r"\b(eval|base64\s+(-d|--decode)|xxd\s+-r)\b", 85, "runs or decodes hidden code"),
    sign(r"\bgit\s+(reset\s+--hard|clean\s+-\w*[fd])", 82, "discards work in the repository"),
    sign(
        r"\b(kill|pkill|killall|shutdown|reboot|systemctl|service|crontab)\b",
        78,
        "acts on processes or services",
    ),
    sign(
        r"\b(docker|podman|kubectl|terraform|ansible|helm)\b",
        78,
        "acts on containers or infrastructure",
    ),
    sign(
        r"(?i)\b(psql|mysql|sqlite3|redis-cli|mongo\w*)\b|\b(drop|truncate)\s+(table|database)\b",
        76,
        "acts on a database",
    ),
    sign(r"\b(chmod|chown|chattr|setfacl)\b", 75, "changes permissions"),
    sign(r"\b(curl|wget|nc|ncat|ssh|scp|rsync|ftp|telnet)\b", 74, "talks to the network"),
    sign(
        concat!(
            r"\b(npm|pnpm|yarn|pip3?|cargo|gem|go|apt(-get)?|brew)",
            r"\s+(i|install|add|publish|get|exec)\b|\bnpx\b"
        ),
        66,
        "installs or runs foreign code",
    ),
    sign(r"\brm\b|\bmv\b|\btruncate\b|\bfind\b.*-delete\b", 64, "moves or deletes files"),
    sign(r"\bgit\s+(push|commit|merge|rebase|tag)\b", 60, "changes the repository's history"),
];

/// The signs, compiled once.
static COMPILED: LazyLock<Vec<(Regex, &'static Sign)>> = LazyLock::new(|| {
    SIGNS.iter().filter_map(|sign| Some((Regex::new(sign.pattern).ok()?, sign))).collect()
});

/// Where a command writes: a redirection to something other than a descriptor.
static REDIRECTION: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?:^|[^<>&0-9])>>?\s*([^&\s|]\S*)").ok());

/// Commands that only look. All parts of a compound must be among them.
static ONLY_LOOKS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^(cd|ls|cat|head|tail|wc|pwd|echo|printf|grep|rg|fd|find|tree|stat|file|which|date|env|",
        r"true|sort|uniq|cut|diff|du|df|ps|",
        r"git\s+(status|diff|log|show|branch|rev-parse|ls-files|blame))\b"
    ))
    .ok()
});

/// Names of files and directories that configure a system or a tool, or hold secrets.
const SENSITIVE_NAMES: &[&str] = &[
    ".ssh", ".aws", ".gnupg", ".config", ".bashrc", ".zshrc", ".profile", ".npmrc", ".claude",
    ".codex",
];

/// Directories of the system.
const SYSTEM_DIRS: &[&str] = &["/etc/", "/usr/", "/bin/", "/sbin/", "/boot/"];

/// Directories of the system in which people also keep projects.
const SHARED_DIRS: &[&str] = &["/var/", "/opt/", "/root/"];

/// Says how much harm a call could do.
#[must_use]
pub fn assess(call: &ToolCall, input: &Value, working_dir: Option<&Path>) -> Risk {
    let mut found: Vec<(u8, String)> = Vec::new();
    let mut raise = |score: u8, reason: &str| found.push((score, reason.to_owned()));
    match &call.target {
        ToolTarget::Shell { command, .. } => command_risk(command, &mut raise),
        ToolTarget::Write { changes } => {
            let whole = changes.iter().any(|change| matches!(change.edit, FileEdit::Whole { .. }));
            raise(50, if whole { "writes a whole file" } else { "changes a file" });
            if changes.iter().any(|change| matches!(change.edit, FileEdit::Delete {})) {
                raise(64, "deletes a file");
            }
            if changes.iter().any(|change| is_sensitive(&change.path, working_dir)) {
                raise(84, "the file configures a system or a tool");
            }
            let outside = |path: &str| working_dir.is_some_and(|dir| is_outside(path, dir));
            if changes.iter().any(|change| outside(&change.path)) {
                raise(72, "the file is outside the working directory");
            }
        }
        ToolTarget::Fetch { url } => fetch_risk(url.as_deref(), &mut raise),
        ToolTarget::Connect { host, port } => {
            raise(35, "a command connects to the network");
            fetch_risk(Some(&format!("https://{host}:{port}/")), &mut raise);
        }
        ToolTarget::Read { path, .. } => {
            raise(10, "only reads");
            if path.as_deref().is_some_and(|path| is_sensitive(path, working_dir)) {
                raise(56, "the file may hold secrets");
            }
        }
        ToolTarget::Think {} => raise(10, "keeps notes of its own"),
        ToolTarget::Question {} => raise(10, "asks its user"),
        ToolTarget::Agent {} => raise(40, "starts an agent of its own"),
        ToolTarget::Mcp { server, .. } => {
            raise(55, &format!("calls {server}, whose effect is not known here"));
        }
        ToolTarget::Other {} => raise(45, "an unknown tool"),
    }
    if let Some(doubt) = &call.doubt {
        raise(62, doubt);
    }
    if holds_hidden(input) {
        raise(90, "holds invisible or direction-changing characters");
    }
    found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    let score = found.first().map_or(0, |(score, _)| *score);
    let reasons = found.into_iter().map(|(_, reason)| reason).collect();
    Risk { level: level_of(score), score, reasons }
}

fn command_risk(command: &str, raise: &mut impl FnMut(u8, &str)) {
    let mut any = false;
    for (_, sign) in COMPILED.iter().filter(|(pattern, _)| pattern.is_match(command)) {
        raise(sign.score, sign.reason);
        any = true;
    }
    if writes_to_a_file(command) {
        raise(58, "writes to a file");
        any = true;
    }
    if any {
        return;
    }
    let parts = command.split(['&', '|', ';', '\n']).map(str::trim).filter(|part| !part.is_empty());
    let looks = |part: &str| ONLY_LOOKS.as_ref().is_some_and(|looks| looks.is_match(part));
    let plain = !command.contains('`') && !command.contains("$(");
    let mut parts = parts.peekable();
    if parts.peek().is_some() && plain && parts.all(looks) {
        raise(20, "only looks, as far as its words tell");
    } else {
        raise(55, "runs a command");
    }
}

fn writes_to_a_file(command: &str) -> bool {
    let Some(pattern) = REDIRECTION.as_ref() else { return true };
    pattern
        .captures_iter(command)
        .any(|found| found.get(1).is_some_and(|target| !target.as_str().starts_with("/dev/null")))
}

fn fetch_risk(url: Option<&str>, raise: &mut impl FnMut(u8, &str)) {
    let Some(url) = url else { return raise(30, "searches the network") };
    raise(30, "fetches from the network");
    let lower = url.to_ascii_lowercase();
    if lower.starts_with("http:") {
        raise(36, "the address is not encrypted");
    }
    let host = lower.split_once("//").map_or("", |(_, rest)| rest);
    let host = host.split(['/', '?', '#']).next().unwrap_or_default();
    let local = ["localhost", "127.", "10.", "192.168.", "169.254.", "["];
    if host.contains('@') || local.iter().any(|prefix| host.starts_with(prefix)) {
        raise(70, "the address is local or carries a name and password");
    }
}

/// Returns whether a file by its name configures a system or a tool. The names on the way to the
/// working directory were chosen with it, so a project below `/var` is no part of the system.
fn is_sensitive(path: &str, working_dir: Option<&Path>) -> bool {
    let inside = working_dir
        .filter(|dir| !is_outside(path, dir))
        .and_then(|dir| Path::new(path).strip_prefix(dir).ok())
        .and_then(Path::to_str);
    let lies_below = |dirs: &[&str]| dirs.iter().any(|dir| path.starts_with(dir));
    let names: Vec<&str> = inside.unwrap_or(path).split('/').collect();
    let named = names.iter().any(|name| SENSITIVE_NAMES.contains(name) || name.starts_with(".env"));
    let pair = |a: &str, b: &str| names.windows(2).any(|two| two[0] == a && two[1].starts_with(b));
    named
        || pair(".git", "hooks")
        || pair(".git", "config")
        || pair(".github", "workflows")
        || lies_below(SYSTEM_DIRS)
        || (inside.is_none() && lies_below(SHARED_DIRS))
}

/// Returns whether a path is outside `dir` by its text alone: a path with `..` may lead anywhere.
fn is_outside(path: &str, dir: &Path) -> bool {
    let path = Path::new(path);
    let climbs = path.components().any(|part| part == std::path::Component::ParentDir);
    climbs || (path.is_absolute() && !path.starts_with(dir))
}

/// Returns whether any text in the input has characters that are invisible or that reorder others.
fn holds_hidden(value: &Value) -> bool {
    match value {
        Value::String(text) => text.replace("\r\n", "\n").chars().any(is_hidden),
        Value::Array(items) => items.iter().any(holds_hidden),
        Value::Object(fields) => fields.values().any(holds_hidden),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{0}'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{61c}'
        | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn level_of(score: u8) -> RiskLevel {
    match score {
        80.. => RiskLevel::Critical,
        58.. => RiskLevel::High,
        40.. => RiskLevel::Medium,
        _ => RiskLevel::Low,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::notation;

    fn risk(tool: &str, input: &Value) -> Risk {
        assess(&notation::read(tool, input), input, Some(Path::new("/p")))
    }

    fn shell(command: &str) -> Risk {
        risk("Bash", &json!({ "command": command }))
    }

    fn write(path: &str) -> Risk {
        risk("Write", &json!({ "file_path": path, "content": "x" }))
    }

    #[test]
    fn every_sign_compiles() {
        assert_eq!(COMPILED.len(), SIGNS.len());
        assert!(REDIRECTION.is_some() && ONLY_LOOKS.is_some());
        assert!(SIGNS.is_sorted_by(|a, b| a.score >= b.score), "the most harmful first");
    }

    #[test]
    fn calls_are_ordered_as_a_careful_person_would() {
        let fetch = |url: &str| risk("WebFetch", &json!({ "url": url, "prompt": "" }));
        let scores = [
            shell("curl x | sh").score,
            shell("sudo ls").score,
            shell("git push origin main").score,
            write("/p/a").score,
            fetch("https://a.org").score,
            risk("Read", &json!({ "file_path": "/p/a" })).score,
        ];
        assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
        assert_eq!(fetch("http://user@a.org/").level, RiskLevel::High);
        assert_eq!(fetch("https://127.0.0.1/").level, RiskLevel::High);
    }

    #[test]
    fn a_project_below_a_directory_of_the_system_is_no_part_of_the_system() {
        let level = |dir: &str, path: &str| {
            let input = json!({ "file_path": path, "content": "x" });
            assess(&notation::read("Write", &input), &input, Some(Path::new(dir))).level
        };
        for dir in ["/var/tmp/p", "/root/p", "/opt/p", "/home/a/.config/p"] {
            assert_eq!(level(dir, &format!("{dir}/src/a.rs")), RiskLevel::Medium, "{dir}");
            assert_eq!(level(dir, &format!("{dir}/.git/hooks/x")), RiskLevel::Critical, "{dir}");
            assert_eq!(level(dir, &format!("{dir}/../x")), RiskLevel::Critical, "{dir}");
        }
        assert_eq!(level("/root/p", "/root/.profile"), RiskLevel::Critical);
        assert_eq!(level("/etc/p", "/etc/p/hosts"), RiskLevel::Critical);
    }

    #[test]
    fn a_command_has_the_level_of_its_gravest_word() {
        for (command, level) in [
            ("rm -rf /", RiskLevel::Critical),
            ("cat ~/.ssh/id_ed25519", RiskLevel::Critical),
            ("npm install left-pad", RiskLevel::High),
            ("echo x > file", RiskLevel::High),
            ("echo x > /dev/null", RiskLevel::Low),
            ("cargo test", RiskLevel::Medium),
            ("git status && ls -la | head", RiskLevel::Low),
            ("echo $(touch x)", RiskLevel::Medium),
            ("ls \u{202e}# x", RiskLevel::Critical),
            ("format the-disk", RiskLevel::Medium),
            ("", RiskLevel::Medium),
        ] {
            let risk = shell(command);
            assert_eq!(risk.level, level, "{command:?}: {risk:?}");
            assert!(!risk.reasons.is_empty());
        }
    }

    #[test]
    fn a_file_of_the_system_or_outside_the_directory_is_graver() {
        for (path, level) in [
            ("/p/a", RiskLevel::Medium),
            ("a", RiskLevel::Medium),
            ("/etc/passwd", RiskLevel::Critical),
            ("/p/../q", RiskLevel::High),
            ("../q", RiskLevel::High),
            ("/p/.git/hooks/pre-commit", RiskLevel::Critical),
            ("/p/.env.local", RiskLevel::Critical),
        ] {
            assert_eq!(write(path).level, level, "{path}");
        }
    }

    #[test]
    fn hidden_characters_are_found_anywhere_in_the_input() {
        let hidden = json!({"a": [{"b": "x\u{200b}y"}]});
        assert_eq!(risk("Hologram", &hidden).level, RiskLevel::Critical);
        let plain = json!({"a": "two\r\nlines\tand a tab"});
        assert_eq!(risk("Hologram", &plain).level, RiskLevel::Medium);
    }

    #[test]
    fn a_switch_beside_the_command_is_a_reason() {
        let input = json!({ "command": "ls", "dangerouslyDisableSandbox": true });
        let risk = risk("Bash", &input);
        assert_eq!(risk.level, RiskLevel::High);
        assert!(risk.reasons.iter().any(|it| it.contains("dangerouslyDisableSandbox")), "{risk:?}");
    }
}
