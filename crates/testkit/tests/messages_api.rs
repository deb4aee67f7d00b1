//! The stand-in for the Messages API, as its client sees it.

#![expect(clippy::unwrap_used, reason = "a failed test is allowed to stop loudly")]

use serde_json::{Value, json};
use testkit::messages_api::{Failure, MessagesApi, Step, prompt};

/// Returns a request like those of the main conversation, which offer a tool.
fn body(text: &str, stream: bool) -> Value {
    json!({"model": "m", "stream": stream, "tools": [{"name": "Bash"}], "messages": [{"role": "user", "content": text}]})
}

async fn ask(api: &MessagesApi, body: &Value) -> reqwest::Response {
    let url = format!("{}/v1/messages?beta=true", api.base_url());
    reqwest::Client::new().post(url).json(body).send().await.unwrap()
}

/// Returns the name and the data of each event.
fn events(text: &str) -> Vec<(&str, Value)> {
    let blocks = text.split_terminator("\n\n");
    blocks
        .map(|block| {
            let (name, data) = block.split_once('\n').unwrap();
            let data = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            (name.strip_prefix("event: ").unwrap(), data)
        })
        .collect()
}

#[tokio::test]
async fn a_step_is_streamed_block_by_block() {
    let api = MessagesApi::start().await.unwrap();
    let step = Step::text("I will.").thinking("hm").and_bash("ls").and_bash("pwd");
    let text = ask(&api, &body(&prompt(&[step]), true)).await.text().await.unwrap();
    let events = events(&text);
    let starts: Vec<_> = events
        .iter()
        .filter(|(name, _)| *name == "content_block_start")
        .map(|(_, data)| data["content_block"]["type"].as_str().unwrap())
        .collect();
    assert_eq!(starts, ["thinking", "text", "tool_use", "tool_use"]);
    assert_eq!(events.first().unwrap().0, "message_start");
    assert_eq!(events[events.len() - 2].1["delta"]["stop_reason"], "tool_use");
    assert_eq!(events.last().unwrap().0, "message_stop");
}

#[tokio::test]
async fn the_plain_form_holds_the_same_content() {
    let api = MessagesApi::start().await.unwrap();
    let answer: Value =
        ask(&api, &body(&prompt(&[Step::text("hello")]), false)).await.json().await.unwrap();
    assert_eq!(answer["content"], json!([{"type": "text", "text": "hello"}]));
    assert_eq!(answer["stop_reason"], "end_turn");
}

#[tokio::test]
async fn errors_have_their_status_and_kind() {
    let api = MessagesApi::start().await.unwrap();
    for (status, kind) in [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (529, "overloaded_error"),
    ] {
        let script = prompt(&[Step::default().failing(Failure::Status(status))]);
        let response = ask(&api, &body(&script, true)).await;
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(response.json::<Value>().await.unwrap()["error"]["type"], kind);
    }
}

#[tokio::test]
async fn a_step_that_fails_twice_then_plays() {
    let api = MessagesApi::start().await.unwrap();
    let script = prompt(&[Step::text("at last").failing_first(Failure::Status(500), 2)]);
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(ask(&api, &body(&script, true)).await.status().as_u16());
    }
    assert_eq!(statuses, [500, 500, 200]);
}

#[tokio::test]
async fn a_cut_stream_breaks_in_the_middle() {
    let api = MessagesApi::start().await.unwrap();
    let script = prompt(&[Step::text("a long sentence").slowly(2, 0).failing(Failure::Cut)]);
    let response = ask(&api, &body(&script, true)).await;
    assert!(response.status().is_success());
    assert!(response.text().await.is_err(), "the body must not end as if it were whole");
}

#[tokio::test]
async fn the_responder_comes_before_the_queue_and_the_queue_before_the_script() {
    let api = MessagesApi::start().await.unwrap();
    api.respond_with(|request| {
        (request.last_user_text() == "special").then(|| Step::text("from the responder"))
    });
    api.enqueue(Step::text("from the queue"));
    let script = prompt(&[Step::text("from the script")]);
    let mut said = Vec::new();
    for text in ["special", script.as_str(), script.as_str(), "plain"] {
        let answer: Value = ask(&api, &body(text, false)).await.json().await.unwrap();
        said.push(answer["content"][0]["text"].as_str().unwrap().to_owned());
    }
    assert_eq!(
        said,
        ["from the responder", "from the queue", "from the script", "You said: plain"]
    );
}

#[tokio::test]
async fn a_side_request_uses_up_no_step_and_is_no_main_request() {
    let api = MessagesApi::start().await.unwrap();
    api.enqueue(Step::text("for the conversation"));
    let side =
        json!({"model": "small", "messages": [{"role": "user", "content": "write a title"}]});
    let answer: Value = ask(&api, &side).await.json().await.unwrap();
    assert_eq!(answer["content"][0]["text"], "side answer");
    let answer: Value = ask(&api, &body("x", false)).await.json().await.unwrap();
    assert_eq!(answer["content"][0]["text"], "for the conversation");
    assert_eq!((api.requests().len(), api.main_requests().len()), (2, 1));
}

#[tokio::test]
async fn results_of_tools_are_recorded_once() {
    let api = MessagesApi::start().await.unwrap();
    let result = json!({"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "out"}]});
    let mut request = body("x", false);
    request["messages"].as_array_mut().unwrap().push(json!({"role": "user", "content": [result]}));
    ask(&api, &request).await;
    ask(&api, &request).await;
    let results = api.tool_results();
    assert_eq!(results.len(), 1);
    assert_eq!(
        (results[0].tool_use_id.as_str(), results[0].text.as_str(), results[0].is_error),
        ("t1", "out", false)
    );
}
