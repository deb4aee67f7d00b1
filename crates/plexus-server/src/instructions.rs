//! What an MCP client is told about the whole server, before it calls anything: the flow, in a few
//! lines, written for a model.

/// The instructions.
pub(crate) const INSTRUCTIONS: &str = "\
Plexus runs sessions of coding agents (Claude Code, Codex and others) for you and lets you answer \
their permission requests.
1. agents_create {name, working_dir} makes a session; agents_chat_async {name, prompt} starts \
work and returns at once.
2. loopback_wait_for_approval {after: 0, wait_ms: 50000} waits until a session asks or ends. \
`approvals` are the requests that wait, with the whole input; \
`ended` are sessions that ended, with their last answer. Hand back its `after` next time; on type \
timeout call it again.
3. loopback_respond {approval_id, approve, input_digest} answers a request; its session stands \
still until then. Read the input before you approve; copy input_digest \
from what you read. To change what runs, pass updated_input; to refuse, approve: false and a \
message that says why. What you may not decide goes to the operator: \
meanwhile agents_poll {session_id, wait_ms} waits for that session.
4. The same kind of request again and again: loopback_respond with remember.
5. A chat ends complete, failed or cancelled. agents_get shows the whole last answer, agents_poll \
everything that happened. Another agents_chat_async continues \
the conversation; agents_cancel stops it; agents_delete removes it.
Everything else (list and fork sessions, steer a running chat, other agents, rules) is a method \
of plexus_call; plexus_methods lists them.
Never wait inside a prompt for a child that waits for you: wait, answer, wait again.";
