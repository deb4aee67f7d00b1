//! `SIGKILL` of the database, and faults on the connection to it: children go on writing their
//! journals, and nothing that was acknowledged is lost.

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::postgres::{self, Postgres};
use testkit::proxy::{Proxy, Weather};

use crate::cluster::{Cluster, DEADLINE, LONG_LEASE, texts, writes};
use crate::history::{self, Told};

/// Answers through one server until the outcome is known, and returns it. An error of the
/// connection is no outcome.
async fn answer(cluster: &Cluster, node: usize, approval: &str, approve: bool) -> Told {
    testkit::eventually_async("an answer to an answer", DEADLINE, || async {
        let params = json!({"approval_id": approval, "approve": approve});
        match cluster.nodes[node]
            .call_as(cluster.nodes[node].token().unwrap(), "loopback.respond", params)
            .await
        {
            Ok(Ok(_)) => Some(Told { approval: approval.to_owned(), approve, ok: true }),
            Ok(Err(error)) if error.kind() == "conflict" => {
                Some(Told { approval: approval.to_owned(), approve, ok: false })
            }
            Ok(Err(_)) | Err(_) => None,
        }
    })
    .await
}

pub(crate) async fn a_database_that_is_killed_and_comes_back_loses_nothing_and_ends_no_child() {
    let mut postgres = postgres::own();
    let url = postgres.fresh_database().unwrap();
    let cluster = Cluster::start(&[&url, &url], LONG_LEASE).await;
    let (talks, asks) = (cluster.create(0, "talks").await, cluster.create(1, "asks").await);
    let words: String = (0..60).map(|n| format!("\nsay {n}\nsleep 30")).collect();
    cluster.chat(0, &talks, &format!("sim:{words}")).await;
    cluster.chat(1, &asks, &writes("asks.txt")).await;
    let approval = cluster.approval(0, &asks).await["id"].as_str().unwrap().to_owned();
    cluster
        .wait_for(1, &talks, "its first words", |page| page["total_events"].as_u64().unwrap() > 5)
        .await;
    postgres.kill_9().unwrap();
    let refused = cluster.nodes[0]
        .call("loopback.respond", json!({"approval_id": approval, "approve": true}))
        .await;
    assert!(refused.is_err(), "nothing is acknowledged that cannot be stored");
    postgres.start_again().unwrap();
    let told = answer(&cluster, 0, &approval, true).await;
    assert!(told.ok);
    // Again, right after the decision.
    postgres.crash_and_restart().unwrap();
    for reader in 0..2 {
        let (status, events) = cluster.end(reader, &talks).await;
        assert_eq!(status, "complete");
        assert_eq!(texts(&events), (0..60).map(|n| n.to_string()).collect::<Vec<_>>());
        let (status, events) = cluster.end(reader, &asks).await;
        assert_eq!((status.as_str(), texts(&events)), ("complete", vec!["before", "after"]));
    }
    history::check(&cluster, 0, &[talks, asks], &[told]).await;
}

pub(crate) async fn connections_that_are_cut_delayed_half_closed_or_unanswered_cost_time_and_nothing_else()
 {
    let postgres = postgres::shared();
    let url = postgres.fresh_database().unwrap();
    let (asker, answerer) = (
        Proxy::start(postgres.address()).await.unwrap(),
        Proxy::start(postgres.address()).await.unwrap(),
    );
    let urls =
        [&asker, &answerer].map(|proxy| postgres.url_through(&url, proxy.address()).unwrap());
    let cluster = Cluster::start(&[&urls[0], &urls[1], &url], LONG_LEASE).await;
    type Fault = fn(&Proxy);
    let faults: [(&str, Fault); 5] = [
        ("cut", Proxy::cut_open_connections),
        ("half-closed", Proxy::half_close_open_connections),
        ("slow", |proxy| proxy.set(Weather::Slow(Duration::from_millis(20)))),
        ("unanswered", |proxy| proxy.set(Weather::Unanswered)),
        ("refused", |proxy| proxy.set(Weather::Cut)),
    ];
    let (mut sessions, mut told) = (Vec::new(), Vec::new());
    for (name, fault) in faults {
        let session = cluster.create(2, name).await;
        let parallel = format!(
            "sim:\nsay before\ntool Write {{\"file_path\":\"{name}.txt\",\"content\":\"1\"}}\ntool Bash {{\"command\":\"rm {name}.txt\"}}\nsay after"
        );
        cluster.chat(0, &session, &parallel).await;
        let first = cluster.approval(2, &session).await["id"].as_str().unwrap().to_owned();
        fault(&answerer);
        // The fault may end while the answer is on its way, or later: the caller retries until it
        // knows the outcome.
        let (clearing, one) = tokio::join!(
            async {
                tokio::time::sleep(Duration::from_millis(300)).await;
                answerer.set(Weather::Clear);
                answerer.cut_open_connections();
            },
            answer(&cluster, 1, &first, true)
        );
        let () = clearing;
        told.push(one);
        let another = |page: &Value| {
            page["pending_approvals"]
                .as_array()
                .is_some_and(|list| list.first().is_some_and(|it| it["id"] != first.as_str()))
        };
        let page = cluster.wait_for(2, &session, "the second question", another).await;
        let second = page["pending_approvals"][0]["id"].as_str().unwrap().to_owned();
        fault(&asker);
        told.push(answer(&cluster, 2, &second, false).await);
        tokio::time::sleep(Duration::from_millis(300)).await;
        asker.set(Weather::Clear);
        asker.cut_open_connections();
        let (status, events) = cluster.end(2, &session).await;
        assert_eq!(
            (status.as_str(), texts(&events)),
            ("complete", vec!["before", "after"]),
            "{name}"
        );
        assert!(
            cluster.work().join(format!("{name}.txt")).exists(),
            "{name}: written, and not removed"
        );
        sessions.push(session);
    }
    assert!(told.iter().all(|told| told.ok), "{told:#?}");
    history::check(&cluster, 2, &sessions, &told).await;
}

