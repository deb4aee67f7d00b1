//! The webhooks of the configuration are read again on SIGHUP.

use serde_json::json;

use crate::receiver::{Act, Receiver};
use crate::server_with_receivers::{ServerWithReceivers, entries};

#[tokio::test(flavor = "multi_thread")]
async fn hangup_changes_who_is_told_and_a_bad_entry_changes_nothing() {
    let (old, new) = (Receiver::new(|_| Act::Take).await, Receiver::new(|_| Act::Take).await);
    let only_ends = "events = [\"session.ended\"]";
    let setup = ServerWithReceivers::new(&[("old", old.port, only_ends)]).await;
    let session = setup.create("s", json!({})).await;

    let bad = entries("gopher", &[("new", new.port, only_ends)]);
    setup.reconfigure(&bad, "the receivers stay as they were").await;
    assert!(setup.server.log().contains("its url must begin with"), "the log says what is wrong");
    setup.chat_to_end(&session).await;
    old.wait_for("the end of the first chat", |body| body["chat"] == 0).await;
    setup.wait_for_metric("plexus_webhook_pending", "old", |waiting| waiting == 0).await;

    setup
        .reconfigure(&entries("http", &[("new", new.port, only_ends)]), "receivers read again")
        .await;
    setup.chat_to_end(&session).await;
    new.wait_for("the end of the second chat", |body| body["chat"] == 1).await;
    setup.wait_for_metric("plexus_webhook_pending", "new", |waiting| waiting == 0).await;
    // The old one was no longer told when the second chat ended: nothing for it is under way.
    assert_eq!(old.letters().len(), 1);
    assert_eq!(new.letters().len(), 1);

    // Messages for a receiver that is taken out are given up, and the audit says so.
    let mut dead = Receiver::new(|_| Act::Take).await;
    dead.kill().await;
    setup
        .reconfigure(&entries("http", &[("dead", dead.port, only_ends)]), "receivers read again")
        .await;
    setup.chat_to_end(&session).await;
    setup.wait_for_metric("plexus_webhook_failed_total", "dead", |failed| failed >= 1).await;
    setup
        .reconfigure(&entries("http", &[("new", new.port, only_ends)]), "receivers read again")
        .await;
    setup.chat_to_end(&session).await;
    new.wait_for("the end of the fourth chat", |body| body["chat"] == 3).await;
    let given_up = setup.audit("webhook.given_up").await;
    assert_eq!(given_up.len(), 1, "{given_up:#?}");
    assert_eq!(given_up[0]["body"]["receiver"], "dead", "{given_up:#?}");
}
