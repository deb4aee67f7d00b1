//! Every method with its parameters and its result. A method table of the server, a typed call of a
//! client and the document of all shapes name the same marker, so they cannot differ.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::*;

/// A method: what it is called, what it takes, and what it gives.
pub trait Method {
    /// The namespace that it is registered in.
    const NAMESPACE: &'static str;
    /// Its name within the namespace.
    const NAME: &'static str;
    /// Its full name: `namespace.name`.
    const FULL_NAME: &'static str;
    /// What it takes.
    type Params: Serialize + DeserializeOwned + JsonSchema + Send + 'static;
    /// What it gives; of a stream, one item.
    type Result: Serialize + DeserializeOwned + JsonSchema + Send + 'static;
}

/// Visits every method, for whoever needs them all with their types.
pub trait Visitor {
    /// Sees one method, with the Rust names of its parameters and its result.
    fn visit<M: Method>(&mut self, params: &'static str, result: &'static str);
}

macro_rules! namespace {
    ($(#[$about:meta])* $namespace:ident {
        $($marker:ident = $name:literal ($params:ident) -> $result:ident;)*
    }) => {
        $(#[$about])*
        pub mod $namespace {
            $(#[doc = concat!("`", stringify!($namespace), ".", $name, "`.")]
            #[derive(Clone, Copy, Debug)]
            pub struct $marker;

            impl super::Method for $marker {
                const NAMESPACE: &'static str = stringify!($namespace);
                const NAME: &'static str = $name;
                const FULL_NAME: &'static str = concat!(stringify!($namespace), ".", $name);
                type Params = super::$params;
                type Result = super::$result;
            })*

            /// Shows every method of this namespace to `visitor`.
            pub(super) fn each(visitor: &mut impl super::Visitor) {
                $(visitor.visit::<$marker>(stringify!($params), stringify!($result));)*
            }
        }
    };
}

/// The methods of sessions and chats. They stand in two namespaces: `agents`, for every agent, and
/// `claudecode`, the name that the first stage gave them.
macro_rules! sessions {
    ($(#[$about:meta])* $namespace:ident { $($more:tt)* }) => {
        namespace! {
            $(#[$about])*
            $namespace {
                Create = "create" (CreateParams) -> SessionCreated;
                ChatAsync = "chat_async" (ChatParams) -> ChatStarted;
                Chat = "chat" (ChatParams) -> Polled;
                Poll = "poll" (PollParams) -> Polled;
                Follow = "follow" (FollowParams) -> Followed;
                Wait = "wait" (WaitParams) -> Waited;
                Send = "send" (SendParams) -> MessageSent;
                Cancel = "cancel" (CancelParams) -> ChatCancelled;
                Get = "get" (SessionRef) -> SessionGot;
                BudgetSet = "budget_set" (BudgetSetParams) -> Done;
                List = "list" (ListParams) -> SessionList;
                Delete = "delete" (SessionRef) -> SessionDeleted;
                Fork = "fork" (ForkParams) -> SessionForked;
                Rename = "rename" (RenameParams) -> SessionRenamed;
                Streams = "streams" (StreamsParams) -> StreamList;
                GetTree = "get_tree" (SessionRef) -> TreeOf;
                RenderContext = "render_context" (RenderParams) -> Rendered;
                Cursors = "cursors" (SessionRef) -> ConsumerList;
                CursorSet = "cursor_set" (CursorSetParams) -> Done;
                CursorDelete = "cursor_delete" (CursorDeleteParams) -> Done;
                $($more)*
            }
        }
    };
}

sessions! {
    /// Sessions and chats of every agent.
    agents {
        Kinds = "kinds" (NoParams) -> AgentKinds;
        Search = "search" (SearchParams) -> SearchFound;
        Changes = "changes" (SessionRef) -> ChangesFound;
    }
}

sessions! {
    /// Sessions and chats, as the first stage names them: `create` makes sessions of Claude Code.
    claudecode {}
}

namespace! {
    /// Conversations with a model itself, without tools.
    cone {
        Create = "create" (ConeCreateParams) -> SessionCreated;
        ChatAsync = "chat_async" (ChatParams) -> ChatStarted;
        Poll = "poll" (PollParams) -> Polled;
        List = "list" (ListParams) -> SessionList;
        Get = "get" (SessionRef) -> SessionGot;
        Delete = "delete" (SessionRef) -> SessionDeleted;
    }
}

namespace! {
    /// Permission requests and what decides them.
    loopback {
        Permit = "permit" (PermitRequest) -> PermitAnswer;
        Respond = "respond" (RespondParams) -> Responded;
        RespondMany = "respond_many" (RespondManyParams) -> RespondOutcomes;
        Pending = "pending" (ApprovalPageParams) -> PendingApprovals;
        WaitForApproval = "wait_for_approval" (WaitForApprovalParams) -> PendingApprovals;
        Files = "files" (FilesParams) -> FilesRead;
        Preview = "preview" (PreviewParams) -> Previewed;
        History = "history" (ApprovalPageParams) -> DecisionList;
        Audit = "audit" (ApprovalPageParams) -> AuditList;
        ModeSet = "mode_set" (ModeSetParams) -> Done;
        RuleAdd = "rule_add" (RuleAddParams) -> RuleAdded;
        Rules = "rules" (RulesParams) -> RuleList;
        RuleRemove = "rule_remove" (RuleRemoveParams) -> Done;
        RuleTest = "rule_test" (RuleTestParams) -> RuleTested;
        RulePreview = "rule_preview" (RulePreviewParams) -> RulePreviewed;
        RuleSuggest = "rule_suggest" (RuleSuggestParams) -> RuleSuggestions;
        Configure = "configure" (ConfigureParams) -> Configured;
    }
}

namespace! {
    /// Trees of nodes.
    arbor {
        TreeCreate = "tree_create" (TreeCreateParams) -> NodeCreated;
        TreeGet = "tree_get" (TreeParams) -> TreeGot;
        TreeList = "tree_list" (TreeListParams) -> TreeList;
        TreeRender = "tree_render" (TreeParams) -> TreeRendered;
        NodeCreateText = "node_create_text" (NodeCreateTextParams) -> NodeCreated;
        NodeCreateExternal = "node_create_external" (NodeCreateExternalParams) -> NodeCreated;
        NodeGet = "node_get" (NodeParams) -> NodeGot;
        NodeGetChildren = "node_get_children" (NodeParams) -> NodeList;
        NodeGetParent = "node_get_parent" (NodeParams) -> NodeGot;
        NodeGetPath = "node_get_path" (PathParams) -> NodeList;
        NodeGetPathBetween = "node_get_path_between" (BetweenParams) -> NodeList;
        ContextListLeaves = "context_list_leaves" (LeavesParams) -> NodeList;
        ContextGetPath = "context_get_path" (PathParams) -> NodeList;
        ContextGetHandles = "context_get_handles" (PathParams) -> HandleList;
    }
}

namespace! {
    /// Identities for parents outside, sign-in codes, and devices that decide for the operator.
    identity {
        Parent = "parent" (ParentParams) -> ParentIdentity;
        Parents = "parents" (ParentsParams) -> ParentList;
        Revoke = "revoke" (RevokeParams) -> Revoked;
        Code = "code" (NoParams) -> SignInCode;
        Pair = "pair" (PairParams) -> Pairing;
        Devices = "devices" (NoParams) -> DeviceList;
        Unpair = "unpair" (UnpairParams) -> Unpaired;
    }
}

namespace! {
    /// What the server is doing.
    health {
        State = "state" (NoParams) -> HealthState;
    }
}

namespace! {
    /// Receivers outside that are told what happens.
    notify {
        Receivers = "receivers" (NoParams) -> NotifyReceivers;
        Test = "test" (NotifyTestParams) -> Done;
        PushKey = "push_key" (NoParams) -> PushKey;
        PushSubscribe = "push_subscribe" (PushSubscribeParams) -> Done;
        PushUnsubscribe = "push_unsubscribe" (PushUnsubscribeParams) -> Done;
    }
}

namespace! {
    /// The hub's own methods.
    plexus {
        ResolveHandle = "resolve_handle" (ResolveParams) -> Resolved;
        Methods = "methods" (NoParams) -> MethodList;
        Schema = "schema" (SchemaParams) -> MethodList;
        Plugins = "plugins" (NoParams) -> PluginList;
        Version = "version" (NoParams) -> Version;
        Health = "health" (NoParams) -> HealthReport;
    }
}

namespace! {
    /// The operator's methods over the server itself.
    server {
        Stop = "stop" (StopParams) -> Stopping;
        Prune = "prune" (PruneParams) -> Pruned;
        Backup = "backup" (BackupParams) -> Done;
    }
}

/// Shows every method to `visitor`.
pub fn each(visitor: &mut impl Visitor) {
    agents::each(visitor);
    claudecode::each(visitor);
    cone::each(visitor);
    loopback::each(visitor);
    arbor::each(visitor);
    identity::each(visitor);
    health::each(visitor);
    notify::each(visitor);
    plexus::each(visitor);
    server::each(visitor);
}
