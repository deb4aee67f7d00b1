//! The indexed matching of paths agrees with a plain one that looks at every rule and tries every
//! wildcard.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;

use plexus_wire::SessionId;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::notation;
use super::super::paths::{Entry, PathResolver};
use super::super::places::PathRules;
use super::super::rule::Decision;
use super::*;

/// Implements the definition literally, at any cost.
mod plain {
    use super::*;

    /// Returns whether an allow fits.
    pub(super) fn covers(pattern: &PathPattern, target: &Target<'_>, call: &Call<'_>) -> bool {
        let Some(real) = target.real() else { return false };
        let takes = |rest: &str| match (&pattern.rest, target.reach) {
            (Rest::Everything, Reach::Tree) => true,
            (Rest::Everything, Reach::File) => !rest.is_empty(),
            (Rest::Nothing, Reach::File) => rest.is_empty(),
            (Rest::Glob(wild), Reach::File) => !rest.is_empty() && wild.fit(rest),
            (Rest::Nothing | Rest::Glob(_), Reach::Tree) => false,
        };
        target.anchors(pattern.anchor).iter().any(|anchor| {
            let base = base(&anchor.text, &pattern.plain);
            let behind_link = || {
                below(&target.written().text, &base).is_some_and(takes)
                    && resolve(call.paths, Path::new(&format!("{}/{}", anchor.text, pattern.plain)))
                        .is_ok_and(|base| {
                            below(&real.text, base.to_str().unwrap()).is_some_and(takes)
                        })
            };
            below(&real.text, &base).is_some_and(takes) || behind_link()
        })
    }

    /// Returns how a deny or an ask fits.
    pub(super) fn guards(pattern: &PathPattern, target: &Target<'_>) -> Fit {
        let anchors = target.anchors(pattern.anchor);
        if anchors.is_empty() {
            return Fit::Maybe;
        }
        let guards_below = |rest: &str| match &pattern.rest {
            Rest::Nothing | Rest::Everything => Fit::Yes,
            Rest::Glob(wild) if wild.fit(rest) => Fit::Yes,
            Rest::Glob(wild) if wild.fit_in_any_case(rest) || target.reach == Reach::Tree => {
                Fit::Maybe
            }
            Rest::Glob(_) => Fit::No,
        };
        let mut best = if target.real().is_some() { Fit::No } else { Fit::Maybe };
        for path in std::iter::once(target.written()).chain(target.real()) {
            for anchor in anchors {
                let base = base(&anchor.text, &pattern.plain);
                let inside = below(&path.text, &base).map(guards_below);
                let in_another_case = || {
                    below(&fold_all(&path.text), &fold_all(&base))
                        .map(|rest| guards_below(rest).min(Fit::Maybe))
                };
                let above = target.reach == Reach::Tree && below(&base, &path.text).is_some();
                best = best.max(match inside {
                    Some(fit) => fit,
                    None if above => Fit::Maybe,
                    None => in_another_case().unwrap_or(Fit::No),
                });
            }
        }
        best
    }

    fn base(anchor: &str, plain: &str) -> String {
        if plain.is_empty() { anchor.to_owned() } else { format!("{anchor}/{plain}") }
    }

    fn fold_all(text: &str) -> String {
        text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
    }
}

/// Links out of trees, into them, upwards, to nothing and in a loop. Any other path is plain or
/// missing, depending on its length.
struct Links(HashMap<&'static str, &'static str>);

impl PathResolver for Links {
    fn look(&self, path: &Path) -> io::Result<Entry> {
        Ok(match self.0.get(path.to_str().unwrap()) {
            Some(to) => Entry::Link(PathBuf::from(to)),
            None if path.components().count() > 4 => Entry::Missing,
            None => Entry::Plain,
        })
    }
}

fn links() -> Links {
    Links(HashMap::from([
        ("/a", "/src"),
        ("/src/out", "/etc"),
        ("/src/up", ".."),
        ("/src/none", "../secret/new"),
        ("/src/round", "round"),
        ("/SRC", "/Src/k"),
        ("/home/dev", "/src/HOME"),
        ("/src/é", "/É"),
    ]))
}

