//! Lists that are read page by page to their end, and a lookup of one session.

use plexus_wire::{
    Approval, ApprovalPageParams, ListParams, PendingApprovals, Rule, RulesParams, Session,
    SessionId, SessionRef,
};

use crate::client::Client;
use crate::error::ClientError;

impl Client {
    /// Returns all sessions, oldest first.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn sessions(&self) -> Result<Vec<Session>, ClientError> {
        every_page(async |cursor| {
            let page = self.agents().list(&ListParams::page(cursor)).await?;
            Ok((page.sessions, page.cursor))
        })
        .await
    }

    /// Returns the pending permission requests, of one session or of all, oldest first.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn pending(&self, session: Option<SessionId>) -> Result<Vec<Approval>, ClientError> {
        every_page(async |cursor| {
            let mut params = ApprovalPageParams::page(cursor);
            params.session_id = session;
            match self.loopback().pending(&params).await? {
                PendingApprovals::Ok { approvals, cursor, .. } => Ok((approvals, cursor)),
                // Only `wait_for_approval` gives other answers.
                _ => Ok((Vec::new(), None)),
            }
        })
        .await
    }

    /// Returns all rules, oldest first.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn rules(&self) -> Result<Vec<Rule>, ClientError> {
        every_page(async |cursor| {
            let page = self.loopback().rules(&RulesParams::page(cursor)).await?;
            Ok((page.rules, page.cursor))
        })
        .await
    }

    /// Returns one session.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn session(&self, which: &SessionRef) -> Result<Session, ClientError> {
        Ok(self.agents().get(which).await?.session)
    }
}

/// Reads page after page until the last one.
async fn every_page<T>(
    read: impl AsyncFn(Option<String>) -> Result<(Vec<T>, Option<String>), ClientError>,
) -> Result<Vec<T>, ClientError> {
    let mut all = Vec::new();
    let mut cursor = None;
    loop {
        let (items, next) = read(cursor).await?;
        all.extend(items);
        match next {
            Some(next) => cursor = Some(next),
            None => return Ok(all),
        }
    }
}
