//! The usual methods with types. Everything else is [`Client::call`].

use plexus_core::{ApprovalId, SessionId};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::Client;
use crate::error::ClientError;
use crate::types::{Approval, ChangedSession, CreateSession, Polled, Respond, Session};

/// Items asked for at a time.
const PAGE: u32 = 1_000;

impl Client {
    /// Creates a session.
    ///
    /// # Errors
    /// As [`Client::call`]; `conflict` for a name that is taken.
    pub async fn create(&self, session: &CreateSession) -> Result<SessionId, ClientError> {
        #[derive(Deserialize)]
        struct Created {
            id: SessionId,
        }
        Ok(self.call::<Created>("claudecode.create", session).await?.id)
    }

    /// Starts a chat and returns its number at once.
    ///
    /// # Errors
    /// As [`Client::call`]; `busy` while another chat of the session runs.
    pub async fn chat_async(&self, session: SessionId, prompt: &str) -> Result<u32, ClientError> {
        #[derive(Deserialize)]
        struct Started {
            chat: u32,
        }
        Ok(self
            .call::<Started>(
                "claudecode.chat_async",
                json!({"session_id": session, "prompt": prompt}),
            )
            .await?
            .chat)
    }

    /// Returns a session.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn session(&self, id: SessionId) -> Result<Session, ClientError> {
        self.get(json!({"session_id": id})).await
    }

    /// Returns the session of exactly this name.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn session_named(&self, name: &str) -> Result<Session, ClientError> {
        self.get(json!({"name": name})).await
    }

    async fn get(&self, which: Value) -> Result<Session, ClientError> {
        #[derive(Deserialize)]
        struct Got {
            session: Session,
        }
        Ok(self.call::<Got>("claudecode.get", which).await?.session)
    }

    /// Returns all sessions, oldest first.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn sessions(&self) -> Result<Vec<Session>, ClientError> {
        #[derive(Deserialize)]
        struct Listed {
            sessions: Vec<Session>,
            cursor: Option<String>,
        }
        let mut all = Vec::new();
        let mut cursor = None;
        loop {
            let page: Listed =
                self.call("claudecode.list", with_cursor(json!({"limit": PAGE}), cursor)).await?;
            all.extend(page.sessions);
            match page.cursor {
                Some(next) => cursor = Some(next),
                None => return Ok(all),
            }
        }
    }

    /// Reads events of a chat from `from_seq` on, and moves nobody's position.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn poll_from(
        &self,
        session: SessionId,
        chat: Option<u32>,
        from_seq: u32,
    ) -> Result<Polled, ClientError> {
        let mut params = json!({"session_id": session, "from_seq": from_seq, "limit": PAGE});
        if let Some(chat) = chat {
            params["chat"] = chat.into();
        }
        self.call("claudecode.poll", params).await
    }

    /// Waits for sessions to change, and returns what changed with the number to hand back.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn wait(
        &self,
        after: Option<u64>,
        wait_ms: u64,
    ) -> Result<(u64, Vec<ChangedSession>), ClientError> {
        #[derive(Deserialize)]
        struct Waited {
            after: u64,
            sessions: Vec<ChangedSession>,
        }
        let mut params = json!({"wait_ms": wait_ms});
        if let Some(after) = after {
            params["after"] = after.into();
        }
        let waited: Waited = self.call("claudecode.wait", params).await?;
        Ok((waited.after, waited.sessions))
    }

    /// Asks a running chat to end.
    ///
    /// # Errors
    /// As [`Client::call`]; `conflict` when none runs.
    pub async fn cancel(&self, session: SessionId, reason: &str) -> Result<(), ClientError> {
        self.call::<Value>("claudecode.cancel", json!({"session_id": session, "reason": reason}))
            .await
            .map(drop)
    }

    /// Returns the permission requests that wait, of one session or of all, oldest first.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn pending(&self, session: Option<SessionId>) -> Result<Vec<Approval>, ClientError> {
        #[derive(Deserialize)]
        struct Pending {
            approvals: Vec<Approval>,
            cursor: Option<String>,
        }
        let mut all = Vec::new();
        let mut cursor = None;
        loop {
            let mut params = with_cursor(json!({"limit": PAGE}), cursor);
            if let Some(session) = session {
                params["session_id"] = json!(session);
            }
            let page: Pending = self.call("loopback.pending", params).await?;
            all.extend(page.approvals);
            match page.cursor {
                Some(next) => cursor = Some(next),
                None => return Ok(all),
            }
        }
    }

    /// Answers a permission request.
    ///
    /// # Errors
    /// As [`Client::call`]; `conflict` when it was decided otherwise, or its input is not the one that was looked at.
    pub async fn respond(&self, answer: &Respond) -> Result<(), ClientError> {
        self.call::<Value>("loopback.respond", answer).await.map(drop)
    }

    /// Denies a permission request.
    ///
    /// # Errors
    /// As [`Client::respond`].
    pub async fn deny(
        &self,
        approval: ApprovalId,
        message: impl Into<String>,
    ) -> Result<(), ClientError> {
        self.respond(&Respond::deny(approval, message)).await
    }
}

fn with_cursor(mut params: Value, cursor: Option<String>) -> Value {
    if let Some(cursor) = cursor {
        params["cursor"] = cursor.into();
    }
    params
}
