//! The program that a backend under test starts: this test program itself, in another role.
//!
//! If [`RECORD_DIR`] is in its environment it records how it was started, misbehaves as requested,
//! and then becomes the simulator of Claude Code, the scripted server of Codex if [`CODEX_SERVER`]
//! is set, the scripted agent of the Agent Client Protocol if [`ACP_HOME`] is set, or the real CLI
//! if [`REAL_CLI`] names one. So the tests need no other file than themselves.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::{SystemTime, UNIX_EPOCH},
};

use agent_api::{
    AgentWrapperRunRequest,
    conformance::{Launch, Scenario},
};
use serde::{Deserialize, Serialize};

use super::{acp_agent, codex_server};

/// The directory for the records of starts; setting it makes this program a stand-in.
pub(crate) const RECORD_DIR: &str = "AGENT_API_RECORD_DIR";
/// Makes it the scripted server of Codex instead of the simulator.
pub(crate) const CODEX_SERVER: &str = "AGENT_API_CODEX_SERVER";
/// The directory in which the scripted agent of the Agent Client Protocol keeps its sessions;
/// setting it makes this program that agent.
pub(crate) const ACP_HOME: &str = "AGENT_API_ACP_HOME";
/// The CLI to become instead of the simulator.
pub(crate) const REAL_CLI: &str = "AGENT_API_REAL_CLI";
/// Makes the stand-in start a process that outlives it and holds its output open.
pub(crate) const DESCENDANT: &str = "AGENT_API_DESCENDANT";
/// Makes it write this many texts by itself and succeed: many times faster than the full simulator.
pub(crate) const FLOOD: &str = "AGENT_API_FLOOD";
/// A secret to print on every stream in every wrong form before the agent says anything.
pub(crate) const LEAK: &str = "AGENT_API_LEAK";

/// The file extensions for the model and the directories that an agent was given after its start.
const MODEL: &str = "model";
const DIRS: &str = "dirs";

/// The circumstances of one start, as the process sees them.
#[derive(Serialize, Deserialize)]
struct Record {
    working_dir: PathBuf,
    env: BTreeMap<String, String>,
    args: Vec<String>,
}

/// Plays the stand-in and returns its exit code, or `None` if this process is the test program.
/// Call it first in `main`.
pub(crate) fn play_if_asked() -> Option<ExitCode> {
    let dir = env::var_os(RECORD_DIR)?;
    let record = record(Path::new(&dir));
    if env::var_os(DESCENDANT).is_some() {
        // This process is left behind on purpose, in the background of a shell: ending the agent
        // must also end it.
        let left = Command::new("sh").args(["-c", "sleep 100000 &"]).status().unwrap();
        assert!(left.success());
    }
    if let Ok(secret) = env::var(LEAK) {
        leak(&secret);
    }
    if let Ok(texts) = env::var(FLOOD) {
        flood(texts.parse().unwrap());
        return Some(ExitCode::SUCCESS);
    }
    let args = env::args_os().skip(1);
    match env::var_os(REAL_CLI) {
        Some(cli) => Some(become_the_real_cli(cli, args)),
        None if env::var_os(CODEX_SERVER).is_some() => {
            Some(codex_server::serve(&record.with_extension(MODEL)))
        }
        None if env::var_os(ACP_HOME).is_some() => {
            let (model, dirs) = (record.with_extension(MODEL), record.with_extension(DIRS));
            Some(acp_agent::serve(model, dirs))
        }
        None => Some(plexus_sim::main_with_args(args)),
    }
}

/// Configures the stand-in for what happens before the agent of a scenario speaks.
pub(crate) fn prepare(request: &mut AgentWrapperRunRequest, scenario: &Scenario) {
    let wish = match scenario {
        Scenario::Hang { .. } => (DESCENDANT, "1"),
        Scenario::Leak { secret, .. } => (LEAK, secret.as_str()),
        Scenario::UseTool { .. }
        | Scenario::Say { .. }
        | Scenario::NeedLeave { .. }
        | Scenario::Flood { .. }
        | Scenario::Fail { .. } => return,
    };
    request.env.insert(wish.0.to_owned(), wish.1.to_owned());
}

#[cfg(unix)]
fn become_the_real_cli(cli: OsString, args: impl Iterator<Item = OsString>) -> ExitCode {
    let error = std::os::unix::process::CommandExt::exec(
        Command::new(cli).args(args).env_remove(RECORD_DIR),
    );
    panic!("could not become the real CLI: {error}");
}

