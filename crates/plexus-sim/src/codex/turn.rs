//! One turn: plays the steps of a script, asks, and reports how it ended.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::tools::{self, Tool};
use super::wire::{self, Ran};
use super::{News, Prompt, Server};
use crate::diary;
use crate::run::{Exit, complain};
use crate::script::{Manners, SCRIPT_PREFIX, Step, ToolStep, steps_of};

/// The effect of a step on the turn.
enum After {
    GoOn,
    Fails(Value),
    Exits(Exit),
}

impl Server {
    /// Plays a turn until it ends or is stopped. Returns how the process exits, if it does.
    pub(super) async fn play(
        &self,
        prompt: Prompt,
        stopped: &mut oneshot::Receiver<News>,
    ) -> Option<Exit> {
        plexus_fault::point!("sim.turn.begun");
        let (thread, id) = (self.thread_id(), self.turn.borrow().clone().unwrap_or_default());
        self.status(&thread, json!({ "type": "active", "activeFlags": [] }));
        let started = wire::turn(&id, "inProgress", None);
        self.tell("turn/started", json!({ "threadId": thread, "turn": started }));
        let ended = tokio::select! {
            biased;
            news = stopped => Err(news),
            ended = self.steps(prompt, &id) => Ok(ended),
        };
        let (status, error) = match ended {
            Ok(After::Exits(exit)) => return Some(exit),
            Ok(After::GoOn) => ("completed", None),
            Ok(After::Fails(error)) => ("failed", Some(error)),
            Err(Ok(News::Closed)) => return Some(Exit::Code(0)),
            Err(Ok(News::Interrupted) | Err(_)) => {
                // The call of the model under way still counts.
                self.used(&id);
                ("interrupted", None)
            }
        };
        let idle = if error.is_some() { "systemError" } else { "idle" };
        self.status(&thread, json!({ "type": idle }));
        *self.turn.borrow_mut() = None;
        let turn = wire::turn(&id, status, error);
        self.tell("turn/completed", json!({ "threadId": thread, "turn": turn }));
        // Questions that are still open are resolved after the turn.
        let open: Vec<u64> = self.questions.borrow_mut().drain().map(|(id, _)| id).collect();
        for question in open {
            self.tell(
                "serverRequest/resolved",
                json!({ "threadId": thread, "requestId": question }),
            );
        }
        None
    }

    async fn steps(&self, prompt: Prompt, turn: &str) -> After {
        let mut next = Some(prompt);
        let mut is_first = true;
        while let Some(prompt) = next.take().or_else(|| self.steers.borrow_mut().pop_front()) {
            self.repeat(&prompt, turn);
            let is_steered = !std::mem::replace(&mut is_first, false);
            if is_steered && !prompt.text.starts_with(SCRIPT_PREFIX) {
                self.say(turn, &format!("Noted: {}", prompt.text));
                continue;
            }
            let earlier = self.earlier();
            let steps = match steps_of(&prompt.text, earlier.len()) {
                Ok(steps) => steps,
                Err(error) => {
                    let info = json!("other");
                    return After::Fails(
                        json!({ "message": error.to_string(), "codexErrorInfo": info }),
                    );
                }
            };
            let mut all_ran = true;
            for step in steps {
                match self.step(step, turn, &earlier, &mut all_ran).await {
                    After::GoOn => {}
                    ended => return ended,
                }
            }
        }
        After::GoOn
    }

