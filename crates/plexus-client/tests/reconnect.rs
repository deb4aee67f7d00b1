//! Followers across restarts of the server and across a network that cuts connections: they receive
//! every event once and in order.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::path::PathBuf;
use std::time::Duration;

use futures::StreamExt as _;
use plexus_client::wire::{
    ChatEvent, ChatParams, CreateParams, CursorSetParams, ErrorKind, FollowParams, PageLimit,
    ParentParams, PollParams, SecretToken, SessionId, SessionRef,
};
use plexus_client::{Client, Event, Follow, FollowItem};
use testkit::proxy::{Proxy, Weather};
use testkit::server::{ServerOptions, TestServer, lasting_address};

/// How long anything may take on a loaded machine before a test reports what did not happen.
const DEADLINE: Duration = Duration::from_secs(180);

/// A chat of more than 150 events with two pauses, during which a connection can be lost. The
/// second pause ends with [`let_it_end`].
const LONG: &str = r#"sim:
burst 50 10
sleep 300
burst 50 10
tool Bash {"command":"while ! test -e go; do sleep 0.05; done"}
burst 50 10
say end"#;

fn let_it_end(server: &TestServer) {
    std::fs::write(work(server).join("go"), "").unwrap();
}

/// The directory in which the sessions of a server work.
fn work(server: &TestServer) -> PathBuf {
    server.data_dir().with_file_name("work")
}

/// A follower and the items it has received.
struct Heard {
    follow: Follow,
    events: Vec<Event>,
    lost: u32,
    back: u32,
}

impl Heard {
    fn by(client: &Client, params: FollowParams) -> Self {
        Self { follow: client.follow(params), events: Vec::new(), lost: 0, back: 0 }
    }

    /// Receives items until `enough` holds.
    async fn until(&mut self, what: &str, enough: impl Fn(&Self) -> bool) {
        while !enough(self) {
            let next = tokio::time::timeout(DEADLINE, self.follow.next()).await;
            match next.unwrap_or_else(|_| panic!("{what} did not come")).unwrap().unwrap() {
                FollowItem::Event(event) => self.events.push(*event),
                FollowItem::Lost => self.lost += 1,
                FollowItem::Back => self.back += 1,
                _ => {}
            }
        }
    }

    async fn until_complete(&mut self) {
        self.until("the end of the chat", |heard| {
            heard.events.last().is_some_and(|last| is_end(&last.event))
        })
        .await;
    }

    fn seqs(&self) -> Vec<u32> {
        self.events.iter().map(|event| event.at.event.seq).collect()
    }

    /// Checks that every event came once and in order, from `first` on.
    fn assert_whole_from(&self, first: u32) {
        let last = self.events.last().expect("events").at.event.seq;
        assert_eq!(self.seqs(), (first..=last).collect::<Vec<_>>());
    }
}

fn is_end(event: &ChatEvent) -> bool {
    matches!(event, ChatEvent::Complete { .. })
}

/// Starts a server with a proxy before it that can cut connections; the server accepts requests
/// which name the proxy.
async fn server_and_proxy() -> (TestServer, Proxy) {
    let listen = lasting_address().unwrap();
    let proxy = Proxy::start(listen.parse().unwrap()).await.unwrap();
    let set = ["--set".into(), format!("allowed_hosts={}", proxy.address()).into()];
    let options =
        ServerOptions { listen: Some(listen), arguments: set.into(), ..ServerOptions::default() };
    (TestServer::with(options).await.unwrap(), proxy)
}

async fn session(client: &Client, server: &TestServer, name: &str) -> SessionId {
    std::fs::create_dir_all(work(server)).unwrap();
    client.agents().create(&CreateParams::new(name, work(server))).await.unwrap().id
}

/// Creates a session for [`LONG`], which uses a tool.
async fn session_with_bash(client: &Client, server: &TestServer, name: &str) -> SessionId {
    std::fs::create_dir_all(work(server)).unwrap();
    let mut params = CreateParams::new(name, work(server));
    params.allowed_tools = Some(vec!["Bash".to_owned()]);
    client.agents().create(&params).await.unwrap().id
}

