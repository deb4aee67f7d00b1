//! What the environment says: which model of which service, the key, and the limits.

use std::time::Duration;

use super::provider::{CHAT_COMPLETIONS, MESSAGES, Provider};

/// The model of a conversation that names none.
pub const DEFAULT_MODEL: &str = "claude-haiku-4-5";

/// The most tokens that an answer may have.
const DEFAULT_MAX_TOKENS: u64 = 4096;

/// How long the service may be silent, before its first word and between two.
const DEFAULT_SILENCE: Duration = Duration::from_secs(120);

/// What a turn is asked with.
pub(super) struct Options {
    pub(super) provider: &'static dyn Provider,
    pub(super) model: String,
    pub(super) base_url: String,
    pub(super) key: String,
    pub(super) system_prompt: Option<String>,
    pub(super) max_tokens: u64,
    pub(super) silence: Duration,
}

impl Options {
    /// Reads the environment. `anthropic/` or `openai/` before the model chooses the API; without
    /// it, names that begin with `claude` are models of the Messages API and all others of the
    /// other one.
    pub(super) fn from_env(env: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let set = |name: &str| env(name).filter(|value| !value.is_empty());
        let named = set("CONE_MODEL").or_else(|| set("CONE_DEFAULT_MODEL"));
        let named = named.unwrap_or_else(|| DEFAULT_MODEL.to_owned());
        let (provider, model): (&'static dyn Provider, &str) = match named.split_once('/') {
            Some(("anthropic", model)) => (&MESSAGES, model),
            Some(("openai", model)) => (&CHAT_COMPLETIONS, model),
            _ if named.starts_with("claude") => (&MESSAGES, &named),
            _ => (&CHAT_COMPLETIONS, &named),
        };
        let at = provider.at();
        let key = set(at.key_variable).ok_or_else(|| {
            format!("{} is not set in the environment of the server", at.key_variable)
        })?;
        let number = |name: &str| match set(name) {
            None => Ok(None),
            Some(text) => match text.parse::<u64>() {
                Ok(number) if number > 0 => Ok(Some(number)),
                _ => Err(format!("{name} is not a number above 0: {text:?}")),
            },
        };
        Ok(Self {
            provider,
            model: model.to_owned(),
            base_url: set(at.url_variable).unwrap_or_else(|| at.url.to_owned()),
            key,
            system_prompt: set("CONE_SYSTEM_PROMPT"),
            max_tokens: number("CONE_MAX_TOKENS")?.unwrap_or(DEFAULT_MAX_TOKENS),
            silence: number("CONE_TIMEOUT_SECS")?.map_or(DEFAULT_SILENCE, Duration::from_secs),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_chooses_the_api_and_a_missing_key_is_named() {
        for (model, key, url) in [
            ("claude-x", "ANTHROPIC_API_KEY", "https://api.anthropic.com"),
            ("anthropic/other", "ANTHROPIC_API_KEY", "https://api.anthropic.com"),
            ("gpt-x", "OPENAI_API_KEY", "https://api.openai.com/v1"),
            ("openai/claude-x", "OPENAI_API_KEY", "https://api.openai.com/v1"),
            ("vendor/model", "OPENAI_API_KEY", "https://api.openai.com/v1"),
        ] {
            let env = |with_key: bool| {
                move |name: &str| match name {
                    "CONE_MODEL" => Some(model.to_owned()),
                    _ if name == key && with_key => Some("k".to_owned()),
                    _ => None,
                }
            };
            assert_eq!(Options::from_env(env(true)).unwrap().base_url, url, "{model}");
            assert!(Options::from_env(env(false)).err().unwrap().contains(key), "{model}");
        }
    }

    #[test]
    fn a_limit_that_is_no_number_is_refused() {
        let env = |name: &str| match name {
            "ANTHROPIC_API_KEY" => Some("k".to_owned()),
            "CONE_MAX_TOKENS" => Some("many".to_owned()),
            _ => None,
        };
        assert!(Options::from_env(env).err().unwrap().contains("CONE_MAX_TOKENS"));
    }
}
