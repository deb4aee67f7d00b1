//! Agents other than Claude Code within the wall that a server builds by default.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use testkit::messages_api::{self, MessagesApi};
use testkit::real_acp::Agent;
use testkit::responses_api::{self, ResponsesApi};
use testkit::server::{ServerOptions, TestServer};
use testkit::wait::{PATIENCE, eventually_async};
use testkit::{real_acp, real_codex};

use crate::cases::{check_projects, put_projects};
use crate::network::{asked_by, elsewhere, fetch, remembered};

/// Where the stand-ins for models listen: an address that agents reach through their proxy.
const MODEL_HOST: &str = "127.0.0.2";

/// A server with one session within a wall.
struct WalledServer {
    server: TestServer,
    session: String,
    work: PathBuf,
    /// The server's data. Removed last.
    _folder: TempDir,
}

impl WalledServer {
    async fn new(
        tier: &str,
        model: &str,
        arguments: Vec<OsString>,
        env: Vec<(String, String)>,
        work: PathBuf,
        mut params: Value,
    ) -> Result<Self> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        let walls = [
            format!("confine.tier={tier}"),
            format!("confine.hosts={}", model.trim_start_matches("http://")),
            "warm.max=0".to_owned(),
        ];
        let walls = walls.into_iter().flat_map(|value| ["--set".into(), value.into()]);
        let options = ServerOptions {
            folder: Some(folder.path().to_owned()),
            wall: true,
            arguments: arguments.into_iter().chain(walls).collect(),
            plexus_bin: Some(env!("CARGO_BIN_EXE_plexus").into()),
            env,
            ..ServerOptions::default()
        };
        let server = TestServer::with(options).await?;
        std::fs::write(work.join("where"), server.data_dir().as_os_str().as_encoded_bytes())?;
        params["name"] = json!("child");
        params["working_dir"] = json!(work);
        params["loopback_timeout_secs"] = json!(0);
        let created = server.call("agents.create", params).await?;
        let session = created["id"].as_str().context("a session has no id")?.to_owned();
        Ok(Self { server, session, work, _folder: folder })
    }

    /// Tries to read the operator's token, and works.
    fn command() -> String {
        // By a file: some agents ask a second time about a path that they read in a command. Without
        // a substitution, which Gemini CLI refuses to run.
        "read data < where; cat \"$data/operator.token\" || echo closed; echo made > made"
            .to_owned()
    }

    /// Prompts the agent, allows whatever it asks, and waits for the end. Returns the tools.
    async fn chat(&self, prompt: &str) -> Result<Vec<String>> {
        let asked = self.chat_in(&self.session, prompt, allowed).await?;
        let tool = |open: &Value| open["tool_name"].as_str().unwrap_or_default().to_owned();
        Ok(asked.iter().map(tool).collect())
    }

    /// Prompts the agent of a session, answers whatever it asks, and waits for the end. Returns the
    /// questions.
    async fn chat_in(
        &self,
        session: &str,
        prompt: &str,
        answer: impl Fn(&Value) -> Value,
    ) -> Result<Vec<Value>> {
        let params = json!({"session_id": session, "prompt": prompt});
        self.server.call("agents.chat_async", params).await?;
        let mut asked = Vec::new();
        let params = json!({"session_id": session, "from_seq": 0, "limit": 1000});
        let step = async || {
            let open = self.server.call("loopback.pending", json!({})).await.ok()?;
            if let Some(open) = open["approvals"].as_array()?.first() {
                return Some(Some(open.clone()));
            }
            let page = self.server.call("agents.poll", params.clone()).await.ok()?;
            let status = page["status"].as_str()?;
            (!["running", "awaiting_permission"].contains(&status)).then_some(None)
        };
        while let Some(open) = eventually_async("a question or the end", PATIENCE, step).await {
            self.server.call("loopback.respond", answer(&open)).await?;
            asked.push(open);
        }
        let page = self.server.call("agents.poll", params.clone()).await?;
        ensure!(page["status"] == "complete", "{page:#}\n{}", self.server.log());
        Ok(asked)
    }

    /// Checks what the model was told of the command.
    fn check(&self, told: &str) -> Result<()> {
        let token = std::fs::read_to_string(self.server.data_dir().join("operator.token"))?;
        ensure!(told.contains("closed") && !told.contains(token.trim()), "{told}");
        let made = std::fs::read_to_string(self.work.join("made")).unwrap_or_default();
        ensure!(made == "made\n", "{made:?}: {told}");
        Ok(())
    }

    async fn shown(&self) -> Result<Value> {
        let shown = self.server.call("agents.get", json!({"session_id": self.session})).await?;
        Ok(shown["session"]["confine"].clone())
    }
}

