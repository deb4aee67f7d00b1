//! `changes`: what changed in a session's directory since the session began.
//!
//! Only the operator may ask: a directory holds what others changed there, too.

use plexus_core::{Call, CallError};
use plexus_engine::changes::edits;
use plexus_engine::session::SessionConfig;
use plexus_wire::{ChangesFound, ChangesSource, SessionRef};

use super::ClaudeCode;

/// What is said where no beginning was noted.
const NOT_NOTED: &str = "no beginning of the files was noted: the directory was in no git \
    repository, noting it failed as the log of the server says, or another server or an earlier \
    version noted it. Changes by shell commands are not told.";

impl ClaudeCode {
    pub(super) async fn changes(
        &self,
        call: Call,
        params: SessionRef,
    ) -> Result<ChangesFound, CallError> {
        let session = self.find(&call.caller, params.session_id, params.name.as_deref()).await?;
        let config = SessionConfig::of(&session)?;
        let since = session.created_at.into();
        let note = match self.beginnings.since(session.id, &config.working_dir).await {
            Ok(Some(found)) => {
                return Ok(ChangesFound {
                    source: ChangesSource::Git.into(),
                    since,
                    changes: found.changes,
                    cut: found.cut,
                    note: None,
                });
            }
            Ok(None) => NOT_NOTED.to_owned(),
            Err(error) => format!(
                "the files could not be compared: {error}. Changes by shell commands are not told."
            ),
        };
        let tools = &self.approvals.views.tools;
        let found = edits::of_session(&*self.store, tools, session.id, &config).await?;
        Ok(ChangesFound {
            source: ChangesSource::Edits.into(),
            since,
            changes: found.changes,
            cut: found.cut,
            note: Some(note),
        })
    }
}
