//! `POST /auth/exchange`: exchanges the one-time code of a dashboard or a device for a token. It
//! needs no token, and accepts a code only once.
//!
//! Anybody can call it, so its body is small and has a short timeout. A permit is taken only for
//! the exchange itself: a slow sender holds nothing but a connection without a token.

use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use plexus_core::{CallError, ErrorKind, SecretToken, SignedIn};
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
            format_args!("sign in: {MAX_EXCHANGES} others are signing in right now"),
            RETRY_AFTER_MS,
        );
        return refuse(StatusCode::SERVICE_UNAVAILABLE, &error);
    };
    match doors.auth.exchange(&SecretToken::new(code)).await {
        Ok(SignedIn { token, device }) => {
            let mut body = serde_json::Map::new();
            body.insert("token".into(), token.expose().into());
            body.extend(device.map(|name| ("device".to_owned(), name.into())));
            let body = serde_json::Value::Object(body).to_string();
            (
                [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")],
                body,
            )
                .into_response()
        }
        Err(error) if error.kind == ErrorKind::Conflict => refuse(StatusCode::CONFLICT, &error),
        Err(error) => refuse(StatusCode::UNAUTHORIZED, &error),
    }
}