/// Names that differ in case, including the cases of Unicode, and by links.
const NAMES: &[&str] = &[
    "src", "SRC", "Src", "ſrc", "a", "out", "up", "none", "round", "etc", "secret", "Secret1", "k",
    "K", "\u{212a}", "é", "É", "İ", "i", "ß", "home", "dev", "HOME", ".env", "x.rs", "X.RS", "a b",
];

const WILD: &[&str] = &[
    "*",
    "**",
    "?",
    "*.rs",
    "*.RS",
    "s*",
    "S*c",
    "?rc",
    "[sS]rc",
    "[!s]rc",
    "{src,etc}",
    "*ecre*",
    "*k",
    "é*",
    "*É",
    "\\*",
    "\\src",
    ".*",
    "*1",
    "*{a,k}",
    "i?",
    "[]a]*",
];

fn joined(
    lead: &'static [&'static str],
    names: &'static [&'static str],
) -> impl Strategy<Value = String> {
    let names = prop::collection::vec(prop::sample::select(names), 0..5);
    (prop::sample::select(lead), names, prop::sample::select(&["", "", "", "/"][..]))
        .prop_map(|(lead, names, end)| format!("{lead}{}{end}", names.join("/")))
}

fn patterns() -> impl Strategy<Value = PathPattern> {
    let plain = joined(&["/", "//", "~/", "", "./"], NAMES);
    let wild =
        prop::collection::vec(prop::sample::select(WILD), 0..3).prop_map(|wild| wild.join("/"));
    let mixed = (plain, wild, prop::sample::select(NAMES), any::<bool>()).prop_map(
        |(plain, wild, name, more)| {
            let end = if more { format!("/{name}") } else { String::new() };
            if wild.is_empty() {
                plain
            } else {
                format!("{}/{wild}{end}", plain.trim_end_matches('/'))
            }
        },
    );
    mixed.prop_filter_map("it is a pattern", |text| PathPattern::parse(&text).ok())
}

const STEPS: &[&str] = &[
    "src", "SRC", "Src", "ſrc", "a", "out", "up", "none", "round", "etc", "secret", "SECRET1", "k",
    "K", "\u{212a}", "é", "É", "İ", "i", "dev", "HOME", ".env", "x.rs", "X.rs", "a b", ".", "..",
    "",
];

fn calls() -> impl Strategy<Value = (&'static str, Value)> {
    let path = joined(&["/", "//", "/", "~/", "", "./", "../", "~"], STEPS);
    (prop::sample::select(&["Read", "Write", "Grep", "LS"][..]), path).prop_map(|(tool, path)| {
        let field = if matches!(tool, "Grep" | "LS") { "path" } else { "file_path" };
        (tool, json!({ field: path }))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_quick_way_says_what_the_plain_way_says(
        patterns in prop::collection::vec(patterns(), 1..5),
        (tool_name, input) in calls(),
        working_dir in prop::sample::select(&["/src/k", "/a/secret", "/home/dev", "/", "nowhere"][..]),
        home in prop::sample::select(&[Some("/home/dev"), Some("/"), None][..]),
    ) {
        let paths = links();
        let call = Call {
            tool: &notation::read(tool_name, &input),
            working_dir: Path::new(working_dir),
            home: home.map(Path::new),
            session: SessionId::from_uuid(uuid::Uuid::nil()),
            ancestors: &[],
            now: 0,
            paths: &paths,
        };
        let target = Target::all(&call).pop().unwrap();
        let near = |decision| {
            let mut rules = PathRules::default();
            for (at, pattern) in patterns.iter().enumerate() {
                rules.add(at, decision, pattern);
            }
            rules.near(&target)
        };
        let (allows, denies) = (near(Decision::Allow), near(Decision::Deny));
        for (at, pattern) in patterns.iter().enumerate() {
            let covers = allows.contains(&at) && pattern.covers(&target, &call) == Fit::Yes;
            prop_assert_eq!(covers, plain::covers(pattern, &target, &call), "allow {:?}", pattern);
            let guards = if denies.contains(&at) { pattern.guards(&target) } else { Fit::No };
            prop_assert_eq!(guards, plain::guards(pattern, &target), "deny {:?}", pattern);
        }
    }
}
