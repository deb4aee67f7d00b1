//! Who may call. A [`Caller`] is derived from a token only, and each method names the kinds of
//! caller it is for.

use plexus_wire::Caller;

/// Which kinds of caller a method is for. Others neither see it listed nor may call it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Audience {
    /// The operator only.
    Operator,
    /// The operator and sessions; the method decides what a session may touch.
    Parents,
    /// The CLI process of a session only.
    Child,
    /// Everybody with a token but devices, for which
    /// [`devices`](crate::MethodDescriptor::devices) speaks.
    Everyone,
}

impl Audience {
    /// Returns whether `caller` belongs to this audience.
    #[must_use]
    pub fn admits(self, caller: &Caller) -> bool {
        match (self, caller) {
            (Self::Everyone, Caller::Operator | Caller::Session(_) | Caller::Child(_)) => true,
            (Self::Operator | Self::Parents, Caller::Operator) => true,
            (Self::Parents, Caller::Session(_)) => true,
            (Self::Child, Caller::Child(_)) => true,
            (Self::Operator, Caller::Session(_) | Caller::Child(_)) => false,
            (Self::Parents, Caller::Child(_)) => false,
            (Self::Child, Caller::Operator | Caller::Session(_)) => false,
            // A method says itself that it is for devices too: what nobody thought of is not.
            (_, Caller::Device(_)) => false,
        }
    }
}
