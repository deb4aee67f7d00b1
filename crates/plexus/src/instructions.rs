//! What an MCP client is told about the whole server, before it calls anything: the flow, in a few lines, written for a model.

/// The instructions.
pub(crate) const INSTRUCTIONS: &str = "\
Plexus runs sessions of coding agents (Claude Code, Codex and others; agents_kinds lists them) for you and lets you answer their permission requests.
1. agents_create {name, working_dir} makes a session; agents_chat_async {name, prompt} starts work and returns at once.
2. agents_wait {after, wait_ms: 30000} tells which of your sessions changed: status, pending requests and the newest line. Hand back its `after` \
next time. Use agents_poll {session_id, wait_ms} when you need a session's events in full.
3. A session that wants a tool stands still (status awaiting_permission) until you answer: loopback_pending lists what waits, with the whole input; \
loopback_respond {approval_id, approve, input_digest} answers it. Read the input before you approve; copy input_digest from what you read. To change what runs, \
pass updated_input; to refuse, approve: false and a message that says why. What you may not decide goes to the operator: keep waiting.
4. The same kind of request again and again: loopback_respond with remember, or loopback_rule_add.
5. A chat ends complete, failed or cancelled. Another agents_chat_async continues the conversation; agents_cancel stops it; agents_delete removes it.
Never wait inside a prompt for a child that waits for you: poll, answer, poll again.";
