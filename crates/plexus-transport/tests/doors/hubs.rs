//! Nested hubs through the doors: three levels, and two plugins of one namespace.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use plexus_core::{
    Activation, ActivationInfo, Call, CallError, Caller, Handle, HandleKind, Hub, HubContext,
    MethodTable,
};
use plexus_transport::Limits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::mcp_client::McpClient;
use crate::support::{HubState, OPERATOR, PARENT, Server};

/// Has one note, and says where it is registered.
#[derive(Default)]
struct Notes(OnceLock<HubContext>);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Serialize, JsonSchema)]
struct Note {
    r#where: String,
    handle: Handle,
}

impl Notes {
    fn note(&self) -> Result<Note, CallError> {
        let place = self.0.get().unwrap();
        Ok(Note { r#where: place.path()?, handle: place.handle("note", ["1"])? })
    }
}

fn info(namespace: &'static str) -> ActivationInfo {
    ActivationInfo { namespace, version: (1, 2, 0), description: "for tests" }
}

#[async_trait]
impl Activation for Notes {
    fn info(&self) -> ActivationInfo {
        info("notes")
    }

    fn methods(self: Arc<Self>) -> MethodTable {
        let get = move |_: Call, _: Nothing| {
            let note = self.note();
            async move { note }
        };
        MethodTable::new("notes").unary("get", "Shows the note.", |_| {}, get)
    }

    fn attach(&self, hub: HubContext) {
        assert!(self.0.set(hub).is_ok());
    }

    fn handle_kinds(&self) -> &'static [HandleKind] {
        &[HandleKind { method: "note", meta: &["note_id"], description: "A note." }]
    }

    async fn resolve(&self, _: &Caller, _: &Handle) -> Result<Value, CallError> {
        Ok(json!({"type": "note", "where": self.note()?.r#where}))
    }
}

fn three_levels(top: &Hub) {
    let (team, core) = (Hub::new(info("team")), Hub::new(info("core")));
    team.register(Arc::new(Notes::default())).unwrap();
    core.register(Arc::new(Notes::default())).unwrap();
    team.register(core).unwrap();
    top.register(team).unwrap();
}

const PATHS: [&str; 2] = ["team.core.notes", "team.notes"];

#[tokio::test]
async fn plugins_in_hubs_are_listed_called_and_resolved_at_every_door() {
    let state = Arc::<HubState>::default();
    let address = "127.0.0.1:0".parse().unwrap();
    let server = Server::with_more(&state, Limits::default(), address, three_levels).await;
    let (mut mcp, _) = McpClient::begin(&server, PARENT).await;

    let listed = server.rpc(PARENT, "plexus.methods", json!({})).await;
    let listed = listed["result"]["methods"].to_string();
    let tools = mcp.ask("tools/list", json!({})).await["result"]["tools"].to_string();
    let plugins = server.rpc(PARENT, "plexus.plugins", json!({})).await;
    let plugins = plugins["result"]["plugins"].as_array().unwrap().clone();
    for path in PATHS {
        let (method, tool) = (format!("{path}.get"), format!("{}_get", path.replace('.', "_")));
        assert!(listed.contains(&format!("\"{method}\"")), "{listed}");
        assert!(tools.contains(&format!("\"{tool}\"")), "{tools}");
        let schema = server.rpc(PARENT, "plexus.schema", json!({"method": method})).await;
        assert_eq!(schema["result"]["methods"][0]["params"]["type"], "object", "{schema}");

        let called = server.rpc(PARENT, &method, json!({})).await["result"].clone();
        assert_eq!(called["where"], path);
        let over_mcp = mcp.ask("tools/call", json!({"name": tool, "arguments": {}})).await;
        assert_eq!(over_mcp["result"]["structuredContent"], called);

        let plugin = plugins.iter().find(|plugin| plugin["path"] == path).unwrap();
        assert_eq!(plugin["plugin_id"], called["handle"]["plugin_id"]);
        assert_eq!(plugin["methods"], json!([method]));
        let params = json!({"handle": called["handle"]});
        let resolved = server.rpc(PARENT, "plexus.resolve_handle", params.clone()).await;
        assert_eq!(resolved["result"], json!({"type": "note", "where": path}));
        let params = json!({"name": "plexus_resolve_handle", "arguments": params});
        let resolved = mcp.ask("tools/call", params).await;
        assert_eq!(resolved["result"]["structuredContent"]["where"], path);
    }
}

#[tokio::test]
async fn handles_that_are_no_handles_are_refused_with_a_kind() {
    let state = Arc::<HubState>::default();
    let address = "127.0.0.1:0".parse().unwrap();
    let server = Server::with_more(&state, Limits::default(), address, three_levels).await;
    let own = server.rpc(OPERATOR, "team.notes.get", json!({})).await["result"]["handle"].clone();
    let with = |change: &dyn Fn(&mut Value)| {
        let mut handle = own.clone();
        change(&mut handle);
        handle
    };
    for (handle, kind) in [
        (json!("no handle"), "invalid"),
        (json!(7), "invalid"),
        (json!({"plugin_id": "x"}), "invalid"),
        (with(&|it| it["meta"] = json!(["x".repeat(10_000)])), "invalid"),
        (with(&|it| it["meta"] = json!(vec!["x"; 17])), "invalid"),
        (with(&|it| it["meta"] = json!([])), "invalid"),
        (with(&|it| it["version"] = json!("2.0.0")), "invalid"),
        (with(&|it| it["method"] = json!("frob")), "not_found"),
        (with(&|it| it["plugin_id"] = json!(uuid::Uuid::nil())), "not_found"),
    ] {
        let answer = server.rpc(OPERATOR, "plexus.resolve_handle", json!({"handle": handle})).await;
        assert_eq!(answer["error"]["data"]["kind"], kind, "{answer}");
        assert!(answer.to_string().len() < 1_000, "{answer}");
    }
}
