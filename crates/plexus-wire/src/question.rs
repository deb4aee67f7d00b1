//! Questions of an agent to its user, in one form for every agent, and their answers.
//!
//! A question is a kind of approval: it waits, is decided once, and can be denied like any other.
//! Rules and modes never decide one.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answers to the parts of a question, by their ids: labels of options, or own words.
pub type Answers = BTreeMap<String, Vec<String>>;

/// What an agent asks its user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Question {
    /// Something to choose or to say. An allow carries `answers`, one for each part.
    Choices {
        /// The parts, in their order.
        questions: Vec<QuestionPart>,
    },
    /// May this plan be carried out? A denial sends it back, with its message as the comment.
    Plan {
        /// The plan, in Markdown.
        plan: String,
        /// The file in which the agent keeps it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
}

/// One part of a question.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct QuestionPart {
    /// Names its answer in `answers`.
    pub id: String,
    /// A short label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// What is asked.
    pub text: String,
    /// The options to choose from; without any, it is answered in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<QuestionChoice>,
    /// Whether several may be chosen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub multiple: bool,
    /// Whether something else than an option may be answered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub free_text: bool,
    /// Whether the answer is a secret, which a screen does not show while it is typed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
}

/// One thing that may be chosen.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct QuestionChoice {
    /// What it is called, and what is answered.
    pub label: String,
    /// What it means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it would look like, as plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
}

impl Question {
    /// Says in plain words why these answers do not answer the question.
    ///
    /// # Errors
    /// When they do not fit it.
    pub fn check(&self, answers: &Answers) -> Result<(), String> {
        let Self::Choices { questions } = self else {
            return Err("a plan takes no answers: approve it, or deny it with a message".to_owned());
        };
        if let Some(id) = answers.keys().find(|id| questions.iter().all(|part| part.id != **id)) {
            return Err(format!("nothing is asked under the id {id:?}"));
        }
        questions.iter().try_for_each(|part| {
            part.check(answers.get(&part.id).map(Vec::as_slice).unwrap_or_default())
        })
    }

    /// Says in a few words what is asked, for lists and notices.
    #[must_use]
    pub fn summary(&self) -> String {
        match self {
            Self::Choices { questions } => {
                let texts: Vec<&str> = questions.iter().map(|part| part.text.as_str()).collect();
                texts.join(" / ")
            }
            Self::Plan { plan, .. } => {
                let first = plan.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
                format!("a plan: {}", first.trim_start_matches('#').trim())
            }
        }
    }
}

impl QuestionPart {
    fn check(&self, answers: &[String]) -> Result<(), String> {
        let asked = &self.text;
        if answers.iter().all(|answer| answer.trim().is_empty()) {
            return Err(format!("{asked:?} is not answered"));
        }
        if answers.len() > 1 && !self.multiple {
            return Err(format!("{asked:?} takes one answer"));
        }
        let is_option = |text: &str| self.options.iter().any(|option| option.label == text);
        let own: Vec<&String> = answers.iter().filter(|answer| !is_option(answer)).collect();
        match own.as_slice() {
            [] => {}
            [_] if self.free_text => {}
            [_, _, ..] if self.free_text => {
                return Err(format!("{asked:?} takes one answer in your own words"));
            }
            [other, ..] => {
                let labels: Vec<_> =
                    self.options.iter().map(|option| format!("{:?}", option.label)).collect();
                return Err(format!(
                    "{other:?} is not an option of {asked:?}: choose {}",
                    labels.join(" or ")
                ));
            }
        }
        let twice = answers
            .iter()
            .enumerate()
            .find(|(at, answer)| answers.iter().take(*at).any(|earlier| earlier == *answer));
        match twice {
            Some((_, answer)) => Err(format!("{answer:?} is chosen twice in {asked:?}")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(id: &str, options: &[&str]) -> QuestionPart {
        let option = |label: &&str| QuestionChoice {
            label: (*label).to_owned(),
            description: None,
            preview: None,
        };
        QuestionPart {
            id: id.to_owned(),
            header: None,
            text: format!("{id}?"),
            options: options.iter().map(option).collect(),
            multiple: false,
            free_text: false,
            secret: false,
        }
    }

    fn refused(part: &QuestionPart, answers: &[(&str, &[&str])]) -> Option<String> {
        let answers = answers.iter().map(|(id, texts)| {
            ((*id).to_owned(), texts.iter().map(|text| (*text).to_owned()).collect())
        });
        let question = Question::Choices { questions: vec![part.clone()] };
        question.check(&answers.collect()).err()
    }

    #[test]
    fn answers_that_do_not_fit_are_told_in_plain_words() {
        let one = part("db", &["a", "b"]);
        let many = QuestionPart { multiple: true, ..one.clone() };
        let free = QuestionPart { free_text: true, ..many.clone() };
        for (part, answers, words) in [
            (&one, vec![("db", &["a"][..])], None),
            (&many, vec![("db", &["a", "b"][..])], None),
            (&free, vec![("db", &["a", "mine"][..])], None),
            (&one, vec![], Some("\"db?\" is not answered")),
            (&one, vec![("db", &[][..])], Some("\"db?\" is not answered")),
            (&one, vec![("db", &[" "][..])], Some("\"db?\" is not answered")),
            (&one, vec![("db", &["a", "b"][..])], Some("\"db?\" takes one answer")),
            (
                &one,
                vec![("db", &["c"][..])],
                Some("\"c\" is not an option of \"db?\": choose \"a\" or \"b\""),
            ),
            (&many, vec![("db", &["a", "a"][..])], Some("\"a\" is chosen twice in \"db?\"")),
            (
                &free,
                vec![("db", &["x", "y"][..])],
                Some("\"db?\" takes one answer in your own words"),
            ),
            (
                &one,
                vec![("db", &["a"][..]), ("x", &["a"][..])],
                Some("nothing is asked under the id \"x\""),
            ),
        ] {
            assert_eq!(refused(part, &answers).as_deref(), words, "{answers:?}");
        }
    }

    #[test]
    fn a_plan_takes_no_answers() {
        let plan = Question::Plan { plan: "\n# Do it\n1. now".to_owned(), path: None };
        assert!(plan.check(&Answers::new()).is_err());
        assert_eq!(plan.summary(), "a plan: Do it");
    }
}
