//! One session at work: it starts chats, reads their events, answers their questions, and checks
//! the server's promises meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::dice::Dice;
use super::roles::{Agent, Cast, Channel, Role, Step};
use super::soak_server::SoakServer;
use super::tally::Tally;

/// How long one poll may wait.
const POLL_MS: u64 = 2_000;

/// How long one chat may take: shorter than the deadlines of questions.
const CHAT_PATIENCE: Duration = Duration::from_secs(300);

/// How long the question of an agent that is to be parked waits at most: some agents cannot be
/// parked at that moment.
const UNTIL_PARKED: Duration = Duration::from_secs(8);

/// How many chats a session with a real agent has before another takes its place: its model is sent
/// the whole conversation in each of them.
const REAL_CHATS: u64 = 20;

/// The tool of a question about a host.
const NETWORK: &str = "Network";

/// One session and what the worker has seen of it.
pub struct Worker {
    site: Arc<SoakServer>,
    dice: Dice,
    index: usize,
    /// How many sessions it has had before this one.
    nth: usize,
    name: String,
    id: String,
    role: Role,
    /// The number of the next chat.
    next: u64,
    cursor: Option<String>,
    /// The position of the reader: the chat, and the number of the next event.
    position: (u64, u64),
    /// Questions that are kept waiting, and since when.
    waiting: BTreeMap<String, Instant>,
    /// Acknowledged answers: whether each approval was allowed.
    answered: BTreeMap<String, bool>,
    /// Words of commands whose allow was acknowledged, with their chats.
    allowed: BTreeMap<String, u64>,
    /// Approvals that were seen parked, with their chats.
    parked: BTreeMap<String, u64>,
    /// How each chat ended.
    ended: BTreeMap<u64, String>,
    /// The last error that each chat told of.
    errors: BTreeMap<u64, String>,
    /// A digest of all that was heard of each chat.
    heard: BTreeMap<u64, DefaultHasher>,
    /// Chats whose own script made them fail.
    failed_by_script: u64,
    /// What broke the worker; it then does nothing more.
    broken: Option<anyhow::Error>,
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
    pub async fn new(site: &Arc<SoakServer>, index: usize, role: Role, dice: Dice) -> Result<Self> {
        Self::with_session(site, (index, 0), role, dice).await
    }

    async fn with_session(
        site: &Arc<SoakServer>,
        (index, nth): (usize, usize),
        role: Role,
        dice: Dice,
    ) -> Result<Self> {
        let name = format!("soak-{index}-{nth}");
        let work = site.beside("work").join(&name);
        std::fs::create_dir(&work)?;
        let mut params = role.session_params();
        params["name"] = json!(name);
        params["working_dir"] = json!(work);
        params["loopback_timeout_secs"] = json!(3600);
        // What a wall takes from the environment of a child does not mark it.
        params["env"] = json!({"SOAK_MARK": site.marker()});
        match &site.real {
            None => {
                params["env"]["PLEXUS_SIM_DIARY"] = json!(site.beside(&format!("diary-{name}")));
                params["env"]["CLAUDE_CONFIG_DIR"] = json!(site.beside("claude"));
            }
            Some(real) => {
                for (name, value) in real.session_env() {
                    params["env"][name] = json!(value);
                }
            }
        }
        // A lost answer may have been a success: then the name is taken by ours.
        let id = match site.ask("agents.create", params).await? {
            Ok(created) => created["id"].clone(),
            Err(error) if error.kind() == "conflict" => {
                let found = site.call("agents.get", json!({"name": name})).await?;
                found["session"]["id"].clone()
            }
            Err(error) => bail!("create: {error}"),
        };
        let id = id.as_str().context("no id")?.to_owned();
        Ok(Self {
            site: Arc::clone(site),
            dice,
            index,
            nth,
            name,
            id,
            role,
            next: 0,
            cursor: None,
            position: (0, 0),
            waiting: BTreeMap::new(),
            answered: BTreeMap::new(),
            allowed: BTreeMap::new(),
            parked: BTreeMap::new(),
            ended: BTreeMap::new(),
            errors: BTreeMap::new(),
            heard: BTreeMap::new(),
            failed_by_script: 0,
            broken: None,
            tally: Tally { sessions: 1, ..Tally::default() },
        })
    }

