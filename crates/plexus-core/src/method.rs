//! What a method is: a name, a description, schemas, who may call it, and a typed handler.
//!
//! An activation builds its [`MethodTable`] once, one line for each method: a marker of
//! `plexus-wire`, which gives its name, its parameters and its result, and an async function. An
//! activation that others wrote names its own types instead: a parameter struct (`Deserialize +
//! JsonSchema`) and a result (`Serialize + JsonSchema`). Doors name no method: they learn whatever
//! is special about one from its [`MethodDescriptor`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt};
use plexus_wire::{CallError, Caller, PermitAnswer, params, schema};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::answer::{Answer, OnGiven};
use crate::caller::Audience;

/// What a handler knows about the call besides its parameters.
#[derive(Clone, Debug)]
pub struct Call {
    /// The caller, as its token says.
    pub caller: Caller,
    /// Where a long wait reports that it is still alive. Doors that cannot show progress drop it.
    pub progress: Progress,
    /// Whether this door can carry a stream. A method of both shapes streams only if it can.
    pub can_stream: bool,
    /// Who reads the answer.
    pub reader: Reader,
}

/// Who reads an answer. A model pays for every byte, so methods leave out what only programs use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reader {
    /// A program, which gets everything.
    #[default]
    Program,
    /// A model: the call came through MCP.
    Model,
}

impl Call {
    /// Makes a call by `caller` through a door that shows no progress and carries no stream.
    #[must_use]
    pub fn plain(caller: Caller) -> Self {
        Self { caller, progress: Progress::default(), can_stream: false, reader: Reader::Program }
    }
}

/// Takes progress reports. A slow door misses some, because only the newest matters.
#[derive(Clone, Debug, Default)]
pub struct Progress(Option<tokio::sync::watch::Sender<String>>);

impl Progress {
    /// Makes a reporter and the end that a door watches.
    #[must_use]
    pub fn channel() -> (Self, tokio::sync::watch::Receiver<String>) {
        let (sender, receiver) = tokio::sync::watch::channel(String::new());
        (Self(Some(sender)), receiver)
    }

    /// Reports how far the work is.
    pub fn report(&self, message: impl Into<String>) {
        if let Some(sender) = &self.0 {
            sender.send_replace(message.into());
        }
    }
}

/// One item of a streaming method.
#[derive(Clone, Debug)]
pub struct StreamItem {
    /// The cursor after this item: a caller that hands it back gets the items after this one. Items
    /// that are never stored have none.
    pub cursor: Option<String>,
    /// The item, serialised once for all its readers.
    pub body: Arc<RawValue>,
}

/// The items of a streaming call. Dropping it cancels the work.
pub type ReplyStream = BoxStream<'static, Result<StreamItem, CallError>>;

/// The result of a call.
pub enum Reply {
    /// One answer.
    Value(Answer),
    /// Many items, then the end.
    Stream(ReplyStream),
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Value(answer) => f.debug_tuple("Reply::Value").field(answer).finish(),
            Self::Stream(_) => f.write_str("Reply::Stream"),
        }
    }
}

impl Reply {
    /// Serialises `value` as the one answer.
    ///
    /// # Errors
    /// `internal` when the value cannot be represented as JSON (a map with keys that are not
    /// strings).
    pub fn of(value: &impl Serialize) -> Result<Self, CallError> {
        Answer::new(value, None).map(Self::Value)
    }
}

/// Serialises `value`.
///
/// # Errors
/// `internal` when the value cannot be represented as JSON.
pub fn raw(value: &impl Serialize) -> Result<Box<RawValue>, CallError> {
    serde_json::value::to_raw_value(value).map_err(|error| {
        tracing::error!(%error, "a result could not be serialised");
        CallError::internal("serialise the result")
    })
}

/// Whether a method gives one answer, a stream, or either, depending on the door.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// One answer.
    Unary,
    /// A stream of items; only doors that carry streams can call it.
    Streaming,
    /// A stream where the door carries one, else one answer.
    Either,
}

