//! How an agent is started: its arguments, its environment, its home directory, and the first lines
//! that it reads. Pure, so that tests can check every line.
//!
//! `initialize` and the request that opens the session are written at once: the agent answers them
//! in order, and the second may carry a token, which is stored nowhere else.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use acp_lines::send::{Initialize, SessionNew, SessionReopen};
use acp_lines::{ClientLine, ClientRequest};
use plexus_engine::driver::{
    AgentHome, Channel, Conversation, HomeContent, HomeFile, Launch, LaunchError, McpDoor, Plan,
    Stdin,
};
use plexus_engine::mcp::{HUB_SERVER, mcp_server};
use plexus_wire::{AgentMcpServer, ProjectSettings};
use serde_json::{Map, Value, json};

use super::Homes;
use super::profile::{HomeProfile, ModelWay, Profile, ResumeWay};
use super::write;

/// Says what to start.
pub(super) fn plan(
    profile: &Profile,
    homes: &Homes,
    launch: &Launch<'_>,
) -> Result<Plan, LaunchError> {
    refuse_what_it_cannot_do(profile, launch)?;
    // Within a wall each session has its own home: an agent would obey settings that another left
    // there.
    let own = launch.own_home.unwrap_or(&homes.own);
    let homes = &Homes { own: own.to_owned(), user: homes.user.clone() };
    let home_text = text(own)?;
    let in_home = |text: &String| text.replace("{home}", &home_text);
    let session_text = text(launch.run_dir.parent().unwrap_or(launch.run_dir))?;
    let arg = |arg: &String| in_home(arg).replace("{session}", &session_text).into();
    let mut args: Vec<OsString> = profile.args.iter().map(arg).collect();
    let mut env: Vec<(OsString, OsString)> =
        profile.env.iter().map(|(name, value)| (name.into(), in_home(value).into())).collect();
    for told in [
        (&profile.model, &launch.config.model),
        (&profile.system_prompt, &launch.config.system_prompt),
    ] {
        match told {
            (ModelWay::Env(name), Some(value)) => env.push((name.into(), value.into())),
            // As two arguments it would be read as an option of its own.
            (ModelWay::Args(name), Some(value)) if value.starts_with('-') => {
                args.push(format!("{name}={value}").into());
            }
            (ModelWay::Args(name), Some(value)) => args.extend([name.into(), value.into()]),
            _ => {}
        }
    }
    if profile.home.is_some() {
        env.push(("HOME".into(), homes.own.as_os_str().to_owned()));
    }
    let mut hello = Initialize::new("plexus", env!("CARGO_PKG_VERSION"));
    if let Some(offers) = hello.client_capabilities.as_mut().filter(|_| profile.forms) {
        offers["elicitation"] = json!({"form": {}});
    }
    let mut servers = Servers { as_variables: profile.mcp_variables, variables: Vec::new() };
    let lines = [
        ClientLine::request(write::HELLO, ClientRequest::Initialize(hello)),
        ClientLine::request(write::OPEN, open(profile, launch, &mut servers)?),
    ];
    env.extend(servers.variables);
    Ok(Plan {
        args,
        inherited: profile.inherits.clone(),
        env,
        home: profile.home.as_ref().map(|home| own_home(home, homes)),
        stdin: Stdin::Lines(lines.iter().map(write::out).collect()),
        ..Plan::default()
    })
}

/// The home directory of an agent: neither a person's nor a repository's settings are in it.
fn own_home(profile: &HomeProfile, homes: &Homes) -> AgentHome {
    let of_the_user = |path: &String| homes.user.join(path);
    let files = profile.files.iter().map(|file| HomeFile {
        path: file.path.clone(),
        content: match &file.json {
            Some(json) => HomeContent::Json {
                value: as_json(json),
                user_file: of_the_user(&file.path),
                keep: file.keep.iter().map(|path| pointer(path)).collect(),
            },
            None => HomeContent::Text(file.text.clone().unwrap_or_default()),
        },
    });
    AgentHome {
        dir: homes.own.clone(),
        empty: profile.empty.clone(),
        links: profile.links.iter().map(|path| (path.clone(), of_the_user(path))).collect(),
        files: files.collect(),
        ..AgentHome::default()
    }
}

/// `a.b` as a JSON Pointer.
fn pointer(path: &str) -> String {
    path.split('.').map(|part| format!("/{part}")).collect()
}

