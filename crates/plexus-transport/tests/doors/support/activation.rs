//! The test hub's methods: they echo, sleep, stream, and block until somebody answers at the
//! [`HubState`].

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use plexus_core::method::stream_reply;
use plexus_core::{
    Activation, ActivationInfo, Answer, Audience, Call, CallError, Door, MethodDescriptor,
    MethodTable, OnGiven, Reply, ResourceForm, Resume, Shape, StreamItem, WireForm,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::HubState;

/// The session of which a stream of `count` panics after its first item.
pub(crate) const PANICS: &str = "panics";

/// The message of the panics, which no caller may see.
pub(crate) const PANIC_MESSAGE: &str = "the secret is 42";

pub(super) struct TestActivation(pub(super) Arc<HubState>);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Echo {
    /// Comes back.
    text: String,
}

#[derive(Serialize, JsonSchema)]
struct Echoed {
    text: String,
    caller: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Sleep {
    ms: u64,
    /// With it, twice is the same as once.
    #[serde(default, rename = "from")]
    _from: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct Slept {
    ms: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Count {
    #[serde(default)]
    cursor: Option<String>,
    #[serde(default)]
    session_id: Option<String>,
    #[serde(default)]
    bytes: usize,
    #[serde(default)]
    to: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct Counted {
    n: u64,
    session_id: Option<String>,
    pad: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Ask {
    key: String,
    #[serde(default)]
    input: Map<String, Value>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Key {
    key: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Permit {
    #[serde(rename = "tool_name")]
    _tool_name: String,
    input: Map<String, Value>,
    tool_use_id: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PermitAgain {
    tool_use_id: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Panic {
    after_await: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MaybeKey {
    #[serde(default, rename = "key")]
    _key: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(transparent)]
struct Exact(#[schemars(with = "Map<String, Value>")] Value);

#[async_trait]
impl Activation for TestActivation {
    fn info(&self) -> ActivationInfo {
        ActivationInfo { namespace: "test", version: (1, 0, 0), description: "for tests" }
    }

    fn methods(self: Arc<Self>) -> MethodTable {
        let state = || Arc::clone(&self.0);
        let dozer = state();
        let (sleeper, counter, asker, rejoiner, ender) =
            (state(), state(), state(), state(), state());
        let (reader, watcher, lister) = (state(), state(), state());
        let (permitter, again, pager) = (state(), state(), state());
        MethodTable::new("test")
            .unary(
                "echo",
                "Says what it was told.",
                |method| {
                    method.audience = Audience::Everyone;
                    method.hints.read_only = true;
                },
                |call: Call, echo: Echo| async move {
                    if echo.text == "fail" {
                        return Err(CallError::conflict("echo that").with_standing(json!({"said": "before"})));
                    }
                    Ok(Echoed { text: echo.text, caller: format!("{:?}", call.caller) })
                },
            )
            .unary(
                "sleep",
                "Waits.",
                |method| {
                    method.hints.waits = true;
                    method.hints.idempotent_with = &["from"];
                },
                move |call: Call, sleep: Sleep| {
                    let state = Arc::clone(&sleeper);
                    async move {
                        let _working = state.work();
                        call.progress.report("asleep");
                        tokio::time::sleep(Duration::from_millis(sleep.ms)).await;
                        Ok(Slept { ms: sleep.ms })
                    }
                },
            )
            .unary(
                "doze",
                "Waits, and changes nothing.",
                |method| {
                    method.hints.waits = true;
                    method.hints.read_only = true;
                },
                move |_call, doze: Sleep| {
                    let state = Arc::clone(&dozer);
                    async move {
                        let _working = state.work();
                        tokio::time::sleep(Duration::from_millis(doze.ms)).await;
                        Ok(Slept { ms: doze.ms })
                    }
                },
            )
            .streaming::<Count, Counted, _, _>(
                "count",
                "Counts for ever, or up to a number.",
                |method| method.door = Door::Events,
                move |_call, count: Count| {
                    let state = Arc::clone(&counter);
                    async move {
                        let from = count.cursor.as_deref().map_or(Ok(0), |cursor| {
                            cursor.parse::<u64>().map(|n| n + 1).map_err(|_| CallError::invalid("read the cursor"))
                        })?;
                        let working = state.work();
                        let pad = "x".repeat(count.bytes);
                        let end = count.to.unwrap_or(u64::MAX);
                        let stream = futures::stream::unfold((from, working), move |(n, working)| {
                            let panics = count.session_id.as_deref() == Some(PANICS);
                            let item = Counted { n, session_id: count.session_id.clone(), pad: pad.clone() };
                            async move {
                                tokio::task::yield_now().await;
                                assert!(!(panics && n > 0), "{PANIC_MESSAGE}");
                                let body = Arc::from(plexus_core::method::raw(&item).unwrap());
                                (n < end)
                                    .then_some((Ok(StreamItem { cursor: Some(n.to_string()), body }), (n + 1, working)))
                            }
                        });
                        Ok(stream_reply(stream))
                    }
                },
            )
            .streaming::<Count, Counted, _, _>(
                "page",
                "Reads a page, and moves its reader when it is given.",
                |method| {
                    method.shape = Shape::Unary;
                    method.changes_when_given = true;
                },
                move |_call, count: Count| {
                    let state = Arc::clone(&pager);
                    async move {
                        let n = state.page.load(Ordering::SeqCst);
                        let page = Counted { n, session_id: None, pad: "x".repeat(count.bytes) };
                        let on_given: OnGiven = Box::pin(async move {
                            state.page.store(n + 1, Ordering::SeqCst);
                            Ok(())
                        });
                        Answer::new(&page, Some(on_given)).map(Reply::Value)
                    }
                },
            )
            .unary(
                "ask",
                "Blocks until somebody answers.",
                |method| {
                    method.audience = Audience::Child;
                    method.wire = WireForm::ExactText;
                    method.resume = Some(Resume { key: "key", rejoin: "ask_again" });
                    method.on_cancel = Some("ask_end");
                    method.hints.waits = true;
                },
                move |_call, ask: Ask| {
                    let state = Arc::clone(&asker);
                    async move {
                        if ask.input.contains_key("bad") {
                            return Err(CallError::invalid("use that input").with_hint("leave out bad"));
                        }
                        if ask.input.contains_key("stands_still") {
                            state.stand_still_until("go");
                        }
                        state.ask(&ask.key);
                        state.wait_for_answer(&ask.key).await.map(Exact)
                    }
                },
            )
            .unary("ask_again", "Joins.", for_our_own_calls, move |_call, key: Key| {
                let state = Arc::clone(&rejoiner);
                async move { state.wait_for_answer(&key.key).await.map(Exact) }
            })
            .unary("ask_end", "Ends.", for_our_own_calls, move |_call, key: Key| {
                let state = Arc::clone(&ender);
                async move {
                    state.forget(&key.key);
                    Ok(Slept { ms: 0 })
                }
            })
            .unary(
                "permit",
                "Asks for permission, as the CLI does.",
                |method| {
                    method.audience = Audience::Child;
                    method.wire = WireForm::ExactText;
                    method.resume = Some(Resume { key: "tool_use_id", rejoin: "permit_again" });
                    method.hints.waits = true;
                },
                move |_call, permit: Permit| {
                    let state = Arc::clone(&permitter);
                    async move {
                        state.permits.lock().unwrap().insert(permit.tool_use_id.clone(), permit.input);
                        state.ask(&permit.tool_use_id);
                        state.wait_for_answer(&permit.tool_use_id).await.map(Exact)
                    }
                },
            )
            .unary("permit_again", "Joins.", for_our_own_calls, move |_call, permit: PermitAgain| {
                let state = Arc::clone(&again);
                async move { state.wait_for_answer(&permit.tool_use_id).await.map(Exact) }
            })
            .unary(
                "question",
                "One question and its answer.",
                |method| {
                    method.door = Door::Internal;
                    method.resource = Some(ResourceForm { uri: "test://questions/{key}", changes: "changes" });
                },
                move |_call, key: Key| {
                    let state = Arc::clone(&reader);
                    async move {
                        let answer = state.question(&key.key);
                        answer
                            .map(|answer| Exact(json!({"answer": answer})))
                            .ok_or_else(|| CallError::not_found("find it"))
                    }
                },
            )
            .streaming::<MaybeKey, Counted, _, _>(
                "changes",
                "Tells that something changed.",
                |method| method.door = Door::Internal,
                move |_call, _key: MaybeKey| {
                    let state = Arc::clone(&watcher);
                    async move {
                        let changes = futures::stream::unfold(
                            (state.version.subscribe(), state.work()),
                            |(mut version, working)| async move {
                                version.changed().await.ok()?;
                                let body = Arc::from(plexus_core::method::raw(&json!({})).unwrap());
                                Some((Ok(StreamItem { cursor: None, body }), (version, working)))
                            },
                        );
                        Ok(stream_reply(changes))
                    }
                },
            )
            .unary(
                "questions",
                "How many there are.",
                |method| {
                    method.hints.read_only = true;
                    method.resource = Some(ResourceForm { uri: "test://questions", changes: "changes" });
                },
                move |_call, _none: Nothing| {
                    let state = Arc::clone(&lister);
                    async move { Ok(Slept { ms: state.questions() as u64 }) }
                },
            )
            .unary(
                "secret",
                "For the operator.",
                |method| method.audience = Audience::Operator,
                |_call, echo: Echo| async move { Ok(Echoed { text: echo.text, caller: String::new() }) },
            )
            .unary(
                "panic",
                "Panics before its first await, or after it.",
                |method| method.audience = Audience::Everyone,
                |_call, place: Panic| async move {
                    if place.after_await {
                        tokio::task::yield_now().await;
                    }
                    panic_now::<Slept>()
                },
            )
            .unary(
                "panic_exactly",
                "Panics where only an exact text is an answer.",
                |method| {
                    method.audience = Audience::Child;
                    method.wire = WireForm::ExactText;
                },
                |_call, _none: Nothing| async move { panic_now::<Exact>() },
            )
            .streaming::<Count, Counted, _, _>(
                "either",
                "One answer where there is no stream.",
                |method| method.shape = Shape::Either,
                |_call, _count: Count| async move { Reply::of(&json!({"type": "ok"})) },
            )
    }
}

/// Restricts a method to the server's own calls on behalf of a child; the child may not call it.
fn for_our_own_calls(method: &mut MethodDescriptor) {
    method.audience = Audience::Child;
    method.door = Door::Internal;
}

/// Panics as a defect of ours would, with something secret in its message.
fn panic_now<T>() -> Result<T, CallError> {
    panic!("{PANIC_MESSAGE}")
}
