//! How the CLI is started: its arguments, its environment, and its MCP configuration. Pure, so that
//! tests can check every line.
//!
//! No shell is involved; on the control channel the prompt is never an argument.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use claude_code::MAX_PROMPT_ARGUMENT_BYTES;
use plexus_engine::driver::{
    Channel, Conversation, FirstPrompt, Launch, LaunchError, Plan, PlanFile, ProjectFiles, Say,
    Stdin,
};
use plexus_engine::mcp::{HUB_SERVER, PERMIT_SERVER, mcp_permit_server, mcp_server};
use plexus_engine::wall::{ConfigDir, ModelDoor, WallNeeds};
use plexus_wire::{AgentMcpServer, Confine, McpServer, ProjectSettings, Supervise};
use serde::Serialize;

use super::write;

/// Our permission tool, under the name that the CLI gives to a tool of [`PERMIT_SERVER`].
const PERMIT_TOOL: &str = "mcp__plexus__loopback_permit";

/// The flags with which a CLI that somebody else starts asks us.
pub(super) const PERMIT_FLAGS: &[&str] = &[
    "--strict-mcp-config",
    "--mcp-config",
    "FILE",
    "--permission-prompt-tool",
    PERMIT_TOOL,
    "--setting-sources",
    "user",
];

/// Makes the CLI read `CLAUDE.md` and `.claude/rules` of directories that are added on its command
/// line, though it reads no settings of the project.
const READ_INSTRUCTIONS: &str = "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD";

/// The files of a project that the CLI knows.
pub(super) const PROJECT_FILES: ProjectFiles = ProjectFiles {
    instructions: &["CLAUDE.md", ".claude/CLAUDE.md", ".claude/rules"],
    settings: &[
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".claude/agents",
        ".claude/commands",
        ".claude/skills",
        ".mcp.json",
        "CLAUDE.local.md",
    ],
};

/// The name of the MCP configuration in the run directory.
const MCP_CONFIG: &str = "mcp.json";

/// The variables of the CLI that a child inherits from the server, by name.
const INHERITED: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "CLAUDE_CONFIG_DIR",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_TELEMETRY",
    "DISABLE_AUTOUPDATER",
    "DISABLE_ERROR_REPORTING",
    "NODE_EXTRA_CA_CERTS",
];

/// Says what a wall around the CLI must provide. The CLI takes the address of its model from the
/// environment, so the real key stays outside; a login that it stores itself does not.
pub(crate) fn wall() -> WallNeeds {
    let login_hosts = ["api.anthropic.com", "platform.claude.com", "console.anthropic.com"];
    WallNeeds {
        config: Some(ConfigDir {
            variable: "CLAUDE_CONFIG_DIR",
            in_home: ".claude",
            read: &["settings.json", "CLAUDE.md", "agents", "commands", "skills", "output-styles"],
            logins: &[".credentials.json"],
            state: Some(".claude.json"),
            conversations: "projects",
            // The second ring keeps the CLI's commands out of this directory.
            starts_anew: false,
            commands_read: &["shell-snapshots", "session-env"],
        }),
        model: Some(ModelDoor {
            address: "ANTHROPIC_BASE_URL",
            default: "https://api.anthropic.com",
            keys: &["ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"],
        }),
        login_hosts: login_hosts.map(str::to_owned).to_vec(),
        // Each host of this traffic would need an approval of its own.
        env: &[("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"), ("DISABLE_AUTOUPDATER", "1")],
        shell_prefix: Some("CLAUDE_CODE_SHELL_PREFIX"),
        listens: false,
    }
}

/// Tools that no session gets: they let sessions of one user reach each other, begin turns by
/// themselves, show or send something elsewhere, add tools, or move the session's commands to
/// another directory than the one that rules judge them by. Most of them do not ask. The CLI takes
/// names that it does not know. (Plan mode is none of them: `disableAutoMode` keeps its commands
/// away from the CLI's classifier, so that they are asked about here.)
const NEVER: &[&str] = &[
    // Other sessions.
    "SendMessage",
    "ListAgents",
    // Turns that nobody prompted.
    "CronCreate",
    "CronDelete",
    "CronList",
    "ScheduleWakeup",
    "Monitor",
    "Workflow",
    "SetGoal",
    "ProposeGoal",
    "SubscribePR",
    // Another directory or machine.
    "EnterWorktree",
    "ExitWorktree",
    "Agent(isolation:worktree)",
    "Agent(isolation:remote)",
    "RemoteTrigger",
    // Something is shown or sent elsewhere.
    "PushNotification",
    "SendUserFile",
    "SendUserMessage",
    "SendFeedback",
    "Projects",
    "Artifact",
    "ClaudeDesign",
    "ReadNotifications",
    "OfferChromeSetup",
    "ShareOnboardingGuide",
    "ShowOnboardingRolePicker",
    // Offers of more tools.
    "propose_skills",
    "SearchMcpRegistry",
    "ListConnectors",
    "SuggestConnectors",
    "SearchPlugins",
    "ListPlugins",
    "SuggestPluginInstall",
    "SearchSkills",
    "ListSkills",
    "SuggestSkills",
];

