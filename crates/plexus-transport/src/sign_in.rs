//! `POST /auth/exchange`: the dashboard's one-time code becomes a token. The only call that needs no token, and it takes a code only once.

use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use plexus_core::{CallError, SecretToken};
use serde::Deserialize;

use crate::body;
use crate::doors::Doors;
use crate::identity::refuse;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exchange {
    code: String,
}

pub(crate) async fn handle(State(doors): State<Doors>, body: Body) -> Response {
    let body = match body::read(&doors.limits, body).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let exchange = serde_json::from_slice::<Exchange>(&body).ok();
    let Some(Exchange { code }) = exchange else {
        return refuse(
            StatusCode::BAD_REQUEST,
            &CallError::invalid("read the code").with_hint("send {\"code\": \"…\"}"),
        );
    };
    match doors.auth.exchange(&SecretToken::new(code)).await {
        Ok(token) => {
            let body = serde_json::json!({ "token": token.expose() }).to_string();
            (
                [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")],
                body,
            )
                .into_response()
        }
        Err(error) => refuse(StatusCode::UNAUTHORIZED, &error),
    }
}