/// The request that opens the session.
fn open(
    profile: &Profile,
    launch: &Launch<'_>,
    servers: &mut Servers,
) -> Result<ClientRequest, LaunchError> {
    let cwd = text(&launch.config.working_dir)?;
    let mut mcp_servers: Vec<Value> =
        launch.hub_door.iter().map(|door| servers.hub(door)).collect();
    let given = launch.config.mcp_servers.iter();
    mcp_servers.extend(given.map(|(name, server)| servers.given(name, server)));
    let dirs: Result<Vec<_>, _> = launch.config.add_dirs.iter().map(|dir| text(dir)).collect();
    let additional_directories = Some(dirs?).filter(|dirs| !dirs.is_empty());
    let meta = profile.session_meta.as_ref().map(as_json);
    let extra = Map::from_iter(meta.map(|meta| ("_meta".to_owned(), meta)));
    let reopen = |session_id: &str| SessionReopen {
        session_id: session_id.to_owned(),
        cwd: cwd.clone(),
        mcp_servers: Some(mcp_servers.clone()),
        additional_directories: additional_directories.clone(),
        extra: extra.clone(),
    };
    Ok(match (&launch.conversation, profile.resume) {
        (Conversation::New, _) => ClientRequest::SessionNew(SessionNew {
            cwd: cwd.clone(),
            mcp_servers: mcp_servers.clone(),
            additional_directories: additional_directories.clone(),
            extra: extra.clone(),
        }),
        (Conversation::Resume(id), ResumeWay::Load) => ClientRequest::SessionLoad(reopen(id)),
        (Conversation::Resume(id), ResumeWay::Resume) => ClientRequest::SessionResume(reopen(id)),
        (Conversation::Resume(_), ResumeWay::None) => {
            return Err(cannot(profile, "go on with a conversation whose process has ended"));
        }
        (Conversation::Fork { of, up_to: None }, _) if profile.fork => {
            ClientRequest::SessionFork(reopen(of))
        }
        (Conversation::Fork { up_to: Some(_), .. }, _) => {
            return Err(cannot(profile, "copy a conversation up to one of its messages"));
        }
        (Conversation::Fork { .. }, _) => return Err(cannot(profile, "copy a conversation")),
        (Conversation::Wake { .. }, _) => return Err(cannot(profile, "wake a parked agent")),
    })
}

/// Refuses settings of a session that the agent cannot be given. None may be dropped silently: each
/// is a limit, or a right, that somebody counts on.
fn refuse_what_it_cannot_do(profile: &Profile, launch: &Launch<'_>) -> Result<(), LaunchError> {
    let config = launch.config;
    let guarded = config.env.keys().find(|name| is_guarded(profile, name));
    if let Some(name) = guarded {
        return Err(LaunchError(format!(
            "{name} is not for a session to set: it decides what {} asks about",
            profile.label
        )));
    }
    let refused = [
        (launch.channel == Channel::Mcp, "ask over the MCP channel"),
        (!config.loopback_enabled, "run without asking (loopback_enabled: false)"),
        (
            !config.disallowed_tools.is_empty() && !profile.without_tools,
            "be told disallowed_tools; a rule does the same",
        ),
        (
            config.system_prompt.is_some() && profile.system_prompt == ModelWay::None,
            "be told a system_prompt",
        ),
        (config.project_settings == ProjectSettings::Trust, "trust the project's settings"),
        (config.can_spawn && !profile.mcp, "supervise children of its own (can_spawn)"),
        (!config.mcp_servers.is_empty() && !profile.mcp, "be given MCP servers (mcp_servers)"),
        (!config.add_dirs.is_empty() && !profile.add_dirs, "be given more directories (add_dirs)"),
        (config.model.is_some() && profile.model == ModelWay::None, "be told the model"),
    ];
    match refused.into_iter().find(|(is_asked, _)| *is_asked) {
        Some((_, what)) => Err(cannot(profile, what)),
        None => Ok(()),
    }
}

fn is_guarded(profile: &Profile, name: &str) -> bool {
    let fits = |pattern: &String| match pattern.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => name == pattern,
    };
    profile.guarded_env.iter().any(fits)
}

fn cannot(profile: &Profile, what: &str) -> LaunchError {
    LaunchError(format!("{} cannot {what}", profile.label))
}

