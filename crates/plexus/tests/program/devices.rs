//! A paired phone: what it may do, what is said of it, and its end.

use futures::{SinkExt as _, StreamExt as _};
use plexus_client::Client;
use plexus_client::wire::SecretToken;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::installation::{DEADLINE, Installation};
use crate::serve::{Server, log_of};

/// Everything that a device may call. A method that is added here gives every phone more.
const FOR_DEVICES: &[&str] = &[
    "agents.follow",
    "agents.get",
    "agents.list",
    "agents.render_context",
    "agents.streams",
    "agents.wait",
    "claudecode.follow",
    "claudecode.get",
    "claudecode.list",
    "claudecode.render_context",
    "claudecode.streams",
    "claudecode.wait",
    "loopback.files",
    "loopback.history",
    "loopback.pending",
    "loopback.respond",
    "loopback.respond_many",
    "loopback.wait_for_approval",
    "notify.push_key",
    "notify.push_subscribe",
    "notify.push_unsubscribe",
    "plexus.methods",
    "plexus.schema",
    "plexus.version",
];

struct Phone {
    url: String,
    token: String,
    http: reqwest::Client,
}

impl Phone {
    async fn exchange(server: &Server, code: &str) -> (u16, Value) {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let body = json!({ "code": code });
        let answer =
            http.post(format!("{}/auth/exchange", server.url)).json(&body).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    async fn pair(installation: &Installation, server: &Server) -> Self {
        let pairing: Value =
            serde_json::from_str(&installation.works(&["pair", "--json"])).unwrap();
        let (status, body) = Self::exchange(server, pairing["code"].as_str().unwrap()).await;
        assert_eq!((status, &body["device"]), (200, &json!("phone")), "{body}");
        let token = body["token"].as_str().unwrap().to_owned();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { url: server.url.clone(), token, http }
    }

    async fn call(&self, method: &str, params: Value) -> Result<Value, Value> {
        let client = Client::connect(&self.url, SecretToken::new(self.token.clone()));
        client.call_by_name::<Value>(method, params).await.map_err(|error| match error {
            plexus_client::ClientError::Call(error) => json!(error),
            error => panic!("{method}: {error}"),
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_pairs_one_device_once() {
    let installation = Installation::new();
    let server = Server::start(&installation, &[]);
    let printed = installation.works(&["pair", "--name", "my phone"]);
    let link = printed.lines().find_map(|line| line.trim().strip_prefix(&server.url)).unwrap();
    let code = link.strip_prefix("/phone#code=").unwrap();
    assert!(printed.contains('█') && printed.contains("this machine alone"), "{printed}");
    let (status, paired) = Phone::exchange(&server, code).await;
    assert_eq!((status, &paired["device"]), (200, &json!("my phone")));
    let (status, refused) = Phone::exchange(&server, code).await;
    let words = refused["error"]["data"].to_string();
    assert_eq!(status, 401);
    assert!(words.contains("used already") && words.contains("plexus pair"), "{words}");
    let (status, _) = Phone::exchange(&server, "plx_made_up").await;
    assert_eq!(status, 401);
    assert!(
        installation
            .fails(&["pair", "--name", "my phone"])
            .contains("another device has this name")
    );
    assert!(installation.works(&["devices"]).contains("my phone"));
    let audit = installation.works(&["call", "loopback.audit"]);
    assert!(audit.contains("device.paired") && audit.contains("/auth/exchange"), "{audit}");
    assert!(!audit.contains(code), "a code is written nowhere");
    let log = log_of(&installation);
    assert!(log.contains("this code was used already") && !log.contains(code), "{log}");
    let told = installation.works(&["doctor"]);
    assert!(told.contains("2 from outside in the last day"), "{told}");
    assert!(told.contains("by /auth/exchange") && told.contains("plexus devices revoke"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_reads_and_decides_and_nothing_else() {
    let installation = Installation::new();
    let server = Server::start(&installation, &[]);
    let phone = Phone::pair(&installation, &server).await;

    let listed = phone.call("plexus.methods", json!({})).await.unwrap();
    let mut names: Vec<&str> = listed["methods"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, FOR_DEVICES);
    let all = installation.call("plexus.methods", &json!({}));
    for method in all["methods"].as_array().unwrap() {
        let name = method["name"].as_str().unwrap();
        if FOR_DEVICES.contains(&name) {
            continue;
        }
        let refused = phone.call(name, json!({})).await.unwrap_err();
        assert_eq!(refused["kind"], "forbidden", "{name}: {refused}");
        assert!(refused["message"].as_str().unwrap().contains("a device may"), "{refused}");
    }
    let audit = installation.call("loopback.audit", &json!({"limit": 1000}));
    let refusals = audit["lines"].as_array().unwrap();
    let create = refusals.iter().find(|line| line["body"]["method"] == "agents.create").unwrap();
    assert_eq!(create["body"]["device"], "phone", "{create}");
    let log = log_of(&installation);
    let said = log.lines().any(|line| {
        ["refused", "agents.create", "phone", "a device may"].iter().all(|it| line.contains(it))
    });
    assert!(said, "{log}");
    let told = installation.works(&["doctor"]);
    assert!(told.contains("the newest, by the device \"phone\""), "{told}");

    let dir = installation.work().display().to_string();
    let session = installation.call("agents.create", &json!({"name": "s", "working_dir": dir}));
    let prompt = "sim:\ntool Bash {\"command\": \"touch a\"}";
    installation.call("agents.chat_async", &json!({"session_id": session["id"], "prompt": prompt}));
    let approval = installation.pending();
    let (id, digest) = (&approval["id"], &approval["input_digest"]);
    let seen = phone.call("loopback.pending", json!({})).await.unwrap();
    assert_eq!(&seen["approvals"][0]["id"], id);
    let answer = |more: Value| {
        let mut answer = json!({"approval_id": id, "approve": true, "input_digest": digest});
        answer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        answer
    };
    for more in
        [json!({"remember": {"scope": "all"}}), json!({"updated_input": {"command": "touch b"}})]
    {
        let refused = phone.call("loopback.respond", answer(more)).await.unwrap_err();
        assert_eq!(refused["kind"], "forbidden", "{refused}");
    }
    phone.call("loopback.respond", answer(json!({}))).await.unwrap();
    phone.call("loopback.respond", answer(json!({}))).await.expect("the same answer again is fine");

    let devices: Value =
        serde_json::from_str(installation.works(&["devices", "--json"]).lines().next().unwrap())
            .unwrap();
    let history = installation.call("loopback.history", &json!({}));
    let decision = &history["decisions"][0];
    assert_eq!(decision["decided_by"], json!({"device": devices["id"]}), "{decision}");
    assert_eq!(decision["device"], "phone");
    let audit = installation.call("loopback.audit", &json!({"limit": 1000}));
    let answered: Vec<&Value> = audit["lines"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|line| line["kind"] == "approval.answered")
        .collect();
    assert_eq!(answered.len(), 1, "{answered:?}");
    assert_eq!(answered[0]["body"]["receiver"], "phone");
    assert_eq!(answered[0]["body"]["via"], "device");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_device_loses_what_it_has_open() {
    let installation = Installation::new();
    let server = Server::start(&installation, &[]);
    let phone = Phone::pair(&installation, &server).await;

    let events = phone.http.get(format!("{}/events", server.url)).bearer_auth(&phone.token);
    let mut events = events.send().await.unwrap().bytes_stream();
    assert!(events.next().await.is_some());
    let mut request =
        format!("{}/rpc", server.url.replacen("http", "ws", 1)).into_client_request().unwrap();
    let bearer = format!("Bearer {}", phone.token).parse().unwrap();
    request.headers_mut().insert("authorization", bearer);
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
    let follow = json!({"jsonrpc": "2.0", "id": 1, "method": "agents.follow", "params": {}});
    socket.send(Message::text(follow.to_string())).await.unwrap();
    let polling = phone.call("loopback.wait_for_approval", json!({"wait_ms": 60_000}));

    let revoking = async {
        assert!(installation.works(&["devices", "revoke", "phone"]).contains("revoked phone"));
    };
    let (polled, ()) = tokio::time::timeout(DEADLINE, async { tokio::join!(polling, revoking) })
        .await
        .expect("the end of the long poll");
    let polled = polled.unwrap_err();
    assert_eq!(polled["kind"], "unauthorized", "{polled}");
    let over = async {
        while let Some(Ok(_)) = events.next().await {}
        while let Some(Ok(_)) = socket.next().await {}
    };
    tokio::time::timeout(DEADLINE, over).await.expect("the end of the streams");

    let refused = phone.call("loopback.pending", json!({})).await.unwrap_err();
    assert_eq!(refused["kind"], "unauthorized");
    assert!(installation.works(&["devices"]).starts_with("no devices"));
    assert!(installation.fails(&["devices", "revoke", "phone"]).contains("find the device"));
    // The name is free again, for another device.
    installation.works(&["pair", "--name", "phone"]);
}
