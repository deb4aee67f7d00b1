//! Shares: how much of one resource (connections, calls, streams, bytes) each caller may hold at
//! once.
//!
//! Every bound has the same three parts: a total, a share for each caller, and an eighth of the
//! total that only the operator may use. A caller that floods the server therefore reaches its own
//! share first, all callers together leave room for the operator, and only the total bounds the
//! operator.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plexus_core::{CallError, Caller};

use crate::limits::{OPERATOR_PART, RETRY_AFTER_MS};

/// The names that a bound has in the error of a caller that reaches it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// The refused action, for a message that begins with "could not".
    pub(crate) action: &'static str,
    /// The setting of the total.
    pub(crate) total: &'static str,
    /// The setting of one caller's share.
    pub(crate) per_caller: &'static str,
}

/// The shares of one resource.
#[derive(Debug)]
pub(crate) struct Shares {
    bound: Bound,
    total: usize,
    per_caller: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    operator: usize,
    /// What all callers except the operator hold.
    others: usize,
    /// Callers that hold something now; the rest have no entry.
    by_caller: HashMap<Caller, usize>,
}

impl Shares {
    pub(crate) fn new(bound: Bound, total: usize, per_caller: usize) -> Arc<Self> {
        Arc::new(Self { bound, total, per_caller, held: Mutex::default() })
    }

    /// Takes `amount` for `caller`, for as long as the returned value lives. A caller that holds
    /// nothing may exceed its share once, within the total, so that a share smaller than one honest
    /// request does not refuse it for ever.
    ///
    /// # Errors
    /// `busy`, with the bound that was reached and its setting.
    pub(crate) fn take(
        self: &Arc<Self>,
        caller: Caller,
        amount: usize,
    ) -> Result<Taken, CallError> {
        let mut held = self.held();
        let kept = self.for_operator();
        let fits = match caller {
            // Charges of other callers beyond their part do not shrink the operator's.
            Caller::Operator => {
                held.operator + amount <= self.total.saturating_sub(held.others).max(kept)
            }
            Caller::Session(_) | Caller::Child(_) | Caller::Device(_) => {
                let own = held.by_caller.get(&caller).copied().unwrap_or_default();
                if own > 0 && own + amount > self.per_caller {
                    return Err(self.own_share_is_used_up());
                }
                held.others + amount <= self.total - held.operator.max(kept).min(self.total)
            }
        };
        if !fits {
            return Err(self.all_is_used_up());
        }
        Ok(self.note(&mut held, caller, amount))
    }

    /// Takes `amount` unconditionally, for what already exists, such as the answer of an admitted
    /// call.
    pub(crate) fn charge(self: &Arc<Self>, caller: Caller, amount: usize) -> Taken {
        self.note(&mut self.held(), caller, amount)
    }

    /// Returns how much all callers hold.
    pub(crate) fn in_use(&self) -> usize {
        let held = self.held();
        held.operator + held.others
    }

    fn note(self: &Arc<Self>, held: &mut Held, caller: Caller, amount: usize) -> Taken {
        match caller {
            Caller::Operator => held.operator += amount,
            Caller::Session(_) | Caller::Child(_) | Caller::Device(_) => {
                held.others += amount;
                *held.by_caller.entry(caller).or_default() += amount;
            }
        }
        Taken { shares: Arc::clone(self), caller, amount }
    }

    /// Returns the amount that only the operator may use.
    fn for_operator(&self) -> usize {
        self.total / OPERATOR_PART
    }

    fn own_share_is_used_up(&self) -> CallError {
        let Bound { action, per_caller, .. } = self.bound;
        let message =
            format!("{action}: one caller may hold {} at once ({per_caller})", self.per_caller);
        CallError::busy(message, RETRY_AFTER_MS)
            .with_hint("end some of yours, or let the operator raise the setting")
    }

    fn all_is_used_up(&self) -> CallError {
        let Bound { action, total, .. } = self.bound;
        let message = format!(
            "{action}: all callers together may hold {} at once ({total}), of which {} are the \
             operator's",
            self.total,
            self.for_operator()
        );
        CallError::busy(message, RETRY_AFTER_MS)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An amount that a caller holds until this is dropped.
#[derive(Debug)]
#[must_use = "what is taken is given back when this is dropped"]
pub(crate) struct Taken {
    shares: Arc<Shares>,
    caller: Caller,
    amount: usize,
}

impl Taken {
    /// Takes more of the same resource.
    ///
    /// # Errors
    /// `busy`, as [`Shares::take`]; what was held before stays held.
    pub(crate) fn grow(&mut self, more: usize) -> Result<(), CallError> {
        let mut taken = self.shares.take(self.caller, more)?;
        self.amount += std::mem::take(&mut taken.amount);
        Ok(())
    }

    /// Returns how much is held.
    pub(crate) fn amount(&self) -> usize {
        self.amount
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut held = self.shares.held();
        match self.caller {
            Caller::Operator => held.operator -= self.amount,
            Caller::Session(_) | Caller::Child(_) | Caller::Device(_) => {
                held.others -= self.amount;
                if let Some(own) = held.by_caller.get_mut(&self.caller) {
                    *own -= self.amount;
                    if *own == 0 {
                        held.by_caller.remove(&self.caller);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use plexus_core::SessionId;

    use super::*;

    const BOUND: Bound = Bound {
        action: "open another stream",
        total: "limits.streams",
        per_caller: "limits.streams_per_caller",
    };

    #[test]
    fn a_caller_meets_its_share_and_all_callers_leave_room_for_the_operator() {
        let shares = Shares::new(BOUND, 16, 6);
        let callers: Vec<Caller> = (0..4).map(|_| Caller::Session(SessionId::generate())).collect();
        let mut held: Vec<Taken> = (0..6).map(|_| shares.take(callers[0], 1).unwrap()).collect();
        let own = shares.take(callers[0], 1).unwrap_err().message;
        assert!(own.contains("limits.streams_per_caller") && own.contains('6'), "{own}");
        held.extend((0..6).map(|_| shares.take(callers[1], 1).unwrap()));
        held.extend((0..2).map(|_| shares.take(callers[2], 1).unwrap()));
        let all = shares.take(callers[3], 1).unwrap_err().message;
        assert!(all.contains("limits.streams)") && all.contains("2 are the operator's"), "{all}");
        held.extend((0..2).map(|_| shares.take(Caller::Operator, 1).unwrap()));
        assert_eq!(
            shares.take(Caller::Operator, 1).unwrap_err().kind,
            plexus_core::ErrorKind::Busy
        );
        assert_eq!(shares.in_use(), 16);
        drop(held);
        assert_eq!(shares.in_use(), 0);
        assert!(shares.held().by_caller.is_empty(), "nobody is remembered who holds nothing");
    }

    #[test]
    fn one_large_request_passes_a_small_share_and_a_second_waits_for_it() {
        let shares = Shares::new(BOUND, 1_000, 10);
        let caller = Caller::Session(SessionId::generate());
        let mut large = shares.take(caller, 100).unwrap();
        assert!(large.grow(1).is_err() && shares.take(caller, 1).is_err());
        drop(large);
        assert!(shares.take(caller, 1).is_ok());
    }

    #[test]
    fn a_charge_is_always_noted_and_counts_against_the_next_request() {
        let shares = Shares::new(BOUND, 100, 10);
        let caller = Caller::Child(SessionId::generate());
        let charged = shares.charge(caller, 50);
        assert!(shares.take(caller, 1).is_err());
        drop(charged);
        assert_eq!(shares.in_use(), 0);
    }
}
