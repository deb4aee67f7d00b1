//! Budgets: whether a session, and every session above it, has something left to spend; and what
//! happens when it has not.
//!
//! A budget is for a session and everything below it. A chat sets aside what it may well cost when
//! it starts ([`prepare`]), in the transaction that starts it, and gives that back in the
//! transaction that ends it and adds what it really cost. A chat starts while what is spent and set
//! aside is below every limit, so all that run together go beyond a limit by one result at most,
//! also when no server is there to stop them. What the running chats of its own ancestors have set
//! aside does not count against a chat: they may be waiting for it. Each such ancestor adds one
//! result at most. [`treasurer`] looks at every result: at 80 % the running chats are told, at 100
//! % every chat below is stopped.

mod treasurer;

use plexus_core::{CallError, ErrorKind, SessionId};
use plexus_store::{Reservation, SessionRecord, Spend, SpendLimit, SpendTotals, Store, StoreError};
use plexus_wire::{Budget, SpentAlready};

use crate::agents::Agents;
use crate::session::SessionConfig;

pub(crate) use treasurer::{Stopper, keep};

/// What a chat reserves while no chat below the budget has ended, so that nothing is known about
/// their cost. It is more than most chats cost. With it a budget of twenty dollars lets twenty
/// chats begin at once, and a budget of less than a dollar lets one begin and waits for its result.
const UNKNOWN: Spend =
    Spend { cost_micros: 1_000_000, turns: 10, input_tokens: 0, output_tokens: 0, wall_ms: 0 };

/// Refuses an agent whose cost in dollars is not known, below `parent` or with a budget of its own,
/// where one of these budgets is in dollars: it would spend without being seen.
///
/// # Errors
/// `forbidden`, with what to set.
pub async fn require_price(
    store: &dyn Store,
    agents: &Agents,
    config: &SessionConfig,
    parent: Option<SessionId>,
) -> Result<(), CallError> {
    let SessionConfig { agent, model, .. } = config;
    let Some(hint) = agents.get(agent)?.driver.unpriced(model.as_deref()) else { return Ok(()) };
    let in_dollars = |budget: &Budget| budget.cost_usd.is_some();
    let mut whose = config.budget.as_ref().filter(|it| in_dollars(it)).map(|_| "its".to_owned());
    if let (None, Some(parent)) = (&whose, parent) {
        let above = holders(store, parent).await?.into_iter();
        whose = above.filter(|it| in_dollars(&it.budget)).map(|it| it.name + "'s").next();
    }
    let Some(whose) = whose else { return Ok(()) };
    Err(CallError::forbidden(format_args!(
        "use {agent} within {whose} budget in dollars: what it costs is not known"
    ))
    .with_field("agent")
    .with_hint(hint))
}

/// Says what a chat of this session sets aside, and within which limits; nothing when no budget
/// above it limits cost or turns.
///
/// # Errors
/// `forbidden` when some budget above is used up, or does not see what the agent costs.
pub async fn prepare(
    store: &dyn Store,
    agents: &Agents,
    session: &SessionRecord,
) -> Result<Option<Reservation>, CallError> {
    require_price(store, agents, &SessionConfig::of(session)?, session.parent).await?;
    let mut reservation = Reservation::default();
    for holder in holders(store, session.id).await? {
        let totals = store.spend(holder.id).await?;
        if let Some(what) = worst_of(&holder.budget, &totals.subtree).used_up() {
            return Err(CallError::new(
                ErrorKind::Forbidden,
                format_args!("start a chat: the budget of {} for {what} is used up", holder.name),
            )
            .with_hint("its creator can give a larger one with agents.budget_set"));
        }
        set_aside(&mut reservation, &holder, &totals);
    }
    Ok((!reservation.within.is_empty()).then_some(reservation))
}

/// Says what a chat sets aside that has begun by itself, and so is not asked whether it may.
pub(crate) async fn estimate(
    store: &dyn Store,
    session: SessionId,
) -> Result<Option<Reservation>, StoreError> {
    let mut reservation = Reservation::default();
    for holder in holders(store, session).await? {
        set_aside(&mut reservation, &holder, &store.spend(holder.id).await?);
    }
    let limited = !std::mem::take(&mut reservation.within).is_empty();
    Ok(limited.then_some(reservation))
}

/// The most that one chat has taken is what the next may take.
fn set_aside(reservation: &mut Reservation, holder: &Holder, totals: &SpendTotals) {
    let Budget { cost_usd, turns, .. } = holder.budget;
    if cost_usd.is_none() && turns.is_none() {
        return;
    }
    let likely = |largest: u64, unknown: u64| if largest > 0 { largest } else { unknown };
    let amount = &mut reservation.amount;
    amount.cost_micros =
        amount.cost_micros.max(likely(totals.largest.cost_micros, UNKNOWN.cost_micros));
    amount.turns = amount.turns.max(likely(totals.largest.turns, UNKNOWN.turns));
    reservation.within.push(SpendLimit {
        holder: holder.id,
        cost_micros: cost_usd.map(micros),
        turns,
        above: holder.above.clone(),
    });
}

/// A session that carries a budget.
pub(super) struct Holder {
    id: SessionId,
    /// The sessions above the one that was asked about, up to this one.
    above: Vec<SessionId>,
    name: String,
    budget: Budget,
}

