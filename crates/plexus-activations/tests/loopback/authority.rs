//! Authority only narrows: over random trees, no chain of creates, answers and rules lets a session
//! do what its creator did not grant.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use plexus_core::{Caller, ErrorKind, SessionId};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::childless_hub::{ChildlessHub, answer, bash};

/// Tools whose patterns have no argument, so that what a grant takes in is plain set inclusion.
const TOOLS: [&str; 4] = ["WebSearch", "TodoWrite", "mcp__mail__send", "mcp__mail__read"];

/// What a session was granted, as this test reckons it.
#[derive(Clone, Debug)]
struct Granted {
    parent: Option<usize>,
    id: SessionId,
    may_decide: BTreeSet<&'static str>,
    allowed_tools: BTreeSet<&'static str>,
    can_spawn: bool,
}

impl Granted {
    fn may_allow(&self, tool: &str) -> bool {
        self.may_decide.contains(tool) || self.allowed_tools.contains(tool)
    }
}

/// One thing that a session of the tree tries. Numbers choose among the sessions that are there.
#[derive(Clone, Debug)]
enum Attempt {
    Create { by: usize, may_decide: u8, allowed_tools: u8, can_spawn: bool },
    Answer { by: usize, asker: usize, tool: usize, approve: bool },
    Rule { by: usize, scope: usize, whole_subtree: bool, tool: usize },
}

fn attempt() -> impl Strategy<Value = Attempt> {
    prop_oneof![
        3 => (any::<usize>(), 0..16u8, 0..16u8, any::<bool>())
            .prop_map(|(by, may_decide, allowed_tools, can_spawn)| Attempt::Create { by, may_decide, allowed_tools, can_spawn }),
        3 => (any::<usize>(), any::<usize>(), 0..4usize, any::<bool>())
            .prop_map(|(by, asker, tool, approve)| Attempt::Answer { by, asker, tool, approve }),
        1 => (any::<usize>(), any::<usize>(), any::<bool>(), 0..4usize)
            .prop_map(|(by, scope, whole_subtree, tool)| Attempt::Rule { by, scope, whole_subtree, tool }),
    ]
}

fn tools(bits: u8) -> BTreeSet<&'static str> {
    TOOLS.iter().enumerate().filter(|(n, _)| bits & (1 << n) != 0).map(|(_, tool)| *tool).collect()
}

/// The strict ancestors of a session, its parent first.
fn line(tree: &[Granted], of: usize) -> Vec<usize> {
    std::iter::successors(tree[of].parent, |at| tree[*at].parent).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_chain_of_creates_answers_and_rules_exceeds_what_was_granted(
        roots in prop::collection::vec((0..16u8, 0..16u8), 1..3),
        attempts in prop::collection::vec(attempt(), 1..40),
    ) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(play(roots, attempts));
    }
}