#[cfg(not(unix))]
fn become_the_real_cli(_: OsString, _: impl Iterator<Item = OsString>) -> ExitCode {
    panic!("a process cannot become another one here");
}

/// Records how this process was started, and returns the path of the record.
fn record(dir: &Path) -> PathBuf {
    let record = Record {
        working_dir: env::current_dir().unwrap(),
        env: env::vars().collect(),
        args: env::args().skip(1).collect(),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    // The name contains the time, so that starts have an order. The rename makes the record appear
    // all at once.
    let path = dir.join(format!("{now:030}-{}", std::process::id()));
    fs::write(path.with_extension("part"), serde_json::to_vec(&record).unwrap()).unwrap();
    fs::rename(path.with_extension("part"), path.with_extension("json")).unwrap();
    path
}

fn leak(secret: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{secret} is not json").unwrap();
    writeln!(out, "{{\"type\":\"{secret}\",\"{secret}\":\"{secret}\"}}").unwrap();
    writeln!(out, "{{\"type\":\"system\",\"subtype\":\"{secret}\",\"message\":\"{secret}\"}}")
        .unwrap();
    writeln!(out, "{{\"type\":\"system\",\"subtype\":\"notification\",\"message\":\"{secret}\"}}")
        .unwrap();
    writeln!(out, "{{\"type\":\"system\",\"subtype\":\"api_retry\",\"error\":\"{secret}\"}}")
        .unwrap();
    writeln!(out, "{{\"type\":\"{secret}").unwrap();
    out.flush().unwrap();
    eprintln!("password={secret} and again {secret}");
}

/// Writes texts as the CLI streams them, each as a delta and then whole, in messages of a hundred
/// texts.
fn flood(texts: u32) {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let session = r#""session_id":"11111111-1111-4111-8111-111111111111""#;
    writeln!(out, r#"{{"type":"system","subtype":"init",{session}}}"#).unwrap();
    for number in 0..texts {
        let (message, index) = (number / 100, number % 100);
        if index == 0 {
            let start = format!(
                r#"{{"type":"message_start","message":{{"id":"m{message}","content":[]}}}}"#
            );
            writeln!(out, r#"{{"type":"stream_event","event":{start},{session}}}"#).unwrap();
        }
        let text = format!("{number:0100}");
        let delta = format!(r#"{{"type":"text_delta","text":"{text}"}}"#);
        let part = format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#);
        writeln!(out, r#"{{"type":"stream_event","event":{part},{session}}}"#).unwrap();
        let content = format!(r#"[{{"type":"text","text":"{text}"}}]"#);
        writeln!(out, r#"{{"type":"assistant","message":{{"id":"m{message}","content":{content}}},{session}}}"#)
            .unwrap();
    }
    writeln!(out, r#"{{"type":"result","subtype":"success","is_error":false,{session}}}"#).unwrap();
    out.flush().unwrap();
}

/// Reads the records of starts, in order.
pub(crate) fn launches(dir: &Path) -> Vec<Launch> {
    let mut paths: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let launch = launch(&serde_json::from_slice(&fs::read(path).unwrap()).unwrap());
            // Some agents get their model, or their directories, in a line.
            let told = fs::read_to_string(path.with_extension(MODEL)).ok();
            let dirs = fs::read_to_string(path.with_extension(DIRS)).ok();
            let dirs = dirs.map(|dirs| serde_json::from_str(&dirs).unwrap());
            let add_dirs = dirs.unwrap_or(launch.add_dirs);
            Launch { model: launch.model.or(told), add_dirs, ..launch }
        })
        .collect()
}

/// Returns the directories of Codex, which come in one setting, as an array that is also JSON.
fn writable_roots(record: &Record) -> Vec<String> {
    let setting = |argument: &String| {
        let roots = argument.strip_prefix("sandbox_workspace_write.writable_roots=")?;
        serde_json::from_str(roots).ok()
    };
    record.args.iter().find_map(setting).unwrap_or_default()
}

fn launch(record: &Record) -> Launch {
    let values_of = |flag: &str| {
        // Everything after `--` is the prompt, whatever it looks like.
        let flags: Vec<_> = record.args.iter().take_while(|argument| *argument != "--").collect();
        let pairs = flags.windows(2).filter(|pair| pair[0] == flag);
        pairs.map(|pair| pair[1].clone()).collect::<Vec<_>>()
    };
    Launch {
        working_dir: record.working_dir.clone(),
        env: record.env.clone(),
        model: values_of("--model").pop(),
        add_dirs: values_of("--add-dir")
            .into_iter()
            .chain(writable_roots(record))
            .map(PathBuf::from)
            .collect(),
    }
}
