//! The permission dialogs that are open in the editor, and what its answers mean. Pure, so that a
//! table can test it.
//!
//! An answer decides only if it selects an option of a question that is still open. Everything else
//! (`cancelled`, an error, an option that was not offered, an answer to a question that was
//! withdrawn) is not a decision: the request keeps waiting for somebody else.

use std::collections::BTreeMap;

use acp_lines::OptionKind;
use acp_lines::send::{ClientAnswer, PermissionAnswer};
use acp_lines::serve::AskedOption;
use plexus_client::wire::{
    Answers, Approval, ApprovalId, Question as UserQuestion, Remember, RespondParams, RuleScope,
    SessionId,
};

use plexus_render::sanitize;

/// Rules that one question offers, narrow to wide.
const MAX_RULES: usize = 2;

/// Characters of a rule that is offered: a longer one is not read to its end in a button.
const MAX_RULE_CHARS: usize = 200;

/// The option that allows once.
const ALLOW: &str = "allow";

/// The beginning of an option that answers a question.
const CHOICE: &str = "choice-";

/// The option that denies.
const DENY: &str = "deny";

/// What the model reads when the editor denies.
const DENIED: &str = "the user said no in the editor";

/// The questions that are open in the editor.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    open: BTreeMap<i64, Question>,
}

/// One dialog.
#[derive(Debug)]
struct Question {
    approval: Approval,
    rules: Vec<String>,
    offers: Offers,
    stage: Stage,
}

/// How a request can be allowed in an editor, which knows buttons and nothing else.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Offers {
    /// By a plain allow.
    Allow,
    /// By one of these labels, the answer to the part with this id.
    Choice { id: String, labels: Vec<String> },
    /// Not at all: it asks for more than one choice.
    Nothing,
}

/// Whether an answer may still decide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The editor shows the dialog.
    Shown,
    /// The editor has decided; the server has not confirmed it.
    Deciding,
}

/// What an answer means.
#[derive(Debug, PartialEq)]
pub(crate) enum Meaning {
    /// It decides.
    Decision(Box<RespondParams>),
    /// It does not: the request waits for somebody else.
    NoDecision(ApprovalId),
    /// It answers nothing that is open.
    Stale,
}

impl Questions {
    /// Whether the editor is asked about an approval.
    pub(crate) fn knows(&self, approval: ApprovalId) -> bool {
        self.open.values().any(|question| question.approval.id == approval)
    }

    /// Opens a dialog, and returns what may be answered. A rule is offered with its whole text.
    pub(crate) fn open(&mut self, id: i64, approval: Approval, rules: Rules) -> Vec<AskedOption> {
        let rules = match rules {
            Rules::Offered => offered(&approval),
            Rules::None => Vec::new(),
        };
        let option = |id: String, name: String, kind| AskedOption { option_id: id, name, kind };
        let offers = offers(&approval);
        let once = |id, name| option(id, name, OptionKind::AllowOnce);
        let mut options = match &offers {
            Offers::Allow => vec![once(ALLOW.into(), "Allow once".into())],
            Offers::Choice { labels, .. } => {
                let shown = |label: &String| sanitize::one_line(label).into_owned();
                let labels = labels.iter().enumerate();
                labels.map(|(index, label)| once(choice_option(index), shown(label))).collect()
            }
            Offers::Nothing => Vec::new(),
        };
        options.extend(rules.iter().enumerate().map(|(index, rule)| {
            let name = format!("Always allow in this session: {rule}");
            option(rule_option(index), name, OptionKind::AllowAlways)
        }));
        options.push(option(DENY.into(), "Deny".into(), OptionKind::RejectOnce));
        self.open.insert(id, Question { approval, rules, offers, stage: Stage::Shown });
        options
    }

    /// Takes an answer.
    pub(crate) fn answer(&mut self, id: i64, answer: &ClientAnswer) -> Meaning {
        let Some(question) = self.open.get_mut(&id).filter(|it| it.stage == Stage::Shown) else {
            return Meaning::Stale;
        };
        match question.decision(answer) {
            Some(decision) => {
                question.stage = Stage::Deciding;
                Meaning::Decision(Box::new(decision))
            }
            None => {
                let approval = question.approval.id;
                self.open.remove(&id);
                Meaning::NoDecision(approval)
            }
        }
    }

    /// Forgets a question whose decision the server has taken or refused; returns its approval.
    pub(crate) fn settle(&mut self, id: i64) -> Option<Approval> {
        self.open.remove(&id).map(|question| question.approval)
    }

    /// Closes the dialog of an approval that was decided; returns it if the editor still shows it.
    pub(crate) fn withdraw(&mut self, approval: ApprovalId) -> Option<i64> {
        let id = *self.open.iter().find(|(_, question)| question.approval.id == approval)?.0;
        let question = self.open.remove(&id)?;
        (question.stage == Stage::Shown).then_some(id)
    }

