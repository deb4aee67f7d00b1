//! The APIs of models: what is sent to each, and what each of its events means. Pure.

use serde_json::{Value, json};

use super::conversation::{Conversation, Message, Role};
use super::options::Options;

/// One API.
pub(super) trait Provider: Sync {
    /// Where it is.
    fn at(&self) -> At;
    /// The headers that carry the key, and what else it demands.
    fn headers(&self, key: &str) -> Vec<(&'static str, String)>;
    /// The body of a request.
    fn body(&self, options: &Options, messages: &[Message]) -> Value;
    /// Reads an event; one that means nothing to us is `Ok(None)`.
    fn read(&self, data: &str, answer: &mut Answer) -> Result<Option<Piece>, String>;
}

/// Where an API is, and what its variables are called.
pub(super) struct At {
    pub(super) url: &'static str,
    pub(super) url_variable: &'static str,
    pub(super) key_variable: &'static str,
    /// Follows the URL.
    pub(super) path: &'static str,
}

/// A part of an answer.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Piece {
    /// The model says this.
    Text(String),
    /// The model thinks this.
    Thought(String),
    /// The answer is whole.
    End(StopReason),
}

/// Why an answer ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StopReason {
    EndTurn,
    MaxTokens,
    Refusal,
}

impl StopReason {
    /// As the Agent Client Protocol says it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::MaxTokens => "max_tokens",
            Self::Refusal => "refusal",
        }
    }
}

/// What is known of an answer while it comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Answer {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    stop: Option<StopReason>,
}

impl Answer {
    /// Returns the end of the answer; an error when the service gave no reason for it, because such
    /// an answer was cut off.
    fn end(&self) -> Result<Option<Piece>, String> {
        let cut_off = || "the model's service ended its answer without a reason".to_owned();
        self.stop.map(|reason| Some(Piece::End(reason))).ok_or_else(cut_off)
    }
}

/// The messages of a request: what was said, and what is asked now.
pub(super) fn messages(conversation: &Conversation, asked: &str) -> Vec<Message> {
    let mut messages = conversation.messages.clone();
    messages.push(Message { role: Role::User, content: asked.to_owned() });
    messages
}

/// What a service says of its own failure; `None` when it says nothing that we know.
pub(super) fn failure_in(event: &Value) -> Option<String> {
    let error = event.get("error").filter(|error| !error.is_null())?;
    let words = error["message"].as_str().or_else(|| error.as_str()).unwrap_or("an error");
    Some(format!("the model's service reported: {words}"))
}

