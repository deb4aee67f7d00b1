//! The cost of a wall: the time it adds to the start of a child, and the time its proxy adds to a
//! request.
//!
//! The two of each pair alternate within one run, so that a busy machine affects both.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use plexus_confine::egress::{Bounds, Egress, EgressOptions, ListedHosts};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::figure::{Aim, Figure};
use crate::measure::Measure;
use crate::server::Server;
use crate::sizes::Sizes;
use crate::stats::{median, millis, percentile};

/// The prompt of a child that says one word and ends.
const WORD: &str = "sim:\nsay hello";
/// Starts of each kind in one round.
const STARTS: usize = 10;
/// Requests of each kind in one round.
const REQUESTS: usize = 500;

pub(super) struct Walls;

#[async_trait(?Send)]
impl Measure for Walls {
    fn name(&self) -> &'static str {
        "walls"
    }

    fn keys(&self) -> &'static [&'static str] {
        &["confine_start_ms", "proxy_added_ms"]
    }

    async fn run(&self, sizes: &Sizes, figures: &mut Vec<Figure>) -> Result<()> {
        let server = Server::start(&[("warm.max", "0".to_owned())]).await?;
        let (mut added, mut plain) = (Vec::new(), Vec::new());
        for round in 0..sizes.rounds {
            let (mut without, mut within) = (Vec::new(), Vec::new());
            for start in 0..STARTS {
                let name = format!("{round}-{start}");
                without.push(chat(&server, "none", &name).await?);
                within.push(chat(&server, "workspace", &name).await?);
            }
            added.push(median(&within) - median(&without));
            plain.push(median(&without));
        }
        let what = "what a wall of this machine's best tier, its egress process and its files add \
                    to a chat of one word with a simulated child";
        let figure = Figure::new("confine_start_ms", what, "ms", added, Aim::AtMost(15.0));
        figures.push(figure.beside("the chat without a wall", &plain, "ms"));

        let (mut added, mut direct) = (Vec::new(), Vec::new());
        let site = Site::open().await?;
        for _ in 0..sizes.rounds {
            let (mut through, mut straight) = (Vec::new(), Vec::new());
            for _ in 0..REQUESTS {
                straight.push(site.request(site.port, "/").await?);
                through.push(site.request(site.proxy, &site.url()).await?);
            }
            added.push(percentile(&through, 99.0) - percentile(&straight, 99.0));
            direct.push(percentile(&straight, 99.0));
        }
        let what = "what the proxy adds to a request on a new connection, p99";
        let figure = Figure::new("proxy_added_ms", what, "ms", added, Aim::AtMost(2.0));
        figures.push(figure.beside("the request without a proxy, p99", &direct, "ms"));
        Ok(())
    }
}

/// Returns the time from the prompt to the end of a chat in a new session with this wall.
async fn chat(server: &Server, confine: &str, name: &str) -> Result<f64> {
    let params = json!({
        "name": format!("{confine}-{name}"), "working_dir": server.work_dir(), "confine": confine,
    });
    let created = server.call("claudecode.create", params).await?;
    let session = created["id"].as_str().context("a session has no id")?;
    let begun = Instant::now();
    let page = server.chat(session, WORD).await?;
    ensure!(page["status"] == "complete", "a chat is {}: {page:#}", page["status"]);
    Ok(millis(begun.elapsed()))
}

/// A web server and a proxy to it.
struct Site {
    port: u16,
    proxy: u16,
}

impl Site {
    async fn open() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = [0; 1024];
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
                if stream.read(&mut head).await.is_ok() {
                    let _hung_up = stream.write_all(answer).await;
                }
            }
        });
        let hosts = ListedHosts(vec![format!("127.0.0.1:{port}").parse()?]);
        let options = EgressOptions {
            decider: Some(Arc::new(hosts)),
            model: None,
            bounds: Bounds::default(),
            server: None,
            upstream: None,
        };
        let egress = Egress::listen_here(options).await?;
        let proxy = egress.doors().proxy.context("there is no proxy")?;
        tokio::spawn(egress.run(std::future::pending()));
        Ok(Self { port, proxy })
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    async fn request(&self, port: u16, target: &str) -> Result<f64> {
        let begun = Instant::now();
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let head = format!(
            "GET {target} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\n\r\n",
            self.port
        );
        stream.write_all(head.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        ensure!(answer.ends_with(b"ok"), "{}", String::from_utf8_lossy(&answer));
        Ok(millis(begun.elapsed()))
    }
}