/// Allows what is asked.
fn allowed(open: &Value) -> Value {
    json!({"approval_id": open["id"], "approve": true, "input_digest": open["input_digest"]})
}

async fn codex(
    cli: &Path,
    tier: &str,
    params: Value,
) -> Result<(WalledServer, ResponsesApi, real_codex::Sandbox)> {
    let api = ResponsesApi::start_at(MODEL_HOST).await?;
    let sandbox = real_codex::Sandbox::new(&api)?;
    let home = format!("codex.home={}", sandbox.codex_home().display());
    let arguments = vec!["--codex-bin".into(), cli.into(), "--set".into(), home.into()];
    let mut params = params;
    params["agent"] = json!("codex");
    params["env"] = json!({"STAND_IN_KEY": "dummy-key-of-a-test"});
    let setup =
        WalledServer::new(tier, &api.base_url(), arguments, sandbox.env(), sandbox.work(), params)
            .await?;
    Ok((setup, api, sandbox))
}

pub(crate) async fn codex_works_and_reads_no_token(cli: PathBuf, tier: &str) -> Result<()> {
    use responses_api::Step;
    let (setup, api, sandbox) = codex(&cli, tier, json!({"supervise": "all"})).await?;
    let steps = [Step::shell(&WalledServer::command()), Step::text("Done.")];
    let asked = setup.chat(&responses_api::prompt(&steps)).await?;
    ensure!(!asked.is_empty(), "nothing was asked");
    setup.check(&api.last_input())?;
    let shown = setup.shown().await?;
    ensure!(shown["profile"] == "workspace" && shown["tier"] == tier, "{shown:#}");
    // Another process goes on with the conversation, which lies in the session's own directory. It
    // edits a file, works on projects, and asks about a host once.
    let port = elsewhere().await?;
    put_projects(&sandbox.home(), &sandbox.work())?;
    let steps = [
        Step::add_file("patched", "by a patch"),
        Step::shell("bash projects.sh > projects.out 2>&1; echo over >> projects.out"),
        Step::shell(&fetch(port)),
        Step::shell(&fetch(port)),
        Step::text("Done."),
    ];
    let is_ours = |open: &Value| open["input"]["host"] == "localhost";
    // Codex goes on after ten seconds, and ends with its turn what still runs then. So the next
    // command is not allowed before the projects are over.
    let projects = sandbox.work().join("projects.out");
    let said = || std::fs::read_to_string(&projects).unwrap_or_default();
    let is_next = |open: &Value| open["input"]["command"] == fetch(port);
    let answer = |open: &Value| {
        if is_next(open) {
            let is_over = || said().ends_with("over\n").then_some(());
            testkit::wait::eventually("the end of the projects", PATIENCE, is_over);
        }
        if is_ours(open) { remembered(open, port) } else { allowed(open) }
    };
    let asked = setup.chat_in(&setup.session, &responses_api::prompt(&steps), answer).await?;
    ensure!(asked.iter().filter(|open| is_ours(open)).count() == 1, "{asked:#?}");
    let named = asked_by(&fetch(port));
    ensure!(asked.iter().any(|open| open["description"] == named), "{asked:#?}");
    let told = api.last_input();
    ensure!(told.contains("echo made > made"), "{told}");
    let patched = std::fs::read_to_string(sandbox.work().join("patched")).unwrap_or_default();
    ensure!(patched == "by a patch\n", "{patched:?}: {told}");
    check_projects(&said())?;
    ensure!(told.matches("hello!").count() == 2, "{told}");
    Ok(())
}

/// OpenCode listens on a port, which the landlock tier forbids. A session that asks for a wall is
/// refused before the start, with the reason; one that names no wall gets none and says why.
pub(crate) async fn opencode_is_refused_in_the_landlock_tier() -> Result<()> {
    let work = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let params = json!({"agent": "opencode"});
    let dir = work.path().to_owned();
    let setup =
        WalledServer::new("landlock", "localhost", vec![], vec![], dir.clone(), params).await?;
    let shown = setup.shown().await?;
    let why = shown["missing"].as_str().unwrap_or_default();
    ensure!(shown["profile"] == "none" && why.contains("serves itself on a port"), "{shown:#}");
    let asks = json!({
        "agent": "opencode", "name": "walled", "working_dir": dir, "confine": "workspace",
    });
    let refused = setup.server.call("agents.create", asks).await.err().context("it was created")?;
    let refused = refused.to_string();
    for words in ["serves itself on a port", "next: run it where the tier full works"] {
        ensure!(refused.contains(words), "{refused}");
    }
    Ok(())
}

