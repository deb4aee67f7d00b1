//! The life of a question: the editor is one of several deciders, and the first decision counts.

use acp_lines::ServedLine;
use acp_lines::send::ClientAnswer;
use acp_lines::serve::PermissionAsk;
use plexus_client::ClientError;
use plexus_client::wire::{
    Approval, ApprovalId, ApprovalPageParams, ErrorKind, PageLimit, PendingApprovals, method,
};

use super::{Fronted, MAX_RESOLVED};
use crate::door::Cause;
use crate::hands::{Hands, question_id};
use crate::questions::{Meaning, Rules};
use crate::refusal::Refusal;

/// Dialogs that one session may have open in the editor.
const MAX_DIALOGS: usize = 64;

/// Why the editor's decision does not count.
#[derive(Debug)]
pub(crate) enum Undecided {
    /// Somebody else was first, or the question has gone.
    Otherwise,
    /// The server did not take it.
    Refused(Refusal),
}

impl From<ClientError> for Undecided {
    fn from(error: ClientError) -> Self {
        match error.kind() {
            ErrorKind::Conflict | ErrorKind::Expired | ErrorKind::NotFound => Self::Otherwise,
            _ => Self::Refused(error.into()),
        }
    }
}

impl Fronted {
    /// Asks the server what waits: the record has the digest that binds an answer, which the event
    /// has not.
    pub(super) fn look_for_questions(&self, hands: &mut Hands) {
        let (server, session) = (hands.server().clone(), self.id);
        let params = ApprovalPageParams {
            session_id: Some(session),
            limit: Some(PageLimit::MAX),
            ..ApprovalPageParams::default()
        };
        hands.later(async move {
            let found = server.call::<method::loopback::Pending>(&params).await;
            let outcome = found.map_err(Refusal::from).map(|found| match found {
                PendingApprovals::Ok { approvals, .. } => approvals,
                PendingApprovals::Timeout { .. } => Vec::new(),
            });
            Cause::Pending { session, outcome }
        });
    }

    /// Asks the editor about what waits.
    pub(crate) async fn pending(
        &mut self,
        outcome: Result<Vec<Approval>, Refusal>,
        hands: &mut Hands,
    ) {
        let approvals = match outcome {
            Ok(approvals) => approvals,
            Err(refusal) => return self.note(refusal.message(), hands).await,
        };
        for approval in approvals {
            if !self.questions.knows(approval.id) && !self.resolved.contains(&approval.id) {
                self.ask(approval, Rules::Offered, hands).await;
            }
        }
    }

    pub(super) async fn ask(&mut self, approval: Approval, rules: Rules, hands: &mut Hands) {
        if self.questions.len() >= MAX_DIALOGS {
            let words = format!("too many questions are open here; {}", elsewhere(approval.id));
            return self.note(&words, hands).await;
        }
        let (updates, tool_call) = match approval.session_id == self.id {
            true => self.view.question(&approval),
            false => self.view.question_below(&approval),
        };
        self.tell(updates, hands).await;
        let question = hands.next_question();
        let options = self.questions.open(question, approval, rules);
        let session_id = self.name.clone();
        let ask = PermissionAsk { session_id, tool_call, options, ..PermissionAsk::default() };
        let id = question_id(question);
        hands.say(&ServedLine::Permission { id, ask: Box::new(ask) }).await;
    }

    /// Takes the editor's answer to a question.
    pub(crate) async fn answered(
        &mut self,
        question: i64,
        answer: &ClientAnswer,
        hands: &mut Hands,
    ) {
        match self.questions.answer(question, answer) {
            Meaning::Decision(decision) => {
                let (server, session) = (hands.server().clone(), self.id);
                hands.later(async move {
                    let told = server.call::<method::loopback::Respond>(&decision).await;
                    let outcome = told.map(drop).map_err(Undecided::from);
                    Cause::Decided { session, question, outcome }
                });
            }
            Meaning::NoDecision(approval) => {
                let words = format!("nothing was decided here; {}", elsewhere(approval));
                self.note_in_turn(&words, hands).await;
            }
            Meaning::Stale => {}
        }
    }

    /// Handles the server's reply to the editor's decision. If the server refused the decision, the
    /// editor is asked once more, without the buttons that make rules.
    pub(crate) async fn decided(
        &mut self,
        question: i64,
        outcome: Result<(), Undecided>,
        hands: &mut Hands,
    ) {
        let offered = self.questions.offers_rules(question);
        let Some(approval) = self.questions.settle(question) else { return };
        if approval.session_id != self.id && !matches!(outcome, Err(Undecided::Refused(_))) {
            self.resolve(approval.id);
            let update = self.view.decided_below(&approval);
            self.tell([update], hands).await;
        }
        if let Err(Undecided::Refused(refusal)) = outcome {
            self.note(refusal.message(), hands).await;
            match offered {
                true => self.ask(approval, Rules::None, hands).await,
                false => self.note(&elsewhere(approval.id), hands).await,
            }
        }
    }

    /// Closes the dialog about an approval that was decided.
    pub(super) async fn withdraw(&mut self, approval: ApprovalId, hands: &Hands) {
        self.resolve(approval);
        if let Some(question) = self.questions.withdraw(approval) {
            let request_id = question_id(question);
            hands.say(&ServedLine::Withdraw { request_id }).await;
        }
    }

    /// Remembers that an approval is not asked about again.
    fn resolve(&mut self, approval: ApprovalId) {
        self.resolved.truncate(MAX_RESOLVED - 1);
        self.resolved.push_front(approval);
    }

    /// Closes every dialog. What sessions below ask goes on waiting for somebody else.
    pub(super) async fn close_dialogs(&mut self, hands: &Hands) {
        for approval in self.questions.not_of(self.id) {
            self.resolve(approval);
        }
        for question in self.questions.close() {
            let request_id = question_id(question);
            hands.say(&ServedLine::Withdraw { request_id }).await;
        }
    }

    /// Whether a question is one of this session.
    pub(crate) fn asked(&self, question: i64) -> bool {
        self.questions.has(question)
    }
}

fn elsewhere(approval: ApprovalId) -> String {
    format!(
        "the call waits for an answer from elsewhere: `plexus approve {approval}`, \
         `plexus deny {approval}` or the dashboard"
    )
}