/// Variables that no session may set: they add tools that begin turns, talk to other machines or
/// run other agents.
const FORBIDDEN_ENV: &[&str] = &[
    "CLAUDE_CODE_REMOTE",
    "CLAUDE_CODE_BRIEF",
    "CLAUDE_CODE_COORDINATOR_MODE",
    "CLAUDE_CODE_ENABLE_TASKS",
    "CLAUDE_CODE_ENABLE_TODO_TOOLS",
];

/// A hook that refuses to make a worktree. An agent definition may also ask for one (`isolation`),
/// which no rule about tools stops: its commands would then run in another directory than the one
/// that rules judge them by, and the permission request does not say so.
const REFUSE_WORKTREE: &str =
    "echo 'Plexus keeps subagents in the directory of their session' >&2; exit 1";

/// Tools that the CLI would run unasked in its default mode; `supervise: "all"` makes it ask.
const ASK_ABOUT_ALL: &[&str] = &[
    "Bash",
    "Read",
    "Glob",
    "Grep",
    "LS",
    "Edit",
    "Write",
    "NotebookEdit",
    "WebFetch",
    "WebSearch",
    "Task",
    "Agent",
    "Skill",
];

/// Says what to start.
pub(super) fn plan(launch: &Launch<'_>) -> Result<Plan, LaunchError> {
    let named = launch.config.env.keys().find(|name| FORBIDDEN_ENV.contains(&name.as_str()));
    if let Some(name) = named {
        return Err(LaunchError(format!(
            "{name} is not for a session to set: it decides which tools begin work unasked"
        )));
    }
    let (in_argv, stdin) = match (launch.channel, launch.prompt) {
        // A woken process asks about the parked call by itself.
        (Channel::Control, None) if wakes(launch).is_some() => (None, Stdin::Lines(Vec::new())),
        // A process that is started early waits for its prompt. This question makes it prepare now
        // what it would otherwise prepare in its first turn.
        (Channel::Control, None) => (None, Stdin::Lines(write::lines(&Say::WhatIsOpen))),
        (Channel::Control, Some(FirstPrompt { id, text, images })) => {
            (None, Stdin::Lines(write::lines(&Say::Prompt { id, text, images })))
        }
        (Channel::Mcp, None) => {
            return Err(LaunchError("over MCP it cannot start without a prompt".to_owned()));
        }
        (Channel::Mcp, Some(prompt)) if !prompt.images.is_empty() => {
            let why = "images of a prompt need the control channel, and this session asks over MCP";
            return Err(LaunchError(why.to_owned()));
        }
        (Channel::Mcp, Some(prompt)) if prompt.text.len() <= MAX_PROMPT_ARGUMENT_BYTES => {
            (Some(prompt.text), Stdin::Nothing)
        }
        (Channel::Mcp, Some(prompt)) => (None, Stdin::Text(prompt.text.to_owned())),
    };
    let mcp_config = mcp_config(launch)?;
    let path = mcp_config.is_some().then(|| launch.run_dir.join(MCP_CONFIG));
    let args = arguments(launch, path.as_deref(), in_argv)?;
    let files =
        mcp_config.into_iter().map(|content| PlanFile { name: MCP_CONFIG.to_owned(), content });
    Ok(Plan {
        args,
        home: None,
        inherited: INHERITED.iter().map(|&name| name.to_owned()).collect(),
        env: environment(launch),
        files: files.collect(),
        stdin,
    })
}

