//! `tree_render`: a tree as text for a person or a model.
//!
//! A chain of nodes stays at one depth, however long it is; only a branch goes deeper, right after
//! the node where it forks. What a handle stands for is said by its owner, in one line. Long runs
//! of such lines show their beginning and their end.

use std::collections::HashMap;

use plexus_core::{Call, CallError, Caller, ErrorKind, Handle, NodeId};
use plexus_store::{Node, NodeData, OutlineEntry, limits};
use plexus_wire::{TreeParams, TreeRendered};

use super::Arbor;

/// How many characters of a node are shown.
const LINE_CHARS: usize = 100;

/// How many lines in a row stand for handles before their middle is left out.
const RUN_LINES: usize = 24;

/// How many lines a rendered tree has at most, so that a model can read it.
const MAX_LINES: usize = 1_000;

/// How many branches within branches are still indented.
const MAX_INDENT: usize = 16;

impl Arbor {
    pub(super) async fn tree_render(
        &self,
        call: Call,
        params: TreeParams,
    ) -> Result<TreeRendered, CallError> {
        self.tree_for(&call.caller, params.tree_id).await?;
        let outline = self.store.tree_outline(params.tree_id, limits::MAX_PATH_NODES).await?;
        let mut lines = Vec::new();
        let plan = folded(&placed(&outline));
        let left_out: usize = plan.iter().skip(MAX_LINES).map(Line::nodes).sum();
        for line in plan.iter().take(MAX_LINES) {
            lines.push(match line {
                Line::Node { node, place } => {
                    format!("{}{}", place.indent(), self.words(&call.caller, node).await?)
                }
                Line::More { count, place } => format!("{}… {count} more", place.indent()),
            });
        }
        if left_out > 0 {
            lines.push(format!("… {left_out} more"));
        }
        if outline.len() == limits::MAX_PATH_NODES {
            lines.push("… and what comes after".to_owned());
        }
        Ok(TreeRendered { text: lines.join("\n") })
    }

    /// One node on one line.
    async fn words(&self, caller: &Caller, node: &Node) -> Result<String, CallError> {
        Ok(match &node.data {
            NodeData::Pruned {} => "(pruned)".to_owned(),
            NodeData::Text { content } => one_line(content),
            NodeData::External { handle } => match self.summary(caller, handle).await? {
                Some(summary) => one_line(&summary),
                None => format!("[{}]", one_line(&handle.method)),
            },
        })
    }

    /// Returns how the owner of a handle describes it. A handle that leads nowhere, or no longer,
    /// is shown by its kind alone. A failure of the owner is an error, and is not hidden.
    async fn summary(&self, caller: &Caller, handle: &Handle) -> Result<Option<String>, CallError> {
        let Some(hub) = self.hub.get() else { return Ok(None) };
        match hub.summarize(caller, handle).await {
            Ok(summary) => Ok(summary),
            Err(error) => match error.kind() {
                ErrorKind::NotFound | ErrorKind::Invalid | ErrorKind::Forbidden => Ok(None),
                _ => Err(error),
            },
        }
    }
}

/// The place of a line in the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    /// How many branches it lies in.
    branches: usize,
    /// Whether it begins a branch.
    begins: bool,
    /// Whether it stands for a handle: such lines belong to the text before them.
    belongs: bool,
}

impl Place {
    fn indent(self) -> String {
        let depth = self.branches.min(MAX_INDENT);
        let belongs = if self.belongs { "  " } else { "" };
        if self.begins && depth > 0 {
            format!("{}└ {belongs}", "    ".repeat(depth - 1) + "  ")
        } else {
            format!("{}{belongs}", "    ".repeat(depth))
        }
    }
}

/// A line of the rendered tree.
enum Line<'a> {
    Node {
        node: &'a Node,
        place: Place,
    },
    /// What was left out of a long run.
    More {
        count: usize,
        place: Place,
    },
}

impl Line<'_> {
    fn nodes(&self) -> usize {
        match self {
            Self::Node { .. } => 1,
            Self::More { count, .. } => *count,
        }
    }
}

/// Puts the nodes of a tree in the order in which they are shown: a node, the branches that fork
/// there, then what goes on in its chain. The empty root is not shown, and what comes right after
/// it is no fork.
fn placed(outline: &[OutlineEntry]) -> Vec<(&Node, Place)> {
    let mut children: HashMap<NodeId, Vec<&Node>> = HashMap::new();
    let mut waiting = Vec::new();
    for OutlineEntry { node, .. } in outline {
        match node.parent {
            Some(parent) => children.entry(parent).or_default().push(node),
            None => waiting.push((node, 0, false)),
        }
    }
    let mut placed = Vec::with_capacity(outline.len());
    while let Some((node, branches, begins)) = waiting.pop() {
        let belongs = matches!(node.data, NodeData::External { .. });
        let empty = matches!(&node.data, NodeData::Text { content } if content.is_empty());
        let next = children.remove(&node.id).unwrap_or_default();
        // The last one that is put down is the first that is taken up.
        if node.parent.is_none() && empty {
            waiting.extend(next.into_iter().rev().map(|node| (node, branches, false)));
            continue;
        }
        placed.push((node, Place { branches, begins, belongs }));
        let mut next = next.into_iter();
        waiting.extend(next.next().map(|goes_on| (goes_on, branches, false)));
        let forks = next.collect::<Vec<_>>().into_iter().rev();
        waiting.extend(forks.map(|fork| (fork, branches + 1, true)));
    }
    placed
}

