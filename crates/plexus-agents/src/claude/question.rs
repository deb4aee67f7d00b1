//! Questions of the CLI to its user: the tools `AskUserQuestion` and `ExitPlanMode`.
//!
//! An answer travels in the input: `answers` maps each question's text to one string, in which
//! several labels are joined by a comma. A plan is approved by a plain allow and sent back by a
//! denial, whose message the model reads.

use plexus_wire::{Answers, Question, QuestionChoice, QuestionPart};
use serde_json::{Map, Value};

/// The separator between two labels of one answer, as the CLI's own dialog writes it.
const BETWEEN: &str = ", ";

/// Reads a question; `None` for every other call, and for one that cannot be read.
pub(super) fn read(tool_name: &str, input: &Value) -> Option<Question> {
    match tool_name {
        "AskUserQuestion" => {
            let questions = input["questions"].as_array()?.iter().map(part);
            let questions = questions.collect::<Option<Vec<_>>>()?;
            (!questions.is_empty()).then_some(Question::Choices { questions })
        }
        "ExitPlanMode" => Some(Question::Plan {
            plan: input["plan"].as_str().unwrap_or_default().to_owned(),
            path: text(input, "planFilePath"),
        }),
        _ => None,
    }
}

/// Writes the input that carries the answers.
pub(super) fn answered(input: &Value, answers: &Answers) -> Result<Value, String> {
    let Value::Object(mut input) = input.clone() else {
        return Err("the question cannot be read".to_owned());
    };
    let joined = answers.iter().map(|(id, chosen)| (id.clone(), chosen.join(BETWEEN).into()));
    input.insert("answers".to_owned(), Value::Object(joined.collect::<Map<_, _>>()));
    Ok(Value::Object(input))
}

/// Reads the answers again. A text that is not made of labels alone is one answer.
pub(super) fn answers(tool_name: &str, input: &Value) -> Option<Answers> {
    let Some(Question::Choices { questions }) = read(tool_name, input) else { return None };
    let given = input["answers"].as_object()?;
    let chosen = questions.iter().filter_map(|part| {
        let text = given.get(&part.id)?.as_str()?;
        let is_label = |text: &str| part.options.iter().any(|option| option.label == text);
        let split: Vec<&str> = text.split(BETWEEN).collect();
        let whole = is_label(text) || !split.iter().all(|piece| is_label(piece));
        let pieces = if whole { vec![text] } else { split };
        Some((part.id.clone(), pieces.into_iter().map(str::to_owned).collect()))
    });
    Some(chosen.collect())
}

/// Reads one question. The CLI's own dialog always takes free text too.
fn part(question: &Value) -> Option<QuestionPart> {
    let asked = text(question, "question")?;
    let options = question["options"].as_array().map(Vec::as_slice).unwrap_or_default();
    let option = |option: &Value| {
        Some(QuestionChoice {
            label: text(option, "label")?,
            description: text(option, "description"),
            preview: text(option, "preview"),
        })
    };
    Some(QuestionPart {
        id: asked.clone(),
        header: text(question, "header"),
        text: asked,
        options: options.iter().map(option).collect::<Option<_>>()?,
        multiple: question["multiSelect"] == true,
        free_text: true,
        secret: false,
    })
}

fn text(value: &Value, field: &str) -> Option<String> {
    value[field].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked() -> Value {
        json!({"questions": [
            {"question": "Which?", "header": "DB", "multiSelect": false, "options": [
                {"label": "SQLite", "description": "one file"}, {"label": "a, b"},
            ]},
            {"question": "Extras?", "header": "X", "multiSelect": true, "options": [
                {"label": "a"}, {"label": "b"},
            ]},
        ]})
    }

    #[test]
    fn answers_are_written_as_the_cli_takes_them_and_read_again() {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        for (one, many, written) in [
            (vec!["SQLite"], vec!["a", "b"], ["SQLite", "a, b"]),
            (vec!["a, b"], vec!["b"], ["a, b", "b"]),
            (vec!["my own, really"], vec!["a"], ["my own, really", "a"]),
        ] {
            let answers: Answers =
                [("Which?".to_owned(), texts(&one)), ("Extras?".to_owned(), texts(&many))].into();
            let Some(question) = read("AskUserQuestion", &asked()) else { panic!("no question") };
            assert_eq!(question.check(&answers), Ok(()));
            let input = answered(&asked(), &answers).unwrap();
            let expected = json!({"Which?": written[0], "Extras?": written[1]});
            assert_eq!(input["answers"], expected);
            assert_eq!(input["questions"], asked()["questions"]);
            assert_eq!(super::answers("AskUserQuestion", &input), Some(answers));
        }
    }

    #[test]
    fn a_question_that_cannot_be_read_is_none() {
        for input in [
            json!({}),
            json!({"questions": []}),
            json!({"questions": [{"header": "x"}]}),
            json!({"questions": [{"question": "x?", "options": [{"description": "y"}]}]}),
            json!({"questions": "x"}),
        ] {
            assert_eq!(read("AskUserQuestion", &input), None, "{input}");
        }
        assert_eq!(read("Bash", &asked()), None);
    }

    #[test]
    fn a_plan_is_a_question_also_when_none_was_written() {
        let plan = |plan: &str, path: Option<&str>| {
            Some(Question::Plan { plan: plan.to_owned(), path: path.map(str::to_owned) })
        };
        let whole = json!({"plan": "# Do", "planFilePath": "/p.md"});
        assert_eq!(read("ExitPlanMode", &whole), plan("# Do", Some("/p.md")));
        assert_eq!(read("ExitPlanMode", &json!({})), plan("", None));
    }
}
