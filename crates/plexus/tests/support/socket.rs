//! Calls over a WebSocket, which streaming methods need.

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use testkit::server::TestServer;
use testkit::wait::{PATIENCE, within};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

/// Calls a method as the operator and returns the first message that comes back: an item of a
/// stream, a result, or an error.
pub(crate) async fn first_message(server: &TestServer, method: &str, params: Value) -> Value {
    let url = format!("{}/rpc", server.url().unwrap().replacen("http", "ws", 1));
    let mut request = url.into_client_request().unwrap();
    let token = format!("Bearer {}", server.token().unwrap());
    request.headers_mut().insert("authorization", token.parse().unwrap());
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    socket.send(Message::text(call.to_string())).await.unwrap();
    let heard = within("a message over the socket", PATIENCE, socket.next()).await;
    serde_json::from_str(heard.unwrap().unwrap().to_text().unwrap()).unwrap()
}
