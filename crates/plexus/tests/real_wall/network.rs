//! A host that nobody allowed: a question in the queue, while the connection is held.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testkit::messages_api::Step;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::server_with_claude::{ServerWithClaude, Way};

/// Allows a host and port, and remembers it for the session.
pub(crate) fn remembered(asked: &Value, port: u16) -> Value {
    let pattern = format!("Network(domain:localhost:{port})");
    json!({
        "approval_id": asked["id"], "approve": true, "input_digest": asked["input_digest"],
        "remember": {"pattern": pattern, "scope": {"session": asked["session_id"]}},
    })
}

/// A web server on this machine; its port.
pub(crate) async fn elsewhere() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 1024];
            let answer =
                b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\nconnection: close\r\n\r\nhello!\n";
            let _hung_up = stream.read(&mut head).await;
            let _hung_up = stream.write_all(answer).await;
        }
    });
    Ok(port)
}

/// A command that uses the proxy even for this machine.
pub(crate) fn fetch(port: u16) -> String {
    format!("curl -sS --noproxy '' http://localhost:{port}/ || true")
}

/// What a question about a host says of the command whose `curl` opened the connection.
pub(crate) fn asked_by(command: &str) -> String {
    format!("asked by curl, started by this command: {command}")
}

pub(crate) async fn a_host_is_asked_about_and_remembered(cli: PathBuf, way: Way) -> Result<()> {
    let setup = ServerWithClaude::new(cli, way).await?;
    let port = elsewhere().await?;
    let steps = [fetch(port), fetch(port)].map(|command| Step::bash(&command));
    setup.chat(&[steps[0].clone(), steps[1].clone(), Step::text("done")]).await?;
    let asked = setup.asked().await?;
    setup.allow(&asked).await?;
    let asked = setup.asked().await?;
    ensure!(asked["tool_name"] == "Network", "{asked:#}");
    ensure!(asked["input"] == json!({"host": "localhost", "port": port}), "{asked:#}");
    let from = asked["description"].as_str().unwrap_or_default();
    ensure!(from == asked_by(&fetch(port)), "{asked:#}");
    setup.respond(remembered(&asked, port)).await?;
    // The second command, and no second question about its host.
    let asked = setup.asked().await?;
    ensure!(asked["tool_name"] == "Bash", "{asked:#}");
    setup.allow(&asked).await?;
    let events = setup.completed().await?;
    let results = setup.api.tool_results();
    let heard = results.iter().filter(|result| result.text.contains("hello!")).count();
    ensure!(heard == 2, "{results:#?}: {events:#?}");
    Ok(())
}

pub(crate) async fn a_question_of_the_network_outlives_a_killed_server(
    cli: PathBuf,
    way: Way,
) -> Result<()> {
    let mut setup = ServerWithClaude::new(cli, way).await?;
    let port = elsewhere().await?;
    setup.chat(&[Step::bash(&fetch(port)), Step::text("done")]).await?;
    let asked = setup.asked().await?;
    setup.allow(&asked).await?;
    let asked = setup.asked().await?;
    ensure!(asked["tool_name"] == "Network", "{asked:#}");
    setup.outage().await?;
    let again = setup.asked().await?;
    ensure!(again["id"] == asked["id"], "it is another question: {again:#}");
    let no = json!({"approval_id": again["id"], "approve": false, "message": "not that one"});
    setup.respond(no).await?;
    setup.completed().await?;
    let told = setup.api.tool_results().pop().context("no result")?.text;
    ensure!(told.contains("not that one") && !told.contains("hello!"), "{told}");
    Ok(())
}

/// A command leaves something running that connects after its chat: the question outlives a killed
/// server and the next chat, and ends with the process.
pub(crate) async fn a_question_between_two_chats_belongs_to_the_process(
    cli: PathBuf,
    way: Way,
) -> Result<()> {
    let mut setup = ServerWithClaude::new(cli, way).await?;
    let port = elsewhere().await?;
    let waits = format!("until [ -e go ]; do sleep 0.1; done; {}", fetch(port));
    let command = format!("setsid sh -c \"{waits}\" > left 2>&1 < /dev/null &");
    setup.chat(&[Step::bash(&command), Step::text("done")]).await?;
    let asked = setup.asked().await?;
    setup.allow(&asked).await?;
    setup.completed().await?;
    std::fs::write(setup.sandbox.work().join("go"), "")?;
    let asked = setup.asked().await?;
    ensure!(asked["tool_name"] == "Network", "{asked:#}");
    let from = asked["description"].as_str().unwrap_or_default();
    ensure!(from.starts_with("asked by curl, which the agent or one of its commands"), "{asked:#}");
    setup.outage().await?;
    setup.chat(&[Step::text("goes on")]).await?;
    setup.completed().await?;
    let again = setup.asked().await?;
    ensure!(again["id"] == asked["id"], "it is another question: {again:#}");
    let run = setup.server.data_dir().join("runs").join(&setup.session);
    for pid in egress_processes(&run.to_string_lossy())? {
        let pid = rustix::process::Pid::from_raw(pid).context("a number")?;
        rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
    }
    setup.pending(0).await?;
    let of = json!({"session_id": setup.session});
    let history = setup.server.call("loopback.history", of).await?;
    let newest = &history["decisions"][0];
    ensure!(newest["approval_id"] == asked["id"] && newest["status"] == "cancelled", "{history:#}");
    let left = setup.text_of("left");
    ensure!(!left.contains("hello!"), "nobody allowed it: {left}");
    Ok(())
}

/// The egress process dies in the middle of a command: the run ends and says why, nothing goes past
/// it, and the next chat has another.
pub(crate) async fn a_run_ends_with_its_egress_process(cli: PathBuf, way: Way) -> Result<()> {
    let setup = ServerWithClaude::new(cli, way).await?;
    let port = elsewhere().await?;
    let command = format!("echo begun > begun; sleep 3600; {}", fetch(port));
    setup.chat(&[Step::bash(&command), Step::text("done")]).await?;
    let asked = setup.asked().await?;
    setup.allow(&asked).await?;
    let begun = || (setup.text_of("begun") == "begun\n").then_some(());
    testkit::wait::eventually("the command", testkit::wait::PATIENCE, begun);
    let run = setup.server.data_dir().join("runs").join(&setup.session);
    for pid in egress_processes(&run.to_string_lossy())? {
        let pid = rustix::process::Pid::from_raw(pid).context("a number")?;
        rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
    }
    let (status, events) = setup.ended().await?;
    let told = serde_json::to_string(&events)?;
    ensure!(status == "failed", "{status}: {told}");
    let why = "the egress process of this run ended (signal: 9 (SIGKILL)), and with it the \
               agent's only network, so the agent was stopped; next: send the prompt again";
    ensure!(told.contains(why), "{told}");
    setup.chat(&[Step::text("goes on")]).await?;
    setup.completed().await?;
    Ok(())
}

/// The processes that serve a run whose files are below this directory.
fn egress_processes(run: &str) -> Result<Vec<i32>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).into_owned();
        if words.contains("--egress-serve") && words.contains(run) {
            found.extend(entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
        }
    }
    ensure!(found.len() == 1, "{found:?}");
    Ok(found)
}
