//! The doors to the egress process: allowed hosts pass, others do not, and the model gets our key.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::mpsc;

use anyhow::{Context as _, Result, ensure};
use plexus_confine::egress::{ApiKey, Bounds, Egress, EgressOptions, ModelApi};
use plexus_confine::{Profile, Tier};

use crate::Case;
use crate::inside::{Inside, hosts, runtime, said};

pub(crate) const CASES: &[(&str, Case)] = &[
    ("an_allowed_host_is_reached", allowed),
    ("another_host_is_refused_with_the_reason", refused),
    ("the_model_gets_the_real_key_and_the_program_never_has_it", model),
    ("the_door_to_the_model_takes_nothing_else", model_refuses),
    ("strict_has_a_door_to_the_model_and_no_proxy", strict),
];

/// Sends a request as the program inside: `fetch PORT REQUEST…`, lines joined. Prints the answer.
pub(crate) fn fetch(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut word = || args.next().map(|word| word.to_string_lossy().into_owned());
    let answer = (|| -> Result<String> {
        let port: u16 = match word().context("a port")?.as_str() {
            "proxy" => {
                let proxy = std::env::var("http_proxy").context("there is no proxy")?;
                proxy.rsplit(':').next().unwrap_or_default().parse()?
            }
            port => port.parse()?,
        };
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        let mut last = String::new();
        while let Some(request) = word() {
            stream.write_all(request.replace("\\r\\n", "\r\n").as_bytes())?;
            let mut bytes = [0; 4096];
            let length = stream.read(&mut bytes)?;
            last = String::from_utf8_lossy(&bytes[..length]).into_owned();
        }
        Ok(last)
    })();
    match answer {
        Ok(answer) => {
            print!("{answer}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A server on this machine that answers each request and tells which it got.
fn stand_in() -> Result<(u16, mpsc::Receiver<String>)> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    let (tell, hear) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            let mut head = String::new();
            while reader.read_line(&mut head).is_ok_and(|length| length > 2) {}
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";
            let _hung_up = reader.get_mut().write_all(answer.as_bytes());
            let _nobody_listens = tell.send(head);
        }
    });
    Ok((port, hear))
}

impl Inside {
    fn fetch(&self, egress: EgressOptions, args: &[&str]) -> Result<String> {
        let exe = self.stage.program.to_string_lossy().into_owned();
        let program = [&[exe.as_str(), "fetch"], args].concat();
        said(&self.run_with(|_| {}, Some(egress), &program)?)
    }
}

fn allowed(inside: &Inside) -> Result<()> {
    let (port, requests) = stand_in()?;
    let host = format!("127.0.0.1:{port}");
    let request = format!(
        "GET http://{host}/a?b HTTP/1.1\\r\\nHost: other\\r\\nProxy-Connection: x\\r\\n\\r\\n"
    );
    let answer = inside.fetch(hosts(&[&host], None)?, &["proxy", &request])?;
    ensure!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("hello"), "{answer}");
    let seen = requests.recv()?.to_lowercase();
    ensure!(seen.starts_with("get /a?b http/1.1"), "{seen}");
    // The host that was decided about, and not the one that the program claims.
    ensure!(seen.contains(&format!("host: {host}")) && !seen.contains("other"), "{seen}");
    ensure!(!seen.contains("proxy-connection"), "{seen}");

    let connect = format!("CONNECT {host} HTTP/1.1\\r\\n\\r\\n");
    let through = ["proxy", &connect, "GET /tunnel HTTP/1.1\\r\\n\\r\\n"];
    let answer = inside.fetch(hosts(&[&host], None)?, &through)?;
    ensure!(answer.ends_with("hello"), "{answer}");
    ensure!(requests.recv()?.starts_with("GET /tunnel"), "the tunnel leads elsewhere");
    Ok(())
}

fn refused(inside: &Inside) -> Result<()> {
    let (port, _requests) = stand_in()?;
    for request in [
        format!("CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\n\\r\\n"),
        format!("GET http://127.0.0.1:{port}/ HTTP/1.1\\r\\nHost: allowed.example.org\\r\\n\\r\\n"),
    ] {
        let answer = inside.fetch(hosts(&["allowed.example.org"], None)?, &["proxy", &request])?;
        let words =
            format!("127.0.0.1:{port} is not allowed for this program: it is not on the list");
        ensure!(answer.starts_with("HTTP/1.1 403") && answer.contains(&words), "{answer}");
    }
    // A listed name that leads to this machine is refused when it was resolved.
    let answer = inside.fetch(
        hosts(&["localhost.localdomain:80", "ip6-localhost:80"], None)?,
        &["proxy", "CONNECT ip6-localhost:80 HTTP/1.1\\r\\n\\r\\n"],
    )?;
    ensure!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    Ok(())
}

