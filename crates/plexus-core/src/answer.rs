//! One answer of a method, and the change that takes effect when it is given.
//!
//! A door may refuse an answer for which it has no room. A method that had already changed
//! something (a reader's position, say) would then have lost the answer. Such a change is therefore
//! part of the [`Answer`], and a door makes it only after it has accepted the answer.

use futures::future::BoxFuture;
use plexus_wire::CallError;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::method::raw;

/// The change that takes effect when an answer is given. When it fails, the caller gets its error
/// instead of the answer.
pub type OnGiven = BoxFuture<'static, Result<(), CallError>>;

/// An answer that was not given yet.
#[must_use = "an answer that is dropped was not given, and the change that comes with it is not \
    made"]
pub struct Answer {
    value: Box<RawValue>,
    on_given: Option<OnGiven>,
}

impl Answer {
    /// Serialises `result`. `on_given` is awaited when a door gives the answer, and dropped when it
    /// does not.
    ///
    /// # Errors
    /// `internal` when the result cannot be represented as JSON.
    pub fn new(result: &impl Serialize, on_given: Option<OnGiven>) -> Result<Self, CallError> {
        Ok(Self { value: raw(result)?, on_given })
    }

    /// Returns the length of the answer in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.value.get().len()
    }

    /// Replaces the change that comes with the answer, if one does.
    pub(crate) fn map_change(self, map: impl FnOnce(OnGiven) -> OnGiven) -> Self {
        Self { value: self.value, on_given: self.on_given.map(map) }
    }

    /// Makes the change that comes with the answer, and returns the answer. Call this when nothing
    /// can refuse the answer any more.
    ///
    /// # Errors
    /// The error of the change; then the change was not made.
    pub async fn give(self) -> Result<Box<RawValue>, CallError> {
        if let Some(on_given) = self.on_given {
            on_given.await?;
        }
        Ok(self.value)
    }
}

impl From<Box<RawValue>> for Answer {
    /// Makes an answer that changes nothing when it is given.
    fn from(value: Box<RawValue>) -> Self {
        Self { value, on_given: None }
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}
