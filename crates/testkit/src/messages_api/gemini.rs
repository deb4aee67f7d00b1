//! The same scripts behind Google's API, for Gemini CLI: a request is read as one of the Messages
//! API, and the answer is written in Google's words.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use serde_json::{Value, json};

use super::request::Recorded;
use super::script::{Failure, Step, ToolUse};
use super::serve::{json_response, response};

/// What is counted for each answer: tokens in, and out.
const TOKENS: (u64, u64) = (100, 20);

/// Reads a request of Google's API as one of the Messages API; `None` for every other request.
pub(super) fn as_messages(request: &Recorded) -> Option<Recorded> {
    let (model, method) = request.path.rsplit_once("/models/")?.1.split_once(':')?;
    if !["streamGenerateContent", "generateContent"].contains(&method) {
        return None;
    }
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let messages: Vec<Value> = list(&request.body["contents"]).iter().map(message).collect();
    let tools = list(&request.body["tools"]);
    let tools = tools.iter().flat_map(|tool| list(&tool["functionDeclarations"]));
    let tools: Vec<Value> = tools.map(|tool| json!({"name": tool["name"]})).collect();
    let stream = method == "streamGenerateContent";
    let body = json!({"model": model, "messages": messages, "tools": tools, "stream": stream});
    Some(Recorded { path: "/v1/messages".to_owned(), body, ..request.clone() })
}

fn message(content: &Value) -> Value {
    let role = if content["role"] == "model" { "assistant" } else { "user" };
    let parts = content["parts"].as_array().into_iter().flatten();
    let blocks: Vec<Value> = parts.filter_map(block).collect();
    json!({"role": role, "content": blocks})
}

fn block(part: &Value) -> Option<Value> {
    if part["thought"] == true {
        return None;
    }
    if let Some(text) = part["text"].as_str() {
        return Some(json!({"type": "text", "text": text}));
    }
    let id = |it: &Value| it["id"].as_str().or(it["name"].as_str()).unwrap_or_default().to_owned();
    if let Some(call) = part.get("functionCall") {
        let name = &call["name"];
        return Some(
            json!({"type": "tool_use", "id": id(call), "name": name, "input": call["args"]}),
        );
    }
    if let Some(result) = part.get("functionResponse") {
        let content = result["response"].to_string();
        return Some(json!({"type": "tool_result", "tool_use_id": id(result), "content": content}));
    }
    let image = part.get("inlineData")?;
    let source = json!({"type": "base64", "media_type": image["mimeType"], "data": image["data"]});
    Some(json!({"type": "image", "source": source}))
}

/// Writes an answer.
pub(super) fn answer(step: &Step, request: &Recorded) -> Response<Body> {
    if let Some(Failure::Status(status)) = step.fail {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let error = json!({"code": status.as_u16(), "message": "the script says so"});
        return json_response(status, &json!({"error": error}));
    }
    let text = step.text.iter().map(|text| json!({"text": text}));
    let turn = request.messages().len();
    let call = |(number, ToolUse(name, input)): (usize, &ToolUse)| {
        let id = format!("call_{turn}_{number}");
        json!({"functionCall": {"id": id, "name": name, "args": input}})
    };
    let parts: Vec<Value> = text.chain(step.tools.iter().enumerate().map(call)).collect();
    let content = json!({"role": "model", "parts": parts});
    let (read, written) = TOKENS;
    let answer = json!({
        "candidates": [{"content": content, "index": 0, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": read, "candidatesTokenCount": written,
            "totalTokenCount": read + written},
        "modelVersion": request.model(),
    });
    match request.body["stream"] == true {
        true => {
            response(StatusCode::OK, "text/event-stream", Body::from(format!("data: {answer}\n\n")))
        }
        false => json_response(StatusCode::OK, &answer),
    }
}
