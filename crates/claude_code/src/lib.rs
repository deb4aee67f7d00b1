//! Runs the Claude Code CLI and yields its stream-json as typed events while the child lives.
