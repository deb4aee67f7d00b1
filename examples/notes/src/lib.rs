//! `notes`: notes on sessions. Each is a node in the session's tree, with a handle that this
//! activation owns.
//!
//! In reading order: [`Notes`] is the activation, [`store`] keeps the notes in a file.

pub mod store;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use plexus_core::{
    Activation, ActivationInfo, Call, CallError, Caller, ErrorKind, Handle, HandleKind, HubContext,
    MethodTable, SessionId,
};
use plexus_wire::method::{arbor, claudecode};
use plexus_wire::{NodeCreateExternalParams, SessionRef, TreeOf};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::store::{Note, Store};

/// The activation.
pub struct Notes {
    store: Store,
    /// Our place in the hub, known once we are registered.
    hub: OnceLock<HubContext>,
}

/// Parameters of `add`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddParams {
    /// The session that the note is about.
    pub session_id: SessionId,
    /// The note.
    pub text: String,
}

/// Parameters of `list`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListParams {
    /// The session.
    pub session_id: SessionId,
}

/// A note as callers see it.
#[derive(Serialize, JsonSchema)]
pub struct ShownNote {
    /// The session that it is about.
    session_id: SessionId,
    /// The note.
    text: String,
    /// Its handle.
    handle: Handle,
}

/// A result of `add`.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename = "added")]
pub struct Added {
    note: ShownNote,
}

/// A result of `list`.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ok")]
pub struct Listed {
    notes: Vec<ShownNote>,
}

impl Notes {
    /// Opens the notes in `file`, which need not exist.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn open(file: impl Into<PathBuf>) -> std::io::Result<Arc<Self>> {
        Ok(Arc::new(Self { store: Store::open(file.into())?, hub: OnceLock::new() }))
    }

    fn hub(&self) -> Result<&HubContext, CallError> {
        self.hub.get().ok_or_else(|| CallError::unavailable("reach the hub: not registered yet"))
    }

    /// Finds the tree of a session by asking as the caller: whom Plexus does not show the session,
    /// we do not either.
    async fn tree_of(&self, caller: Caller, session: SessionId) -> Result<TreeOf, CallError> {
        self.hub()?.ask::<claudecode::GetTree>(caller, &SessionRef::id(session)).await
    }

    fn shown(&self, id: Uuid, note: Note) -> Result<ShownNote, CallError> {
        let handle = self.hub()?.handle("note", [id.to_string()])?;
        Ok(ShownNote { session_id: note.session_id, text: note.text, handle })
    }

    async fn add(&self, call: Call, params: AddParams) -> Result<Added, CallError> {
        let tree = self.tree_of(call.caller, params.session_id).await?;
        let id = Uuid::now_v7();
        let note = Note { session_id: params.session_id, text: params.text };
        self.store
            .add(id, note.clone())
            .map_err(|error| CallError::unavailable(format_args!("keep the note: {error}")))?;
        let note = self.shown(id, note)?;
        // Writing into trees is the operator's. We are a part of the server, and have asked above
        // whether this caller may see the session.
        let node =
            NodeCreateExternalParams::new(tree.tree_id, tree.head.node_id, note.handle.clone());
        self.hub()?.ask::<arbor::NodeCreateExternal>(Caller::Operator, &node).await?;
        Ok(Added { note })
    }

    async fn list(&self, call: Call, params: ListParams) -> Result<Listed, CallError> {
        self.tree_of(call.caller, params.session_id).await?;
        let notes = self.store.of(params.session_id).into_iter();
        let notes = notes.map(|(id, note)| self.shown(id, note)).collect::<Result<_, _>>()?;
        Ok(Listed { notes })
    }

    /// Finds the note that a handle names, for a caller that may see its session.
    async fn found(&self, caller: &Caller, handle: &Handle) -> Result<(Uuid, Note), CallError> {
        let id: Uuid = handle.part(0, "note_id")?;
        let hidden = || CallError::not_found(format_args!("find the note {id}"));
        let note = self.store.get(id).ok_or_else(hidden)?;
        match self.tree_of(*caller, note.session_id).await {
            Ok(_) => Ok((id, note)),
            // The words of a note that does not exist, so that nobody can tell the two apart.
            Err(error) if error.kind() == ErrorKind::NotFound => Err(hidden()),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl Activation for Notes {
    fn info(&self) -> ActivationInfo {
        ActivationInfo {
            namespace: "notes",
            version: (1, 0, 0),
            description: "Notes on sessions, which stand in their trees.",
        }
    }

    fn methods(self: Arc<Self>) -> MethodTable {
        let (adds, lists) = (Arc::clone(&self), self);
        MethodTable::new("notes")
            .unary(
                "add",
                "Puts a note on a session, at the end of its tree.",
                |_| {},
                move |call: Call, params: AddParams| {
                    let this = Arc::clone(&adds);
                    async move { this.add(call, params).await }
                },
            )
            .unary(
                "list",
                "Lists the notes on a session, oldest first.",
                |method| method.hints.read_only = true,
                move |call: Call, params: ListParams| {
                    let this = Arc::clone(&lists);
                    async move { this.list(call, params).await }
                },
            )
    }

    fn attach(&self, hub: HubContext) {
        // A second hub would be a second place, and our handles name the first.
        drop(self.hub.set(hub));
    }

    fn handle_kinds(&self) -> &'static [HandleKind] {
        &[HandleKind { method: "note", meta: &["note_id"], description: "A note on a session." }]
    }

    async fn resolve(&self, caller: &Caller, handle: &Handle) -> Result<Value, CallError> {
        let (id, note) = self.found(caller, handle).await?;
        Ok(json!({"type": "note", "note": self.shown(id, note)?}))
    }

    async fn summarize(
        &self,
        caller: &Caller,
        handle: &Handle,
    ) -> Result<Option<String>, CallError> {
        let (_, note) = self.found(caller, handle).await?;
        Ok(Some(format!("note: {}", note.text)))
    }

    async fn health(&self) -> Result<Option<Value>, CallError> {
        Ok(Some(json!({"notes": self.store.len()})))
    }
}
