//! The bridge from stdio: a parent that knows nothing of HTTP, and a server that stops and
//! restarts.

use std::sync::Arc;

use plexus_core::SecretToken;
use plexus_transport::{Limits, ToolList, Whereabouts, bridge};
use serde_json::{Value, json};
use testkit::wait::PATIENCE;
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::task::JoinHandle;

use crate::support::{CHILD, HubState, OPERATOR, Server, soon, until};

struct Parent {
    to: Option<WriteHalf<DuplexStream>>,
    from: Lines<BufReader<ReadHalf<DuplexStream>>>,
    bridge: JoinHandle<Result<(), plexus_transport::BridgeError>>,
}

impl Parent {
    fn start(address: std::net::SocketAddr, token: &str) -> Self {
        Self::of(Whereabouts::fixed(format!("http://{address}")), token)
    }

    fn of(server: Whereabouts, token: &str) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (input, output) = tokio::io::split(theirs);
        let (from, to) = tokio::io::split(ours);
        let token = SecretToken::new(token);
        let bridge =
            tokio::spawn(
                async move { bridge(server, token, ToolList::Short, input, output).await },
            );
        Self { to: Some(to), from: BufReader::new(from).lines(), bridge }
    }

    async fn say(&mut self, message: Value) {
        let line = format!("{message}\n");
        self.to.as_mut().unwrap().write_all(line.as_bytes()).await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        let line =
            soon("a line", self.from.next_line()).await.unwrap().expect("a line before the end");
        serde_json::from_str(&line).unwrap()
    }

    async fn hear_answer(&mut self, id: Value) -> Value {
        loop {
            let message = self.hear().await;
            if message["id"] == id {
                return message;
            }
        }
    }

    async fn initialize(&mut self) -> Value {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}});
        self.say(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}))
            .await;
        let answer = self.hear_answer(json!(0)).await;
        self.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer
    }

    async fn call(&mut self, id: u64, tool: &str, arguments: Value) {
        let params = json!({"name": tool, "arguments": arguments});
        self.say(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
            .await;
    }

    async fn leave(mut self) {
        drop(self.to.take());
        // The other side sees the end only when both halves of the pipe are dropped.
        let bridge = self.bridge;
        drop(self.from);
        soon("the end of the bridge", bridge).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_parent_on_stdio_lists_and_calls_tools() {
    let server = Server::start(&Arc::default()).await;
    let mut parent = Parent::start(server.address, OPERATOR);
    parent.say(json!({"jsonrpc": "2.0", "id": 9, "method": "server/discover"})).await;
    assert_eq!(parent.hear().await["error"]["code"], -32601);
    assert_eq!(parent.initialize().await["result"]["instructions"], "Echo first.");
    parent.say(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    let tools = parent.hear_answer(json!(1)).await;
    assert!(
        tools["result"]["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "test_echo")
    );
    parent.call(2, "test_echo", json!({"text": "a\nb"})).await;
    assert_eq!(parent.hear_answer(json!(2)).await["result"]["structuredContent"]["text"], "a\nb");
    for nonsense in ["{", "[]", "7"] {
        parent.to.as_mut().unwrap().write_all(format!("{nonsense}\n").as_bytes()).await.unwrap();
        assert!(parent.hear().await["error"]["code"].is_i64());
    }
    parent.leave().await;
    // A bridge waits only briefly for the end of its session, so one of several is enough.
    let mut parents = 1;
    let began = std::time::Instant::now();
    while server.doors.stats().mcp_sessions == parents {
        assert!(began.elapsed() < PATIENCE, "no session ends with its parent");
        let mut parent = Parent::start(server.address, OPERATOR);
        parent.initialize().await;
        parent.leave().await;
        parents += 1;
    }
}

#[tokio::test]
async fn a_method_that_panics_answers_a_parent_on_stdio() {
    let server = Server::start(&Arc::default()).await;
    let mut parent = Parent::start(server.address, OPERATOR);
    parent.initialize().await;
    parent.call(1, "test_panic", json!({"after_await": true})).await;
    let answer = parent.hear_answer(json!(1)).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    let error: Value = serde_json::from_str(text).unwrap();
    assert_eq!(error["kind"], "internal", "{error}");
    parent.leave().await;
}

#[tokio::test]
async fn a_wrong_token_is_said_to_the_parent() {
    let server = Server::start(&Arc::default()).await;
    let mut parent = Parent::start(server.address, "plx_wrong");
    let answer = parent.initialize().await;
    assert_eq!(answer["error"]["data"]["kind"], "unauthorized", "{answer}");
}

#[tokio::test]
async fn a_restart_of_the_server_is_invisible_to_the_parent() {
    let state = Arc::<HubState>::default();
    let server = Server::lasting(&state).await;
    let mut parent = Parent::start(server.address, OPERATOR);
    parent.initialize().await;
    parent.call(1, "test_echo", json!({"text": "before"})).await;
    parent.hear_answer(json!(1)).await;

    let address = server.kill();
    // The parent asks while no server runs.
    parent.call(2, "test_echo", json!({"text": "meanwhile"})).await;
    let _server = Server::at(&state, Limits::default(), address).await;
    assert_eq!(
        parent.hear_answer(json!(2)).await["result"]["structuredContent"]["text"],
        "meanwhile"
    );
    parent.call(3, "test_echo", json!({"text": "after"})).await;
    assert_eq!(parent.hear_answer(json!(3)).await["result"]["structuredContent"]["text"], "after");
}

#[tokio::test]
async fn a_call_that_may_have_been_done_is_not_made_twice() {
    let state = Arc::<HubState>::default();
    let server = Server::lasting(&state).await;
    let mut parent = Parent::start(server.address, OPERATOR);
    parent.initialize().await;
    parent.call(1, "test_sleep", json!({"ms": 600_000})).await;
    until("the work", || state.working() == 1).await;
    let address = server.kill();
    let _server = Server::at(&state, Limits::default(), address).await;
    let answer = parent.hear_answer(json!(1)).await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("not known"), "{answer}");
}

#[tokio::test]
async fn a_call_is_made_again_with_an_argument_that_makes_it_idempotent() {
    let state = Arc::<HubState>::default();
    let server = Server::lasting(&state).await;
    let mut parent = Parent::start(server.address, OPERATOR);
    parent.initialize().await;
    parent.call(1, "test_sleep", json!({"ms": 600_000, "from": 3})).await;
    until("the work", || state.working() == 1).await;
    let address = server.kill();
    until("its end", || state.working() == 0).await;
    let _server = Server::at(&state, Limits::default(), address).await;
    until("the same work again", || state.working() == 1).await;
}

#[tokio::test]
async fn a_resumable_call_is_picked_up_after_a_restart() {
    let state = Arc::<HubState>::default();
    let server = Server::lasting(&state).await;
    let mut parent = Parent::start(server.address, CHILD);
    parent.initialize().await;
    parent.call(1, "test_ask", json!({"key": "k"})).await;
    until("the question", || state.knows("k") && state.working() == 1).await;
    let address = server.kill();
    let _server = Server::at(&state, Limits::default(), address).await;
    until("the question, joined again", || {
        state.asked.load(std::sync::atomic::Ordering::SeqCst) == 2
    })
    .await;
    state.answer("k", json!({"behavior": "deny", "message": "no"}));
    let answer = parent.hear_answer(json!(1)).await;
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"behavior":"deny","message":"no"}"#);
}

#[tokio::test]
async fn a_cancelled_call_ends_the_work() {
    let state = Arc::<HubState>::default();
    let server = Server::start(&state).await;
    let mut parent = Parent::start(server.address, OPERATOR);
    parent.initialize().await;
    parent.call(5, "test_sleep", json!({"ms": 600_000})).await;
    until("the work", || state.working() == 1).await;
    parent.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})).await;
    until("the end of the work", || state.working() == 0).await;
    parent.leave().await;
}

#[tokio::test]
async fn subscriptions_of_a_parent_survive_a_restart() {
    let state = Arc::<HubState>::default();
    let server = Server::lasting(&state).await;
    let mut parent = Parent::start(server.address, OPERATOR);
    parent.initialize().await;
    parent
        .say(json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "test://questions"}}))
        .await;
    assert_eq!(parent.hear_answer(json!(1)).await["result"], json!({}));
    let address = server.kill();
    until("the end of the old subscription", || state.working() == 0).await;
    let _server = Server::at(&state, Limits::default(), address).await;
    // A change without a listener may have been missed, so the parent is told to read again.
    let told = soon("word of the change", async {
        loop {
            let message = parent.hear().await;
            if message["method"] == "notifications/resources/updated" {
                break message;
            }
        }
    });
    assert_eq!(told.await["params"]["uri"], "test://questions");
    until("the new subscription", || state.working() == 1).await;
}
