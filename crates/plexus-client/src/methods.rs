//! Every method as one typed function, by namespace. The compiler holds each line to its marker in
//! `plexus-wire`, and a test holds the list to the list of all methods.

use plexus_wire::*;

use crate::client::Client;
use crate::error::ClientError;

/// The parameters of a call: those that were given, or none.
macro_rules! given {
    ($params:ident: $shape:ty) => {
        $params
    };
    ($params:ident:) => {
        &NoParams::default()
    };
}

macro_rules! namespace {
    ($(#[$about:meta])* $namespace:ident: $type:ident {
        $($(#[$doc:meta])* $function:ident($($params:ty)?) -> $result:ty = $marker:ident;)*
    }) => {
        impl Client {
            $(#[$about])*
            #[must_use]
            pub fn $namespace(&self) -> $type<'_> {
                $type { client: self }
            }
        }

        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        pub struct $type<'a> {
            client: &'a Client,
        }

        impl $type<'_> {
            $($(#[$doc])*
            ///
            /// # Errors
            /// As [`Client::call`].
            pub async fn $function(
                &self,
                $(params: &$params)?
            ) -> Result<$result, ClientError> {
                let params = given!(params: $($params)?);
                self.client.call::<method::$namespace::$marker>(params).await
            })*

            /// The full name of every method that has a function here.
            #[cfg(test)]
            const TYPED: &'static [&'static str] = &[$(method::$namespace::$marker::FULL_NAME,)*];
        }
    };
}

/// The methods of sessions, which stand in two namespaces.
macro_rules! sessions {
    ($(#[$about:meta])* $namespace:ident: $type:ident { $($more:tt)* }) => {
        namespace! {
            $(#[$about])*
            $namespace: $type {
                /// Creates a session; `conflict` for a name that is taken.
                create(CreateParams) -> SessionCreated = Create;
                /// Starts a chat and returns at once; `busy` while another chat of the session
                /// runs.
                chat_async(ChatParams) -> ChatStarted = ChatAsync;
                /// Starts a chat and waits for its end, a question or the end of the wait.
                chat(ChatParams) -> Polled = Chat;
                /// Reads events of a chat; [`PolledEvent::read`] gives each one typed.
                poll(PollParams) -> Polled = Poll;
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
                /// Returns a page of sessions, oldest first; [`Client::sessions`] reads all pages.
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

sessions! {
    /// Sessions and chats of every agent: `agents.*`. Its stream of events is [`Client::follow`].
    agents: Agents {
        /// Says which agents the server knows, and what each can do.
        kinds() -> AgentKinds = Kinds;
        /// Finds what was asked, said and done; `invalid` for a query without a word.
        search(SearchParams) -> SearchFound = Search;
        /// Says what changed in a session's directory since the session began.
        changes(SessionRef) -> ChangesFound = Changes;
    }
}

sessions! {
    /// Sessions and chats, as the first stage names them: `claudecode.*`.
    claudecode: ClaudeCode {}
}

namespace! {
    /// Conversations with a model itself, without tools: `cone.*`.
    cone: Cone {
        /// Creates a conversation; `conflict` for a name that is taken.
        create(ConeCreateParams) -> SessionCreated = Create;
        /// Gives it a prompt and returns at once; `busy` while the model answers another one.
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

namespace! {
    /// Permission requests and what decides them: `loopback.*`.
    loopback: Loopback {
        /// Asks for permission as the CLI does.
        permit(PermitRequest) -> PermitAnswer = Permit;
        /// Decides a request; `conflict` when it was decided otherwise, or its input is not the
        /// one that was looked at.
        respond(RespondParams) -> Responded = Respond;
        /// Decides several requests the same way.
        respond_many(RespondManyParams) -> RespondOutcomes = RespondMany;
        /// Returns a page of requests that wait; [`Client::pending`] reads all pages.
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
        /// Returns a page of rules; [`Client::rules`] reads all pages.
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

namespace! {
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

namespace! {
    /// Identities for parents outside, and sign-in codes: `identity.*`.
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

namespace! {
    /// What the server is doing: `health.*`.
    health: Health {
        /// Returns how much there is.
        state() -> HealthState = State;
    }
}

namespace! {
    /// Receivers outside that are told what happens: `notify.*`.
    notify: Notify {
        /// Lists the receivers and how each stands.
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

namespace! {
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

namespace! {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_method_of_the_wire_has_a_function() {
        let document = document::document();
        let all: BTreeSet<&str> =
            document["methods"].as_object().unwrap().keys().map(String::as_str).collect();
        // A stream is no call.
        let streams = [method::agents::Follow::FULL_NAME, method::claudecode::Follow::FULL_NAME];
        let typed = [
            &streams,
            Agents::TYPED,
            ClaudeCode::TYPED,
            Cone::TYPED,
            Loopback::TYPED,
            Arbor::TYPED,
            Identity::TYPED,
            Health::TYPED,
            Notify::TYPED,
            Plexus::TYPED,
            Server::TYPED,
        ];
        let typed: BTreeSet<&str> = typed.into_iter().flatten().copied().collect();
        assert_eq!(typed, all);
    }
}
