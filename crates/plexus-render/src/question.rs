//! Questions of an agent to its user as a person reads them, and the answers that a line means.

use plexus_wire::{Answers, Question, QuestionPart};

use crate::sanitize;
use crate::screen::{Screen, Tone};
use crate::tool_call::{self, Extent};

/// Shows a question.
pub fn lines(question: &Question, extent: Extent, screen: Screen) -> Vec<String> {
    match question {
        Question::Choices { questions } => {
            (0..questions.len()).flat_map(|at| part(questions, at, extent, screen)).collect()
        }
        Question::Plan { plan, path } => {
            let mut lines = Vec::new();
            if plan.trim().is_empty() {
                lines.push("(no plan was written)".to_owned());
            } else {
                lines.extend(tool_call::text(plan, extent, screen));
            }
            let path = path.as_deref().map(|path| format!("in {}", sanitize::one_line(path)));
            lines.extend(path.map(|words| screen.paint(Tone::Faint, &words)));
            lines
        }
    }
}

/// Shows one part of a question, with numbers for its options.
pub fn part(parts: &[QuestionPart], at: usize, extent: Extent, screen: Screen) -> Vec<String> {
    let Some(part) = parts.get(at) else { return Vec::new() };
    let mut head = sanitize::one_line(&part.text).into_owned();
    if parts.len() > 1 {
        head = format!("{} of {}: {head}", at + 1, parts.len());
    }
    let mut lines = vec![screen.paint(Tone::Strong, &head)];
    for (index, option) in part.options.iter().enumerate() {
        let label = sanitize::one_line(&option.label).into_owned();
        let about = option.description.as_deref().map(sanitize::one_line).unwrap_or_default();
        let about = if about.is_empty() { String::new() } else { format!("  {about}") };
        lines.push(format!("  {}  {label}{}", index + 1, screen.paint(Tone::Faint, &about)));
        if let (Some(preview), Extent::Whole) = (&option.preview, extent) {
            let preview = tool_call::text(preview, extent, screen);
            lines.extend(preview.into_iter().map(|line| format!("     {line}")));
        }
    }
    lines
}

/// Says which answers a part takes, in a few words.
pub fn takes(part: &QuestionPart) -> &'static str {
    match (part.options.is_empty(), part.multiple, part.free_text) {
        (true, ..) => "your words",
        (false, false, false) => "a number",
        (false, false, true) => "a number, or your words",
        (false, true, false) => "numbers, as 1,2",
        (false, true, true) => "numbers, as 1,2, or your words",
    }
}

/// Reads the answer to one part: numbers or labels of its options, or your own words where it takes
/// them. Text after a leading `=` is always own words.
pub fn chosen(part: &QuestionPart, line: &str) -> Result<Vec<String>, String> {
    let line = line.trim();
    let own = |text: &str| match part.free_text {
        true if !text.trim().is_empty() => Ok(vec![text.to_owned()]),
        _ => Err(format!("it takes {}", takes(part))),
    };
    if let Some(text) = line.strip_prefix('=') {
        return own(text);
    }
    let by_label = |text: &str| {
        part.options.iter().find(|option| option.label.eq_ignore_ascii_case(text.trim()))
    };
    if let Some(option) = by_label(line) {
        return Ok(vec![option.label.clone()]);
    }
    let numbers: Option<Vec<usize>> = line
        .split([',', ' '])
        .filter(|piece| !piece.is_empty())
        .map(|piece| piece.parse().ok())
        .collect();
    let numbers = numbers.filter(|numbers| !numbers.is_empty() && !part.options.is_empty());
    let Some(mut numbers) = numbers else { return own(line) };
    numbers.sort_unstable();
    numbers.dedup();
    if numbers.len() > 1 && !part.multiple {
        return Err("it takes one number".to_owned());
    }
    let label = |number: &usize| {
        let option = number.checked_sub(1).and_then(|index| part.options.get(index));
        option.map(|option| option.label.clone()).ok_or(format!("there is no number {number}"))
    };
    numbers.iter().map(label).collect()
}

/// Reads the answers to all parts, each from one text.
pub fn answers(question: &Question, texts: &[String]) -> Result<Answers, String> {
    let Question::Choices { questions } = question else {
        return Err("a plan takes no answer: approve it, or deny it with a reason".to_owned());
    };
    if texts.len() != questions.len() {
        let (asked, given) = (questions.len(), texts.len());
        return Err(format!("it asks {asked} things, and you gave {given} answers"));
    }
    let answer = |(part, text): (&QuestionPart, &String)| {
        let chosen = chosen(part, text)
            .map_err(|words| format!("{}: {words}", sanitize::one_line(&part.text)))?;
        Ok((part.id.clone(), chosen))
    };
    questions.iter().zip(texts).map(answer).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn part_of(more: &serde_json::Value) -> QuestionPart {
        let mut part = json!({"id": "q", "text": "Which?", "options": [
            {"label": "SQLite", "description": "one\u{1b} file"}, {"label": "PostgreSQL"},
        ]});
        part.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(part).unwrap()
    }

    #[test]
    fn a_line_means_options_or_own_words() {
        let one = part_of(&json!({}));
        let many = part_of(&json!({"multiple": true, "free_text": true}));
        let words = part_of(&json!({"options": [], "free_text": true}));
        for (part, line, answer) in [
            (&one, "2", Ok(vec!["PostgreSQL"])),
            (&one, " sqlite ", Ok(vec!["SQLite"])),
            (&one, "3", Err("there is no number 3")),
            (&one, "0", Err("there is no number 0")),
            (&one, "1 2", Err("it takes one number")),
            (&one, "other", Err("it takes a number")),
            (&one, "", Err("it takes a number")),
            (&many, "2, 1,2", Ok(vec!["SQLite", "PostgreSQL"])),
            (&many, "my own", Ok(vec!["my own"])),
            (&many, "=1", Ok(vec!["1"])),
            (&words, "12", Ok(vec!["12"])),
            (&words, "", Err("it takes your words")),
        ] {
            let given = chosen(part, line);
            let given = given.as_ref().map(|all| all.iter().map(String::as_str).collect());
            assert_eq!(given.map_err(String::as_str), answer, "{line:?}");
        }
    }

    #[test]
    fn a_question_is_shown_with_numbers_and_without_control_characters() {
        let question = Question::Choices { questions: vec![part_of(&json!({}))] };
        let shown = lines(&question, Extent::Short, Screen::plain(80)).join("\n");
        assert!(shown.contains("1  SQLite") && shown.contains("2  PostgreSQL"), "{shown}");
        assert!(!shown.contains('\u{1b}'), "{shown}");
    }

    #[test]
    fn every_part_needs_its_answer() {
        let question = Question::Choices { questions: vec![part_of(&json!({}))] };
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        assert_eq!(
            answers(&question, &texts(&["1"])),
            Ok(Answers::from([("q".to_owned(), texts(&["SQLite"]))]))
        );
        assert!(answers(&question, &texts(&[])).unwrap_err().contains("you gave 0 answers"));
        assert!(answers(&question, &texts(&["9"])).unwrap_err().contains("no number 9"));
    }
}
