//! A method's answer as an MCP resource, so that a parent that can subscribe need not poll.
//!
//! The descriptors say which methods are resources, under which addresses, and which stream reports
//! their changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use plexus_core::{
    Call, CallError, Caller, ErrorKind, Hub, MethodDescriptor, Reply, ReplyStream, ResourceForm,
};
use rmcp::model::{
    ErrorCode, ErrorData, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
    ResourceUpdatedNotificationParam,
};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_util::task::AbortOnDropHandle;

use super::holds::Holds;
use crate::doors::Doors;

/// Subscriptions of one session.
const MAX_SUBSCRIPTIONS: usize = 128;

/// Least time between two notifications for one resource: a reader after the second one sees both
/// changes.
const NOTIFY_AT_MOST_EVERY: Duration = Duration::from_millis(250);

/// Back-off before a stream of changes that ended is reopened.
const OPEN_AGAIN_AFTER: Duration = Duration::from_secs(1);

const JSON: &str = "application/json";

/// Lists the methods that `caller` may read as resources.
pub(super) fn offered(hub: &Hub, caller: &Caller) -> Vec<(Arc<MethodDescriptor>, ResourceForm)> {
    let methods = hub.all_methods().into_iter().filter(|method| method.admits(caller));
    methods.filter_map(|method| method.resource.map(|form| (method, form))).collect()
}

/// Lists the resources with a fixed address.
pub(super) fn list(hub: &Hub, caller: &Caller) -> Vec<Resource> {
    let fixed = offered(hub, caller).into_iter().filter(|(_, form)| !form.uri.contains('{'));
    fixed
        .map(|(method, form)| {
            Resource::new(form.uri, method.tool_name())
                .with_description(method.description)
                .with_mime_type(JSON)
        })
        .collect()
}

/// Lists the resources whose address has parameters.
pub(super) fn templates(hub: &Hub, caller: &Caller) -> Vec<ResourceTemplate> {
    let with_parameters =
        offered(hub, caller).into_iter().filter(|(_, form)| form.uri.contains('{'));
    with_parameters
        .map(|(method, form)| {
            ResourceTemplate::new(form.uri, method.tool_name())
                .with_description(method.description)
                .with_mime_type(JSON)
        })
        .collect()
}

/// Says whether `uri` is the address of a resource for `caller`.
pub(super) fn is_known(hub: &Hub, caller: &Caller, uri: &str) -> bool {
    find(hub, caller, uri).is_ok()
}

/// Reads a resource.
pub(super) async fn read(
    doors: &Doors,
    caller: Caller,
    uri: &str,
    holds: Option<Holds>,
) -> Result<ReadResourceResult, ErrorData> {
    let found = find(&doors.hub, &caller, uri)?;
    let method = &found.method;
    let reply =
        doors.hub.call_internal(Call::plain(caller), &method.full_name(), found.params).await;
    match doors.counters.count(reply).map_err(|error| as_error(&error))? {
        Reply::Value(answer) => {
            let given = doors.give(caller, Some(method), answer).await;
            let (value, held) = given.map_err(|error| as_error(&error))?;
            if let Some(holds) = holds {
                holds.add(held);
            }
            let contents = ResourceContents::text(value.get(), uri).with_mime_type(JSON);
            Ok(ReadResourceResult::new(vec![contents]))
        }
        Reply::Stream(_) => {
            Err(as_error(&CallError::internal(format_args!("read {uri}: it is a stream"))))
        }
    }
}

struct Found {
    method: Arc<MethodDescriptor>,
    form: ResourceForm,
    params: Box<RawValue>,
}

fn find(hub: &Hub, caller: &Caller, uri: &str) -> Result<Found, ErrorData> {
    let unknown = || ErrorData::resource_not_found(format!("there is no resource {uri}"), None);
    let mut all = offered(hub, caller).into_iter();
    let (method, form, params) = all
        .find_map(|(method, form)| Some((method, form, parameters(form.uri, uri)?)))
        .ok_or_else(unknown)?;
    let params = plexus_core::method::raw(&params).map_err(|error| as_error(&error))?;
    Ok(Found { method, form, params })
}

