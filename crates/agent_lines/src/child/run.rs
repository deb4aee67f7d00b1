//! The task that owns one child: it waits for the end of the child, stops it on request, and leaves
//! none of its processes behind.

use std::future;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use super::handle::{
    Completion, EVENT_CHANNEL_CAPACITY, EventStream, Item, LiveChild, RunError, TerminationHandle,
};
use super::output::{self, Output};
use super::stderr::{self, StderrTail};
use crate::LineParser;
use crate::process::ProcessTree;

/// How long to wait for the output of a child that has exited. Everything the child wrote is in the
/// pipe already; only a process that it left behind can keep the pipe open.
const OUTPUT_GRACE: Duration = Duration::from_millis(250);

/// The settings of a run.
pub(super) struct RunOptions {
    /// The text that is written to the standard input, which is then closed.
    pub(super) fed: Option<String>,
    pub(super) timeout: Option<Duration>,
    pub(super) max_line_bytes: usize,
    pub(super) termination_grace: Duration,
}

/// Takes over a child that was just started.
pub(super) fn start<P: LineParser + Send + 'static>(
    mut child: Child,
    tree: ProcessTree,
    parser: P,
    options: RunOptions,
) -> LiveChild<P::Event> {
    let started = Instant::now();
    let (items, events) = mpsc::channel(EVENT_CHANNEL_CAPACITY);
    let (completed, completion) = oneshot::channel();
    let (asked_sender, asked) = watch::channel(0);
    let (exited, exit_seen) = watch::channel(false);
    let termination = TerminationHandle(Arc::new(asked_sender));
    let stderr_tail = StderrTail::default();

    let mut stdin = child.stdin.take();
    let feeder =
        options.fed.and_then(|text| stdin.take().map(|stdin| tokio::spawn(feed(stdin, text))));
    let drain =
        child.stderr.take().map(|stderr| tokio::spawn(stderr::drain(stderr, stderr_tail.clone())));
    let output = child.stdout.take().map(|stdout| {
        let output = Output {
            parser,
            items: items.clone(),
            max_line_bytes: options.max_line_bytes,
            exited: exit_seen,
        };
        tokio::spawn(output::read(stdout, output))
    });
    let run = Run {
        child,
        tree,
        items,
        asked,
        // Held so that `asked` stays open after the caller has dropped its own sender.
        _termination: termination.clone(),
        exited,
        output,
        drain,
        feeder,
        timeout: options.timeout.map(|after| (after, started + after)),
        grace: options.termination_grace,
    };
    tokio::spawn(async move {
        // The send fails if the caller has dropped the completion, which it may.
        let _ = completed.send(run.run().await);
    });
    LiveChild {
        events: EventStream(events),
        completion: Completion(completion),
        stdin,
        termination,
        stderr_tail,
    }
}

/// One child and the tasks that serve it.
struct Run<E> {
    child: Child,
    tree: ProcessTree,
    /// Kept to notice when the caller is gone, and so that the stream does not end before the
    /// child.
    items: mpsc::Sender<Item<E>>,
    /// Counts how often the run was asked to end.
    asked: watch::Receiver<u32>,
    _termination: TerminationHandle,
    /// Tells the task that reads the output that the child is gone.
    exited: watch::Sender<bool>,
    output: Option<JoinHandle<()>>,
    drain: Option<JoinHandle<()>>,
    feeder: Option<JoinHandle<()>>,
    timeout: Option<(Duration, Instant)>,
    grace: Duration,
}

/// How far the child is on its way to its end.
#[derive(Clone, Copy)]
enum Stage {
    Running,
    /// The child was asked to end, and is killed at `kill_at`.
    Asked {
        kill_at: Instant,
    },
    Killed,
}

/// Why the loop continued.
enum Cause {
    Exited(std::io::Result<ExitStatus>),
    TimedOut,
    AskedToEnd,
    CallerGone,
    GraceOver,
}

impl<E> Run<E> {
    async fn run(mut self) -> Result<ExitStatus, RunError> {
        let mut stage = Stage::Running;
        let mut caller_gone = false;
        let mut timed_out = None;
        let status = loop {
            let cause = tokio::select! {
                status = self.child.wait() => Cause::Exited(status),
                () = at(self.timeout.map(|(_, at)| at)), if timed_out.is_none() => Cause::TimedOut,
                Ok(()) = self.asked.changed() => Cause::AskedToEnd,
                () = self.items.closed(), if !caller_gone => Cause::CallerGone,
                () = at(stage.kill_at()) => Cause::GraceOver,
            };
            stage = match (cause, stage) {
                (Cause::Exited(status), _) => break status,
                (Cause::TimedOut, _) => {
                    timed_out = self.timeout.map(|(after, _)| after);
                    self.ask(stage)
                }
                (Cause::CallerGone, _) => {
                    caller_gone = true;
                    self.ask(stage)
                }
                // Two requests may be seen as one change, so the count decides.
                (Cause::AskedToEnd, _) if *self.asked.borrow_and_update() == 1 => self.ask(stage),
                (Cause::AskedToEnd | Cause::GraceOver, _) => self.kill(),
            };
        };
        self.finish().await;
        match (status, timed_out) {
            (Ok(_), Some(after)) => Err(RunError::Timeout { after }),
            (Ok(status), None) => Ok(status),
            (Err(error), _) => Err(RunError::Wait(error)),
        }
    }

    /// Asks the child to end, unless it was already asked or killed.
    fn ask(&mut self, stage: Stage) -> Stage {
        match stage {
            Stage::Running => {
                self.tree.ask_to_end();
                Stage::Asked { kill_at: Instant::now() + self.grace }
            }
            asked_or_killed => asked_or_killed,
        }
    }

    /// Kills the child and everything that descends from it.
    fn kill(&mut self) -> Stage {
        self.tree.kill();
        Stage::Killed
    }

    /// Cleans up after the child's exit.
    async fn finish(self) {
        let Self { tree, items, exited, mut output, mut drain, feeder, .. } = self;
        if let Some(feeder) = feeder {
            feeder.abort();
        }
        // The pipes usually close together with the child. A reader that waits for a slow caller
        // also reaches this limit; it then continues with what is in the pipe.
        wait_a_little(&mut output).await;
        wait_a_little(&mut drain).await;
        tree.end_leftovers().await;
        exited.send_replace(true);
        wait_a_little(&mut drain).await;
        drop(items);
    }
}

impl Stage {
    fn kill_at(self) -> Option<Instant> {
        match self {
            Self::Asked { kill_at } => Some(kill_at),
            Self::Running | Self::Killed => None,
        }
    }
}

/// Waits a short time for a task that should be about to end, and clears it once it has ended.
async fn wait_a_little(task: &mut Option<JoinHandle<()>>) {
    if let Some(running) = task
        && timeout(OUTPUT_GRACE, running).await.is_ok()
    {
        *task = None;
    }
}

/// Waits until `instant`, or for ever if there is none.
async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => future::pending().await,
    }
}

/// Writes the text while the output is being read, then closes the input.
async fn feed(mut stdin: ChildStdin, text: String) {
    // A child that does not read its input says why on its other streams, so an error here adds
    // nothing.
    if stdin.write_all(text.as_bytes()).await.is_ok() {
        let _ = stdin.shutdown().await;
    }
}
