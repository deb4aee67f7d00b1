//! Turns that start without a prompt: from background tasks, which are Bash commands that outlive
//! their tool call and announce their end, and from wake-ups.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::bash::Shell;
use crate::run::complain;
use crate::sim::Sim;
use crate::tools::ToolOutput;
use crate::wire::line_id;

/// The running tasks of this process.
pub(crate) struct Tasks {
    running: RefCell<Vec<Task>>,
    news: mpsc::UnboundedSender<News>,
    /// Where their output goes; removed when the process ends.
    folder: PathBuf,
}

struct Task {
    id: String,
    run_id: String,
    tool_use_id: String,
    description: String,
    output_file: PathBuf,
    handle: AbortHandle,
}

/// An event that makes the process start a turn by itself.
pub(crate) enum News {
    /// A task has ended by itself.
    Ended { task_id: String, code: i32 },
    /// The time of a wake-up has come.
    WakeUp { text: String },
}

/// The turn that such an event starts.
pub(crate) struct Notification {
    pub(crate) summary: String,
    pub(crate) origin: Value,
}

impl Tasks {
    pub(crate) fn new(session_id: &str) -> (Self, mpsc::UnboundedReceiver<News>) {
        let (news, receiver) = mpsc::unbounded_channel();
        let folder =
            std::env::temp_dir().join(format!("plexus-sim-{session_id}-{}", std::process::id()));
        (Self { running: RefCell::default(), news, folder }, receiver)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.running.borrow().is_empty()
    }

    /// Ends every task and removes its output.
    pub(crate) fn end_all(&self) {
        for task in self.running.take() {
            task.handle.abort();
        }
        match fs::remove_dir_all(&self.folder) {
            Ok(()) => {}
            // Most processes never had a task.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => complain(&format!("could not remove {}: {error}", self.folder.display())),
        }
    }

    fn listed(&self) -> Vec<Value> {
        let one = |task: &Task| {
            json!({
                "task_id": task.id, "run_id": task.run_id, "task_type": "local_bash", "description": task.description,
            })
        };
        self.running.borrow().iter().map(one).collect()
    }

    fn take(&self, id: &str) -> Option<Task> {
        let mut running = self.running.borrow_mut();
        let position = running.iter().position(|task| task.id == id)?;
        Some(running.remove(position))
    }
}

impl Sim {
    /// Lists the running tasks.
    pub(crate) fn emit_tasks(&self) {
        self.emit_system("background_tasks_changed", json!({"tasks": self.tasks.listed()}));
    }

    /// Starts a command in the background; the result of its call says where its output goes.
    pub(crate) fn start_task(&self, tool_use_id: &str, input: &Value) -> ToolOutput {
        let text = |key: &str| input.get(key).and_then(Value::as_str);
        let Some(command) = text("command") else {
            return ToolOutput::use_error(
                "InputValidationError: The required parameter `command` is missing",
            );
        };
        let id = format!("b{}", &line_id().simple().to_string()[..8]);
        let output_file = self.tasks.folder.join(format!("{id}.output"));
        let shell = match start_shell(command, &self.cwd, &output_file) {
            Ok(shell) => shell,
            Err(error) => return ToolOutput::error(&format!("could not run bash: {error}")),
        };
        let news = self.tasks.news.clone();
        let task_id = id.clone();
        let waiting = tokio::spawn(async move {
            let code = shell.finish().await.map_or(-1, |output| output.code);
            // The loop ends only with the process.
            let _ = news.send(News::Ended { task_id, code });
        });
        let task = Task {
            id: id.clone(),
            run_id: line_id().simple().to_string()[..18].to_owned(),
            tool_use_id: tool_use_id.to_owned(),
            description: text("description").unwrap_or(command).to_owned(),
            output_file: output_file.clone(),
            handle: waiting.abort_handle(),
        };
        let started = json!({
            "task_id": task.id, "run_id": task.run_id, "tool_use_id": task.tool_use_id,
            "description": task.description, "is_backgrounded": true, "task_type": "local_bash",
        });
        self.tasks.running.borrow_mut().push(task);
        self.emit_tasks();
        self.emit_system("task_started", started);
        ToolOutput {
            content: json!(format!(
                "Command running in background with ID: {id}. Output is being written to: {}. You \
                 will be notified when \
                 it completes. To check interim output, use Read on that file path.",
                output_file.display()
            )),
            is_error: Some(false),
            detail: json!({
                "stdout": "", "stderr": "", "interrupted": false, "isImage": false, "noOutputExpected": false,
                "backgroundTaskId": id,
            }),
        }
    }

    /// Starts a turn that says `text` after a delay, as a schedule of the CLI does.
    pub(crate) fn wake_later(&self, after: Duration, text: String) {
        let news = self.tasks.news.clone();
        // The task is not awaited: it ends with the process.
        drop(tokio::spawn(async move {
            tokio::time::sleep(after).await;
            let _ = news.send(News::WakeUp { text });
        }));
    }

    /// Reports an event, and returns the notification for the model. `None` for a task that was
    /// stopped meanwhile.
    pub(crate) fn announce(&self, news: News) -> Option<Notification> {
        let (task_id, code) = match news {
            News::Ended { task_id, code } => (task_id, code),
            News::WakeUp { text } => {
                return Some(Notification { summary: text, origin: json!({"kind": "scheduled"}) });
            }
        };
        let task = self.tasks.take(&task_id)?;
        let (status, word) =
            if code == 0 { ("completed", "completed") } else { ("failed", "failed") };
        let summary =
            format!("Background command \"{}\" {word} (exit code {code})", task.description);
        self.emit_end(&task, status, status, &summary);
        let origin =
            json!({"kind": "task-notification", "producer": "session-task", "runId": task.run_id});
        Some(Notification { summary, origin })
    }

    /// Stops a task on request; this starts no turn.
    pub(crate) fn stop_task(&self, id: &str) -> Result<(), String> {
        let task = self.tasks.take(id).ok_or_else(|| format!("No task found with ID: {id}"))?;
        task.handle.abort();
        self.emit_end(&task, "killed", "stopped", &task.description);
        Ok(())
    }

    /// Stops every task, because the process ends.
    pub(crate) fn stop_all_tasks(&self) {
        let ids: Vec<String> =
            self.tasks.running.borrow().iter().map(|task| task.id.clone()).collect();
        for id in ids {
            if let Err(error) = self.stop_task(&id) {
                complain(&error);
            }
        }
    }

    fn emit_end(&self, task: &Task, status: &str, notified: &str, summary: &str) {
        let end_time = jiff::Timestamp::now().as_millisecond();
        self.emit_system(
            "task_updated",
            json!({
                "task_id": task.id, "run_id": task.run_id, "patch": {"status": status, "end_time": end_time},
            }),
        );
        self.emit_system(
            "task_notification",
            json!({
                "task_id": task.id, "run_id": task.run_id, "tool_use_id": task.tool_use_id, "status": notified,
                "output_file": task.output_file, "summary": summary,
            }),
        );
        self.emit_tasks();
    }
}

fn start_shell(command: &str, cwd: &Path, output_file: &Path) -> io::Result<Shell> {
    if let Some(folder) = output_file.parent() {
        fs::create_dir_all(folder)?;
    }
    Shell::start_into(command, cwd, fs::File::create(output_file)?)
}
