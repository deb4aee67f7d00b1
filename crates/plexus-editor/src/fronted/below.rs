//! Questions of the sessions that the agent itself has started. The editor is asked about them too.
//! The first answer decides, whether it comes from the agent, the editor or somebody else who may
//! answer.
//!
//! The stream of a session tells that a session below it asks, and not how that ended. Each such
//! session is therefore watched once it has asked.

use std::time::Duration;

use plexus_client::wire::{
    Approval, ApprovalPageParams, ErrorKind, PageLimit, PendingApprovals, SessionId, WaitMs,
    WaitParams, method,
};
use tokio::sync::mpsc;

use super::Fronted;
use crate::door::Cause;
use crate::hands::{Hands, Task};
use crate::questions::Rules;
use crate::server::Server;

/// Sessions below one that are watched. The questions of others can be answered elsewhere.
const MAX_WATCHED: usize = 64;

/// How long one look for a change waits, in milliseconds; the next follows at once.
const LOOK_MS: u64 = 60_000;

/// The pause before a look is retried that a busy server has refused.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

impl Fronted {
    /// Watches a session that has asked, if it is not watched.
    pub(super) async fn asked_below(&mut self, child: SessionId, name: &str, hands: &Hands) {
        if self.below.contains_key(&child) {
            return;
        }
        if self.below.len() >= MAX_WATCHED {
            let words = format!(
                "{name}, which this agent started, asks; `plexus pending` and the dashboard show \
                 its question"
            );
            return self.note(&words, hands).await;
        }
        let watching = watch(hands.server().clone(), self.id, child, hands.causes());
        self.below.insert(child, Task::start(watching));
    }

    /// Takes what waits in a session below: what is new is asked, and what is decided is closed.
    pub(crate) async fn waits_below(
        &mut self,
        child: SessionId,
        waiting: Vec<Approval>,
        hands: &mut Hands,
    ) {
        for decided in self.questions.of(child) {
            if !waiting.iter().any(|approval| approval.id == decided.id) {
                self.withdraw(decided.id, hands).await;
                let update = self.view.decided_below(&decided);
                self.tell([update], hands).await;
            }
        }
        for approval in waiting {
            if !self.questions.knows(approval.id) && !self.resolved.contains(&approval.id) {
                self.ask(approval, Rules::Offered, hands).await;
            }
        }
    }
}

/// Tells what waits in a session, at once and whenever the session has changed, until it is gone.
async fn watch(server: Server, of: SessionId, child: SessionId, causes: mpsc::Sender<Cause>) {
    let pending = ApprovalPageParams {
        session_id: Some(child),
        limit: Some(PageLimit::MAX),
        ..ApprovalPageParams::default()
    };
    let mut look = WaitParams { session_ids: Some(vec![child]), ..WaitParams::default() };
    loop {
        // The position is taken before what waits is read, so that no change is missed.
        let position = server.call::<method::agents::Wait>(&look).await;
        let found = server.call::<method::loopback::Pending>(&pending).await;
        let (position, waiting) = match (position, found) {
            (Ok(position), Ok(PendingApprovals::Ok { approvals, .. })) => {
                (Some(position.after), approvals)
            }
            (Ok(position), Ok(PendingApprovals::Timeout { .. })) => {
                (Some(position.after), Vec::new())
            }
            // A session that is gone asks nothing.
            (Err(error), _) | (_, Err(error)) if error.kind() == ErrorKind::NotFound => {
                (None, Vec::new())
            }
            (Err(_), _) | (_, Err(_)) => {
                tokio::time::sleep(AGAIN_AFTER).await;
                continue;
            }
        };
        let told = causes.send(Cause::Below { session: of, child, waiting }).await;
        if position.is_none() || told.is_err() {
            return;
        }
        look.after = position;
        look.wait_ms = WaitMs::try_from(LOOK_MS).ok();
    }
}
