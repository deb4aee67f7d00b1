//! Budgets: whether a session, and every session above it, has something left to spend.

use plexus_core::{CallError, ErrorKind};
use plexus_store::{Session, Store};

use crate::claudecode::config::SessionConfig;

/// Refuses a chat that some budget above has no room for.
pub(crate) async fn check(store: &dyn Store, session: &Session) -> Result<(), CallError> {
    let mut line = vec![session.id];
    line.extend(store.ancestors(session.id).await?);
    for id in line {
        let holder = store.session(id).await?;
        let Some(budget) = SessionConfig::of(&holder)?.budget else { continue };
        let totals = store.spend(id).await?;
        let spent = totals.subtree;
        let over = [
            budget.cost_usd.is_some_and(|most| spent.cost_micros as f64 / 1e6 >= most).then_some("cost"),
            budget.turns.is_some_and(|most| spent.turns >= most).then_some("turns"),
            budget.wall_secs.is_some_and(|most| spent.wall_ms / 1_000 >= most).then_some("wall time"),
        ];
        if let Some(what) = over.into_iter().flatten().next() {
            return Err(CallError::new(
                ErrorKind::Forbidden,
                format_args!("start a chat: the budget of {} for {what} is used up", holder.name),
            )
            .with_hint("its creator can give a larger one"));
        }
    }
    Ok(())
}