    async fn step(&self, step: Step, turn: &str, earlier: &[String], all_ran: &mut bool) -> After {
        match step {
            Step::Say(text) => self.say(turn, &text),
            Step::SayByOutcome { ran, refused } => {
                self.say(turn, if *all_ran { &ran } else { &refused });
            }
            Step::Slowly { millis, text } => self.say_slowly(turn, &text, millis).await,
            Step::Think(text) => {
                let item = wire::reasoning(&wire::new_id(), &text);
                self.item("item/started", turn, &item);
                self.item("item/completed", turn, &item);
            }
            Step::Tools(calls) => {
                *all_ran = true;
                for call in calls {
                    match self.call(&call, turn).await {
                        Some(ran) => *all_ran &= ran,
                        None => {
                            let message = format!("{} is not played as Codex", call.name);
                            return After::Fails(
                                json!({ "message": message, "codexErrorInfo": "other" }),
                            );
                        }
                    }
                }
                self.used(turn);
            }
            Step::Recall => self.say(turn, &earlier.join("\n")),
            Step::Sleep { millis } => tokio::time::sleep(Duration::from_millis(millis)).await,
            Step::Burst { events, bytes } => {
                for number in 0..events {
                    self.out.room().await;
                    let mut text = format!("{number} ");
                    text.push_str(&"x".repeat(bytes.saturating_sub(text.len())));
                    self.say(turn, &text);
                }
            }
            Step::Stderr(text) => complain(&text),
            Step::Fail { status } => return After::Fails(wire::error(status)),
            Step::Garbage => self.out.raw(b"this is no JSON".to_vec()),
            Step::Unknown => self.tell("something/new", json!({ "threadId": self.thread_id() })),
            Step::Request { subtype, .. } => {
                let params = json!({ "threadId": self.thread_id(), "turnId": turn });
                let answer = self.ask(&subtype, params).await.unwrap_or_default();
                self.say(turn, &answer.to_string());
            }
            Step::Hang => std::future::pending().await,
            Step::Exit(code) => return After::Exits(Exit::Code(code)),
            Step::Crash => return After::Exits(Exit::Crash),
            // Codex starts no turn by itself while its goals are off.
            Step::Wake { .. } => {
                return After::Fails(
                    json!({ "message": "wake is not played as Codex", "codexErrorInfo": "other" }),
                );
            }
        }
        After::GoOn
    }

    /// Saves the prompt, and then echoes it.
    fn repeat(&self, prompt: &Prompt, turn: &str) {
        if let Some(thread) = self.thread.borrow_mut().as_mut()
            && let Err(error) = thread.begin(turn, &prompt.text)
        {
            complain(&format!("could not keep the thread: {error}"));
        }
        let item = wire::user_message(&wire::new_id(), prompt.client_id.as_deref(), &prompt.text);
        self.item("item/started", turn, &item);
        self.item("item/completed", turn, &item);
    }

    fn say(&self, turn: &str, text: &str) {
        let id = self.begin_message(turn);
        self.delta(turn, &id, text);
        self.item("item/completed", turn, &wire::agent_message(&id, text));
        self.used(turn);
    }

