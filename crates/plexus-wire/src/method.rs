//! Every method with its parameters and its result, in one list: [`methods!`](crate::methods).
//!
//! A method table of the server, the functions of the Rust client and the document of all shapes
//! are made from this list, so they cannot differ.

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

/// Visits every method, for code that needs them all with their types.
pub trait Visitor {
    /// Sees one method, with the Rust names of its parameters and its result.
    fn visit<M: Method>(&mut self, params: &'static str, result: &'static str);
}

/// Every method of every namespace, once: hands each namespace to the macro `$make`, which makes
/// what its caller needs of it. This module makes the markers, and `plexus-client` its functions.
///
/// A line says what the method does, its name, its parameters (none are [`NoParams`]), its result
/// and its marker. A method that answers with many items is marked `stream`.
#[macro_export]
macro_rules! methods {
    ($make:ident) => {
        $crate::session_methods! {
            $make
            /// Sessions and chats of every agent: `agents.*`.
            agents: Agents {
                /// Says which agents the server knows, and what each can do.
                kinds() -> AgentKinds = Kinds;
                /// Finds what was asked, said and done; `invalid` for a query without a word.
                search(SearchParams) -> SearchFound = Search;
                /// Says what changed in a session's directory since the session began.
                changes(SessionRef) -> ChangesFound = Changes;
            }
        }
        $crate::session_methods! {
            $make
            /// Sessions and chats, as the first stage names them: `claudecode.*`. Its `create`
            /// makes sessions of Claude Code.
            claudecode: ClaudeCode {}
        }
        $make! {
            /// Conversations with a model itself, without tools: `cone.*`.
            cone: Cone {
                /// Creates a conversation; `conflict` for a name that is taken.
                create(ConeCreateParams) -> SessionCreated = Create;
                /// Gives it a prompt and returns at once; `busy` while the model answers another
                /// one.
                chat_async(ChatParams) -> ChatStarted = ChatAsync;
                /// Reads what the model says.
                poll(PollParams) -> Polled = Poll;
                /// Returns the conversations of a page of sessions, oldest first.
                list(ListParams) -> SessionList = List;
                /// Returns a conversation.
                get(SessionRef) -> SessionGot = Get;
                /// Removes a conversation.
                delete(SessionRef) -> SessionDeleted = Delete;
            }
        }
        $make! {
            /// Permission requests and what decides them: `loopback.*`.
            loopback: Loopback {
                /// Asks for permission as the CLI does.
                permit(PermitRequest) -> PermitAnswer = Permit;
                /// Decides a request; `conflict` when it was decided otherwise, or its input is not
                /// the one that was looked at.
                respond(RespondParams) -> Responded = Respond;
                /// Decides several requests the same way.
                respond_many(RespondManyParams) -> RespondOutcomes = RespondMany;
                /// Returns a page of requests that wait; `Client::pending` reads all pages.
                pending(ApprovalPageParams) -> PendingApprovals = Pending;
                /// Waits until something asks.
                wait_for_approval(WaitForApprovalParams) -> PendingApprovals = WaitForApproval;
                /// Shows the files that a request would change.
                files(FilesParams) -> FilesRead = Files;
                /// Shows what the command of a request would change, by a dry run within its wall.
                preview(PreviewParams) -> Previewed = Preview;
                /// Returns a page of decisions, newest first.
                history(ApprovalPageParams) -> DecisionList = History;
                /// Returns a page of audit lines, newest first.
                audit(ApprovalPageParams) -> AuditList = Audit;
                /// Allows more, or nothing, unasked for a while.
                mode_set(ModeSetParams) -> Done = ModeSet;
                /// Adds a standing rule.
                rule_add(RuleAddParams) -> RuleAdded = RuleAdd;
                /// Returns a page of rules; `Client::rules` reads all pages.
                rules(RulesParams) -> RuleList = Rules;
                /// Removes a rule.
                rule_remove(RuleRemoveParams) -> Done = RuleRemove;
                /// Says what would happen to a call.
                rule_test(RuleTestParams) -> RuleTested = RuleTest;
                /// Says what remembering a decision would do.
                rule_preview(RulePreviewParams) -> RulePreviewed = RulePreview;
                /// Proposes rules that your own decisions speak for.
                rule_suggest(RuleSuggestParams) -> RuleSuggestions = RuleSuggest;
                /// Makes what a child needs that somebody else starts.
                configure(ConfigureParams) -> Configured = Configure;
            }
        }
        $make! {
            /// Trees of nodes: `arbor.*`.
            arbor: Arbor {
                /// Makes a tree.
                tree_create(TreeCreateParams) -> NodeCreated = TreeCreate;
                /// Returns a tree.
                tree_get(TreeParams) -> TreeGot = TreeGet;
                /// Returns a page of trees.
                tree_list(TreeListParams) -> TreeList = TreeList;
                /// Draws a tree as indented lines.
                tree_render(TreeParams) -> TreeRendered = TreeRender;
                /// Makes a node that holds a text.
                node_create_text(NodeCreateTextParams) -> NodeCreated = NodeCreateText;
                /// Makes a node that stands for something of an activation.
                node_create_external(NodeCreateExternalParams) -> NodeCreated = NodeCreateExternal;
                /// Returns a node.
                node_get(NodeParams) -> NodeGot = NodeGet;
                /// Returns the nodes that follow a node.
                node_get_children(NodeParams) -> NodeList = NodeGetChildren;
                /// Returns the node before a node.
                node_get_parent(NodeParams) -> NodeGot = NodeGetParent;
                /// Returns the path from the root to a node.
                node_get_path(PathParams) -> NodeList = NodeGetPath;
                /// Returns the path between two nodes.
                node_get_path_between(BetweenParams) -> NodeList = NodeGetPathBetween;
                /// Returns a page of nodes that nothing follows.
                context_list_leaves(LeavesParams) -> NodeList = ContextListLeaves;
                /// Returns the path that ends at a node.
                context_get_path(PathParams) -> NodeList = ContextGetPath;
                /// Returns the handles along a path.
                context_get_handles(PathParams) -> HandleList = ContextGetHandles;
            }
        }
        $make! {
            /// Identities for parents outside, sign-in codes, and devices that decide for the
            /// operator: `identity.*`.
            identity: Identity {
                /// Makes a token for a parent outside.
                parent(ParentParams) -> ParentIdentity = Parent;
                /// Lists the parents outside that have an identity.
                parents(ParentsParams) -> ParentList = Parents;
                /// Ends every token of a parent outside.
                revoke(RevokeParams) -> Revoked = Revoke;
                /// Makes a one-time code for the dashboard.
                code() -> SignInCode = Code;
                /// Makes a one-time code with which a device gets a token to read and decide.
                pair(PairParams) -> Pairing = Pair;
                /// Lists the devices that may read and decide.
                devices() -> DeviceList = Devices;
                /// Takes back the token of a device, and cuts its connections.
                unpair(UnpairParams) -> Unpaired = Unpair;
            }
        }
        $make! {
            /// What the server is doing: `health.*`.
            health: Health {
                /// Returns how much there is.
                state() -> HealthState = State;
            }
        }
        $make! {
            /// Receivers outside that are told what happens: `notify.*`.
            notify: Notify {
                /// Lists the receivers and the state of each.
                receivers() -> NotifyReceivers = Receivers;
                /// Sends a test message to a receiver; an error says why it did not arrive.
                test(NotifyTestParams) -> Done = Test;
                /// Returns the key that a browser subscribes with.
                push_key() -> PushKey = PushKey;
                /// Adds or renews a browser's subscription.
                push_subscribe(PushSubscribeParams) -> Done = PushSubscribe;
                /// Ends a browser's subscription.
                push_unsubscribe(PushUnsubscribeParams) -> Done = PushUnsubscribe;
            }
        }
        $make! {
            /// The hub's own methods: `plexus.*`.
            plexus: Plexus {
                /// Returns what a handle stands for.
                resolve_handle(ResolveParams) -> Resolved = ResolveHandle;
                /// Lists the methods that the caller may call.
                methods() -> MethodList = Methods;
                /// Lists methods with their schemas.
                schema(SchemaParams) -> MethodList = Schema;
                /// Lists the activations of the server.
                plugins() -> PluginList = Plugins;
                /// Returns the version of the server.
                version() -> Version = Version;
                /// Says how the server and its activations are.
                health() -> HealthReport = Health;
            }
        }
        $make! {
            /// The operator's methods over the server itself: `server.*`.
            server: Server {
                /// Stops the server.
                stop(StopParams) -> Stopping = Stop;
                /// Removes what ended long ago.
                prune(PruneParams) -> Pruned = Prune;
                /// Copies the store to a file.
                backup(BackupParams) -> Done = Backup;
            }
        }
    };
}

