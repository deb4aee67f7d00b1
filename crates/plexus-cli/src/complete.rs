//! Sessions and approvals that a shell offers while a command is typed: those of the running
//! server.

use std::time::Duration;

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use plexus_client::{Client, ClientError};

use super::args::Global;
use super::find;
use plexus_render::sanitize;

/// How long a person who pressed Tab waits for the server; after that nothing is offered.
const PATIENCE: Duration = Duration::from_secs(2);

/// Offers sessions.
pub(super) fn sessions() -> ArgValueCandidates {
    ArgValueCandidates::new(|| look(async |client| named(&client).await))
}

/// Offers approvals that wait.
pub(super) fn approvals() -> ArgValueCandidates {
    ArgValueCandidates::new(|| look(async |client| waiting(&client).await))
}

/// Offers both.
pub(super) fn everything() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        look(async |client| {
            let mut both = named(&client).await?;
            both.extend(waiting(&client).await?);
            Ok(both)
        })
    })
}

/// Names of sessions, and their ids once none of the names fits.
async fn named(client: &Client) -> Result<Vec<CompletionCandidate>, ClientError> {
    let sessions = client.sessions().await?;
    let offers = sessions.iter().flat_map(|session| {
        let about = format!("{} in {}", session.status, session.working_dir.display());
        let about = sanitize::one_line(&about).into_owned();
        let name = CompletionCandidate::new(&session.name).help(Some(about.into()));
        let of = sanitize::one_line(&session.name).into_owned();
        let id = CompletionCandidate::new(session.id.to_string()).help(Some(of.into()));
        [name, id.hide(true)]
    });
    Ok(offers.collect())
}

async fn waiting(client: &Client) -> Result<Vec<CompletionCandidate>, ClientError> {
    let pending = client.pending(None).await?;
    let ids: Vec<String> = pending.iter().map(|approval| approval.id.to_string()).collect();
    let offers = pending.iter().zip(find::short_ids(&ids, &ids)).flat_map(|(approval, short)| {
        let about = format!("{} wants {}", approval.session_name, approval.tool_name);
        let about = sanitize::one_line(&about).into_owned();
        let whole = CompletionCandidate::new(approval.id.to_string());
        let short = CompletionCandidate::new(short).help(Some(about.clone().into()));
        [short, whole.help(Some(about.into())).hide(true)]
    });
    Ok(offers.collect())
}

/// Asks the server. Errors are dropped: a person who presses Tab wants no message.
fn look(
    ask: impl AsyncFnOnce(Client) -> Result<Vec<CompletionCandidate>, ClientError>,
) -> Vec<CompletionCandidate> {
    let Ok(data_dir) = data_dir(&std::env::args().collect::<Vec<_>>()).data_dir() else {
        return Vec::new();
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return Vec::new() };
    let asked =
        async { tokio::time::timeout(PATIENCE, ask(Client::from_data_dir(data_dir))).await };
    runtime.block_on(asked).ok().and_then(Result::ok).unwrap_or_default()
}

/// Finds the data directory in what is typed so far, which is not a whole command line yet.
fn data_dir(words: &[String]) -> Global {
    let named = words.iter().zip(words.iter().skip(1)).find_map(|(flag, value)| {
        let joined = flag.strip_prefix("--data-dir=").map(str::to_owned);
        joined.or_else(|| (flag == "--data-dir").then(|| value.clone()))
    });
    let named = named.or_else(|| std::env::var("PLEXUS_DATA_DIR").ok());
    Global { data_dir: named.filter(|dir| !dir.is_empty()).map(Into::into) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_directory_is_read_from_half_a_line() {
        let dir = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            data_dir(&words).data_dir.map(|dir| dir.display().to_string())
        };
        assert_eq!(dir(&["plexus", "--", "plexus", "--data-dir", "/d", "logs"]), Some("/d".into()));
        assert_eq!(dir(&["plexus", "--", "plexus", "--data-dir=/e", ""]), Some("/e".into()));
    }
}
