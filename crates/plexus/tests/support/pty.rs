//! A program in a pseudo-terminal, as a person sees it: keys in, text out.
#![allow(clippy::expect_used, reason = "in a test, a panic is the answer")]

use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

/// How long anything may take on a loaded machine before a test says what did not come.
const DEADLINE: Duration = Duration::from_secs(180);

/// A running program.
pub(crate) struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    keys: Box<dyn Write + Send>,
    seen: Arc<(Mutex<Seen>, Condvar)>,
    /// Where the next wait begins to look.
    from: usize,
    _master: Box<dyn MasterPty + Send>,
}

#[derive(Default)]
struct Seen {
    bytes: Vec<u8>,
    ended: bool,
}

impl Terminal {
    /// Starts `plexus` in a directory, with these variables and `PATH`, and a terminal of this many
    /// columns.
    pub(crate) fn spawn(
        work: &Path,
        columns: u16,
        env: &[(&str, &str)],
        arguments: &[&str],
    ) -> Self {
        let size = PtySize { rows: 24, cols: columns, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).expect("a pseudo-terminal");
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_plexus"));
        command.args(arguments);
        command.cwd(work);
        command.env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("TERM", "xterm");
        for (name, value) in env {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).expect("plexus runs");
        drop(pair.slave);
        let seen = Arc::new((Mutex::new(Seen::default()), Condvar::new()));
        let mut screen = pair.master.try_clone_reader().expect("the terminal's output");
        let writer = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut buffer = [0_u8; 4096];
            loop {
                // The end of a pseudo-terminal is an error, not zero bytes.
                let count = screen.read(&mut buffer).unwrap_or(0);
                let mut seen = writer.0.lock().expect("no panic holds it");
                seen.bytes.extend_from_slice(&buffer[..count]);
                seen.ended = count == 0;
                writer.1.notify_all();
                if count == 0 {
                    return;
                }
            }
        });
        let keys = pair.master.take_writer().expect("the terminal's keyboard");
        Self { child, keys, seen, from: 0, _master: pair.master }
    }

    /// Waits until the program has shown this, after what was waited for before.
    pub(crate) fn wait_for(&mut self, what: &str) {
        let deadline = Instant::now() + DEADLINE;
        let (lock, changed) = &*self.seen;
        let mut seen = lock.lock().expect("no panic holds it");
        loop {
            let found = seen.bytes[self.from..]
                .windows(what.len())
                .position(|window| window == what.as_bytes());
            if let Some(at) = found {
                self.from += at + what.len();
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let shown = String::from_utf8_lossy(&seen.bytes).into_owned();
            assert!(
                !seen.ended && !left.is_zero(),
                "{what:?} did not come; the terminal shows:\n{shown}"
            );
            seen = changed.wait_timeout(seen, left).expect("no panic holds it").0;
        }
    }

    /// Types.
    pub(crate) fn send(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the terminal is there");
        self.keys.flush().expect("the terminal is there");
    }

    /// Waits for the question about a call, and answers.
    pub(crate) fn answer(&mut self, question: &str, keys: &str) {
        self.wait_for(question);
        self.send(keys);
    }

    /// Waits for the end; returns the exit code and everything that was shown.
    pub(crate) fn finish(mut self) -> (u32, String) {
        let deadline = Instant::now() + DEADLINE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it can be watched") {
                break status;
            }
            assert!(
                Instant::now() < deadline,
                "the program did not end; the terminal shows:\n{}",
                self.shown()
            );
            std::thread::sleep(std::time::Duration::from_millis(10));
        };
        let (lock, changed) = &*self.seen;
        let mut seen = lock.lock().expect("no panic holds it");
        while !seen.ended && Instant::now() < deadline {
            seen = changed
                .wait_timeout(seen, std::time::Duration::from_millis(100))
                .expect("no panic holds it")
                .0;
        }
        drop(seen);
        (status.exit_code(), self.shown())
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.seen.0.lock().expect("no panic holds it").bytes).into_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has usually ended already.
        let _ended = self.child.kill();
    }
}
