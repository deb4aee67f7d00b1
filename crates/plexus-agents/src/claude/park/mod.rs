//! When a process that waits in `can_use_tool` may end, and how the next one asks again.
//!
//! The CLI guards nothing: a second open call, a queued prompt, a background task, a subagent or a
//! shell that changed its directory loses or changes the call silently. The lines of the process
//! and its transcript show each of these beforehand. [`parkable`] checks them, and every doubt is a
//! no.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use plexus_engine::driver::{
    ChildEnv, NotParkable, TranscriptPlace, WaitingCall, WakeMark, WokenCall,
};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::memory::ClaudeMemory;

/// Returns where the transcript of a conversation is. The CLI names its folder after the working
/// directory, and resumes a conversation from any folder.
pub(super) fn transcript(conversation: &str, env: ChildEnv<'_>) -> Option<TranscriptPlace> {
    let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = set("CLAUDE_CONFIG_DIR").or_else(|| Some(set("HOME")?.join(".claude")))?;
    // It becomes part of a path, so only a UUID is accepted.
    let id = Uuid::try_parse(conversation).ok()?;
    Some(TranscriptPlace { root: config.join("projects"), name: format!("{id}.jsonl") })
}

/// Judges whether a process that waits with `call` can be ended without losing it.
pub(super) fn parkable(
    memory: &ClaudeMemory,
    call: &WaitingCall<'_>,
    transcript: &str,
) -> Result<WakeMark, NotParkable> {
    let turn = memory.turn.as_ref().ok_or(NotParkable::Ending)?;
    if memory.background_tasks > 0 {
        return Err(NotParkable::BackgroundTask);
    }
    if turn.task_ended {
        return Err(NotParkable::TaskEnded);
    }
    if !turn.outstanding.is_empty() || (turn.prompt.is_some() && !turn.started) {
        return Err(NotParkable::Queued);
    }
    if turn.result.is_some() {
        return Err(NotParkable::HadResult);
    }
    let rows = rows(transcript)?;
    let held = the_call(&rows, call)?;
    if !held.text("version").is_some_and(asks_again) {
        return Err(NotParkable::Version);
    }
    let mode = mode(&rows)?;
    let last = rows.iter().rev().find_map(|row| row.text("uuid"));
    let mark = Mark {
        parent_uuid: last.ok_or(NotParkable::NotInTranscript)?,
        is_sidechain: false,
        r#type: "attachment",
        uuid: Uuid::new_v4(),
        timestamp: held.text("timestamp"),
        attachment: Deferred {
            r#type: DEFERRED,
            tool_use_id: call.tool_use_id,
            tool_name: call.tool_name,
            tool_input: serde_json::from_str(call.input).map_err(|_| NotParkable::NoTranscript)?,
            hook_name: "settings",
            hook_event: "PreToolUse",
            permission_mode: mode,
        },
        user_type: held.text("userType"),
        entrypoint: held.text("entrypoint"),
        cwd: held.text("cwd"),
        session_id: held.text("sessionId"),
        version: held.text("version"),
        git_branch: held.text("gitBranch"),
    };
    let line = serde_json::to_string(&mark).map_err(|_| NotParkable::NoTranscript)?;
    Ok(WakeMark { line })
}

/// Finds the row of the call. The call must be the main agent's, the only open call of its message,
/// the last thing that was said, and asked in the directory in which the next process starts.
fn the_call<'a>(rows: &'a [Row], call: &WaitingCall<'_>) -> Result<&'a Row, NotParkable> {
    let held = rows.iter().find(|row| row.calls().any(|id| id == call.tool_use_id));
    let held = held.ok_or(NotParkable::NotInTranscript)?;
    let is_main = held.0["isSidechain"] != Value::Bool(true) && held.text("agentId").is_none();
    let message = held.message_id().filter(|_| is_main).ok_or(NotParkable::NotInTranscript)?;
    let answered: BTreeSet<&str> = rows.iter().flat_map(Row::results).collect();
    if answered.contains(call.tool_use_id) {
        return Err(NotParkable::NotLast);
    }
    let of_message = |row: &&Row| row.is("assistant") && row.message_id() == Some(message);
    let calls: BTreeSet<&str> = rows.iter().filter(of_message).flat_map(Row::calls).collect();
    if calls.iter().any(|id| *id != call.tool_use_id && !answered.contains(id)) {
        return Err(NotParkable::OtherCalls);
    }
    // Only results of the message's own calls may follow it.
    let begins = rows.iter().position(|row| of_message(&row)).unwrap_or(0);
    let goes_on = rows[begins..].iter().any(|row| {
        let is_result = || row.results().next().is_some_and(|id| calls.contains(id));
        row.deferred_call().is_some()
            || (row.is("assistant") && !of_message(&row))
            || (row.is("user") && !is_result())
    });
    if goes_on {
        return Err(NotParkable::NotLast);
    }
    if held.text("cwd").map(Path::new) != Some(call.working_dir) {
        return Err(NotParkable::Moved);
    }
    Ok(held)
}

