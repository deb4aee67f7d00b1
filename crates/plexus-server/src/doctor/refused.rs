//! What came from outside and was turned away: a code that was used twice, a phone that tried more
//! than it may, a button that was forged. Somebody may have to take a device back.

use std::path::Path;

use plexus_client::Client;
use plexus_client::wire::{ApprovalPageParams, AuditBody, AuditLine, RefusedAttempt};
use plexus_store::UnixMillis;

use super::Finding;

const WHAT: &str = "refused";

/// For how long an attempt is worth a line, in seconds.
const LATELY: i64 = 24 * 3_600;

/// Looks at the newest page of the audit. Nothing is said where nothing was refused.
pub(super) async fn look(dir: &Path, server_runs: bool) -> Option<Finding> {
    if !server_runs {
        return None;
    }
    let page = ApprovalPageParams::page(None);
    let lines = match Client::from_data_dir(dir).loopback().audit(&page).await {
        Ok(list) => list.lines,
        Err(error) => return Some(Finding::odd(WHAT, error.to_string(), error.hint())),
    };
    let since = UnixMillis::now().as_secs() - LATELY;
    let tried: Vec<RefusedAttempt> =
        lines.iter().filter(|line| line.at.0 >= since).filter_map(from_outside).collect();
    let newest = tried.first()?;
    let who = match (&newest.device, &newest.door) {
        (Some(device), _) => format!("the device {device:?}"),
        (None, Some(door)) => door.clone(),
        (None, None) => "somebody".to_owned(),
    };
    let count = tried.len();
    Some(Finding::odd(
        WHAT,
        format!("{count} from outside in the last day; the newest, by {who}: {}", newest.message),
        "was it you? plexus devices lists phones, and plexus devices revoke NAME takes one back; \
         plexus call loopback.audit shows all",
    ))
}

/// Reads an attempt of a device, or at a door that needs no token. What a session of ours tried is
/// told with that session.
fn from_outside(line: &AuditLine) -> Option<RefusedAttempt> {
    if line.kind != "refused" {
        return None;
    }
    match line.read() {
        Ok(AuditBody::Refused(tried)) if tried.device.is_some() || tried.door.is_some() => {
            Some(tried)
        }
        _ => None,
    }
}
