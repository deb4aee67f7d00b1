//! A stand-in for both APIs of models: it keeps what it is asked and answers as the test says.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testkit::wait::{PATIENCE, eventually_async};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What is answered to a request.
#[derive(Clone)]
pub(crate) enum Reply {
    /// These texts, one event each, then a whole end.
    Says(&'static [&'static str]),
    /// A text, then the connection ends.
    BreaksAfter(&'static str),
    /// A text, then nothing until the test lets it go on; then this text and a whole end.
    Holds(&'static str, &'static str),
    /// Another status than 200, with these words.
    Refuses(u16, &'static str),
    /// An event that is no JSON.
    Nonsense,
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) head: String,
    pub(crate) body: Value,
}

pub(crate) struct Service {
    pub(crate) url: String,
    state: Arc<State>,
    goes_on: watch::Sender<bool>,
}

struct State {
    reply: Mutex<Reply>,
    asked: Mutex<Vec<Asked>>,
}

impl Service {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State {
            reply: Mutex::new(Reply::Says(&["yes"])),
            asked: Mutex::new(Vec::new()),
        });
        let (goes_on, waits) = watch::channel(false);
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared), waits.clone()));
            }
        });
        Self { url, state, goes_on }
    }

    /// Answers this way from now on.
    pub(crate) fn reply(&self, reply: Reply) {
        *self.state.reply.lock().unwrap() = reply;
    }

    /// Lets a held answer go on.
    pub(crate) fn go_on(&self) {
        self.goes_on.send_replace(true);
    }

    /// Waits for the `number`th request, counted from 1.
    pub(crate) async fn asked(&self, number: usize) -> Asked {
        eventually_async("a request to the model", PATIENCE, || async {
            self.state.asked.lock().unwrap().get(number - 1).cloned()
        })
        .await
    }
}

async fn serve(mut stream: TcpStream, state: Arc<State>, mut goes_on: watch::Receiver<bool>) {
    let Some(asked) = request(&mut stream).await else { return };
    let is_messages = asked.head.starts_with("POST /v1/messages");
    state.asked.lock().unwrap().push(asked);
    let reply = state.reply.lock().unwrap().clone();
    let mut out = String::from(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
    );
    if is_messages {
        out +=
            &event(&json!({"type": "message_start", "message": {"usage": {"input_tokens": 11}}}));
    }
    match reply {
        Reply::Says(texts) => {
            texts.iter().for_each(|text| out += &said(is_messages, text));
            out += &end(is_messages);
        }
        Reply::BreaksAfter(text) => out += &said(is_messages, text),
        Reply::Holds(first, then) => {
            out += &said(is_messages, first);
            if stream.write_all(out.as_bytes()).await.is_err() {
                return;
            }
            if goes_on.wait_for(|goes_on| *goes_on).await.is_err() {
                return;
            }
            out = said(is_messages, then) + &end(is_messages);
        }
        Reply::Refuses(status, words) => {
            let body = json!({"error": {"message": words}}).to_string();
            out = format!(
                "HTTP/1.1 {status} No\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
        }
        Reply::Nonsense => out += "data: {nonsense\n\n",
    }
    drop(stream.write_all(out.as_bytes()).await);
}

/// Reads a request whole.
async fn request(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse::<usize>().ok()
        });
        if body.len() >= length.unwrap_or(0) {
            let body = serde_json::from_str(body).ok()?;
            return Some(Asked { head: head.to_owned(), body });
        }
    }
}

fn event(event: &Value) -> String {
    format!("data: {event}\n\n")
}

fn said(is_messages: bool, text: &str) -> String {
    event(&match is_messages {
        true => {
            json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}})
        }
        false => json!({"choices": [{"delta": {"content": text}}]}),
    })
}

fn end(is_messages: bool) -> String {
    if is_messages {
        let delta = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 7}});
        return event(&delta) + &event(&json!({"type": "message_stop"}));
    }
    let stop = json!({"choices": [{"delta": {}, "finish_reason": "stop"}]});
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7}});
    event(&stop) + &event(&usage) + "data: [DONE]\n\n"
}