/// A server that was killed while its child asked, and whose next life loses its database while it
/// starts.
struct Interrupted {
    postgres: Postgres,
    cluster: Cluster,
    session: String,
    approval: Value,
    faults: TempDir,
}

impl Interrupted {
    /// Where the next life stands still: it looks at the runs of the one before.
    const STANDS_STILL_AT: &str = "reattach.look";

    async fn new() -> Self {
        let postgres = postgres::own();
        let url = postgres.fresh_database().unwrap();
        let mut cluster = Cluster::start(&[&url], LONG_LEASE).await;
        let session = cluster.create(0, "asks").await;
        cluster.chat(0, &session, &writes("asks.txt")).await;
        let approval = cluster.approval(0, &session).await;
        let faults = tempfile::tempdir().unwrap();
        let mut env = crate::cluster::options(0, &url, LONG_LEASE, cluster.folder()).env;
        env.push(("PLEXUS_FAULT".to_owned(), format!("{}:freeze@1", Self::STANDS_STILL_AT)));
        env.push(("PLEXUS_FAULT_DIR".to_owned(), faults.path().display().to_string()));
        cluster.nodes[0].kill_9().unwrap();
        cluster.nodes[0].set_env(env);
        Self { postgres, cluster, session, approval, faults }
    }

    /// Starts the next life. Calls `then` with its process once it waits for its database. Returns
    /// how the start went.
    async fn start(&mut self, then: impl FnOnce(&mut Postgres, u32)) -> anyhow::Result<()> {
        let mark = self.faults.path().join(format!("{}@1", Self::STANDS_STILL_AT));
        let server = &mut self.cluster.nodes[0];
        let log = server.log_path();
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let (started, ()) = tokio::join!(server.start_again(), async {
            let stands = async || read(&mark).strip_suffix('\n')?.parse().ok();
            let pid = testkit::eventually_async("the server stands still", DEADLINE, stands).await;
            self.postgres.kill_9().unwrap();
            testkit::process::signal(pid, Signal::CONT);
            let waits = async || read(&log).contains("trying again for").then_some(());
            testkit::eventually_async("the server waits for its database", DEADLINE, waits).await;
            then(&mut self.postgres, pid);
        });
        started
    }

    /// Answers the child that asked, and checks that it goes on.
    async fn child_goes_on(&self) {
        self.cluster.allow(0, &self.approval).await;
        let (status, events) = self.cluster.end(0, &self.session).await;
        assert_eq!((status.as_str(), texts(&events)), ("complete", vec!["before", "after"]));
    }
}

pub(crate) async fn a_server_whose_database_dies_while_it_starts_waits_for_it() {
    let mut interrupted = Interrupted::new().await;
    interrupted.start(|postgres, _| postgres.start_again().unwrap()).await.unwrap();
    interrupted.child_goes_on().await;
}

pub(crate) async fn a_server_that_waits_for_its_database_stops_when_it_is_asked_to() {
    let mut interrupted = Interrupted::new().await;
    let term = |_: &mut Postgres, pid| testkit::process::signal(pid, Signal::TERM);
    let ended = interrupted.start(term).await.unwrap_err().to_string();
    // A start that gives up ends with 1.
    assert!(ended.contains("exit status: 0"), "{ended}");
    assert!(ended.contains("stopped while it started"), "{ended}");
    interrupted.postgres.start_again().unwrap();
    interrupted.cluster.nodes[0].start_again().await.unwrap();
    interrupted.child_goes_on().await;
}