/// The MCP servers of a run, as the request that opens its session names them.
struct Servers {
    /// Whether values are passed as environment variables, which the agent substitutes: such an
    /// agent shows the request in the arguments of a process.
    as_variables: bool,
    variables: Vec<(OsString, OsString)>,
}

impl Servers {
    /// Describes this server itself.
    fn hub(&mut self, door: &McpDoor) -> Value {
        let server = mcp_server(&door.url, &door.token);
        self.http(HUB_SERVER, &server.url, Some(&server.headers))
    }

    /// Describes a server that the session was given. A stdio server has no `type`.
    fn given(&mut self, name: &str, server: &AgentMcpServer) -> Value {
        match server {
            AgentMcpServer::Stdio { command, args, env } => {
                let args = args.iter().flatten().map(|arg| self.carried(arg)).collect::<Vec<_>>();
                json!({"name": name, "command": command, "args": args,
                    "env": self.pairs(env.as_ref())})
            }
            AgentMcpServer::Http { url, headers } => self.http(name, url, headers.as_ref()),
        }
    }

    fn http(&mut self, name: &str, url: &str, headers: Option<&BTreeMap<String, String>>) -> Value {
        let url = self.carried(url);
        json!({"type": "http", "name": name, "url": url, "headers": self.pairs(headers)})
    }

    /// Lists names with values, in the protocol's form.
    fn pairs(&mut self, map: Option<&BTreeMap<String, String>>) -> Vec<Value> {
        let pairs = map.into_iter().flatten();
        pairs.map(|(name, value)| json!({"name": name, "value": self.carried(value)})).collect()
    }

    /// Returns a value that may be a secret, or the variable that carries it.
    fn carried(&mut self, value: &str) -> String {
        if !self.as_variables {
            return value.to_owned();
        }
        let name = format!("PLEXUS_MCP_{}", self.variables.len());
        self.variables.push((name.clone().into(), value.into()));
        format!("${{{name}}}")
    }
}

/// Converts TOML to JSON; a profile holds nothing that JSON cannot express.
fn as_json(table: &toml::Table) -> Value {
    serde_json::to_value(table).unwrap_or_default()
}

fn text(path: &Path) -> Result<String, LaunchError> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| LaunchError("the path of a directory is not UTF-8".to_owned()))
}

#[cfg(test)]
mod tests {
    use plexus_engine::driver::OutLine;
    use plexus_engine::session::SessionConfig;
    use plexus_wire::SecretToken;

    use super::*;

    fn config(more: Value) -> SessionConfig {
        let mut config = json!({
            "working_dir": "/w", "loopback_enabled": true, "loopback_timeout_secs": 300,
            "supervise": "default", "can_spawn": false, "may_decide": [],
            "project_settings": "ignore", "channel": "auto", "allowed_tools": [],
            "disallowed_tools": [], "add_dirs": [], "env": {"HOME": "/home/that/a/session/names"},
        });
        for (name, value) in more.as_object().unwrap() {
            config[name] = value.clone();
        }
        serde_json::from_value(config).unwrap()
    }

