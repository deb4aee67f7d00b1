//! What can go wrong with a child: it says nonsense, dies, is killed, or its shim is. The chat ends
//! with the reason, and nothing is left.

use serde_json::json;

use crate::common::{DEADLINE, SimulatedHub, texts, types};

async fn fails_with(hub: &SimulatedHub, session: &str, chat: u64, why: &str) {
    assert_eq!(hub.wait_for_end(session, chat).await, "failed");
    let events = hub.events(session, chat).await;
    let last = events.last().unwrap()["message"].as_str().unwrap().to_owned();
    assert!(last.contains(why), "{last}");
    let gone = || std::future::ready(hub.processes().is_empty().then_some(()));
    testkit::eventually_async("the end of every process", DEADLINE, gone).await;
    let removed = || std::future::ready((!hub.run_dir(session, 0).exists()).then_some(()));
    testkit::eventually_async("the end of its files", DEADLINE, removed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_ends_without_a_result_failed_and_its_last_words_say_why() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("dies", json!({})).await;
    let chat =
        hub.chat(&session, "sim:\nsay so far\nstderr the disk is on fire\nsleep 50\nexit 3").await;
    fails_with(&hub, &session, chat, "exit code 3").await;
    let events = hub.events(&session, chat).await;
    assert!(
        events.last().unwrap()["message"].as_str().unwrap().contains("the disk is on fire"),
        "{:?}",
        events.last()
    );
    assert!(
        events.contains(&json!({"type": "notice", "message": "stderr: the disk is on fire"})),
        "{events:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_run_can_be_resumed() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("killed", json!({})).await;
    hub.chat_to_end(&session, "sim:\nsay remembered").await;
    let chat = hub.chat(&session, "sim:\nsay now\ncrash").await;
    fails_with(&hub, &session, chat, "signal 9").await;
    let next = hub.chat_to_end(&session, "sim:\nrecall").await;
    assert!(texts(&next)[0].contains("say remembered"), "{next:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_somebody_kills_failed() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("victim", json!({})).await;
    let chat = hub.chat(&session, "sim:\nsay hello\nhang").await;
    hub.wait_for_event(&session, "content").await;
    testkit::process::kill(hub.pids(&session, 0).1);
    fails_with(&hub, &session, chat, "signal 9").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_shim_takes_its_child_and_its_tools_along() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("shim", json!({"allowed_tools": ["Bash"]})).await;
    let input = json!({"command": "touch begun; while :; do sleep 0.05; done"});
    let chat = hub.chat(&session, &format!("sim:\nsay hello\ntool Bash {input}")).await;
    let begun = hub.work().join("begun");
    testkit::eventually_async("the tool", DEADLINE, || {
        std::future::ready(begun.exists().then_some(()))
    })
    .await;
    testkit::process::kill(hub.pids(&session, 0).0);
    fails_with(&hub, &session, chat, "nobody saw how").await;
    assert_eq!(texts(&hub.events(&session, chat).await), ["hello"]);
}

/// A tool that starts something whose parent ends at once, in a session of its own, and goes on for
/// ever: nothing but the mark in its environment tells whose it is once the shim is gone.
async fn runs_with_an_orphan(hub: &SimulatedHub, session: &str) -> u64 {
    let orphan = "(setsid sh -c 'touch orphan; while :; do sleep 0.05; done' &) ; while :; do \
        sleep 0.05; done";
    let chat = hub
        .chat(session, &format!("sim:\nsay hello\ntool Bash {}", json!({"command": orphan})))
        .await;
    let begun = hub.work().join("orphan");
    testkit::eventually_async("the orphan", DEADLINE, || {
        std::future::ready(begun.exists().then_some(()))
    })
    .await;
    chat
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shim_that_does_not_answer_is_killed_with_everything_it_held() {
    let hub =
        SimulatedHub::with(|settings| settings.grace = std::time::Duration::from_millis(100)).await;
    let session = hub.create("deaf", json!({"allowed_tools": ["Bash"]})).await;
    let chat = runs_with_an_orphan(&hub, &session).await;
    testkit::process::signal(hub.pids(&session, 0).0, rustix::process::Signal::STOP);
    hub.ok("claudecode.cancel", json!({"session_id": session, "reason": "enough"})).await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "cancelled");
    let gone = || std::future::ready(hub.processes().is_empty().then_some(()));
    testkit::eventually_async("the end of every process", DEADLINE, gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_shim_leaves_nobody_whose_parents_are_gone() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("orphans", json!({"allowed_tools": ["Bash"]})).await;
    // In a session of its own, and its parents have ended: neither the process table nor its group
    // says whose it is.
    let input = json!({"command": "(setsid sleep 600 >/dev/null 2>&1 &)"});
    let chat = hub.chat(&session, &format!("sim:\ntool Bash {input}\nsay left\nhang")).await;
    hub.wait_for_event(&session, "content").await;
    testkit::process::kill(hub.pids(&session, 0).0);
    fails_with(&hub, &session, chat, "nobody saw how").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_shim_leaves_no_daemon_that_cleared_its_environment() {
    const DAEMONS: usize = 5;
    let hub = SimulatedHub::new().await;
    let session = hub.create("daemons", json!({"allowed_tools": ["Bash"]})).await;
    // Each has an empty environment and a session of its own, and its parents have ended.
    let start = format!(
        "for n in $(seq {DAEMONS}); do (env -i setsid /bin/sh -c 'echo $$ > daemon.'$n'; exec \
         /bin/sleep 600' >/dev/null 2>&1 &); done"
    );
    let input = json!({"command": start});
    let chat = hub.chat(&session, &format!("sim:\ntool Bash {input}\nsay left\nhang")).await;
    hub.wait_for_event(&session, "content").await;
    let pid = |n: usize| {
        let text = std::fs::read_to_string(hub.work().join(format!("daemon.{n}"))).ok()?;
        text.trim().parse::<i32>().ok()
    };
    let mut daemons = Vec::new();
    for n in 1..=DAEMONS {
        let look = || std::future::ready(pid(n));
        daemons.push(testkit::eventually_async("a daemon", DEADLINE, look).await);
    }
    let alive = || {
        let lives = |pid: &&i32| plexus_shim::layout::process_identity(**pid).is_some();
        daemons.iter().filter(lives).count()
    };
    assert_eq!(alive(), DAEMONS);
    testkit::process::kill(hub.pids(&session, 0).0);
    fails_with(&hub, &session, chat, "nobody saw how").await;
    assert_eq!(alive(), 0, "daemons survive the run that started them");
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_and_news_do_not_stop_a_chat() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("odd", json!({})).await;
    let events = hub.chat_to_end(&session, "sim:\nsay before\ngarbage\nunknown\nsay after").await;
    assert_eq!(
        types(&events),
        ["start", "notice", "content", "error", "passthrough", "content", "complete"]
    );
    assert_eq!(texts(&events), ["before", "after"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_api_is_a_failed_chat_in_the_clis_own_words() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("api", json!({})).await;
    let chat = hub.chat(&session, "sim:\nfail 529").await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "failed");
    let events = hub.events(&session, chat).await;
    assert!(events.last().unwrap()["message"].as_str().unwrap().contains("529"), "{events:#?}");
    // The process is fine, and so is the session.
    assert_eq!(
        hub.chat_to_end(&session, "sim:\nsay fine").await.last().unwrap()["type"],
        "complete"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shim_that_leaves_without_a_word_about_its_child_is_quoted() {
    let script = "echo no room for a child >&2; exit 7";
    let hub = SimulatedHub::with(|settings| {
        settings.shim.program = "sh".into();
        settings.shim.leading = vec!["-c".into(), script.into(), "sh".into()];
    })
    .await;
    let session = hub.create("mute", json!({})).await;
    let chat = hub.chat(&session, "sim:\nsay x").await;
    fails_with(&hub, &session, chat, "its shim ended with exit status: 7: no room for a child")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_cannot_be_started_fails_the_chat_and_leaves_nothing() {
    let hub =
        SimulatedHub::with(|settings| settings.shim.program = "/nonexistent/plexus-shim".into())
            .await;
    let session = hub.create("no-shim", json!({})).await;
    let chat = hub.chat(&session, "sim:\nsay x").await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "failed");
    let events = hub.events(&session, chat).await;
    assert!(
        events.last().unwrap()["message"].as_str().unwrap().contains("/nonexistent/plexus-shim"),
        "{events:#?}"
    );
    let open = || async { hub.store().open_runs().await.unwrap().is_empty().then_some(()) };
    testkit::eventually_async("the end of the run's row", DEADLINE, open).await;
    assert!(!hub.run_dir(&session, 0).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_became_a_link_is_not_worked_in() {
    let hub = SimulatedHub::new().await;
    let (dir, elsewhere) = (hub.work().join("sub"), hub.work().join("elsewhere"));
    std::fs::create_dir(&dir).unwrap();
    std::fs::create_dir(&elsewhere).unwrap();
    let session = hub.create("moved", json!({"working_dir": dir})).await;
    std::fs::remove_dir(&dir).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &dir).unwrap();
    let chat = hub.chat(&session, "sim:\nsay hello").await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "failed");
    let events = hub.events(&session, chat).await;
    let last = events.last().unwrap()["message"].as_str().unwrap();
    assert!(last.contains("no longer the directory"), "{last}");
    assert!(texts(&events).is_empty());
}
