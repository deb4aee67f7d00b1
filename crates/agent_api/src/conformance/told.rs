//! Statements 26 to 29 and 35: what events contain, and what they never contain.

use serde_json::{Value, json};

use super::{
    Scenario, Statement, Subject,
    tools::{Ended, Stop, ensure, need, play, request, run_to_end, say, statement},
};
use crate::{
    AgentWrapperEvent, AgentWrapperEventKind,
    bounds::{
        MAX_CHANNEL_BYTES, MAX_DATA_BYTES, MAX_MESSAGE_BYTES, MAX_SESSION_ID_BYTES, MAX_TEXT_BYTES,
    },
    capabilities::{FINAL_TEXT, SESSION_HANDLE, TOOLS_RESULTS, TOOLS_STRUCTURED},
};

pub(super) const STATEMENTS: &[Statement] = &[
    statement!(26, every_event_obeys_the_envelope),
    statement!(26, a_text_over_the_limit_is_split_and_not_lost),
    statement!(27, text_is_delivered_once),
    statement!(27, one_call_and_one_result_for_a_tool_use),
    statement!(28, the_session_is_told_once_and_again_at_the_end),
    statement!(29, the_final_text_is_the_last_message),
    statement!(35, output_of_an_agent_outside_its_envelope_is_not_shown),
    statement!(35, the_environment_stays_inside),
];

/// A string that no agent says by chance.
const SECRET: &str = "conformance-secret-7f3a1c";

fn use_tool() -> Scenario {
    Scenario::UseTool {
        before: "first".to_owned(),
        secret: SECRET.to_owned(),
        after: "second".to_owned(),
    }
}

fn leak() -> Scenario {
    Scenario::Leak { text: "nothing to see".to_owned(), secret: SECRET.to_owned() }
}

fn fail() -> Scenario {
    Scenario::Fail { secret: SECRET.to_owned() }
}

async fn every_event_obeys_the_envelope(subject: &dyn Subject) -> Result<(), Stop> {
    let kind = subject.backend().kind();
    let flood = Scenario::Flood { messages: 3, bytes: 2 * MAX_TEXT_BYTES };
    let mut played = 0;
    for scenario in [say("hello"), use_tool(), fail(), leak(), flood] {
        let Some(request) = subject.request(&scenario) else { continue };
        played += 1;
        for event in run_to_end(&subject.backend(), request).await?.events {
            ensure!(
                event.agent_kind == kind,
                "an event of kind {} came from {kind}",
                event.agent_kind
            );
            obeys(&event).map_err(|what| {
                Stop::Broken(format!("{what} in a {:?} event of {scenario:?}", event.kind))
            })?;
        }
    }
    ensure!(played > 0, "the agent plays nothing");
    Ok(())
}

fn obeys(event: &AgentWrapperEvent) -> Result<(), &'static str> {
    let long = |text: &Option<String>, limit| text.as_ref().is_some_and(|text| text.len() > limit);
    let data_bytes = event.data.as_ref().map_or(0, |data| data.to_string().len());
    let rules = [
        (long(&event.channel, MAX_CHANNEL_BYTES), "a long channel"),
        (long(&event.text, MAX_TEXT_BYTES), "a long text"),
        (long(&event.message, MAX_MESSAGE_BYTES), "a long message"),
        (data_bytes > MAX_DATA_BYTES, "oversize data"),
    ];
    if let Some((_, what)) = rules.into_iter().find(|(broken, _)| *broken) {
        return Err(what);
    }
    match event.kind {
        AgentWrapperEventKind::TextOutput if event.text.as_ref().is_none_or(String::is_empty) => {
            Err("no text")
        }
        AgentWrapperEventKind::TextOutput if event.message.is_some() => Err("a message"),
        AgentWrapperEventKind::Error if event.message.is_none() => Err("no message"),
        AgentWrapperEventKind::Error | AgentWrapperEventKind::Status if event.text.is_some() => {
            Err("a text")
        }
        _ => Ok(()),
    }
}

async fn a_text_over_the_limit_is_split_and_not_lost(subject: &dyn Subject) -> Result<(), Stop> {
    let bytes = 3 * MAX_TEXT_BYTES + 1;
    let ended = play(subject, &Scenario::Flood { messages: 1, bytes }).await?;
    ended.success()?;
    ensure!(ended.text().len() == bytes, "of {bytes} bytes {} arrived", ended.text().len());
    Ok(())
}

async fn text_is_delivered_once(subject: &dyn Subject) -> Result<(), Stop> {
    let ended = play(subject, &use_tool()).await?;
    ended.success()?;
    ensure!(
        ended.text() == "firstsecond",
        "the agent said `first` and `second`, and this arrived: {:?}",
        ended.text()
    );
    let flood = Scenario::Flood { messages: 40, bytes: 100 };
    let ended = play(subject, &flood).await?;
    ensure!(
        ended.text().len() == 4_000,
        "of 4000 bytes in 40 texts {} arrived",
        ended.text().len()
    );
    Ok(())
}