    async fn say_slowly(&self, turn: &str, text: &str, millis: u64) {
        let id = self.begin_message(turn);
        for word in text.split_inclusive(' ') {
            self.delta(turn, &id, word);
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
        self.item("item/completed", turn, &wire::agent_message(&id, text));
        self.used(turn);
    }

    fn begin_message(&self, turn: &str) -> String {
        let id = format!("msg_{}", wire::new_id());
        self.item("item/started", turn, &wire::agent_message(&id, ""));
        id
    }

    fn delta(&self, turn: &str, item: &str, text: &str) {
        let thread = self.thread_id();
        let delta = json!({ "threadId": thread, "turnId": turn, "itemId": item, "delta": text });
        self.tell("item/agentMessage/delta", delta);
    }

    /// Calls a tool. Returns whether it ran, or `None` when it is not simulated.
    async fn call(&self, call: &ToolStep, turn: &str) -> Option<bool> {
        let input: Value = serde_json::from_str(call.input.get()).unwrap_or_default();
        let cwd =
            self.thread.borrow().as_ref().map_or_else(String::new, |thread| thread.cwd.clone());
        let id = format!("call_{}", wire::new_id());
        let asks = call.manners == Manners::Good && (self.is_strict() || input["escalate"] == true);
        Some(match Tool::of(&call.name, &input, &cwd) {
            Tool::Unknown => return None,
            Tool::Command(script) => self.command(turn, &id, &script, &cwd, asks).await,
            Tool::Patch { path, content, changes } => {
                self.item("item/started", turn, &wire::file_change(&id, &changes, "inProgress"));
                let allowed = !asks || {
                    self.waits();
                    let method = "item/fileChange/requestApproval";
                    let asked = json!({ "reason": null, "grantRoot": null });
                    self.allowed(method, turn, &id, asked).await
                };
                let status = match allowed {
                    false => "declined",
                    true if tools::apply(&path, &content).is_ok() => "completed",
                    true => "failed",
                };
                self.item("item/completed", turn, &wire::file_change(&id, &changes, status));
                status == "completed"
            }
        })
    }

    async fn command(&self, turn: &str, id: &str, script: &str, cwd: &str, asks: bool) -> bool {
        let line = tools::shown(script);
        // A command that needs no approval has a process from its start.
        let started = (!asks).then_some(Ran { output: None, code: None });
        if asks {
            self.waits();
        }
        self.item("item/started", turn, &wire::command(id, &line, cwd, "inProgress", started));
        let asked = json!({ "kind": "command", "command": line, "cwd": cwd });
        let method = "item/commandExecution/requestApproval";
        if asks && !self.allowed(method, turn, id, asked).await {
            self.item("item/completed", turn, &wire::command(id, &line, cwd, "declined", None));
            return false;
        }
        plexus_fault::point!("sim.tool.before");
        let accepted_by = if asks { "user" } else { "nobody" };
        diary::note(id, "exec_command", &json!({ "command": script }), accepted_by);
        let (output, code) =
            tools::run(script, cwd).await.unwrap_or_else(|error| (error.to_string(), -1));
        plexus_fault::point!("sim.tool.after");
        let status = if code == 0 { "completed" } else { "failed" };
        let ran = Ran { output: Some(output), code: Some(code) };
        self.item("item/completed", turn, &wire::command(id, &line, cwd, status, Some(ran)));
        code == 0
    }

    /// Reports that the thread waits for an answer.
    fn waits(&self) {
        let waits = json!({ "type": "active", "activeFlags": ["waitingOnApproval"] });
        self.status(&self.thread_id(), waits);
    }

    /// Asks whether a call may run. Every answer but `accept` is a refusal.
    async fn allowed(&self, method: &str, turn: &str, item: &str, more: Value) -> bool {
        let thread = self.thread_id();
        let mut params = json!({ "threadId": thread, "turnId": turn, "itemId": item });
        for (name, value) in more.as_object().cloned().unwrap_or_default() {
            params[name] = value;
        }
        let answer = self.ask(method, params).await.unwrap_or_default();
        self.status(&thread, json!({ "type": "active", "activeFlags": [] }));
        answer["decision"] == "accept"
    }

    /// Counts a call of the model, and reports the usage.
    fn used(&self, turn: &str) {
        let usage = match self.thread.borrow_mut().as_mut() {
            Some(thread) => {
                if let Err(error) = thread.count() {
                    complain(&format!("could not keep the thread: {error}"));
                }
                thread.usage()
            }
            None => return,
        };
        let told = json!({ "threadId": self.thread_id(), "turnId": turn, "tokenUsage": usage });
        self.tell("thread/tokenUsage/updated", told);
    }

    fn item(&self, method: &str, turn: &str, item: &Value) {
        let thread = self.thread_id();
        self.tell(method, json!({ "item": item, "threadId": thread, "turnId": turn }));
    }

    fn status(&self, thread: &str, status: Value) {
        self.tell("thread/status/changed", json!({ "threadId": thread, "status": status }));
    }

    fn thread_id(&self) -> String {
        self.thread.borrow().as_ref().map_or_else(String::new, |thread| thread.id.clone())
    }

    fn is_strict(&self) -> bool {
        self.thread.borrow().as_ref().is_some_and(|thread| thread.policy == "untrusted")
    }

    fn earlier(&self) -> Vec<String> {
        self.thread.borrow().as_ref().map(super::thread::Thread::earlier).unwrap_or_default()
    }
}