    /// Closes every dialog; returns those that the editor still shows. Whatever it answers from now
    /// on decides nothing.
    pub(crate) fn close(&mut self) -> Vec<i64> {
        let open = std::mem::take(&mut self.open);
        let shown = open.into_iter().filter(|(_, question)| question.stage == Stage::Shown);
        shown.map(|(id, _)| id).collect()
    }

    /// Returns the approvals of a session that the editor is asked about.
    pub(crate) fn of(&self, session: SessionId) -> Vec<Approval> {
        let asked = self.open.values().map(|question| &question.approval);
        asked.filter(|approval| approval.session_id == session).cloned().collect()
    }

    /// Returns the approvals of every other session.
    pub(crate) fn not_of(&self, session: SessionId) -> Vec<ApprovalId> {
        let asked = self.open.values().map(|question| &question.approval);
        asked.filter(|approval| approval.session_id != session).map(|it| it.id).collect()
    }

    /// Whether a question is one of these.
    pub(crate) fn has(&self, id: i64) -> bool {
        self.open.contains_key(&id)
    }

    /// Whether a question offered rules.
    pub(crate) fn offers_rules(&self, id: i64) -> bool {
        self.open.get(&id).is_some_and(|question| !question.rules.is_empty())
    }

    /// Returns how many are open.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }
}

/// Whether a question offers rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rules {
    Offered,
    /// The server has refused the rule that was chosen.
    None,
}

impl Question {
    fn decision(&self, answer: &ClientAnswer) -> Option<RespondParams> {
        let ClientAnswer::Permission(PermissionAnswer::Selected { option_id }) = answer else {
            return None;
        };
        let allow = || RespondParams::allow(&self.approval);
        match option_id.as_str() {
            ALLOW => (self.offers == Offers::Allow).then(allow),
            DENY => Some(RespondParams {
                input_digest: Some(self.approval.input_digest.clone()),
                ..RespondParams::deny(self.approval.id, DENIED)
            }),
            option if option.starts_with(CHOICE) => {
                let Offers::Choice { id, labels } = &self.offers else { return None };
                let mut labels = labels.iter().enumerate();
                let (_, label) = labels.find(|(index, _)| choice_option(*index) == option)?;
                let answers = Answers::from([(id.clone(), vec![label.clone()])]);
                Some(RespondParams { answers: Some(answers), ..allow() })
            }
            option => {
                let index = (0..self.rules.len()).find(|index| rule_option(*index) == option)?;
                let scope = RuleScope::Session(self.approval.session_id);
                let pattern = Some(self.rules[index].clone());
                let remember = Some(Remember { pattern, ..Remember::new(scope) });
                Some(RespondParams { remember, ..allow() })
            }
        }
    }
}

/// The rules of an approval whose text a button shows as it is.
fn offered(approval: &Approval) -> Vec<String> {
    let suggested = approval.suggested_rules.iter().map(|rule| &rule.pattern);
    let readable = suggested.filter(|pattern| {
        pattern.chars().count() <= MAX_RULE_CHARS && sanitize::one_line(pattern) == **pattern
    });
    readable.take(MAX_RULES).cloned().collect()
}

/// How an approval can be allowed here.
fn offers(approval: &Approval) -> Offers {
    let Some(question) = &approval.question else { return Offers::Allow };
    match question.known() {
        Some(UserQuestion::Choices { questions }) => match questions.as_slice() {
            [one] if !one.multiple && !one.options.is_empty() => Offers::Choice {
                id: one.id.clone(),
                labels: one.options.iter().map(|option| option.label.clone()).collect(),
            },
            _ => Offers::Nothing,
        },
        Some(UserQuestion::Plan { .. }) => Offers::Allow,
        // The wire may ask in ways that this version does not know.
        None => Offers::Nothing,
    }
}

fn choice_option(index: usize) -> String {
    format!("{CHOICE}{index}")
}

