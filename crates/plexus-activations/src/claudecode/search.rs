//! `search`: what was asked, said and done, found by words.

use plexus_core::{Call, CallError};
use plexus_store::{
    Indexed, PageRequest, SearchFilter, SearchHit, SearchQuery, StoreError, UnixMillis,
};
use plexus_wire::{SearchFound, SearchParams};

use super::{ClaudeCode, wrong_cursor};

/// How many steps of indexing a search does first, so that it finds what happened a moment ago. If
/// the index is further behind, the answer says so.
const CATCH_UP_STEPS: usize = 3;

impl ClaudeCode {
    pub(super) async fn search(
        &self,
        call: Call,
        params: SearchParams,
    ) -> Result<SearchFound, CallError> {
        let query = SearchQuery::read(params.query.as_deref().unwrap_or_default())
            .map_err(|error| CallError::from(error).with_field("query"))?;
        let name = params.name.as_deref();
        let session =
            self.authority.find_any(&call.caller, params.session_id, name).await?.map(|it| it.id);
        let after = params.cursor.as_deref().map(str::parse).transpose().map_err(wrong_cursor)?;
        let limit = params.limit.unwrap_or_default().get();
        self.catch_up().await?;
        let notes = query.notes.clone();
        let filter = SearchFilter {
            query,
            session,
            // A session finds what is below it and nothing else, whatever else it asks for.
            under: call.caller.session(),
            tool: params.tool,
            kind: params.kind,
            since: params.since.map(|at| UnixMillis(at.0)),
            until: params.until.map(|at| UnixMillis(at.0)),
        };
        let found = self.store.search(filter, PageRequest { after, limit }).await?;
        Ok(SearchFound {
            hits: found.hits.into_iter().map(shown).collect(),
            cursor: found.next.map(|next| next.to_string()),
            notes,
            behind: found.behind,
        })
    }

    async fn catch_up(&self) -> Result<(), StoreError> {
        for _ in 0..CATCH_UP_STEPS {
            let Indexed { behind, .. } = self.store.index_step().await?;
            if behind == 0 {
                break;
            }
        }
        Ok(())
    }
}

fn shown(hit: SearchHit) -> plexus_wire::SearchHit {
    plexus_wire::SearchHit {
        session_id: hit.session,
        session_name: hit.session_name,
        chat: hit.chat,
        seq: hit.seq,
        event_id: hit.event,
        at: hit.at.into(),
        kind: hit.kind.into(),
        tool: hit.tool,
        excerpt: hit.excerpt,
    }
}
