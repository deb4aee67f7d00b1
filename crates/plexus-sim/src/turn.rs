//! One turn: plays the steps of a prompt, message by message, tool by tool.
//!
//! The future that [`Sim::play`] returns may be dropped at any await: that is how a turn is
//! interrupted. What has to be reported then stands in [`TurnState`](crate::sim::TurnState), and a
//! tool that runs dies with the future that waits for it.

use std::collections::VecDeque;
use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::last::Last;
use crate::message::{Message, made_up, prompted_by, thinking};
use crate::result::{Ending, api_error_type};
use crate::rows::ParkedCall;
use crate::script::{self, Step};
use crate::sim::{Prompt, Sim};
use crate::wire::{ApiErrorMessage, Block, line_id, now};

/// What a script is closed with when it ends in a tool call: a model always has the last word.
const CLOSING_WORD: &str = "done";

/// How a turn came to its end by itself.
#[derive(Debug)]
pub(crate) enum TurnEnd {
    /// With a result.
    Ended(Ending),
    /// The process ends at once, without a result.
    Exit(u8),
    /// The process is killed, as if from outside.
    Crash,
}

/// What a turn is about.
pub(crate) enum Cause {
    Prompt(Prompt),
    /// A background task has ended.
    Task {
        summary: String,
    },
    /// An earlier process was ended while it asked about a call, which is asked about again.
    Woken(ParkedCall),
}

/// The position in the story.
struct Play<'a> {
    sim: &'a Sim,
    steps: VecDeque<Step>,
    message: Option<Message>,
    last: Last,
    /// The last text, which is also the result.
    said: String,
    /// Tools have run and the model has not spoken since.
    speechless: bool,
}

impl Sim {
    /// Plays one turn to its end.
    pub(crate) async fn play(&self, cause: Cause) -> TurnEnd {
        self.servers.start().await;
        plexus_fault::point!("sim.turn.begun");
        let prompts = self.turn.borrow().prompts.clone();
        let mut last = Last::default();
        if !matches!(cause, Cause::Woken(_)) {
            self.emit_init(&prompts).await;
        }
        let steps = match cause {
            Cause::Prompt(prompt) => {
                let steps =
                    script::steps_of(&prompt.text, self.transcript.borrow().prompts().len());
                if let Err(error) =
                    self.transcript.borrow_mut().add(&prompt.text, prompt.uuid.as_deref())
                {
                    return TurnEnd::Ended(Ending::Failed { error: error.to_string() });
                }
                match steps {
                    Ok(steps) => steps.into(),
                    Err(error) => {
                        return TurnEnd::Ended(Ending::Failed { error: error.to_string() });
                    }
                }
            }
            Cause::Task { summary } => VecDeque::from([Step::Say(summary)]),
            Cause::Woken(parked) => {
                plexus_fault::point!("sim.woken");
                let mut call = parked.call.to_tool_call();
                self.open_tool(&mut call);
                last = match self.run_tools(vec![call]).await {
                    Ok(last) => last,
                    Err(end) => return end,
                };
                // The turn is only told of now, and what came before counts as the earlier
                // process's.
                self.turn.borrow_mut().user_lines = 0;
                self.emit_init(&prompts).await;
                self.steps_behind(parked.steps_left)
            }
        };
        let mut play =
            Play { sim: self, steps, message: None, last, said: String::new(), speechless: true };
        play.play_all().await.unwrap_or_else(|end| end)
    }

    /// The last steps of the script that was begun last.
    fn steps_behind(&self, count: usize) -> VecDeque<Step> {
        let transcript = self.transcript.borrow();
        let Some((text, earlier)) = transcript.prompts().split_last() else {
            return VecDeque::new();
        };
        let mut steps = script::steps_of(text, earlier.len()).unwrap_or_default();
        steps.drain(..steps.len().saturating_sub(count));
        steps.into()
    }
}

