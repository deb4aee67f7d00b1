//! Forms that an agent or an MCP server wants its user to fill in, and their answers.
//!
//! The input of the approval has `message` and `requested_schema`; answers travel in the input of
//! the allow, as `content`. claude-agent-acp reads a free-text answer to the choice `NAME` from the
//! field `NAME_custom`.

use plexus_wire::{Answers, Question, QuestionChoice, QuestionPart};
use serde_json::{Map, Value, json};

/// The suffix of a field's name for free text.
const OWN_WORDS: &str = "_custom";

/// Reads a form as a question.
pub(crate) fn read(input: &Value) -> Option<Question> {
    let fields = input["requested_schema"]["properties"].as_object()?;
    let message = input["message"].as_str().unwrap_or_default();
    let own_words = |name: &str| fields.contains_key(&format!("{name}{OWN_WORDS}"));
    let asked = fields.iter().filter(|(name, _)| !is_own_words(fields, name));
    let parts = asked.map(|(name, field)| part(name, field, message, own_words(name)));
    let mut questions = parts.collect::<Option<Vec<_>>>()?;
    if let [only] = questions.as_mut_slice()
        && !message.is_empty()
    {
        message.clone_into(&mut only.text);
    }
    (!questions.is_empty()).then_some(Question::Choices { questions })
}

/// Writes the input that carries the answers.
pub(crate) fn answered(input: &Value, answers: &Answers) -> Result<Value, String> {
    let Value::Object(mut carried) = input.clone() else {
        return Err("the form cannot be read".to_owned());
    };
    let mut content = Map::new();
    for (name, given) in answers {
        let field = &input["requested_schema"]["properties"][name];
        let options = options(field);
        let is_option = |text: &&String| options.iter().any(|option| option.label == **text);
        let (chosen, own): (Vec<&String>, Vec<&String>) = given.iter().partition(is_option);
        if let Some(own) = own.first().filter(|_| !options.is_empty()) {
            content.insert(format!("{name}{OWN_WORDS}"), json!(own));
        }
        let text = given.first().map(String::as_str).unwrap_or_default();
        let value = match field["type"].as_str() {
            Some("array") => json!(chosen),
            Some("boolean") => json!(text == YES_NO[0]),
            Some("number" | "integer") => text
                .trim()
                .parse()
                .map(Value::Number)
                .map_err(|_| format!("{name:?} takes a number, not {text:?}"))?,
            _ if options.is_empty() => json!(text),
            _ => match chosen.first() {
                Some(chosen) => json!(chosen),
                None => continue,
            },
        };
        content.insert(name.clone(), value);
    }
    carried.insert("content".to_owned(), Value::Object(content));
    Ok(Value::Object(carried))
}

/// Reads the answers again.
pub(crate) fn answers(input: &Value) -> Option<Answers> {
    let fields = input["requested_schema"]["properties"].as_object()?;
    let mut answers = Answers::new();
    for (name, value) in input["content"].as_object()? {
        let asked = match name.strip_suffix(OWN_WORDS) {
            Some(asked) if is_own_words(fields, name) => asked,
            _ => name,
        };
        let texts: Vec<String> = match value {
            Value::Array(chosen) => chosen.iter().map(words).collect(),
            one => vec![words(one)],
        };
        answers.entry(asked.to_owned()).or_default().extend(texts);
    }
    Some(answers)
}

/// The answers to a field that is true or false.
const YES_NO: [&str; 2] = ["yes", "no"];

fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(yes) => YES_NO[usize::from(!yes)].to_owned(),
        other => other.to_string(),
    }
}

/// Whether a field holds free text for a choice.
fn is_own_words(fields: &Map<String, Value>, name: &str) -> bool {
    name.strip_suffix(OWN_WORDS).is_some_and(|asked| fields.contains_key(asked))
}

