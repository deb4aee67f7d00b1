//! One session at work: it starts chats, reads their events, answers their questions, and checks
//! the server's promises meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::chaos::Blows;
use super::dice::Dice;
use super::soak_server::SoakServer;

/// How long one poll may wait.
const POLL_MS: u64 = 2_000;

/// How long one chat may take: shorter than the deadlines of questions.
const CHAT_PATIENCE: std::time::Duration = std::time::Duration::from_secs(300);

/// The channel on which a session asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Channel {
    Control,
    Mcp,
}

/// The counts of a worker.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    chats: BTreeMap<String, u64>,
    events: u64,
    answers: u64,
    ran: u64,
}

impl Tally {
    /// Adds the counts of another.
    pub fn add(&mut self, other: &Self) {
        for (status, count) in &other.chats {
            *self.chats.entry(status.clone()).or_default() += count;
        }
        self.events += other.events;
        self.answers += other.answers;
        self.ran += other.ran;
    }
}

/// One session and what the worker has seen of it.
pub struct Worker {
    site: Arc<SoakServer>,
    dice: Dice,
    name: String,
    id: String,
    channel: Channel,
    /// The number of the next chat.
    next: u64,
    cursor: Option<String>,
    /// The position of the reader: the chat, and the number of the next event.
    position: (u64, u64),
    /// Acknowledged answers: whether each approval was allowed.
    answered: BTreeMap<String, bool>,
    /// Chats whose own script made them fail.
    failed_by_script: u64,
    tally: Tally,
}

/// The script of a chat, and therefore its possible outcomes.
struct Plan {
    prompt: String,
    cancel: bool,
    ends_badly: bool,
}

impl Worker {
    /// Creates its session.
    pub async fn new(site: &Arc<SoakServer>, index: usize, dice: Dice) -> Result<Self> {
        let channel = if index % 3 == 2 { Channel::Mcp } else { Channel::Control };
        let name = format!("soak-{index}");
        let work = site.beside("work").join(&name);
        std::fs::create_dir(&work)?;
        let env = json!({"PLEXUS_SIM_DIARY": site.beside(&format!("diary-{index}")), "CLAUDE_CONFIG_DIR": site.beside("claude")});
        let wire = if channel == Channel::Mcp { "mcp" } else { "control" };
        let params = json!({"name": name, "working_dir": work, "channel": wire, "env": env, "loopback_timeout_secs": 3600});
        let id = site.call("claudecode.create", params).await?["id"]
            .as_str()
            .context("no id")?
            .to_owned();
        let (cursor, position) = (None, (0, 0));
        let (answered, tally) = (BTreeMap::new(), Tally::default());
        let site = Arc::clone(site);
        Ok(Self {
            site,
            dice,
            name,
            id,
            channel,
            next: 0,
            cursor,
            position,
            answered,
            failed_by_script: 0,
            tally,
        })
    }

    /// Returns the session's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Plays chats until the given time, and the last one to its end.
    pub async fn work(mut self, until: Instant) -> Result<Self> {
        while Instant::now() < until {
            let plan = self.plan();
            self.play(&plan).await.with_context(|| format!("{}, chat {}", self.name, self.next))?;
            tokio::time::sleep(self.dice.time(std::time::Duration::from_millis(500))).await;
        }
        Ok(self)
    }

