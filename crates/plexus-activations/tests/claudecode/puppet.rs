//! An agent that says what a test has it say, and keeps what it is told: for lines that no CLI of
//! today writes.

use std::path::PathBuf;

use plexus_engine::Settings;
use plexus_engine::settings::Prestart;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{DEADLINE, SimulatedHub};

/// Says the files `say.0`, `say.1`, … as they appear, and appends each line it hears to `heard`.
const AGENT: &str = r#"#!/bin/sh
case "$*" in *--version*) echo "2.1.325 (Claude Code)"; exit 0 ;; esac
( n=0; while :; do if [ -e "$PUPPET/say.$n" ]; then cat "$PUPPET/say.$n"; n=$((n + 1)); else sleep 0.02; fi; done ) &
while IFS= read -r line; do printf '%s\n' "$line" >> "$PUPPET/heard"; done
kill $!
"#;

/// The strings of a puppet.
pub(crate) struct Puppet {
    folder: TempDir,
    said: std::cell::Cell<usize>,
}

impl Puppet {
    /// A puppet that has a chat to play in, and the hub whose agent it is.
    pub(crate) async fn in_a_chat() -> (Self, SimulatedHub, String) {
        let (puppet, hub, session) = Self::made(Prestart::Off).await;
        hub.chat(&session, "play").await;
        let prompt = puppet.hears(1, &["\"play\""]).await;
        puppet.say_init(&json!([prompt["uuid"]]));
        (puppet, hub, session)
    }

    /// A puppet that waits for its first chat.
    pub(crate) async fn waiting() -> (Self, SimulatedHub, String) {
        let (puppet, hub, session) = Self::made(Prestart::On).await;
        let there = || std::future::ready((hub.children() == 1).then_some(()));
        testkit::eventually_async("a puppet that waits", DEADLINE, there).await;
        (puppet, hub, session)
    }

    async fn made(prestart: Prestart) -> (Self, SimulatedHub, String) {
        let puppet = Self { folder: tempfile::tempdir().unwrap(), said: std::cell::Cell::new(0) };
        let agent = puppet.path("agent");
        testkit::process::executable(&agent, AGENT);
        let hub = SimulatedHub::with(|settings: &mut Settings| {
            let program = plexus_engine::ProgramLine { program: agent, leading: vec![] };
            settings.install(plexus_wire::FIRST_AGENT, program);
            settings.prestart = prestart;
        })
        .await;
        let env = json!({"PUPPET": puppet.folder.path(), "PLEXUS_TEST_WORLD": hub.data()});
        let session = hub.create("puppet", json!({"env": env, "channel": "control"})).await;
        (puppet, hub, session)
    }

    /// Has it say that a turn begins, which answers these prompts.
    pub(crate) fn say_init(&self, prompts: &Value) {
        let session = "5e55104d-0000-4000-8000-000000000001";
        let init = json!({"type": "system", "subtype": "init", "session_id": session,
            "user_message_uuids": prompts});
        self.say(&init.to_string());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Has it say one line.
    pub(crate) fn say(&self, line: &str) {
        let number = self.said.get();
        self.said.set(number + 1);
        let half = self.path("half");
        std::fs::write(&half, format!("{line}\n")).unwrap();
        std::fs::rename(half, self.path(&format!("say.{number}"))).unwrap();
    }

    /// Waits until it has heard `count` lines with all of these in them, and returns the last.
    pub(crate) async fn hears(&self, count: usize, parts: &[&str]) -> Value {
        let look = || {
            let heard = std::fs::read_to_string(self.path("heard")).unwrap_or_default();
            // A line that has no end yet is still being written.
            let whole = heard.rsplit_once('\n').map_or("", |(whole, _)| whole);
            let found: Vec<&str> =
                whole.lines().filter(|line| parts.iter().all(|part| line.contains(part))).collect();
            std::future::ready(
                (found.len() >= count).then(|| serde_json::from_str(found[count - 1]).unwrap()),
            )
        };
        testkit::eventually_async(&format!("line {count} with {parts:?}"), DEADLINE, look).await
    }
}
