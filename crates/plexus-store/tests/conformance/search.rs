//! Full-text search: what is found, by whom, and what no longer is.

use plexus_core::SessionId;
use plexus_store::{
    AppendEvents, Change, Children, DeleteSession, Indexed, JsonText, NewEvent, PageRequest,
    Prompts, SearchFilter, SearchHit, SearchKind, SearchQuery, StartChat, Store, UnixMillis,
};
use serde_json::{Value, json};

use crate::fixture::{chat, end, events, one, session, whole_chat};

/// Indexes everything, and returns how many steps had something to do.
async fn index(store: &dyn Store) -> anyhow::Result<usize> {
    for step in 0.. {
        if store.index_step().await? == Indexed::default() {
            return Ok(step);
        }
    }
    unreachable!()
}

fn words(query: &str) -> SearchFilter {
    let query = SearchQuery::read(query).expect("a query");
    SearchFilter { query, ..SearchFilter::default() }
}

async fn search(store: &dyn Store, filter: SearchFilter) -> anyhow::Result<Vec<SearchHit>> {
    index(store).await?;
    let page = store.search(filter, PageRequest::first(100)).await?;
    assert_eq!((page.next, page.behind), (None, 0));
    Ok(page.hits)
}

/// Shows hits as `session:seq:kind text`, with what was found in brackets.
fn shown(hits: &[SearchHit]) -> Vec<String> {
    let text = |hit: &SearchHit| -> String {
        let piece = |piece: &plexus_store::SearchPiece| {
            if piece.hit { format!("[{}]", piece.text) } else { piece.text.clone() }
        };
        hit.excerpt.iter().map(piece).collect()
    };
    hits.iter().map(|hit| format!("{}:{} {}", hit.session_name, hit.seq, text(hit))).collect()
}

async fn append(store: &dyn Store, s: SessionId, bodies: &[Value]) -> anyhow::Result<()> {
    let event = |body: &Value| {
        NewEvent::now(body["type"].as_str().expect("a type"), JsonText::from(body.clone()))
    };
    let events = bodies.iter().map(event).collect();
    one(store, Change::AppendEvents(AppendEvents { session: s, chat: 0, events })).await?;
    Ok(())
}

pub(crate) async fn words_and_phrases_are_found_newest_first(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let (a, b) = (session(store, "a", None).await?, session(store, "b", None).await?);
    chat(store, a, "Fix src/main.rs").await?;
    chat(store, b, "go").await?;
    one(store, events(a, 0, &["The main thing is done"])).await?;
    one(store, events(b, 0, &["MAIN, rs and more", "Straße für 日本語"])).await?;
    for (query, expected) in [
        (
            "main",
            vec![
                "b:1 [MAIN], rs and more",
                "a:1 The [main] thing is done",
                "a:0 Fix src/[main].rs",
            ],
        ),
        ("main.rs", vec!["b:1 [MAIN, rs] and more", "a:0 Fix src/[main.rs]"]),
        ("rs main", vec!["b:1 [MAIN], [rs] and more", "a:0 Fix src/[main].[rs]"]),
        ("\"thing is\" main", vec!["a:1 The [main] [thing is] done"]),
        ("\"is thing\"", vec![]),
        ("thin", vec![]),
        ("thi*", vec!["a:1 The main [thing] is done"]),
        ("STRASSE", vec![]),
        ("STRAßE", vec!["b:2 [Straße] für 日本語"]),
        ("日本", vec!["b:2 Straße für [日本]語"]),
        ("nowhere", vec![]),
    ] {
        assert_eq!(shown(&search(store, words(query)).await?), expected, "{query}");
    }
    Ok(())
}

pub(crate) async fn prompts_calls_results_and_decisions_are_found_by_kind_tool_and_time(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    chat(store, s, "needle prompt").await?;
    let bodies = [
        json!({"type": "thinking", "thinking": "needle thought"}),
        json!({"type": "tool_use", "tool_name": "Bash", "tool_use_id": "t1",
               "input": {"command": "grep needle"}}),
        json!({"type": "awaiting_approval", "tool_name": "Bash", "tool_use_id": "t1",
               "approval_id": uuid::Uuid::nil(), "input": {"command": "grep needle"}}),
        json!({"type": "approval_resolved", "approval_id": uuid::Uuid::nil(), "approved": true,
               "message": "needle allowed", "decided_by": "operator"}),
    ];
    append(store, s, &bodies).await?;
    index(store).await?;
    // Its call is in an earlier step.
    append(
        store,
        s,
        &[json!({"type": "tool_result", "tool_use_id": "t1", "is_error": false,
                 "output": [{"type": "text", "text": "one needle"}]})],
    )
    .await?;
    let kinds = |hits: &[SearchHit]| hits.iter().map(|hit| hit.kind).collect::<Vec<_>>();
    let all = search(store, words("needle")).await?;
    assert_eq!(
        kinds(&all),
        [
            SearchKind::Result,
            SearchKind::Decision,
            SearchKind::Call,
            SearchKind::Thought,
            SearchKind::Prompt
        ]
    );
    let tool = SearchFilter { tool: Some("Bash".into()), ..words("needle") };
    let hits = search(store, tool).await?;
    assert_eq!(kinds(&hits), [SearchKind::Result, SearchKind::Call]);
    assert_eq!(hits[0].tool.as_deref(), Some("Bash"));
    let none = SearchFilter { tool: Some("Ba".into()), ..words("") };
    assert_eq!(search(store, none).await?, []);
    let kind = SearchFilter { kind: Some(SearchKind::Thought), ..words("") };
    assert_eq!(shown(&search(store, kind).await?), ["s:1 needle thought"]);
    let later = UnixMillis(UnixMillis::now().0 + 1_000_000);
    let since = SearchFilter { since: Some(later), ..words("needle") };
    assert_eq!(search(store, since).await?, []);
    let until = SearchFilter { since: Some(UnixMillis(0)), until: Some(later), ..words("needle") };
    assert_eq!(search(store, until).await?.len(), 5);
    Ok(())
}