impl Play<'_> {
    /// Plays all steps; an early end is the `Err`.
    async fn play_all(&mut self) -> Result<TurnEnd, TurnEnd> {
        while let Some(step) = self.steps.pop_front() {
            self.step(step).await?;
            self.sim.out.room().await;
        }
        if self.speechless {
            self.say(CLOSING_WORD.to_owned())?;
        }
        if let Some(message) = self.message.take() {
            message.end(self.sim, Some("end_turn"));
        }
        Ok(TurnEnd::Ended(Ending::Success { text: std::mem::take(&mut self.said) }))
    }

    async fn step(&mut self, step: Step) -> Result<(), TurnEnd> {
        match step {
            Step::Say(text) => {
                let text = self.last.fill_text(&text).map_err(failed)?;
                self.say(text)?;
            }
            Step::Slowly { millis, text } => self.say_slowly(Duration::from_millis(millis), text).await?,
            Step::SayByOutcome { ran, refused } => self.say(if self.last.all_ran { ran } else { refused })?,
            Step::Think(text) => self.add(&thinking(text))?,
            Step::Recall => {
                let prompts = self.sim.transcript.borrow().prompts().to_vec();
                let earlier = prompts.len().saturating_sub(1);
                let list: Vec<String> = prompts.into_iter().take(earlier).collect();
                self.say(if list.is_empty() { "Nothing was said before.".to_owned() } else { list.join("\n") })?;
            }
            Step::Tools(calls) => {
                let mut open = Vec::new();
                for call in calls {
                    let (block, mut call) = self.last.fill_call(call).map_err(failed)?;
                    self.add(&block)?;
                    self.sim.open_tool(&mut call);
                    open.push(call);
                }
                if let Some(message) = self.message.take() {
                    self.sim.note_calls(message.id(), &open, self.steps.len());
                    message.end(self.sim, Some("tool_use"));
                }
                self.last = self.sim.run_tools(open).await?;
                self.speechless = true;
                self.take_steering().map_err(failed)?;
            }
            Step::Burst { events, bytes } => {
                for n in 0..events {
                    self.say(burst_text(n, bytes))?;
                    self.sim.out.room().await;
                    // A burst that its reader keeps up with would otherwise never look up from its
                    // work.
                    if n % 256 == 255 {
                        tokio::task::yield_now().await;
                    }
                }
            }
            Step::Wake { millis, text } => self.sim.wake_later(Duration::from_millis(millis), text),
            Step::Sleep { millis } => tokio::time::sleep(Duration::from_millis(millis)).await,
            Step::Stderr(text) => {
                // Nobody may be reading it.
                let _ = writeln!(std::io::stderr(), "{text}");
            }
            Step::Request { subtype, id } => {
                let answer = self.sim.request(&subtype, id).await;
                self.say(answer.map_or_else(|| "nobody answered".to_owned(), |answer| answer.to_string()))?;
            }
            Step::Fail { status } => return Err(self.fail(status)),
            Step::Garbage => self.sim.out.raw(b"this line is not JSON {{{".to_vec()),
            Step::Unknown => self.sim.emit(&json!({
                "type": "from_the_future", "subtype": "unheard_of", "payload": {"nested": [1, 2, 3]},
                "session_id": self.sim.session_id,
            })),
            Step::Hang => std::future::pending().await,
            Step::Exit(code) => return Err(TurnEnd::Exit(code)),
            Step::Crash => return Err(TurnEnd::Crash),
        }
        Ok(())
    }

    fn say(&mut self, text: String) -> Result<(), TurnEnd> {
        self.said.clone_from(&text);
        self.speechless = false;
        self.add(&Block::Text { text })
    }

    /// Says a text word by word. Who interrupts it gets what was said so far.
    async fn say_slowly(&mut self, pause: Duration, text: String) -> Result<(), TurnEnd> {
        let sim = self.sim;
        let message = self.open_message()?;
        message.begin_speech(sim);
        for word in text.split_inclusive(' ') {
            message.speak(sim, word);
            sim.out.room().await;
            tokio::time::sleep(pause).await;
        }
        message.end_speech(sim);
        self.said = text;
        self.speechless = false;
        Ok(())
    }

    /// Adds a block to the open message.
    fn add(&mut self, block: &Block) -> Result<(), TurnEnd> {
        let sim = self.sim;
        self.open_message()?.add(sim, block);
        Ok(())
    }

    /// The open message, or a new one if the turn may have another.
    fn open_message(&mut self) -> Result<&mut Message, TurnEnd> {
        if self.message.is_none() {
            let so_far = self.sim.turn.borrow().bill.messages();
            if let Some(max) = self.sim.options.max_turns.filter(|max| so_far >= u64::from(*max)) {
                return Err(TurnEnd::Ended(Ending::MaxTurns { max }));
            }
        }
        Ok(self.message.get_or_insert_with(|| Message::begin(self.sim)))
    }

    /// Plays a failure of the model's API: a message that the CLI makes up, and the end of the
    /// turn.
    fn fail(&self, status: u16) -> TurnEnd {
        let text = format!("API Error: {status} the script says {status}");
        self.sim.emit_echo();
        self.sim.emit(&ApiErrorMessage {
            r#type: "assistant",
            message: json!({
                "id": line_id(), "type": "message", "role": "assistant", "model": "<synthetic>",
                "content": [{"type": "text", "text": text}], "stop_reason": "stop_sequence", "stop_sequence": "",
                "usage": {"input_tokens": 0, "output_tokens": 0}, "container": null, "context_management": null,
                "diagnostics": null, "stop_details": null,
            }),
            parent_tool_use_id: None,
            session_id: &self.sim.session_id,
            uuid: line_id(),
            timestamp: now(),
            error: "unknown",
            request_id: made_up("req_sim"),
            is_api_error_message: true,
            api_error_status: status,
            api_error_type: api_error_type(status),
            prompted_by: prompted_by(self.sim),
        });
        TurnEnd::Ended(Ending::ApiError { status, text })
    }

    /// Takes the prompts that came while the tools ran into this turn. What they ask for is done
    /// next.
    fn take_steering(&mut self) -> Result<(), script::ScriptError> {
        let waiting = self.sim.queue.take();
        for prompt in waiting.into_iter().rev() {
            let steps = match prompt.text.trim_start().starts_with(script::SCRIPT_PREFIX) {
                true => script::steps_of(&prompt.text, 0)?,
                false => vec![Step::Say(format!("Noted: {}", prompt.text))],
            };
            for step in steps.into_iter().rev() {
                self.steps.push_front(step);
            }
            self.sim.take_into_turn(&prompt);
        }
        Ok(())
    }
}

impl Sim {
    fn take_into_turn(&self, prompt: &Prompt) {
        self.emit_replay(prompt, Some(now()));
        if let Some(uuid) = &prompt.uuid {
            self.emit_lifecycle(uuid, "started");
            self.turn.borrow_mut().prompts.push(uuid.clone());
        }
    }
}

fn failed(error: impl std::fmt::Display) -> TurnEnd {
    TurnEnd::Ended(Ending::Failed { error: error.to_string() })
}

/// The `n`th text of a burst: its number, then filling up to the length that was asked for. The
/// number is never cut.
fn burst_text(n: u64, bytes: usize) -> String {
    let mut text = n.to_string();
    if text.len() + 1 < bytes {
        text.push(' ');
        text.extend(std::iter::repeat_n('x', bytes - text.len()));
    }
    text
}

/// The `content` of a line with one tool result.
pub(crate) fn result_block(id: &str, content: Value, is_error: Option<bool>) -> Value {
    let mut block = json!({"tool_use_id": id, "type": "tool_result", "content": content});
    if let (Some(is_error), Some(fields)) = (is_error, block.as_object_mut()) {
        fields.insert("is_error".to_owned(), json!(is_error));
    }
    json!([block])
}