/// The sessions with a budget that hold for `session`: itself and its ancestors.
async fn holders(store: &dyn Store, session: SessionId) -> Result<Vec<Holder>, StoreError> {
    let mut line = vec![session];
    line.extend(store.ancestors(session).await?);
    let mut holders = Vec::new();
    for (at, &id) in line.iter().enumerate() {
        let holder = store.session(id).await?;
        if let Some(budget) = SessionConfig::of(&holder)?.budget {
            let above = line.get(1..=at).unwrap_or_default().to_vec();
            holders.push(Holder { id, above, name: holder.name, budget });
        }
    }
    Ok(holders)
}

/// The limit of time, as people call it.
const WALL_TIME: &str = "wall time";

/// The limit that is nearest to its end.
pub struct Worst {
    /// Which limit, in words.
    pub what: &'static str,
    /// How much of it is used: 1.0 is all.
    pub share: f64,
}

impl Worst {
    fn used_up(&self) -> Option<&'static str> {
        (self.share >= 1.0).then_some(self.what)
    }
}

/// Says which limit is nearest to its end when this much is spent.
pub fn worst_of(budget: &Budget, spent: &Spend) -> Worst {
    // A limit of nothing is used up from the start.
    let share = |spent: f64, most: f64| if most > 0.0 { spent / most } else { 1.0 };
    let shares = [
        ("cost", budget.cost_usd.map(|most| share(spent.cost_micros as f64 / 1e6, most))),
        ("turns", budget.turns.map(|most| share(spent.turns as f64, most as f64))),
        ("tokens", budget.tokens.map(|most| share(tokens(spent) as f64, most as f64))),
        (WALL_TIME, budget.wall_secs.map(|most| share(spent.wall_ms as f64 / 1e3, most as f64))),
    ];
    let worst =
        shares.into_iter().filter_map(|(what, share)| share.map(|share| Worst { what, share }));
    worst
        .max_by(|a, b| a.share.total_cmp(&b.share))
        .unwrap_or(Worst { what: "nothing", share: 0.0 })
}

/// Refuses a budget that is below what is spent already.
///
/// # Errors
/// `conflict`, with what is spent as `standing`.
pub fn check(budget: &Budget, totals: &SpendTotals) -> Result<(), CallError> {
    let Spend { cost_micros, turns, wall_ms, .. } = totals.subtree;
    let below = [
        ("cost_usd", budget.cost_usd.is_some_and(|most| micros(most) < cost_micros)),
        ("turns", budget.turns.is_some_and(|most| most < turns)),
        ("tokens", budget.tokens.is_some_and(|most| most < tokens(&totals.subtree))),
        ("wall_secs", budget.wall_secs.is_some_and(|most| most.saturating_mul(1_000) < wall_ms)),
        ("children", budget.children.is_some_and(|most| most < totals.descendants)),
    ];
    let Some((what, _)) = below.into_iter().find(|(_, below)| *below) else { return Ok(()) };
    Err(CallError::conflict(format_args!("set the budget: {what} is below what is spent already"))
        .with_standing(SpentAlready {
            cost_usd: cost_micros as f64 / 1e6,
            turns,
            tokens: tokens(&totals.subtree),
            wall_secs: wall_ms as f64 / 1e3,
            children: totals.descendants,
        })
        .with_hint("standing says what is spent; agents.cancel stops what runs"))
}

/// Tokens, read and written.
fn tokens(spent: &Spend) -> u64 {
    spent.input_tokens.saturating_add(spent.output_tokens)
}

fn micros(usd: f64) -> u64 {
    (usd * 1e6).round().max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_that_is_nearest_to_its_end_counts() {
        let spent = Spend { cost_micros: 850_000, turns: 3, wall_ms: 500, ..Spend::default() };
        let budget = Budget {
            cost_usd: Some(1.0),
            turns: Some(10),
            wall_secs: Some(1),
            ..Budget::default()
        };
        let worst = worst_of(&budget, &spent);
        assert_eq!((worst.what, worst.share, worst.used_up()), ("cost", 0.85, None));
        let tight = Budget { turns: Some(3), ..budget };
        assert_eq!(worst_of(&tight, &spent).used_up(), Some("turns"));
        assert_eq!(worst_of(&Budget::default(), &spent).used_up(), None);
        let read = Spend { input_tokens: 90, output_tokens: 10, ..spent };
        let few = Budget { tokens: Some(100), ..budget };
        assert_eq!(worst_of(&few, &read).used_up(), Some("tokens"));
        let nothing = Budget { cost_usd: Some(0.0), ..Budget::default() };
        assert_eq!(worst_of(&nothing, &Spend::default()).used_up(), Some("cost"));
    }

    #[test]
    fn a_budget_is_not_below_what_is_spent() {
        let subtree = Spend {
            cost_micros: 500_000,
            turns: 3,
            input_tokens: 90,
            output_tokens: 10,
            wall_ms: 1_500,
        };
        let totals = SpendTotals { subtree, descendants: 2, ..SpendTotals::default() };
        let enough = Budget {
            cost_usd: Some(0.5),
            turns: Some(3),
            tokens: Some(100),
            wall_secs: Some(2),
            children: Some(2),
            depth: Some(0),
        };
        assert!(check(&enough, &totals).is_ok());
        for (budget, what) in [
            (Budget { cost_usd: Some(0.49), ..enough }, "cost_usd"),
            (Budget { turns: Some(2), ..enough }, "turns"),
            (Budget { tokens: Some(99), ..enough }, "tokens"),
            (Budget { wall_secs: Some(1), ..enough }, "wall_secs"),
            (Budget { children: Some(1), ..enough }, "children"),
        ] {
            let error = check(&budget, &totals).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Conflict);
            assert!(error.message.contains(what), "{}", error.message);
        }
    }
}