/// Returns the permission mode of the conversation, if a process that resumes it has the same one.
/// From these rows the CLI restores plan mode, and no other mode.
fn mode(rows: &[Row]) -> Result<&str, NotParkable> {
    let (mut mode, mut is_entering) = (DEFAULT_MODE, false);
    for row in rows {
        // A prompt records the mode in which it was given.
        mode = row.text("permissionMode").unwrap_or(mode);
        is_entering |= row.blocks("tool_use").any(|call| call["name"] == "EnterPlanMode");
        match row.0["attachment"]["type"].as_str() {
            Some("plan_mode") => (mode, is_entering) = (PLAN_MODE, false),
            Some("plan_mode_exit") => mode = DEFAULT_MODE,
            _ => {}
        }
    }
    let is_taken_up = !is_entering && [DEFAULT_MODE, PLAN_MODE].contains(&mode);
    is_taken_up.then_some(mode).ok_or(NotParkable::Mode)
}

/// Reads from a transcript whether a woken call is settled.
pub(super) fn woken_call(tool_use_id: &str, transcript: &str) -> WokenCall {
    let mut marks: Vec<(String, String)> = Vec::new();
    let mut unmarked = String::with_capacity(transcript.len());
    for line in transcript.split_inclusive('\n') {
        let Ok(row) = serde_json::from_str(line).map(Row) else {
            // A killed process may leave half a line, which is dropped.
            if line.ends_with('\n') {
                unmarked.push_str(line);
            }
            continue;
        };
        if row.results().any(|id| id == tool_use_id) {
            return WokenCall::Settled;
        }
        if row.deferred_call() == Some(tool_use_id) {
            let ids = row.text("uuid").zip(row.text("parentUuid"));
            marks.extend(ids.map(|(uuid, parent)| (uuid.to_owned(), parent.to_owned())));
            continue;
        }
        // A row that follows the mark gets the mark's parent instead.
        match marks.iter().find(|(uuid, _)| row.text("parentUuid") == Some(uuid)) {
            Some((mark, parent)) => unmarked.push_str(&line.replacen(mark, parent, 1)),
            None => unmarked.push_str(line),
        }
    }
    if marks.is_empty() { WokenCall::Settled } else { WokenCall::Open { unmarked } }
}

/// The oldest version of the CLI that was seen to ask again.
const ASKS_AGAIN_SINCE: [u32; 3] = [2, 1, 185];

/// Whether a version of the CLI asks again about a call that a mark of ours names.
pub(super) fn asks_again(version: &str) -> bool {
    let parts: Result<Vec<u32>, _> = version.split('.').map(str::parse).collect();
    parts.is_ok_and(|parts| parts.len() == 3 && parts.as_slice() >= ASKS_AGAIN_SINCE.as_slice())
}

/// The mode in which an agent starts.
const DEFAULT_MODE: &str = "default";

/// The mode in which it changes nothing until its plan is approved.
const PLAN_MODE: &str = "plan";

/// The kind of attachment that makes the CLI ask about a call when it resumes the conversation.
const DEFERRED: &str = "hook_deferred_tool";

/// Reads every row. A transcript whose last row is torn is refused.
fn rows(transcript: &str) -> Result<Vec<Row>, NotParkable> {
    if !transcript.ends_with('\n') {
        return Err(NotParkable::NoTranscript);
    }
    let rows: Result<Vec<Row>, _> =
        transcript.lines().map(|line| serde_json::from_str(line).map(Row)).collect();
    rows.map_err(|_| NotParkable::NoTranscript)
}

/// A row of a transcript.
struct Row(Value);

impl Row {
    fn text(&self, name: &str) -> Option<&str> {
        self.0[name].as_str()
    }

    fn is(&self, kind: &str) -> bool {
        self.text("type") == Some(kind)
    }

    fn message_id(&self) -> Option<&str> {
        self.0["message"]["id"].as_str()
    }

    fn blocks(&self, kind: &'static str) -> impl Iterator<Item = &Value> {
        let blocks = self.0["message"]["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        blocks.iter().filter(move |block| block["type"] == kind)
    }

    /// The calls that an assistant's row holds.
    fn calls(&self) -> impl Iterator<Item = &str> {
        self.blocks("tool_use").filter(|_| self.is("assistant")).filter_map(|it| it["id"].as_str())
    }

    /// The calls whose results a user's row holds.
    fn results(&self) -> impl Iterator<Item = &str> {
        self.blocks("tool_result")
            .filter(|_| self.is("user"))
            .filter_map(|it| it["tool_use_id"].as_str())
    }

    /// The call that this row makes the CLI ask about.
    fn deferred_call(&self) -> Option<&str> {
        let attachment = &self.0["attachment"];
        (attachment["type"] == DEFERRED).then(|| attachment["toolUseID"].as_str()).flatten()
    }
}

/// The row that makes the CLI ask about a call when it resumes the conversation. The CLI writes the
/// same row when a hook defers a call.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Mark<'a> {
    parent_uuid: &'a str,
    is_sidechain: bool,
    r#type: &'static str,
    uuid: Uuid,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<&'a str>,
    attachment: Deferred<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entrypoint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    git_branch: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Deferred<'a> {
    r#type: &'static str,
    #[serde(rename = "toolUseID")]
    tool_use_id: &'a str,
    tool_name: &'a str,
    tool_input: &'a RawValue,
    hook_name: &'static str,
    hook_event: &'static str,
    permission_mode: &'a str,
}

#[cfg(test)]
mod tests;
