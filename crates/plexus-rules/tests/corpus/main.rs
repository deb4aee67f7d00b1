//! Judges a generated corpus of commands by the rules, and really runs the allowed ones.
//!
//! For each command of the tables, the corpus has every option that the table names and every
//! option that the installed program lists in its help, with hostile values, in every form
//! (`--opt=val`, `--opt val`, `-oval`, combined letters, abbreviations, after `--`) and every kind
//! of quoting, and lines in which it stands in constructs of the shell: with variables, in loops
//! and tests, after `cd`, with redirected input, with names given by `xargs`. An allowed command
//! runs in a directory with traps around it ([`world`]), without a network, and must spring none.
//! CI judges and runs a sample with a fixed seed; `RULES_CORPUS=all` judges the whole corpus and
//! runs everything allowed, but only a bounded part for programs that build or talk to a server
//! ([`Extent`]). Entries whose program is not installed are judged only.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a failed test is allowed to stop loudly, and the size of the corpus is shown"
)]

mod commands;
#[path = "../common/mod.rs"]
mod common;
mod tables;
mod world;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{allows, session};
use plexus_rules::{Call, Decision, RealPaths, notation};
use serde_json::json;
use tables::{Effect, Entry};
use world::{Traps, World};

/// How much of the corpus is judged and run, for each command of the tables.
struct Extent {
    judged: usize,
    /// How many runs of a command that only shows or changes files.
    run: usize,
    /// How many runs of a command that builds the project or talks to a server, which takes longer.
    run_slow: usize,
    /// Whether the options of such slow commands are also read from their help.
    slow_help: bool,
}

const SAMPLE: Extent = Extent { judged: 400, run: 10, run_slow: 1, slow_help: false };
const WHOLE: Extent = Extent { judged: usize::MAX, run: usize::MAX, run_slow: 40, slow_help: true };

/// Parallel workers, each in its own world.
const WORKERS: usize = 2;

#[derive(Default)]
struct Counts {
    made: AtomicUsize,
    judged: AtomicUsize,
    allowed: AtomicUsize,
    /// Allowed commands of programs that are not installed here.
    allowed_absent: AtomicUsize,
    /// Allowed commands of installed programs that build or talk to a server.
    allowed_slow: AtomicUsize,
    run: AtomicUsize,
    not_installed: AtomicUsize,
    no_network_to_close: AtomicUsize,
}

#[test]
fn no_command_that_is_allowed_springs_a_trap() {
    let extent = if std::env::var_os("RULES_CORPUS").is_some() { WHOLE } else { SAMPLE };
    let only = std::env::var("RULES_CORPUS_ONLY").ok();
    let entries: Vec<Entry> = tables::read()
        .into_iter()
        .filter(|entry| only.as_ref().is_none_or(|only| entry.name().starts_with(only.as_str())))
        .collect();
    assert!(only.is_some() || entries.len() > 150, "only {} commands in the tables", entries.len());
    let counts = Counts::default();
    let next = AtomicUsize::new(0);
    let sprung: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|_| {
                scope.spawn(|| {
                    let mut world = World::new();
                    let mut sprung = Vec::new();
                    while let Some(entry) = entries.get(next.fetch_add(1, Ordering::Relaxed)) {
                        sprung.extend(try_entry(entry, &mut world, &extent, &counts));
                    }
                    sprung
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    eprintln!(
        "corpus: {} commands of {} entries; {} judged, {} of them allowed ({} of programs that \
         build or talk, {} of programs that are not installed), {} run; {} entries are not \
         installed, {} need a network that cannot be closed here",
        count(&counts.made),
        entries.len(),
        count(&counts.judged),
        count(&counts.allowed),
        count(&counts.allowed_slow),
        count(&counts.allowed_absent),
        count(&counts.run),
        count(&counts.not_installed),
        count(&counts.no_network_to_close),
    );
    assert!(sprung.is_empty(), "{} traps were sprung:\n{}", sprung.len(), sprung.join("\n"));
    assert!(only.is_some() || count(&counts.run) > 500, "too little was run to show anything");
}

/// Judges the commands of one entry, runs the allowed ones, and returns those that sprang a trap.
fn try_entry(entry: &Entry, world: &mut World, extent: &Extent, counts: &Counts) -> Vec<String> {
    let installed = world.has(entry.program());
    let quick = matches!(entry.effect, Effect::Shows | Effect::Changes);
    let help =
        if installed && (quick || extent.slow_help) { world.help(entry) } else { Vec::new() };
    let corpus = commands::of(entry, &help, world.outside(), extent.judged);
    counts.made.fetch_add(corpus.made, Ordering::Relaxed);
    counts.judged.fetch_add(corpus.taken.len(), Ordering::Relaxed);
    let rules = allows(&[
        format!("Bash({}:*)", entry.program()),
        "Bash(cat:*)".into(),
        "Bash(find:*)".into(),
        "Bash(grep:*)".into(),
        "Bash(sort:*)".into(),
        "Bash(xargs:*)".into(),
        "Edit(**)".into(),
    ]);
    let work = world.work();
    let decide = |command: &str| {
        let input = json!({ "command": command });
        let call = Call {
            tool: &notation::read("Bash", &input),
            working_dir: &work,
            home: Some(&work),
            session: session(2),
            ancestors: &[],
            now: 0,
            paths: &RealPaths,
        };
        rules.decide(&call).decision
    };
    let allowed: Vec<String> =
        corpus.taken.into_iter().filter(|command| decide(command) == Decision::Allow).collect();
    counts.allowed.fetch_add(allowed.len(), Ordering::Relaxed);
    if !installed {
        counts.allowed_absent.fetch_add(allowed.len(), Ordering::Relaxed);
        counts.not_installed.fetch_add(1, Ordering::Relaxed);
        return Vec::new();
    }
    if !quick {
        counts.allowed_slow.fetch_add(allowed.len(), Ordering::Relaxed);
    }
    let (most, traps) = match entry.effect {
        Effect::Shows => (extent.run, Traps::Everywhere),
        Effect::Changes => (extent.run, Traps::Outside),
        Effect::RunsProject => (extent.run_slow, Traps::Outside),
        Effect::Talks if !world.network_is_closed() => {
            counts.no_network_to_close.fetch_add(1, Ordering::Relaxed);
            return Vec::new();
        }
        Effect::Talks => (extent.run_slow, Traps::Outside),
    };
    let mut seen = HashSet::new();
    let run: Vec<&str> = allowed
        .iter()
        .map(String::as_str)
        .filter(|command| seen.insert(*command))
        .take(most)
        .collect();
    counts.run.fetch_add(run.len(), Ordering::Relaxed);
    world.run_all(&run, traps)
}

#[test]
fn the_traps_spring() {
    let mut world = World::new();
    for (command, traps) in [
        ("cat link", Traps::Everywhere),
        ("cat linkdir/secret", Traps::Outside),
        ("ls linkdir/", Traps::Everywhere),
        ("./evil", Traps::Everywhere),
        ("less f", Traps::Everywhere),
        ("touch new", Traps::Everywhere),
        ("touch linkdir/new", Traps::Outside),
        ("echo x > linkdir/victim", Traps::Outside),
        ("echo x >> .git/config", Traps::Outside),
        ("git diff --no-index /dev/null linkdir/secret", Traps::Everywhere),
        ("git push ./vendor/evil.git HEAD:x", Traps::Outside),
    ] {
        assert!(world.run(command, traps).is_some(), "{command}");
        assert!(
            world.run("cat f", Traps::Everywhere).is_none(),
            "the world is not as before {command}"
        );
    }
}
