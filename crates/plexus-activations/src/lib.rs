//! What the hub can do: claudecode, loopback, arbor and health.