/// Leaves the middle out of long runs of lines that stand for handles.
fn folded<'a>(placed: &[(&'a Node, Place)]) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    for run in placed.chunk_by(|(_, before), (_, after)| {
        before.belongs && after.belongs && !after.begins && before.branches == after.branches
    }) {
        let shown = |(node, place): &(&'a Node, Place)| Line::Node { node, place: *place };
        if run.len() <= RUN_LINES {
            lines.extend(run.iter().map(shown));
            continue;
        }
        let (start, rest) = run.split_at(RUN_LINES / 2);
        let (middle, end) = rest.split_at(rest.len() - RUN_LINES / 2);
        lines.extend(start.iter().map(shown));
        if let Some((_, place)) = middle.first() {
            lines.push(Line::More { count: middle.len(), place: *place });
        }
        lines.extend(end.iter().map(shown));
    }
    lines
}

/// Puts a text on one line of bounded length, without characters that control a terminal.
fn one_line(text: &str) -> String {
    // A prompt may have megabytes; only its beginning can be seen.
    let start: String = text.chars().take(LINE_CHARS * 4).collect();
    let words = start.split_whitespace().collect::<Vec<_>>().join(" ");
    let words: String = words.chars().filter(|c| !c.is_control()).collect();
    if words.chars().count() <= LINE_CHARS && start.len() == text.len() {
        return words;
    }
    words.chars().take(LINE_CHARS - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use plexus_core::{PluginId, TreeId};
    use plexus_store::{JsonText, UnixMillis};

    use super::*;

    struct Drawn(Vec<OutlineEntry>);

    impl Drawn {
        fn new() -> Self {
            let mut drawn = Self(Vec::new());
            drawn.add(None, NodeData::Text { content: String::new() });
            drawn
        }

        fn add(&mut self, parent: Option<usize>, data: NodeData) -> usize {
            let parent = parent.map(|at| self.0[at].node.id);
            let metadata = JsonText::from(serde_json::json!({}));
            let (id, tree_id) = (NodeId::generate(), TreeId::generate());
            let node = Node { id, tree_id, parent, data, created_at: UnixMillis(0), metadata };
            self.0.push(OutlineEntry { node, depth: 0 });
            self.0.len() - 1
        }

        fn say(&mut self, parent: usize, text: &str) -> usize {
            self.add(Some(parent), NodeData::Text { content: text.to_owned() })
        }

        fn event(&mut self, parent: usize, method: &str) -> usize {
            let handle = Handle::new(PluginId::of("x", 1), "1.0.0", method);
            self.add(Some(parent), NodeData::External { handle })
        }

        fn lines(&self) -> Vec<String> {
            folded(&placed(&self.0))
                .iter()
                .map(|line| match line {
                    Line::Node { node, place } => {
                        let words = match &node.data {
                            NodeData::Text { content } => content.clone(),
                            NodeData::External { handle } => handle.method.clone(),
                            NodeData::Pruned {} => String::new(),
                        };
                        format!("{}{words}", place.indent())
                    }
                    Line::More { count, place } => format!("{}… {count} more", place.indent()),
                })
                .collect()
        }
    }

    #[test]
    fn a_branch_stands_where_it_forks_and_a_chain_is_no_staircase() {
        let mut tree = Drawn::new();
        let first = tree.say(0, "first");
        let end = tree.event(first, "said");
        let second = tree.say(end, "second");
        tree.event(second, "said");
        let fork = tree.say(end, "fork");
        let forked = tree.event(fork, "said");
        tree.say(forked, "fork goes on");
        tree.say(fork, "fork of the fork");
        assert_eq!(
            tree.lines(),
            [
                "first",
                "  said",
                "  └ fork",
                "      └ fork of the fork",
                "      said",
                "    fork goes on",
                "second",
                "  said"
            ]
        );
    }

    #[test]
    fn a_long_chat_shows_its_beginning_and_its_end() {
        let mut tree = Drawn::new();
        let mut last = tree.say(0, "work");
        for n in 0..238 {
            last = tree.event(last, &n.to_string());
        }
        let lines = tree.lines();
        assert_eq!(lines.len(), 1 + RUN_LINES + 1);
        assert_eq!(lines[12..15], ["  11", "  … 214 more", "  226"]);
        assert_eq!(lines[25], "  237");
    }

    #[test]
    fn a_line_is_short_and_controls_nothing() {
        assert_eq!(one_line("a\n\tb\u{1b}[31m  c"), "a b[31m c");
        assert_eq!(one_line(&"x".repeat(LINE_CHARS)), "x".repeat(LINE_CHARS));
        for long in ["x".repeat(LINE_CHARS + 1), format!("y{}", " ".repeat(100_000))] {
            let line = one_line(&long);
            assert!(line.ends_with('…') && line.chars().count() <= LINE_CHARS, "{line}");
        }
    }
}
