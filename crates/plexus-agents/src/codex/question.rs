//! Questions of Codex to its user: those of the model (`request_user_input`), and forms that an MCP
//! server wants filled in.
//!
//! Answers travel in the input of the allow: `answers` for the model, `content` for a server.

use plexus_wire::{Answers, Question, QuestionChoice, QuestionPart};
use serde_json::{Value, json};

use super::{ASK_USER, MCP_ASK};
use crate::forms;

/// Reads a question; `None` for every other call, and for a question that text cannot answer.
pub(super) fn read(tool_name: &str, input: &Value) -> Option<Question> {
    let questions = match tool_name {
        ASK_USER => input["questions"].as_array()?.iter().map(asked).collect::<Option<Vec<_>>>()?,
        MCP_ASK => return forms::read(input),
        _ => return None,
    };
    (!questions.is_empty()).then_some(Question::Choices { questions })
}

/// Writes the input that carries the answers.
pub(super) fn answered(tool_name: &str, input: &Value, answers: &Answers) -> Result<Value, String> {
    if tool_name != ASK_USER {
        return forms::answered(input, answers);
    }
    let Value::Object(mut object) = input.clone() else {
        return Err("the question cannot be read".to_owned());
    };
    object.insert("answers".to_owned(), json!(answers));
    Ok(Value::Object(object))
}

/// Reads the answers again.
pub(super) fn answers(tool_name: &str, input: &Value) -> Option<Answers> {
    if tool_name == ASK_USER {
        return serde_json::from_value(input["answers"].clone()).ok();
    }
    forms::answers(input)
}

fn asked(question: &Value) -> Option<QuestionPart> {
    let options = question["options"].as_array().map(Vec::as_slice).unwrap_or_default();
    let options = options.iter().map(|option| {
        let description = option["description"].as_str().map(str::to_owned);
        Some(QuestionChoice { description, ..choice(option["label"].as_str()?) })
    });
    let options = options.collect::<Option<Vec<_>>>()?;
    Some(QuestionPart {
        id: question["id"].as_str()?.to_owned(),
        header: question["header"].as_str().map(str::to_owned),
        text: question["question"].as_str()?.to_owned(),
        free_text: options.is_empty() || question["is_other"] == true,
        options,
        multiple: false,
        secret: question["is_secret"] == true,
    })
}

fn choice(label: &str) -> QuestionChoice {
    QuestionChoice { label: label.to_owned(), description: None, preview: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(given: &[(&str, &str)]) -> Answers {
        given.iter().map(|(id, text)| ((*id).to_owned(), vec![(*text).to_owned()])).collect()
    }

    #[test]
    fn a_question_of_the_model_is_answered_by_its_ids() {
        let input = json!({"questions": [
            {"id": "db", "header": "DB", "question": "Which?", "options": [{"label": "SQLite"}]},
            {"id": "key", "question": "Key?", "options": [], "is_secret": true},
        ]});
        let Some(question) = read(ASK_USER, &input) else { panic!("no question") };
        let Question::Choices { questions } = &question else { panic!("{question:?}") };
        assert!(!questions[0].free_text && questions[1].free_text && questions[1].secret);
        let given = texts(&[("db", "SQLite"), ("key", "k")]);
        assert_eq!(question.check(&given), Ok(()));
        let carried = answered(ASK_USER, &input, &given).unwrap();
        assert_eq!(carried["answers"], json!({"db": ["SQLite"], "key": ["k"]}));
        assert_eq!(answers(ASK_USER, &carried), Some(given));
    }

    #[test]
    fn a_form_of_a_server_is_filled_in_with_values_of_its_types() {
        let input = json!({"server": "s", "message": "Sure?", "requested_schema": {"properties": {
            "really": {"type": "boolean"},
            "size": {"type": "integer"},
            "color": {"type": "string", "enum": ["red", "blue"]},
            "note": {"type": "string", "title": "A note"},
        }}});
        let Some(question) = read(MCP_ASK, &input) else { panic!("no question") };
        let given = texts(&[("really", "no"), ("size", "3"), ("color", "red"), ("note", "n")]);
        assert_eq!(question.check(&given), Ok(()));
        let carried = answered(MCP_ASK, &input, &given).unwrap();
        let content = json!({"really": false, "size": 3, "color": "red", "note": "n"});
        assert_eq!(carried["content"], content);
        assert_eq!(answers(MCP_ASK, &carried), Some(given));
        let wrong = texts(&[("size", "many")]);
        assert!(answered(MCP_ASK, &input, &wrong).unwrap_err().contains("takes a number"));
    }
}
