//! What models cost, for the agents that report no prices themselves.

use plexus_agents::codex::{Price, Prices};
use serde::{Deserialize, Serialize};

/// What a million tokens of a model cost, in US dollars.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelPrice {
    /// The model, as the CLI names it.
    pub model: String,
    /// Read by the model.
    pub input_usd: f64,
    /// Read from the cache.
    pub cached_input_usd: f64,
    /// Written by the model.
    pub output_usd: f64,
}

/// Returns what drivers compute with.
pub(super) fn prices(list: &[ModelPrice]) -> Prices {
    let price = |price: &ModelPrice| {
        let (input, output) = (price.input_usd, price.output_usd);
        (price.model.clone(), Price { input, cached_input: price.cached_input_usd, output })
    };
    list.iter().map(price).collect()
}
