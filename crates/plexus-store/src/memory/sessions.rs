//! Sessions over maps.

use plexus_core::{NodeId, SessionId, TreeId};

use super::state::{SessionRecord, State, ascending};
use super::{arbor, chats};
use crate::contract::{
    ApprovalStatus, ChangedSessions, ChatFacts, Children, CreateSession, CreateTree, DeleteSession,
    JsonText, Outcome, Owner, Page, PageRequest, Position, Session, SessionFilter, StoreError,
    Thing, Topic, UnixMillis, UpdateSession, refusal,
};

fn find(state: &State, id: SessionId) -> Result<&SessionRecord, StoreError> {
    let live = state.sessions.values().find(|record| record.session.id == id && !record.deleted);
    live.ok_or_else(|| StoreError::not_found(Thing::Session, id))
}

pub(super) fn find_mut(state: &mut State, id: SessionId) -> Result<&mut Session, StoreError> {
    let live =
        state.sessions.values_mut().find(|record| record.session.id == id && !record.deleted);
    live.map(|record| &mut record.session).ok_or_else(|| StoreError::not_found(Thing::Session, id))
}

pub(super) fn require(state: &State, id: SessionId) -> Result<(), StoreError> {
    find(state, id).map(|_| ())
}

/// Fills in what is computed.
fn view(state: &State, record: &SessionRecord) -> Session {
    let id = record.session.id;
    let newest = chats::of_session(state, id)
        .map(|(_, record)| chats::view(record))
        .max_by_key(|chat| chat.number);
    let pending = state
        .approvals
        .values()
        .filter(|it| it.session == id && it.status == ApprovalStatus::Pending)
        .count();
    let next_run = state
        .runs
        .values()
        .filter(|run| run.key.session == id)
        .map(|run| run.key.n + 1)
        .max()
        .unwrap_or(0);
    Session {
        newest_chat: newest.map(|chat| ChatFacts {
            number: chat.number,
            status: chat.status,
            total_events: chat.total_events,
        }),
        pending_approvals: u32::try_from(pending).unwrap_or(u32::MAX),
        next_run,
        ..record.session.clone()
    }
}

pub(super) fn get(state: &State, id: SessionId) -> Result<Session, StoreError> {
    find(state, id).map(|record| view(state, record))
}

pub(super) fn named(
    state: &State,
    parent: Option<SessionId>,
    name: &str,
) -> Result<Session, StoreError> {
    parent.map_or(Ok(()), |id| require(state, id))?;
    let is_it = |record: &&SessionRecord| {
        !record.deleted && record.session.parent == parent && record.session.name == name
    };
    let found = state.sessions.values().find(is_it);
    found
        .map(|record| view(state, record))
        .ok_or_else(|| StoreError::not_found(Thing::Session, format_args!("{name:?}")))
}

/// Returns what a list shows of a record, given its filter.
fn filtered(
    state: &State,
    filter: &SessionFilter,
) -> Result<impl Fn(&SessionRecord) -> Option<Session>, StoreError> {
    if let Some(Some(parent)) = filter.parent {
        require(state, parent)?;
    }
    let under = filter.under.map(|id| descendants(state, id)).transpose()?;
    Ok(move |record: &SessionRecord| {
        let session =
            Some(record).filter(|record| !record.deleted).map(|record| view(state, record))?;
        let fits = filter.parent.is_none_or(|parent| session.parent == parent)
            && under.as_ref().is_none_or(|ids| ids.contains(&session.id))
            && filter.name.as_ref().is_none_or(|name| session.name == *name)
            && filter.status.is_none_or(|status| session.status() == status);
        fits.then_some(session)
    })
}

pub(super) fn list(
    state: &State,
    filter: &SessionFilter,
    page: PageRequest,
) -> Result<Page<Session>, StoreError> {
    Ok(ascending(&state.sessions, page, filtered(state, filter)?))
}

pub(super) fn changed(
    state: &State,
    after: u64,
    filter: &SessionFilter,
    limit: usize,
) -> Result<ChangedSessions, StoreError> {
    let limit = PageRequest::first(limit).bounded();
    let mut sessions: Vec<_> =
        state.sessions.values().filter_map(filtered(state, filter)?).collect();
    sessions.retain(|session| session.changed > after);
    // Stable, so that sessions of one commit stay in the order of their creation.
    sessions.sort_by_key(|session| session.changed);
    let Some(first_out) = sessions.get(limit).map(|session| session.changed) else {
        return Ok(ChangedSessions { after: state.commits.max(after), sessions });
    };
    let first = sessions.first().map_or(0, |session| session.changed);
    sessions.retain(|session| {
        session.changed < first_out || first == first_out && session.changed == first
    });
    Ok(ChangedSessions { after: sessions.last().map_or(after, |last| last.changed), sessions })
}

pub(super) fn ancestors(state: &State, id: SessionId) -> Result<Vec<SessionId>, StoreError> {
    let mut above = Vec::new();
    let mut at = find(state, id)?.session.parent;
    while let Some(parent) = at {
        above.push(parent);
        at = find(state, parent)?.session.parent;
    }
    Ok(above)
}

pub(super) fn descendants(state: &State, id: SessionId) -> Result<Vec<SessionId>, StoreError> {
    require(state, id)?;
    let (mut below, mut level) = (Vec::new(), vec![id]);
    while !level.is_empty() {
        level = state
            .sessions
            .values()
            .filter(|record| {
                !record.deleted
                    && record.session.parent.is_some_and(|parent| level.contains(&parent))
            })
            .map(|record| record.session.id)
            .collect();
        below.extend(&level);
    }
    Ok(below)
}

