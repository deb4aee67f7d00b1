//! Sends progress to the client of a long call, so that the client does not give up on it.

use std::convert::Infallible;

use rmcp::model::{ProgressNotificationParam, ProgressToken, ProtocolVersion};
use rmcp::service::{RequestContext, RoleServer};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::limits::{PROGRESS_AT_MOST_EVERY, PROGRESS_EVERY};

/// Sends progress for as long as it is polled: the method's own reports, and at intervals a notice
/// that the call still waits.
///
/// A client that gave no progress token gets none. A method that does not wait gets no notices.
pub(super) async fn keep_telling(
    context: &RequestContext<RoleServer>,
    waits: bool,
    mut reports: watch::Receiver<String>,
) -> Infallible {
    let Some(token) = context.meta.get_progress_token() else {
        return std::future::pending().await;
    };
    let mut told = 0_u32;
    let begun = Instant::now();
    let mut last = None;
    // On the newest protocol rmcp sends no headers before the first message, and clients give up on
    // a call without headers.
    let streams_late =
        context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
    if waits && streams_late {
        tell(context, &token, &mut told, None).await;
        last = Some(begun);
    }
    loop {
        tokio::select! {
            () = sleep_until(last.unwrap_or(begun) + PROGRESS_EVERY), if waits => tell(context, &token, &mut told, None).await,
            Ok(()) = reports.changed() => {
                if let Some(last) = last {
                    sleep_until(last + PROGRESS_AT_MOST_EVERY).await;
                }
                let report = reports.borrow_and_update().clone();
                tell(context, &token, &mut told, Some(report)).await;
            }
            else => return std::future::pending().await,
        }
        last = Some(Instant::now());
    }
}

async fn tell(
    context: &RequestContext<RoleServer>,
    token: &ProgressToken,
    told: &mut u32,
    message: Option<String>,
) {
    *told += 1;
    let mut progress = ProgressNotificationParam::new(token.clone(), f64::from(*told));
    progress.message = message;
    if let Err(error) = context.peer.notify_progress(progress).await {
        tracing::debug!(%error, "could not tell a client of progress");
    }
}