/// Reads one field of a form; `None` when its value is neither a text, a number, yes or no, nor a
/// choice.
fn part(name: &str, field: &Value, message: &str, own_words: bool) -> Option<QuestionPart> {
    let options = options(field);
    match field["type"].as_str()? {
        "string" | "boolean" | "number" | "integer" => {}
        "array" if !options.is_empty() => {}
        _ => return None,
    }
    let title = field["title"].as_str().unwrap_or(name);
    Some(QuestionPart {
        id: name.to_owned(),
        header: Some(title.to_owned()),
        text: match field["description"].as_str() {
            Some(about) => about.to_owned(),
            None if message.is_empty() => title.to_owned(),
            None => format!("{message} ({title})"),
        },
        multiple: field["type"] == "array",
        free_text: own_words || options.is_empty(),
        options,
        secret: false,
    })
}

/// Returns the choices of a field.
fn options(field: &Value) -> Vec<QuestionChoice> {
    let choice = |label: &str, about: &Value| QuestionChoice {
        label: label.to_owned(),
        description: about.as_str().map(str::to_owned),
        preview: None,
    };
    if field["type"] == "boolean" {
        return YES_NO.map(|label| choice(label, &Value::Null)).into();
    }
    let titled = field["oneOf"].as_array().or(field["items"]["anyOf"].as_array());
    let plain = field["enum"].as_array().or(field["items"]["enum"].as_array());
    let titled = titled.into_iter().flatten().filter_map(|option| {
        let label = option["const"].as_str()?;
        Some(choice(label, &option["description"]))
    });
    let plain = plain.into_iter().flatten().filter_map(Value::as_str);
    titled.chain(plain.map(|label| choice(label, &Value::Null))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form() -> Value {
        let options = json!([{"const": "SQLite", "title": "SQLite", "description": "one file"},
            {"const": "PostgreSQL", "title": "PostgreSQL"}]);
        let own = json!({"type": "string", "title": "Other"});
        json!({"message": "Answer.", "requested_schema":
        {"type": "object", "properties": {
            "question_0": {"type": "string", "title": "DB", "description": "Which?",
                "oneOf": options},
            "question_0_custom": own,
            "question_1": {"type": "array", "title": "X", "description": "Which more?",
                "items": {"anyOf": options}},
            "question_1_custom": own,
            "sure": {"type": "boolean"},
            "size": {"type": "integer", "description": "How many?"},
        }}})
    }

    #[test]
    fn a_form_is_asked_and_answered_in_words() {
        let input = form();
        let Some(Question::Choices { questions }) = read(&input) else { panic!("no question") };
        let ids: Vec<&str> = questions.iter().map(|part| part.id.as_str()).collect();
        assert_eq!(ids, ["question_0", "question_1", "size", "sure"]);
        assert_eq!(questions[0].text, "Which?");
        assert_eq!(questions[0].options[0].description.as_deref(), Some("one file"));
        assert!(questions[0].free_text && !questions[0].multiple && questions[1].multiple);
        let given: Answers = serde_json::from_value(json!({
            "question_0": ["my own"], "question_1": ["SQLite", "and this"], "sure": ["no"],
            "size": ["3"],
        }))
        .unwrap();
        assert_eq!(Question::Choices { questions }.check(&given), Ok(()));
        let carried = answered(&input, &given).unwrap();
        let content = json!({"question_0_custom": "my own", "question_1": ["SQLite"],
            "question_1_custom": "and this", "sure": false, "size": 3});
        assert_eq!(carried["content"], content);
        assert_eq!(answers(&carried), Some(given));
        let wrong = Answers::from([("size".to_owned(), vec!["many".to_owned()])]);
        assert!(answered(&input, &wrong).unwrap_err().contains("takes a number"));
    }

    #[test]
    fn the_only_field_is_asked_with_the_message() {
        let field = json!({"type": "string", "title": "DB"});
        let form = json!({"message": "Which?", "requested_schema": {"properties": {"x": field}}});
        let Some(Question::Choices { questions }) = read(&form) else { panic!("no question") };
        assert_eq!((questions[0].text.as_str(), questions[0].free_text), ("Which?", true));
    }

    #[test]
    fn a_schema_that_cannot_be_asked_in_words_is_not_a_form() {
        let form = |field: Value| json!({"requested_schema": {"properties": {"x": field}}});
        let array = form(json!({"type": "array"}));
        for input in [form(json!({"type": "object"})), array, form(json!({})), json!({})] {
            assert_eq!(read(&input), None, "{input}");
        }
    }
}
