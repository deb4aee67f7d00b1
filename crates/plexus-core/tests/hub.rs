//! The hub: routing, audiences, and resolution through hubs in hubs.
#![expect(
    clippy::unwrap_used,
    reason = "a failed test may stop loudly, also in a helper of several tests"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use plexus_core::{
    Activation, ActivationInfo, Audience, Call, CallError, Caller, Door, ErrorKind, Handle, Hub,
    MethodTable, RegisterError, Reply, Resolution, SessionId,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

fn info(namespace: &'static str) -> ActivationInfo {
    ActivationInfo { namespace, version: (1, 0, 0), description: "for tests" }
}

/// Owns handles; says what it is told to say, and counts how often it was asked.
struct Owner {
    namespace: &'static str,
    answer: Resolution,
    asked: AtomicUsize,
}

impl Owner {
    fn new(namespace: &'static str, answer: Resolution) -> Arc<Self> {
        Arc::new(Self { namespace, answer, asked: AtomicUsize::new(0) })
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EchoParams {
    text: String,
}

#[derive(Serialize, JsonSchema)]
struct Echo {
    text: String,
}

#[async_trait]
impl Activation for Owner {
    fn info(&self) -> ActivationInfo {
        info(self.namespace)
    }

    fn methods(self: Arc<Self>) -> MethodTable {
        MethodTable::new(self.namespace)
            .unary(
                "echo",
                "Says it again.",
                |_| {},
                |_: Call, p: EchoParams| async move { Ok(Echo { text: p.text }) },
            )
            .unary(
                "ask",
                "For children.",
                |d| d.audience = Audience::Child,
                |_: Call, p: EchoParams| async move { Ok(Echo { text: p.text }) },
            )
            .unary(
                "inner",
                "For our own parts.",
                |d| d.door = Door::Internal,
                |_: Call, p: EchoParams| async move { Ok(Echo { text: p.text }) },
            )
    }

    async fn resolve(&self, _: &Caller, _: &Handle) -> Resolution {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.answer.clone()
    }
}

fn handle(namespace: &'static str) -> Handle {
    Handle::new(info(namespace).plugin_id(), "1.0.0", "thing", vec!["a:b%".into()])
}

async fn call(hub: &Hub, caller: Caller, name: &str, params: Value) -> Result<Value, CallError> {
    let params = serde_json::value::to_raw_value(&params).unwrap();
    match hub.call(Call::plain(caller), name, Some(params)).await? {
        Reply::Value(answer) => Ok(serde_json::from_str(answer.give().await?.get()).unwrap()),
        Reply::Stream(_) => panic!("a stream"),
    }
}

#[tokio::test]
async fn calls_reach_their_activation_also_through_a_hub_in_a_hub() {
    let (outer, inner) = (Hub::new(info("plexus")), Hub::new(info("inner")));
    inner.register(Owner::new("deep", Resolution::NotMine)).unwrap();
    outer.register(Owner::new("flat", Resolution::NotMine)).unwrap();
    outer.register(inner).unwrap();
    for name in ["flat.echo", "inner.deep.echo"] {
        assert_eq!(
            call(&outer, Caller::Operator, name, json!({"text": "hi"})).await,
            Ok(json!({"text": "hi"}))
        );
    }
    for name in ["flat.nothing", "deep.echo", "inner.deep.nothing", "flat", "", "inner.inner.echo"]
    {
        let error = call(&outer, Caller::Operator, name, json!({})).await.unwrap_err();
        assert_eq!((error.rpc_code(), error.kind()), (-32601, ErrorKind::NotFound), "{name}");
    }
}

#[tokio::test]
async fn wrong_parameters_are_refused_by_name() {
    let hub = Hub::new(info("plexus"));
    hub.register(Owner::new("flat", Resolution::NotMine)).unwrap();
    for (params, word) in [
        (json!({"text": "x", "colour": 1}), "colour"),
        (json!({}), "text"),
        (json!({"text": 7}), "string"),
    ] {
        let error = call(&hub, Caller::Operator, "flat.echo", params).await.unwrap_err();
        assert_eq!((error.kind(), error.rpc_code()), (ErrorKind::Invalid, -32602));
        assert!(error.message.contains(word), "{}", error.message);
    }
}

#[tokio::test]
async fn methods_for_others_are_neither_listed_nor_called() {
    let hub = Hub::new(info("plexus"));
    hub.register(Owner::new("flat", Resolution::NotMine)).unwrap();
    let session = SessionId::generate();
    let listed = |caller: Caller| -> Vec<String> {
        hub.methods_for(&caller).iter().map(|m| m.full_name()).collect()
    };
    assert!(listed(Caller::Operator).contains(&"flat.echo".to_owned()));
    assert!(!listed(Caller::Operator).contains(&"flat.ask".to_owned()));
    assert_eq!(
        listed(Caller::Child(session)),
        ["flat.ask", "plexus.methods", "plexus.schema", "plexus.version"]
    );
    let error =
        call(&hub, Caller::Child(session), "flat.echo", json!({"text": "x"})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Forbidden);
    let error = call(&hub, Caller::Operator, "flat.inner", json!({"text": "x"})).await.unwrap_err();
    assert_eq!(error.rpc_code(), -32601);
}

#[tokio::test]
async fn a_second_plugin_of_the_same_id_is_refused() {
    let hub = Hub::new(info("plexus"));
    hub.register(Owner::new("flat", Resolution::NotMine)).unwrap();
    let again = hub.register(Owner::new("flat", Resolution::NotMine));
    assert_eq!(
        again,
        Err(RegisterError::Taken { namespace: "flat", plugin_id: info("flat").plugin_id() })
    );
    assert!(hub.register(Owner::new("plexus", Resolution::NotMine)).is_err());
}

#[tokio::test]
async fn an_owner_that_fails_is_not_reported_as_missing() {
    let (outer, inner) = (Hub::new(info("plexus")), Hub::new(info("inner")));
    let broken = CallError::unavailable("read the disk");
    outer.register(Owner::new("fine", Resolution::Found(json!({"type": "thing"})))).unwrap();
    inner.register(Owner::new("broken", Resolution::Failed(broken.clone()))).unwrap();
    outer.register(inner).unwrap();
    assert_eq!(
        outer.resolve_handle(&Caller::Operator, &handle("fine")).await,
        Ok(json!({"type": "thing"}))
    );
    assert_eq!(outer.resolve_handle(&Caller::Operator, &handle("broken")).await, Err(broken));
    let nobody = outer.resolve_handle(&Caller::Operator, &handle("nobody")).await.unwrap_err();
    assert_eq!(nobody.kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn cycles_are_harmless_and_each_hub_is_visited_once() {
    let (a, b) = (Hub::new(info("a")), Hub::new(info("b")));
    let declines = Owner::new("deep", Resolution::NotMine);
    b.register(Arc::clone(&declines)).unwrap();
    a.register(Arc::clone(&b)).unwrap();
    b.register(Arc::clone(&a)).unwrap();
    assert!(a.resolve_handle(&Caller::Operator, &handle("deep")).await.is_err());
    assert_eq!(declines.asked.load(Ordering::SeqCst), 1);
    assert!(
        call(&a, Caller::Operator, "b.a.b.a.b.deep.echo", json!({"text": "round"})).await.is_ok()
    );
}

#[tokio::test]
async fn resolve_handle_takes_the_object_and_the_text() {
    let hub = Hub::new(info("plexus"));
    hub.register(Owner::new("fine", Resolution::Found(json!({"type": "thing"})))).unwrap();
    let handle = handle("fine");
    for form in [json!(handle), json!(handle.to_string())] {
        let answer =
            call(&hub, Caller::Operator, "plexus.resolve_handle", json!({"handle": form})).await;
        assert_eq!(answer, Ok(json!({"type": "thing"})));
    }
}

/// Says when it is dropped.
struct Guard(Arc<AtomicUsize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Works for ever, in one answer or in a stream.
struct Endless(Arc<AtomicUsize>);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[async_trait]
impl Activation for Endless {
    fn info(&self) -> ActivationInfo {
        info("endless")
    }

    fn methods(self: Arc<Self>) -> MethodTable {
        let (waits, streams) = (Arc::clone(&self.0), Arc::clone(&self.0));
        MethodTable::new("endless")
            .unary::<Nothing, Echo, _, _>(
                "wait",
                "Never answers.",
                |_| {},
                move |_: Call, _| {
                    let guard = Guard(Arc::clone(&waits));
                    async move {
                        let _guard = guard;
                        std::future::pending().await
                    }
                },
            )
            .streaming::<Nothing, Echo, _, _>(
                "stream",
                "Never ends.",
                |_| {},
                move |_: Call, _| {
                    let guard = Guard(Arc::clone(&streams));
                    async move {
                        let items = futures::stream::unfold(guard, |guard| async move {
                            std::future::pending::<()>().await;
                            Some((Err(CallError::internal("never")), guard))
                        });
                        Ok(plexus_core::method::stream_reply(items))
                    }
                },
            )
    }

    async fn health(&self) -> Result<Option<Value>, CallError> {
        Err(CallError::unavailable("find the end"))
    }
}

#[tokio::test]
async fn a_dropped_caller_cancels_the_work_it_asked_for() {
    let hub = Hub::new(info("plexus"));
    let dropped = Arc::new(AtomicUsize::new(0));
    hub.register(Arc::new(Endless(Arc::clone(&dropped)))).unwrap();
    {
        let call = hub.call(Call::plain(Caller::Operator), "endless.wait", None);
        let mut call = std::pin::pin!(call);
        assert!(futures::poll!(&mut call).is_pending());
        assert_eq!(dropped.load(Ordering::SeqCst), 0);
    }
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    let reply = hub.call(Call::plain(Caller::Operator), "endless.stream", None).await.unwrap();
    let Reply::Stream(mut stream) = reply else { panic!("one answer") };
    assert!(futures::poll!(futures::StreamExt::next(&mut stream)).is_pending());
    drop(stream);
    assert_eq!(dropped.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn an_activation_that_is_unwell_says_so_and_silences_nobody() {
    let hub = Hub::new(info("plexus"));
    hub.register(Arc::new(Endless(Arc::default()))).unwrap();
    hub.register(Owner::new("flat", Resolution::NotMine)).unwrap();
    let report = call(&hub, Caller::Operator, "plexus.health", json!({})).await.unwrap();
    assert_eq!(
        report["activations"],
        json!({"endless": {"error": {"kind": "unavailable", "message": "find the end"}}, "flat": {}})
    );
    assert_eq!(report["type"], "ok");
}

#[tokio::test]
async fn an_activation_outlives_its_hub_without_holding_it() {
    struct Keeps(std::sync::Mutex<plexus_core::HubContext>);
    #[async_trait]
    impl Activation for Keeps {
        fn info(&self) -> ActivationInfo {
            info("keeps")
        }
        fn methods(self: Arc<Self>) -> MethodTable {
            MethodTable::new("keeps")
        }
        fn attach(&self, hub: plexus_core::HubContext) {
            *self.0.lock().unwrap() = hub;
        }
    }
    let hub = Hub::new(info("plexus"));
    let keeps = Arc::new(Keeps(std::sync::Mutex::default()));
    hub.register(Arc::clone(&keeps)).unwrap();
    let context = keeps.0.lock().unwrap().clone();
    assert!(context.call(Call::plain(Caller::Operator), "plexus.version", None).await.is_ok());
    drop(hub);
    let gone =
        context.call(Call::plain(Caller::Operator), "plexus.version", None).await.unwrap_err();
    assert_eq!(gone.kind, ErrorKind::Unavailable);
}