    /// Returns its name and role, for a message.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{}/{} ({})", self.site.label(), self.name, self.role.groups().join(", "))
    }

    /// Returns the role.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Plays chats until the given time, and the last one to its end. What goes wrong is said at
    /// once, and again in the report; the other workers go on.
    pub async fn work(mut self, until: Instant) -> Self {
        while self.broken.is_none() && Instant::now() < until {
            let worked = if self.role.cast == Cast::Real && self.next >= REAL_CHATS {
                self.begin_another_session().await
            } else {
                let plan = self.plan();
                let chat = self.next;
                self.play(&plan, until).await.with_context(|| format!("chat {chat}"))
            };
            if let Err(error) = worked {
                super::say(&format!("wrong: {}: {error:#}", self.label()));
                self.broken = Some(error);
            }
            tokio::time::sleep(self.dice.time(Duration::from_millis(500))).await;
        }
        self
    }

    /// Compares and deletes its session, and goes on with another.
    async fn begin_another_session(&mut self) -> Result<()> {
        let at = (self.index, self.nth + 1);
        let next = Self::with_session(&self.site, at, self.role, self.dice.split()).await?;
        let mut old = std::mem::replace(self, next);
        let id = old.id.clone();
        old.judge().await?;
        self.tally.add(&old.tally);
        // A refusal is fine: an earlier call, whose answer was lost, may have deleted it.
        drop(self.site.ask("agents.delete", json!({"session_id": id})).await?);
        Ok(())
    }

    fn plan(&mut self) -> Plan {
        let chat = self.next;
        let simulated = |line: &str| Step::Simulated(line.to_owned());
        let mut steps = vec![Step::Simulated(format!("say chat {chat}"))];
        let (mut cancel, mut ends_badly) = (false, false);
        for step in 0..=self.dice.below(4) {
            let (some, bytes) = (1 + self.dice.below(40), 1 + self.dice.below(400));
            steps.push(match self.dice.below(8) {
                0 => Step::Simulated(format!("burst {some} {bytes}")),
                1 => Step::Simulated(format!("sleep {}", self.dice.below(1_500))),
                2 => {
                    ends_badly |= !self.role.agent.can_be_asked_what_is_open();
                    simulated("garbage")
                }
                3 => simulated("unknown"),
                4 => Step::Simulated(format!("stderr word {step}")),
                _ => Step::Bash(self.command(chat, step)),
            });
        }
        match self.dice.below(20) {
            _ if self.role.cast == Cast::Real => {}
            0 => {
                steps.push(simulated("crash"));
                ends_badly = true;
            }
            1 => {
                steps.push(simulated("exit 3"));
                ends_badly = true;
            }
            2 | 3 => {
                steps.push(simulated("hang"));
                cancel = true;
            }
            _ => {}
        }
        Plan { prompt: self.role.prompt(&steps), cancel, ends_badly }
    }

    /// A command that writes its word into a file. Some leave a process behind; within a wall, some
    /// want a host that nobody allowed.
    fn command(&mut self, chat: u64, step: u64) -> String {
        let letter = if self.dice.percent(70) { 'a' } else { 'd' };
        let more = match self.dice.below(10) {
            0 | 1 => "; (setsid sleep 900 >/dev/null 2>&1 &)",
            2 if self.role.is_confined => {
                r"; at=${http_proxy#http://}; exec 3<>/dev/tcp/${at%:*}/${at#*:}; printf 'CONNECT soak.invalid:443 HTTP/1.1\r\nHost: soak.invalid:443\r\n\r\n' >&3; head -n 1 <&3"
            }
            _ => "",
        };
        format!("echo {letter}{chat}-{step} >> ran{more}")
    }

    /// Plays a chat to its end. After the given time nothing is put off any more.
    async fn play(&mut self, plan: &Plan, until: Instant) -> Result<()> {
        let chat = self.next;
        let params = json!({"session_id": self.id, "prompt": plan.prompt, "idempotency_key": format!("{}-{chat}", self.name)});
        let started = self.site.call("agents.chat_async", params).await?;
        ensure!(started["chat"] == chat, "another chat was started: {started}");
        self.next += 1;
        self.failed_by_script += u64::from(plan.ends_badly);
        let began = Instant::now();
        let cancel_at = began + Duration::from_secs(2) + self.dice.time(Duration::from_secs(3));
        let mut cancelled = false;
        loop {
            let page = self.read().await?;
            for approval in page["pending_approvals"].as_array().cloned().unwrap_or_default() {
                if self.is_due(&approval, until)? {
                    self.answer(&approval).await?;
                }
            }
            if plan.cancel && !cancelled && Instant::now() > cancel_at.min(until) {
                cancelled = true;
                // A conflict means that the chat has already ended.
                drop(self.site.ask("agents.cancel", json!({"session_id": self.id})).await?);
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
                self.ended.insert(chat, status.to_owned());
                self.site.chats.fetch_add(1, Ordering::Relaxed);
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
        let page = self.site.call("agents.poll", params).await?;
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
            if event["event"]["type"] == "error" {
                self.errors.insert(chat, event["event"].to_string());
            }
            event.to_string().hash(self.heard.entry(chat).or_default());
            self.position.1 += 1;
            self.tally.events += 1;
        }
        self.cursor = page["cursor"].as_str().map(str::to_owned);
        Ok(page)
    }

    /// Returns the number of the chat under way.
    fn chat(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    /// Whether a question is answered now. Where agents are to be parked it waits until its agent
    /// has no process.
    fn is_due(&mut self, approval: &Value, until: Instant) -> Result<bool> {
        let id = approval["id"].as_str().context("no id")?;
        if approval["parked"] == true && !self.parked.contains_key(id) {
            self.parked.insert(id.to_owned(), self.chat());
            self.tally.parked += 1;
        }
        let since = *self.waiting.entry(id.to_owned()).or_insert_with(Instant::now);
        let now = Instant::now();
        // An agent whose command waits for a host cannot be parked.
        Ok(!self.role.is_kept_waiting
            || approval["tool_name"] == NETWORK
            || approval["parked"] == true
            || now > since + UNTIL_PARKED
            || now > until)
    }

    async fn answer(&mut self, approval: &Value) -> Result<()> {
        let id = approval["id"].as_str().context("no id")?.to_owned();
        if self.answered.contains_key(&id) {
            return Ok(());
        }
        let is_host = approval["tool_name"] == NETWORK;
        let word = if is_host { None } else { Some(word(&approval["input"])?) };
        let allow = word.as_ref().is_some_and(|word| word.starts_with('a'));
        let params =
            json!({"approval_id": id, "approve": allow, "input_digest": approval["input_digest"]});
        match self.site.ask("loopback.respond", params).await? {
            Ok(_) => {
                self.answered.insert(id, allow);
                self.tally.answers += 1;
                self.tally.hosts += u64::from(is_host);
                if let Some(word) = word.filter(|_| allow) {
                    self.allowed.insert(word, self.chat());
                }
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
    pub async fn finish(mut self) -> Result<Tally> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        let farewell = [Step::Simulated("say farewell".to_owned())];
        let last = Plan { prompt: self.role.prompt(&farewell), cancel: false, ends_badly: false };
        let completed = self.tally.ended("complete");
        self.play(&last, Instant::now()).await.context("the last chat")?;
        ensure!(self.tally.ended("complete") == completed + 1, "the last chat did not complete");
        self.judge().await?;
        Ok(self.tally)
    }

    /// Compares all records of the session with each other.
    async fn judge(&mut self) -> Result<()> {
        let struck = self.site.blows().by_session.get(&self.id).copied().unwrap_or(0);
        let failed: Vec<u64> =
            self.ended.iter().filter(|(_, status)| *status == "failed").map(|(n, _)| *n).collect();
        // Over MCP, a CLI that starts while the server is away exits by itself.
        let excused = struck + self.failed_by_script;
        let why = || failed.iter().map(|chat| (chat, self.errors.get(chat))).collect::<Vec<_>>();
        ensure!(
            failed.len() as u64 <= excused || self.role.channel == Channel::Mcp,
            "{} chats failed, and {excused} had a reason to: {:#?}",
            failed.len(),
            why()
        );
        self.what_was_heard_is_stored().await?;
        let decisions = self.decisions().await?;
        self.compare(&decisions, struck)
    }

    /// Reads every chat once more, from its beginning.
    async fn what_was_heard_is_stored(&self) -> Result<()> {
        for (chat, heard) in &self.heard {
            let mut stored = DefaultHasher::new();
            let mut next = 0;
            loop {
                let params =
                    json!({"session_id": self.id, "chat": chat, "from_seq": next, "limit": 1000});
                let page = self.site.call("agents.poll", params).await?;
                let events = page["events"].as_array().context("no events")?;
                for event in events {
                    event.to_string().hash(&mut stored);
                    next += 1;
                }
                if events.is_empty() || page["has_more"] == false {
                    break;
                }
            }
            ensure!(
                stored.finish() == heard.finish(),
                "chat {chat} reads otherwise than it was heard"
            );
        }
        Ok(())
    }

    /// Returns what was decided, by tool call.
    async fn decisions(&self) -> Result<BTreeMap<String, Value>> {
        let mut decisions = BTreeMap::new();
        let mut cursor = None;
        let mut all = 0;
        loop {
            let mut params = json!({"session_id": self.id, "limit": 500});
            if let Some(cursor) = cursor {
                params["cursor"] = cursor;
            }
            let mut page = self.site.call("loopback.history", params).await?;
            for decision in page["decisions"].as_array().context("no decisions")? {
                all += 1;
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
                if decision["tool_name"] == NETWORK {
                    ensure!(decision["status"] != "allowed", "nobody allowed {decision}");
                    continue;
                }
                let tool = decision["tool_use_id"].as_str().context("no id")?.to_owned();
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
        ensure!(all >= self.answered.len(), "an acknowledged answer is gone");
        Ok(decisions)
    }

    /// Compares what was decided with what the agent noted and with what its commands wrote.
    fn compare(&mut self, decisions: &BTreeMap<String, Value>, struck: u64) -> Result<()> {
        // Within a wall the diary cannot be written, and real agents write none; what the commands
        // wrote is all there is.
        let diary = std::fs::read_to_string(self.site.beside(&format!("diary-{}", self.name)))
            .unwrap_or_default();
        let mut calls = BTreeSet::new();
        for line in diary.lines() {
            let line: Value = serde_json::from_str(line).context("a line of the diary")?;
            let tool = line["tool_use_id"].as_str().context("no id")?.to_owned();
            let decision =
                decisions.get(&tool).with_context(|| format!("nobody was asked about {line}"))?;
            // Codex adds its shell and its directory to what it asks.
            let is_same = match self.role.agent {
                Agent::Codex => decision["input"]["command"] == line["input"]["command"],
                Agent::Claude | Agent::Acp => decision["input"] == line["input"],
            };
            ensure!(decision["status"] == "allowed" && is_same, "{line} ran, and {decision}");
            ensure!(calls.insert(tool), "it ran twice: {line}");
        }
        let ran = std::fs::read_to_string(self.site.beside("work").join(&self.name).join("ran"))
            .unwrap_or_default();
        let words: Vec<&str> = ran.lines().collect();
        let distinct: BTreeSet<&str> = words.iter().copied().collect();
        ensure!(distinct.len() == words.len(), "something ran twice");
        let allowed = decisions.values().filter(|decision| decision["status"] == "allowed");
        let allowed = allowed
            .map(|decision| word(&decision["input"]))
            .collect::<Result<BTreeSet<String>>>()?;
        for word in &distinct {
            ensure!(word.starts_with('a') && allowed.contains(*word), "nobody allowed {word}");
        }
        self.what_was_allowed_ran(&distinct, struck)?;
        self.tally.ran += words.len() as u64;
        Ok(())
    }

    /// In a chat that completed, whatever was allowed ran. Over MCP a CLI may have lost the answer;
    /// a process that was woken and killed after the answer is told that the call may have run.
    fn what_was_allowed_ran(&self, ran: &BTreeSet<&str>, struck: u64) -> Result<()> {
        if self.role.channel == Channel::Mcp {
            return Ok(());
        }
        let was_parked: BTreeSet<u64> = self.parked.values().copied().collect();
        for (word, chat) in &self.allowed {
            let is_complete = self.ended.get(chat).is_some_and(|status| status == "complete");
            let may_be_lost = struck > 0 && was_parked.contains(chat);
            ensure!(
                !is_complete || may_be_lost || ran.contains(word.as_str()),
                "{word} was allowed, its chat completed, and it did not run"
            );
        }
        Ok(())
    }
}

/// Returns the word that a command writes.
fn word(input: &Value) -> Result<String> {
    let command = input["command"].as_str().context("no command")?;
    Ok(command.split(' ').nth(1).context("a command without a word")?.to_owned())
}