    fn launch(config: &SessionConfig, conversation: Conversation) -> Launch<'_> {
        Launch {
            config,
            channel: Channel::Control,
            conversation,
            reads_instructions: false,
            permit_door: None,
            hub_door: None,
            run_dir: Path::new("/r"),
            own_home: None,
            live_text: false,
            prompt: None,
        }
    }

    fn profile(name: &str) -> Profile {
        let known = Profile::known().into_iter().find(|(known, _)| *known == name);
        known.unwrap().1
    }

    fn plan_of(name: &str, launch: &Launch<'_>) -> Result<Plan, String> {
        let homes = Homes { own: "/h".into(), user: "/home/of/the/user".into() };
        plan(&profile(name), &homes, launch).map_err(|error| error.to_string())
    }

    /// The lines that the agent reads first.
    fn lines(plan: Plan) -> Vec<Value> {
        let Stdin::Lines(lines) = plan.stdin else { panic!("no lines") };
        let read = |line: OutLine| serde_json::from_str(&line.into_text()).unwrap();
        lines.into_iter().map(read).collect()
    }

    #[test]
    fn each_agent_opens_a_conversation_in_its_own_way() {
        let config = config(json!({}));
        let conversations = || {
            let fork = Conversation::Fork { of: "c".to_owned(), up_to: None };
            [Conversation::New, Conversation::Resume("c".to_owned()), fork]
        };
        for (name, methods) in [
            ("opencode", ["session/new", "session/resume", "session/fork"]),
            ("claude_acp", ["session/new", "session/resume", "session/fork"]),
            ("goose", ["session/new", "session/load", "cannot copy a conversation"]),
            ("gemini", ["session/new", "session/load", "cannot copy a conversation"]),
        ] {
            for (conversation, expected) in conversations().into_iter().zip(methods) {
                match plan_of(name, &launch(&config, conversation)) {
                    Err(why) => assert!(why.contains(expected), "{name}: {why}"),
                    Ok(plan) => {
                        let lines = lines(plan);
                        assert_eq!(lines[0]["method"], "initialize");
                        let offered = &lines[0]["params"]["clientCapabilities"];
                        let mut offers = json!({"terminal": false,
                            "fs": {"readTextFile": false, "writeTextFile": false}});
                        if name == "claude_acp" {
                            offers["elicitation"] = json!({"form": {}});
                        }
                        assert_eq!(*offered, offers, "{name}");
                        assert_eq!(lines[1]["method"], expected, "{name}");
                        assert_eq!(lines[1]["params"]["cwd"], "/w");
                        let has_meta = lines[1]["params"].get("_meta").is_some();
                        assert_eq!(has_meta, name == "claude_acp", "{name}");
                    }
                }
            }
        }
    }

    #[test]
    fn settings_that_make_an_agent_ask_cannot_be_undone_by_its_session() {
        let config = config(json!({}));
        for (name, variable, value) in [
            ("opencode", "OPENCODE_DISABLE_PROJECT_CONFIG", "1"),
            ("opencode", "XDG_CONFIG_HOME", "/h/.config"),
            ("opencode", "HOME", "/h"),
            ("goose", "GOOSE_MODE", "approve"),
            ("goose", "HOME", "/h"),
            ("gemini", "HOME", "/h"),
        ] {
            let plan = plan_of(name, &launch(&config, Conversation::New)).unwrap();
            assert!(plan.env.contains(&(variable.into(), value.into())), "{name}: {:?}", plan.env);
        }
        let gemini = plan_of("gemini", &launch(&config, Conversation::New)).unwrap();
        assert_eq!(gemini.args, ["--acp", "--admin-policy", "/h/ask.toml"].map(OsString::from));
        let opencode = plan_of("opencode", &launch(&config, Conversation::New)).unwrap();
        let home = opencode.home.unwrap();
        let login = "/home/of/the/user/.local/share/opencode/auth.json";
        assert!(home.links.iter().any(|(_, target)| target == Path::new(login)));
        let HomeContent::Json { value, keep, .. } = &home.files[0].content else { panic!() };
        assert_eq!(value["permission"], json!({"*": "ask", "task": "deny"}));
        assert!(!keep.iter().any(|kept| kept.contains("permission")));
    }

    #[test]
    fn a_setting_that_an_agent_does_not_take_is_refused() {
        for (name, more, expected) in [
            ("goose", json!({"loopback_enabled": false}), "without asking"),
            ("goose", json!({"disallowed_tools": ["shell"]}), "disallowed_tools"),
            ("goose", json!({"system_prompt": "be nice"}), "system_prompt"),
            ("goose", json!({"project_settings": "trust"}), "trust"),
            ("goose", json!({"add_dirs": ["/more"]}), "add_dirs"),
            ("gemini", json!({"can_spawn": true}), "can_spawn"),
            (
                "gemini",
                json!({"mcp_servers": {"x": {"type": "stdio", "command": "x"}}}),
                "mcp_servers",
            ),
            ("goose", json!({"env": {"GOOSE_MODE": "auto"}}), "GOOSE_MODE"),
            ("opencode", json!({"env": {"OPENCODE_CONFIG_CONTENT": "{}"}}), "OPENCODE_CONFIG"),
            ("claude_acp", json!({"env": {"IS_SANDBOX": "1"}}), "IS_SANDBOX"),
            (
                "claude_acp",
                json!({"env": {"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "0"}}),
                "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS",
            ),
            ("gemini", json!({"env": {"GEMINI_CLI_TRUST_WORKSPACE": "1"}}), "GEMINI_CLI_TRUST"),
        ] {
            let config = config(more);
            let why = plan_of(name, &launch(&config, Conversation::New)).unwrap_err();
            assert!(why.contains(expected), "{name}: {why}");
        }
        let plain = config(json!({}));
        let over_mcp = Launch { channel: Channel::Mcp, ..launch(&plain, Conversation::New) };
        assert!(plan_of("goose", &over_mcp).unwrap_err().contains("MCP channel"));
    }

    #[test]
    fn a_model_is_never_read_as_an_option() {
        let args = |model: &str| {
            let config = config(json!({ "model": model }));
            let plan = plan_of("gemini", &launch(&config, Conversation::New)).unwrap();
            plan.args.into_iter().skip(3).collect::<Vec<_>>()
        };
        assert_eq!(args("a model"), ["--model", "a model"]);
        assert_eq!(args("--yolo"), ["--model=--yolo"]);
    }

    #[test]
    fn a_model_without_tools_has_its_files_where_its_session_has_them() {
        let config = config(json!({
            "model": "m", "system_prompt": "be brief", "disallowed_tools": ["Bash"],
        }));
        let homes = Homes { own: "/h".into(), user: "/home/of/the/user".into() };
        let launch = Launch {
            run_dir: Path::new("/d/runs/s/3"),
            ..launch(&config, Conversation::Resume("c".to_owned()))
        };
        let plan = plan(&Profile::cone(), &homes, &launch).unwrap();
        assert_eq!(plan.args, [OsString::from("/d/runs/s/conversation.jsonl")]);
        for (name, value) in [("CONE_MODEL", "m"), ("CONE_SYSTEM_PROMPT", "be brief")] {
            assert!(plan.env.contains(&(name.into(), value.into())), "{:?}", plan.env);
        }
        assert_eq!(lines(plan)[1]["method"], "session/resume");
    }

    #[test]
    fn a_child_that_supervises_reaches_this_server() {
        let config = config(json!({"can_spawn": true, "model": "m"}));
        let token = SecretToken::new("plx_secret".to_owned());
        let door = McpDoor { url: "http://here".to_owned(), token };
        let launch = Launch { hub_door: Some(door), ..launch(&config, Conversation::New) };
        let plan = plan_of("goose", &launch).unwrap();
        assert!(plan.env.contains(&("GOOSE_MODEL".into(), "m".into())));
        let lines = lines(plan);
        let server = &lines[1]["params"]["mcpServers"][0];
        let header = json!({"name": "Authorization", "value": "Bearer plx_secret"});
        assert_eq!((&server["type"], &server["headers"][0]), (&json!("http"), &header));
        assert_eq!(server["url"], "http://here/mcp");
    }

    #[test]
    fn mcp_servers_of_a_session_are_named_in_the_request_that_opens_it() {
        let config = config(json!({"mcp_servers": {
            "one": {"type": "stdio", "command": "run", "args": ["a"], "env": {"KEY": "secret"}},
            "two": {"type": "http", "url": "http://there", "headers": {"X": "secret"}},
        }}));
        for conversation in [Conversation::New, Conversation::Resume("c".to_owned())] {
            let plan = plan_of("opencode", &launch(&config, conversation)).unwrap();
            assert!(!format!("{:?}{:?}", plan.args, plan.env).contains("secret"));
            let expected = json!([
                {"name": "one", "command": "run", "args": ["a"],
                    "env": [{"name": "KEY", "value": "secret"}]},
                {"type": "http", "name": "two", "url": "http://there",
                    "headers": [{"name": "X", "value": "secret"}]},
            ]);
            assert_eq!(lines(plan)[1]["params"]["mcpServers"], expected);
        }
        // claude_acp would show secrets in the arguments of Claude Code, which substitutes
        // variables.
        let token = SecretToken::new("plx_secret".to_owned());
        let hub_door = Some(McpDoor { url: "http://here".to_owned(), token });
        let launch = Launch { hub_door, ..launch(&config, Conversation::New) };
        let plan = plan_of("claude_acp", &launch).unwrap();
        for (name, value) in [("PLEXUS_MCP_1", "Bearer plx_secret"), ("PLEXUS_MCP_3", "secret")] {
            assert!(plan.env.contains(&(name.into(), value.into())), "{:?}", plan.env);
        }
        let servers = lines(plan)[1]["params"]["mcpServers"].to_string();
        assert!(servers.contains("${PLEXUS_MCP_1}") && !servers.contains("secret"), "{servers}");
    }
}
