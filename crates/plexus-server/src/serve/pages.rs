//! The addresses that are no doors: `/healthz` for a monitor, `/metrics` for Prometheus, `/`
//! for people.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use plexus_core::{Authenticator, Caller, SecretToken};
use plexus_engine::Engine;
use plexus_store::Store;
use plexus_transport::Doors;
use serde_json::json;

use super::{dashboard, metrics};
use plexus_notify::HookStats;

/// What the pages show.
#[derive(Clone)]
pub(crate) struct Pages {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) auth: Arc<dyn Authenticator>,
    pub(crate) doors: Doors,
    pub(crate) hooks: Arc<HookStats>,
}

/// Returns the routes of all pages.
pub(crate) fn router(pages: Pages) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/metrics", get(metrics_page))
        .with_state(pages)
        .merge(dashboard::router())
}

/// Says that the server lives and can read its store. Needs no token, so it says nothing else.
async fn healthz(State(pages): State<Pages>) -> Response {
    match pages.store.newest_commit().await {
        Ok(_) => {
            Json(json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")})).into_response()
        }
        Err(error) => {
            tracing::warn!(%error, "not healthy");
            (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "unavailable"})))
                .into_response()
        }
    }
}

async fn metrics_page(State(pages): State<Pages>, headers: HeaderMap) -> Response {
    let token = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "));
    let caller = match token {
        Some(token) => pages.auth.authenticate(&SecretToken::new(token.trim())).await.ok(),
        None => None,
    };
    if caller != Some(Caller::Operator) {
        let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
        return (
            StatusCode::UNAUTHORIZED,
            challenge,
            "send the operator's token: Authorization: Bearer …\n",
        )
            .into_response();
    }
    match metrics::render(&pages).await {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
            .into_response(),
        Err(error) => {
            tracing::warn!(%error, "could not count for the metrics");
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
    }
}
