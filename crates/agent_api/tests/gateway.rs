//! Tests the gateway: the exact error for each kind of bad input, before anything is started.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a failed test is allowed to stop loudly"
)]

mod support;

use std::sync::Arc;

use agent_api::{
    AgentWrapperBackend, AgentWrapperCapabilities, AgentWrapperError, AgentWrapperGateway,
    AgentWrapperKind, AgentWrapperRunHandle, AgentWrapperRunRequest, capabilities,
    conformance::{Scenario, Subject},
};
use futures::future::BoxFuture;
use support::scripted::ScriptedSubject;

fn kind(name: &str) -> AgentWrapperKind {
    AgentWrapperKind::new(name).unwrap()
}

fn gateway_of(subject: &ScriptedSubject) -> AgentWrapperGateway {
    let mut gateway = AgentWrapperGateway::new();
    gateway.register(subject.backend()).unwrap();
    gateway
}

/// Starts any request without a check, so the gateway must check it first.
struct Careless;

impl AgentWrapperBackend for Careless {
    fn kind(&self) -> AgentWrapperKind {
        kind("careless")
    }

    fn capabilities(&self) -> AgentWrapperCapabilities {
        [capabilities::RUN, capabilities::EVENTS].into_iter().collect()
    }

    fn run(
        &self,
        _: AgentWrapperRunRequest,
    ) -> BoxFuture<'_, Result<AgentWrapperRunHandle, AgentWrapperError>> {
        panic!("a request reached the backend that should not have");
    }
}

#[tokio::test]
async fn an_unknown_kind_is_named() {
    let gateway = AgentWrapperGateway::new();
    let unknown = AgentWrapperError::UnknownBackend { agent_kind: "nobody".to_owned() };
    // This holds even for a request that is wrong in every other way.
    let request = AgentWrapperRunRequest::new("").with_extension("nothing", 1);
    assert_eq!(gateway.run(&kind("nobody"), request.clone()).await.err(), Some(unknown.clone()));
    assert_eq!(gateway.run_control(&kind("nobody"), request).await.err(), Some(unknown));
    assert!(gateway.backend(&kind("nobody")).is_none());
}

#[tokio::test]
async fn a_second_backend_of_a_kind_is_refused_and_the_first_stays() {
    let subject = ScriptedSubject::new();
    let first = subject.backend();
    let mut gateway = AgentWrapperGateway::new();
    gateway.register(Arc::clone(&first)).unwrap();
    let refusal = gateway.register(subject.backend()).unwrap_err();
    assert!(
        matches!(&refusal, AgentWrapperError::InvalidRequest { message } if message.contains("scripted")),
        "{refusal}"
    );
    assert!(Arc::ptr_eq(&gateway.backend(&kind("scripted")).unwrap(), &first));
}

#[tokio::test]
async fn an_invalid_request_reaches_no_backend() {
    let mut gateway = AgentWrapperGateway::new();
    gateway.register(Arc::new(Careless)).unwrap();
    let blank = gateway.run(&kind("careless"), AgentWrapperRunRequest::new(" \n")).await;
    assert!(matches!(blank, Err(AgentWrapperError::InvalidRequest { .. })), "{blank:?}");
    let unknown_key =
        AgentWrapperRunRequest::new("p").with_extension(capabilities::CONFIG_MODEL, "m");
    assert_eq!(
        gateway.run(&kind("careless"), unknown_key).await.err(),
        Some(AgentWrapperError::unsupported(&kind("careless"), capabilities::CONFIG_MODEL))
    );
    assert_eq!(
        gateway.run_control(&kind("careless"), AgentWrapperRunRequest::new("p")).await.err(),
        Some(AgentWrapperError::unsupported(&kind("careless"), capabilities::CONTROL_CANCEL))
    );
}

#[tokio::test]
async fn a_backend_without_control_refuses_it_by_itself() {
    let refusal = Careless.run_control(AgentWrapperRunRequest::new("p")).await.err();
    assert_eq!(
        refusal,
        Some(AgentWrapperError::unsupported(&kind("careless"), capabilities::CONTROL_CANCEL))
    );
}

#[tokio::test]
async fn a_run_through_the_gateway_is_a_run_of_the_backend() {
    let subject = ScriptedSubject::new();
    let gateway = gateway_of(&subject);
    let request = subject.request(&Scenario::Say { text: "hello".to_owned() }).unwrap();
    let control = gateway.run_control(&kind("scripted"), request).await.unwrap();
    drop(control.handle.events);
    assert_eq!(control.handle.completion.await.unwrap().final_text.as_deref(), Some("hello"));
    assert_eq!(subject.launches().len(), 1);
}
