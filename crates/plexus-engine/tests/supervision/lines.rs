//! An agent of four words, and its driver.

use std::path::Path;

use agent_lines::journal::LineContent;
use agent_lines::json::RawJson;
use plexus_engine::driver::{
    Ask, Begin, Channel, Driver, Identified, Launch, LaunchError, Memory, OutLine, Plan, Report,
    Say, Stdin, Step, TurnReport, UnusableProgram, VersionAnswer,
};
use plexus_wire::{AgentPowers, ChatEvent, PermitAnswer, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

/// The agent: a JSON object in, some words out.
pub(crate) const AGENT: &str = r#"
while read -r line; do
    case "$line" in
        '{"prompt":"make"}') echo "ask touch made" ;;
        '{"prompt":"breach"}') echo "ran touch made" ;;
        '{"prompt":"insist"}') n=0; while [ $n -le 5000 ]; do echo "wants $n"; n=$((n + 1)); done ;;
        '{"allow"'*) touch made; echo settled; echo "say made it"; echo end ;;
        '{"deny"'*) echo settled; echo "say $line"; echo end ;;
    esac
done
"#;

/// The agent's name of its only question.
const QUESTION: &str = "q1";

/// The driver of [`AGENT`].
pub(crate) struct Lines;

/// What was heard in the turn.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Heard {
    runs: bool,
    is_over: bool,
}

impl Memory for Heard {
    fn begin_turn(&mut self, _prompt: Option<Uuid>) {
        *self = Self { runs: true, is_over: false };
    }

    fn steered(&mut self, _message: Uuid) {}

    fn end_turn(&mut self) {
        *self = Self::default();
    }

    fn report(&self) -> Report {
        let turn = self.runs.then(|| TurnReport {
            heard_of_prompt: true,
            outcome: self.is_over.then_some(Ok(())),
            ..TurnReport::default()
        });
        Report { turn, ..Report::default() }
    }
}

impl Driver for Lines {
    type Memory = Heard;

    fn kind(&self) -> &'static str {
        "lines"
    }

    fn powers(&self) -> AgentPowers {
        AgentPowers { steer: true, ..AgentPowers::default() }
    }

    fn identify(&self, _: &Path, _: VersionAnswer) -> Result<Identified, UnusableProgram> {
        Ok(Identified { label: "lines".to_owned(), channel: Channel::Control, asks_again: false })
    }

    fn begin(&self, _begin: &Begin<'_>) -> Heard {
        Heard::default()
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<Plan, LaunchError> {
        let prompt = launch.prompt.map(|prompt| line(&json!({"prompt": prompt.text})));
        Ok(Plan { stdin: Stdin::Lines(prompt.into_iter().collect()), ..Plan::default() })
    }

    fn tool_call(&self, tool_name: &str, input: &Value) -> ToolCall {
        plexus_rules::notation::read(tool_name, input)
    }

    fn read(&self, memory: &mut Heard, line: &LineContent) -> Vec<Step> {
        let LineContent::Whole(bytes) = line else { return Vec::new() };
        let line = String::from_utf8_lossy(bytes);
        match line.trim_end().split_once(' ').unwrap_or((line.trim_end(), "")) {
            ("ask", command) => {
                let input = RawJson::from_text(json!({ "command": command }).to_string()).unwrap();
                vec![Step::Asked(Box::new(Ask {
                    request_id: QUESTION.to_owned(),
                    tool_name: "Bash".to_owned(),
                    tool_use_id: QUESTION.to_owned(),
                    input,
                    description: None,
                    person_only: None,
                }))]
            }
            ("wants", id) => vec![Step::Refused {
                request_id: Some(id.to_owned()),
                notice: "the agent asked for something that is not served".to_owned(),
                reply: self::line(&json!({"refused": id})),
            }],
            ("settled", _) => vec![Step::Settled { request_id: QUESTION.to_owned() }],
            ("ran", what) => vec![Step::Ran { request_id: None, what: what.to_owned() }],
            ("say", text) => vec![Step::Event(ChatEvent::Content { text: text.to_owned() })],
            ("end", _) => {
                memory.is_over = true;
                vec![Step::TurnEnded]
            }
            _ => Vec::new(),
        }
    }

    fn write(&self, _memory: &Heard, say: &Say<'_>) -> Vec<OutLine> {
        match say {
            Say::Prompt { text, .. } => vec![line(&json!({"prompt": text}))],
            Say::Answer { answer: PermitAnswer::Allow { .. }, .. } => {
                vec![line(&json!({"allow": true}))]
            }
            Say::Answer { answer: PermitAnswer::Deny { message, .. }, .. } => {
                vec![line(&json!({"deny": message}))]
            }
            // It takes no message in any state, as others in some.
            Say::Steer { .. } | Say::Interrupt | Say::WhatIsOpen => Vec::new(),
        }
    }
}

fn line(message: &Value) -> OutLine {
    OutLine::new(message.to_string())
}
