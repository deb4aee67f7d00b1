//! The session's id: reported once, as soon as a line names it, and again at the end.

use serde_json::{Value, json};

use crate::{
    AgentWrapperEvent, AgentWrapperKind, bounds::MAX_SESSION_ID_BYTES, capabilities::SESSION_HANDLE,
};

/// The state of the session's id.
#[derive(Debug, Default)]
pub(crate) enum Session {
    #[default]
    Unknown,
    /// The id was reported.
    Told(String),
    /// The id is too long to be reported, and a cut id would be useless.
    TooLong,
}

impl Session {
    /// Records the id that a line names; returns the event that announces it, only once.
    pub(crate) fn note(&mut self, id: &str, kind: &AgentWrapperKind) -> Option<AgentWrapperEvent> {
        if !matches!(self, Self::Unknown) || id.trim().is_empty() {
            return None;
        }
        if id.len() > MAX_SESSION_ID_BYTES {
            *self = Self::TooLong;
            return Some(AgentWrapperEvent::status(
                kind,
                "the session's id is too long to be told",
            ));
        }
        *self = Self::Told(id.to_owned());
        Some(AgentWrapperEvent::status(kind, "the session is known").with_data(facet(id)))
    }

    /// Returns the facet of a session that was reported.
    pub(crate) fn facet(&self) -> Option<Value> {
        match self {
            Self::Told(id) => Some(facet(id)),
            Self::Unknown | Self::TooLong => None,
        }
    }
}

fn facet(id: &str) -> Value {
    json!({"schema": SESSION_HANDLE, "session": {"id": id}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind() -> AgentWrapperKind {
        AgentWrapperKind::new("test").unwrap()
    }

    #[test]
    fn an_id_is_told_once() {
        let mut session = Session::default();
        assert_eq!(session.note(" ", &kind()), None);
        let told = session.note("a", &kind()).unwrap();
        assert_eq!(told.data, session.facet());
        assert_eq!(session.note("a", &kind()), None);
        assert_eq!(session.note("b", &kind()), None);
        assert_eq!(session.facet().unwrap()["session"]["id"], "a");
    }

    #[test]
    fn an_id_that_is_too_long_is_one_warning_and_no_facet() {
        let mut session = Session::default();
        let long = "x".repeat(MAX_SESSION_ID_BYTES + 1);
        let warning = session.note(&long, &kind()).unwrap();
        assert_eq!(warning.data, None);
        assert_eq!(session.note(&long, &kind()), None);
        assert_eq!(session.facet(), None);
        let mut at_the_limit = Session::default();
        assert!(at_the_limit.note(&long[1..], &kind()).unwrap().data.is_some());
    }
}
