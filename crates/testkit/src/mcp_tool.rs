//! A minimal MCP server on stdin and stdout, as an agent starts one that a session was given. Its
//! one tool, `put`, appends a secret of its environment to a file.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

/// What only the server may know: it is in its environment.
pub const SECRET: &str = "kept-between-the-two";

/// The name that a session gives it.
pub const NAME: &str = "given";

/// Writes its program into a folder, and returns `mcp_servers` of a session that has it. Each call
/// of the tool appends [`SECRET`] to `file`.
pub fn servers(folder: &Path, file: &Path) -> Result<Value> {
    let program = folder.join("mcp_tool.py");
    std::fs::write(&program, PROGRAM)?;
    let env = json!({"SECRET": SECRET, "FILE": file});
    let server = json!({"type": "stdio", "command": "python3", "args": [program], "env": env});
    Ok(json!({NAME: server}))
}

/// Returns the processes whose arguments show the secret.
#[cfg(target_os = "linux")]
pub fn shown_in_arguments() -> Result<Vec<crate::process::Process>> {
    let mut found = crate::process::all()?;
    found.retain(|process| process.command.contains(SECRET));
    Ok(found)
}

const PROGRAM: &str = r#"import json, os, sys

TOOL = {"name": "put", "description": "Puts something.",
        "inputSchema": {"type": "object", "properties": {"note": {"type": "string"}}}}

def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "given", "version": "1"}}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        with open(os.environ["FILE"], "a") as file:
            file.write(os.environ["SECRET"] + "\n")
        return {"content": [{"type": "text", "text": "put"}]}
    return {}

for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked and "method" in asked:
        result = answer(asked["method"], asked.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"#;