/// Matches an address against a template and returns the values of its parameters.
fn parameters(template: &str, uri: &str) -> Option<serde_json::Map<String, Value>> {
    let mut params = serde_json::Map::new();
    let (mut template, mut uri) = (template, uri);
    while let Some((literal, rest)) = template.split_once('{') {
        let (name, after) = rest.split_once('}')?;
        uri = uri.strip_prefix(literal)?;
        let end = uri
            .find(|c: char| !(c.is_ascii_alphanumeric() || "-._~".contains(c)))
            .unwrap_or(uri.len());
        let (value, left) = uri.split_at(end);
        if value.is_empty() {
            return None;
        }
        params.insert(name.to_owned(), value.into());
        (template, uri) = (after, left);
    }
    (template == uri).then_some(params)
}

/// Converts an error. A protocol error can carry the whole error object only in `data`.
fn as_error(error: &CallError) -> ErrorData {
    let data = serde_json::to_value(error).ok();
    let message = format!("could not {}", error.message);
    match error.kind() {
        ErrorKind::NotFound => ErrorData::resource_not_found(message, data),
        ErrorKind::Invalid => ErrorData::invalid_params(message, data),
        ErrorKind::Internal => ErrorData::internal_error(message, data),
        ErrorKind::Conflict
        | ErrorKind::Forbidden
        | ErrorKind::Unauthorized
        | ErrorKind::Busy
        | ErrorKind::Expired
        | ErrorKind::Unavailable => ErrorData::new(ErrorCode(-32000), message, data),
    }
}

/// The subscriptions of one session. Dropping this ends all of them.
#[derive(Default)]
pub(super) struct Subscriptions {
    by_uri: Mutex<HashMap<String, AbortOnDropHandle<()>>>,
}

impl Subscriptions {
    /// Starts to call `notify` whenever the resource may have changed, until `notify` reports that
    /// the subscriber is gone.
    ///
    /// # Errors
    /// When there is no such resource, or there are too many subscriptions.
    pub(super) async fn add<F>(
        &self,
        doors: &Doors,
        caller: Caller,
        uri: String,
        notify: impl Fn(ResourceUpdatedNotificationParam) -> F + Send + Sync + 'static,
    ) -> Result<(), ErrorData>
    where
        F: Future<Output = bool> + Send,
    {
        let found = find(&doors.hub, &caller, &uri)?;
        if self.lock().len() >= MAX_SUBSCRIPTIONS {
            return Err(as_error(&CallError::busy(
                "listen to another resource: too many are listened to",
                1_000,
            )));
        }
        let place = doors.admit_stream(caller).map_err(|error| as_error(&error))?;
        // The stream is open before the client is told so, so that no later change is missed.
        let first = changes(doors, caller, &found).await.map_err(|error| as_error(&error))?;
        let listener = Listener { doors: doors.clone(), caller, found, uri: uri.clone() };
        let task = tokio::spawn(async move {
            let _place = place;
            listener.watch(first, notify).await;
        });
        self.lock().insert(uri, AbortOnDropHandle::new(task));
        Ok(())
    }

