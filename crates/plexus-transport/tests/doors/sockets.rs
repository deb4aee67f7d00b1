//! A WebSocket client at `/rpc`.

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::support::{Server, soon};

pub(crate) type Socket = WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>;

pub(crate) async fn connect(server: &Server, token: &str) -> Result<Socket, Error> {
    let mut request = format!("ws://{}/rpc", server.address).into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    tokio_tungstenite::connect_async(request).await.map(|(socket, _)| socket)
}

pub(crate) async fn socket(server: &Server, token: &str) -> Socket {
    connect(server, token).await.unwrap()
}

pub(crate) async fn send(socket: &mut Socket, id: u64, method: &str, params: Value) {
    let call = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
    socket.send(Message::text(call)).await.unwrap();
}

pub(crate) async fn next_message(socket: &mut Socket) -> Message {
    soon("a message", socket.next()).await.unwrap().unwrap()
}

pub(crate) async fn receive(socket: &mut Socket) -> Value {
    serde_json::from_str(next_message(socket).await.to_text().unwrap()).unwrap()
}
