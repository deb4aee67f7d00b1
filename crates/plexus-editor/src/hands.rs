//! What the door and its sessions act with: the editor's pipe, the server, and tasks that report
//! back.

use std::future::Future;
use std::time::Duration;

use acp_lines::serve::Update;
use acp_lines::{RequestId, ServedLine};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::door::Cause;
use crate::server::Server;

/// Lines that are queued for an editor that does not read; the door waits while the queue is full.
const MAX_WAITING_LINES: usize = 256;

/// Tasks at the same time: requests, decisions and cancellations that wait for the server.
const MAX_TASKS: usize = 128;

/// How long requests that were read and decisions that were given may take after the editor has
/// left.
pub(crate) const LEAVE_GRACE: Duration = Duration::from_secs(5);

/// What the door and its sessions act with.
#[derive(Debug)]
pub(crate) struct Hands {
    server: Server,
    output: mpsc::Sender<String>,
    writing: JoinHandle<()>,
    causes: mpsc::Sender<Cause>,
    tasks: JoinSet<()>,
    questions: i64,
    knows_absence: bool,
}

impl Hands {
    /// Starts writing to stdout. Nothing else may write there.
    pub(crate) fn new(server: Server, causes: mpsc::Sender<Cause>) -> Self {
        let (output, mut lines) = mpsc::channel::<String>(MAX_WAITING_LINES);
        let writing = tokio::spawn(async move {
            let mut stdout = tokio::io::stdout();
            while let Some(line) = lines.recv().await {
                let written = async {
                    stdout.write_all(line.as_bytes()).await?;
                    stdout.flush().await
                };
                // The editor has closed its end: dropping the channel tells the door.
                if written.await.is_err() {
                    return;
                }
            }
        });
        Self {
            server,
            output,
            writing,
            causes,
            tasks: JoinSet::new(),
            questions: 0,
            knows_absence: false,
        }
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// Whether the loop has heard that the server is away, and has told the editor.
    pub(crate) fn knows_absence(&self) -> bool {
        self.knows_absence
    }

    pub(crate) fn note_absence(&mut self, is_away: bool) {
        self.knows_absence = is_away;
    }

    pub(crate) fn causes(&self) -> mpsc::Sender<Cause> {
        self.causes.clone()
    }

    /// Whether the editor has closed its end.
    pub(crate) fn is_gone(&self) -> bool {
        self.output.is_closed()
    }

    /// Writes a line.
    pub(crate) async fn say(&self, line: &ServedLine) {
        // An editor that has gone hears nothing; `is_gone` says so to the loop.
        let _gone = self.output.send(line.to_line()).await;
    }

    /// Tells what happens in a session.
    pub(crate) async fn tell(&self, session: &str, update: Update) {
        self.say(&ServedLine::Update { session_id: session.to_owned(), update }).await;
    }

    /// Whether there is room for one more task.
    pub(crate) fn has_room(&mut self) -> bool {
        self.reap();
        self.tasks.len() < MAX_TASKS
    }

    /// Runs a task beside the loop; its result enters the loop as a cause.
    pub(crate) fn later(
        &mut self,
        work: impl Future<Output = Cause> + Send + 'static,
    ) -> AbortHandle {
        self.reap();
        let causes = self.causes.clone();
        self.tasks.spawn(async move {
            // The loop is gone only when the program ends.
            let _gone = causes.send(work.await).await;
        })
    }

    /// Whether a task runs.
    pub(crate) fn is_at_work(&mut self) -> bool {
        self.reap();
        !self.tasks.is_empty()
    }

    /// Waits until a task has ended, if one runs.
    pub(crate) async fn one_is_done(&mut self) {
        let _how = self.tasks.join_next().await;
    }

    fn reap(&mut self) {
        while self.tasks.try_join_next().is_some() {}
    }

    /// Returns a number that no question had before.
    pub(crate) fn next_question(&mut self) -> i64 {
        self.questions += 1;
        self.questions
    }

    /// Ends politely: decisions that were given still reach the server, and lines the editor.
    pub(crate) async fn leave(mut self, causes: mpsc::Receiver<Cause>, until: Instant) {
        drop(causes);
        let settle = async {
            while self.tasks.join_next().await.is_some() {}
            drop(self.output);
            self.writing.await
        };
        // What takes longer waits for a server that is away.
        let _late = tokio::time::timeout_at(until, settle).await;
    }
}

/// A task that ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Task(JoinHandle<()>);

impl Task {
    pub(crate) fn start(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The id of a question on the wire.
pub(crate) fn question_id(question: i64) -> RequestId {
    RequestId::Number(question)
}
