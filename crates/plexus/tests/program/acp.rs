//! `plexus acp` with the simulator behind it, line by line: what an editor may ask, what it may
//! not, and what becomes of its answers. Real clients are in `tests/acp_door/`.

use serde_json::{Value, json};

use crate::installation::{Installation, mode, text};
use crate::piped::Piped;
use crate::serve::Server;

/// An editor that started `plexus acp`.
struct Editor {
    piped: Piped,
    requests: u64,
}

impl Editor {
    fn start(installation: &Installation, words: &[&str]) -> Self {
        let piped = Piped::start(installation.command(&[&["acp"], words].concat()));
        let mut editor = Self { piped, requests: 0 };
        let begun = editor.ask("initialize", json!({"protocolVersion": 1}));
        assert_eq!(begun["result"]["protocolVersion"], 1, "{begun}");
        editor
    }

    /// Sends a request; returns its id.
    fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.requests += 1;
        self.piped.request(self.requests, method, params);
        self.requests
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.piped.answer(id)
    }

    /// The code of the error that a request is refused with.
    fn refused(&mut self, method: &str, params: Value) -> i64 {
        let answer = self.ask(method, params);
        answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{method}: {answer}"))
    }

    /// Opens a new conversation.
    fn open(&mut self, installation: &Installation) -> String {
        let opened = self.ask("session/new", json!({"cwd": installation.work(), "mcpServers": []}));
        opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned()
    }

    /// Sends a script of the simulator as a prompt; returns the request's id.
    fn prompt(&mut self, session: &str, script: &str) -> u64 {
        let block = json!({"type": "text", "text": format!("sim:\n{script}")});
        self.begin("session/prompt", json!({"sessionId": session, "prompt": [block]}))
    }

    /// Waits for the end of a prompt.
    fn stopped(&mut self, prompt: u64) -> String {
        let answer = self.piped.answer(prompt);
        let reason = answer["result"]["stopReason"].as_str();
        reason.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Waits for the question about a call, by its title.
    fn question(&mut self, title: &str) -> Value {
        self.piped.until("a question", |it| {
            it["method"] == "session/request_permission"
                && it["params"]["toolCall"]["title"] == title
        })
    }

    fn answer(&mut self, question: &Value, outcome: Value) {
        let answer =
            json!({"jsonrpc": "2.0", "id": question["id"], "result": {"outcome": outcome}});
        self.piped.say(&answer);
    }

    fn select(&mut self, question: &Value, option: &str) {
        self.answer(question, json!({"outcome": "selected", "optionId": option}));
    }

    fn withdrawn(&mut self, question: &Value) {
        let id = &question["id"];
        self.piped.until("a withdrawal", |it| {
            it["method"] == "$/cancel_request" && it["params"]["requestId"] == *id
        });
    }

    /// Waits for a chunk that holds these words.
    fn chunk(&mut self, kind: &str, words: &str) {
        self.piped.until(words, |it| {
            let update = &it["params"]["update"];
            let text = update["content"]["text"].as_str().unwrap_or_default();
            update["sessionUpdate"] == kind && text.contains(words)
        });
    }

    fn asked(&self) -> usize {
        let questions = self.piped.heard.iter();
        questions.filter(|it| it["method"] == "session/request_permission").count()
    }
}

const BASH: &str = r#"tool Bash {"command":"echo ran >> made"}"#;

#[test]
fn what_was_asked_before_stdin_ended_is_answered() {
    let installation = Installation::new();
    installation.start_server();
    let mut piped = Piped::start(installation.command(&["acp"]));
    piped.request(1, "initialize", json!({"protocolVersion": 1}));
    let new = json!({"cwd": installation.work(), "mcpServers": []});
    piped.request(2, "session/new", new);
    piped.request(3, "session/list", json!({}));
    assert!(piped.close().success());
    assert_eq!(piped.answer(1)["result"]["protocolVersion"], 1);
    assert!(piped.answer(2)["result"]["sessionId"].is_string(), "{:#?}", piped.heard);
    assert!(piped.answer(3)["result"]["sessions"].is_array(), "{:#?}", piped.heard);
}

