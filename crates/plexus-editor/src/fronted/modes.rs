//! The mode and the options of a session, set by this editor or by somebody else.

use acp_lines::serve::{Mode as ModeUpdate, Options as OptionsUpdate, Update};
use acp_lines::{RequestId, ServedLine};
use plexus_client::wire::{Mode, Session, method};
use serde_json::json;

use super::Fronted;
use crate::door::Cause;
use crate::hands::{Hands, Task};
use crate::options::{self, Options};
use crate::refusal::Refusal;
use plexus_render::screen::now_ms;

/// The request that sets a mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Via {
    /// `session/set_mode`.
    Mode,
    /// `session/set_config_option`.
    Option,
}

impl Fronted {
    /// Sets an option.
    pub(crate) async fn set_option(
        &mut self,
        request: RequestId,
        option: &str,
        value: &serde_json::Value,
        hands: &mut Hands,
    ) {
        match self.options.change(option, value) {
            Ok(Some(mode)) => self.set_mode(request, mode, Via::Option, hands).await,
            Ok(None) => self.mode_answer(request, Via::Option, hands).await,
            Err(refusal) => hands.say(&refusal.answer(request)).await,
        }
    }

    /// Sets the mode.
    pub(crate) async fn set_mode(
        &mut self,
        request: RequestId,
        mode: Mode,
        via: Via,
        hands: &mut Hands,
    ) {
        let params = match options::setting(self.id, mode) {
            Ok(params) => params,
            Err(refusal) => return hands.say(&refusal.answer(request)).await,
        };
        let (server, session) = (hands.server().clone(), self.id);
        hands.later(async move {
            let told = server.call::<method::loopback::ModeSet>(&params).await;
            let outcome = told.map(|_| mode).map_err(Refusal::from);
            Cause::ModeSet { session, request, via, outcome }
        });
    }

    /// Takes what became of a mode that was set.
    pub(crate) async fn mode_set(
        &mut self,
        request: RequestId,
        via: Via,
        outcome: Result<Mode, Refusal>,
        hands: &mut Hands,
    ) {
        let mode = match outcome {
            Ok(mode) => mode,
            Err(refusal) => return hands.say(&refusal.answer(request)).await,
        };
        self.options = self.options.with_mode(mode);
        self.mode_answer(request, via, hands).await;
        // Editors may draw the mode in two ways. The one that was not used is updated too.
        let update = match via {
            Via::Mode => self.options_update(),
            Via::Option => self.mode_update(),
        };
        self.tell([update], hands).await;
        let (causes, session) = (hands.causes(), self.id);
        self.mode_ends = options::lasts(mode).map(|lasts| {
            Task::start(async move {
                tokio::time::sleep(lasts).await;
                // The door may have gone.
                let _gone = causes.send(Cause::ModeEnds { session }).await;
            })
        });
    }

    async fn mode_answer(&self, id: RequestId, via: Via, hands: &Hands) {
        let result = match via {
            Via::Mode => json!({}),
            Via::Option => json!({"configOptions": self.options.config_options()}),
        };
        hands.say(&ServedLine::Result { id, result }).await;
    }

    /// Tells the editor when somebody else has changed the mode, or it has ended.
    pub(super) async fn refresh(&mut self, session: &Session, hands: &Hands) {
        let options = Options::of(session, now_ms() / 1_000);
        if options != self.options {
            self.options = options;
            let updates = [self.mode_update(), self.options_update()];
            self.tell(updates, hands).await;
        }
    }

    fn mode_update(&self) -> Update {
        let current_mode_id = self.options.mode_id().to_owned();
        Update::CurrentModeUpdate(ModeUpdate { current_mode_id, ..ModeUpdate::default() })
    }

    fn options_update(&self) -> Update {
        let config_options = self.options.config_options();
        Update::ConfigOptionUpdate(OptionsUpdate { config_options, ..OptionsUpdate::default() })
    }
}