fn rule_option(index: usize) -> String {
    format!("rule-{index}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn approval(rules: &[&str]) -> Approval {
        let rules: Vec<Value> =
            rules.iter().map(|rule| json!({"pattern": rule, "label": "l"})).collect();
        serde_json::from_value(json!({
            "id": ApprovalId::generate(), "session_id": SessionId::generate(), "session_name": "s",
            "tool_name": "Bash", "tool_use_id": "t", "input": {"command": "ls"},
            "input_digest": "d", "status": "pending", "created_at": 0, "suggested_rules": rules,
        }))
        .unwrap()
    }

    fn selected(option: &str) -> ClientAnswer {
        ClientAnswer::Permission(PermissionAnswer::Selected { option_id: option.to_owned() })
    }

    fn asked(rules: &[&str]) -> (Questions, Approval, Vec<AskedOption>) {
        let mut questions = Questions::default();
        let approval = approval(rules);
        let options = questions.open(1, approval.clone(), Rules::Offered);
        (questions, approval, options)
    }

    #[test]
    fn a_rule_is_offered_only_with_its_whole_text() {
        let long = format!("Bash({})", "x".repeat(MAX_RULE_CHARS));
        let (_, _, options) = asked(&["Bash(a\u{202e}b)", &long, "Bash(ls)", "Bash(ls:*)", "Bash"]);
        let always: Vec<&str> = options
            .iter()
            .filter(|option| option.kind == OptionKind::AllowAlways)
            .map(|option| option.name.as_str())
            .collect();
        assert_eq!(
            always,
            ["Always allow in this session: Bash(ls)", "Always allow in this session: Bash(ls:*)"]
        );
        let (_, _, options) = asked(&[]);
        let kinds: Vec<OptionKind> = options.iter().map(|option| option.kind).collect();
        assert_eq!(kinds, [OptionKind::AllowOnce, OptionKind::RejectOnce]);
    }

    #[test]
    fn each_option_is_its_decision() {
        for (option, approve, pattern) in
            [("allow", true, None), ("rule-0", true, Some("Bash(ls)")), ("deny", false, None)]
        {
            let (mut questions, approval, _) = asked(&["Bash(ls)"]);
            let Meaning::Decision(decision) = questions.answer(1, &selected(option)) else {
                panic!("{option}")
            };
            assert_eq!((decision.approval_id, decision.approve), (approval.id, approve));
            assert_eq!(decision.input_digest.as_deref(), Some("d"), "{option}");
            let remembered = decision.remember.map(|remember| (remember.pattern, remember.scope));
            let scope = RuleScope::Session(approval.session_id);
            assert_eq!(remembered, pattern.map(|pattern| (Some(pattern.to_owned()), scope)));
        }
    }

    fn asking(question: &Value) -> (Questions, Vec<AskedOption>) {
        let mut approval = serde_json::to_value(approval(&[])).unwrap();
        approval["question"] = question.clone();
        let mut questions = Questions::default();
        let approval = serde_json::from_value(approval).unwrap();
        let options = questions.open(1, approval, Rules::Offered);
        (questions, options)
    }

    fn ids(options: &[AskedOption]) -> Vec<&str> {
        options.iter().map(|option| option.option_id.as_str()).collect()
    }

    #[test]
    fn one_choice_is_made_with_buttons_and_more_is_left_to_others() {
        let options = json!([{"label": "SQLite"}, {"label": "PostgreSQL"}]);
        let part = json!({"id": "q", "text": "Which?", "options": options, "free_text": true});
        let one = json!({"kind": "choices", "questions": [part]});
        let (mut questions, options) = asking(&one);
        assert_eq!(ids(&options), ["choice-0", "choice-1", "deny"]);
        let Meaning::Decision(decision) = questions.answer(1, &selected("choice-1")) else {
            panic!("no decision")
        };
        let answers = Answers::from([("q".to_owned(), vec!["PostgreSQL".to_owned()])]);
        assert_eq!((decision.approve, decision.answers), (true, Some(answers)));
        for (other, offered) in [
            (json!({"kind": "choices", "questions": [part, part]}), vec!["deny"]),
            (json!({"kind": "choices", "questions": [{"id": "q", "text": "?"}]}), vec!["deny"]),
            (json!({"kind": "tomorrow"}), vec!["deny"]),
            (json!({"kind": "plan", "plan": "p"}), vec!["allow", "deny"]),
        ] {
            let (mut questions, options) = asking(&other);
            assert_eq!(ids(&options), offered, "{other}");
            assert!(!matches!(questions.answer(1, &selected("choice-0")), Meaning::Decision(_)));
        }
    }

    #[test]
    fn nothing_else_decides() {
        for answer in [
            ClientAnswer::Permission(PermissionAnswer::Cancelled),
            ClientAnswer::Error(json!({"code": -32800})),
            ClientAnswer::Other(json!({"outcome": "allow"})),
            ClientAnswer::Other(Value::Null),
            selected("rule-1"),
            selected("allow_always"),
            selected(""),
        ] {
            let (mut questions, approval, _) = asked(&["Bash(ls)"]);
            assert_eq!(questions.answer(1, &answer), Meaning::NoDecision(approval.id));
            assert_eq!(questions.answer(1, &selected("allow")), Meaning::Stale, "{answer:?}");
        }
    }

    #[test]
    fn an_answer_decides_once_and_only_while_its_question_is_open() {
        let (mut questions, approval, _) = asked(&[]);
        assert!(matches!(questions.answer(1, &selected("allow")), Meaning::Decision(_)));
        assert_eq!(questions.answer(1, &selected("allow")), Meaning::Stale);
        assert_eq!(questions.withdraw(approval.id), None, "the editor has closed it itself");

        let (mut questions, approval, _) = asked(&[]);
        assert_eq!(questions.withdraw(approval.id), Some(1));
        assert_eq!(questions.answer(1, &selected("allow")), Meaning::Stale);

        let (mut questions, _, _) = asked(&[]);
        assert_eq!(questions.close(), [1]);
        assert_eq!(questions.answer(1, &selected("allow")), Meaning::Stale);
        assert_eq!(questions.answer(7, &selected("allow")), Meaning::Stale);
    }
}