/// The methods of sessions and chats. They are in two namespaces: `agents`, for every agent, and
/// `claudecode`, the name that the first stage gave them.
#[doc(hidden)]
#[macro_export]
macro_rules! session_methods {
    ($make:ident $(#[$about:meta])* $namespace:ident: $client:ident { $($more:tt)* }) => {
        $make! {
            $(#[$about])*
            $namespace: $client {
                /// Creates a session; `conflict` for a name that is taken.
                create(CreateParams) -> SessionCreated = Create;
                /// Starts a chat and returns at once; `busy` while another chat of the session
                /// runs.
                chat_async(ChatParams) -> ChatStarted = ChatAsync;
                /// Starts a chat and waits for its end, a question or the end of the wait.
                chat(ChatParams) -> Polled = Chat;
                /// Reads events of a chat; `PolledEvent::read` gives each one typed.
                poll(PollParams) -> Polled = Poll;
                /// Streams events of a chat as they come.
                follow(FollowParams) -> Followed = Follow, stream;
                /// Waits for sessions to change, and says which did.
                wait(WaitParams) -> Waited = Wait;
                /// Puts a message into the running chat; `conflict` when none runs.
                send(SendParams) -> MessageSent = Send;
                /// Asks the running chat to end; `conflict` when none runs.
                cancel(CancelParams) -> ChatCancelled = Cancel;
                /// Returns a session.
                get(SessionRef) -> SessionGot = Get;
                /// Gives a session other limits.
                budget_set(BudgetSetParams) -> Done = BudgetSet;
                /// Returns a page of sessions, oldest first; `Client::sessions` reads all pages.
                list(ListParams) -> SessionList = List;
                /// Removes a session and everything below it.
                delete(SessionRef) -> SessionDeleted = Delete;
                /// Makes a session that goes on from a place of another.
                fork(ForkParams) -> SessionForked = Fork;
                /// Gives a session another name; `conflict` for a name that is taken.
                rename(RenameParams) -> SessionRenamed = Rename;
                /// Returns a page of chats.
                streams(StreamsParams) -> StreamList = Streams;
                /// Returns the tree of a session.
                get_tree(SessionRef) -> TreeOf = GetTree;
                /// Returns a conversation as the model's API takes it.
                render_context(RenderParams) -> Rendered = RenderContext;
                /// Returns the named readers of a session.
                cursors(SessionRef) -> ConsumerList = Cursors;
                /// Moves a named reader.
                cursor_set(CursorSetParams) -> Done = CursorSet;
                /// Forgets a named reader.
                cursor_delete(CursorDeleteParams) -> Done = CursorDelete;
                $($more)*
            }
        }
    };
}

/// The shape of a method's parameters, and its name.
macro_rules! params {
    (type) => {
        super::NoParams
    };
    (type $params:ident) => {
        super::$params
    };
    (name) => {
        "NoParams"
    };
    (name $params:ident) => {
        stringify!($params)
    };
}

/// Makes the module of a namespace: a marker for each method.
macro_rules! markers {
    ($(#[$about:meta])* $namespace:ident: $client:ident {
        $($(#[$doc:meta])* $name:ident($($params:ident)?) -> $result:ident = $marker:ident
            $(, $shape:ident)?;)*
    }) => {
        $(#[$about])*
        pub mod $namespace {
            $(#[doc = concat!("`", stringify!($namespace), ".", stringify!($name), "`.")]
            ///
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub struct $marker;

            impl super::Method for $marker {
                const NAMESPACE: &'static str = stringify!($namespace);
                const NAME: &'static str = stringify!($name);
                const FULL_NAME: &'static str =
                    concat!(stringify!($namespace), ".", stringify!($name));
                type Params = params!(type $($params)?);
                type Result = super::$result;
            })*

            /// Shows every method of this namespace to `visitor`.
            pub(super) fn each(visitor: &mut impl super::Visitor) {
                $(visitor.visit::<$marker>(params!(name $($params)?), stringify!($result));)*
            }
        }
    };
}

methods!(markers);

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
