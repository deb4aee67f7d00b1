//! A server that tells receivers, with a session in it that asks.

use plexus_store::{SqliteOptions, SqliteStore, Store};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::server::{ServerOptions, TestServer};
use testkit::wait::{PATIENCE, eventually_async};

/// What every receiver of these tests signs with.
pub(crate) const SECRET: &str = "the secret of these tests";

/// The `[[webhooks]]` of a configuration: the name, the port, and what else its entry says.
pub(crate) fn entries(scheme: &str, webhooks: &[(&str, u16, &str)]) -> String {
    let entry = |(name, port, more): &(&str, u16, &str)| {
        format!(
            "[[webhooks]]\nname = \"{name}\"\nurl = \"{scheme}://127.0.0.1:{port}/hook\"\nsecret_env = \"HOOK_SECRET\"\n{more}\n"
        )
    };
    webhooks.iter().map(entry).collect()
}

/// A `TestServer` whose configuration names receivers, and the directory of its sessions.
pub(crate) struct ServerWithReceivers {
    pub(crate) server: TestServer,
    folder: TempDir,
}

impl ServerWithReceivers {
    /// A server with these `[[webhooks]]`: the name, the port, and what else its entry says.
    pub(crate) async fn new(webhooks: &[(&str, u16, &str)]) -> Self {
        Self::configured(&entries("http", webhooks)).await
    }

    /// A server with this configuration.
    pub(crate) async fn configured(config: &str) -> Self {
        Self::with_env(config, &[]).await
    }

    /// The same with more variables in its environment.
    pub(crate) async fn with_env(config: &str, env: &[(&str, &str)]) -> Self {
        let folder = tempfile::Builder::new().prefix("plexus-hooks-").tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        let path = folder.path().join("plexus.toml");
        std::fs::write(&path, config).unwrap();
        let options = ServerOptions {
            plexus_bin: Some(env!("CARGO_BIN_EXE_plexus").into()),
            arguments: vec!["--config".into(), path.into()],
            env: [("HOOK_SECRET", SECRET)]
                .iter()
                .chain(env)
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            ..ServerOptions::default()
        };
        Self { server: TestServer::with(options).await.unwrap(), folder }
    }

    /// Changes the configuration and has it read again. Returns when the log says so.
    pub(crate) async fn reconfigure(&self, config: &str, said: &str) {
        std::fs::write(self.folder.path().join("plexus.toml"), config).unwrap();
        let before = self.server.log().matches(said).count();
        let pid = i32::try_from(self.server.pid().unwrap()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
        eventually_async(said, PATIENCE, || {
            std::future::ready((self.server.log().matches(said).count() > before).then_some(()))
        })
        .await;
    }

    /// Stops the server, changes its store, and starts it again.
    pub(crate) async fn change_store(&mut self, changes: impl AsyncFnOnce(&dyn Store)) {
        self.server.stop().await.unwrap();
        let store = SqliteStore::open(&SqliteOptions::new(self.server.data_dir())).unwrap();
        changes(&store).await;
        store.close().await.unwrap();
        drop(store);
        self.server.start_again().await.unwrap();
    }

    pub(crate) async fn call(&self, method: &str, params: Value) -> Value {
        match self.server.call(method, params).await {
            Ok(answer) => answer,
            Err(error) => panic!("{method}: {error:#}\n{}", self.server.log()),
        }
    }

    pub(crate) async fn create(&self, name: &str, more: Value) -> String {
        let env = json!({"CLAUDE_CONFIG_DIR": self.folder.path().join("config")});
        let mut params =
            json!({"name": name, "working_dir": self.folder.path().join("work"), "env": env});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.call("claudecode.create", params).await["id"].as_str().unwrap().to_owned()
    }

    /// Starts a chat that asks to write a file, and waits until it asks. Returns the approval.
    pub(crate) async fn ask(&self, session: &str) -> Value {
        let input = json!({"file_path": "note.txt", "content": "hello"});
        self.ask_for(session, "Write", &input).await
    }

    /// The same for any call of a tool.
    pub(crate) async fn ask_for(&self, session: &str, tool: &str, input: &Value) -> Value {
        let prompt = format!("sim:\ntool {tool} {input}\nsay done");
        self.call("claudecode.chat_async", json!({"session_id": session, "prompt": prompt})).await;
        let waited = self
            .call("loopback.wait_for_approval", json!({"session_id": session, "wait_ms": 60_000}))
            .await;
        waited["approvals"][0].clone()
    }

    pub(crate) async fn allow(&self, approval: &Value) {
        self.call("loopback.respond", json!({"approval_id": approval["id"], "approve": true}))
            .await;
    }

    /// Runs a chat that ends by itself.
    pub(crate) async fn chat_to_end(&self, session: &str) {
        let params = json!({"session_id": session, "prompt": "sim:\nsay hello", "wait_ms": 60_000});
        let page = self.call("claudecode.chat", params).await;
        assert_eq!(page["status"], "complete", "{page:#}");
    }

    /// Reads a metric of a receiver.
    pub(crate) async fn metric(&self, name: &str, receiver: &str) -> u64 {
        let url = format!("{}/metrics", self.server.url().unwrap());
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let text = client
            .get(url)
            .bearer_auth(self.server.token().unwrap())
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap();
        let line = format!("{name}{{receiver=\"{receiver}\"}} ");
        let value = text.lines().find_map(|it| it.strip_prefix(&line));
        value.unwrap_or_else(|| panic!("no {line} in {text}")).parse().unwrap()
    }

    /// Waits until a metric of a receiver is as wanted.
    pub(crate) async fn wait_for_metric(
        &self,
        name: &str,
        receiver: &str,
        wanted: impl Fn(u64) -> bool,
    ) {
        let what = format!("{name} of {receiver}");
        eventually_async(&what, PATIENCE, || async {
            wanted(self.metric(name, receiver).await).then_some(())
        })
        .await;
    }

    /// Lines of the audit of this kind.
    pub(crate) async fn audit(&self, kind: &str) -> Vec<Value> {
        let lines = self.call("loopback.audit", json!({})).await["lines"].clone();
        lines.as_array().unwrap().iter().filter(|line| line["kind"] == kind).cloned().collect()
    }
}
