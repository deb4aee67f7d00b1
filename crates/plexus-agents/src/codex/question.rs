//! Questions of Codex to its user: those of the model (`request_user_input`), and forms that an MCP
//! server wants filled in.
//!
//! Answers travel in the input of the allow: `answers` for the model, `content` for a server.

use plexus_wire::{Answers, Question, QuestionChoice, QuestionPart};
use serde_json::{Map, Value, json};

use super::{ASK_USER, MCP_ASK};

/// What a field of a form that is true or false is answered with.
const YES_NO: [&str; 2] = ["yes", "no"];

/// Reads a question; `None` for every other call, and for one that cannot be asked in words.
pub(super) fn read(tool_name: &str, input: &Value) -> Option<Question> {
    let questions = match tool_name {
        ASK_USER => input["questions"].as_array()?.iter().map(asked).collect::<Option<Vec<_>>>()?,
        MCP_ASK => {
            let fields = input["requested_schema"]["properties"].as_object()?;
            let message = input["message"].as_str().unwrap_or_default();
            let fields = fields.iter().map(|(name, field)| form_field(name, field, message));
            fields.collect::<Option<Vec<_>>>()?
        }
        _ => return None,
    };
    (!questions.is_empty()).then_some(Question::Choices { questions })
}

/// Writes the input that carries the answers.
pub(super) fn answered(tool_name: &str, input: &Value, answers: &Answers) -> Result<Value, String> {
    let Value::Object(mut object) = input.clone() else {
        return Err("the question cannot be read".to_owned());
    };
    if tool_name == ASK_USER {
        object.insert("answers".to_owned(), json!(answers));
        return Ok(Value::Object(object));
    }
    let fields = &input["requested_schema"]["properties"];
    let content = answers.iter().map(|(name, given)| {
        let text = given.first().map(String::as_str).unwrap_or_default();
        Ok((name.clone(), field_value(name, &fields[name], text)?))
    });
    let content = content.collect::<Result<Map<_, _>, String>>()?;
    object.insert("content".to_owned(), Value::Object(content));
    Ok(Value::Object(object))
}

/// Reads the answers again.
pub(super) fn answers(tool_name: &str, input: &Value) -> Option<Answers> {
    if tool_name == ASK_USER {
        return serde_json::from_value(input["answers"].clone()).ok();
    }
    let words = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Bool(yes) => YES_NO[usize::from(!yes)].to_owned(),
        other => other.to_string(),
    };
    let content = input["content"].as_object()?;
    Some(content.iter().map(|(name, value)| (name.clone(), vec![words(value)])).collect())
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

/// One field of a form; `None` when its value is neither a text, a number, yes or no, nor a choice.
fn form_field(name: &str, field: &Value, message: &str) -> Option<QuestionPart> {
    let texts = |list: &Value| -> Vec<QuestionChoice> {
        let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(choice).collect()
    };
    let options = match field["type"].as_str()? {
        "string" => texts(&field["enum"]),
        "boolean" => YES_NO.map(choice).into(),
        "number" | "integer" => Vec::new(),
        _ => return None,
    };
    let about = field["title"].as_str().or(field["description"].as_str()).unwrap_or(name);
    Some(QuestionPart {
        id: name.to_owned(),
        header: Some(name.to_owned()),
        text: if message.is_empty() { about.to_owned() } else { format!("{message} ({about})") },
        free_text: options.is_empty(),
        options,
        multiple: false,
        secret: false,
    })
}

fn field_value(name: &str, field: &Value, text: &str) -> Result<Value, String> {
    match field["type"].as_str() {
        Some("boolean") => Ok(Value::from(text == YES_NO[0])),
        Some("number" | "integer") => {
            let number: Option<serde_json::Number> = text.trim().parse().ok();
            number
                .map(Value::Number)
                .ok_or_else(|| format!("{name:?} takes a number, not {text:?}"))
        }
        _ => Ok(Value::from(text)),
    }
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

    #[test]
    fn a_form_that_cannot_be_asked_in_words_is_no_question() {
        let form = |field: Value| json!({"requested_schema": {"properties": {"x": field}}});
        for input in [form(json!({"type": "array"})), form(json!({})), json!({})] {
            assert_eq!(read(MCP_ASK, &input), None, "{input}");
        }
        assert_eq!(read("exec_command", &json!({"questions": []})), None);
    }
}
