//! `plexus serve`: its files, its pages, its start and its end.

use std::fs::File;
use std::process::{Child, Stdio};

use crate::installation::{self, Installation, eventually, mode, text};
use plexus_client::Client;
use plexus_client::wire::{ChatParams, CreateParams, SessionRef};
use serde_json::{Value, json};

pub(crate) struct Server {
    process: Child,
    pub(crate) url: String,
}

impl Server {
    pub(crate) fn start(installation: &Installation, arguments: &[&str]) -> Self {
        let log = File::options()
            .create(true)
            .append(true)
            .open(installation.work().join("../log"))
            .unwrap();
        Self::start_telling(log.try_clone().unwrap().into(), log, installation, arguments)
    }

    /// Starts one that tells the person who starts it through `told`.
    fn start_telling(
        told: Stdio,
        log: File,
        installation: &Installation,
        arguments: &[&str],
    ) -> Self {
        let mut command = installation.command(&[&["serve"], arguments].concat());
        let mut process = command.stdout(told).stderr(log).spawn().unwrap();
        let pid = process.id();
        let url = eventually("server.json", || {
            assert!(
                process.try_wait().unwrap().is_none(),
                "the server ended:\n{}",
                log_of(installation)
            );
            let announced: Value = serde_json::from_slice(
                &std::fs::read(installation.data().join("server.json")).ok()?,
            )
            .ok()?;
            (announced["pid"] == pid).then(|| announced["url"].as_str().unwrap().to_owned())
        });
        Self { process, url }
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.process), signal)
            .unwrap();
    }

    pub(crate) fn kill_9(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub(crate) fn wait(mut self) -> std::process::ExitStatus {
        eventually("the end of the server", || self.process.try_wait().unwrap())
    }
}

pub(crate) fn log_of(installation: &Installation) -> String {
    std::fs::read_to_string(installation.work().join("../log")).unwrap_or_default()
}

pub(crate) fn token(installation: &Installation) -> String {
    std::fs::read_to_string(installation.data().join("operator.token")).unwrap().trim().to_owned()
}

#[test]
fn a_server_whose_reader_is_gone_serves_on_and_stops_when_asked() {
    let installation = Installation::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let log = File::create(installation.work().join("../log")).unwrap();
    let server = Server::start_telling(writer.into(), log, &installation, &[]);
    let state = installation.command(&["call", "health.state"]).output().unwrap();
    assert!(state.status.success(), "{state:?}");
    server.signal(rustix::process::Signal::TERM);
    assert!(server.wait().success(), "{}", log_of(&installation));
}

#[test]
fn its_files_are_closed_to_others_and_the_announcement_goes_with_it() {
    let installation = Installation::new();
    let server = Server::start(&installation, &[]);
    assert_eq!(mode(&installation.data()), 0o700);
    for file in ["operator.token", "server.json", "plexus.db", "plexus.lock"] {
        assert_eq!(mode(&installation.data().join(file)), 0o600, "{file}");
    }
    assert_eq!(installation.works(&["token"]).trim(), token(&installation));
    server.signal(rustix::process::Signal::TERM);
    assert!(server.wait().success());
    assert!(!installation.data().join("server.json").exists());
    let log = log_of(&installation);
    assert!(log.contains("stopped; no child is running"), "{log}");
    assert!(!log.contains(&token(&installation)), "the log holds the token");
}

#[test]
fn a_second_server_is_refused_and_told_who_is_there() {
    let installation = Installation::new();
    let server = Server::start(&installation, &[]);
    let complaint = installation.fails(&["serve"]);
    assert!(complaint.contains(&format!("process {}", server.process.id())), "{complaint}");
    assert!(installation.data().join("server.json").exists(), "the first one's announcement stays");
    server.kill_9();
    // What a killed server leaves behind does not keep the next one out.
    Server::start(&installation, &[]).kill_9();
}