/// The MCP configuration: the servers that the session was given, one for permission requests, and
/// one for supervising children of its own.
fn mcp_config(launch: &Launch<'_>) -> Result<Option<String>, LaunchError> {
    let given = launch.config.mcp_servers.iter();
    let mut servers: BTreeMap<&str, CliServer<'_>> =
        given.map(|(name, server)| (name.as_str(), CliServer::Given(server))).collect();
    if let Some(door) = &launch.permit_door {
        let server = mcp_permit_server(&door.url, &door.token);
        servers.insert(PERMIT_SERVER, CliServer::Ours(server));
    }
    if let Some(door) = &launch.hub_door {
        servers.insert(HUB_SERVER, CliServer::Ours(mcp_server(&door.url, &door.token)));
    }
    if servers.is_empty() {
        return Ok(None);
    }
    as_json(&CliMcpConfig { mcp_servers: servers }).map(Some)
}

/// The MCP servers of a run, as `--mcp-config` takes them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CliMcpConfig<'a> {
    mcp_servers: BTreeMap<&'a str, CliServer<'a>>,
}

/// One of them. A server that the session was given is passed on in the form that callers write.
#[derive(Serialize)]
#[serde(untagged)]
enum CliServer<'a> {
    Ours(McpServer),
    Given(&'a AgentMcpServer),
}

fn as_json(value: &impl Serialize) -> Result<String, LaunchError> {
    serde_json::to_string(value)
        .map_err(|error| LaunchError(format!("its configuration could not be written: {error}")))
}

/// The arguments for the CLI.
fn arguments(
    launch: &Launch<'_>,
    mcp_config: Option<&Path>,
    prompt: Option<&str>,
) -> Result<Vec<OsString>, LaunchError> {
    let mut args: Vec<OsString> =
        ["--print", "--output-format", "stream-json", "--verbose", "--strict-mcp-config"]
            .map(Into::into)
            .into();
    let mut flag =
        |name: &str, value: &str| args.extend([OsString::from(name), OsString::from(value)]);
    if launch.channel == Channel::Control {
        flag("--input-format", "stream-json");
    }
    if launch.config.loopback_enabled {
        flag("--permission-prompt-tool", permission_tool(launch.channel));
    }
    flag(
        "--setting-sources",
        match launch.config.project_settings {
            ProjectSettings::Ignore | ProjectSettings::Instructions => "user",
            ProjectSettings::Trust => "user,project,local",
        },
    );
    if let Some(model) = &launch.config.model {
        flag("--model", model);
    }
    if let Some(prompt) = &launch.config.system_prompt {
        flag("--append-system-prompt", prompt);
    }
    match &launch.conversation {
        Conversation::New => {}
        Conversation::Resume(id) | Conversation::Wake { id, .. } => flag("--resume", id),
        Conversation::Fork { of, up_to } => {
            flag("--resume", of);
            if let Some(message) = up_to {
                flag("--resume-session-at", &message.to_string());
            }
        }
    }
    let never: Vec<&str> = NEVER
        .iter()
        .copied()
        .chain(launch.config.disallowed_tools.iter().map(String::as_str))
        .collect();
    flag("--disallowedTools", &never.join(","));
    flag("--settings", &as_json(&settings(launch))?);
    if let Some(turns) = launch.config.budget.and_then(|budget| budget.turns) {
        // A second limit besides our own count, which sees a turn only when it is over.
        flag("--max-turns", &turns.to_string());
    }
    // With [`READ_INSTRUCTIONS`], the CLI reads the instructions of added directories, and nothing
    // else of them.
    let own = launch.reads_instructions.then_some(&launch.config.working_dir);
    for dir in own.into_iter().chain(&launch.config.add_dirs) {
        args.extend([OsString::from("--add-dir"), dir.clone().into_os_string()]);
    }
    if let Some(path) = mcp_config {
        args.extend([OsString::from("--mcp-config"), path.as_os_str().to_owned()]);
    }
    if launch.live_text {
        args.push("--include-partial-messages".into());
    }
    if launch.channel == Channel::Control {
        args.push("--replay-user-messages".into());
    }
    if matches!(launch.conversation, Conversation::Fork { .. }) {
        args.push("--fork-session".into());
    }
    if let Some(prompt) = prompt {
        args.extend([OsString::from("--"), OsString::from(prompt)]);
    }
    Ok(args)
}

/// Settings of ours for the CLI: its own classifier never decides, no subagent gets a worktree,
/// nobody else begins a turn, and with `supervise: "all"` everything is asked.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CliSettings<'a> {
    hooks: CliHooks,
    permissions: CliPermissions<'a>,
    /// Whether other sessions of the user may prompt this one. The CLI opens an inbox for them, also
    /// when `SendMessage` is taken away.
    cross_session_inbound: &'static str,
    disable_workflows: bool,
    disable_agent_view: bool,
    disable_remote_control: bool,
    enable_artifact: bool,
    /// Whether a page is fetched without the CLI's request to its vendor about the host, which a
    /// wall blocks.
    #[serde(rename = "skipWebFetchPreflight", skip_serializing_if = "std::ops::Not::not")]
    skip_preflight: bool,
}

