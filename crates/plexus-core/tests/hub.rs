//! The hub: routing, audiences, and resolution through hubs in hubs.
#![expect(
    clippy::unwrap_used,
    reason = "a failed test may stop loudly, also in a helper of several tests"
)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use futures::StreamExt as _;
use plexus_core::method::stream_reply;
use plexus_core::{
    Activation, ActivationInfo, Answer, Audience, Call, CallError, Caller, Door, ErrorKind, Handle,
    HandleKind, Hub, HubContext, MethodTable, PluginId, RegisterError, Reply, SessionId, Shape,
    StreamItem,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

fn info(namespace: &'static str) -> ActivationInfo {
    ActivationInfo { namespace, version: (1, 0, 0), description: "for tests" }
}

/// Owns handles, answers as configured, and counts how often it was asked.
struct Owner {
    namespace: &'static str,
    answer: Result<Value, CallError>,
    asked: AtomicUsize,
    place: OnceLock<HubContext>,
}

impl Owner {
    fn new(namespace: &'static str, answer: Result<Value, CallError>) -> Arc<Self> {
        Arc::new(Self { namespace, answer, asked: AtomicUsize::new(0), place: OnceLock::new() })
    }

    /// Makes an owner that has a thing.
    fn plain(namespace: &'static str) -> Arc<Self> {
        Self::new(namespace, Ok(json!({"type": "thing", "of": namespace})))
    }

    /// Returns a handle that it owns, as it would hand it out.
    fn thing(&self) -> Handle {
        self.place.get().unwrap().handle("thing", ["a:b%"]).unwrap()
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

    fn attach(&self, hub: HubContext) {
        assert!(self.place.set(hub).is_ok(), "attached twice");
    }

    fn handle_kinds(&self) -> &'static [HandleKind] {
        &[HandleKind { method: "thing", meta: &["thing_id"], description: "A thing." }]
    }

    async fn resolve(&self, _: &Caller, _: &Handle) -> Result<Value, CallError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.answer.clone()
    }
}

fn handle(path: &str) -> Handle {
    Handle::new(PluginId::of(path, 1), "1.0.0", "thing").with_meta(["a:b%"])
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
    inner.register(Owner::plain("deep")).unwrap();
    outer.register(Owner::plain("flat")).unwrap();
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
    hub.register(Owner::plain("flat")).unwrap();
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
    hub.register(Owner::plain("flat")).unwrap();
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
    hub.register(Owner::plain("flat")).unwrap();
    let again = hub.register(Owner::plain("flat"));
    assert_eq!(again, Err(RegisterError::Taken { path: "flat".into() }));
    assert!(hub.register(Owner::plain("plexus")).is_err());
}