#[test]
fn forbidden_requests_of_an_editor_are_refused_and_nothing_runs() {
    let installation = Installation::new();
    installation.start_server();
    let other = installation
        .call("agents.create", &json!({"name": "other", "working_dir": installation.work()}));
    let below = json!({"name": "below", "working_dir": installation.work(), "parent": other["id"]});
    let below = installation.call("agents.create", &below);

    let mut early = Piped::start(installation.command(&["acp"]));
    let answer = early.ask(1, "session/new", json!({"cwd": installation.work(), "mcpServers": []}));
    assert_eq!(answer["error"]["code"], -32600, "before initialize: {answer}");
    let answer = early.ask(2, "initialize", json!({"protocolVersion": 0}));
    assert_eq!(answer["error"]["code"], -32602, "a version that is not spoken: {answer}");
    let answer = early.ask(3, "initialize", json!({"protocolVersion": 99}));
    assert_eq!(answer["result"]["protocolVersion"], 1, "the newest that both speak: {answer}");
    drop(early);

    let mut editor = Editor::start(&installation, &[]);
    let session = editor.open(&installation);
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let here = installation.work();
    let picture = json!({"type": "image", "mimeType": "image/png", "data": ""});
    for (method, params, code) in [
        ("session/nonsense", json!({}), -32601),
        ("_x/y", json!({}), -32601),
        ("session/fork", json!({"sessionId": session, "cwd": here}), -32601),
        ("authenticate", json!({"methodId": "x"}), -32601),
        ("session/new", json!({"cwd": "here", "mcpServers": []}), -32602),
        ("session/new", json!({"cwd": here.join("no"), "mcpServers": []}), -32602),
        ("session/new", json!({"cwd": here.join(".."), "mcpServers": []}), -32602),
        ("session/new", json!({}), -32602),
        ("session/prompt", json!({"sessionId": "x", "prompt": text("hi")}), -32002),
        ("session/prompt", json!({"sessionId": other["id"], "prompt": text("hi")}), -32002),
        ("session/prompt", json!({"sessionId": session, "prompt": text(" ")}), -32602),
        ("session/prompt", json!({"sessionId": session, "prompt": [picture]}), -32602),
        ("session/load", json!({"sessionId": "x", "cwd": here, "mcpServers": []}), -32002),
        ("session/load", json!({"sessionId": other["id"], "cwd": "/", "mcpServers": []}), -32602),
        ("session/load", json!({"sessionId": below["id"], "cwd": here, "mcpServers": []}), -32602),
        ("session/close", json!({"sessionId": other["id"]}), -32002),
        ("session/set_mode", json!({"sessionId": session, "modeId": "yolo"}), -32602),
        (
            "session/set_config_option",
            json!({"sessionId": session, "configId": "model", "value": "opus"}),
            -32602,
        ),
    ] {
        assert_eq!(editor.refused(method, params.clone()), code, "{method} {params}");
    }
    for line in ["nonsense", "[]", "null"] {
        editor.piped.write(line);
    }
    editor.piped.until("three refusals", |it| it["id"].is_null() && it.get("error").is_some());
    let nobody = json!({"id": 77});
    editor.select(&nobody, "allow");

    let first = editor.prompt(&session, BASH);
    let question = editor.question("echo ran >> made");
    assert_eq!(
        editor.refused("session/prompt", json!({"sessionId": session, "prompt": text("x")})),
        -32600
    );
    let load = json!({"sessionId": session, "cwd": here, "mcpServers": []});
    assert_eq!(editor.refused("session/load", load), -32600);
    assert!(!installation.work().join("made").exists());
    editor.select(&question, "allow");
    assert_eq!(editor.stopped(first), "end_turn");
    assert_eq!(std::fs::read_to_string(installation.work().join("made")).unwrap(), "ran\n");
    assert!(editor.piped.close().success());
}