pub(crate) async fn codex_needs_no_sandbox_of_its_own(cli: PathBuf, tier: &str) -> Result<()> {
    use responses_api::Step;
    let (setup, api, _sandbox) = codex(&cli, tier, json!({"supervise": "default"})).await?;
    let steps = [Step::shell(&WalledServer::command()), Step::text("Done.")];
    let asked = setup.chat(&responses_api::prompt(&steps)).await?;
    ensure!(asked.is_empty(), "it asked about {asked:?}");
    setup.check(&api.last_input())
}

pub(crate) async fn an_acp_agent_works_and_reads_no_token(
    agent: Agent,
    cli: PathBuf,
    tier: &str,
) -> Result<()> {
    use messages_api::Step;
    // The egress process takes a key in the clear to the first address of loopback alone.
    let host = if agent == Agent::Claude { "127.0.0.1" } else { MODEL_HOST };
    let api = MessagesApi::start_at(host).await?;
    let sandbox = real_acp::Sandbox::new(agent, &api)?;
    let name = match agent {
        Agent::OpenCode => "opencode",
        Agent::Goose => "goose",
        Agent::Claude => "claude_acp",
        Agent::Gemini => "gemini",
    };
    // What makes the agent ask is the profile's, not the sandbox's.
    let is_own = |name: &str| name == "GOOSE_MODE" || name.starts_with("OPENCODE_");
    let mut env: Vec<_> = sandbox.env().into_iter().filter(|(name, _)| !is_own(name)).collect();
    let of_session: Map<String, Value> =
        env.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    // The server looks for the agent in its `PATH`.
    let programs = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let program = if agent == Agent::Claude { "claude-agent-acp" } else { name };
    std::os::unix::fs::symlink(&cli, programs.path().join(program))?;
    for (_, value) in env.iter_mut().filter(|(name, _)| name == "PATH") {
        *value = format!("{}:{value}", programs.path().display());
    }
    let mut params = json!({"agent": name, "env": of_session});
    if agent == Agent::Gemini {
        params["model"] = json!("gemini-2.5-flash");
    }
    let setup =
        WalledServer::new(tier, &api.base_url(), Vec::new(), env, sandbox.work(), params).await?;
    let input = json!({"command": WalledServer::command(), "description": "a step"});
    let steps = [Step::tool(agent.shell_tool(), input), Step::text("Done.")];
    let asked = setup.chat(&messages_api::prompt(&steps)).await?;
    // Some agents look for updates: they ask about a host, and about nothing else.
    let others = asked.iter().filter(|tool| *tool != "Network").collect::<Vec<_>>();
    ensure!(others == [agent.shell_tool()], "{asked:?}");
    let told = api.main_requests().last().context("no request")?.body["messages"].to_string();
    setup.check(&told)?;
    let shown = setup.shown().await?;
    ensure!(shown["profile"] == "workspace" && shown["tier"] == tier, "{shown:#}");
    if agent == Agent::OpenCode {
        a_fork_goes_on_in_a_home_of_its_own(&setup, &api).await?;
    }
    Ok(())
}

/// A fork begins with a copy of its source's home, which holds the conversation, within a wall of
/// its own.
async fn a_fork_goes_on_in_a_home_of_its_own(
    setup: &WalledServer,
    api: &MessagesApi,
) -> Result<()> {
    let fork = json!({"session_id": setup.session, "new_name": "fork"});
    let fork = setup.server.call("agents.fork", fork).await?;
    let prompt = messages_api::prompt(&[messages_api::Step::text("Again.")]);
    let session = fork["id"].as_str().context("a fork has no id")?;
    setup.chat_in(session, &prompt, allowed).await?;
    let told = api.main_requests().last().context("no request")?.body["messages"].to_string();
    ensure!(told.contains("echo made > made"), "the fork remembers nothing: {told}");
    let shown = setup.server.call("agents.get", json!({"session_id": fork["id"]})).await?;
    ensure!(shown["session"]["confine"]["profile"] == "workspace", "{shown:#}");
    let homes = [setup.session.as_str(), fork["id"].as_str().unwrap_or_default()]
        .map(|session| setup.server.data_dir().join("runs").join(session).join("config").is_dir());
    ensure!(homes == [true, true], "{homes:?}");
    Ok(())
}