/// What a door must know about the form of the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireForm {
    /// A result like any other.
    Ordinary,
    /// Over MCP: one text block that holds exactly the JSON of the result; no structured content,
    /// never an error result, nothing appended. A failure is turned into the denial that
    /// [`MethodDescriptor::closed_on_failure`] writes.
    ExactText,
}

/// How another process of the server resumes a blocked MCP call.
///
/// Dropping such a call only stops the waiting, because a lost connection does not mean that the
/// client changed its mind. An explicit cancellation calls [`MethodDescriptor::on_cancel`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resume {
    /// The parameter that names the work, for example `tool_use_id`. It travels in the stream's
    /// event ids.
    pub key: &'static str,
    /// The method (of the same activation) that joins the open work, with `key` as its only
    /// parameter. It is listed nowhere.
    pub rejoin: &'static str,
}

/// What a door offers through this method, if anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Door {
    /// Listed and called like any other.
    Listed,
    /// Also the source of `/events`: called with `session_id` (or none, for all) and `cursor`.
    Events,
    /// Callable by the server's own parts, listed nowhere and refused at the doors.
    Internal,
}

/// How a method's answer is offered for reading and subscribing, at doors that support this (MCP
/// resources).
///
/// The method may be [`Door::Internal`]: then it is offered in this form only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResourceForm {
    /// Its address, with `{parameter}` where the value of a (text) parameter of the method goes:
    /// `plexus://sessions/{session_id}/events`.
    pub uri: &'static str,
    /// The streaming method (of the same activation, perhaps listed nowhere) that yields an item
    /// whenever the answer may have changed. It is called with the same parameters, and subscribes
    /// before it returns its stream.
    pub changes: &'static str,
}

/// In which lists of tools MCP names a method. It can be called in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Listing {
    /// In every list. The short list is the default, because a model reads all of it before its
    /// first turn.
    Short,
    /// Only in the list of everything.
    Full,
    /// In none: it is listed under another name.
    Never,
}

/// Hints for a model or a person that chooses a method.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: bool,
    /// It ends or removes something.
    pub destructive: bool,
    /// Calling it twice has the effect of calling it once.
    pub idempotent: bool,
    /// Parameters that make a call idempotent when any of them is given: they say where to read,
    /// and move no position. A call that was lost on its way may then be repeated.
    pub idempotent_with: &'static [&'static str],
    /// It may wait for long; doors report progress meanwhile.
    pub waits: bool,
}

/// Everything the doors know about a method.
#[derive(Clone, Debug)]
pub struct MethodDescriptor {
    /// The path of its activation, for example `claudecode`, or `team.notes` inside a hub `team`.
    pub namespace: Cow<'static, str>,
    /// Its name within the activation, for example `poll`.
    pub name: &'static str,
    /// What it does, written for a model that has to choose.
    pub description: &'static str,
    /// JSON Schema of the parameters, an object at its root.
    pub params: Value,
    /// JSON Schema of the result or, for a stream, of one item.
    pub result: Value,
    /// One answer, a stream, or either.
    pub shape: Shape,
    /// Who may call it.
    pub audience: Audience,
    /// Whether devices of the operator may call it too. They may read and decide, and nothing else.
    pub devices: bool,
    /// The form of the answer.
    pub wire: WireForm,
    /// Whether a blocked call survives a restart of the server, and how.
    pub resume: Option<Resume>,
    /// The method (of the same activation, listed nowhere) that ends the work of a resumable call
    /// whose client cancelled it, with the key of [`Resume`] as its only parameter.
    pub on_cancel: Option<&'static str>,
    /// Whether it changes nothing before its answer is given, so that a door without room for the
    /// answer may refuse it and the caller may ask again.
    pub changes_when_given: bool,
    /// How its answer is offered as a resource, if at all.
    pub resource: Option<ResourceForm>,
    /// What a door offers through it.
    pub door: Door,
    /// In which lists of tools MCP names it.
    pub listing: Listing,
    /// Hints for a model or a person that chooses.
    pub hints: Hints,
}

