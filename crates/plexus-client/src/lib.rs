//! Typed client of the doors, with reconnect and cursors.
