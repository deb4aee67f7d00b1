//! `system` lines, by subtype.
//!
//! Subtypes that we have seen in recordings have the fields seen there. The others
//! (`compact_boundary` and those after it below) come from the vendor's type definitions, so any
//! field may be missing. A subtype that is not listed is [`SystemEvent::Other`].

use agent_lines::json::{FromJson, RawJson, Text, Value};
use agent_lines::json_object;

/// Turns the list of subtypes into the enum, its reader and its names, so that the three always
/// agree.
macro_rules! system_events {
    ($( $(#[$meta:meta])* $variant:ident($type:ty) = $subtype:literal, )*) => {
        /// A `system` line, by its subtype.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum SystemEvent {
            $( $(#[$meta])* $variant(Box<$type>), )*
            /// Any other subtype; the whole line is in the event's raw JSON.
            Other {
                /// The subtype, if it has one.
                subtype: Option<Text>,
            },
        }

        impl SystemEvent {
            /// Reads a `system` line of that subtype.
            pub(super) fn read(line: Value<'_>, subtype: Option<Value<'_>>) -> Self {
                let name = subtype.and_then(Value::as_str);
                let known = match name.as_deref().unwrap_or_default() {
                    $( $subtype => FromJson::from_json(line).map(Self::$variant), )*
                    _ => None,
                };
                known.unwrap_or_else(|| Self::Other { subtype: subtype.and_then(Value::text) })
            }

            /// Returns the subtype.
            pub fn subtype(&self) -> Option<&str> {
                match self {
                    $( Self::$variant(_) => Some($subtype), )*
                    Self::Other { subtype } => subtype.as_deref(),
                }
            }
        }
    };
}

system_events! {
    /// A turn begins: the capabilities of the session.
    Init(SystemInit) = "init",
    /// The current activity of the CLI.
    Status(SystemStatus) = "status",
    /// A request to the API failed and will be retried.
    ApiRetry(ApiRetry) = "api_retry",
    /// A tool was refused without asking anybody.
    PermissionDenied(PermissionDenied) = "permission_denied",
    /// A background task began.
    TaskStarted(TaskStarted) = "task_started",
    /// Progress of a background task.
    TaskProgress(TaskProgress) = "task_progress",
    /// A background task's record changed.
    TaskUpdated(TaskUpdated) = "task_updated",
    /// A background task ended.
    TaskNotification(TaskNotification) = "task_notification",
    /// All open background tasks.
    BackgroundTasksChanged(BackgroundTasksChanged) = "background_tasks_changed",
    /// A hook began.
    HookStarted(Hook) = "hook_started",
    /// Progress of a hook.
    HookProgress(Hook) = "hook_progress",
    /// A hook ended.
    HookResponse(Hook) = "hook_response",
    /// The session runs, waits for an answer, or is idle.
    SessionStateChanged(SessionStateChanged) = "session_state_changed",
    /// An estimate of how much the model has thought.
    ThinkingTokens(ThinkingTokens) = "thinking_tokens",
    /// Information for a person.
    Informational(Notice) = "informational",
    /// The session has a new title.
    SessionTitleChanged(SessionTitleChanged) = "session_title_changed",
    /// A user interface should redraw.
    UiInvalidate(UiInvalidate) = "ui_invalidate",
    /// Older parts of the conversation were summarised.
    CompactBoundary(CompactBoundary) = "compact_boundary",
    /// The output of a local command of the CLI.
    LocalCommandOutput(LocalCommandOutput) = "local_command_output",
    /// A plugin is being installed.
    PluginInstall(PluginInstall) = "plugin_install",
    /// Files were saved.
    FilesPersisted(FilesPersisted) = "files_persisted",
    /// Memories were recalled.
    MemoryRecall(MemoryRecall) = "memory_recall",
    /// A question of an MCP server was answered.
    ElicitationComplete(ElicitationComplete) = "elicitation_complete",
    /// The mirror of the session could not be written.
    MirrorError(Notice) = "mirror_error",
    /// Information for a person.
    Notification(Notice) = "notification",
}

json_object! {
    /// The capabilities of the session, at the start of each turn.
    pub struct SystemInit {
        /// The working directory.
        cwd: Option<Text> = "cwd",
        /// Tools of the model.
        tools: Vec<Text> = "tools",
        /// MCP servers and whether they are connected.
        mcp_servers: Vec<McpServer> = "mcp_servers",
        /// The model.
        model: Option<Text> = "model",
        /// The permission mode.
        permission_mode: Option<Text> = "permissionMode",
        /// Slash commands.
        slash_commands: Vec<Text> = "slash_commands",
        /// Where the API key comes from.
        api_key_source: Option<Text> = "apiKeySource",
        /// The CLI's version.
        claude_code_version: Option<Text> = "claude_code_version",
        /// The output style.
        output_style: Option<Text> = "output_style",
        /// Subagents.
        agents: Vec<Text> = "agents",
        /// Skills.
        skills: Vec<Text> = "skills",
        /// Plugins.
        plugins: Vec<Plugin> = "plugins",
        /// The CLI's capabilities beyond the base protocol.
        capabilities: Vec<Text> = "capabilities",
        /// Directories besides the working directory.
        additional_directories: Vec<Text> = "additional_directories",
        /// The prompts this turn answers.
        user_message_uuids: Vec<Text> = "user_message_uuids",
    }

    /// An MCP server as the CLI sees it.
    pub struct McpServer {
        /// Its name in the configuration.
        name: Option<Text> = "name",
        /// `connected`, `failed` or `pending`.
        status: Option<Text> = "status",
        /// The configuration that named it.
        source: Option<Text> = "source",
    }

    /// A plugin of the CLI.
    pub struct Plugin {
        /// Its name.
        name: Option<Text> = "name",
        /// Its path.
        path: Option<Text> = "path",
        /// Its source.
        source: Option<Text> = "source",
    }

    /// The current activity of the CLI.
    pub struct SystemStatus {
        /// `requesting`, `compacting`, …; `None` when the activity is over.
        status: Option<Text> = "status",
        /// The permission mode, if it changed.
        permission_mode: Option<Text> = "permissionMode",
        /// How a compaction of the conversation ended.
        compact_result: Option<Text> = "compact_result",
        /// Why the compaction failed.
        compact_error: Option<Text> = "compact_error",
    }

    /// A failed request to the API that will be retried.
    pub struct ApiRetry {
        /// The number of this attempt.
        attempt: Option<u64> = "attempt",
        /// The maximum number of retries.
        max_retries: Option<u64> = "max_retries",
        /// The delay before the next attempt.
        retry_delay_ms: Option<f64> = "retry_delay_ms",
        /// The HTTP status.
        error_status: Option<i64> = "error_status",
        /// The kind of failure.
        error: Option<Text> = "error",
    }

    /// A tool that was refused without asking anybody.
    pub struct PermissionDenied {
        /// The tool.
        tool_name: Option<Text> = "tool_name",
        /// The call.
        tool_use_id: Option<Text> = "tool_use_id",
        /// The kind of reason.
        decision_reason_type: Option<Text> = "decision_reason_type",
        /// The reason.
        decision_reason: Option<Text> = "decision_reason",
        /// The message that the model gets.
        message: Option<Text> = "message",
    }

    /// A background task that began.
    pub struct TaskStarted {
        /// The task.
        task_id: Option<Text> = "task_id",
        /// This run of it.
        run_id: Option<Text> = "run_id",
        /// The call that started it.
        tool_use_id: Option<Text> = "tool_use_id",
        /// What the task does.
        description: Option<Text> = "description",
        /// `local_bash`, `local_agent`, …
        task_type: Option<Text> = "task_type",
        /// Whether it runs in the background from the start.
        is_backgrounded: Option<bool> = "is_backgrounded",
        /// The subagent's kind.
        subagent_type: Option<Text> = "subagent_type",
        /// The prompt of the subagent.
        prompt: Option<Text> = "prompt",
        /// The number of subagents above it.
        spawn_depth: Option<u64> = "spawn_depth",
    }

    /// Progress of a background task.
    pub struct TaskProgress {
        /// The task.
        task_id: Option<Text> = "task_id",
        /// This run of it.
        run_id: Option<Text> = "run_id",
        /// The call that started it.
        tool_use_id: Option<Text> = "tool_use_id",
        /// What the task does now.
        description: Option<Text> = "description",
        /// The subagent's kind.
        subagent_type: Option<Text> = "subagent_type",
        /// The last tool it used.
        last_tool_name: Option<Text> = "last_tool_name",
        /// Its usage so far.
        usage: Option<TaskUsage> = "usage",
    }

    /// A change of a background task's record.
    pub struct TaskUpdated {
        /// The task.
        task_id: Option<Text> = "task_id",
        /// This run of it.
        run_id: Option<Text> = "run_id",
        /// The fields that changed.
        patch: Option<RawJson> = "patch",
    }

    /// A background task that ended.
    pub struct TaskNotification {
        /// The task.
        task_id: Option<Text> = "task_id",
        /// This run of it.
        run_id: Option<Text> = "run_id",
        /// The call that started it.
        tool_use_id: Option<Text> = "tool_use_id",
        /// `completed`, `failed`, `stopped`, …
        status: Option<Text> = "status",
        /// The file with its output.
        output_file: Option<Text> = "output_file",
        /// A summary of its result.
        summary: Option<Text> = "summary",
        /// Its total usage.
        usage: Option<TaskUsage> = "usage",
    }

    /// The usage of a background task.
    pub struct TaskUsage {
        /// Tokens.
        total_tokens: Option<u64> = "total_tokens",
        /// Tool calls.
        tool_uses: Option<u64> = "tool_uses",
        /// Time.
        duration_ms: Option<u64> = "duration_ms",
    }

    /// The open background tasks. An empty list comes before the turn that a finished task starts
    /// by itself.
    pub struct BackgroundTasksChanged {
        /// All of them.
        tasks: Vec<BackgroundTask> = "tasks",
    }

    /// One open background task.
    pub struct BackgroundTask {
        /// The task.
        task_id: Option<Text> = "task_id",
        /// This run of it.
        run_id: Option<Text> = "run_id",
        /// `local_bash`, `local_agent`, …
        task_type: Option<Text> = "task_type",
        /// What it does.
        description: Option<Text> = "description",
        /// The subagent's kind.
        subagent_type: Option<Text> = "subagent_type",
    }

    /// A hook that runs or has run.
    pub struct Hook {
        /// This run of the hook.
        hook_id: Option<Text> = "hook_id",
        /// The hook.
        hook_name: Option<Text> = "hook_name",
        /// The event that the hook reacts to.
        hook_event: Option<Text> = "hook_event",
        /// Its output, both streams.
        output: Option<Text> = "output",
        /// Its standard output.
        stdout: Option<Text> = "stdout",
        /// Its standard error.
        stderr: Option<Text> = "stderr",
        /// Its exit code.
        exit_code: Option<i64> = "exit_code",
        /// `success`, `error`, `cancelled`, …
        outcome: Option<Text> = "outcome",
    }

    /// The session's state (with `CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS=1`).
    pub struct SessionStateChanged {
        /// `running`, `requires_action` or `idle`.
        state: Option<Text> = "state",
    }

    /// An estimate of the tokens that the model spent on thinking.
    pub struct ThinkingTokens {
        /// The tokens so far.
        estimated_tokens: Option<u64> = "estimated_tokens",
        /// The tokens since the last such line.
        estimated_tokens_delta: Option<u64> = "estimated_tokens_delta",
    }

    /// Information for a person.
    pub struct Notice {
        /// The text.
        content: Option<Text> = "content",
        /// The text, under the name that some of these lines use.
        message: Option<Text> = "message",
        /// Its severity.
        level: Option<Text> = "level",
        /// A heading.
        title: Option<Text> = "title",
        /// The error.
        error: Option<Text> = "error",
    }

    /// A new title of the session.
    pub struct SessionTitleChanged {
        /// The title.
        title: Option<Text> = "title",
    }

    /// A hint that a user interface should redraw.
    pub struct UiInvalidate {
        /// The part to redraw.
        target: Option<Text> = "target",
    }

    /// The place where a summary replaced older parts of the conversation.
    pub struct CompactBoundary {
        /// Details of the compaction.
        compact_metadata: Option<CompactMetadata> = "compact_metadata",
    }

    /// Why and when a conversation was summarised.
    pub struct CompactMetadata {
        /// `manual` or `auto`.
        trigger: Option<Text> = "trigger",
        /// Tokens before.
        pre_tokens: Option<u64> = "pre_tokens",
        /// Tokens after.
        post_tokens: Option<u64> = "post_tokens",
    }

    /// The output of a local command of the CLI.
    pub struct LocalCommandOutput {
        /// The output.
        content: Option<Text> = "content",
    }

    /// The installation of a plugin.
    pub struct PluginInstall {
        /// The plugin.
        name: Option<Text> = "name",
        /// The status of the installation.
        status: Option<Text> = "status",
        /// The error.
        error: Option<Text> = "error",
    }

    /// Files that were saved.
    pub struct FilesPersisted {
        /// The saved files.
        files: Option<RawJson> = "files",
        /// The files that could not be saved.
        failed: Option<RawJson> = "failed",
    }

    /// Memories that were recalled.
    pub struct MemoryRecall {
        /// The memories, in the CLI's own form.
        memories: Option<RawJson> = "memories",
    }

    /// A question of an MCP server that was answered.
    pub struct ElicitationComplete {
        /// The server.
        mcp_server_name: Option<Text> = "mcp_server_name",
        /// The question.
        elicitation_id: Option<Text> = "elicitation_id",
    }
}