impl MethodDescriptor {
    /// Returns whether `caller` may call it.
    #[must_use]
    pub fn admits(&self, caller: &Caller) -> bool {
        match caller {
            Caller::Device(_) => self.devices,
            Caller::Operator | Caller::Session(_) | Caller::Child(_) => {
                self.audience.admits(caller)
            }
        }
    }

    /// Returns the JSON-RPC name: `namespace.name`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.namespace, self.name)
    }

    /// Returns the MCP tool name: `namespace_name`, with `_` for the dots of a path.
    #[must_use]
    pub fn tool_name(&self) -> String {
        format!("{}_{}", self.namespace.replace('.', "_"), self.name)
    }

    /// Returns the answer of a [`WireForm::ExactText`] method whose call failed: a denial with the
    /// reason. The caller of such a method reads anything else as a failure of the transport, and a
    /// failure must never look like consent.
    #[must_use]
    pub fn closed_on_failure(&self, error: &CallError) -> String {
        let mut message = format!("Plexus could not {}.", error.message);
        if !error.hint.is_empty() {
            message.push_str(&format!(" Hint: {}.", error.hint));
        }
        serde_json::to_string(&PermitAnswer::deny(message)).unwrap_or_else(|_| {
            r#"{"behavior":"deny","message":"the reason could not be written"}"#.to_owned()
        })
    }
}

type Handler =
    Arc<dyn Fn(Call, Box<RawValue>) -> BoxFuture<'static, Result<Reply, CallError>> + Send + Sync>;

/// One method: its descriptor and what runs when it is called.
#[derive(Clone)]
pub(crate) struct Method {
    pub(crate) descriptor: Arc<MethodDescriptor>,
    pub(crate) handler: Handler,
}

/// The methods of one activation, by name.
#[derive(Default)]
pub struct MethodTable {
    namespace: &'static str,
    pub(crate) methods: BTreeMap<&'static str, Method>,
}

impl MethodTable {
    /// Makes an empty table for `namespace`.
    #[must_use]
    pub fn new(namespace: &'static str) -> Self {
        Self { namespace, methods: BTreeMap::new() }
    }

    /// Puts these methods into MCP's short list, and the others only into the list of everything.
    #[must_use]
    pub fn short_list(mut self, short: &[&str]) -> Self {
        for (name, method) in &mut self.methods {
            if !short.contains(name) {
                Arc::make_mut(&mut method.descriptor).listing = Listing::Full;
            }
        }
        self
    }

    /// Lets devices of the operator call these methods. Only what reads or decides belongs here.
    ///
    /// # Panics
    /// In a debug build, when there is no method of such a name.
    #[must_use]
    pub fn for_devices(mut self, names: &[&'static str]) -> Self {
        for name in names {
            let method = self.methods.get_mut(name);
            debug_assert!(method.is_some(), "{name} is no method of {}", self.namespace);
            if let Some(method) = method {
                Arc::make_mut(&mut method.descriptor).devices = true;
            }
        }
        self
    }

    /// Removes all methods of this table from MCP's lists of tools and resources, because they are
    /// listed under another name.
    #[must_use]
    pub fn called_by_name(mut self) -> Self {
        for method in self.methods.values_mut() {
            let descriptor = Arc::make_mut(&mut method.descriptor);
            descriptor.listing = Listing::Never;
            descriptor.resource = None;
        }
        self
    }

    /// Adds a method of `plexus-wire` with one answer. `adjust` sets what differs from the defaults
    /// (for parents, ordinary, listed).
    #[must_use]
    pub fn serves<M, F, Fut>(
        self,
        description: &'static str,
        adjust: fn(&mut MethodDescriptor),
        handler: F,
    ) -> Self
    where
        M: plexus_wire::Method,
        F: Fn(Call, M::Params) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<M::Result, CallError>> + Send + 'static,
    {
        self.unary::<M::Params, M::Result, F, Fut>(M::NAME, description, adjust, handler)
    }

    /// Adds a method of `plexus-wire` with one answer, which changes nothing before the answer is
    /// given.
    #[must_use]
    pub fn serves_then<M, F, Fut>(
        self,
        description: &'static str,
        adjust: fn(&mut MethodDescriptor),
        handler: F,
    ) -> Self
    where
        M: plexus_wire::Method,
        F: Fn(Call, M::Params) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(M::Result, Option<OnGiven>), CallError>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let shape = Shape::Unary;
        let adjust = |descriptor: &mut MethodDescriptor| {
            descriptor.changes_when_given = true;
            adjust(descriptor);
        };
        self.add::<M::Params, M::Result>(
            M::NAME,
            description,
            shape,
            adjust,
            move |call, params| {
                let handler = Arc::clone(&handler);
                Box::pin(async move {
                    let (result, on_given) = handler(call, params::read(params.get())?).await?;
                    Answer::new(&result, on_given).map(Reply::Value)
                })
            },
        )
    }

