//! `cone`: conversations with a model itself, through the doors, with a stand-in for both APIs.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../support/handles.rs"]
mod handles;
mod service;

use handles::handles_in;
use serde_json::{Value, json};
use service::{Reply, Service};
use testkit::server::{ServerOptions, TestServer};
use testkit::wait::{PATIENCE, eventually_async};

/// A model of each API.
const MODELS: [&str; 2] = ["claude-test", "openai/test"];

async fn server(service: &Service, more: &[(&str, &str)]) -> TestServer {
    let mut env = vec![
        ("ANTHROPIC_API_KEY", "key-a"),
        ("OPENAI_API_KEY", "key-o"),
        ("PLEXUS_CONE_ANTHROPIC_URL", service.url.as_str()),
        ("PLEXUS_CONE_OPENAI_URL", service.url.as_str()),
    ];
    env.extend(more);
    let options = ServerOptions {
        plexus_bin: Some(env!("CARGO_BIN_EXE_plexus").into()),
        env: env.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        ..ServerOptions::default()
    };
    TestServer::with(options).await.unwrap()
}

async fn create(server: &TestServer, model: &str, more: Value) -> String {
    let mut params = json!({"name": model, "model": model, "system_prompt": "be brief"});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server.call("cone.create", params).await.unwrap()["id"].as_str().unwrap().to_owned()
}

async fn begin(server: &TestServer, id: &str, prompt: &str) {
    let params = json!({"session_id": id, "prompt": prompt});
    server.call("cone.chat_async", params).await.unwrap();
}

/// Waits for the end of the chat, and returns its status and its events.
async fn ended(server: &TestServer, id: &str) -> (String, Vec<Value>) {
    eventually_async("the end of the answer", PATIENCE, || async {
        let page = json!({"session_id": id, "from_seq": 0});
        let page = server.call("cone.poll", page).await.unwrap();
        let status = page["status"].as_str().unwrap().to_owned();
        let over = ["complete", "failed", "cancelled"].contains(&status.as_str());
        over.then(|| (status, page["events"].as_array().unwrap().clone()))
    })
    .await
}

fn texts(events: &[Value]) -> String {
    events.iter().filter_map(|event| event["event"]["text"].as_str()).collect()
}

#[tokio::test]
async fn a_model_of_either_api_answers_and_remembers() {
    let service = Service::start().await;
    let server = server(&service, &[]).await;
    for (at, model) in MODELS.into_iter().enumerate() {
        let id = create(&server, model, json!({})).await;
        service.reply(Reply::Says(&["a ", "cheap ", "opinion"]));
        begin(&server, &id, "what do you think?").await;
        let (status, events) = ended(&server, &id).await;
        assert_eq!((status.as_str(), texts(&events).as_str()), ("complete", "a cheap opinion"));
        let got = server.call("cone.get", json!({"session_id": id})).await.unwrap();
        let spent = &got["session"]["spent"];
        assert_eq!((&spent["input_tokens"], &spent["output_tokens"]), (&json!(11), &json!(7)));

        begin(&server, &id, "why?").await;
        assert_eq!(ended(&server, &id).await.0, "complete");
        let asked = service.asked(at * 2 + 2).await;
        let said = json!([
            {"role": "user", "content": "what do you think?"},
            {"role": "assistant", "content": "a cheap opinion"},
            {"role": "user", "content": "why?"},
        ]);
        let key = asked.head.to_ascii_lowercase();
        if model == "claude-test" {
            assert_eq!(
                (&asked.body["messages"], &asked.body["system"]),
                (&said, &json!("be brief"))
            );
            assert!(key.contains("x-api-key: key-a"), "{key}");
        } else {
            let messages = asked.body["messages"].as_array().unwrap();
            assert_eq!(messages[0], json!({"role": "system", "content": "be brief"}));
            assert_eq!(json!(messages[1..]), said);
            assert!(key.contains("authorization: bearer key-o"), "{key}");
        }
    }
}

