//! `POST /auth/exchange`: exchanges the dashboard's one-time code for a token. It needs no token,
//! and accepts a code only once.
//!
//! Anybody can call it, so its body is small and has a short timeout. A permit is taken only for
//! the exchange itself: a slow sender holds nothing but a connection without a token.

use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use plexus_core::{CallError, SecretToken};
use serde::Deserialize;

use crate::body;
use crate::doors::Doors;
use crate::identity::refuse;
use crate::limits::{MAX_EXCHANGE_BYTES, MAX_EXCHANGES, RETRY_AFTER_MS};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exchange {
    code: String,
}

pub(crate) async fn handle(State(doors): State<Doors>, body: Body) -> Response {
    let body = match body::read_small(&doors.limits, MAX_EXCHANGE_BYTES, body).await {
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
    let Ok(_place) = doors.exchanges.try_acquire() else {
        let error = CallError::busy(
            format_args!("sign in: {MAX_EXCHANGES} others do so in this moment"),
            RETRY_AFTER_MS,
        );
        return refuse(StatusCode::SERVICE_UNAVAILABLE, &error);
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