#[derive(Serialize)]
struct CliHooks {
    #[serde(rename = "WorktreeCreate")]
    worktree_create: [HookGroup; 1],
}

#[derive(Serialize)]
struct HookGroup {
    hooks: [CommandHook; 1],
}

#[derive(Serialize)]
struct CommandHook {
    r#type: &'static str,
    command: &'static str,
}

#[derive(Serialize)]
struct CliPermissions<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    ask: Option<Vec<&'a str>>,
    #[serde(rename = "disableAutoMode")]
    disable_auto_mode: &'static str,
}

/// The tool of the call that a woken process asks about.
fn wakes<'a>(launch: &'a Launch<'_>) -> Option<&'a str> {
    match &launch.conversation {
        Conversation::Wake { tool_name, .. } => Some(tool_name),
        Conversation::New | Conversation::Resume(_) | Conversation::Fork { .. } => None,
    }
}

fn settings<'a>(launch: &'a Launch<'_>) -> CliSettings<'a> {
    let all = (launch.config.supervise == Supervise::All).then_some(ASK_ABOUT_ALL);
    // A woken process does not wait for input. Without this rule it would run a call that the CLI
    // allows by itself, unasked.
    let tools = all.into_iter().flatten().copied().chain(wakes(launch));
    let ask = Some(tools.collect::<Vec<_>>()).filter(|tools| !tools.is_empty());
    let refuse = CommandHook { r#type: "command", command: REFUSE_WORKTREE };
    CliSettings {
        hooks: CliHooks { worktree_create: [HookGroup { hooks: [refuse] }] },
        permissions: CliPermissions { ask, disable_auto_mode: "disable" },
        cross_session_inbound: "refuse",
        disable_workflows: true,
        disable_agent_view: true,
        disable_remote_control: true,
        enable_artifact: false,
        skip_preflight: launch.config.confine != Confine::None,
    }
}

/// Returns the variables that a child has whatever its session says.
fn environment(launch: &Launch<'_>) -> Vec<(OsString, OsString)> {
    // Rules judge a command by the session's directory, so each one has to start there. The CLI
    // otherwise keeps the directory that an earlier command went to.
    let mut env = vec![
        ("CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR".into(), "1".into()),
        ("CLAUDE_CODE_DISABLE_CRON".into(), "1".into()),
    ];
    if launch.reads_instructions {
        env.push((READ_INSTRUCTIONS.into(), "1".into()));
    }
    if launch.channel == Channel::Control {
        env.push(("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS".into(), "1".into()));
    }
    env
}

fn permission_tool(channel: Channel) -> &'static str {
    match channel {
        Channel::Control => "stdio",
        Channel::Mcp => PERMIT_TOOL,
    }
}

#[cfg(test)]
mod tests {
    use plexus_engine::driver::McpDoor;
    use plexus_engine::session::SessionConfig;
    use plexus_wire::{ChannelChoice, SecretToken};
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn config() -> SessionConfig {
        SessionConfig {
            agent: plexus_wire::FIRST_AGENT.to_owned(),
            working_dir: "/w".into(),
            model: None,
            system_prompt: None,
            loopback_enabled: true,
            loopback_timeout_secs: 300,
            escalate_after_secs: None,
            supervise: Supervise::Default,
            can_spawn: false,
            can_use_cone: false,
            may_decide: vec![],
            project_settings: ProjectSettings::Ignore,
            channel: ChannelChoice::Auto,
            allowed_tools: vec!["Bash(git log:*)".into()],
            allowed_by: None,
            disallowed_tools: vec!["WebFetch".into()],
            add_dirs: vec!["/more".into()],
            env: BTreeMap::from([("TOKEN_OF_THE_SESSION".into(), "x".into())]),
            mcp_servers: BTreeMap::new(),
            confine: Confine::None,
            budget: None,
        }
    }