#[tokio::test]
async fn a_conversation_is_its_own_plugins_and_its_owners_alone() {
    let service = Service::start().await;
    let server = server(&service, &[]).await;
    let parent = server.call("identity.parent", json!({"name": "p"})).await.unwrap();
    let parent = parent["token"].as_str().unwrap();
    let stranger = server.call("identity.parent", json!({"name": "s"})).await.unwrap();
    let stranger = stranger["token"].as_str().unwrap();
    let call = async |token: &str, method: &str, params: Value| {
        let done = server.call_as(token, method, params).await.unwrap();
        done.map_err(|error| error.kind().to_owned())
    };
    let params = json!({"name": "c", "model": "claude-test"});
    let created = call(parent, "cone.create", params).await.unwrap();
    let id = json!({"session_id": created["id"]});
    begin(&server, created["id"].as_str().unwrap(), "hello").await;
    let (_, events) = ended(&server, created["id"].as_str().unwrap()).await;

    let plugins = server.call("plexus.plugins", json!({})).await.unwrap();
    let cone = plugins["plugins"].as_array().unwrap().iter().find(|it| it["path"] == "cone");
    let owner = cone.unwrap()["plugin_id"].clone();
    let got = call(parent, "cone.get", id.clone()).await.unwrap();
    let head = json!({"node_id": got["session"]["head"]["node_id"]});
    let handles = call(parent, "arbor.context_get_handles", head).await.unwrap();
    let shown = json!([events, got, handles]);
    let handles = handles_in(&shown);
    assert!(handles.len() > 3, "{shown}");
    for handle in handles {
        assert_eq!(handle["plugin_id"], owner, "{handle}");
        let params = json!({"handle": handle});
        call(parent, "plexus.resolve_handle", params.clone()).await.unwrap();
        let hidden = call(stranger, "plexus.resolve_handle", params).await;
        assert_eq!(hidden, Err("not_found".to_owned()), "{handle}");
    }

    // `cone` does not find the session of an agent.
    let work = tempfile::tempdir().unwrap();
    let params = json!({"name": "agent", "working_dir": work.path()});
    let agent = server.call("claudecode.create", params).await.unwrap();
    let token = server.token().unwrap();
    let other = json!({"session_id": agent["id"]});
    assert_eq!(call(token, "cone.get", other.clone()).await, Err("not_found".to_owned()));
    assert_eq!(call(token, "cone.delete", other).await, Err("not_found".to_owned()));
    let listed = server.call("cone.list", json!({})).await.unwrap();
    let listed: Vec<_> =
        listed["sessions"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert_eq!(listed, [&created["id"]]);

    assert_eq!(call(stranger, "cone.delete", id.clone()).await, Err("not_found".to_owned()));
    let dir = server.data_dir().join("runs").join(created["id"].as_str().unwrap());
    assert!(dir.join("conversation.jsonl").exists());
    call(parent, "cone.delete", id.clone()).await.unwrap();
    assert!(!dir.exists(), "what was said stays on the disk");
    assert_eq!(call(parent, "cone.get", id).await, Err("not_found".to_owned()));
}

#[tokio::test]
async fn a_failure_of_the_service_is_told_with_what_had_arrived() {
    let service = Service::start().await;
    let server = server(&service, &[("PLEXUS_CONE_TIMEOUT_SECS", "2")]).await;
    for model in MODELS {
        let id = create(&server, model, json!({})).await;
        for (reply, arrived, expected) in [
            (Reply::Refuses(401, "wrong key"), "", "wrong key"),
            (Reply::Refuses(529, "overloaded"), "", "overloaded"),
            (Reply::BreaksAfter("half of"), "half of", "broke off"),
            (Reply::Nonsense, "", "not JSON"),
            (Reply::Holds("half of", "it"), "half of", "silent for 2 s"),
        ] {
            service.reply(reply);
            begin(&server, &id, "well?").await;
            let (status, events) = ended(&server, &id).await;
            let shown = json!(events).to_string();
            assert_eq!(status, "failed", "{shown}");
            assert_eq!(texts(&events), arrived, "{shown}");
            assert!(shown.contains(expected), "{model}: {shown}");
            assert!(!shown.contains("key-"), "{shown}");
        }
        // The conversation goes on.
        service.reply(Reply::Says(&["yes"]));
        begin(&server, &id, "now?").await;
        assert_eq!(ended(&server, &id).await.0, "complete");
    }
}

#[tokio::test]
async fn a_key_that_is_missing_is_named() {
    let service = Service::start().await;
    let server = server(&service, &[("OPENAI_API_KEY", "")]).await;
    let id = create(&server, "openai/test", json!({})).await;
    begin(&server, &id, "well?").await;
    let (status, events) = ended(&server, &id).await;
    assert_eq!(status, "failed");
    assert!(json!(events).to_string().contains("OPENAI_API_KEY"), "{events:?}");
}

#[tokio::test]
async fn a_budget_in_tokens_ends_a_conversation() {
    let service = Service::start().await;
    let server = server(&service, &[]).await;
    let id = create(&server, "claude-test", json!({"budget": {"tokens": 10}})).await;
    begin(&server, &id, "well?").await;
    ended(&server, &id).await;
    let params = json!({"session_id": id, "prompt": "more"});
    let token = server.token().unwrap();
    let refused = server.call_as(token, "cone.chat_async", params).await.unwrap().unwrap_err();
    assert!(refused.message.contains("token"), "{refused}");
}

#[tokio::test]
async fn a_model_without_a_price_is_refused_within_dollars() {
    let service = Service::start().await;
    let server = server(&service, &[]).await;
    let work = server.data_dir().join("../work");
    std::fs::create_dir_all(&work).unwrap();
    let top = json!({"name": "top", "working_dir": work, "budget": {"cost_usd": 0.01}});
    let top = server.call("agents.create", top).await.unwrap()["id"].clone();
    let token = server.token().unwrap();
    for params in [
        json!({"name": "below", "model": "claude-test", "parent": top}),
        json!({"name": "own", "model": "claude-test", "budget": {"cost_usd": 1.0}}),
    ] {
        let refused = server.call_as(token, "cone.create", params.clone()).await.unwrap();
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), "forbidden", "{params}: {refused}");
        assert!(refused.message.contains("budget in dollars"), "{params}: {refused}");
    }
    // A budget may come later than the session.
    let id = create(&server, "claude-test", json!({})).await;
    let budget = json!({"session_id": id, "budget": {"cost_usd": 1.0}});
    server.call("agents.budget_set", budget).await.unwrap();
    let chat = json!({"session_id": id, "prompt": "well?"});
    let refused = server.call_as(token, "cone.chat_async", chat).await.unwrap().unwrap_err();
    assert!(refused.message.contains("budget in dollars"), "{refused}");
}

