//! The plexus binary: configuration, wiring, command line, dashboard and shutdown.
