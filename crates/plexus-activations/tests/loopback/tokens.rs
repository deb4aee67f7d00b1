//! Tokens of parents outside: listed by name, replaced and revoked.

use plexus_core::{Authenticator as _, Caller, ErrorKind, SecretToken};
use serde_json::{Value, json};

use crate::childless_hub::ChildlessHub;

async fn token_of(desk: &ChildlessHub, params: Value) -> SecretToken {
    let made = desk.ok("identity.parent", params).await;
    SecretToken::new(made["token"].as_str().unwrap())
}

async fn who(desk: &ChildlessHub, token: &SecretToken) -> Option<Caller> {
    desk.engine.identity.authenticate(token).await.ok()
}

#[tokio::test]
async fn a_new_token_replaces_the_earlier_ones_when_asked() {
    let desk = ChildlessHub::new().await;
    let first = token_of(&desk, json!({"name": "ide"})).await;
    let second = token_of(&desk, json!({"name": "ide"})).await;
    let other = token_of(&desk, json!({"name": "ci"})).await;
    let ide = who(&desk, &first).await;
    assert!(ide.is_some() && who(&desk, &second).await == ide);
    let third = token_of(&desk, json!({"name": "ide", "replace": true})).await;
    assert_eq!((who(&desk, &first).await, who(&desk, &second).await), (None, None));
    assert_eq!(who(&desk, &third).await, ide);
    assert!(who(&desk, &other).await.is_some(), "another parent keeps its token");
}

#[tokio::test]
async fn parents_are_listed_and_their_tokens_revoked_by_name() {
    let desk = ChildlessHub::new().await;
    desk.create("session", json!({})).await;
    let first = token_of(&desk, json!({"name": "ide"})).await;
    let second = token_of(&desk, json!({"name": "ide"})).await;
    let other = token_of(&desk, json!({"name": "ci"})).await;
    let Some(Caller::Session(ide)) = who(&desk, &first).await else { panic!("no session") };
    let child = desk.create_as(Caller::Session(ide), "child", json!({})).await.unwrap();
    let listed = desk.ok("identity.parents", json!({})).await;
    let names: Vec<&Value> =
        listed["parents"].as_array().unwrap().iter().map(|parent| &parent["name"]).collect();
    assert_eq!(names, ["ide", "ci"], "sessions are no parents");
    let revoked = desk.ok("identity.revoke", json!({"name": "ide"})).await;
    assert_eq!(revoked, json!({"type": "ok", "session_id": ide, "tokens": 2}));
    assert_eq!((who(&desk, &first).await, who(&desk, &second).await), (None, None));
    assert!(who(&desk, &other).await.is_some());
    desk.ok("claudecode.get", json!({"session_id": child})).await;
    assert_eq!(desk.ok("identity.revoke", json!({"name": "ide"})).await["tokens"], 0);
    for unknown in ["session", "nobody"] {
        let error = desk.call("identity.revoke", json!({"name": unknown})).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound, "{unknown}");
    }
    let again = token_of(&desk, json!({"name": "ide"})).await;
    assert_eq!(who(&desk, &again).await, Some(Caller::Session(ide)), "the identity stays");
}
