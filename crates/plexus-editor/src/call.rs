//! A tool call as an editor draws it: title, kind, the files it touches, and what it would change.

use std::io::Read as _;
use std::path::Path;

use acp_lines::serve::Called;
use acp_lines::{ToolKind, ToolStatus};
use plexus_client::wire::{FileChange, FileEdit, Json, ToolTarget};
use serde_json::{Value, json};

use crate::blocks::{fenced, text_content};
use plexus_render::sanitize;

/// Characters of a title; what it leaves out is in the content.
const MAX_TITLE_CHARS: usize = 300;

/// The largest input, in bytes, that is sent together with a diff: both hold the same text, and
/// every client limits the length of a line.
const MAX_DIFF_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of a file that is compared with what would replace it.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Files of one call that are named as its places.
const MAX_LOCATIONS: usize = 64;

/// Whether a call can be compared with the files that it is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Files {
    /// They are as the call finds them.
    BeforeTheCall,
    /// The call was long ago: they may have changed since.
    Unknown,
}

/// A call that is to be described.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Described<'a> {
    pub(crate) id: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) input: &'a Json,
    /// What it acts on, where the server says so.
    pub(crate) target: Option<&'a ToolTarget>,
}

/// Describes a call, with its whole input.
pub(crate) fn describe(call: Described<'_>, dir: &Path, files: Files) -> Called {
    let Described { id, tool, input, target } = call;
    let fits = input.as_str().len() <= MAX_DIFF_BYTES;
    let input = input.to_value();
    // An older server says no target of an event; its call is shown by its name and input.
    let target = target.unwrap_or(&ToolTarget::Other {});
    let subject = subject(&input, target);
    let kind = kind_of(&input, target);
    let title = title(tool, kind, &subject);
    let changes: &[FileChange] = match target {
        ToolTarget::Write { changes } if fits => changes,
        _ => &[],
    };
    let mut content: Vec<Value> =
        changes.iter().flat_map(|change| drawn(change, &input, dir, files)).collect();
    if !content.is_empty() {
        content.extend(beside(changes, &input));
    } else if !is_told(&title, &subject, &input) {
        content.push(text_content(&spelled_out(kind, &subject, &input)));
    }
    let locations = locations(target, &input, dir, files);
    Called {
        tool_call_id: id.to_owned(),
        title: Some(title),
        kind: Some(kind),
        status: Some(ToolStatus::Pending),
        content: (!content.is_empty()).then_some(content),
        locations: (!locations.is_empty()).then_some(locations),
        raw_input: Some(input),
        ..Called::default()
    }
}

/// Whether the content of a call is a diff, which stays when the call has ended.
pub(crate) fn shows_diff(call: &Called) -> bool {
    call.content.iter().flatten().any(|content| content["type"] == "diff")
}

/// What kind of thing a call does.
fn kind_of(input: &Value, target: &ToolTarget) -> ToolKind {
    match target {
        ToolTarget::Shell { .. } => ToolKind::Execute,
        ToolTarget::Write { changes } => {
            let is_deletion = |change: &FileChange| matches!(change.edit, FileEdit::Delete {});
            match !changes.is_empty() && changes.iter().all(is_deletion) {
                true => ToolKind::Delete,
                false => ToolKind::Edit,
            }
        }
        ToolTarget::Read { tree: false, .. } => ToolKind::Read,
        ToolTarget::Read { tree: true, .. } => ToolKind::Search,
        ToolTarget::Fetch { .. } | ToolTarget::Connect { .. } => ToolKind::Fetch,
        ToolTarget::Agent {} | ToolTarget::Think {} => ToolKind::Think,
        // The answer to a plan decides whether the agent begins to work.
        ToolTarget::Question {} if input["plan"].is_string() => ToolKind::SwitchMode,
        ToolTarget::Mcp { .. } | ToolTarget::Question {} | ToolTarget::Other {} => ToolKind::Other,
    }
}

