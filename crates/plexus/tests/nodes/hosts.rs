//! Network namespaces as separate hosts: two servers that share nothing but a database, each behind
//! a link of its own that can be taken down.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;

use serde_json::json;
use testkit::postgres::{self, PostgresOptions};
use testkit::process::is_alive;
use testkit::server::{ServerOptions, TestServer};

use crate::cluster::{Cluster, LONG_LEASE, SHORT_LEASE, options, texts, writes};
use crate::history::{self, Told};

/// A network namespace with one link to here. Dropping it removes it.
struct Host {
    name: String,
    link: String,
    /// Its own address, and ours on the link.
    address: Ipv4Addr,
    gateway: Ipv4Addr,
}

fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}

impl Host {
    fn new(number: u8) -> Result<Self, String> {
        // Short, because a link's name may have 15 characters; random, because other tests may run
        // at the same time.
        let draw = uuid_bytes();
        let mark = format!("{:02x}{:02x}{:02x}{number}", draw[0], draw[1], draw[2]);
        let (name, link) = (format!("plx{mark}"), format!("plh{mark}"));
        let third = draw[1] & 0xfc | number;
        let host = Self {
            address: Ipv4Addr::new(10, draw[0], third, 2),
            gateway: Ipv4Addr::new(10, draw[0], third, 1),
            name,
            link,
        };
        let Self { name, link, address, gateway } = &host;
        ip(&format!("netns add {name}"))?;
        ip(&format!("link add {link} type veth peer name plx0 netns {name}"))?;
        ip(&format!("addr add {gateway}/30 dev {link}"))?;
        ip(&format!("link set {link} up"))?;
        ip(&format!("-n {name} addr add {address}/30 dev plx0"))?;
        ip(&format!("-n {name} link set plx0 up"))?;
        ip(&format!("-n {name} link set lo up"))?;
        ip(&format!("netns exec {name} true"))?;
        Ok(host)
    }

    fn cut(&self) {
        ip(&format!("link set {} down", self.link)).unwrap();
    }

    fn mend(&self) {
        ip(&format!("link set {} up", self.link)).unwrap();
    }

    /// Starts a server there, which reaches the database through the link.
    async fn server(
        &self,
        n: usize,
        lease_secs: u64,
        url: &str,
        folder: &std::path::Path,
    ) -> TestServer {
        let wrapper = folder.join(format!("plexus-{n}"));
        let script = format!(
            "#!/bin/sh\nexec ip netns exec {} {} \"$@\"\n",
            self.name,
            env!("CARGO_BIN_EXE_plexus")
        );
        testkit::process::executable(&wrapper, &script);
        let mut options: ServerOptions = options(n, url, lease_secs, folder);
        options.plexus_bin = Some(wrapper);
        options.listen = Some(format!("{}:0", self.address));
        for set in ["allow_non_loopback=true".to_owned(), format!("allowed_hosts={}", self.address)]
        {
            options.arguments.extend(["--set".into(), set.into()]);
        }
        TestServer::with(options).await.unwrap()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Its end of the link goes with it.
        let _gone = ip(&format!("netns del {}", self.name));
        let _gone = ip(&format!("link del {}", self.link));
    }
}

fn uuid_bytes() -> [u8; 3] {
    let nanos =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos();
    let [_, a, b, c] = (nanos ^ std::process::id().rotate_left(16)).to_be_bytes();
    [a, b, c]
}

/// Returns why there can be no separate hosts on this machine.
pub(crate) fn lacking() -> Option<String> {
    let why = Host::new(0).err()?;
    Some(format!("network namespaces are not permitted here ({why})"))
}

pub(crate) async fn two_hosts_share_a_database_and_one_that_is_cut_off_lets_its_children_go() {
    let (a, b) = (Host::new(1).unwrap(), Host::new(2).unwrap());
    let options = PostgresOptions { listen: Ipv4Addr::UNSPECIFIED, ..PostgresOptions::default() };
    let postgres = postgres::own_with(options);
    let url = postgres.fresh_database().unwrap();
    let through = |host: &Host| {
        postgres
            .url_through(&url, SocketAddr::from((host.gateway, postgres.address().port())))
            .unwrap()
    };
    let mut cluster = Cluster::with_leases(&[]).await;
    for (n, (host, lease_secs)) in [(&a, SHORT_LEASE), (&b, LONG_LEASE)].into_iter().enumerate() {
        let server = host.server(n, lease_secs, &through(host), cluster.folder()).await;
        cluster.nodes.push(server);
    }
    let session = cluster.create(0, "far").await;
    cluster.chat(0, &session, &writes("far.txt")).await;
    let approval = cluster.approval(1, &session).await;
    cluster.allow(1, &approval).await;
    let (status, events) = cluster.end(1, &session).await;
    assert_eq!((status.as_str(), texts(&events)), ("complete", vec!["before", "after"]));
    let told =
        Told { approval: approval["id"].as_str().unwrap().to_owned(), approve: true, ok: true };

    let cut = cluster.create(0, "cut").await;
    cluster.chat(0, &cut, &writes("cut.txt")).await;
    cluster.approval(1, &cut).await;
    let pids = cluster.pids(0, &cut, 0);
    a.cut();
    let (status, _) = cluster.end(1, &cut).await;
    assert_eq!(status, "failed");
    assert!(!pids.iter().any(|pid| is_alive(*pid)), "the child was gone before the chat was ended");
    a.mend();
    let state = testkit::eventually_async(
        "the return of the first host",
        crate::cluster::DEADLINE,
        || async {
            let state = cluster.nodes[1].call("health.state", json!({})).await.ok()?;
            (state["nodes"][0]["state"] == "alive").then_some(state)
        },
    )
    .await;
    assert!(state["nodes"][0]["epoch"].as_u64().unwrap() > 1, "it registered anew: {state}");
    assert!(!cluster.work().join("cut.txt").exists());
    history::check(&cluster, 1, &[session, cut], &[told]).await;
}
