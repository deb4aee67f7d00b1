//! The promises of a connection, with a shell script as the agent.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "a failed test is allowed to stop loudly")]

use acp_lines::event::answer::{ConfigOption, SessionOpened};
use acp_lines::send::{
    Block, Initialize, Prompt, SessionList, SessionNew, SetConfigOption, SetMode,
};
use acp_lines::{
    AcpClient, AcpConnection, AgentBody, Answered, CallError, ClientRequest, DecideError, Decision,
    HandshakeError, RequestId, SendError, UNSUPERVISED_METHODS,
};
use agent_lines::child::ChildOptions;
use testkit::scripted::Scripted;
use testkit::wait::{PATIENCE, within};

/// Answers the handshake.
const HANDSHAKE: &str = r#"read -r hello; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}'; "#;

/// A question under id 0, of the session `s`.
const QUESTION: &str = r#"echo '{"id":0,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c","title":"t"},"options":[{"optionId":"always","kind":"allow_always","name":"a"},{"optionId":"yes","kind":"allow_once","name":"y"},{"optionId":"no","kind":"reject_once","name":"n"}]}}'; "#;

/// A shell script in place of the agent.
struct Agent(Scripted);

impl Agent {
    fn new(script: &str) -> Self {
        Self(Scripted::new(script).expect("a directory"))
    }

    fn start(&self) -> AcpConnection {
        let options = ChildOptions::new(Scripted::program()).working_dir(self.0.dir());
        let options =
            self.0.env().iter().fold(options, |options, (name, value)| options.env(name, value));
        AcpClient::new(options).start(["acp"]).expect("starts")
    }

    async fn greeted(&self) -> AcpConnection {
        let mut agent = self.start();
        let hello = agent.handshake(Initialize::new("test", "0"));
        within("the handshake", PATIENCE, hello).await.expect("greets");
        agent
    }

    /// Starts an agent that was prompted in the session `s`, after the handshake.
    async fn prompted(script: &str) -> (Self, AcpConnection) {
        let child = Self::new(&format!("{HANDSHAKE}read -r prompt; {script}"));
        let mut agent = child.greeted().await;
        agent.request(prompt()).expect("queued");
        (child, agent)
    }

    /// Returns what the agent has read after the prompt, once it has ended.
    async fn heard(&self, agent: AcpConnection) -> Vec<String> {
        within("the end", PATIENCE, agent.close()).await.expect("ends");
        let heard = self.0.read("heard").expect("what was heard");
        heard.lines().map(str::to_owned).collect()
    }
}

fn prompt() -> ClientRequest {
    let prompt = vec![Block::text("go")];
    ClientRequest::Prompt(Prompt { session_id: "s".to_owned(), prompt, ..Prompt::default() })
}

/// Reads up to the next question.
async fn question(agent: &mut AcpConnection) -> RequestId {
    loop {
        let line = within("a question", PATIENCE, agent.next_line()).await;
        if let AgentBody::Request { id, .. } = line.expect("a line").expect("readable").body {
            return id;
        }
    }
}

#[tokio::test]
async fn the_handshake_offers_nothing_and_comes_first() {
    let child = Agent::new(&format!("echo \"$1\" > argv; {HANDSHAKE}echo \"$hello\" > hello"));
    let agent = child.greeted().await;
    within("the end", PATIENCE, agent.close()).await.expect("ends");
    assert_eq!(child.0.read("argv").expect("arguments").trim(), "acp");
    let hello: serde_json::Value =
        serde_json::from_str(&child.0.read("hello").expect("a line")).expect("JSON");
    assert_eq!(hello["jsonrpc"], "2.0");
    assert_eq!(hello["params"]["protocolVersion"], 1);
    assert_eq!(hello["params"]["clientCapabilities"]["fs"]["writeTextFile"], false);
    assert_eq!(hello["params"]["clientCapabilities"]["terminal"], false);
}