/// What a call is about, whole.
fn subject(input: &Value, target: &ToolTarget) -> String {
    let field = |name: &str| input[name].as_str().unwrap_or_default().to_owned();
    match target {
        ToolTarget::Shell { command, .. } => command.clone(),
        ToolTarget::Fetch { url: Some(url) } => url.clone(),
        ToolTarget::Connect { host, port } => format!("{host}:{port}"),
        ToolTarget::Write { changes } => {
            let mut paths: Vec<&str> = changes.iter().map(|change| &*change.path).collect();
            paths.dedup();
            paths.join(", ")
        }
        // A search is about what it looks for, which only its input says.
        ToolTarget::Read { tree: true, .. } if input["pattern"].is_string() => field("pattern"),
        ToolTarget::Fetch { url: None } => field("query"),
        ToolTarget::Agent {} => field("description"),
        ToolTarget::Read { path: Some(path), .. } => path.clone(),
        _ => String::new(),
    }
}

fn title(tool: &str, kind: ToolKind, subject: &str) -> String {
    let words = match (kind, subject) {
        (_, "") => tool.to_owned(),
        (ToolKind::Execute, command) => command.to_owned(),
        (_, subject) => format!("{tool} {subject}"),
    };
    let words = sanitize::one_line(&words);
    match words.char_indices().nth(MAX_TITLE_CHARS) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words.into_owned(),
    }
}

/// Whether the title says everything that the input does.
fn is_told(title: &str, subject: &str, input: &Value) -> bool {
    let says_subject = !subject.is_empty() && title.ends_with(subject);
    let fields = input.as_object().is_some_and(|fields| {
        let is_said = |(name, value): (&String, &Value)| value == subject || name == "description";
        fields.iter().all(is_said)
    });
    says_subject && fields
}

/// The input for a person who decides: the command, then every other field.
fn spelled_out(kind: ToolKind, subject: &str, input: &Value) -> String {
    if let Some(plan) = input["plan"].as_str() {
        return sanitize::text(plan).into_owned();
    }
    if kind != ToolKind::Execute {
        return fenced("json", &format!("{input:#}"));
    }
    let mut rest = input.clone();
    if let Some(fields) = rest.as_object_mut() {
        fields.retain(|_, value| value != subject);
    }
    match rest.as_object().is_some_and(serde_json::Map::is_empty) {
        true => fenced("sh", subject),
        false => format!("{}\n{}", fenced("sh", subject), fenced("json", &format!("{rest:#}"))),
    }
}

/// The fields of an input that its diffs do not show, such as whether every occurrence is replaced.
fn beside(changes: &[FileChange], input: &Value) -> Option<Value> {
    let mut rest = input.as_object()?.clone();
    rest.retain(|name, value| {
        let is_path = changes.iter().any(|change| *value == change.path);
        let mut pointers = changes.iter().flat_map(|change| change.edit.pointers());
        !is_path && !pointers.any(|at| at.split('/').nth(1) == Some(name))
    });
    (!rest.is_empty()).then(|| text_content(&fenced("json", &format!("{:#}", json!(rest)))))
}

/// The files that a call is about, with the line where a change begins.
fn locations(target: &ToolTarget, input: &Value, dir: &Path, files: Files) -> Vec<Value> {
    let place = |path: &str, old: Option<&str>| {
        let path = dir.join(path);
        let line =
            old.filter(|_| files == Files::BeforeTheCall).and_then(|old| line_of(&path, old));
        match line {
            Some(line) => json!({"path": path, "line": line}),
            None => json!({"path": path}),
        }
    };
    let mut places = match target {
        ToolTarget::Write { changes } => {
            let of = |change: &FileChange| match &change.edit {
                FileEdit::Replace { before, .. } => {
                    place(&change.path, input.pointer(before).and_then(Value::as_str))
                }
                _ => place(&change.path, None),
            };
            changes.iter().map(of).collect()
        }
        ToolTarget::Read { path: Some(path), .. } => vec![place(path, None)],
        _ => Vec::new(),
    };
    places.truncate(MAX_LOCATIONS);
    places
}

