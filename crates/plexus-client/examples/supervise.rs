//! Supervises one session: allows it to write files in its own directory and nothing else.
//!
//! `cargo run -p plexus-client --example supervise DIRECTORY PROMPT`; a server must run (`plexus serve`).

#![allow(clippy::print_stdout, reason = "an example shows what it sees")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use plexus_client::{Approval, Client, CreateSession, Event, Followed, Respond, Status};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, prompt] = arguments.as_slice() else {
        return Err("usage: supervise DIRECTORY PROMPT".into());
    };
    let directory = Path::new(directory).canonicalize()?;
    let client = Client::from_data_dir(data_dir()?);
    let name = format!("rust-{}", std::process::id());
    let session = client.create(&CreateSession::new(name, &directory)).await?;
    client.chat_async(session, prompt).await?;

    // The stream reconnects by itself, and neither loses nor repeats an event.
    let mut events = client.follow(Some(session), None);
    while let Some(item) = events.next().await {
        let Followed::Event(event) = item? else { continue };
        println!("{} {:?}", event.seq, event.event);
        match event.event {
            Event::AwaitingApproval { .. } => {
                for approval in client.pending(Some(session)).await? {
                    client.respond(&decide(&approval, &directory)).await?;
                }
            }
            Event::Complete { .. } => return Ok(ExitCode::SUCCESS),
            // An error may be one line that could not be read, or the end.
            Event::Error { .. } => {
                if matches!(
                    client.session(session).await?.status,
                    Status::Failed | Status::Cancelled
                ) {
                    return Ok(ExitCode::FAILURE);
                }
            }
            _ => {}
        }
    }
    Ok(ExitCode::FAILURE)
}

/// The answer carries the digest of the input that was looked at here, so it cannot count for another.
fn decide(approval: &Approval, directory: &Path) -> Respond {
    let path = directory.join(approval.input["file_path"].as_str().unwrap_or("/"));
    // The folder is looked up on the disk: `..` and links lead where they lead.
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    if approval.tool_name == "Write" && folder.is_some_and(|folder| folder.starts_with(directory)) {
        return Respond::allow(approval);
    }
    let denial = Respond::deny(approval.id, "this program allows nothing but writing files here");
    Respond { input_digest: Some(approval.input_digest.clone()), ..denial }
}

fn data_dir() -> Result<PathBuf, Box<dyn Error>> {
    let of = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let usual = || {
        Some(
            of("XDG_STATE_HOME").or_else(|| Some(of("HOME")?.join(".local/state")))?.join("plexus"),
        )
    };
    of("PLEXUS_DATA_DIR").or_else(usual).ok_or_else(|| "set HOME or PLEXUS_DATA_DIR".into())
}