fn model_door(key: &str) -> Result<(EgressOptions, String, mpsc::Receiver<String>)> {
    let (port, requests) = stand_in()?;
    let key = ApiKey::new(key);
    let stand_in = ApiKey::stand_in_for(&key)?;
    let shown = stand_in.reveal().to_owned();
    let model = ModelApi::new(&format!("http://127.0.0.1:{port}"), key, stand_in, None)?;
    let printed = format!("{model:?}");
    ensure!(!printed.contains("real"), "the key prints: {printed}");
    let egress = EgressOptions {
        decider: None,
        model: Some(model),
        bounds: Bounds::default(),
        server: None,
        upstream: None,
    };
    Ok((egress, shown, requests))
}

impl Inside {
    /// Sends a request to the door of the model, whose port the program knows.
    fn ask_model(&self, egress: EgressOptions, profile: Profile, request: &str) -> Result<String> {
        let exe = self.stage.program.to_string_lossy().into_owned();
        let run_dir = plexus_confine::RunDir::new()?;
        let runtime = runtime()?;
        let _within = runtime.enter();
        let egress = match self.tier {
            Tier::Full => Egress::listen_inside(egress, &run_dir.path().join("egress"))?,
            Tier::Landlock => runtime.block_on(Egress::listen_here(egress))?,
        };
        let doors = egress.doors().clone();
        let port = doors.model.context("a door to the model")?.to_string();
        runtime.spawn(egress.run(std::future::pending()));
        let program = [exe.as_str(), "fetch", &port, request];
        let change = |wall: &mut plexus_confine::Wall| {
            wall.profile = profile;
            wall.doors = doors;
        };
        let output = self.run_with(change, None, &program)?;
        runtime.shutdown_background();
        said(&output)
    }
}

fn model(inside: &Inside) -> Result<()> {
    for (key, header) in [
        ("real-key", "x-api-key: real-key"),
        ("sk-ant-oat01-real-login", "authorization: bearer sk-ant-oat01-real-login"),
    ] {
        let (egress, shown, requests) = model_door(key)?;
        let request = format!(
            "POST /v1/messages HTTP/1.1\\r\\nAuthorization: Bearer {shown}\\r\\nContent-Length: 0\\r\\n\\r\\n"
        );
        let answer = inside.ask_model(egress, Profile::Workspace, &request)?;
        ensure!(answer.ends_with("hello") && !answer.contains("real"), "{answer}");
        let seen = requests.recv()?.to_lowercase();
        ensure!(seen.contains(header) && !seen.contains(&shown), "{seen}");
    }
    Ok(())
}

fn model_refuses(inside: &Inside) -> Result<()> {
    let cases = [
        ("GET /v1/files HTTP/1.1\\r\\nx-api-key: SHOWN\\r\\n\\r\\n", "HTTP/1.1 403"),
        ("POST /v1/messages/../files HTTP/1.1\\r\\nx-api-key: SHOWN\\r\\n\\r\\n", "HTTP/1.1 403"),
        ("CONNECT example.org:443 HTTP/1.1\\r\\n\\r\\n", "HTTP/1.1 403"),
        ("GET /v1/models HTTP/1.1\\r\\n\\r\\n", "HTTP/1.1 401"),
        ("GET /v1/models HTTP/1.1\\r\\nx-api-key: guessed\\r\\n\\r\\n", "HTTP/1.1 401"),
    ];
    for (request, expected) in cases {
        let (egress, shown, requests) = model_door("real-key")?;
        let request = request.replace("SHOWN", &shown);
        let answer = inside.ask_model(egress, Profile::Workspace, &request)?;
        ensure!(answer.starts_with(expected), "{request}: {answer}");
        ensure!(requests.try_recv().is_err(), "{request} went through");
    }
    Ok(())
}

fn strict(inside: &Inside) -> Result<()> {
    let (egress, shown, _requests) = model_door("real-key")?;
    let request = format!("GET /v1/models HTTP/1.1\\r\\nx-api-key: {shown}\\r\\n\\r\\n");
    let answer = inside.ask_model(egress, Profile::Strict, &request)?;
    ensure!(answer.ends_with("hello"), "{answer}");
    let proxy = hosts(&[], None)?;
    let refused = inside.run_with(|wall| wall.profile = Profile::Strict, Some(proxy), &["true"]);
    let why = refused.err().context("strict takes a proxy")?.to_string();
    ensure!(why.contains("strict has no proxy"), "{why}");
    Ok(())
}
