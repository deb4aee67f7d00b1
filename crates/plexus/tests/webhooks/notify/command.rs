//! Any program, and the notification service of a desktop through one.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::wait::{PATIENCE, eventually_async};

use super::{TOKEN, assert_waiting, doctor, entry, plexus, server_with_tokens, wait_for_log};
use crate::server_with_receivers::ServerWithReceivers;

fn script(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    testkit::process::executable(&path, &format!("#!/bin/sh\n{text}\n"));
    path
}

fn runs(name: &str, program: &Path, more: &str) -> String {
    entry(name, "command", &format!("command = [{program:?}, \"one argument\"]\n{more}"))
}

async fn wait_for_file(path: &Path) -> String {
    eventually_async(&format!("the file {}", path.display()), PATIENCE, || {
        std::future::ready(std::fs::read_to_string(path).ok())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_reads_the_message_and_none_of_our_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("told");
    let (part, told_at) = (folder.path().join("part"), told.display().to_string());
    let text = format!(
        "cat > {part}; echo \"$1\" >> {part}; env >> {part}; mv {part} {told_at}",
        part = part.display()
    );
    let program = script(&folder, "tell", &text);
    let config = runs("tell", &program, "answers = true\ndetail = \"summary\"");
    let setup = server_with_tokens(&config).await;
    let session = setup.create("asks", json!({})).await;
    let approval = setup.ask(&session).await;
    let read = wait_for_file(&told).await;
    let (letter, rest) = read.split_once("one argument\n").unwrap();
    let letter: Value = serde_json::from_str(letter).unwrap();
    assert_eq!(letter["title"], "asks asks: Write", "{letter:#}");
    let event = &letter["messages"][0];
    assert_eq!(
        (&event["type"], &event["approval"]["id"]),
        (&json!("approval.requested"), &approval["id"])
    );
    assert_eq!(event["approval"]["input"], Value::Null, "a summary has no input: {event:#}");
    assert!(event["respond"]["token"].as_str().unwrap().starts_with("plx_hook_"), "{event:#}");
    assert!(
        rest.contains("PATH=") && !rest.contains(TOKEN) && !rest.contains("HOOK_SECRET"),
        "{rest}"
    );
    setup.wait_for_metric("plexus_webhook_delivered_total", "tell", |sent| sent == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_fails_hangs_or_is_missing_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let fails = script(&folder, "fails", "echo 'no pigeon is free' >&2; exit 3");
    let hangs = script(&folder, "hangs", "sleep 3600 & sleep 3600");
    let missing = folder.path().join("missing");
    let config = [
        runs("fails", &fails, ""),
        runs("hangs", &hangs, "timeout_secs = 1"),
        runs("missing", &missing, ""),
    ]
    .concat();
    let setup = server_with_tokens(&config).await;
    let session = setup.create("asks", json!({})).await;
    let approval = setup.ask(&session).await;
    for (name, why) in [
        ("fails", "exit status: 3: no pigeon is free"),
        ("hangs", "took more than 1 s"),
        ("missing", "cannot be started"),
    ] {
        wait_for_log(&setup, why).await;
        let found = doctor(&setup, name).await;
        assert!(found["words"].as_str().unwrap().contains(why), "{found}");
        let (good, words) = plexus(&setup, &["notify", "test", name]).await;
        assert!(!good && words.contains(why), "{words}");
    }
    assert_waiting(&setup, &[&approval]).await;
    let (good, words) = plexus(&setup, &["notify"]).await;
    assert!(good && words.lines().count() == 3 && words.contains("failed"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_desktop_is_told_through_notify_send() {
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("told");
    let text = format!("for word; do echo \"[$word]\"; done > {}", told.display());
    script(&folder, "notify-send", &text);
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let config = entry("desk", "desktop", "detail = \"summary\"");
    let setup = ServerWithReceivers::with_env(&config, &[("PATH", &path)]).await;
    let session = setup.create("asks", json!({})).await;
    setup.ask_for(&session, "Write", &json!({"file_path": "<b>a&b", "content": "x"})).await;
    setup.wait_for_metric("plexus_webhook_delivered_total", "desk", |sent| sent == 1).await;
    let read = wait_for_file(&told).await;
    assert!(read.starts_with("[--app-name=Plexus]\n[--urgency="), "{read}");
    assert!(read.contains("\n[--]\n[asks asks: Write]\n[/"), "{read}");
    assert!(read.contains("/&lt;b&gt;a&amp;b\nrisk "), "{read}");
}
