//! Statement 33: resuming and forking never start a new session by accident.

use serde_json::{Value, json};

use super::{
    Statement, Subject,
    tools::{Ended, Stop, ensure, need, request, run_to_end, say, statement},
};
use crate::{
    NO_SESSION_FOUND, SESSION_NOT_FOUND,
    capabilities::{SESSION_FORK, SESSION_HANDLE, SESSION_RESUME},
};

pub(super) const STATEMENTS: &[Statement] = &[
    statement!(33, resuming_the_last_session_continues_it),
    statement!(33, resuming_by_id_continues_that_session),
    statement!(33, forking_the_last_session_leaves_it_as_it_is),
    statement!(33, forking_by_id_leaves_that_session_as_it_is),
    statement!(33, no_session_to_resume_is_a_failure_and_no_new_session),
    statement!(33, no_session_to_fork_is_a_failure_and_no_new_session),
    statement!(33, an_unknown_session_is_a_failure),
];

/// An id in the common form that no session has.
const NOBODYS_ID: &str = "00000000-0000-4000-8000-00000000dead";

fn last() -> Value {
    json!({"selector": "last"})
}

fn by_id(id: &str) -> Value {
    json!({"selector": "id", "id": id})
}

/// Runs a prompt that says hello, in the session that `choice` selects.
async fn hello(subject: &dyn Subject, choice: Option<(&str, Value)>) -> Result<Ended, Stop> {
    let mut request = request(subject, &say("hello"))?;
    if let Some((key, value)) = choice {
        request = request.with_extension(key, value);
    }
    run_to_end(&subject.backend(), request).await
}

fn session_of(ended: &Ended) -> Result<String, Stop> {
    let data = ended.success()?.data.as_ref();
    let id = data.and_then(|data| data["session"]["id"].as_str());
    id.map(str::to_owned)
        .ok_or_else(|| Stop::Broken(format!("the completion names no session: {data:?}")))
}

async fn continues(
    subject: &dyn Subject,
    key: &str,
    choose: fn(&str) -> Value,
) -> Result<(String, String), Stop> {
    let backend = subject.backend();
    need(&backend, key)?;
    need(&backend, SESSION_HANDLE)?;
    // There are two sessions, so that the last one is not the only one.
    hello(subject, None).await?;
    let earlier = session_of(&hello(subject, None).await?)?;
    let later = session_of(&hello(subject, Some((key, choose(&earlier)))).await?)?;
    Ok((earlier, later))
}

async fn resuming_the_last_session_continues_it(subject: &dyn Subject) -> Result<(), Stop> {
    let (earlier, later) = continues(subject, SESSION_RESUME, |_| last()).await?;
    ensure!(earlier == later, "{earlier} was the last session, {later} was resumed");
    Ok(())
}

async fn resuming_by_id_continues_that_session(subject: &dyn Subject) -> Result<(), Stop> {
    let (earlier, later) = continues(subject, SESSION_RESUME, by_id).await?;
    ensure!(earlier == later, "{earlier} was asked for, {later} was resumed");
    Ok(())
}

async fn forking_the_last_session_leaves_it_as_it_is(subject: &dyn Subject) -> Result<(), Stop> {
    let (earlier, later) = continues(subject, SESSION_FORK, |_| last()).await?;
    ensure!(earlier != later, "a fork of {earlier} has the same id");
    Ok(())
}

async fn forking_by_id_leaves_that_session_as_it_is(subject: &dyn Subject) -> Result<(), Stop> {
    let (earlier, later) = continues(subject, SESSION_FORK, by_id).await?;
    ensure!(earlier != later, "a fork of {earlier} has the same id");
    Ok(())
}

async fn nothing_to_continue(subject: &dyn Subject, key: &str) -> Result<(), Stop> {
    need(&subject.backend(), key)?;
    let ended = hello(subject, Some((key, last()))).await?;
    let reason = ended.failure()?;
    ensure!(reason == NO_SESSION_FOUND, "the reason is {reason:?}");
    ensure!(ended.text().is_empty(), "an agent spoke all the same");
    // If the first attempt had started a session, the second would find it.
    let again = hello(subject, Some((key, last()))).await?;
    ensure!(again.failure()? == NO_SESSION_FOUND, "the attempt itself has left a session behind");
    Ok(())
}

async fn no_session_to_resume_is_a_failure_and_no_new_session(
    subject: &dyn Subject,
) -> Result<(), Stop> {
    nothing_to_continue(subject, SESSION_RESUME).await
}

async fn no_session_to_fork_is_a_failure_and_no_new_session(
    subject: &dyn Subject,
) -> Result<(), Stop> {
    nothing_to_continue(subject, SESSION_FORK).await
}

async fn an_unknown_session_is_a_failure(subject: &dyn Subject) -> Result<(), Stop> {
    let capabilities = subject.backend().capabilities();
    let keys: Vec<_> = [SESSION_RESUME, SESSION_FORK]
        .into_iter()
        .filter(|key| capabilities.contains(key))
        .collect();
    if keys.is_empty() {
        return Err(Stop::DoesNotApply("sessions are not advertised".to_owned()));
    }
    for key in keys {
        for id in [NOBODYS_ID, "not an id at all"] {
            let ended = hello(subject, Some((key, by_id(id)))).await?;
            let reason = ended.failure()?;
            ensure!(reason == SESSION_NOT_FOUND, "{key} of {id:?} failed because {reason:?}");
            ensure!(ended.text().is_empty(), "an agent spoke all the same");
        }
    }
    Ok(())
}
