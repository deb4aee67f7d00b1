//! How an event of the wire becomes a row of the store.

use plexus_store::{JsonText, NewEvent, StoreError};
use plexus_wire::ChatEvent;

use crate::scrub;

/// Makes the row of an event.
pub(crate) trait ToNewEvent {
    /// Makes the row that happens now, with tokens of ours scrubbed from what a child printed.
    ///
    /// # Errors
    /// When it cannot be JSON, which these types rule out.
    fn to_new_event(&self) -> Result<NewEvent, StoreError>;
}

impl ToNewEvent for ChatEvent {
    fn to_new_event(&self) -> Result<NewEvent, StoreError> {
        let body = scrub::json(JsonText::of(self)?);
        Ok(NewEvent::now(self.type_name(), body))
    }
}
