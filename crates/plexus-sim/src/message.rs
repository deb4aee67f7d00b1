//! One message of the simulated model: its blocks as `assistant` lines, and its deltas where
//! partial messages are on.

use serde_json::json;
use uuid::Uuid;

use crate::sim::Sim;
use crate::wire::{
    ApiEvent, Assistant, AssistantMessage, Block, Delta, MessageUsage, PromptedBy, StartedMessage,
    StopDelta, StreamEvent, line_id, now,
};

/// A text or an input arrives in at most this many deltas; more would only repeat the same thing.
const MAX_DELTAS: usize = 4;
const SIGNATURE: &str = "c2ltdWxhdGVk";

/// A text that is being spoken word by word.
#[derive(Debug)]
pub(crate) struct Speech {
    message: Message,
    index: usize,
    text: String,
}

/// A message that has begun.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    id: String,
    request_id: String,
    blocks: usize,
}

impl Message {
    /// Begins a message: from here on the model is billed for it.
    pub(crate) fn begin(sim: &Sim) -> Self {
        let message = Self { id: made_up("msg_sim"), request_id: made_up("req_sim"), blocks: 0 };
        let model = sim.model.borrow();
        sim.turn.borrow_mut().bill.add(&model);
        sim.bill.borrow_mut().add(&model);
        if sim.options.partial_messages {
            let prompts = sim.turn.borrow().prompts.clone();
            let mut status = json!({"status": "requesting"});
            if !prompts.is_empty() {
                status["user_message_uuids"] = json!(prompts);
            }
            sim.emit_system("status", status);
            sim.emit_echo();
            let started = StartedMessage {
                id: &message.id,
                r#type: "message",
                role: "assistant",
                model: &model,
                content: [],
                stop_reason: None,
                stop_sequence: None,
                usage: MessageUsage::AT_START,
            };
            message.emit_event(
                sim,
                ApiEvent::MessageStart { message: started },
                Some("updates"),
                Some(1),
            );
        }
        message
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Adds one block. The whole `assistant` line comes before the block's end, as the CLI does it.
    pub(crate) fn add(&mut self, sim: &Sim, block: &Block) {
        sim.emit_echo();
        let index = self.blocks;
        self.blocks += 1;
        let display = matches!(block, Block::Thinking { .. }).then_some("updates");
        if sim.options.partial_messages {
            let content_block = match block {
                Block::Text { .. } => json!({"type": "text", "text": ""}),
                Block::Thinking { .. } => {
                    json!({"type": "thinking", "thinking": "", "signature": ""})
                }
                Block::ToolUse { id, name, .. } => {
                    json!({"type": "tool_use", "id": id, "name": name, "input": {}})
                }
            };
            self.emit_event(
                sim,
                ApiEvent::ContentBlockStart { index, content_block },
                display,
                None,
            );
        }
        self.add_deltas(sim, index, block);
        self.emit_block(sim, block, false);
        if sim.options.partial_messages {
            self.emit_event(sim, ApiEvent::ContentBlockStop { index }, None, None);
        }
    }

    /// Begins a text that is spoken word by word.
    pub(crate) fn begin_speech(&mut self, sim: &Sim) {
        let index = self.blocks;
        self.blocks += 1;
        if sim.options.partial_messages {
            let content_block = json!({"type": "text", "text": ""});
            self.emit_event(sim, ApiEvent::ContentBlockStart { index, content_block }, None, None);
        }
        sim.turn.borrow_mut().speech =
            Some(Speech { message: self.clone(), index, text: String::new() });
    }

    /// Speaks one more word.
    pub(crate) fn speak(&self, sim: &Sim, word: &str) {
        if sim.options.partial_messages {
            let delta = Delta::Text { text: word };
            self.emit_event(
                sim,
                ApiEvent::ContentBlockDelta { index: self.blocks - 1, delta },
                None,
                None,
            );
        }
        if let Some(speech) = &mut sim.turn.borrow_mut().speech {
            speech.text.push_str(word);
        }
    }

    /// Ends the text with its whole line.
    pub(crate) fn end_speech(&self, sim: &Sim) {
        let speech = sim.turn.borrow_mut().speech.take();
        if let Some(Speech { index, text, .. }) = speech {
            self.emit_block(sim, &Block::Text { text }, false);
            if sim.options.partial_messages {
                self.emit_event(sim, ApiEvent::ContentBlockStop { index }, None, None);
            }
        }
    }

    fn emit_block(&self, sim: &Sim, block: &Block, aborted: bool) {
        // Without partial messages the prompt is written back with the first whole block, not
        // before.
        sim.emit_echo();
        let display = matches!(block, Block::Thinking { .. }).then_some("updates");
        let prompted_by = prompted_by(sim);
        let uuid = line_id();
        sim.turn.borrow_mut().last_message = Some(uuid.to_string());
        sim.emit(&Assistant {
            r#type: "assistant",
            message: AssistantMessage {
                id: &self.id,
                r#type: "message",
                role: "assistant",
                model: &sim.model.borrow(),
                content: [block],
                stop_reason: None,
                stop_sequence: None,
                usage: MessageUsage::AT_START,
                context_management: None,
            },
            parent_tool_use_id: None,
            session_id: &sim.session_id,
            uuid,
            timestamp: now(),
            request_id: &self.request_id,
            aborted,
            thinking_duration_ms: display.map(|_| 1),
            thinking_display: display,
            prompted_by,
        });
    }

    /// Ends the message.
    pub(crate) fn end(self, sim: &Sim, stop_reason: Option<&'static str>) {
        if sim.options.partial_messages {
            let delta = StopDelta { stop_reason, stop_sequence: None };
            self.emit_event(
                sim,
                ApiEvent::MessageDelta { delta, usage: MessageUsage::AT_START },
                None,
                None,
            );
            self.emit_event(sim, ApiEvent::MessageStop, None, None);
        }
    }

    fn add_deltas(&self, sim: &Sim, index: usize, block: &Block) {
        let partial = sim.options.partial_messages;
        let emit = |delta, display| {
            self.emit_event(sim, ApiEvent::ContentBlockDelta { index, delta }, display, None)
        };
        match block {
            Block::Text { text } if partial => {
                pieces(text).for_each(|text| emit(Delta::Text { text }, None));
            }
            Block::ToolUse { input, .. } if partial => {
                pieces(input.get())
                    .for_each(|partial_json| emit(Delta::InputJson { partial_json }, None));
            }
            Block::Text { .. } | Block::ToolUse { .. } => {}
            Block::Thinking { thinking, signature } => {
                // The count of thought tokens is told with and without partial messages.
                for (n, thinking) in pieces(thinking).enumerate() {
                    let mut tokens =
                        json!({"estimated_tokens": n + 1, "estimated_tokens_delta": 1});
                    if let Some(prompt) = sim.turn.borrow().prompts.first() {
                        tokens["user_message_uuid"] = json!(prompt);
                    }
                    sim.emit_system("thinking_tokens", tokens);
                    if partial {
                        emit(Delta::Thinking { thinking }, Some("updates"));
                    }
                }
                if partial {
                    emit(Delta::Signature { signature }, None);
                }
            }
        }
    }

    fn emit_event(
        &self,
        sim: &Sim,
        event: ApiEvent<'_>,
        thinking_display: Option<&'static str>,
        ttft_ms: Option<u64>,
    ) {
        let prompted_by = match event {
            ApiEvent::MessageStart { .. } if sim.turn.borrow().unnamed => {
                PromptedBy::new(&sim.turn.borrow().prompts)
            }
            _ => PromptedBy::default(),
        };
        sim.emit(&StreamEvent {
            r#type: "stream_event",
            event,
            session_id: &sim.session_id,
            parent_tool_use_id: None,
            uuid: line_id(),
            ttft_ms,
            thinking_display,
            api_message_id: &self.id,
            prompted_by,
        });
    }
}

impl Speech {
    /// Writes what was said before somebody interrupted.
    pub(crate) fn abort(&self, sim: &Sim) {
        self.message.emit_block(sim, &Block::Text { text: self.text.clone() }, true);
    }

