//! What is configured of conversations with a model itself. The keys are in the environment of the
//! server, as `ANTHROPIC_API_KEY` and `OPENAI_API_KEY`.

use std::collections::BTreeMap;

use plexus_agents::acp::Profile;
use serde::{Deserialize, Serialize};

use super::prices::{ModelPrice, prices};
use plexus_agents::cone::DEFAULT_MODEL;

/// What is configured of conversations with a model itself.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConeConfig {
    /// The model of a conversation that names none; empty for a small one of the Messages API.
    pub model: String,
    /// Where the Messages API is; empty for `ANTHROPIC_BASE_URL` or its own address.
    pub anthropic_url: String,
    /// Where chat completions are, up to `/chat/completions`; empty for `OPENAI_BASE_URL` or
    /// OpenAI.
    pub openai_url: String,
    /// The most tokens that an answer may have; 0 for 4096.
    pub max_tokens: u64,
    /// How many seconds the service may be silent; 0 for 120.
    pub timeout_secs: u64,
    /// What models cost. Without a price, a chat counts as free, and no budget in dollars starts
    /// it.
    pub prices: Vec<ModelPrice>,
}

impl ConeConfig {
    /// Returns what the driver is built from.
    #[must_use]
    pub fn profile(&self) -> Profile {
        let model = if self.model.is_empty() { DEFAULT_MODEL } else { &self.model };
        Profile {
            env: self.env(),
            prices: Some(prices(&self.prices)),
            default_model: Some(model.to_owned()),
            ..Profile::cone()
        }
    }

    /// Returns it as variables of the program that holds a conversation.
    fn env(&self) -> BTreeMap<String, String> {
        let number = |number: u64| if number == 0 { String::new() } else { number.to_string() };
        [
            ("CONE_DEFAULT_MODEL", self.model.clone()),
            ("ANTHROPIC_BASE_URL", self.anthropic_url.clone()),
            ("OPENAI_BASE_URL", self.openai_url.clone()),
            ("CONE_MAX_TOKENS", number(self.max_tokens)),
            ("CONE_TIMEOUT_SECS", number(self.timeout_secs)),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }
}