    /// The start of a new conversation on the control channel.
    fn control(config: &SessionConfig) -> Launch<'_> {
        Launch {
            config,
            channel: Channel::Control,
            conversation: Conversation::New,
            reads_instructions: false,
            permit_door: None,
            hub_door: None,
            run_dir: Path::new("/r"),
            own_home: None,
            live_text: false,
            prompt: Some(prompt("--do it")),
        }
    }

    fn prompt(text: &str) -> FirstPrompt<'_> {
        FirstPrompt { id: Uuid::nil(), text, images: &[] }
    }

    fn text(launch: &Launch<'_>) -> String {
        let args = plan(launch).unwrap().args;
        args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_control_channel_never_has_the_prompt_in_its_arguments() {
        let config = config();
        let launch = Launch { live_text: true, ..control(&config) };
        let settings = json!({
            "hooks": {"WorktreeCreate": [{"hooks": [{"type": "command", "command": REFUSE_WORKTREE}]}]},
            "permissions": {"disableAutoMode": "disable"},
            "crossSessionInbound": "refuse",
            "disableWorkflows": true,
            "disableAgentView": true,
            "disableRemoteControl": true,
            "enableArtifact": false,
        });
        let (before, after) = text(&launch)
            .split_once("--settings ")
            .map(|(before, after)| (before.to_owned(), after.to_owned()))
            .unwrap();
        let (given, after) = after.split_once(" --add-dir").unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(given).unwrap(), settings);
        assert_eq!(
            format!("{before}--add-dir{after}"),
            format!(
                "--print --output-format stream-json --verbose --strict-mcp-config \
                 --input-format stream-json --permission-prompt-tool stdio --setting-sources user \
                 --disallowedTools {},WebFetch --add-dir /more \
                 --include-partial-messages --replay-user-messages",
                NEVER.join(",")
            )
        );
        let Stdin::Lines(lines) = plan(&launch).unwrap().stdin else { panic!("no lines") };
        assert!(String::from_utf8_lossy(lines[0].as_bytes()).contains("--do it"));
    }

    #[test]
    fn a_variable_that_adds_tools_is_refused() {
        for name in FORBIDDEN_ENV {
            let env = BTreeMap::from([((*name).to_owned(), "1".to_owned())]);
            let config = SessionConfig { env, ..config() };
            let why = plan(&control(&config)).unwrap_err().to_string();
            assert!(why.contains(name), "{why}");
        }
        let config = config();
        let env = plan(&control(&config)).unwrap().env;
        assert!(env.contains(&("CLAUDE_CODE_DISABLE_CRON".into(), "1".into())), "{env:?}");
    }

    #[test]
    fn the_mcp_channel_asks_our_tool_and_ends_with_the_prompt() {
        let mut config = config();
        config.supervise = Supervise::All;
        config.project_settings = ProjectSettings::Trust;
        let token = SecretToken::new("plx_secret".to_owned());
        let door = McpDoor { url: "http://here".to_owned(), token };
        let launch = Launch {
            channel: Channel::Mcp,
            conversation: Conversation::Fork { of: "abc".into(), up_to: Some(Uuid::nil()) },
            permit_door: Some(door),
            ..control(&config)
        };
        let text = text(&launch);
        assert!(text.ends_with("--mcp-config /r/mcp.json --fork-session -- --do it"), "{text}");
        let asks = "--permission-prompt-tool mcp__plexus__loopback_permit \
                    --setting-sources user,project,local --resume abc \
                    --resume-session-at 00000000-0000-0000-0000-000000000000";
        assert!(text.contains(asks), "{text}");
        assert!(text.contains(r#""ask":["Bash","Read""#), "{text}");
        let plan = plan(&launch).unwrap();
        assert!(matches!(plan.stdin, Stdin::Nothing));
        assert!(plan.files[0].content.contains("Bearer plx_secret"));
        assert!(!format!("{plan:?}").contains("plx_secret"), "a token is never printed");
    }

    #[test]
    fn mcp_servers_of_a_session_are_in_the_private_file_alone() {
        let servers = json!({
            "one": {"type": "stdio", "command": "run", "args": ["a"], "env": {"KEY": "secret"}},
            "two": {"type": "http", "url": "http://there", "headers": {"X": "secret"}},
        });
        let mcp_servers = serde_json::from_value(servers.clone()).unwrap();
        let config = SessionConfig { mcp_servers, ..config() };
        let plan = plan(&control(&config)).unwrap();
        assert!(!format!("{plan:?}{config:?}").contains("secret"));
        let file: serde_json::Value = serde_json::from_str(&plan.files[0].content).unwrap();
        assert_eq!(file, json!({"mcpServers": servers}));
    }

    #[test]
    fn images_travel_with_the_prompt_on_the_control_channel_alone() {
        let config = config();
        let images = [plexus_wire::PromptImage::new("image/png", "AAAA")];
        let prompt = FirstPrompt { images: &images, ..prompt("--do it") };
        let launch = Launch { prompt: Some(prompt), ..control(&config) };
        let Stdin::Lines(lines) = plan(&launch).unwrap().stdin else { panic!("no lines") };
        let line: serde_json::Value = serde_json::from_slice(lines[0].as_bytes()).unwrap();
        let source = json!({"type": "base64", "media_type": "image/png", "data": "AAAA"});
        let expected = json!([
            {"type": "text", "text": "--do it"}, {"type": "image", "source": source},
        ]);
        assert_eq!(line["message"]["content"], expected);
        let over_mcp = Launch { channel: Channel::Mcp, ..launch };
        assert!(plan(&over_mcp).unwrap_err().to_string().contains("control channel"));
    }

    #[test]
    fn a_prompt_too_long_for_an_argument_is_read_from_stdin() {
        let (config, long) = (config(), "x".repeat(MAX_PROMPT_ARGUMENT_BYTES + 1));
        let prompt = Some(prompt(&long));
        let launch = Launch { channel: Channel::Mcp, prompt, ..control(&config) };
        assert!(!text(&launch).contains("xxx"));
        assert!(matches!(plan(&launch).unwrap().stdin, Stdin::Text(text) if text == long));
    }

    #[test]
    fn instructions_are_read_without_the_settings_of_the_project() {
        let mut config = config();
        config.project_settings = ProjectSettings::Instructions;
        let launch = Launch { reads_instructions: true, ..control(&config) };
        let words = text(&launch);
        assert!(words.contains("--setting-sources user "), "{words}");
        assert!(words.contains("--add-dir /w --add-dir /more"), "{words}");
        assert!(plan(&launch).unwrap().env.contains(&(READ_INSTRUCTIONS.into(), "1".into())));
        let without = Launch { reads_instructions: false, ..control(&config) };
        assert!(!text(&without).contains("--add-dir /w "));
        assert!(!plan(&without).unwrap().env.iter().any(|(name, _)| name == READ_INSTRUCTIONS));
    }

    #[test]
    fn a_woken_process_must_ask_about_the_tool_and_gets_no_prompt() {
        let config = config();
        let (id, tool_name) = ("abc".to_owned(), "mcp__t__put".to_owned());
        let conversation = Conversation::Wake { id, tool_name };
        let launch = Launch { conversation, prompt: None, ..control(&config) };
        let text = text(&launch);
        assert!(text.contains(" --resume abc ") && !text.contains("--fork-session"), "{text}");
        assert!(text.contains(r#""ask":["mcp__t__put"]"#), "{text}");
        let Stdin::Lines(lines) = plan(&launch).unwrap().stdin else { panic!("no lines") };
        assert_eq!(lines, []);
    }

    #[test]
    fn a_process_that_waits_for_its_prompt_has_the_arguments_of_any_other() {
        let config = config();
        let waits = Launch { prompt: None, ..control(&config) };
        assert_eq!(text(&waits), text(&control(&config)));
        let Stdin::Lines(lines) = plan(&waits).unwrap().stdin else { panic!("no lines") };
        let said: Vec<_> =
            lines.iter().map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
        assert!(said.len() == 1 && said[0].contains("initialize"), "{said:?}");
        let over_mcp = Launch { channel: Channel::Mcp, ..waits };
        assert!(plan(&over_mcp).unwrap_err().to_string().contains("without a prompt"));
    }

    #[test]
    fn without_loopback_no_tool_is_asked() {
        let mut config = config();
        config.loopback_enabled = false;
        assert!(!text(&control(&config)).contains("--permission-prompt-tool"));
    }

    #[test]
    fn every_command_of_a_child_starts_in_the_directory_of_its_session() {
        let config = config();
        let name = "CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR";
        let env = plan(&control(&config)).unwrap().env;
        assert!(env.contains(&(name.into(), "1".into())), "{env:?}");
    }

    #[test]
    fn nothing_of_ours_or_of_a_surrounding_agent_is_inherited() {
        for name in INHERITED {
            assert!(
                !name.starts_with("PLEXUS")
                    && !["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT"]
                        .contains(name),
                "{name}"
            );
        }
        assert!(INHERITED.contains(&"ANTHROPIC_API_KEY"));
    }
}
