//! `loopback.files`: what a pending call would change is shown as it is now, and nothing else is.

use std::os::unix::fs::symlink;

use plexus_core::{Caller, ErrorKind};
use serde_json::{Value, json};

use crate::childless_hub::ChildlessHub;

/// Asks for a write to `path`, and returns what `files` says of it.
async fn shown(hub: &std::sync::Arc<ChildlessHub>, path: Value) -> Value {
    let session = hub.create(&format!("writes-{path}"), json!({})).await;
    let input = json!({"file_path": path, "content": "new\n"});
    let (asks, asked) = hub.ask(session, "t1", "Write", input).await;
    let mut read = hub.ok("loopback.files", json!({"approval_id": asked["id"]})).await;
    asks.abort();
    assert_eq!(read["files"][0]["path"], path);
    read["files"][0].as_object_mut().unwrap().remove("path");
    read["files"][0].take()
}

#[tokio::test]
async fn a_write_shows_the_file_that_it_would_replace() {
    let hub = std::sync::Arc::new(ChildlessHub::new().await);
    let work = hub.work();
    std::fs::write(work.join("old.txt"), "one\ntwo\n").unwrap();
    std::fs::write(work.join("picture"), [0xff, 0xd8, 0xff]).unwrap();
    std::fs::write(work.join("large"), "x".repeat(2 * 1024 * 1024)).unwrap();
    std::fs::write(hub.folder.path().join("secret"), "not for this session").unwrap();
    symlink(hub.folder.path().join("secret"), work.join("inside")).unwrap();
    symlink(hub.folder.path(), work.join("up")).unwrap();
    let text = json!({"is": "text", "text": "one\ntwo\n"});
    let unread = |why: &str| json!({"is": "unread", "why": why});
    let outside = unread("it lies outside of the session's directories");
    for (path, is) in [
        (json!(work.join("old.txt")), text.clone()),
        (json!("old.txt"), text),
        (json!(work.join("new/deep.txt")), json!({"is": "absent"})),
        (json!(work.join("picture")), unread("it is not text")),
        (json!(work.join("large")), unread("it is larger than 1024 KiB")),
        (json!(work), unread("it is not a file")),
        (json!(hub.folder.path().join("secret")), outside.clone()),
        (json!(work.join("inside")), outside.clone()),
        (json!(work.join("up/secret")), outside.clone()),
        (json!(work.join("up/new")), outside.clone()),
        (json!("../secret"), outside),
    ] {
        assert_eq!(shown(&hub, path.clone()).await, is, "{path}");
    }
}

#[tokio::test]
async fn only_the_operator_is_shown_files() {
    let hub = std::sync::Arc::new(ChildlessHub::new().await);
    let top = hub.create("top", json!({"can_spawn": true, "may_decide": ["*"]})).await;
    let below = hub.create_as(Caller::Session(top), "below", json!({})).await.unwrap();
    let input = json!({"file_path": "a.txt", "content": ""});
    let (asks, asked) = hub.ask(below, "t1", "Write", input).await;
    let params = json!({"approval_id": asked["id"]});
    let refused = hub.call_as(Caller::Session(top), "loopback.files", params.clone()).await;
    assert_eq!(refused.unwrap_err().kind, ErrorKind::Forbidden);
    assert_eq!(hub.ok("loopback.files", params).await["files"][0]["is"], "absent");
    asks.abort();
}
