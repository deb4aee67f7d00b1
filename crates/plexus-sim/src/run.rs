//! The loop of one process: listens to stdin, signals and background tasks while at most one turn
//! plays.

use std::collections::VecDeque;
use std::future::Future;
use std::io::Write;
use std::pin::Pin;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;

use crate::background::{News, Notification};
use crate::cli::OutputFormat;
use crate::control::Order;
use crate::result::{Ending, ResultLine, TurnReport};
use crate::signals::{Signal, Signals};
use crate::sim::{Sim, ToolStage, TurnState};
use crate::stdin::Batch;
use crate::turn::{Cause, TurnEnd};
use crate::wire::{PromptedBy, ToolResultMeta, line_id};

/// How long a process that was told to go waits for its reader to take the last lines.
const FLUSH_BEFORE_DEATH: Duration = Duration::from_millis(500);

/// How much of a bad line is shown on stderr.
const MAX_SHOWN_CHARS: usize = 200;

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Code(u8),
    /// Killed, as if from outside.
    Crash,
}

/// What follows the end of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Afterwards {
    GoesOn,
    /// The process ends without saying that it is idle.
    Ends,
}

/// Everything that the loop waits for.
pub(crate) struct Inputs {
    /// `None` for a run that takes no lines on stdin.
    pub(crate) stdin: Option<mpsc::Receiver<Batch>>,
    pub(crate) tasks: mpsc::UnboundedReceiver<News>,
    pub(crate) signals: Signals,
}

type Turn<'a> = Pin<Box<dyn Future<Output = TurnEnd> + 'a>>;

/// Runs until there is nothing left to do, or something ends the process.
pub(crate) async fn run(sim: &Sim, mut inputs: Inputs) -> Exit {
    let mut turn: Option<Turn<'_>> = None;
    let mut notifications = VecDeque::new();
    let mut code = 0;
    let exit = loop {
        if turn.is_none() {
            turn = next_turn(sim, &mut notifications);
        }
        if turn.is_none()
            && sim.input_closed.get()
            && (sim.options.stream_input || sim.tasks.is_empty())
        {
            break Exit::Code(code);
        }
        tokio::select! {
            biased;
            signal = inputs.signals.next() => {
                let running = turn.take().is_some();
                let code = die_of(sim, signal, running);
                sim.tasks.end_all();
                // A reader that does not read must not keep a dying process alive.
                let _ = tokio::time::timeout(FLUSH_BEFORE_DEATH, sim.out.flush()).await;
                return Exit::Code(code);
            }
            batch = next_batch(&mut inputs.stdin) => match take_batch(sim, batch, &mut turn) {
                Ok(interrupted) => code = if interrupted { 1 } else { code },
                Err(exit) => break exit,
            },
            Some(news) = inputs.tasks.recv() => notifications.extend(sim.announce(news)),
            end = playing(&mut turn) => {
                turn = None;
                match end {
                    TurnEnd::Ended(ending) => {
                        code = u8::from(ending.is_error());
                        sim.finish_turn(&ending, Afterwards::GoesOn);
                    }
                    TurnEnd::Exit(code) => break Exit::Code(code),
                    TurnEnd::Crash => break Exit::Crash,
                }
            }
        }
    };
    drop(turn);
    sim.stop_all_tasks();
    sim.tasks.end_all();
    tokio::select! {
        () = sim.out.flush() => exit,
        signal = inputs.signals.next() => Exit::Code(die_of(sim, signal, false)),
    }
}

/// Starts the turn of the next prompt, or of the next task that has ended.
fn next_turn<'a>(sim: &'a Sim, notifications: &mut VecDeque<Notification>) -> Option<Turn<'a>> {
    let parked = sim.transcript.borrow_mut().take_parked();
    if let Some(parked) = parked {
        let id = line_id().to_string();
        sim.set_state("running");
        sim.emit_lifecycle(&id, "started");
        *sim.turn.borrow_mut() = TurnState { woken: Some(id), ..TurnState::new(Vec::new(), None) };
        return Some(Box::pin(sim.play(Cause::Woken(parked))));
    }
    let prompt = sim.queue.borrow_mut().pop_front();
    if let Some(prompt) = prompt {
        if let Some(uuid) = &prompt.uuid {
            sim.emit_lifecycle(uuid, "started");
        }
        let mut state = TurnState::new(prompt.uuid.iter().cloned().collect(), None);
        state.unechoed = Some(prompt.clone());
        *sim.turn.borrow_mut() = state;
        return Some(Box::pin(sim.play(Cause::Prompt(prompt))));
    }
    let Notification { summary, origin } = notifications.pop_front()?;
    sim.set_state("running");
    *sim.turn.borrow_mut() = TurnState::new(Vec::new(), Some(origin));
    Some(Box::pin(sim.play(Cause::Task { summary })))
}

