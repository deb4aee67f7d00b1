//! How an event of the wire becomes a row of the store.

use plexus_store::{JsonText, NewEvent, StoreError};
use plexus_wire::ChatEvent;

use crate::scrub;

/// Makes the row of an event.
pub trait ToNewEvent {
    /// Makes the row, with the present time, and with our tokens removed from what a child printed.
    /// A permission request is not changed: its input holds no token, and its reader must see
    /// exactly what would be sent.
    ///
    /// # Errors
    /// When it cannot be JSON, which these types rule out.
    fn to_new_event(&self) -> Result<NewEvent, StoreError>;
}

impl ToNewEvent for ChatEvent {
    fn to_new_event(&self) -> Result<NewEvent, StoreError> {
        let body = JsonText::of(self)?;
        let body = match self {
            Self::AwaitingApproval { .. } | Self::ToolRequest { .. } => body,
            _ => scrub::json(body),
        };
        Ok(NewEvent::now(self.type_name(), body))
    }
}