#[tokio::test]
async fn an_owner_that_fails_is_not_reported_as_missing() {
    let (outer, inner) = (Hub::new(info("plexus")), Hub::new(info("inner")));
    let broken = CallError::unavailable("read the disk");
    outer.register(Owner::new("fine", Ok(json!({"type": "thing"})))).unwrap();
    inner.register(Owner::new("broken", Err(broken.clone()))).unwrap();
    outer.register(inner).unwrap();
    assert_eq!(
        outer.resolve_handle(&Caller::Operator, &handle("fine")).await,
        Ok(json!({"type": "thing"}))
    );
    let found = outer.resolve_handle(&Caller::Operator, &handle("inner.broken")).await;
    assert_eq!(found, Err(broken));
    let nobody = outer.resolve_handle(&Caller::Operator, &handle("nobody")).await.unwrap_err();
    assert_eq!(nobody.kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn a_hub_has_one_place_and_never_within_itself() {
    let [a, b, c] = ["a", "b", "c"].map(|namespace| Hub::new(info(namespace)));
    a.register(Arc::clone(&b)).unwrap();
    b.register(Arc::clone(&c)).unwrap();
    let refused = |namespace| Err(RegisterError::Place { namespace });
    assert_eq!(c.register(Arc::clone(&a)), refused("a"));
    assert_eq!(a.register(Arc::clone(&a)), refused("a"));
    assert_eq!(a.register(Arc::clone(&c)), refused("c"));
    // The refused registration has left nothing behind, and the rest still works.
    c.register(Owner::plain("deep")).unwrap();
    let found = a.resolve_handle(&Caller::Operator, &handle("b.c.deep")).await;
    assert_eq!(found, Ok(json!({"type": "thing", "of": "deep"})));
    let said = call(&a, Caller::Operator, "b.c.deep.echo", json!({"text": "hi"})).await;
    assert_eq!(said, Ok(json!({"text": "hi"})));
}

#[test]
fn hubs_lie_within_each_other_to_a_bounded_depth() {
    let mut hubs = vec![Hub::new(info("h"))];
    let refused = loop {
        let next = Hub::new(info(if hubs.len() % 2 == 0 { "h" } else { "g" }));
        if let Err(error) = hubs.last().unwrap().register(Arc::clone(&next)) {
            break error;
        }
        hubs.push(next);
        assert!(hubs.len() < 100, "no bound");
    };
    assert!(matches!(refused, RegisterError::Place { .. }), "{refused}");
    assert_eq!(hubs.len(), plexus_core::hub::MAX_DEPTH);
}

#[test]
fn names_that_a_door_would_refuse_or_confuse_are_not_registered() {
    struct Named(&'static str, &'static str);
    #[async_trait]
    impl Activation for Named {
        fn info(&self) -> ActivationInfo {
            info(self.0)
        }
        fn methods(self: Arc<Self>) -> MethodTable {
            let echo = |_: Call, p: EchoParams| async move { Ok(Echo { text: p.text }) };
            MethodTable::new(self.0).unary(self.1, "Says it again.", |_| {}, echo)
        }
    }
    let long: &'static str = Box::leak("x".repeat(65).into_boxed_str());
    let half: &'static str = Box::leak("x".repeat(60).into_boxed_str());
    let (top, team) = (Hub::new(info("plexus")), Hub::new(info("team")));
    top.register(Arc::clone(&team)).unwrap();
    for (namespace, method) in
        [("", "echo"), ("a.b", "echo"), ("a", "b.c"), ("a", ""), ("a b", "echo"), (long, "echo")]
    {
        let refused = top.register(Arc::new(Named(namespace, method)));
        assert!(matches!(refused, Err(RegisterError::Name { .. })), "{namespace}.{method}");
    }
    // Each part is short enough, but the tool's name is too long.
    assert!(matches!(team.register(Arc::new(Named(half, half))), Err(RegisterError::Name { .. })));
    // team.notes.echo and team_notes.echo would both be the tool team_notes_echo.
    top.register(Arc::new(Named("team_notes", "echo"))).unwrap();
    let refused = team.register(Arc::new(Named("notes", "echo")));
    assert!(matches!(refused, Err(RegisterError::Tool { .. })), "{refused:?}");
    team.register(Arc::new(Named("notes", "shout"))).unwrap();
    let tool = |name: &str| top.tool(name).map(|method| method.full_name());
    assert_eq!(tool("team_notes_echo").as_deref(), Some("team_notes.echo"));
    assert_eq!(tool("team_notes_shout").as_deref(), Some("team.notes.shout"));
}

/// Builds a hub with `notes` and a hub `team`, which again has `notes` and a hub `core` with
/// `notes`.
fn three_levels() -> (Arc<Hub>, [Arc<Owner>; 3]) {
    let [top, team, core] = ["plexus", "team", "core"].map(|name| Hub::new(info(name)));
    let owners = ["one", "two", "three"]
        .map(|of| Owner::new("notes", Ok(json!({"type": "thing", "of": of}))));
    // The owners are registered before their hubs are put into each other.
    for (hub, owner) in [&top, &team, &core].into_iter().zip(&owners) {
        hub.register(Arc::clone(owner)).unwrap();
    }
    team.register(core).unwrap();
    top.register(team).unwrap();
    (top, owners)
}

#[tokio::test]
async fn plugins_of_one_namespace_in_several_hubs_own_their_own_handles() {
    let (top, owners) = three_levels();
    let paths = ["notes", "team.notes", "team.core.notes"];
    for ((owner, path), of) in owners.iter().zip(paths).zip(["one", "two", "three"]) {
        assert_eq!(owner.thing(), handle(path));
        let found = top.resolve_handle(&Caller::Operator, &owner.thing()).await;
        assert_eq!(found, Ok(json!({"type": "thing", "of": of})));
        assert_eq!(owner.asked.load(Ordering::SeqCst), 1, "{path}");
    }
    let listed = call(&top, Caller::Operator, "plexus.plugins", json!({})).await.unwrap();
    let plugins = listed["plugins"].as_array().unwrap();
    let listed: Vec<_> = plugins.iter().map(|plugin| plugin["path"].as_str().unwrap()).collect();
    assert_eq!(listed, ["notes", "plexus", "team", "team.core", "team.core.notes", "team.notes"]);
    assert_eq!(
        plugins[5],
        json!({
            "path": "team.notes",
            "plugin_id": PluginId::of("team.notes", 1),
            "version": "1.0.0",
            "description": "for tests",
            "methods": ["team.notes.echo"],
            "handles": [{"method": "thing", "meta": ["thing_id"], "description": "A thing."}],
        })
    );
}

#[tokio::test]
async fn a_hub_shows_and_resolves_what_is_within_it() {
    let (top, owners) = three_levels();
    let methods = call(&top, Caller::Operator, "team.methods", json!({})).await.unwrap();
    let names: Vec<_> = methods["methods"].as_array().unwrap().iter().map(|m| &m["name"]).collect();
    assert!(names.contains(&&json!("team.core.notes.echo")), "{names:?}");
    assert!(!names.contains(&&json!("notes.echo")), "{names:?}");
    let resolve = |within: &'static str, owner: &Owner| {
        let (top, params) = (Arc::clone(&top), json!({"handle": owner.thing()}));
        async move { call(&top, Caller::Operator, within, params).await }
    };
    assert!(resolve("team.resolve_handle", &owners[2]).await.is_ok());
    let outside = resolve("team.resolve_handle", &owners[0]).await.unwrap_err();
    assert_eq!(outside.kind, ErrorKind::NotFound);
    let health = call(&top, Caller::Operator, "plexus.health", json!({})).await.unwrap();
    let activations: Vec<_> = health["activations"].as_object().unwrap().keys().collect();
    assert_eq!(activations, ["notes", "team", "team.core", "team.core.notes", "team.notes"]);
}

#[tokio::test]
async fn a_hub_is_the_owner_of_its_own_handle() {
    let (top, _) = three_levels();
    for path in ["plexus", "team", "team.core"] {
        let handle = Handle::new(PluginId::of(path, 1), "1.0.0", "hub");
        let found = top.resolve_handle(&Caller::Operator, &handle).await.unwrap();
        assert_eq!((&found["type"], &found["path"]), (&json!("hub"), &json!(path)));
    }
}

#[tokio::test]
async fn an_id_of_the_first_stage_finds_its_owner_inside_a_hub() {
    let (top, team) = (Hub::new(info("plexus")), Hub::new(info("team")));
    let unknown = Owner::new("notes", Err(CallError::not_found("find the thing")));
    let (core, knows) = (Hub::new(info("core")), Owner::plain("notes"));
    team.register(unknown).unwrap();
    core.register(knows).unwrap();
    team.register(core).unwrap();
    top.register(team).unwrap();
    let found = top.resolve_handle(&Caller::Operator, &handle("notes")).await;
    assert_eq!(found, Ok(json!({"type": "thing", "of": "notes"})));
}

#[tokio::test]
async fn every_way_not_to_resolve_has_its_own_words() {
    let (top, owners) = three_levels();
    let with = |change: fn(&mut Handle)| {
        let mut handle = owners[1].thing();
        change(&mut handle);
        handle
    };
    let version_two = Handle::new(PluginId::of("team.notes", 2), "2.1.0", "thing").with_meta(["x"]);
    for (handle, kind, words) in [
        (with(|h| h.plugin_id = PluginId::of("nobody", 1)), ErrorKind::NotFound, "no plugin here"),
        (with(|h| h.method = "frob".into()), ErrorKind::NotFound, "has no handles of the kind"),
        (with(|h| h.meta.clear()), ErrorKind::Invalid, "thing_id is missing in the handle"),
        (with(|h| h.version = "2.0.0".into()), ErrorKind::Invalid, "it is of version \"2.0.0\""),
        (with(|h| h.version = "x".repeat(5_000)), ErrorKind::Invalid, "it is of version \"xxx"),
        (version_two, ErrorKind::Invalid, "this server has version 1"),
    ] {
        let error = top.resolve_handle(&Caller::Operator, &handle).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message.contains(words), "{error}");
        assert!(error.message.len() < 200, "{error}");
    }
    // A handle of another minor version can be read.
    let newer = with(|h| h.version = "1.7.0".into());
    assert!(top.resolve_handle(&Caller::Operator, &newer).await.is_ok());
}

