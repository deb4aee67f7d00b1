//! One turn: plays the steps of a script, asks, and reports how it ended.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{Agent, News, Prompt};
use crate::bash::Shell;
use crate::run::{Exit, complain};
use crate::script::{Manners, Step, ToolStep, steps_of};
use crate::{diary, tools};

/// The effect of a step on the turn.
enum After {
    GoOn,
    Fails(String),
    Exits(Exit),
}

impl Agent {
    /// Plays a turn until it ends or is stopped. Returns how the process exits, if it does.
    pub(super) async fn play(
        &self,
        prompt: Prompt,
        stopped: &mut oneshot::Receiver<News>,
    ) -> Option<Exit> {
        plexus_fault::point!("sim.turn.begun");
        let Prompt { id, text } = prompt;
        let ended = tokio::select! {
            biased;
            news = stopped => Err(news),
            ended = self.steps(&text) => Ok(ended),
        };
        // Nobody waits for the questions of a turn that is over.
        self.questions.borrow_mut().clear();
        match ended {
            Ok(After::Exits(exit)) => return Some(exit),
            Ok(After::GoOn) => self.answer(&id, json!({ "stopReason": "end_turn" })),
            Ok(After::Fails(error)) => self.refuse(&id, -32603, &error),
            Err(Ok(News::Closed)) => return Some(Exit::Code(0)),
            Err(Ok(News::Cancelled) | Err(_)) => {
                self.answer(&id, json!({ "stopReason": "cancelled" }));
            }
        }
        None
    }

    async fn steps(&self, prompt: &str) -> After {
        let earlier = match self.conversation.borrow_mut().as_mut() {
            Some(conversation) => {
                if let Err(error) = conversation.begin(prompt) {
                    complain(&format!("could not keep the conversation: {error}"));
                }
                conversation.earlier()
            }
            None => Vec::new(),
        };
        let steps = match steps_of(prompt, earlier.len()) {
            Ok(steps) => steps,
            Err(error) => return After::Fails(error.to_string()),
        };
        let mut all_ran = true;
        for step in steps {
            match self.step(step, &earlier, &mut all_ran).await {
                After::GoOn => {}
                ended => return ended,
            }
        }
        After::GoOn
    }

    async fn step(&self, step: Step, earlier: &[String], all_ran: &mut bool) -> After {
        match step {
            Step::Say(text) => self.say("agent_message_chunk", &text),
            Step::SayByOutcome { ran, refused } => {
                self.say("agent_message_chunk", if *all_ran { &ran } else { &refused });
            }
            Step::Slowly { millis, text } => {
                let message = new_id();
                for word in text.split_inclusive(' ') {
                    self.piece("agent_message_chunk", word, &message);
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                }
            }
            Step::Think(text) => self.say("agent_thought_chunk", &text),
            Step::Tools(calls) => {
                *all_ran = true;
                for call in calls {
                    match self.call(&call).await {
                        Some(ran) => *all_ran &= ran,
                        None => return not_played(&call.name),
                    }
                }
            }
            Step::Recall => self.say("agent_message_chunk", &earlier.join("\n")),
            Step::Sleep { millis } => tokio::time::sleep(Duration::from_millis(millis)).await,
            Step::Burst { events, bytes } => {
                for number in 0..events {
                    self.out.room().await;
                    let mut text = format!("{number} ");
                    text.push_str(&"x".repeat(bytes.saturating_sub(text.len())));
                    self.say("agent_message_chunk", &text);
                }
            }
            Step::Stderr(text) => complain(&text),
            Step::Fail { status } => return After::Fails(format!("unexpected status {status}")),
            Step::Garbage => self.out.raw(b"this is no JSON".to_vec()),
            Step::Unknown => self.update(json!({ "sessionUpdate": "something_new" })),
            Step::Request { subtype, .. } => {
                let params = json!({ "sessionId": self.session() });
                let answer = self.ask(&subtype, params).await.unwrap_or_default();
                self.say("agent_message_chunk", &answer.to_string());
            }
            Step::Hang => std::future::pending().await,
            Step::Exit(code) => return After::Exits(Exit::Code(code)),
            Step::Crash => return After::Exits(Exit::Crash),
            Step::Wake { .. } => return not_played("wake"),
        }
        After::GoOn
    }