async fn chat(client: &Client, session: SessionId, prompt: &str) {
    let chat = ChatParams::new(SessionRef::id(session), prompt);
    client.agents().chat_async(&chat).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_and_restarted_server_repeats_and_skips_nothing() {
    let mut server = TestServer::start().await.unwrap();
    // The server listens on another port after the restart; the data directory says which.
    let client = Client::from_data_dir(server.data_dir());
    let session = session_with_bash(&client, &server, "killed").await;
    let mut heard = Heard::by(&client, FollowParams::of(session));
    chat(&client, session, LONG).await;
    heard.until("the first events", |heard| heard.events.len() >= 20).await;
    server.crash_and_restart().await.unwrap();
    let_it_end(&server);
    heard.until_complete().await;
    heard.assert_whole_from(0);
    assert!(heard.events.len() > 150, "{}", heard.events.len());
    assert!(heard.lost >= 1 && heard.back == heard.lost, "{} {}", heard.lost, heard.back);

    // A poll shows the same events, typed.
    let mut params = PollParams::new(session);
    params.from_seq = Some(0);
    params.limit = Some(PageLimit::MAX);
    let polled = client.agents().poll(&params).await.unwrap();
    let polled: Vec<ChatEvent> = polled.events.iter().map(|event| event.read().unwrap()).collect();
    let followed: Vec<ChatEvent> = heard.events.iter().map(|event| event.event.clone()).collect();
    assert_eq!(polled, followed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_cuts_again_and_again_repeats_and_skips_nothing() {
    let (server, proxy) = server_and_proxy().await;
    let direct = Client::from_data_dir(server.data_dir());
    let token = SecretToken::new(server.token().unwrap());
    let client = Client::connect(format!("http://{}", proxy.address()), token);
    let session = session_with_bash(&direct, &server, "cut").await;
    let mut heard = Heard::by(&client, FollowParams::of(session));
    chat(&direct, session, LONG).await;
    for cut in 1..=4 {
        heard.until("more events", |heard| heard.events.len() >= cut * 15).await;
        match cut {
            // The network is away for a while, and then back.
            2 => {
                proxy.set(Weather::Cut);
                heard.until("the loss", |heard| heard.lost > heard.back).await;
                proxy.set(Weather::Clear);
            }
            3 => proxy.half_close_open_connections(),
            _ => proxy.cut_open_connections(),
        }
    }
    let_it_end(&server);
    heard.until_complete().await;
    heard.assert_whole_from(0);
    assert!(heard.lost >= 1 && heard.events.len() > 150, "{} {}", heard.lost, heard.events.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_of_all_sessions_keeps_its_start_across_a_loss() {
    let (server, proxy) = server_and_proxy().await;
    let client = Client::from_data_dir(server.data_dir());
    let parent = client.identity().parent(&ParentParams::new("outside")).await.unwrap();
    let through = format!("http://{}", proxy.address());
    let as_parent = Client::connect(&through, SecretToken::new(parent.token.clone()));
    let as_operator =
        Client::connect(&through, SecretToken::new(server.token().unwrap().to_owned()));
    let near = Client::connect(server.url().unwrap(), SecretToken::new(parent.token));
    let child = session(&near, &server, "child").await;
    chat(&near, child, "sim:\nsay before").await;
    Heard::by(&client, FollowParams::of(child)).until_complete().await;
    // That stream must not count with the two below.
    testkit::eventually_async("the end of the first stream", DEADLINE, || async {
        (metric(&server, "plexus_streams").await == 0).then_some(())
    })
    .await;

    let mut followers = [
        Heard::by(&as_parent, FollowParams::default()),
        Heard::by(&as_operator, FollowParams::default()),
    ];
    // Both have their position and a connection before anything happens, and then lose the
    // connection.
    both_follow(&server).await;
    proxy.set(Weather::Cut);
    for heard in &mut followers {
        heard.until("the loss", |heard| heard.lost == 1).await;
    }
    chat(&near, child, "sim:\nsay while nobody hears").await;
    Heard::by(&client, FollowParams::of(child))
        .until("the second chat", |heard| {
            heard.events.last().is_some_and(|last| last.at.chat == 1 && is_end(&last.event))
        })
        .await;
    proxy.set(Weather::Clear);
    for heard in &mut followers {
        heard.until_complete().await;
        assert!(heard.events.iter().all(|event| event.at.chat == 1), "nothing of the past");
        heard.assert_whole_from(0);
    }
}

/// How many looks in a row must see the same numbers.
const STEADY_LOOKS: u32 = 20;

/// Waits until two streams are open and no call runs any more: a follower asks for its first
/// position with a long call, which counts as a stream while it lasts.
async fn both_follow(server: &TestServer) {
    let (mut seen, mut steady) = (0, 0);
    let began = std::time::Instant::now();
    while steady < STEADY_LOOKS {
        assert!(began.elapsed() < DEADLINE, "two streams did not open");
        let calls = metric(server, "plexus_calls_total").await;
        let open = metric(server, "plexus_streams").await == 2;
        steady = if open && calls == seen { steady + 1 } else { 0 };
        seen = calls;
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// Reads one metric of the server.
async fn metric(server: &TestServer, name: &str) -> u64 {
    let url = format!("{}/metrics", server.url().unwrap());
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let asked = http.get(url).bearer_auth(server.token().unwrap()).send().await.unwrap();
    let text = asked.text().await.unwrap();
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
    text.lines().find_map(value).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_reader_is_where_to_begin() {
    let server = TestServer::start().await.unwrap();
    let client = Client::from_data_dir(server.data_dir());
    let session = session(&client, &server, "reader").await;
    chat(&client, session, "sim:\nburst 5 10\nsay end").await;
    let mut first = Heard::by(&client, FollowParams::of(session));
    first.until_complete().await;
    let third = first.events[2].cursor.clone();
    client.agents().cursor_set(&CursorSetParams::new(session, "r", &third)).await.unwrap();

    let mut named = FollowParams::of(session);
    named.consumer = Some("r".to_owned());
    for params in [named, FollowParams::of(session).after(third)] {
        let mut heard = Heard::by(&client, params);
        heard.until_complete().await;
        heard.assert_whole_from(3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_a_retry_cannot_mend_ends_the_stream() {
    let server = TestServer::start().await.unwrap();
    let client = Client::from_data_dir(server.data_dir());
    let mut follow = client.follow(FollowParams::of(SessionId::generate()));
    let error = follow.next().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(follow.next().await.is_none());

    let stranger = Client::connect(server.url().unwrap(), SecretToken::new("plx_nobody"));
    let error = stranger.follow(FollowParams::default()).next().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized);
}
