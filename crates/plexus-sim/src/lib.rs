//! A scripted stand-in for the claude CLI: same flags, same stream-json, asks permission like the real one.
