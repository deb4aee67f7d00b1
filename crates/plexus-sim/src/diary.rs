//! The simulator's own record of its actions: one line for each tool, before it runs.
//!
//! A test of a supervisor compares it with the allowed calls. It is written when `PLEXUS_SIM_DIARY`
//! names a file, in one write for each line, so that several processes can share it.

use std::fs::OpenOptions;
use std::io::Write as _;

use serde_json::{Value, json};

/// The variable that names the file.
const VARIABLE: &str = "PLEXUS_SIM_DIARY";

/// Records that a tool is about to run, with its input.
pub(crate) fn note(tool_use_id: &str, name: &str, input: &Value, accepted_by: &str) {
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    let line = json!({"pid": std::process::id(), "tool_use_id": tool_use_id, "name": name, "input": input, "accepted_by": accepted_by});
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    if let Err(error) = written {
        crate::run::complain(&format!("could not write {}: {error}", path.display()));
    }
}
