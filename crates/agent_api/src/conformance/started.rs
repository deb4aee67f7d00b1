//! Statement 25: the environment, directories and model that an agent is started with.

use std::{env, path::Path, time::Duration};

use super::{
    Defaults, Scenario, Statement, Subject,
    tools::{Stop, ensure, nothing_lives, request, run_to_end, say, start, statement},
};
use crate::{AgentWrapperError, TIMED_OUT};

pub(super) const STATEMENTS: &[Statement] = &[
    statement!(25, environments_are_merged_and_the_request_wins),
    statement!(25, the_environment_of_this_process_is_untouched),
    statement!(25, the_working_directory_of_the_request_wins),
    statement!(25, a_relative_working_directory_is_resolved_when_the_run_starts),
    statement!(25, the_timeout_of_the_request_wins),
];

const ONLY_CONFIG: &str = "AGENT_API_ONLY_CONFIG";
const ONLY_REQUEST: &str = "AGENT_API_ONLY_REQUEST";
const BOTH: &str = "AGENT_API_BOTH";

fn configurable(
    defaults: &Defaults,
    subject: &dyn Subject,
) -> Result<std::sync::Arc<dyn crate::AgentWrapperBackend>, Stop> {
    subject
        .backend_with(defaults)
        .ok_or_else(|| Stop::DoesNotApply("the backend has no configuration".to_owned()))
}

async fn environments_are_merged_and_the_request_wins(subject: &dyn Subject) -> Result<(), Stop> {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let env = [pair(ONLY_CONFIG, "config"), pair(BOTH, "config")].into();
    let backend = configurable(&Defaults { env, ..Defaults::default() }, subject)?;
    let mut request = request(subject, &say("hello"))?;
    request.env.extend([pair(ONLY_REQUEST, "request"), pair(BOTH, "request")]);
    run_to_end(&backend, request).await?.success()?;
    let launch = subject.launches().pop().unwrap_or_default();
    let seen =
        [ONLY_CONFIG, ONLY_REQUEST, BOTH].map(|name| launch.env.get(name).map(String::as_str));
    ensure!(seen == [Some("config"), Some("request"), Some("request")], "the agent saw {seen:?}");
    Ok(())
}

async fn the_environment_of_this_process_is_untouched(subject: &dyn Subject) -> Result<(), Stop> {
    let mut request = request(subject, &say("hello"))?;
    request.env.insert(ONLY_REQUEST.to_owned(), "request".to_owned());
    run_to_end(&subject.backend(), request).await?.success()?;
    ensure!(
        env::var_os(ONLY_REQUEST).is_none(),
        "{ONLY_REQUEST} is in the environment of this process"
    );
    Ok(())
}

async fn the_working_directory_of_the_request_wins(subject: &dyn Subject) -> Result<(), Stop> {
    let asked = request(subject, &say("hello"))?;
    let Some(of_request) = asked.working_dir.clone() else {
        return Err(Stop::DoesNotApply("the request has no working directory".to_owned()));
    };
    let of_config = of_request.join("of the configuration");
    std::fs::create_dir_all(&of_config)
        .map_err(|error| Stop::Broken(format!("could not make a directory: {error}")))?;
    let defaults = Defaults { working_dir: Some(of_config.clone()), ..Defaults::default() };
    let backend = configurable(&defaults, subject)?;

    let mut without = asked.clone();
    without.working_dir = None;
    run_to_end(&backend, without).await?.success()?;
    run_to_end(&backend, asked).await?.success()?;
    let seen: Vec<_> = subject.launches().into_iter().map(|launch| launch.working_dir).collect();
    let [first, second] = seen.as_slice() else {
        return Err(Stop::Broken(format!("two runs were {} launches", seen.len())));
    };
    ensure!(
        same_directory(first, &of_config),
        "without a wish the agent worked in {}",
        first.display()
    );
    ensure!(
        same_directory(second, &of_request),
        "with a wish the agent worked in {}",
        second.display()
    );
    Ok(())
}

async fn a_relative_working_directory_is_resolved_when_the_run_starts(
    subject: &dyn Subject,
) -> Result<(), Stop> {
    let mut request = request(subject, &say("hello"))?;
    request.working_dir = Some(".".into());
    run_to_end(&subject.backend(), request).await?.success()?;
    let launch = subject.launches().pop().unwrap_or_default();
    let here = env::current_dir()
        .map_err(|error| Stop::Broken(format!("there is no current directory: {error}")))?;
    ensure!(
        same_directory(&launch.working_dir, &here),
        "the agent worked in {}",
        launch.working_dir.display()
    );
    Ok(())
}

async fn the_timeout_of_the_request_wins(subject: &dyn Subject) -> Result<(), Stop> {
    let hour = Duration::from_secs(3600);
    let backend = configurable(&Defaults { timeout: Some(hour), ..Defaults::default() }, subject)?;
    let mut asked = request(subject, &Scenario::Hang { text: "waiting".to_owned() })?;
    asked.timeout = Some(Duration::from_millis(200));
    let handle = start(&backend, asked).await?;
    drop(handle.events);
    let result = super::tools::in_time("the timeout of the request", handle.completion).await?;
    ensure!(result == Err(AgentWrapperError::backend(TIMED_OUT)), "the run ended with {result:?}");
    nothing_lives(subject).await
}

/// Compares directories whose paths may differ by a symbolic link.
fn same_directory(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}
