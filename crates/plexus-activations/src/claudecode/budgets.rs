//! `budget_set`: changes the budget of an existing session. The session's ancestors and the
//! operator may do that. An ancestor can give no more than it has itself.

use plexus_core::{Call, CallError, Caller};
use plexus_engine::authority::narrowed_budget;
use plexus_engine::budget;
use plexus_engine::replan::Replans;
use plexus_engine::session::SessionConfig;
use plexus_store::{Change, Priority, UpdateSession};
use plexus_wire::{BudgetSetParams, Done};

use super::ClaudeCode;

impl ClaudeCode {
    pub(super) async fn budget_set(
        &self,
        call: Call,
        params: BudgetSetParams,
    ) -> Result<Done, CallError> {
        let mut replans = Replans::default();
        loop {
            let session =
                self.find(&call.caller, params.session_id, params.name.as_deref()).await?;
            if let Caller::Session(own) = call.caller {
                let above = SessionConfig::of(&self.store.session(own).await?)?;
                narrowed_budget(above.budget.as_ref(), &params.budget)?;
            }
            budget::check(&params.budget, &self.store.spend(session.id).await?)?;
            let config =
                SessionConfig { budget: Some(params.budget), ..SessionConfig::of(&session)? };
            let update = UpdateSession {
                config: Some(config.to_json()?),
                expects_revision: Some(session.revision),
                ..UpdateSession::of(session.id)
            };
            match self.store.commit(vec![Change::UpdateSession(update)], Priority::Normal).await {
                Ok(_) => return Ok(Done {}),
                // The session's own run changed something else of it.
                Err(error) => replans.after(error)?,
            }
        }
    }
}
