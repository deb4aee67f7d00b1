//! The vocabulary of Plexus: ids, handles, activations, hubs, callers and resolution; no I/O.