    /// Ends one subscription; it is not an error if there is none.
    pub(super) fn remove(&self, uri: &str) {
        self.lock().remove(uri);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, AbortOnDropHandle<()>>> {
        self.by_uri.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn changes(doors: &Doors, caller: Caller, found: &Found) -> Result<ReplyStream, CallError> {
    let call = Call { can_stream: true, ..Call::plain(caller) };
    let name = format!("{}.{}", found.method.namespace, found.form.changes);
    match doors.hub.call_internal(call, &name, found.params.clone()).await? {
        Reply::Stream(stream) => Ok(stream),
        Reply::Value(_) => {
            Err(CallError::internal(format_args!("listen to {name}: it is not a stream")))
        }
    }
}

/// One resource with a subscription.
struct Listener {
    doors: Doors,
    caller: Caller,
    found: Found,
    uri: String,
}

impl Listener {
    /// Notifies of changes until the subscriber or the resource is gone. A stream that ends for
    /// another reason is reopened: a subscriber does not poll, so it would miss every change after
    /// a silent end.
    async fn watch<F: Future<Output = bool>>(
        self,
        first: ReplyStream,
        notify: impl Fn(ResourceUpdatedNotificationParam) -> F,
    ) {
        let mut changes = first;
        loop {
            if !tell(changes, &self.uri, &notify).await {
                return;
            }
            changes = match self.open_again().await {
                Some(changes) => changes,
                // The subscriber reads once more, and learns there what happened.
                None => {
                    notify(ResourceUpdatedNotificationParam::new(&*self.uri)).await;
                    return;
                }
            };
            // The new stream does not include changes made in between.
            if !notify(ResourceUpdatedNotificationParam::new(&*self.uri)).await {
                return;
            }
        }
    }

    /// Reopens the stream, retrying without limit; returns `None` when the resource no longer
    /// exists for this caller.
    async fn open_again(&self) -> Option<ReplyStream> {
        loop {
            tokio::time::sleep(OPEN_AGAIN_AFTER).await;
            match changes(&self.doors, self.caller, &self.found).await {
                Ok(changes) => return Some(changes),
                Err(error) => match error.kind() {
                    ErrorKind::Busy
                    | ErrorKind::Unavailable
                    | ErrorKind::Internal
                    | ErrorKind::Expired => {
                        tracing::warn!(%error, uri = self.uri, "a resource cannot be watched for \
                            now");
                    }
                    ErrorKind::NotFound
                    | ErrorKind::Invalid
                    | ErrorKind::Conflict
                    | ErrorKind::Forbidden
                    | ErrorKind::Unauthorized => return None,
                },
            }
        }
    }
}

/// Notifies of the changes of one stream. Returns whether the subscriber is still there when the
/// stream ends.
async fn tell<F: Future<Output = bool>>(
    mut changes: ReplyStream,
    uri: &str,
    notify: &impl Fn(ResourceUpdatedNotificationParam) -> F,
) -> bool {
    while let Some(change) = changes.next().await {
        if let Err(error) = change {
            tracing::debug!(%error, uri, "the changes of a resource ended");
            return true;
        }
        if !notify(ResourceUpdatedNotificationParam::new(uri)).await {
            return false;
        }
        tokio::time::sleep(NOTIFY_AT_MOST_EVERY).await;
        // Changes that arrived meanwhile are merged into one notification.
        let mut more = false;
        while let Some(change) = futures::FutureExt::now_or_never(changes.next()) {
            more = true;
            if !matches!(change, Some(Ok(_))) {
                return notify(ResourceUpdatedNotificationParam::new(uri)).await;
            }
        }
        if more && !notify(ResourceUpdatedNotificationParam::new(uri)).await {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_match_their_templates_and_nothing_else() {
        for (template, uri, expected) in [
            ("plexus://pending", "plexus://pending", Some(vec![])),
            ("plexus://pending", "plexus://pending/", None),
            ("plexus://s/{id}/events", "plexus://s/a-1/events", Some(vec![("id", "a-1")])),
            ("plexus://s/{id}/events", "plexus://s//events", None),
            ("plexus://s/{id}/events", "plexus://s/a/b/events", None),
            ("plexus://s/{id}/events", "plexus://s/a/events?x=1", None),
            ("plexus://s/{id}", "plexus://s/%2e%2e", None),
            ("t://{a}/{b}", "t://x/y", Some(vec![("a", "x"), ("b", "y")])),
        ] {
            let expected = expected
                .map(|pairs| pairs.into_iter().map(|(k, v)| (k.to_owned(), v.into())).collect());
            assert_eq!(parameters(template, uri), expected, "{uri}");
        }
    }
}
