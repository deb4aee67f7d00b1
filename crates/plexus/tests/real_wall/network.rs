//! A host that nobody allowed: a question in the queue, while the connection is held.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use testkit::messages_api::Step;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::site::{Site, Way};

/// A web server on this machine; its port.
async fn elsewhere() -> Result<u16> {
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

/// A command that takes the proxy also for this machine.
fn fetch(port: u16) -> String {
    format!("curl -sS --noproxy '' http://localhost:{port}/ || true")
}

pub(crate) async fn a_host_is_asked_about_and_remembered(cli: PathBuf, way: Way) -> Result<()> {
    let site = Site::new(cli, way).await?;
    let port = elsewhere().await?;
    let steps = [fetch(port), fetch(port)].map(|command| Step::bash(&command));
    site.chat(&[steps[0].clone(), steps[1].clone(), Step::text("done")]).await?;
    let asked = site.asked().await?;
    site.allow(&asked).await?;
    let asked = site.asked().await?;
    ensure!(asked["tool_name"] == "Network", "{asked:#}");
    ensure!(asked["input"] == json!({"host": "localhost", "port": port}), "{asked:#}");
    let remember = json!({"pattern": format!("Network(domain:localhost:{port})"), "scope": {"session": site.session}});
    site.respond(json!({
        "approval_id": asked["id"], "approve": true,
        "input_digest": asked["input_digest"], "remember": remember,
    }))
    .await?;
    // The second command, and no second question about its host.
    let asked = site.asked().await?;
    ensure!(asked["tool_name"] == "Bash", "{asked:#}");
    site.allow(&asked).await?;
    let events = site.completed().await?;
    let results = site.api.tool_results();
    let heard = results.iter().filter(|result| result.text.contains("hello!")).count();
    ensure!(heard == 2, "{results:#?}: {events:#?}");
    Ok(())
}

pub(crate) async fn a_question_of_the_network_outlives_a_killed_server(
    cli: PathBuf,
    way: Way,
) -> Result<()> {
    let mut site = Site::new(cli, way).await?;
    let port = elsewhere().await?;
    site.chat(&[Step::bash(&fetch(port)), Step::text("done")]).await?;
    let asked = site.asked().await?;
    site.allow(&asked).await?;
    let asked = site.asked().await?;
    ensure!(asked["tool_name"] == "Network", "{asked:#}");
    site.outage().await?;
    let again = site.asked().await?;
    ensure!(again["id"] == asked["id"], "it is another question: {again:#}");
    let no = json!({"approval_id": again["id"], "approve": false, "message": "not that one"});
    site.respond(no).await?;
    site.completed().await?;
    let told = site.api.tool_results().pop().context("no result")?.text;
    ensure!(told.contains("not that one") && !told.contains("hello!"), "{told}");
    Ok(())
}
