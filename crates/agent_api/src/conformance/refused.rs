//! Statement 24: which requests are refused, in which order, and that nothing is started for them.

use serde_json::{Value, json};

use super::{
    Statement, Subject,
    tools::{Stop, ensure, need, request, say, statement},
};
use crate::{
    AgentWrapperError, AgentWrapperRunRequest,
    bounds::{MAX_ADD_DIR_BYTES, MAX_ADD_DIRS, MAX_MODEL_ID_BYTES},
    capabilities::{
        CONFIG_MODEL, EXEC_ADD_DIRS, EXEC_EXTERNAL_SANDBOX, EXEC_NON_INTERACTIVE, SESSION_FORK,
        SESSION_RESUME,
    },
};

pub(super) const STATEMENTS: &[Statement] = &[
    statement!(24, a_blank_prompt_is_refused_before_anything_else),
    statement!(24, an_unknown_key_is_refused_even_beside_a_wrong_value),
    statement!(24, wrong_values_are_refused),
    statement!(24, contradictions_are_refused),
    statement!(24, a_missing_directory_is_refused),
];

const UNKNOWN_KEY: &str = "agent_api.conformance.nothing.v1";

/// Checks that `request` is refused, and that nothing was started.
async fn refusal(
    subject: &dyn Subject,
    request: AgentWrapperRunRequest,
) -> Result<AgentWrapperError, Stop> {
    let shown = format!("{request:?} with {:?}", request.extensions);
    match subject.backend().run(request).await {
        Ok(_) => Err(Stop::Broken(format!("this was started: {shown}"))),
        Err(error) => {
            ensure!(
                subject.launches().is_empty(),
                "this was refused, but only after a start: {shown}"
            );
            Ok(error)
        }
    }
}

async fn is_invalid(subject: &dyn Subject, request: AgentWrapperRunRequest) -> Result<(), Stop> {
    let shown = format!("{request:?} with {:?}", request.extensions);
    let error = refusal(subject, request).await?;
    ensure!(matches!(error, AgentWrapperError::InvalidRequest { .. }), "{shown} gave {error:?}");
    Ok(())
}

async fn a_blank_prompt_is_refused_before_anything_else(subject: &dyn Subject) -> Result<(), Stop> {
    for blank in ["", " ", "\n\t\u{3000}"] {
        let request = AgentWrapperRunRequest::new(blank).with_extension(UNKNOWN_KEY, 1);
        is_invalid(subject, request).await?;
    }
    Ok(())
}

async fn an_unknown_key_is_refused_even_beside_a_wrong_value(
    subject: &dyn Subject,
) -> Result<(), Stop> {
    let backend = subject.backend();
    let mut request = request(subject, &say("hello"))?.with_extension(UNKNOWN_KEY, 1);
    for key in backend.capabilities().ids {
        request = request.with_extension(key, json!([[]]));
    }
    request.working_dir = Some("no/such/directory".into());
    let error = refusal(subject, request).await?;
    let expected = AgentWrapperError::unsupported(&backend.kind(), UNKNOWN_KEY);
    ensure!(error == expected, "it was refused with {error:?}");
    Ok(())
}

async fn wrong_values_are_refused(subject: &dyn Subject) -> Result<(), Stop> {
    let capabilities = subject.backend().capabilities();
    let long_list = vec!["."; MAX_ADD_DIRS + 1];
    let cases: [(&str, Vec<Value>); 6] = [
        (EXEC_NON_INTERACTIVE, vec![json!("true"), json!(null), json!(1)]),
        (EXEC_EXTERNAL_SANDBOX, vec![json!("true"), json!(null)]),
        (CONFIG_MODEL, vec![json!(7), json!(" "), json!("m".repeat(MAX_MODEL_ID_BYTES + 1))]),
        (
            EXEC_ADD_DIRS,
            vec![
                json!(["."]),
                json!({}),
                json!({"dirs": [7]}),
                json!({"dirs": [" "]}),
                json!({"dirs": long_list}),
                json!({"dirs": ["d".repeat(MAX_ADD_DIR_BYTES + 1)]}),
                json!({"dirs": ["."], "more": 1}),
            ],
        ),
        (SESSION_RESUME, wrong_selectors()),
        (SESSION_FORK, wrong_selectors()),
    ];
    for (key, values) in cases.into_iter().filter(|(key, _)| capabilities.contains(key)) {
        for value in values {
            is_invalid(subject, request(subject, &say("hello"))?.with_extension(key, value))
                .await?;
        }
    }
    Ok(())
}

fn wrong_selectors() -> Vec<Value> {
    vec![
        json!("last"),
        json!({}),
        json!({"selector": "first"}),
        json!({"selector": "last", "id": "x"}),
        json!({"selector": "last", "more": 1}),
        json!({"selector": "id"}),
        json!({"selector": "id", "id": " "}),
        json!({"selector": "id", "id": 7}),
    ]
}

async fn contradictions_are_refused(subject: &dyn Subject) -> Result<(), Stop> {
    let backend = subject.backend();
    need(&backend, SESSION_RESUME)?;
    need(&backend, SESSION_FORK)?;
    let last = json!({"selector": "last"});
    let both = request(subject, &say("hello"))?.with_extension(SESSION_RESUME, last.clone());
    is_invalid(subject, both.with_extension(SESSION_FORK, last)).await
}

async fn a_missing_directory_is_refused(subject: &dyn Subject) -> Result<(), Stop> {
    let mut nowhere = request(subject, &say("hello"))?;
    nowhere.working_dir = Some("no/such/directory".into());
    is_invalid(subject, nowhere).await?;
    if subject.backend().capabilities().contains(EXEC_ADD_DIRS) {
        let dirs = json!({"dirs": ["no/such/directory"]});
        is_invalid(subject, request(subject, &say("hello"))?.with_extension(EXEC_ADD_DIRS, dirs))
            .await?;
    }
    Ok(())
}