#[test]
fn two_editors_watch_one_session_and_the_first_answer_decides() {
    let installation = Installation::new();
    let mut one = Editor::start(&installation, &["--session", "shared"]);
    let session = one.open(&installation);
    let mut two = Editor::start(&installation, &["--session", "shared"]);
    assert_eq!(two.open(&installation), session, "the same session");

    let prompt = one.prompt(&session, BASH);
    two.chunk("user_message_chunk", "tool Bash");
    let (first, second) = (one.question("echo ran >> made"), two.question("echo ran >> made"));
    let busy = two.prompt(&session, "say me too");
    assert_eq!(two.piped.answer(busy)["error"]["code"], -32600, "somebody else's prompt runs");
    two.select(&second, "allow");
    one.withdrawn(&first);
    one.select(&first, "deny");
    assert_eq!(one.stopped(prompt), "end_turn");
    assert_eq!(std::fs::read_to_string(installation.work().join("made")).unwrap(), "ran\n");
    let decided = installation.call("loopback.history", &json!({}));
    assert_eq!(decided["decisions"][0]["status"], "allowed", "{decided}");
}

#[test]
fn a_rule_is_remembered_with_the_text_that_was_shown() {
    let installation = Installation::new();
    let mut editor = Editor::start(&installation, &[]);
    let session = editor.open(&installation);
    let prompt = editor.prompt(&session, BASH);
    let question = editor.question("echo ran >> made");
    let options = question["params"]["options"].as_array().unwrap();
    let rule = options.iter().find(|option| option["kind"] == "allow_always").unwrap().clone();
    editor.select(&question, rule["optionId"].as_str().unwrap());
    assert_eq!(editor.stopped(prompt), "end_turn");

    let rules = installation.call("loopback.rules", &json!({}));
    let pattern = rules["rules"][0]["pattern"].as_str().unwrap();
    assert_eq!(rule["name"], format!("Always allow in this session: {pattern}"));
    assert_eq!(rules["rules"][0]["scope"]["session"], session);
    let prompt = editor.prompt(&session, BASH);
    assert_eq!(editor.stopped(prompt), "end_turn");
    assert_eq!(editor.asked(), 1, "the rule answers");
}

#[test]
fn an_answer_that_selects_nothing_leaves_the_call_to_others() {
    let installation = Installation::new();
    let mut editor = Editor::start(&installation, &[]);
    let session = editor.open(&installation);
    let prompt = editor.prompt(&session, BASH);
    let question = editor.question("echo ran >> made");
    // Zed says this just before it cancels; it is not a denial.
    editor.answer(&question, json!({"outcome": "cancelled"}));
    editor.chunk("agent_thought_chunk", "nothing was decided here");
    let waiting = installation.pending();
    installation.works(&["approve", waiting["id"].as_str().unwrap()]);
    assert_eq!(editor.stopped(prompt), "end_turn");
    assert_eq!(std::fs::read_to_string(installation.work().join("made")).unwrap(), "ran\n");
}