    /// Closes the message that was interrupted.
    pub(crate) fn close(self, sim: &Sim) {
        if sim.options.partial_messages {
            self.message.emit_event(
                sim,
                ApiEvent::ContentBlockStop { index: self.index },
                None,
                None,
            );
            self.message.end(sim, None);
        }
    }
}

/// Names the prompts of the turn on its first line, and on that one only.
pub(crate) fn prompted_by(sim: &Sim) -> PromptedBy {
    let mut turn = sim.turn.borrow_mut();
    if std::mem::take(&mut turn.unnamed) {
        PromptedBy::new(&turn.prompts)
    } else {
        PromptedBy::default()
    }
}

/// A thought of the model.
pub(crate) fn thinking(text: String) -> Block {
    Block::Thinking { thinking: text, signature: SIGNATURE }
}

/// An id that looks like the vendor's and says whose it is.
pub(crate) fn made_up(prefix: &str) -> String {
    format!("{prefix}_{}", Uuid::new_v4().simple())
}

/// Cuts a text into at most [`MAX_DELTAS`] pieces of about the same length.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let length = text.len().div_ceil(MAX_DELTAS).max(1);
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, tail) = rest.split_at(rest.ceil_char_boundary(length));
        rest = tail;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::pieces;

    #[test]
    fn the_pieces_of_a_text_make_up_the_text() {
        for text in ["", "a", "let me think", "ääääääääääää", "日本語のテキスト"]
        {
            let cut: Vec<&str> = pieces(text).collect();
            assert_eq!(cut.concat(), text);
            assert!(cut.len() <= super::MAX_DELTAS, "{cut:?}");
        }
    }
}