async fn one_call_and_one_result_for_a_tool_use(subject: &dyn Subject) -> Result<(), Stop> {
    let backend = subject.backend();
    need(&backend, TOOLS_STRUCTURED)?;
    let ended = play(subject, &use_tool()).await?;
    let call = only(&ended, AgentWrapperEventKind::ToolCall)?;
    let called = tool(call)?;
    ensure!(called["tool_name"].is_string(), "the call names no tool: {called}");
    if backend.capabilities().contains(TOOLS_RESULTS) {
        let result = only(&ended, AgentWrapperEventKind::ToolResult)?;
        let came_back = tool(result)?;
        ensure!(
            called["tool_use_id"].is_string() && called["tool_use_id"] == came_back["tool_use_id"],
            "call and result are not of one use: {called} and {came_back}"
        );
        let at = |wanted: &AgentWrapperEvent| {
            ended.events.iter().position(|event| std::ptr::eq(event, wanted))
        };
        ensure!(at(call) < at(result), "the result came before the call");
    }
    Ok(())
}

fn only(ended: &Ended, kind: AgentWrapperEventKind) -> Result<&AgentWrapperEvent, Stop> {
    let mut found = ended.of_kind(kind);
    let first = found.next();
    match (first, found.count()) {
        (Some(event), 0) => Ok(event),
        (first, more) => {
            let count = usize::from(first.is_some()) + more;
            Err(Stop::Broken(format!("one tool use gave {count} events of kind {kind:?}")))
        }
    }
}

/// Returns the tool of an event's facet, and checks that the facet contains neither the tool's
/// input nor its output, which both hold the secret.
fn tool(event: &AgentWrapperEvent) -> Result<&Value, Stop> {
    let facet = event
        .data
        .as_ref()
        .filter(|data| data["schema"] == TOOLS_STRUCTURED && data["tool"].is_object());
    let facet = facet
        .ok_or_else(|| Stop::Broken(format!("a tool event has no facet: {:?}", event.data)))?;
    ensure!(
        !facet.to_string().contains(SECRET),
        "the facet holds what the tool read or wrote: {facet}"
    );
    Ok(&facet["tool"])
}

async fn the_session_is_told_once_and_again_at_the_end(subject: &dyn Subject) -> Result<(), Stop> {
    need(&subject.backend(), SESSION_HANDLE)?;
    let ended = play(subject, &use_tool()).await?;
    let is_handle = |event: &&AgentWrapperEvent| {
        event.data.as_ref().is_some_and(|data| data["schema"] == SESSION_HANDLE)
    };
    let told: Vec<_> = ended.events.iter().filter(is_handle).collect();
    let [event] = told.as_slice() else {
        return Err(Stop::Broken(format!("the session was told {} times", told.len())));
    };
    ensure!(
        event.kind == AgentWrapperEventKind::Status,
        "the session was told by a {:?} event",
        event.kind
    );
    let id =
        event.data.as_ref().and_then(|data| data["session"]["id"].as_str()).unwrap_or_default();
    ensure!(
        !id.trim().is_empty() && id.len() <= MAX_SESSION_ID_BYTES,
        "the session's id is {id:?}"
    );
    let facet = json!({"schema": SESSION_HANDLE, "session": {"id": id}});
    ensure!(event.data.as_ref() == Some(&facet), "the facet is {:?}", event.data);
    let early = ended.events.iter().take_while(|event| event.kind == AgentWrapperEventKind::Status);
    ensure!(
        early.filter(is_handle).count() == 1,
        "the session was told only after the agent had begun to speak"
    );
    ensure!(
        ended.completion()?.data == Some(facet),
        "the completion carries {:?}",
        ended.completion()?.data
    );
    Ok(())
}

async fn the_final_text_is_the_last_message(subject: &dyn Subject) -> Result<(), Stop> {
    need(&subject.backend(), FINAL_TEXT)?;
    for (scenario, last) in [(use_tool(), "second"), (say("only this"), "only this")] {
        let ended = play(subject, &scenario).await?;
        let final_text = &ended.success()?.final_text;
        ensure!(
            final_text.as_deref() == Some(last),
            "{last:?} was said last, the completion says {final_text:?}"
        );
    }
    Ok(())
}

async fn output_of_an_agent_outside_its_envelope_is_not_shown(
    subject: &dyn Subject,
) -> Result<(), Stop> {
    let mut played = 0;
    for scenario in [leak(), use_tool(), fail()] {
        let Some(request) = subject.request(&scenario) else { continue };
        played += 1;
        let ended = run_to_end(&subject.backend(), request).await?;
        keeps_secret(&ended)?;
    }
    if played == 0 {
        return Err(Stop::DoesNotApply("the agent has nothing to leak".to_owned()));
    }
    Ok(())
}

async fn the_environment_stays_inside(subject: &dyn Subject) -> Result<(), Stop> {
    for scenario in [say("hello"), fail()] {
        let mut request = request(subject, &scenario)?;
        request.env.insert("AGENT_API_TOKEN".to_owned(), SECRET.to_owned());
        ensure!(!format!("{request:?}").contains(SECRET), "the request shows its environment");
        keeps_secret(&run_to_end(&subject.backend(), request).await?)?;
    }
    Ok(())
}

fn keeps_secret(ended: &Ended) -> Result<(), Stop> {
    let told = format!("{:?} {:?}", ended.events, ended.result);
    ensure!(!told.contains(SECRET), "the secret got out: {told}");
    Ok(())
}
