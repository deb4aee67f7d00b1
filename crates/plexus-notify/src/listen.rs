//! Presses of buttons that come back through a service's own connection: what every such service
//! needs to decide with them.

use std::sync::Arc;
use std::time::Duration;

use plexus_core::{Answers as _, CallError, SecretToken};
use plexus_engine::hooks::HookAnswers;
use plexus_wire::HookAnswer;

use crate::message::standing;
use crate::stats::HookStats;

/// The longest rest after a service could not be listened to.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What listens for one receiver.
#[derive(Clone)]
pub(crate) struct Listening {
    pub(crate) receiver: String,
    pub(crate) answers: Arc<HookAnswers>,
    pub(crate) stats: Arc<HookStats>,
    pub(crate) timeout: Duration,
}

/// What a press did, in words for the person who pressed.
pub(crate) enum Heard {
    /// It decided.
    Decided(String),
    /// It was decided before, or its time has passed.
    Stands(String),
    /// It did nothing.
    Nothing(String),
}

impl Heard {
    /// A press that did nothing.
    pub(crate) fn no(error: &CallError) -> Self {
        Self::Nothing(standing(error))
    }

    pub(crate) fn words(&self) -> &str {
        match self {
            Self::Decided(words) | Self::Stands(words) | Self::Nothing(words) => words,
        }
    }
}

impl Listening {
    /// Decides with the one-time token of a button, as `POST /hooks/respond` does.
    pub(crate) async fn decide(&self, token: &SecretToken, approve: bool) -> Heard {
        let answer = HookAnswer::new(token.expose(), approve);
        let Ok(body) = serde_json::to_vec(&answer) else {
            return Heard::Nothing("Could not read this button.".to_owned());
        };
        match self.answers.answer(&body).await {
            Ok(done) => {
                Heard::Decided(format!("It is {}.", done["status"].as_str().unwrap_or("decided")))
            }
            Err(error) if error.standing.is_some() => Heard::Stands(standing(&error)),
            Err(error) => Heard::no(&error),
        }
    }

    /// Notes a press of somebody who may not decide.
    pub(crate) async fn stranger(&self, who: &str) -> Heard {
        tracing::warn!(
            receiver = self.receiver,
            who,
            "somebody who may not decide pressed a button"
        );
        let error = CallError::unauthorized(format_args!(
            "let {who} decide: they are not in the list of users"
        ));
        self.answers.refused(&self.receiver, &error).await;
        Heard::Nothing("You may not decide here.".to_owned())
    }

    /// Notes that the service can be listened to.
    pub(crate) fn hears(&self) {
        if self.stats.hears(&self.receiver) {
            tracing::info!(receiver = self.receiver, "its buttons can be heard");
        }
    }

    /// Notes that it cannot.
    pub(crate) fn cannot_hear(&self, why: &str) {
        if self.stats.deaf(&self.receiver, why) {
            tracing::warn!(
                receiver = self.receiver,
                why,
                "its buttons cannot be heard; trying again"
            );
        }
    }
}

/// Rests that grow, for a service that cannot be listened to.
#[derive(Default)]
pub(crate) struct Pause(u32);

impl Pause {
    pub(crate) async fn wait(&mut self) {
        let rest = Duration::from_secs(1).saturating_mul(1 << self.0.min(8)).min(LONGEST_PAUSE);
        self.0 = self.0.saturating_add(1);
        tokio::time::sleep(rest).await;
    }
}