#[tokio::test]
async fn a_budget_in_dollars_ends_a_conversation_with_a_price() {
    let service = Service::start().await;
    let config = tempfile::tempdir().unwrap();
    std::fs::create_dir(config.path().join("plexus")).unwrap();
    let prices =
        "[[cone.prices]]\nmodel = \"claude-test\"\ninput_usd = 1000.0\noutput_usd = 2000.0\n";
    std::fs::write(config.path().join("plexus/plexus.toml"), prices).unwrap();
    let home = config.path().to_str().unwrap();
    let server = server(&service, &[("XDG_CONFIG_HOME", home)]).await;
    let id = create(&server, "claude-test", json!({"budget": {"cost_usd": 0.02}})).await;
    service.reply(Reply::Says(&["a ", "cheap ", "opinion"]));
    begin(&server, &id, "well?").await;
    ended(&server, &id).await;
    let got = server.call("cone.get", json!({"session_id": id})).await.unwrap();
    let spent = got["session"]["spent"]["cost_usd"].as_f64().unwrap();
    // 11 tokens read and 7 written.
    assert!((spent - 0.025).abs() < 1e-9, "{spent}");
    let params = json!({"session_id": id, "prompt": "more"});
    let token = server.token().unwrap();
    let refused = server.call_as(token, "cone.chat_async", params).await.unwrap().unwrap_err();
    assert!(refused.message.contains("for cost is used up"), "{refused}");
}

#[tokio::test]
async fn an_answer_outlives_its_server() {
    let service = Service::start().await;
    let mut server = server(&service, &[]).await;
    let id = create(&server, "claude-test", json!({})).await;
    service.reply(Reply::Holds("half of ", "it"));
    begin(&server, &id, "one").await;
    first_words(&server, &id).await;
    server.crash_and_restart().await.unwrap();
    service.go_on();
    let (status, events) = ended(&server, &id).await;
    assert_eq!((status.as_str(), texts(&events).as_str()), ("complete", "half of it"));
}

#[tokio::test]
async fn an_answer_whose_process_was_killed_fails_with_what_had_arrived() {
    let service = Service::start().await;
    let server = server(&service, &[]).await;
    let id = create(&server, "openai/test", json!({})).await;
    service.reply(Reply::Holds("half of ", "it"));
    begin(&server, &id, "one").await;
    first_words(&server, &id).await;
    let process = process_of(&id);
    assert!(std::process::Command::new("kill").args(["-9", &process]).status().unwrap().success());
    let (status, events) = ended(&server, &id).await;
    assert_eq!((status.as_str(), texts(&events).as_str()), ("failed", "half of "), "{events:?}");
    service.reply(Reply::Says(&["yes"]));
    begin(&server, &id, "again").await;
    assert_eq!(ended(&server, &id).await.0, "complete");
}

/// Waits until the process has written the first words of an answer.
async fn first_words(server: &TestServer, id: &str) {
    let dir = server.data_dir().join("runs").join(id);
    eventually_async("the first words", PATIENCE, || async {
        journal_has(&dir, "half of").then_some(())
    })
    .await;
}

/// The process that holds a conversation.
fn process_of(id: &str) -> String {
    let is_ours = |pid: &String| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        words.get(1).is_some_and(|word| word == "cone")
            && words.get(2).is_some_and(|file| file.contains(id))
    };
    let names = std::fs::read_dir("/proc").unwrap().flatten();
    let mut pids = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    pids.find(is_ours).unwrap()
}

/// Whether the journal of any run below holds these words.
fn journal_has(dir: &std::path::Path, words: &str) -> bool {
    let Ok(entries) = std::fs::read_dir(dir) else { return false };
    entries.flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return journal_has(&path, words);
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains(words)
    })
}
