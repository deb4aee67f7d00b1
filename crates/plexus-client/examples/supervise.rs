//! Supervises one session: allows it to write files in its own directory and nothing else.
//!
//! `cargo run -p plexus-client --example supervise DIRECTORY PROMPT`; a server must run
//! (`plexus serve`).

#![allow(clippy::print_stdout, reason = "an example shows what it sees")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use futures::StreamExt as _;
use plexus_client::wire::{
    Approval, ChatEvent, ChatParams, CreateParams, FollowParams, Object, PollParams, RespondParams,
    SessionRef,
};
use plexus_client::{Client, FollowItem};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, prompt] = arguments.as_slice() else {
        return Err("usage: supervise DIRECTORY PROMPT".into());
    };
    let directory = Path::new(directory).canonicalize()?;
    let client = Client::from_data_dir(data_dir()?);
    let name = format!("rust-{}", std::process::id());
    let session = client.agents().create(&CreateParams::new(name, &directory)).await?.id;
    let chat = ChatParams::new(SessionRef::id(session), prompt);
    client.agents().chat_async(&chat).await?;

    // The stream reconnects by itself, and neither loses nor repeats an event.
    let mut events = client.follow(FollowParams::of(session));
    while let Some(item) = events.next().await {
        let FollowItem::Event(event) = item? else { continue };
        println!("{} {:?}", event.at.event.seq, event.event);
        match event.event {
            ChatEvent::AwaitingApproval { .. } => {
                for approval in client.pending(Some(session)).await? {
                    client.loopback().respond(&decide(&approval, &directory)).await?;
                }
            }
            ChatEvent::Complete { .. } => return Ok(ExitCode::SUCCESS),
            // An agent goes on after a line that could not be read: an error ends the chat only
            // when it is the chat's last event.
            ChatEvent::Error { .. } => {
                let mut rest = PollParams::new(session);
                rest.chat = Some(event.at.chat);
                rest.from_seq = Some(event.at.event.seq);
                let rest = client.agents().poll(&rest).await?;
                let is_over = rest.status.is_and(|status| !status.is_busy());
                if is_over && rest.events.len() == 1 {
                    return Ok(ExitCode::FAILURE);
                }
            }
            _ => {}
        }
    }
    Ok(ExitCode::FAILURE)
}

/// Decides an approval. The answer carries the digest of the input that was judged here, so it
/// cannot count for another input.
fn decide(approval: &Approval, directory: &Path) -> RespondParams {
    let input: Object = approval.input.read().unwrap_or_default();
    let path = input.get("file_path").and_then(|path| path.as_str()).unwrap_or("/");
    // The folder is looked up on the disk, so that `..` and links are resolved.
    let folder = directory.join(path).parent().and_then(|folder| folder.canonicalize().ok());
    if approval.tool_name == "Write" && folder.is_some_and(|folder| folder.starts_with(directory)) {
        return RespondParams::allow(approval);
    }
    let words = "this program allows nothing but writing files here";
    let mut denial = RespondParams::deny(approval.id, words);
    denial.input_digest = Some(approval.input_digest.clone());
    denial
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