async fn play(roots: Vec<(u8, u8)>, attempts: Vec<Attempt>) {
    let hub = Arc::new(ChildlessHub::new().await);
    let mut tree: Vec<Granted> = Vec::new();
    for (n, (decide, allowed)) in roots.into_iter().enumerate() {
        let (may_decide, allowed_tools) = (tools(decide), tools(allowed));
        let params =
            json!({"can_spawn": true, "may_decide": may_decide, "allowed_tools": allowed_tools});
        let id = hub.create(&format!("root{n}"), params).await;
        tree.push(Granted { parent: None, id, may_decide, allowed_tools, can_spawn: true });
    }
    // Rules that were taken: who made them, for which tool, over which sessions.
    let mut rules: HashMap<String, (usize, &'static str)> = HashMap::new();
    for (step, attempt) in attempts.into_iter().enumerate() {
        match attempt {
            Attempt::Create { by, may_decide, allowed_tools, can_spawn } => {
                let by = by % tree.len();
                let (may_decide, allowed_tools) = (tools(may_decide), tools(allowed_tools));
                let params = json!({"can_spawn": can_spawn, "may_decide": may_decide, "allowed_tools": allowed_tools});
                let made =
                    hub.create_as(Caller::Session(tree[by].id), &format!("c{step}"), params).await;
                let creator = &tree[by];
                let granted = allowed_tools.is_subset(&creator.allowed_tools)
                    && may_decide.iter().all(|tool| creator.may_allow(tool))
                    && (creator.can_spawn || !can_spawn);
                assert_eq!(
                    made.is_ok(),
                    granted,
                    "{creator:?} created {may_decide:?} {allowed_tools:?}: {made:?}"
                );
                if let Ok(id) = made {
                    tree.push(Granted {
                        parent: Some(by),
                        id,
                        may_decide,
                        allowed_tools,
                        can_spawn,
                    });
                }
            }
            Attempt::Answer { by, asker, tool, approve } => {
                let (by, asker, tool) = (by % tree.len(), asker % tree.len(), TOOLS[tool]);
                let name = format!("t{step}");
                let task = {
                    let (hub, id, name) = (Arc::clone(&hub), tree[asker].id, name.clone());
                    tokio::spawn(async move { hub.permit(id, &name, tool, json!({})).await })
                };
                let ancestors = line(&tree, asker);
                let ruled =
                    rules.values().any(|(author, of)| *of == tool && ancestors.contains(author));
                let own = tree[asker].allowed_tools.contains(tool);
                if ruled || own {
                    // A rule answers: one of an ancestor that was granted the tool, or what its
                    // creator, which was granted it too, gave the session itself.
                    assert_eq!(answer(task).await["behavior"], "allow");
                    continue;
                }
                let asked = hub.pending_for(tree[asker].id, &name).await;
                let told = hub.respond(Caller::Session(tree[by].id), &asked, approve).await;
                let above = ancestors.contains(&by);
                let counts = above && (!approve || tree[by].may_allow(tool));
                assert_eq!(
                    told.is_ok(),
                    counts,
                    "{:?} answers {approve} to {tool} of {:?}: {told:?}",
                    tree[by],
                    tree[asker]
                );
                if let Err(error) = told {
                    let expected = if above { ErrorKind::Forbidden } else { ErrorKind::NotFound };
                    assert_eq!(error.kind, expected);
                    hub.respond(Caller::Operator, &asked, false).await.unwrap();
                }
                let told = answer(task).await;
                assert_eq!(told["behavior"] == "allow", counts && approve);
            }
            Attempt::Rule { by, scope, whole_subtree, tool } => {
                let (by, scope, tool) = (by % tree.len(), scope % tree.len(), TOOLS[tool]);
                let over = if whole_subtree {
                    json!({"subtree": tree[by].id})
                } else {
                    json!({"session": tree[scope].id})
                };
                let params = json!({"decision": "allow", "pattern": tool, "scope": over});
                let made =
                    hub.call_as(Caller::Session(tree[by].id), "loopback.rule_add", params).await;
                let below = whole_subtree || line(&tree, scope).contains(&by);
                assert_eq!(made.is_ok(), below && tree[by].may_allow(tool), "{made:?}");
                if let Ok(made) = made {
                    let id = made["rule_id"].as_str().unwrap().to_owned();
                    if whole_subtree {
                        rules.insert(id, (by, tool));
                    } else {
                        // A rule for a single session is removed again. What it would allow is
                        // checked by the rules for whole subtrees.
                        hub.call_as(
                            Caller::Session(tree[by].id),
                            "loopback.rule_remove",
                            json!({"rule_id": id}),
                        )
                        .await
                        .unwrap();
                    }
                }
            }
        }
    }
}

fn spawner(more: Value) -> Value {
    let mut params = json!({"can_spawn": true, "may_decide": ["Bash(git:*)"]});
    for (key, value) in more.as_object().unwrap() {
        params[key] = value.clone();
    }
    params
}

#[tokio::test]
async fn a_child_gets_nothing_that_its_creator_has_not() {
    let hub = ChildlessHub::new().await;
    let inner = hub.work().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let outside = hub.folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, hub.work().join("link")).unwrap();
    let parent = hub
        .create(
            "parent",
            spawner(json!({
                "working_dir": hub.work(), "allowed_tools": ["Read", "Bash(npm test)"], "disallowed_tools": ["WebFetch"],
                "env": {"LEVEL": "3"}, "supervise": "all",
                "budget": {"cost_usd": 2.0, "turns": 10, "children": 5, "depth": 3},
            })),
        )
        .await;
    let as_parent = Caller::Session(parent);
    for too_much in [
        json!({"working_dir": outside}),
        json!({"working_dir": hub.work().join("link")}),
        json!({"working_dir": "/usr"}),
        json!({"add_dirs": [outside]}),
        json!({"allowed_tools": ["Write"]}),
        json!({"allowed_tools": ["Bash"]}),
        json!({"allowed_tools": ["Bash(npm:*)"]}),
        json!({"allowed_tools": ["Bash(git status)"]}),
        json!({"env": {"LEVEL": "4"}}),
        json!({"env": {"OTHER": "x"}}),
        json!({"project_settings": "trust"}),
        json!({"loopback_enabled": false}),
        json!({"loopback_timeout_secs": 0}),
        json!({"may_decide": ["*"]}),
        json!({"may_decide": ["Bash"]}),
        json!({"may_decide": ["Bash(git:*)", "Write"]}),
        json!({"budget": {"cost_usd": 2.5}}),
        json!({"budget": {"turns": 11}}),
        json!({"budget": {"children": 5}}),
        json!({"budget": {"depth": 3}}),
        json!({"parent": uuid::Uuid::nil()}),
    ] {
        let refused = hub.create_as(as_parent, "child", too_much.clone()).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden, "{too_much}: {refused:?}");
    }
    for (n, fine) in [
        json!({"working_dir": inner, "add_dirs": [hub.work()]}),
        json!({"allowed_tools": ["Read(/src/**)", "Grep", "Bash(npm test)"]}),
        json!({"env": {"LEVEL": "3"}}),
        json!({"may_decide": ["Bash(git status:*)", "Bash(git log)", "Read"], "can_spawn": true}),
        json!({"budget": {"cost_usd": 2.0, "turns": 1, "children": 4, "depth": 2}, "loopback_timeout_secs": 30}),
    ]
    .into_iter()
    .enumerate()
    {
        hub.create_as(as_parent, &format!("child{n}"), fine.clone())
            .await
            .unwrap_or_else(|error| panic!("{fine}: {error:?}"));
    }
}