/// Draws the change of one file. The protocol's diff needs both sides, so other changes are text or
/// nothing.
fn drawn(change: &FileChange, input: &Value, dir: &Path, files: Files) -> Option<Value> {
    let path = dir.join(&change.path);
    let text = |at: &str| input.pointer(at).and_then(Value::as_str);
    match &change.edit {
        FileEdit::Whole { after } => {
            let new = text(after)?;
            let old = match files {
                Files::BeforeTheCall => current(&path).filter(|old| old != new),
                Files::Unknown => None,
            };
            Some(diff(&path, old.as_deref(), new))
        }
        FileEdit::Replace { before, after, .. } => {
            Some(diff(&path, Some(text(before)?), text(after)?))
        }
        FileEdit::Diff { diff: at } => {
            let words = fenced("diff", text(at)?);
            Some(text_content(&format!("{}\n{words}", sanitize::one_line(&change.path))))
        }
        FileEdit::Delete {} => {
            let words = format!("Deletes {}", sanitize::one_line(&change.path));
            Some(text_content(&words))
        }
        FileEdit::Part { .. } | FileEdit::Unknown {} => None,
    }
}

fn diff(path: &Path, old: Option<&str>, new: &str) -> Value {
    json!({"type": "diff", "path": path, "oldText": old, "newText": new})
}

/// Reads what a file holds now; none when it is new, too large or not text.
fn current(path: &Path) -> Option<String> {
    // A pipe or a device that an agent names would hold the door up.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    let mut file = std::fs::File::open(path).ok()?.take(MAX_FILE_BYTES + 1);
    file.read_to_string(&mut text).ok()?;
    (text.len() as u64 <= MAX_FILE_BYTES).then_some(text)
}