#[tokio::test]
async fn resolve_handle_takes_the_object_and_the_text() {
    let hub = Hub::new(info("plexus"));
    hub.register(Owner::new("fine", Ok(json!({"type": "thing"})))).unwrap();
    let handle = handle("fine");
    for form in [json!(handle), json!(handle.to_string())] {
        let answer =
            call(&hub, Caller::Operator, "plexus.resolve_handle", json!({"handle": form})).await;
        assert_eq!(answer, Ok(json!({"type": "thing"})));
    }
}

/// Counts its drops.
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
    hub.register(Owner::plain("flat")).unwrap();
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

/// Panics wherever a method can.
struct Panicking;

#[async_trait]
impl Activation for Panicking {
    fn info(&self) -> ActivationInfo {
        info("panicking")
    }

    fn methods(self: Arc<Self>) -> MethodTable {
        MethodTable::new("panicking")
            .unary(
                "at_once",
                "Panics before it has a future.",
                |_| {},
                |_: Call, _: EchoParams| -> std::future::Ready<Result<Echo, CallError>> {
                    panic!("at once")
                },
            )
            .streaming::<EchoParams, Echo, _, _>(
                "when_given",
                "Panics in the change that comes with its answer.",
                |d| d.shape = Shape::Unary,
                |_: Call, p: EchoParams| async move {
                    let change = Box::pin(async { panic!("when given") });
                    Answer::new(&Echo { text: p.text }, Some(change)).map(Reply::Value)
                },
            )
            .streaming::<EchoParams, Echo, _, _>(
                "in_stream",
                "Panics after one item.",
                |_| {},
                |_: Call, _: EchoParams| async move {
                    let items = futures::stream::iter(0..3).map(|n| {
                        assert!(n == 0, "in a stream");
                        let body = Arc::from(plexus_core::method::raw(&n)?);
                        Ok(StreamItem { cursor: None, body })
                    });
                    Ok(stream_reply(items))
                },
            )
    }
}

#[tokio::test]
async fn a_panic_of_a_method_is_an_internal_error() {
    let (outer, inner) = (Hub::new(info("plexus")), Hub::new(info("inner")));
    inner.register(Arc::new(Panicking)).unwrap();
    outer.register(Arc::clone(&inner)).unwrap();
    for name in ["inner.panicking.at_once", "inner.panicking.when_given"] {
        let error = call(&outer, Caller::Operator, name, json!({"text": "a"})).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Internal, "{name}: {error}");
        assert!(error.message.contains(name), "{error}");
    }
    let params = serde_json::value::to_raw_value(&json!({"text": "a"})).unwrap();
    let name = "inner.panicking.in_stream";
    let reply = outer.call(Call::plain(Caller::Operator), name, Some(params)).await.unwrap();
    let Reply::Stream(items) = reply else { panic!("no stream") };
    let items: Vec<_> =
        items.map(|item| item.map(|_| ()).map_err(|error| error.kind())).collect().await;
    assert_eq!(items, [Ok(()), Err(ErrorKind::Internal)]);
    assert_eq!((outer.panic_count(), inner.panic_count()), (3, 3));
}