#[test]
fn a_prompt_that_is_given_up_is_cancelled() {
    let installation = Installation::new();
    let mut editor = Editor::start(&installation, &[]);
    let session = editor.open(&installation);
    let prompt = editor.prompt(&session, BASH);
    let question = editor.question("echo ran >> made");
    let given_up = json!({"requestId": prompt});
    editor.piped.say(&json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": given_up}));
    editor.withdrawn(&question);
    editor.select(&question, "allow");
    assert_eq!(editor.stopped(prompt), "cancelled");
    assert!(!installation.work().join("made").exists());
}

#[test]
fn modes_sessions_and_forks_are_what_the_server_has() {
    let installation = Installation::new();
    let mut editor = Editor::start(&installation, &[]);
    let session = editor.open(&installation);
    let set = json!({"sessionId": session, "modeId": "accept_edits"});
    assert_eq!(editor.ask("session/set_mode", set)["result"], json!({}));
    let got = installation.call("agents.get", &json!({"session_id": session}));
    assert_eq!(got["session"]["mode"]["mode"], "accept_edits", "{got}");
    let write = r#"tool Write {"file_path":"new","content":"x"}"#;
    let prompt = editor.prompt(&session, write);
    assert_eq!(editor.stopped(prompt), "end_turn");
    assert_eq!((editor.asked(), installation.work().join("new").exists()), (0, true));
    let back = json!({"sessionId": session, "configId": "mode", "value": "ask"});
    let answer = editor.ask("session/set_config_option", back);
    assert_eq!(answer["result"]["configOptions"][0]["currentValue"], "ask", "{answer}");

    let fork =
        installation.call("agents.fork", &json!({"session_id": session, "new_name": "fork"}));
    let listed = editor.ask("session/list", json!({"cwd": installation.work()}));
    let titles: Vec<&Value> =
        listed["result"]["sessions"].as_array().unwrap().iter().map(|it| &it["title"]).collect();
    assert_eq!((titles.len(), titles[0]), (2, &json!("fork")), "{listed}");
    let load = json!({"sessionId": fork["id"], "cwd": installation.work(), "mcpServers": []});
    assert!(editor.ask("session/load", load)["result"].is_object());
    let of_fork = editor.piped.heard.iter().filter(|it| it["params"]["sessionId"] == fork["id"]);
    let kinds: Vec<&str> =
        of_fork.map(|it| it["params"]["update"]["sessionUpdate"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        ["user_message_chunk", "tool_call", "tool_call_update", "agent_message_chunk"]
    );

    assert_eq!(editor.ask("session/close", json!({"sessionId": session}))["result"], json!({}));
    let closed = json!({"sessionId": session, "prompt": [{"type": "text", "text": "x"}]});
    assert_eq!(editor.refused("session/prompt", closed), -32002);
}

#[test]
fn a_session_that_is_deleted_ends_its_prompt() {
    let installation = Installation::new();
    let mut editor = Editor::start(&installation, &[]);
    let session = editor.open(&installation);
    let prompt = editor.prompt(&session, BASH);
    let question = editor.question("echo ran >> made");
    installation.call("agents.delete", &json!({"session_id": session}));
    // The chat is cancelled first; whether the session still exists then is a race.
    let answer = editor.piped.answer(prompt);
    assert!(
        answer["error"].is_object() || answer["result"]["stopReason"] == "cancelled",
        "{answer}"
    );
    editor.withdrawn(&question);
    let text = json!([{"type": "text", "text": "x"}]);
    assert_eq!(
        editor.refused("session/prompt", json!({"sessionId": session, "prompt": text})),
        -32002
    );
}

#[test]
fn a_request_waits_for_a_server_that_is_away() {
    let installation = Installation::new();
    let server = Server::start(&installation, &[]);
    let mut editor = Editor::start(&installation, &[]);
    let session = editor.open(&installation);
    server.kill_9();
    let opened = editor.begin("session/new", json!({"cwd": installation.work(), "mcpServers": []}));
    let prompt = editor.prompt(&session, "say hello again");
    editor.chunk("agent_thought_chunk", "the server is away");
    let server = Server::start(&installation, &[]);
    assert!(editor.piped.answer(opened)["result"]["sessionId"].is_string());
    assert_eq!(editor.stopped(prompt), "end_turn");
    server.kill_9();
}

#[test]
fn a_new_session_has_the_agent_that_was_asked_for_or_is_refused() {
    let installation = Installation::new();
    let mut editor = Editor::start(&installation, &["--agent", "claude_code"]);
    let session = editor.open(&installation);
    let got = installation.call("agents.get", &json!({"session_id": session}));
    assert_eq!(got["session"]["agent"], "claude_code", "{got}");
    let mut editor = Editor::start(&installation, &["--agent", "nobody"]);
    let answer = editor.ask("session/new", json!({"cwd": installation.work(), "mcpServers": []}));
    let words = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(words.contains("nobody"), "{words}");
}

#[test]
fn an_editor_is_told_what_to_paste() {
    let installation = Installation::new();
    for (editor, words) in
        [("zed", "agent_servers"), ("jetbrains", "agent_servers"), ("neovim", "acp_providers")]
    {
        let text = installation.works(&["acp-config", editor]);
        assert!(text.contains(words) && text.contains("\"acp\""), "{text}");
    }
}

#[test]
fn mcp_servers_and_images_of_the_editor_reach_the_agent() {
    let installation = Installation::new();
    let given =
        testkit::mcp_tool::servers(&installation.work(), &installation.work().join("put")).unwrap();
    let given = &given[testkit::mcp_tool::NAME];
    let pairs = |map: &Value| -> Vec<Value> {
        let pairs = map.as_object().unwrap().iter();
        pairs.map(|(name, value)| json!({"name": name, "value": value})).collect()
    };
    let servers = json!([
        {"name": "given", "command": given["command"], "args": given["args"],
            "env": pairs(&given["env"])},
        {"type": "sse", "name": "old", "url": "http://127.0.0.1:9", "headers": []},
    ]);
    let new = json!({"cwd": installation.work(), "mcpServers": servers});

    let mut editor = Editor::start(&installation, &[]);
    let begun = editor.piped.answer(1);
    let can = &begun["result"]["agentCapabilities"];
    assert_eq!(can["mcpCapabilities"]["http"], true, "{begun}");
    assert_eq!(can["promptCapabilities"]["image"], true, "{begun}");
    let opened = editor.ask("session/new", new.clone());
    let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    let put = "tool mcp__given__put {\"note\":\"x\"}";
    let prompt = editor.prompt(&session, put);
    editor.chunk("agent_thought_chunk", "old speaks \"sse\"");
    let question =
        editor.piped.until("a question", |it| it["method"] == "session/request_permission");
    assert_eq!(question["params"]["toolCall"]["title"], "mcp__given__put", "{question}");
    // What it carries is in a private file of the run alone. The simulator itself has no tools.
    assert_eq!(testkit::mcp_tool::shown_in_arguments().unwrap(), []);
    let configs = files(&installation, "mcp.json");
    assert_eq!((configs.len(), mode(&configs[0])), (1, 0o600), "{configs:?}");
    let config = std::fs::read_to_string(&configs[0]).unwrap();
    assert!(config.contains(testkit::mcp_tool::SECRET) && !config.contains("old"), "{config}");
    editor.select(&question, "deny");
    assert_eq!(editor.stopped(prompt), "end_turn");

    // An editor sends its servers again; the session has those that it was created with.
    editor.ask("session/close", json!({"sessionId": session}));
    let mut again = new.clone();
    again["sessionId"] = json!(session);
    again["mcpServers"].as_array_mut().unwrap().push(json!({"name": "new", "command": "x"}));
    assert!(editor.ask("session/load", again)["result"].is_object());
    let prompt = editor.prompt(&session, "say on");
    editor.chunk("agent_thought_chunk", "new: the session keeps the servers");
    assert_eq!(editor.stopped(prompt), "end_turn");
    let picture = json!({"type": "image", "mimeType": testkit::picture::TYPE,
        "data": testkit::picture::PNG});
    let seen = json!([{"type": "text", "text": "sim:\nsay I see "}, picture]);
    let seen = json!({"sessionId": session, "prompt": seen});
    assert_eq!(editor.ask("session/prompt", seen.clone())["result"]["stopReason"], "end_turn");
    let told = installation.works(&["call", "agents.render_context", &of_session(&session)]);
    for words in ["I see [image 1]", "[image 1: image/png, 70 bytes]"] {
        assert!(told.contains(words), "{told}");
    }

    // A model without tools cannot be given any, and the editor is told by name.
    let mut editor = Editor::start(&installation, &["--agent", "cone"]);
    let begun = editor.piped.answer(1);
    let can = &begun["result"]["agentCapabilities"];
    assert_eq!(can["mcpCapabilities"]["http"], false, "{begun}");
    assert_eq!(can["promptCapabilities"]["image"], false, "{begun}");
    let opened = editor.ask("session/new", new);
    let session = opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{opened}"));
    let got = installation.call("agents.get", &json!({"session_id": session}));
    assert_eq!(got["session"].get("mcp_servers"), None, "{got}");
    let mut seen = seen;
    seen["sessionId"] = json!(session);
    let answer = editor.ask("session/prompt", seen);
    let words = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(words.contains("power images"), "{words}");
    let refused = json!({"name": "cone", "working_dir": installation.work(), "agent": "cone",
        "mcp_servers": {"given": given}});
    let output = installation.plexus(&["call", "agents.create", &refused.to_string()]);
    let words = text(&output.stdout);
    assert!(words.contains("given") && words.contains("power mcp_servers"), "{words}");
}

fn of_session(session: &str) -> String {
    json!({"session_id": session}).to_string()
}

/// All files of a name below the runs of a server.
fn files(installation: &Installation, name: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![installation.data().join("runs")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            } else if entry.file_name() == name {
                found.push(entry.path());
            }
        }
    }
    found
}