#[tokio::test]
async fn an_agent_of_another_version_or_of_none_is_refused() {
    for (answer, found) in [(r#"{"protocolVersion":2}"#, Some(2)), ("{}", None)] {
        let script = format!(r#"read -r hello; echo '{{"id":1,"result":{answer}}}'; cat"#);
        let mut agent = Agent::new(&script).start();
        let hello = agent.handshake(Initialize::new("test", "0"));
        let refused = within("the handshake", PATIENCE, hello).await;
        assert_eq!(refused, Err(HandshakeError::Version { found }));
    }
    // A program that is not an agent prints something and ends.
    let mut agent = Agent::new("echo usage: something; read -r hello").start();
    let hello = within("the end", PATIENCE, agent.handshake(Initialize::new("test", "0"))).await;
    assert_eq!(hello, Err(HandshakeError::Call(CallError::Ended)));
}

#[tokio::test]
async fn lines_that_come_before_an_answer_are_kept() {
    let child = Agent::new(&format!(
        r#"{HANDSHAKE}read -r call; echo '{{"method":"session/update","params":{{}}}}'
        echo '{{"id":null,"error":{{"code":-32700,"message":"what?"}}}}'
        echo '{{"id":2,"result":{{"sessionId":"s"}}}}'"#
    ));
    let mut agent = child.greeted().await;
    let session = SessionNew { cwd: "/".to_owned(), ..SessionNew::default() };
    let opened = agent.call(ClientRequest::SessionNew(session));
    let opened = within("the answer", PATIENCE, opened).await.expect("an answer");
    let opened: SessionOpened = opened.read().expect("a session");
    assert_eq!(opened.session_id.as_deref(), Some("s"));
    let first = agent.next_held().expect("a line").expect("readable");
    assert!(matches!(first.body, AgentBody::Notification(_)));
    let second = agent.next_line().await.expect("a line").expect("readable");
    assert!(matches!(second.body, AgentBody::Complaint(_)));
    assert!(agent.next_held().is_none());
}

#[tokio::test]
async fn a_question_is_answered_by_the_kind_of_its_option_and_once() {
    for (decision, option) in [(Decision::AllowOnce, "yes"), (Decision::RejectOnce, "no")] {
        let (child, mut agent) = Agent::prompted(&format!("{QUESTION} cat > heard")).await;
        let id = question(&mut agent).await;
        assert_eq!(agent.sender().decide(&id, decision), Ok(Answered::AsDecided));
        assert_eq!(agent.sender().decide(&id, decision), Err(DecideError::NotOpen));
        let nobody = agent.sender().decide(&RequestId::Number(7), decision);
        assert_eq!(nobody, Err(DecideError::NotOpen));
        let answer = format!(
            r#"{{"id":0,"jsonrpc":"2.0","result":{{"outcome":{{"optionId":"{option}","outcome":"selected"}}}}}}"#
        );
        assert_eq!(child.heard(agent).await, [answer]);
    }
}

#[tokio::test]
async fn an_allow_that_is_not_offered_is_refused_and_a_reject_becomes_an_error() {
    let bare = r#"echo '{"id":"q","method":"session/request_permission","params":{"sessionId":"s","options":[{"optionId":"x","kind":"allow_always","name":"x"}]}}'; cat > heard"#;
    let (child, mut agent) = Agent::prompted(bare).await;
    let id = question(&mut agent).await;
    let allowed = agent.sender().decide(&id, Decision::AllowOnce);
    assert_eq!(allowed, Err(DecideError::NotOffered));
    agent.sender().decide(&id, Decision::RejectOnce).expect("rejects");
    let heard = child.heard(agent).await;
    assert!(heard[0].contains(r#""error":"#) && heard[0].contains(r#""id":"q""#), "{heard:?}");
}

#[tokio::test]
async fn after_a_cancel_nothing_is_allowed() {
    // The agent asks once more before it reads the cancel.
    let again = QUESTION.replace(r#""id":0"#, r#""id":1"#);
    let script = format!("{QUESTION} read -r cancel; {again} cat > rest; cat rest > heard");
    let (child, mut agent) = Agent::prompted(&script).await;
    let first = question(&mut agent).await;
    agent.sender().cancel("s").expect("queued");
    assert_eq!(agent.sender().decide(&first, Decision::AllowOnce), Err(DecideError::NotOpen));
    let second = question(&mut agent).await;
    let late = agent.sender().decide(&second, Decision::AllowOnce);
    assert_eq!(late, Ok(Answered::Cancelled));
    let cancelled = |id: u32| {
        format!(r#"{{"id":{id},"jsonrpc":"2.0","result":{{"outcome":{{"outcome":"cancelled"}}}}}}"#)
    };
    assert_eq!(child.heard(agent).await, [cancelled(0), cancelled(1)]);
}

#[tokio::test]
async fn a_question_of_a_turn_that_is_over_cannot_be_allowed() {
    let over = r#"echo '{"id":2,"result":{"stopReason":"cancelled"}}'; cat > heard"#;
    let (child, mut agent) = Agent::prompted(&format!("{QUESTION}{over}")).await;
    let id = question(&mut agent).await;
    let end = within("the end of the turn", PATIENCE, agent.next_line()).await;
    assert!(matches!(end, Some(Ok(line)) if matches!(line.body, AgentBody::Answer(_))));
    assert_eq!(agent.sender().decide(&id, Decision::AllowOnce), Err(DecideError::NotOpen));
    assert!(child.heard(agent).await.is_empty());
}

#[tokio::test]
async fn requests_that_move_a_mode_are_not_sent() {
    let child = Agent::new(&format!("{HANDSHAKE}cat > heard"));
    let mut agent = child.greeted().await;
    let unsupervised = |method: &str| SendError::Unsupervised { method: method.to_owned() };
    let refused = agent.request(ClientRequest::SetMode(SetMode::default()));
    assert_eq!(refused, Err(unsupervised("session/set_mode")));
    let refused = agent.request(ClientRequest::SetConfigOption(SetConfigOption::default()));
    assert_eq!(refused, Err(unsupervised("session/set_config_option")));
    for method in UNSUPERVISED_METHODS.into_iter().chain(["session/prompt"]) {
        let untyped = ClientRequest::Other { method: method.to_owned(), params: None };
        assert_eq!(agent.request(untyped), Err(unsupervised(method)));
    }
    for category in [Some("mode".into()), None] {
        let mut option = ConfigOption::default();
        option.id = "x".into();
        option.category = category;
        let refused = agent.set_option("s", &option, "yolo").await;
        assert_eq!(refused, Err(unsupervised("session/set_config_option").into()));
    }
    agent.request(ClientRequest::SessionList(SessionList::default())).expect("queued");
    assert_eq!(child.heard(agent).await.len(), 1);
}

#[tokio::test]
async fn a_dropped_connection_leaves_nothing_behind() {
    let detached = if cfg!(target_os = "linux") { "setsid" } else { "" };
    let (child, mut agent) = Agent::prompted(&format!(
        "{detached} sleep 3600 > /dev/null 2>&1 & trap '' TERM; sleep 3600 & {QUESTION} wait; wait"
    ))
    .await;
    question(&mut agent).await;
    drop(agent);
    child.0.wait_until_nothing_is_left().await;
}

/// Goose keeps running when its input ends. Time is paused, so the grace passes at once.
#[tokio::test(start_paused = true)]
async fn an_agent_that_stays_after_its_input_ended_is_ended() {
    let child = Agent::new("while :; do sleep 0.1; done");
    let status = child.start().close().await.expect("ends");
    assert!(!status.success());
    child.0.wait_until_nothing_is_left().await;
}

#[tokio::test]
async fn a_program_that_is_missing_is_named() {
    let nowhere = AcpClient::new(ChildOptions::new("/nowhere/agent"));
    let error = nowhere.start(["acp"]).expect_err("no such program").to_string();
    assert!(error.contains("/nowhere/agent") && error.contains("install"), "{error}");
}