    fn plan(&mut self) -> Plan {
        let chat = self.next;
        let mut steps = vec!["sim:".to_owned(), format!("say chat {chat}")];
        let (mut cancel, mut ends_badly) = (false, false);
        for step in 0..=self.dice.below(4) {
            steps.push(match self.dice.below(8) {
                0 => format!("burst {} {}", 1 + self.dice.below(40), 1 + self.dice.below(400)),
                1 => format!("sleep {}", self.dice.below(1_500)),
                2 => "garbage".to_owned(),
                3 => "unknown".to_owned(),
                4 => format!("stderr word {step}"),
                _ => {
                    let letter = if self.dice.percent(70) { 'a' } else { 'd' };
                    let left = if self.dice.percent(20) {
                        "; (setsid sleep 900 >/dev/null 2>&1 &)"
                    } else {
                        ""
                    };
                    format!(
                        "tool Bash {}",
                        json!({"command": format!("echo {letter}{chat}-{step} >> ran{left}")})
                    )
                }
            });
        }
        match self.dice.below(20) {
            0 => {
                steps.push("crash".to_owned());
                ends_badly = true;
            }
            1 => {
                steps.push("exit 3".to_owned());
                ends_badly = true;
            }
            2 | 3 => {
                steps.push("hang".to_owned());
                cancel = true;
            }
            _ => {}
        }
        Plan { prompt: steps.join("\n"), cancel, ends_badly }
    }

    async fn play(&mut self, plan: &Plan) -> Result<()> {
        let chat = self.next;
        let params = json!({"session_id": self.id, "prompt": plan.prompt, "idempotency_key": format!("{}-{chat}", self.name)});
        let started = self.site.call("claudecode.chat_async", params).await?;
        ensure!(started["chat"] == chat, "another chat was started: {started}");
        self.next += 1;
        self.failed_by_script += u64::from(plan.ends_badly);
        let began = Instant::now();
        let cancel_at = began
            + std::time::Duration::from_secs(2)
            + self.dice.time(std::time::Duration::from_secs(3));
        let mut cancelled = false;
        loop {
            let page = self.read().await?;
            for approval in page["pending_approvals"].as_array().cloned().unwrap_or_default() {
                self.answer(&approval).await?;
            }
            if plan.cancel && !cancelled && Instant::now() > cancel_at {
                cancelled = true;
                // A conflict means that the chat has already ended.
                drop(self.site.ask("claudecode.cancel", json!({"session_id": self.id})).await?);
            }
            let status = page["status"].as_str().unwrap_or_default();
            let over =
                page["chat"] == chat && ["complete", "failed", "cancelled"].contains(&status);
            if over && page["has_more"] == false && page["events"] == json!([]) {
                ensure!(
                    page["total_events"] == self.position.1,
                    "heard {} events of {}",
                    self.position.1,
                    page["total_events"]
                );
                ensure!(status != "cancelled" || cancelled, "nobody cancelled it");
                *self.tally.chats.entry(status.to_owned()).or_default() += 1;
                return Ok(());
            }
            ensure!(began.elapsed() < CHAT_PATIENCE, "it does not end: {page}");
        }
    }

    /// Reads on from the last cursor, and checks that no event is skipped or repeated.
    async fn read(&mut self) -> Result<Value> {
        let mut params = json!({"session_id": self.id, "limit": 50, "wait_ms": POLL_MS});
        match &self.cursor {
            Some(cursor) => params["cursor"] = json!(cursor),
            None => params["consumer"] = json!("the worker"),
        }
        let page = self.site.call("claudecode.poll", params).await?;
        let chat = page["chat"].as_u64().context("no chat")?;
        for event in page["events"].as_array().context("no events")? {
            if chat != self.position.0 {
                ensure!(chat == self.position.0 + 1, "from chat {} to {chat}", self.position.0);
                self.position = (chat, 0);
            }
            let seq = event["seq"].as_u64();
            ensure!(
                seq == Some(self.position.1),
                "chat {chat}: {seq:?} came in place of {}",
                self.position.1
            );
            self.position.1 += 1;
            self.tally.events += 1;
        }
        self.cursor = page["cursor"].as_str().map(str::to_owned);
        Ok(page)
    }

    async fn answer(&mut self, approval: &Value) -> Result<()> {
        let id = approval["id"].as_str().context("no id")?.to_owned();
        if self.answered.contains_key(&id) {
            return Ok(());
        }
        let command = approval["input"]["command"].as_str().context("no command")?;
        let allow = command.starts_with("echo a");
        let params =
            json!({"approval_id": id, "approve": allow, "input_digest": approval["input_digest"]});
        match self.site.ask("loopback.respond", params).await? {
            Ok(_) => {
                self.answered.insert(id, allow);
                self.tally.answers += 1;
                Ok(())
            }
            // The child is gone, and its question with it.
            Err(error)
                if error.kind() == "conflict"
                    && error.data["standing"]["status"] == "cancelled" =>
            {
                Ok(())
            }
            Err(error) => bail!("{error}"),
        }
    }