#[test]
fn a_taken_port_and_a_bad_setting_are_said_before_anything_is_made() {
    let installation = Installation::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    let complaint = installation.fails(&["serve", "--listen", &taken]);
    assert!(complaint.contains("has the port") && complaint.contains("--listen"), "{complaint}");
    let complaint = installation.fails(&["serve", "--set", "limits.streems=1"]);
    assert!(complaint.contains("limits.streems"), "{complaint}");
    let complaint = installation.fails(&["serve", "--set", "limits.running_children=0"]);
    assert!(complaint.contains("limits.running_children"), "{complaint}");
    let complaint = installation.fails(&["serve", "--listen", "0.0.0.0:0"]);
    assert!(complaint.contains("--allow-non-loopback"), "{complaint}");
    assert!(!installation.data().exists());
}

#[test]
fn an_agent_that_is_not_there_is_said_at_the_start() {
    let installation = Installation::new();
    let _server = Server::start(&installation, &["--claude-bin", "/nonexistent"]);
    let log = log_of(&installation);
    assert!(log.contains("this agent is not there") && log.contains("/nonexistent"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_refused_to_another_host_and_another_site() {
    let installation = Installation::new();
    let server = Server::start(&installation, &[]);
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let own = server.url.trim_start_matches("http://").to_owned();
    let port = own.rsplit(':').next().unwrap().to_owned();
    for path in ["/", "/assets/app.js", "/favicon.svg", "/healthz", "/metrics", "/nothing"] {
        let get = || http.get(format!("{}{path}", server.url)).bearer_auth(token(&installation));
        let fine = get().header("origin", server.url.clone()).send().await.unwrap();
        let expected = if path == "/nothing" { 404 } else { 200 };
        assert_eq!(fine.status(), expected, "{path}");
        for (name, value) in [
            ("host", format!("evil.example:{port}")),
            ("host", "127.0.0.1:1".to_owned()),
            ("origin", "http://evil.example".to_owned()),
            ("origin", "null".to_owned()),
        ] {
            let refused = get().header(name, &value).send().await.unwrap();
            assert_eq!(refused.status(), 403, "{path} {name}: {value}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_answer_as_they_should() {
    let installation = Installation::new();
    let server = Server::start(&installation, &[]);
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let get = |path: &str| http.get(format!("{}{path}", server.url));

    let health: Value =
        serde_json::from_str(&get("/healthz").send().await.unwrap().text().await.unwrap()).unwrap();
    assert_eq!(health["status"], "ok");

    assert_eq!(get("/metrics").send().await.unwrap().status(), 401);
    let metrics = get("/metrics")
        .bearer_auth(token(&installation))
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    for name in
        ["plexus_children 0", "plexus_approvals{state=\"pending\"} 0", "plexus_events_total"]
    {
        assert!(metrics.contains(name), "{name} is not in\n{metrics}");
    }

    let page = get("/").send().await.unwrap();
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'") && !policy.contains("unsafe"),
        "{policy}"
    );
    assert_eq!(page.headers()["x-content-type-options"], "nosniff");
    assert_eq!(page.headers()["referrer-policy"], "no-referrer");
    let tag = page.headers()["etag"].clone();
    assert_eq!(get("/").header("if-none-match", tag).send().await.unwrap().status(), 304);

    let link = tokio::task::spawn_blocking({
        let arguments = installation.command(&["dashboard", "--print"]).output();
        move || text(&arguments.unwrap().stdout)
    });
    let link = link.await.unwrap();
    let code = link.trim().split("#code=").nth(1).expect("a code");
    let exchange = || {
        http.post(format!("{}/auth/exchange", server.url)).body(json!({"code": code}).to_string())
    };
    let told: Value =
        serde_json::from_str(&exchange().send().await.unwrap().text().await.unwrap()).unwrap();
    let signed_in =
        get("/metrics").bearer_auth(told["token"].as_str().unwrap()).send().await.unwrap();
    assert_eq!(signed_in.status(), 200);
    assert_eq!(exchange().send().await.unwrap().status(), 401, "a code works once");
    server.kill_9();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_token_opens_no_door() {
    use plexus_store::{
        Change, Priority, SqliteOptions, SqliteStore, Store as _, Token, TokenHash, UnixMillis,
    };
    const EXPIRED: &str = "plx_expired-0123456789abcdef";
    const GOOD: &str = "plx_good-0123456789abcdef";
    let installation = Installation::new();
    let server = Server::start(&installation, &[]);
    server.signal(rustix::process::Signal::TERM);
    assert!(server.wait().success());
    let store = SqliteStore::open(&SqliteOptions::new(installation.data())).unwrap();
    let hour = std::time::Duration::from_secs(3_600);
    for (text, expires_at) in
        [(EXPIRED, UnixMillis(UnixMillis::now().0 - 1)), (GOOD, UnixMillis::now().plus(hour))]
    {
        let token = Token {
            hash: TokenHash::of(text),
            caller: plexus_core::Caller::Operator,
            run: None,
            expires_at: Some(expires_at),
        };
        store.commit(vec![Change::AddToken(token)], Priority::Normal).await.unwrap();
    }
    store.close().await.unwrap();
    drop(store);

    let server = Server::start(&installation, &[]);
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "plexus.version"});
    let ask = |path: &str, token: &str| {
        let url = format!("{}{path}", server.url);
        let request =
            if path == "/rpc" { http.post(url).body(call.to_string()) } else { http.get(url) };
        request.bearer_auth(token).header("accept", "text/event-stream").send()
    };
    // `/mcp` accepts the good token, and then answers 400 because no MCP session is named.
    for (path, fine) in [("/rpc", 200), ("/events", 200), ("/mcp", 400), ("/metrics", 200)] {
        assert_eq!(ask(path, EXPIRED).await.unwrap().status(), 401, "{path}");
        assert_eq!(ask(path, GOOD).await.unwrap().status(), fine, "{path}");
    }
    server.kill_9();
}

#[test]
fn hangup_reads_the_rules_again() {
    let installation = Installation::new();
    let server = Server::start(&installation, &[]);
    installation
        .call("claudecode.create", &json!({"name": "a", "working_dir": installation.work()}));
    let rules = installation.data().join("loopback.toml");
    let asked = || {
        let told =
            installation.works(&["rules", "test", "Bash", "{\"command\":\"git fetch\"}", "--json"]);
        serde_json::from_str::<Value>(&told).unwrap()["decision"].as_str().unwrap().to_owned()
    };
    assert_eq!(asked(), "ask");
    std::fs::write(&rules, "[[rule]]\ndecision = \"allow\"\npattern = \"Bash(git fetch:*)\"\n")
        .unwrap();
    server.signal(rustix::process::Signal::HUP);
    eventually("the new rule", || (asked() == "allow").then_some(()));
    std::fs::write(&rules, "[[rule]]\ndecision = \"perhaps\"\n").unwrap();
    server.signal(rustix::process::Signal::HUP);
    // The log level is read after the rules.
    let times = |words| log_of(&installation).matches(words).count();
    eventually("the end of the second reading", || {
        (times("log level read again") == 2).then_some(())
    });
    assert_eq!((times("the rules stay as they were"), times("rules read again")), (1, 1));
    assert_eq!(asked(), "allow");
    server.kill_9();
}

#[test]
fn hangup_reads_the_log_level_again() {
    let installation = Installation::new();
    let folder = installation.work().join("../.config/plexus");
    std::fs::create_dir_all(&folder).unwrap();
    let set = |filter: &str| {
        std::fs::write(folder.join("plexus.toml"), format!("log = {filter:?}\n")).unwrap()
    };
    let seen =
        |words: &str| eventually(words, || log_of(&installation).contains(words).then_some(()));
    set("error");
    let server = Server::start(&installation, &[]);
    assert!(!log_of(&installation).contains("INFO"), "{}", log_of(&installation));
    set("info");
    server.signal(rustix::process::Signal::HUP);
    seen("log level read again");
    set("plexus=perhaps");
    server.signal(rustix::process::Signal::HUP);
    seen("the log level stays as it was");
    server.kill_9();
}

#[test]
fn children_outlive_the_server_and_are_counted() {
    let installation = Installation::new();
    let server = Server::start(&installation, &[]);
    installation
        .call("claudecode.create", &json!({"name": "a", "working_dir": installation.work()}));
    installation.call("claudecode.chat_async", &json!({"name": "a", "prompt": "hello"}));
    let before = installation.pending();
    server.signal(rustix::process::Signal::TERM);
    assert!(server.wait().success());
    assert!(log_of(&installation).contains("1 child keeps running"), "{}", log_of(&installation));

    let _again = Server::start(&installation, &[]);
    let after = installation.pending();
    assert_eq!(after["id"], before["id"], "the question is the same one");
    installation.works(&["approve", after["id"].as_str().unwrap()]);
    eventually("the end of the chat", || {
        (installation.call("claudecode.get", &json!({"name": "a"}))["session"]["status"]
            == "complete")
            .then_some(())
    });
    assert!(installation.work().join("plexus-sim.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn live_pieces_of_text_come_over_sse_when_they_are_asked_for() {
    let installation = Installation::new();
    let server = Server::start(&installation, &[]);
    let client = Client::from_data_dir(installation.data());
    let session = CreateParams::new("s", installation.work());
    let session = client.agents().create(&session).await.unwrap().id;
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let events = |more: &str| {
        let request = http.get(format!("{}/events?session_id={session}{more}", server.url));
        request.bearer_auth(token(&installation)).send()
    };
    let mut lively = events("&deltas=true").await.unwrap();
    let mut plain = events("").await.unwrap();
    let chat = ChatParams::new(SessionRef::id(session), "sim:\nslowly 1 one two three");
    client.agents().chat_async(&chat).await.unwrap();

    /// Reads a stream until the chat has ended and a word has come so many times; returns the
    /// bodies of its messages.
    async fn bodies(response: &mut reqwest::Response, times: usize) -> Vec<Value> {
        let mut text = String::new();
        // Pieces and events travel apart: on a loaded machine the pieces come last.
        while !text.contains("\"type\":\"complete\"")
            || text.matches("two").count() < times
            || !text.ends_with("\n\n")
        {
            let chunk = tokio::time::timeout(installation::DEADLINE, response.chunk())
                .await
                .expect("the end of the chat");
            text.push_str(
                std::str::from_utf8(&chunk.unwrap().expect("the stream stays open")).unwrap(),
            );
        }
        let bodies = text.lines().filter_map(|line| line.strip_prefix("data: "));
        bodies.map(|body| serde_json::from_str(body).unwrap()).collect()
    }
    let lively = bodies(&mut lively, 2).await;
    assert!(lively.iter().any(|body| body["event"]["type"] == "delta_start"), "{lively:?}");
    let pieces = lively.iter().filter(|body| body["event"]["type"] == "delta");
    let said: String = pieces.filter_map(|body| body["event"]["text"].as_str()).collect();
    assert!("one two three".starts_with(&said) && said.contains("two"), "{said:?}");
    let plain = bodies(&mut plain, 1).await;
    assert!(plain.iter().all(|body| body["seq"].is_u64()), "nobody gets pieces unasked: {plain:?}");
    // Pieces of all sessions at once are refused.
    let all = http
        .get(format!("{}/events?deltas=true", server.url))
        .bearer_auth(token(&installation))
        .send()
        .await
        .unwrap();
    assert_eq!(all.status(), 400);
    client.agents().delete(&SessionRef::id(session)).await.unwrap();
    server.kill_9();
}

#[tokio::test]
async fn a_deleted_data_directory_is_said_by_healthz_and_nothing_is_acknowledged() {
    let installation = Installation::new();
    let server = Server::start(&installation, &[]);
    let operator = token(&installation);
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let create = async |name: &str| -> Value {
        // An agent that is started early would write into the directory while it is removed.
        let params = json!({"name": name, "working_dir": installation.work(), "prestart": false});
        let call =
            json!({"jsonrpc": "2.0", "id": 1, "method": "claudecode.create", "params": params});
        let asked = http
            .post(format!("{}/rpc", server.url))
            .bearer_auth(&operator)
            .header("Content-Type", "application/json")
            .body(call.to_string());
        serde_json::from_str(&asked.send().await.unwrap().text().await.unwrap()).unwrap()
    };
    let health = async || {
        http.get(format!("{}/healthz", server.url)).send().await.unwrap().status().as_u16()
    };
    assert!(create("before").await.get("result").is_some());
    assert_eq!(health().await, 200);
    std::fs::remove_dir_all(installation.data()).unwrap();
    let answer = create("after").await;
    assert!(answer.get("error").is_some() && answer.get("result").is_none(), "{answer}");
    assert_eq!(health().await, 503);
    server.kill_9();
}