    /// Adds a method of `plexus-wire` whose answer is a stream (or, by `adjust`, either), built by
    /// the handler itself.
    #[must_use]
    pub fn streams<M, F, Fut>(
        self,
        description: &'static str,
        adjust: fn(&mut MethodDescriptor),
        handler: F,
    ) -> Self
    where
        M: plexus_wire::Method,
        F: Fn(Call, M::Params) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Reply, CallError>> + Send + 'static,
    {
        self.streaming::<M::Params, M::Result, F, Fut>(M::NAME, description, adjust, handler)
    }

    /// Adds a method that `plexus-wire` does not define, with one typed answer. `adjust` sets what
    /// differs from the defaults (for parents, ordinary, listed).
    #[must_use]
    pub fn unary<P, R, F, Fut>(
        self,
        name: &'static str,
        description: &'static str,
        adjust: fn(&mut MethodDescriptor),
        handler: F,
    ) -> Self
    where
        P: DeserializeOwned + JsonSchema + Send + 'static,
        R: Serialize + JsonSchema + Send + 'static,
        F: Fn(Call, P) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, CallError>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        self.add::<P, R>(name, description, Shape::Unary, adjust, move |call, params| {
            let handler = Arc::clone(&handler);
            Box::pin(async move { Reply::of(&handler(call, params::read(params.get())?).await?) })
        })
    }

    /// Adds a method that `plexus-wire` does not define, whose answer is a stream (or, by `adjust`,
    /// either).
    #[must_use]
    pub fn streaming<P, I, F, Fut>(
        self,
        name: &'static str,
        description: &'static str,
        adjust: fn(&mut MethodDescriptor),
        handler: F,
    ) -> Self
    where
        P: DeserializeOwned + JsonSchema + Send + 'static,
        I: JsonSchema,
        F: Fn(Call, P) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Reply, CallError>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        self.add::<P, I>(name, description, Shape::Streaming, adjust, move |call, params| {
            let handler = Arc::clone(&handler);
            Box::pin(async move { handler(call, params::read(params.get())?).await })
        })
    }

    fn add<P: JsonSchema, R: JsonSchema>(
        mut self,
        name: &'static str,
        description: &'static str,
        shape: Shape,
        adjust: impl FnOnce(&mut MethodDescriptor),
        handler: impl Fn(
            Call,
            Box<RawValue>,
        ) -> Pin<Box<dyn Future<Output = Result<Reply, CallError>> + Send>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let mut descriptor = MethodDescriptor {
            namespace: Cow::Borrowed(self.namespace),
            name,
            description,
            params: schema::of_params::<P>(),
            result: schema::of_result::<R>(),
            shape,
            audience: Audience::Parents,
            devices: false,
            wire: WireForm::Ordinary,
            resume: None,
            on_cancel: None,
            changes_when_given: false,
            resource: None,
            door: Door::Listed,
            listing: Listing::Short,
            hints: Hints::default(),
        };
        adjust(&mut descriptor);
        self.methods
            .insert(name, Method { descriptor: Arc::new(descriptor), handler: Arc::new(handler) });
        self
    }
}

/// Boxes a stream of typed items as a reply.
pub fn stream_reply<S>(stream: S) -> Reply
where
    S: futures::Stream<Item = Result<StreamItem, CallError>> + Send + 'static,
{
    Reply::Stream(stream.boxed())
}