    /// Proves that the session still works, and compares all records with each other.
    pub async fn finish(mut self, blows: &Blows) -> Result<Tally> {
        let last =
            Plan { prompt: "sim:\nsay farewell".to_owned(), cancel: false, ends_badly: false };
        let completed = self.tally.chats.get("complete").copied().unwrap_or(0);
        self.play(&last).await.context("the last chat")?;
        ensure!(
            self.tally.chats.get("complete").copied() == Some(completed + 1),
            "the last chat did not complete"
        );
        let struck = blows.by_session.get(&self.id).copied().unwrap_or(0);
        let failed = self.tally.chats.get("failed").copied().unwrap_or(0);
        // Over MCP, a CLI that starts while the server is away exits by itself.
        let excused = struck + self.failed_by_script;
        ensure!(
            failed <= excused || self.channel == Channel::Mcp,
            "{failed} chats failed, and {excused} had a reason to"
        );
        self.compare().await?;
        Ok(self.tally)
    }

    async fn compare(&mut self) -> Result<()> {
        let mut decisions = BTreeMap::new();
        let mut cursor = None;
        loop {
            let mut params = json!({"session_id": self.id, "limit": 500});
            if let Some(cursor) = cursor {
                params["cursor"] = cursor;
            }
            let mut page = self.site.call("loopback.history", params).await?;
            for decision in page["decisions"].as_array().context("no decisions")? {
                let tool = decision["tool_use_id"].as_str().context("no id")?.to_owned();
                ensure!(decision.get("breach").is_none(), "a breach: {decision}");
                if let Some(allowed) =
                    self.answered.get(decision["approval_id"].as_str().unwrap_or_default())
                {
                    let stands = if *allowed { "allowed" } else { "denied" };
                    ensure!(
                        decision["status"] == stands,
                        "acknowledged was {stands}, and there is {decision}"
                    );
                }
                ensure!(
                    decisions.insert(tool, decision.clone()).is_none(),
                    "asked twice: {decision}"
                );
            }
            match page.get_mut("cursor").map(Value::take) {
                Some(next) if !next.is_null() => cursor = Some(next),
                _ => break,
            }
        }
        ensure!(decisions.len() >= self.answered.len(), "an acknowledged answer is gone");
        let index = self.name.trim_start_matches("soak-");
        let diary = std::fs::read_to_string(self.site.beside(&format!("diary-{index}")))
            .unwrap_or_default();
        let mut calls = BTreeSet::new();
        for line in diary.lines() {
            let line: Value = serde_json::from_str(line).context("a line of the diary")?;
            let tool = line["tool_use_id"].as_str().context("no id")?.to_owned();
            let decision =
                decisions.get(&tool).with_context(|| format!("nobody was asked about {line}"))?;
            ensure!(
                decision["status"] == "allowed" && decision["input"] == line["input"],
                "{line} ran, and {decision}"
            );
            ensure!(calls.insert(tool), "it ran twice: {line}");
        }
        let ran = std::fs::read_to_string(self.site.beside("work").join(&self.name).join("ran"))
            .unwrap_or_default();
        let words: Vec<&str> = ran.lines().collect();
        let distinct: BTreeSet<_> = words.iter().collect();
        ensure!(distinct.len() == words.len(), "something ran twice");
        ensure!(!words.iter().any(|word| word.starts_with('d')), "what was denied ran");
        self.tally.ran += words.len() as u64;
        Ok(())
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (status, count) in &self.chats {
            write!(f, "{count} {status}, ")?;
        }
        write!(
            f,
            "{} events heard, {} answers acknowledged, {} tools ran",
            self.events, self.answers, self.ran
        )
    }
}