fn text_at(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Reads an event as JSON, and finds a failure in it.
fn event(data: &str) -> Result<Value, String> {
    let event: Value = serde_json::from_str(data)
        .map_err(|_| "the model's service sent an event that is not JSON".to_owned())?;
    match failure_in(&event) {
        Some(failure) => Err(failure),
        None => Ok(event),
    }
}

/// The Messages API.
pub(super) struct MessagesApi;

pub(super) static MESSAGES: MessagesApi = MessagesApi;

impl Provider for MessagesApi {
    fn at(&self) -> At {
        At {
            url: "https://api.anthropic.com",
            url_variable: "ANTHROPIC_BASE_URL",
            key_variable: "ANTHROPIC_API_KEY",
            path: "/v1/messages",
        }
    }

    fn headers(&self, key: &str) -> Vec<(&'static str, String)> {
        vec![("x-api-key", key.to_owned()), ("anthropic-version", "2023-06-01".to_owned())]
    }

    fn body(&self, options: &Options, messages: &[Message]) -> Value {
        let mut body = json!({
            "model": options.model,
            "max_tokens": options.max_tokens,
            "messages": messages,
            "stream": true,
        });
        if let Some(system) = &options.system_prompt {
            body["system"] = json!(system);
        }
        body
    }

    fn read(&self, data: &str, answer: &mut Answer) -> Result<Option<Piece>, String> {
        let event = event(data)?;
        match event["type"].as_str() {
            Some("message_start") => {
                let usage = &event["message"]["usage"];
                let count = |name: &str| usage[name].as_u64().unwrap_or(0);
                answer.input_tokens = count("input_tokens")
                    + count("cache_creation_input_tokens")
                    + count("cache_read_input_tokens");
                answer.output_tokens = count("output_tokens");
                Ok(None)
            }
            Some("content_block_delta") => {
                let delta = &event["delta"];
                Ok(match delta["type"].as_str() {
                    Some("text_delta") => text_at(&delta["text"]).map(Piece::Text),
                    Some("thinking_delta") => text_at(&delta["thinking"]).map(Piece::Thought),
                    _ => None,
                })
            }
            Some("message_delta") => {
                if let Some(tokens) = event["usage"]["output_tokens"].as_u64() {
                    answer.output_tokens = tokens;
                }
                answer.stop = event["delta"]["stop_reason"].as_str().map(|reason| match reason {
                    "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
                    "refusal" => StopReason::Refusal,
                    _ => StopReason::EndTurn,
                });
                Ok(None)
            }
            Some("message_stop") => answer.end(),
            _ => Ok(None),
        }
    }
}

/// The API of OpenAI's chat completions, which many other services have too.
pub(super) struct ChatCompletions;

pub(super) static CHAT_COMPLETIONS: ChatCompletions = ChatCompletions;

impl Provider for ChatCompletions {
    fn at(&self) -> At {
        At {
            url: "https://api.openai.com/v1",
            url_variable: "OPENAI_BASE_URL",
            key_variable: "OPENAI_API_KEY",
            path: "/chat/completions",
        }
    }

    fn headers(&self, key: &str) -> Vec<(&'static str, String)> {
        vec![("authorization", format!("Bearer {key}"))]
    }

    fn body(&self, options: &Options, messages: &[Message]) -> Value {
        let system = options.system_prompt.iter();
        let system = system.map(|text| json!({ "role": "system", "content": text }));
        let said =
            messages.iter().map(|said| json!({ "role": said.role, "content": said.content }));
        json!({
            "model": options.model,
            "max_completion_tokens": options.max_tokens,
            "messages": system.chain(said).collect::<Vec<_>>(),
            "stream": true,
            "stream_options": { "include_usage": true },
        })
    }

    fn read(&self, data: &str, answer: &mut Answer) -> Result<Option<Piece>, String> {
        if data == "[DONE]" {
            return answer.end();
        }
        let event = event(data)?;
        if let Some(tokens) = event["usage"]["prompt_tokens"].as_u64() {
            answer.input_tokens = tokens;
            answer.output_tokens = event["usage"]["completion_tokens"].as_u64().unwrap_or(0);
        }
        let choice = &event["choices"][0];
        if let Some(reason) = choice["finish_reason"].as_str() {
            answer.stop = Some(match reason {
                "length" => StopReason::MaxTokens,
                "content_filter" => StopReason::Refusal,
                _ => StopReason::EndTurn,
            });
        }
        let delta = &choice["delta"];
        let thought = || text_at(&delta["reasoning_content"]).map(Piece::Thought);
        Ok(text_at(&delta["content"]).map(Piece::Text).or_else(thought))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(provider: &dyn Provider, events: &[&str]) -> (Result<Vec<Piece>, String>, Answer) {
        let mut answer = Answer::default();
        let mut pieces = Vec::new();
        for event in events {
            match provider.read(event, &mut answer) {
                Ok(piece) => pieces.extend(piece),
                Err(why) => return (Err(why), answer),
            }
        }
        (Ok(pieces), answer)
    }

    #[test]
    fn an_answer_of_the_messages_api_is_read() {
        let (pieces, answer) = read(
            &MESSAGES,
            &[
                r#"{"type":"message_start","message":{"usage":{"input_tokens":5,"cache_read_input_tokens":2}}}"#,
                r#"{"type":"ping"}"#,
                r#"{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hm"}}"#,
                r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"yes"}}"#,
                r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":9}}"#,
                r#"{"type":"message_stop"}"#,
            ],
        );
        let expected = vec![
            Piece::Thought("hm".into()),
            Piece::Text("yes".into()),
            Piece::End(StopReason::MaxTokens),
        ];
        assert_eq!(pieces, Ok(expected));
        assert_eq!((answer.input_tokens, answer.output_tokens), (7, 9));
    }

    #[test]
    fn an_answer_of_chat_completions_is_read() {
        let (pieces, answer) = read(
            &CHAT_COMPLETIONS,
            &[
                r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#,
                r#"{"choices":[{"delta":{"content":"yes"}}]}"#,
                r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
                r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":9}}"#,
                "[DONE]",
            ],
        );
        let expected = vec![Piece::Text("yes".into()), Piece::End(StopReason::EndTurn)];
        assert_eq!(pieces, Ok(expected));
        assert_eq!((answer.input_tokens, answer.output_tokens), (7, 9));
    }

    #[test]
    fn an_incomplete_answer_is_a_failure() {
        for (provider, event, expected) in [
            (&MESSAGES as &dyn Provider, r#"{"type":"message_stop"}"#, "without a reason"),
            (&MESSAGES, "nonsense", "not JSON"),
            (&MESSAGES, r#"{"type":"error","error":{"message":"Overloaded"}}"#, "Overloaded"),
            (&CHAT_COMPLETIONS, "[DONE]", "without a reason"),
            (&CHAT_COMPLETIONS, r#"{"error":{"message":"no credit"}}"#, "no credit"),
        ] {
            let why = read(provider, &[event]).0.unwrap_err();
            assert!(why.contains(expected), "{event}: {why}");
        }
    }
}