/// Notes that a session changed.
pub(super) fn touch(state: &mut State, id: SessionId) -> Result<(), StoreError> {
    let commit = state.commits;
    find_mut(state, id)?.changed = commit;
    state.topics.push(Topic::Session(id));
    Ok(())
}

pub(super) fn create(state: &mut State, new: CreateSession) -> Result<Outcome, StoreError> {
    refusal::one_more_session(state.sessions.len() as u64)?;
    if let Some(parent) = new.parent {
        refusal::one_level_more(ancestors(state, parent)?.len())?;
    }
    for room in &new.room {
        room.check(descendants(state, room.above)?.len())?;
    }
    if state.sessions.values().any(|record| record.session.id == new.id) {
        return Err(StoreError::conflict("create the session: its id is there already", &new.id));
    }
    if let Ok(standing) = named(state, new.parent, &new.name) {
        return Err(refusal::name_taken(&new.name, standing.id));
    }
    let head = match new.fork {
        None => {
            let tree = CreateTree {
                id: TreeId::generate(),
                root: NodeId::generate(),
                metadata: JsonText::empty_object(),
            };
            let head = Position { tree_id: tree.id, node_id: tree.root };
            arbor::create_tree(state, tree)?;
            head
        }
        Some(fork) => {
            let source = get(state, fork.of)?;
            let node = fork.at.unwrap_or(source.head);
            arbor::require_in_tree(state, node, source.tree)?;
            Position { tree_id: source.tree, node_id: node }
        }
    };
    let now = UnixMillis::now();
    let session = Session {
        id: new.id,
        name: new.name,
        parent: new.parent,
        forked_from: new.fork.map(|fork| fork.of),
        tree: head.tree_id,
        head: head.node_id,
        config: new.config,
        state: JsonText::empty_object(),
        metadata: new.metadata,
        claude_session_id: new.claude_session_id,
        revision: 0,
        newest_chat: None,
        pending_approvals: 0,
        next_run: 0,
        changed: 0,
        created_at: now,
        updated_at: now,
    };
    let key = state.next_key();
    state.sessions.insert(key, SessionRecord { session, deleted: false });
    touch(state, new.id)?;
    Ok(Outcome::Session { id: new.id, head })
}

pub(super) fn update(state: &mut State, update: UpdateSession) -> Result<Outcome, StoreError> {
    let standing = get(state, update.id)?;
    refusal::update(&update, &standing)?;
    if let Some(head) = update.head {
        arbor::require_in_tree(state, head, standing.tree)?;
    }
    let session = find_mut(state, update.id)?;
    session.head = update.head.unwrap_or(standing.head);
    session.config = update.config.unwrap_or(standing.config);
    session.state = update.state.unwrap_or(standing.state);
    session.metadata = update.metadata.unwrap_or(standing.metadata);
    session.claude_session_id = update.claude_session_id.apply(standing.claude_session_id);
    session.revision += 1;
    session.updated_at = UnixMillis::now();
    touch(state, update.id)?;
    Ok(Outcome::Done)
}

pub(super) fn delete(state: &mut State, delete: DeleteSession) -> Result<Outcome, StoreError> {
    let mut doomed = descendants(state, delete.id)?;
    if !doomed.is_empty() && delete.children == Children::Refuse {
        return Err(refusal::has_children(&doomed));
    }
    doomed.insert(0, delete.id);
    doomed.reverse();
    for id in &doomed {
        delete_one(state, *id)?;
    }
    Ok(Outcome::Deleted(doomed))
}

fn delete_one(state: &mut State, id: SessionId) -> Result<(), StoreError> {
    let tree = find(state, id)?.session.tree;
    // Whoever waits for one of them learns that it is gone.
    let waiting = state
        .approvals
        .values()
        .filter(|it| it.session == id && it.status == ApprovalStatus::Pending);
    let topics: Vec<_> = waiting
        .flat_map(|it| [Topic::Approval(it.id), Topic::PendingOf(it.owner), Topic::Pending])
        .collect();
    state.topics.extend(topics);
    state.approvals.retain(|_, it| it.session != id);
    state.consumers.retain(|(session, _), _| *session != id);
    state.runs.retain(|_, it| it.key.session != id);
    let parent = find(state, id)?.session.parent;
    let (spent, largest) = (
        state.spend.remove(&id).unwrap_or_default(),
        state.largest.remove(&id).unwrap_or_default(),
    );
    if let Some(parent) = parent {
        *state.spend.entry(parent).or_default() += spent;
        let of_parent = state.largest.entry(parent).or_default();
        of_parent.cost_micros = of_parent.cost_micros.max(largest.cost_micros);
        of_parent.turns = of_parent.turns.max(largest.turns);
    }
    state.reservations.retain(|(session, _), _| *session != id);
    state.rules.retain(|_, it| {
        it.rule.scope.session() != Some(id)
            && it.rule.author != Owner::Session(id)
            && it.rule.ends_with.is_none_or(|run| run.session != id)
    });
    state.tokens.retain(|_, it| {
        it.caller.session() != Some(id) && it.run.is_none_or(|run| run.session != id)
    });
    if let Some(record) = state.sessions.values_mut().find(|record| record.session.id == id) {
        record.deleted = true;
    }
    if !state.sessions.values().any(|record| record.session.tree == tree && !record.deleted) {
        state.sessions.retain(|_, record| record.session.tree != tree);
        state.chats.retain(|_, record| record.chat.tree != tree);
        arbor::delete_tree(state, tree);
    }
    state.topics.push(Topic::Session(id));
    Ok(())
}
