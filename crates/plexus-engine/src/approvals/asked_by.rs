//! Which command causes a question about the network, as far as it is known.
//!
//! A connection names no tool call. The kernel says which [process](super::asker) opened it, and
//! the chat's events say which shell commands run at this moment. Where the two do not meet, the
//! text claims no more than is known.

use std::collections::HashMap;
use std::path::Path;

use plexus_core::ApprovalId;
use plexus_store::{ReadLimit, SessionRecord, StoreError};
use plexus_wire::{ChatEvent, ToolTarget};

use super::Approvals;
use super::asker::{Asker, Place};
use crate::session::SessionConfig;

/// How many of the chat's last events are read: a running command is among the last.
const LOOKED_AT: u32 = 200;
/// How many commands are named.
const MOST_COMMANDS: usize = 4;
/// How many characters of a command are shown; the command's own approval shows all of it.
const MAX_COMMAND_CHARS: usize = 300;

impl Approvals {
    /// Says who asks this question of the network of a session, for those who decide it: the process
    /// and its command, or which commands of the open chat run now.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn asked_by(
        &self,
        session: &SessionRecord,
        run_dir: Option<&Path>,
        question: &str,
    ) -> Result<String, StoreError> {
        let asker = run_dir.and_then(|dir| Asker::of(dir, question));
        let Some(number) = session.open_chat() else { return Ok(words(asker.as_ref(), &[])) };
        let chat = self.store.chat(session.id, Some(number)).await?;
        let from = chat.total_events.saturating_sub(LOOKED_AT);
        let limit = ReadLimit::events(LOOKED_AT as usize);
        let page = self.store.read_events(session.id, number, from, limit).await?;
        let config = SessionConfig::of(session)?;
        let mut running = Running::default();
        for event in &page.events {
            running.note(event.body.read()?, |tool_name, input| {
                match self.views.tools.read(&config, tool_name, input).target {
                    ToolTarget::Shell { command, .. } => Some(command),
                    _ => None,
                }
            });
        }
        Ok(words(asker.as_ref(), &running.commands()))
    }
}

/// The shell calls of a chat that have begun and have no result.
#[derive(Default)]
struct Running {
    /// The id of the call, and its command.
    calls: Vec<(String, String)>,
    /// Calls that wait for an answer.
    waiting: HashMap<ApprovalId, String>,
}

impl Running {
    fn note(
        &mut self,
        event: ChatEvent,
        command: impl Fn(&str, &serde_json::Value) -> Option<String>,
    ) {
        match event {
            ChatEvent::ToolUse { tool_use_id, tool_name, input } => {
                let command = command(&tool_name, &input.to_value());
                self.calls.extend(command.map(|command| (tool_use_id, command)));
            }
            ChatEvent::ToolResult { tool_use_id, .. } => {
                self.calls.retain(|(id, _)| *id != tool_use_id);
            }
            ChatEvent::AwaitingApproval { approval_id, tool_use_id, .. } => {
                self.waiting.insert(approval_id, tool_use_id);
            }
            ChatEvent::ApprovalResolved { approval_id, .. } => {
                self.waiting.remove(&approval_id);
            }
            _ => {}
        }
    }

    fn commands(&self) -> Vec<&str> {
        let waits = |id: &String| self.waiting.values().any(|waiting| waiting == id);
        self.calls.iter().filter(|(id, _)| !waits(id)).map(|(_, it)| it.as_str()).collect()
    }
}

fn words(asker: Option<&Asker>, commands: &[&str]) -> String {
    let Some(asker) = asker else { return words_of_events(commands) };
    let program = &asker.program;
    match &asker.place {
        Place::Agent => {
            format!("asked by the agent itself ({program}) and by none of its commands")
        }
        Place::Left => {
            format!("asked by {program}, which the agent or one of its commands left running")
        }
        Place::Below(_) => match asker.command(commands) {
            Some(command) => {
                format!("asked by {program}, started by this command: {}", cut(command))
            }
            None if commands.is_empty() => {
                format!("asked by {program}, started by the agent; no command of it runs now")
            }
            None => format!("asked by {program}; {}", words_of_events(commands)),
        },
    }
}

fn cut(command: &str) -> String {
    let shown: String = command.chars().take(MAX_COMMAND_CHARS).collect();
    if shown.len() < command.len() { format!("{shown}…") } else { shown }
}

fn words_of_events(commands: &[&str]) -> String {
    match commands {
        [] => "which command asks cannot be known: none of the agent's runs now, so it is the \
               agent itself or something that it left running"
            .to_owned(),
        [one] => format!("asked while this command runs: {}", cut(one)),
        several => {
            let named: Vec<_> = several.iter().take(MOST_COMMANDS).map(|it| cut(it)).collect();
            let more = match several.len() - named.len() {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            format!("asked while these commands run, by one of them: {}{more}", named.join("; "))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_runs_from_its_answer_to_its_result() {
        let approval = ApprovalId::generate();
        let call = |id: &str, command: &str| {
            json!({"type": "tool_use", "tool_name": "Bash", "tool_use_id": id,
                "input": {"command": command}})
        };
        let asks = json!({"type": "awaiting_approval", "approval_id": approval,
            "tool_name": "Bash", "tool_use_id": "b", "input": {"command": "two"}});
        let resolved = json!({"type": "approval_resolved", "approval_id": approval,
            "approved": true, "decided_by": "operator"});
        let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "output": "", "is_error": false});
        let cases = [
            (call("a", "one"), "asked while this command runs: one"),
            (call("b", "two"), "asked while these commands run, by one of them: one; two"),
            (asks, "asked while this command runs: one"),
            (resolved, "asked while these commands run, by one of them: one; two"),
            (result("a"), "asked while this command runs: two"),
            (result("b"), "which command asks cannot be known"),
        ];
        let mut running = Running::default();
        for (event, says) in cases {
            let event: ChatEvent = serde_json::from_value(event).unwrap();
            running.note(event, |_, input| input["command"].as_str().map(str::to_owned));
            let words = words(None, &running.commands());
            assert!(words.starts_with(says), "{words}");
        }
        let long = "x".repeat(1_000);
        assert!(words(None, &[&long]).ends_with('…') && words(None, &[&long]).len() < 400);
        let many = vec!["c"; 9];
        assert!(words(None, &many).ends_with("; and 5 more"), "{}", words(None, &many));
    }

    #[test]
    fn a_process_is_named_with_its_command() {
        let by = |place: Place, commands: &[&str]| {
            words(Some(&Asker { program: "curl".into(), place }), commands)
        };
        let below = || Place::Below(vec!["bash -c 'make it'".into(), "curl x".into()]);
        for (place, commands, says) in [
            (Place::Agent, &["make it"][..], "asked by the agent itself (curl)"),
            (Place::Left, &["make it"], "asked by curl, which the agent or one of its commands"),
            (below(), &["ls", "make it"], "asked by curl, started by this command: make it"),
            (below(), &["ls"], "asked by curl; asked while this command runs: ls"),
            (below(), &[], "asked by curl, started by the agent; no command of it runs now"),
        ] {
            let said = by(place, commands);
            assert!(said.starts_with(says), "{said}");
        }
    }
}
