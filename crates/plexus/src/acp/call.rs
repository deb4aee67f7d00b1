//! A tool call as an editor draws it: title, kind, the files it touches, and what it would change.

use std::io::Read as _;
use std::path::Path;

use acp_lines::serve::Called;
use acp_lines::{ToolKind, ToolStatus};
use plexus_client::wire::Json;
use serde_json::{Value, json};

use super::blocks::{fenced, text_content};
use crate::cli::sanitize;

/// Characters of a title; what it leaves out is in the content.
const MAX_TITLE_CHARS: usize = 300;

/// Bytes of an input beside which a diff is shown: both hold the same text, and a line has a limit
/// in every client.
const MAX_DIFF_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of a file that is compared with what would replace it.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Whether a call can be compared with the files that it is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Files {
    /// They are as the call finds them.
    BeforeTheCall,
    /// The call was long ago: they may have changed since.
    Unknown,
}

/// Describes a call, with its whole input.
pub(super) fn describe(id: &str, tool: &str, input: &Json, dir: &Path, files: Files) -> Called {
    let fits = input.as_str().len() <= MAX_DIFF_BYTES;
    let input = input.to_value();
    let kind = kind_of(tool);
    let whole = subject(tool, &input);
    let title = title(tool, kind, &whole);
    let path = path_of(&input).map(|path| dir.join(path));
    let mut content = match &path {
        Some(path) if fits => diffs(tool, &input, path, files),
        Some(_) | None => Vec::new(),
    };
    let mut line = None;
    if let (Some(path), Some(old), Files::BeforeTheCall) =
        (&path, input["old_string"].as_str(), files)
    {
        line = line_of(path, old);
    }
    if content.is_empty() && (title.contains('…') || !is_told_by_title(tool, &input)) {
        content.push(text_content(&spelled_out(kind, &whole, &input)));
    }
    let locations = path.map(|path| match line {
        Some(line) => json!({"path": path, "line": line}),
        None => json!({"path": path}),
    });
    Called {
        tool_call_id: id.to_owned(),
        title: Some(title),
        kind: Some(kind),
        status: Some(ToolStatus::Pending),
        content: (!content.is_empty()).then_some(content),
        locations: locations.map(|location| vec![location]),
        raw_input: Some(input),
        ..Called::default()
    }
}

/// Whether the content of a call is a diff, which stays when the call has ended.
pub(super) fn shows_diff(call: &Called) -> bool {
    call.content.iter().flatten().any(|content| content["type"] == "diff")
}

/// What kind of thing a tool does.
pub(super) fn kind_of(tool: &str) -> ToolKind {
    match tool {
        "Bash" | "BashOutput" | "KillShell" => ToolKind::Execute,
        "Read" | "NotebookRead" => ToolKind::Read,
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => ToolKind::Edit,
        "Glob" | "Grep" | "LS" => ToolKind::Search,
        "WebFetch" | "WebSearch" => ToolKind::Fetch,
        "Task" | "Agent" | "TodoWrite" => ToolKind::Think,
        "EnterPlanMode" | "ExitPlanMode" => ToolKind::SwitchMode,
        _ => ToolKind::Other,
    }
}

/// What a call is about, whole.
fn subject(tool: &str, input: &Value) -> String {
    let field = match tool {
        "Bash" => "command",
        "Read" | "Write" | "Edit" | "MultiEdit" => "file_path",
        "NotebookEdit" | "NotebookRead" => "notebook_path",
        "Glob" | "Grep" => "pattern",
        "WebFetch" => "url",
        "WebSearch" => "query",
        "Task" | "Agent" => "description",
        _ => return String::new(),
    };
    input[field].as_str().unwrap_or_default().to_owned()
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
fn is_told_by_title(tool: &str, input: &Value) -> bool {
    let told: &[&str] = match tool {
        "Bash" => &["command", "description"],
        "Read" => &["file_path"],
        "Glob" | "Grep" => &["pattern"],
        "WebSearch" => &["query"],
        "WebFetch" => &["url"],
        _ => &[],
    };
    let is_one_line = told.first().is_none_or(|field| {
        input[*field].as_str().is_some_and(|text| sanitize::one_line(text) == text)
    });
    let fields = input
        .as_object()
        .is_some_and(|fields| fields.keys().all(|field| told.contains(&field.as_str())));
    is_one_line && fields
}

/// The input for a person who decides: the command, then every other field.
fn spelled_out(kind: ToolKind, subject: &str, input: &Value) -> String {
    if let Some(plan) = input["plan"].as_str() {
        return sanitize::text(plan).into_owned();
    }
    if kind != ToolKind::Execute || subject.is_empty() {
        return fenced("json", &format!("{input:#}"));
    }
    let mut rest = input.clone();
    let rest = rest.as_object_mut().map(|fields| {
        fields.remove("command");
        fields
    });
    match rest.filter(|rest| !rest.is_empty()) {
        Some(rest) => {
            let rest = format!("{:#}", json!(rest));
            format!("{}\n{}", fenced("sh", subject), fenced("json", &rest))
        }
        None => fenced("sh", subject),
    }
}

fn path_of(input: &Value) -> Option<&str> {
    ["file_path", "notebook_path"].iter().find_map(|field| input[*field].as_str())
}

/// What a call would change.
fn diffs(tool: &str, input: &Value, path: &Path, files: Files) -> Vec<Value> {
    let diff = |old: Option<&str>, new: &str| json!({"type": "diff", "path": path, "oldText": old, "newText": new});
    let change = |edit: &Value| match (edit["old_string"].as_str(), edit["new_string"].as_str()) {
        (Some(old), Some(new)) => Some(diff(Some(old), new)),
        _ => None,
    };
    match tool {
        "Write" => {
            let Some(new) = input["content"].as_str() else { return Vec::new() };
            let old = match files {
                Files::BeforeTheCall => current(path).filter(|old| old != new),
                Files::Unknown => None,
            };
            vec![diff(old.as_deref(), new)]
        }
        "Edit" => change(input).into_iter().collect(),
        "MultiEdit" => {
            let edits = input["edits"].as_array().map(Vec::as_slice).unwrap_or_default();
            edits.iter().filter_map(change).collect()
        }
        _ => Vec::new(),
    }
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
    use super::*;

    fn described(tool: &str, input: Value, files: Files) -> Value {
        let call = describe("t", tool, &Json::from(input), Path::new("/work"), files);
        serde_json::to_value(call).unwrap()
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