pub(crate) async fn only_the_sessions_that_are_asked_for_are_searched(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let top = session(store, "top", None).await?;
    let child = session(store, "child", Some(top)).await?;
    let grandchild = session(store, "grandchild", Some(child)).await?;
    let other = session(store, "other", None).await?;
    for s in [top, child, grandchild, other] {
        whole_chat(store, s, &["needle"]).await?;
    }
    let names = async |filter: SearchFilter| -> anyhow::Result<Vec<String>> {
        let hits = search(store, filter).await?;
        Ok(hits.into_iter().map(|hit| hit.session_name).collect())
    };
    assert_eq!(names(words("needle")).await?, ["other", "grandchild", "child", "top"]);
    let of = SearchFilter { session: Some(child), ..words("needle") };
    assert_eq!(names(of).await?, ["child"]);
    let under = SearchFilter { under: Some(top), ..words("needle") };
    assert_eq!(names(under).await?, ["grandchild", "child"]);
    let both = SearchFilter { under: Some(child), session: Some(other), ..words("needle") };
    assert_eq!(names(both).await?, Vec::<String>::new());
    Ok(())
}

pub(crate) async fn pages_go_on_where_the_last_one_ended(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    chat(store, s, "go").await?;
    let texts: Vec<String> = (0..25).map(|n| format!("needle {n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    one(store, events(s, 0, &texts)).await?;
    index(store).await?;
    let (mut seen, mut page) = (Vec::new(), Some(PageRequest::first(10)));
    while let Some(request) = page {
        let found = store.search(words("needle"), request).await?;
        assert!(found.hits.len() <= 10);
        seen.extend(found.hits.into_iter().map(|hit| hit.seq));
        page = request.then(found.next);
    }
    assert_eq!(seen, (1..=25).rev().collect::<Vec<_>>());
    Ok(())
}

pub(crate) async fn queries_with_quotes_and_operators_are_safe(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    whole_chat(store, s, &["it's a near or not \"quoted\" (thing): a:b & c | d <-> e"]).await?;
    for query in [
        "it's",
        "\"quoted\" (thing)",
        "near NOT or",
        "a:b & c | d <-> e",
        "'it' ':* !",
        "\"near or",
        "a^2*",
        "{thing} NEAR(a b)",
        "words:thing",
        "\\' -- ; DROP TABLE sessions",
        "%_thing?",
        "\u{0}a",
        "thing*\"",
    ] {
        let expected =
            !["a^2*", "words:thing", "\\' -- ; DROP TABLE sessions", "{thing} NEAR(a b)"]
                .contains(&query);
        let hits = search(store, words(query)).await?;
        assert_eq!(!hits.is_empty(), expected, "{query}: {hits:?}");
    }
    Ok(())
}

pub(crate) async fn deleted_and_pruned_events_are_not_found(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let (kept, gone) = (session(store, "kept", None).await?, session(store, "gone", None).await?);
    for s in [kept, gone] {
        one(store, Change::StartChat(StartChat::new(s, "needle asked"))).await?;
        one(store, events(s, 0, &["needle said"])).await?;
        one(store, end(s, 0)).await?;
    }
    assert_eq!(search(store, words("needle")).await?.len(), 4);
    let delete = DeleteSession { id: gone, children: Children::Refuse };
    one(store, Change::DeleteSession(delete)).await?;
    assert_eq!(
        shown(&search(store, words("needle")).await?),
        ["kept:1 [needle] said", "kept:0 [needle] asked"]
    );
    let future = UnixMillis(UnixMillis::now().0 + 1_000_000);
    store.prune(future, Prompts::Keep).await?;
    assert_eq!(shown(&search(store, words("needle")).await?), ["kept:0 [needle] asked"]);
    store.prune(future, Prompts::Remove).await?;
    assert_eq!(search(store, words("needle")).await?, []);
    // Nothing is left of them in the index either.
    let late = session(store, "late", None).await?;
    whole_chat(store, late, &["needle late"]).await?;
    store.prune(future, Prompts::Remove).await?;
    assert_eq!(search(store, words("")).await?, []);
    Ok(())
}

pub(crate) async fn old_events_are_indexed_in_bounded_steps(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    chat(store, s, "go").await?;
    for _ in 0..10 {
        one(store, events(s, 0, &["needle"; 100])).await?;
    }
    let long = format!("{} end", "word ".repeat(100_000));
    one(store, events(s, 0, &[&long])).await?;
    let page = store.search(words("needle"), PageRequest::first(1)).await?;
    assert!(page.hits.is_empty() && page.behind > 10, "{page:?}");
    let first = store.index_step().await?;
    assert!(first.entries > 0 && first.entries < 1_000 && first.behind > 0, "{first:?}");
    assert!(index(store).await? >= 2);
    assert_eq!(store.index_step().await?, Indexed::default());
    let mut found = 0;
    let mut page = Some(PageRequest::first(400));
    while let Some(request) = page {
        let hits = store.search(words("needle"), request).await?;
        found += hits.hits.len();
        page = request.then(hits.next);
    }
    assert_eq!(found, 1_000);
    assert_eq!(search(store, words("word")).await?.len(), 1, "the beginning of a long text");
    assert_eq!(search(store, words("end")).await?, [], "and not all of it");
    Ok(())
}