#[tokio::test]
async fn three_generations_decide_for_each_other_and_never_for_themselves() {
    let hub = Arc::new(ChildlessHub::new().await);
    let top = hub
        .create("top", json!({"can_spawn": true, "may_decide": ["Bash(git:*)", "Bash(make:*)"]}))
        .await;
    let grant = json!({"can_spawn": true, "may_decide": ["Bash(git status:*)"]});
    let middle = hub.create_as(Caller::Session(top), "middle", grant).await.unwrap();
    let bottom = hub.create_as(Caller::Session(middle), "bottom", json!({})).await.unwrap();
    let stranger = hub.create("stranger", json!({"can_spawn": true, "may_decide": ["*"]})).await;

    // The middle one decides what it was given, and no more; the top decides more.
    for (command, decider, counts) in [
        ("git status -s", middle, true),
        ("git log", middle, false),
        ("git log", top, true),
        ("make", top, true),
        ("rm x", top, false),
        ("git status -s", stranger, false),
        ("git status -s", bottom, false),
    ] {
        let (task, asked) =
            hub.ask(bottom, &format!("{command} {decider}"), "Bash", bash(command)).await;
        let told = hub.respond(Caller::Session(decider), &asked, true).await;
        assert_eq!(told.is_ok(), counts, "{command}: {told:?}");
        if !counts {
            hub.respond(Caller::Operator, &asked, false).await.unwrap();
        }
        assert_eq!(answer(task).await["behavior"] == "allow", counts);
    }
    // The middle one asks itself: only those above it answer.
    let (task, asked) = hub.ask(middle, "own", "Bash", bash("git status")).await;
    for decider in [middle, bottom, stranger] {
        assert_eq!(
            hub.respond(Caller::Session(decider), &asked, true).await.unwrap_err().kind,
            ErrorKind::NotFound
        );
        assert_eq!(
            hub.respond(Caller::Session(decider), &asked, false).await.unwrap_err().kind,
            ErrorKind::NotFound
        );
    }
    hub.respond(Caller::Session(top), &asked, true).await.unwrap();
    assert_eq!(answer(task).await["behavior"], "allow");
    // Anybody above may say no.
    let (task, asked) = hub.ask(bottom, "no", "Bash", bash("curl evil")).await;
    hub.respond(Caller::Session(middle), &asked, false).await.unwrap();
    assert_eq!(answer(task).await["behavior"], "deny");
}