    /// Says a message as a whole.
    fn say(&self, kind: &str, text: &str) {
        self.piece(kind, text, &new_id());
    }

    fn piece(&self, kind: &str, text: &str, message: &str) {
        let content = json!({ "type": "text", "text": text });
        self.update(json!({ "sessionUpdate": kind, "content": content, "messageId": message }));
    }

    /// Calls a tool. Returns whether it ran, or `None` when it is not simulated.
    async fn call(&self, call: &ToolStep) -> Option<bool> {
        let kind = match call.name.as_str() {
            "Bash" => "execute",
            "Read" => "read",
            "Write" | "Edit" => "edit",
            _ => return None,
        };
        let input: Value = serde_json::from_str(call.input.get()).unwrap_or_default();
        let number = self.calls.replace(self.calls.get() + 1);
        let id = format!("call_{}_{number}", new_id());
        let title = input["command"].as_str().or(input["file_path"].as_str()).unwrap_or_default();
        let meta = json!({ "claudeCode": { "toolName": call.name } });
        self.update(json!({
            "sessionUpdate": "tool_call", "toolCallId": id, "title": title, "kind": kind,
            "status": "pending", "rawInput": input, "_meta": meta,
        }));
        let accepted_by = match call.manners {
            Manners::Good => {
                let told = json!({
                    "toolCallId": id, "title": title, "kind": kind, "rawInput": input,
                    "_meta": meta,
                });
                self.is_allowed(told).await.then_some("user")
            }
            Manners::Overrules | Manners::Lies => Some("nobody"),
        };
        let Some(accepted_by) = accepted_by else {
            self.ended(&id, "failed", "The user declined to run this tool.");
            return Some(false);
        };
        let (output, is_error) = self.really_run(&id, call, &input, accepted_by).await;
        self.ended(&id, if is_error { "failed" } else { "completed" }, &output);
        Some(!is_error)
    }

    /// Asks whether a call may run. Every answer but `allow` is a refusal.
    async fn is_allowed(&self, call: Value) -> bool {
        let options = json!([
            { "optionId": "allow", "name": "Allow", "kind": "allow_once" },
            { "optionId": "always", "name": "Always", "kind": "allow_always" },
            { "optionId": "reject", "name": "Reject", "kind": "reject_once" },
        ]);
        let params = json!({ "sessionId": self.session(), "toolCall": call, "options": options });
        let answer = self.ask("session/request_permission", params).await.unwrap_or_default();
        answer["outcome"]["outcome"] == "selected" && answer["outcome"]["optionId"] == "allow"
    }

    async fn really_run(
        &self,
        id: &str,
        call: &ToolStep,
        input: &Value,
        accepted_by: &str,
    ) -> (String, bool) {
        plexus_fault::point!("sim.tool.before");
        diary::note(id, &call.name, input, accepted_by);
        let cwd = self.conversation.borrow().as_ref().map(|it| it.cwd.clone()).unwrap_or_default();
        let ran = match call.name.as_str() {
            "Bash" => {
                let script = input["command"].as_str().unwrap_or_default();
                match Shell::start(script, Path::new(&cwd)) {
                    Ok(shell) => match shell.finish().await {
                        Ok(output) => (output.stdout + &output.stderr, output.code != 0),
                        Err(error) => (error.to_string(), true),
                    },
                    Err(error) => (error.to_string(), true),
                }
            }
            name => {
                let output = tools::file(name, input, Path::new(&cwd));
                let text = output.content.as_str().map(str::to_owned);
                let text = text.unwrap_or_else(|| output.content.to_string());
                (text, output.is_error == Some(true))
            }
        };
        plexus_fault::point!("sim.tool.after");
        ran
    }

    fn ended(&self, id: &str, status: &str, output: &str) {
        let content = json!([{ "type": "content", "content": { "type": "text", "text": output } }]);
        self.update(json!({
            "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status,
            "content": content,
        }));
    }
}

fn new_id() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

fn not_played(what: &str) -> After {
    After::Fails(format!("{what} is not played as an agent of the Agent Client Protocol"))
}
