//! Tokens of parents outside: listed by name, replaced and revoked.

use plexus_core::{Authenticator as _, Caller, ErrorKind, SecretToken};
use serde_json::{Value, json};

use crate::childless_hub::ChildlessHub;

async fn token_of(hub: &ChildlessHub, params: Value) -> SecretToken {
    let made = hub.ok("identity.parent", params).await;
    SecretToken::new(made["token"].as_str().unwrap())
}

async fn who(hub: &ChildlessHub, token: &SecretToken) -> Option<Caller> {
    hub.engine.identity.authenticate(token).await.ok()
}

#[tokio::test]
async fn a_new_token_replaces_the_earlier_ones_when_asked() {
    let hub = ChildlessHub::new().await;
    let first = token_of(&hub, json!({"name": "ide"})).await;
    let second = token_of(&hub, json!({"name": "ide"})).await;
    let other = token_of(&hub, json!({"name": "ci"})).await;
    let ide = who(&hub, &first).await;
    assert!(ide.is_some() && who(&hub, &second).await == ide);
    let third = token_of(&hub, json!({"name": "ide", "replace": true})).await;
    assert_eq!((who(&hub, &first).await, who(&hub, &second).await), (None, None));
    assert_eq!(who(&hub, &third).await, ide);
    assert!(who(&hub, &other).await.is_some(), "another parent keeps its token");
}

#[tokio::test]
async fn parents_are_listed_and_their_tokens_revoked_by_name() {
    let hub = ChildlessHub::new().await;
    hub.create("session", json!({})).await;
    let first = token_of(&hub, json!({"name": "ide"})).await;
    let second = token_of(&hub, json!({"name": "ide"})).await;
    let other = token_of(&hub, json!({"name": "ci"})).await;
    let Some(Caller::Session(ide)) = who(&hub, &first).await else { panic!("no session") };
    let child = hub.create_as(Caller::Session(ide), "child", json!({})).await.unwrap();
    let listed = hub.ok("identity.parents", json!({})).await;
    let names: Vec<&Value> =
        listed["parents"].as_array().unwrap().iter().map(|parent| &parent["name"]).collect();
    assert_eq!(names, ["ide", "ci"], "sessions are no parents");
    let revoked = hub.ok("identity.revoke", json!({"name": "ide"})).await;
    assert_eq!(revoked, json!({"type": "ok", "session_id": ide, "tokens": 2}));
    assert_eq!((who(&hub, &first).await, who(&hub, &second).await), (None, None));
    assert!(who(&hub, &other).await.is_some());
    hub.ok("claudecode.get", json!({"session_id": child})).await;
    assert_eq!(hub.ok("identity.revoke", json!({"name": "ide"})).await["tokens"], 0);
    for unknown in ["session", "nobody"] {
        let error = hub.call("identity.revoke", json!({"name": unknown})).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound, "{unknown}");
    }
    let again = token_of(&hub, json!({"name": "ide"})).await;
    assert_eq!(who(&hub, &again).await, Some(Caller::Session(ide)), "the identity stays");
}