#[tokio::test]
async fn a_link_made_after_the_grant_gives_nobody_more() {
    let hub = Arc::new(ChildlessHub::new().await);
    let (work, secret) = (hub.work().canonicalize().unwrap(), hub.folder.path().join("secret"));
    std::fs::create_dir(&secret).unwrap();
    std::fs::write(secret.join("key"), "x").unwrap();
    std::fs::create_dir(work.join("sub")).unwrap();
    let below = |dir: &std::path::Path| format!("Read({}/**)", dir.display());
    let top = hub.create("top", json!({"can_spawn": true, "may_decide": [below(&work)]})).await;
    let grant = json!({"can_spawn": true, "may_decide": [below(&work.join("sub"))]});
    let middle = hub.create_as(Caller::Session(top), "middle", grant).await.unwrap();
    let bottom = hub.create_as(Caller::Session(middle), "bottom", json!({})).await.unwrap();
    // What was a directory when it was granted becomes a way out.
    std::fs::remove_dir(work.join("sub")).unwrap();
    std::os::unix::fs::symlink(&secret, work.join("sub")).unwrap();
    let input = json!({"file_path": work.join("sub/key")});
    let (task, asked) = hub.ask(bottom, "t", "Read", input).await;
    for decider in [middle, top] {
        assert_eq!(
            hub.respond(Caller::Session(decider), &asked, true).await.unwrap_err().kind,
            ErrorKind::Forbidden
        );
    }
    hub.respond(Caller::Operator, &asked, false).await.unwrap();
    assert_eq!(answer(task).await["behavior"], "deny");
}

#[tokio::test]
async fn a_parent_outside_owns_what_it_creates_and_nothing_else() {
    let hub = Arc::new(ChildlessHub::new().await);
    let identity = async |name: &str| -> SessionId {
        let made = hub.ok("identity.parent", json!({"name": name})).await;
        assert!(made["token"].as_str().unwrap().starts_with("plx_"));
        made["session_id"].as_str().unwrap().parse().unwrap()
    };
    let (a, b) = (identity("ide").await, identity("ci").await);
    assert_eq!(identity("ide").await, a, "the same name is the same identity");
    let child = hub.create_as(Caller::Session(a), "child", json!({})).await.unwrap();
    hub.create_as(Caller::Session(b), "child", json!({}))
        .await
        .expect("names are unique for each parent");
    let (task, asked) = hub.ask(child, "t", "Bash", bash("ls")).await;
    assert_eq!(
        hub.respond(Caller::Session(b), &asked, true).await.unwrap_err().kind,
        ErrorKind::NotFound
    );
    hub.respond(Caller::Session(a), &asked, true).await.unwrap();
    assert_eq!(answer(task).await["behavior"], "allow");
    assert_eq!(hub.last_decision(child).await["decided_by"], json!({"session": a}));
    let for_all = json!({"decision": "allow", "pattern": "Bash", "scope": "all"});
    assert_eq!(
        hub.call_as(Caller::Session(a), "loopback.rule_add", for_all).await.unwrap_err().kind,
        ErrorKind::Forbidden
    );
    let taken = hub.create("session", json!({})).await;
    let refused = hub.call("identity.parent", json!({"name": "session"})).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict, "{taken} is no identity");
}
