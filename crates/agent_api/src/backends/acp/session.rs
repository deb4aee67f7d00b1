//! Opens the session of a run: a new one, an earlier one or a copy of one.

use acp_lines::{
    ClientRequest, RpcError,
    event::answer::{AgentCapabilities, ListedSession, SessionOpened, SessionPage},
};

use super::drive::Talk;
use crate::{
    backends::shared::{drive::Step, outcome::Failure},
    extensions::{SessionSelector, SessionStart},
};

/// The error code that some agents use for an unknown session.
const RESOURCE_NOT_FOUND: i64 = -32002;

/// How many pages of sessions are read. A page holds dozens; a session beyond this limit is not
/// found.
const MAX_PAGES: usize = 50;

/// An open session, and the answer to the request that opened it.
#[derive(Debug)]
pub(super) struct OpenSession {
    pub(super) id: String,
    pub(super) opened: SessionOpened,
}

impl Talk<'_> {
    /// Begins, resumes or forks the session.
    pub(super) async fn open_session(&mut self, can: &AgentCapabilities) -> Step<OpenSession> {
        if !self.plan.add_dirs.is_empty() && can.session.additional_directories.is_none() {
            return self.fail(Failure::NotOffered);
        }
        let earlier = match self.plan.session.selector() {
            None => None,
            Some(SessionSelector::Id(id)) => Some(id.clone()),
            Some(SessionSelector::Last) => match self.last_session(can).await? {
                Some(id) => Some(id),
                None => return self.fail(Failure::NoSession),
            },
        };
        let Some(earlier) = earlier else {
            let opened = self.agent.call(self.plan.begin()).await;
            let opened: SessionOpened = self.read(opened, |_| Failure::Handshake)?;
            return match opened.session_id.as_deref().filter(|id| !id.is_empty()) {
                Some(id) => Step::Continue(OpenSession { id: id.to_owned(), opened }),
                None => self.fail(Failure::Handshake),
            };
        };
        self.reopen(can, earlier).await
    }

    async fn reopen(&mut self, can: &AgentCapabilities, earlier: String) -> Step<OpenSession> {
        let named = self.plan.reopen(&earlier);
        let (open, is_copy) = match &self.plan.session {
            SessionStart::Fork(_) if can.session.fork.is_some() => {
                (ClientRequest::SessionFork(named), true)
            }
            SessionStart::Resume(_) if can.session.resume.is_some() => {
                (ClientRequest::SessionResume(named), false)
            }
            SessionStart::Resume(_) if can.load_session => {
                (ClientRequest::SessionLoad(named), false)
            }
            SessionStart::New | SessionStart::Resume(_) | SessionStart::Fork(_) => {
                return self.fail(Failure::NotOffered);
            }
        };
        let answer = self.agent.call(open).await;
        let is_unknown = match &answer {
            Err(acp_lines::CallError::Refused(error)) => {
                self.is_unknown(can, &earlier, error).await?
            }
            _ => false,
        };
        let opened: SessionOpened = self.read(answer, |_| match is_unknown {
            true => Failure::SessionNotFound,
            false => Failure::SessionRefused,
        })?;
        let new = opened.session_id.as_deref().filter(|id| !id.is_empty()).map(str::to_owned);
        match (is_copy, new) {
            // A copy without an id of its own would be the original session.
            (true, None) => self.fail(Failure::SessionRefused),
            (true, Some(id)) => Step::Continue(OpenSession { id, opened }),
            (false, _) => Step::Continue(OpenSession { id: earlier, opened }),
        }
    }

    /// Returns whether a session could not be opened because it does not exist. Not every agent has
    /// an error code for this, so the list of sessions decides.
    async fn is_unknown(
        &mut self,
        can: &AgentCapabilities,
        id: &str,
        error: &RpcError,
    ) -> Step<bool> {
        if error.code == RESOURCE_NOT_FOUND {
            return Step::Continue(true);
        }
        if can.session.list.is_none() {
            return Step::Continue(false);
        }
        let sessions = self.sessions().await?;
        Step::Continue(!sessions.iter().any(|session| session.session_id == id))
    }

    /// Returns the session of the directory that changed last.
    async fn last_session(&mut self, can: &AgentCapabilities) -> Step<Option<String>> {
        if can.session.list.is_none() {
            return self.fail(Failure::NotOffered);
        }
        let sessions = self.sessions().await?;
        let when = |session: &ListedSession| session.updated_at.as_deref().map(str::to_owned);
        // If several changed at the same time, the first is the newest.
        let last = sessions.iter().rev().max_by_key(|session| when(session));
        Step::Continue(last.map(|session| session.session_id.to_string()))
    }

    /// Returns the sessions of the directory.
    async fn sessions(&mut self) -> Step<Vec<ListedSession>> {
        let mut sessions = Vec::new();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let page = self.agent.call(self.plan.list(cursor.take())).await;
            let page: SessionPage = self.read(page, |_| Failure::SessionRefused)?;
            let cwd = self.plan.cwd.as_str();
            // Not every agent filters by the directory in the request.
            let is_here = |session: &ListedSession| {
                session.cwd.as_deref().is_none_or(|session| session == cwd)
            };
            sessions.extend(page.sessions.into_iter().filter(is_here));
            match page.next_cursor {
                Some(next) => cursor = Some(next.to_string()),
                None => break,
            }
        }
        Step::Continue(sessions)
    }
}
