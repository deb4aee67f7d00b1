//! What a model costs. Codex counts tokens and reports no prices.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::memory::Tokens;

/// What a million tokens of one model cost, in US dollars.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Price {
    /// Read by the model.
    pub input: f64,
    /// Read from the cache.
    pub cached_input: f64,
    /// Written by the model.
    pub output: f64,
}

/// The prices of models, by their names.
pub type Prices = BTreeMap<String, Price>;

/// The number of tokens that a price is for.
const PER: f64 = 1e6;

impl Price {
    /// What tokens cost of which none is known to come from a cache.
    pub(crate) fn of_fresh(&self, input: u64, output: u64) -> f64 {
        self.of(Tokens { input, cached: 0, output })
    }

    /// What these tokens cost.
    pub(super) fn of(&self, used: Tokens) -> f64 {
        let fresh = used.input.saturating_sub(used.cached);
        let sum = fresh as f64 * self.input
            + used.cached as f64 * self.cached_input
            + used.output as f64 * self.output;
        sum / PER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_have_a_price_of_their_own() {
        let price = Price { input: 2.0, cached_input: 0.5, output: 10.0 };
        let used = Tokens { input: 1_000_000, cached: 400_000, output: 100_000 };
        assert!((price.of(used) - (1.2 + 0.2 + 1.0)).abs() < 1e-9);
    }
}
