//! The modes and options of a session as editors draw them.
//!
//! A mode is what the server allows unasked for a while; it ends by itself, and its name says when.
//! The model of a session is chosen when it is created, so its option has one value.

use plexus_client::wire::{Mode, ModeSecs, ModeSetParams, Session, SessionId};
use serde_json::{Value, json};

use crate::refusal::Refusal;

/// How long a mode that an editor sets holds.
const MODE_SECS: u64 = 3_600;

/// How long `ask` is noted: it is what holds without any mode.
const ASK_SECS: u64 = 1;

/// The id of the option that is the mode.
pub(crate) const MODE: &str = "mode";

/// The id of the option that is the model.
const MODEL: &str = "model";

/// The name of the model of a session that was created without one.
const DEFAULT_MODEL: &str = "default";

/// Every mode: its word, its name and what it means.
const MODES: [(Mode, &str, &str, &str); 3] = [
    (Mode::Ask, "ask", "Ask", "Everything is asked that no rule answers"),
    (
        Mode::AcceptEdits,
        "accept_edits",
        "Accept edits for an hour",
        "Edits and writes inside the session's directories are not asked for an hour",
    ),
    (Mode::AllowAll, "allow_all", "Allow everything for an hour", "Nothing is asked for an hour"),
];

/// What an editor is shown of a session's options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Options {
    mode: Mode,
    model: String,
}

impl Options {
    /// The options of a session at this moment, in seconds since 1970.
    pub(crate) fn of(session: &Session, now: i64) -> Self {
        let timed = session.mode.as_ref().and_then(|mode| mode.known());
        let mode = timed.filter(|timed| timed.until.0 > now).map_or(Mode::Ask, |timed| timed.mode);
        let model = session.model.clone().unwrap_or_else(|| DEFAULT_MODEL.to_owned());
        Self { mode, model }
    }

    /// The same with another mode.
    pub(crate) fn with_mode(&self, mode: Mode) -> Self {
        Self { mode, model: self.model.clone() }
    }

    /// Returns the word of the mode.
    pub(crate) fn mode_id(&self) -> &'static str {
        word_of(self.mode)
    }

    /// Returns the modes for the answer that opens a session.
    pub(crate) fn modes(&self) -> Value {
        let available: Vec<Value> = MODES
            .iter()
            .map(|(_, id, name, about)| json!({"id": id, "name": name, "description": about}))
            .collect();
        json!({"currentModeId": self.mode_id(), "availableModes": available})
    }

    /// Returns the options for that answer. Editors that draw options do not draw the
    /// modes, so the mode is one of the options.
    pub(crate) fn config_options(&self) -> Vec<Value> {
        let modes: Vec<Value> = MODES
            .iter()
            .map(|(_, id, name, about)| json!({"value": id, "name": name, "description": about}))
            .collect();
        let model = &self.model;
        vec![
            json!({
                "id": MODE, "name": "Mode", "category": "mode", "type": "select",
                "currentValue": self.mode_id(), "options": modes,
            }),
            json!({
                "id": MODEL, "name": "Model", "category": "model", "type": "select",
                "currentValue": model, "options": [{"value": model, "name": model}],
            }),
        ]
    }

    /// Returns modes and options together, for the answer that opens a session.
    pub(crate) fn opened(&self) -> Value {
        json!({"modes": self.modes(), "configOptions": self.config_options()})
    }

    /// Reads a change of an option: the new mode, or none when it is what it was.
    pub(crate) fn change(&self, option: &str, value: &Value) -> Result<Option<Mode>, Refusal> {
        match (option, value.as_str()) {
            (MODE, Some(word)) => mode_of(word).map(Some),
            (MODEL, Some(model)) if model == self.model => Ok(None),
            (MODEL, _) => Err(Refusal::params(
                "the model of a session is chosen when it is created: plexus acp --model MODEL",
            )),
            _ => Err(Refusal::params(format!("there is no option {option:?} with such a value"))),
        }
    }
}

/// Reads the word of a mode.
pub(crate) fn mode_of(word: &str) -> Result<Mode, Refusal> {
    let known = MODES.iter().find(|(_, id, ..)| *id == word).map(|(mode, ..)| *mode);
    known.ok_or_else(|| Refusal::params(format!("there is no mode {word:?}")))
}

/// Returns the parameters of the call that sets a mode.
pub(crate) fn setting(session: SessionId, mode: Mode) -> Result<ModeSetParams, Refusal> {
    let secs = if mode == Mode::Ask { ASK_SECS } else { MODE_SECS };
    let secs = ModeSecs::try_from(secs).map_err(|error| Refusal::failed(error.to_string()))?;
    Ok(ModeSetParams::new(session, mode, secs))
}

/// Returns how long a mode holds from now on; `ask` for ever.
pub(crate) fn lasts(mode: Mode) -> Option<std::time::Duration> {
    (mode != Mode::Ask).then(|| std::time::Duration::from_secs(MODE_SECS))
}

fn word_of(mode: Mode) -> &'static str {
    MODES.iter().find(|(known, ..)| *known == mode).map_or("ask", |(_, word, ..)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_and_the_model_are_options_of_one_truth() {
        let options = Options { mode: Mode::AcceptEdits, model: "m".into() };
        let shown = options.config_options();
        assert_eq!(shown[0]["currentValue"], options.modes()["currentModeId"]);
        assert_eq!(options.change("mode", &json!("ask")), Ok(Some(Mode::Ask)));
        assert_eq!(options.change("model", &json!("m")), Ok(None));
        for (option, value) in [
            ("mode", json!("yolo")),
            ("model", json!("n")),
            ("speed", json!("x")),
            ("mode", json!(1)),
        ] {
            assert!(options.change(option, &value).is_err(), "{option} {value}");
        }
    }
}