/// Looks at lines that came together, and tells whether they ended the turn. `None` is the end of
/// stdin.
fn take_batch(sim: &Sim, batch: Option<Batch>, turn: &mut Option<Turn<'_>>) -> Result<bool, Exit> {
    let mut interrupted = false;
    let Some(batch) = batch else {
        sim.input_closed.set(true);
        sim.close_questions();
        return Ok(interrupted);
    };
    for line in batch {
        match sim.take_line(&line) {
            Order::Done => {}
            Order::Interrupt { request_id } => {
                // Dropping the turn stops it wherever it stands, and ends the tool it waits for.
                let running = turn.take().is_some();
                if let Some(ending) = sim.interrupt(&request_id, running) {
                    sim.finish_turn(&ending, Afterwards::GoesOn);
                    interrupted = true;
                }
            }
            Order::Die { reason } => {
                let line = String::from_utf8_lossy(&line);
                let shown: String = line.chars().take(MAX_SHOWN_CHARS).collect();
                complain(&format!("Error parsing streaming input line: {shown}: {reason}"));
                return Err(Exit::Code(1));
            }
        }
    }
    Ok(interrupted)
}

/// Does what the CLI does when it is told to go, and returns the exit code.
fn die_of(sim: &Sim, signal: Signal, turn_ran: bool) -> u8 {
    let stage =
        |wanted: ToolStage| sim.turn.borrow().open_tools.iter().any(|tool| tool.stage == wanted);
    match signal {
        Signal::Interrupt => {
            // Blocked in a permit tool it goes without a word; anywhere else it reports the end of
            // the turn.
            if turn_ran && (sim.asks_on_stdio() || !stage(ToolStage::Asking)) {
                sim.cancel_questions();
                let ending = sim.abort_turn();
                sim.finish_turn(&ending, Afterwards::Ends);
            }
            0
        }
        Signal::Terminate | Signal::HangUp => {
            if turn_ran && stage(ToolStage::Running) {
                report_killed_tools(sim);
            }
            if turn_ran {
                note_cost(sim);
            }
            if signal == Signal::Terminate { 143 } else { 129 }
        }
    }
}

/// Notes what a turn has cost that is not told to its end.
fn note_cost(sim: &Sim) {
    let bill = sim.turn.borrow().bill.clone();
    if let Err(error) = sim.transcript.borrow().end_turn(&bill, None) {
        complain(&error.to_string());
    }
}

/// The running tool was killed with us, and its result says so. There is no result of the turn.
fn report_killed_tools(sim: &Sim) {
    let open = std::mem::take(&mut sim.turn.borrow_mut().open_tools);
    for tool in open.into_iter().filter(|tool| tool.stage == ToolStage::Running) {
        if let Some(task) = tool.announced {
            sim.emit_announced_end(task, "stopped");
        }
        let block = crate::turn::result_block(&tool.id, Value::from("Exit code 137"), Some(true));
        let meta = ToolResultMeta {
            id: tool.id,
            non_execution_kind: None,
            permission_decision: tool.accepted,
        };
        sim.emit_user(block, Some(Value::from("Error: Exit code 137")), Some(meta));
    }
}

impl Sim {
    /// Writes the result of the turn and what follows it.
    fn finish_turn(&self, ending: &Ending, afterwards: Afterwards) {
        self.emit_echo();
        let turn = self.turn.replace(TurnState::new(Vec::new(), None));
        let result_index = self.results.get();
        self.results.set(result_index + 1);
        let report = TurnReport {
            session_id: &self.session_id,
            bill: &turn.bill,
            total: &self.bill.borrow(),
            num_turns: turn.user_lines + 1,
            duration: turn.started.elapsed(),
            permission_denials: turn.denials,
            origin: turn.origin,
            prompted_by: PromptedBy::new(&turn.prompts),
            result_index,
        };
        if let Err(error) =
            self.transcript.borrow().end_turn(&turn.bill, turn.last_message.as_deref())
        {
            complain(&error.to_string());
        }
        let line = ResultLine::new(ending, report);
        // What was folded into the turn is done before its result, the turn's own prompt after it.
        for uuid in turn.prompts.iter().skip(1) {
            self.emit_lifecycle(uuid, ending.lifecycle());
        }
        match (self.options.output, ending) {
            (OutputFormat::StreamJson | OutputFormat::Json, _) => self.out.line(&line),
            (OutputFormat::Text, Ending::Success { text } | Ending::ApiError { text, .. }) => {
                self.out.raw(text.clone().into_bytes());
            }
            (OutputFormat::Text, Ending::Failed { error }) => {
                self.out.raw(error.clone().into_bytes())
            }
            (OutputFormat::Text, Ending::MaxTurns { max }) => {
                self.out.raw(format!("Error: Reached max turns ({max})").into_bytes());
            }
            (OutputFormat::Text, Ending::InterruptedSpeech | Ending::InterruptedTools) => {
                self.out.raw(b"Execution error".to_vec());
            }
        }
        if let Some(uuid) = turn.prompts.first().or(turn.woken.as_ref()) {
            self.emit_lifecycle(uuid, ending.lifecycle());
        }
        if self.queue.borrow().is_empty() && afterwards == Afterwards::GoesOn {
            self.set_state("idle");
        }
    }
}

/// Plays the turn, or waits for ever when there is none.
async fn playing(turn: &mut Option<Turn<'_>>) -> TurnEnd {
    match turn {
        Some(turn) => turn.await,
        None => std::future::pending().await,
    }
}

/// The next lines of stdin. After its end there are none, and this waits for ever.
async fn next_batch(stdin: &mut Option<mpsc::Receiver<Batch>>) -> Option<Batch> {
    match stdin {
        Some(lines) => {
            let batch = lines.recv().await;
            if batch.is_none() {
                *stdin = None;
            }
            batch
        }
        None => std::future::pending().await,
    }
}

/// Writes to stderr, whether or not somebody reads it.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