/// The line at which a text begins in a file.
fn line_of(path: &Path, text: &str) -> Option<usize> {
    let file = current(path)?;
    let at = file.find(text)?;
    Some(file[..at].matches('\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use plexus_engine::driver::Driver as _;

    use super::*;

    fn described(tool: &str, input: Value, files: Files) -> Value {
        let input = &Json::from(input);
        // The names and inputs of these tests are those of Claude Code.
        let target = plexus_agents::ClaudeCode.tool_call(tool, &input.to_value()).target;
        let call = Described { id: "t", tool, input, target: Some(&target) };
        serde_json::to_value(describe(call, Path::new("/work"), files)).unwrap()
    }

    #[test]
    fn each_tool_is_drawn_as_editors_draw_it() {
        for (tool, input, title, kind, location) in [
            ("Bash", json!({"command": "ls -l"}), "ls -l", "execute", json!(null)),
            ("Read", json!({"file_path": "a.rs"}), "Read a.rs", "read", json!("/work/a.rs")),
            ("Edit", json!({"file_path": "/b"}), "Edit /b", "edit", json!("/b")),
            ("WebFetch", json!({"url": "http://x/"}), "WebFetch http://x/", "fetch", json!(null)),
            ("mcp__a__b", json!({"c": 1}), "mcp__a__b", "other", json!(null)),
        ] {
            let call = described(tool, input.clone(), Files::BeforeTheCall);
            assert_eq!((&call["title"], &call["kind"]), (&json!(title), &json!(kind)));
            assert_eq!((&call["rawInput"], &call["locations"][0]["path"]), (&input, &location));
        }
    }

    #[test]
    fn a_write_and_an_edit_are_diffs_with_their_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "one\ntwo\nthree\n").unwrap();
        let write = json!({"file_path": path, "content": "new\n"});
        let edit = json!({"file_path": path, "old_string": "three", "new_string": "3"});
        for (tool, input, files, old, new, line) in [
            (
                "Write",
                &write,
                Files::BeforeTheCall,
                json!("one\ntwo\nthree\n"),
                "new\n",
                json!(null),
            ),
            ("Write", &write, Files::Unknown, json!(null), "new\n", json!(null)),
            ("Edit", &edit, Files::BeforeTheCall, json!("three"), "3", json!(3)),
            ("Edit", &edit, Files::Unknown, json!("three"), "3", json!(null)),
        ] {
            let call = described(tool, input.clone(), files);
            let diff = &call["content"][0];
            assert_eq!((&diff["oldText"], &diff["newText"]), (&old, &json!(new)), "{tool}");
            assert_eq!(call["locations"][0]["line"], line, "{tool} {files:?}");
        }
        let made =
            described("Write", json!({"file_path": "no", "content": "x"}), Files::BeforeTheCall);
        assert_eq!(made["content"][0]["oldText"], json!(null), "a new file");
    }

    #[test]
    fn nothing_that_would_run_is_left_out_of_what_is_shown() {
        let long = "x".repeat(1_000);
        for (input, shown) in [
            (json!({"command": "ls\nrm -r /"}), "rm -r /"),
            (json!({"command": long.clone()}), long.as_str()),
            (json!({"command": "ls", "run_in_background": true}), "run_in_background"),
            (json!({"command": "a```\nb"}), "a```"),
        ] {
            let call = described("Bash", input, Files::BeforeTheCall);
            let text = call["content"][0]["content"]["text"].as_str().unwrap();
            assert!(text.contains(shown), "{text}");
        }
        let plain = described("Bash", json!({"command": "ls"}), Files::BeforeTheCall);
        assert_eq!(plain["content"], json!(null), "the title says it all");
    }

    #[test]
    fn the_call_of_any_agent_is_drawn_by_what_it_acts_on() {
        let input = json!({"changes": {"a.rs": {"unified_diff": "-a\n+b"}}, "reason": "r"});
        let target = json!({"kind": "write", "changes": [
            {"path": "a.rs", "edit": "diff", "diff": "/changes/a.rs/unified_diff"},
            {"path": "b.rs", "edit": "delete"}]});
        let target: ToolTarget = serde_json::from_value(target).unwrap();
        let input = &Json::from(input);
        let call = Described { id: "t", tool: "apply_patch", input, target: Some(&target) };
        let call = describe(call, Path::new("/work"), Files::BeforeTheCall);
        let call = serde_json::to_value(call).unwrap();
        assert_eq!(
            (&call["title"], &call["kind"]),
            (&json!("apply_patch a.rs, b.rs"), &json!("edit"))
        );
        assert_eq!(call["content"][0]["content"]["text"], "a.rs\n```diff\n-a\n+b\n```");
        assert_eq!(call["content"][1]["content"]["text"], "Deletes b.rs");
        assert_eq!(
            call["content"][2]["content"]["text"],
            "```json\n{\n  \"reason\": \"r\"\n}\n```"
        );
        assert_eq!(call["locations"][1]["path"], "/work/b.rs");
    }

    #[test]
    fn a_title_holds_no_control_characters() {
        let call = described("Bash", json!({"command": "a\u{1b}[2Jb\rc"}), Files::BeforeTheCall);
        assert!(call["title"].as_str().unwrap().chars().all(|c| !c.is_control()), "{call}");
    }

    #[test]
    fn a_huge_write_is_shown_once_and_a_special_file_is_not_read() {
        let input = json!({"file_path": "f", "content": "x".repeat(MAX_DIFF_BYTES)});
        let call = described("Write", input, Files::BeforeTheCall);
        assert_ne!(call["content"][0]["type"], "diff");
        let input = json!({"file_path": "/dev/zero", "content": "x"});
        let call = described("Write", input, Files::BeforeTheCall);
        assert_eq!(call["content"][0]["oldText"], json!(null));
    }
}
