//! The figures as one JSON object: each key of `DESIGN_KEYS` with its figure, and the context that
//! explains the figures.

use serde_json::{Map, Value, json};

use super::machine;
use crate::figure::{Aim, DESIGN_KEYS, Figure};
use crate::measure::Outcome;

/// Renders the object. A figure that was not taken is `null`, with the reason under `missing`.
#[must_use]
pub fn render(outcome: &Outcome) -> String {
    let values = outcome
        .figures
        .iter()
        .map(|figure| (figure.key.to_owned(), json!(rounded(figure.value()))));
    let nulls = outcome.missing.iter().map(|missing| (missing.key.to_owned(), Value::Null));
    let is_of_design = |(key, _): &(String, Value)| DESIGN_KEYS.contains(&key.as_str());
    let (of_design, extra): (Vec<_>, Vec<_>) = values.chain(nulls).partition(is_of_design);
    let mut all: Map<String, Value> = of_design.into_iter().collect();
    all.insert("extra".to_owned(), extra.into_iter().collect::<Map<_, _>>().into());
    let each = |value: &dyn Fn(&Figure) -> Value| -> Value {
        outcome
            .figures
            .iter()
            .map(|figure| (figure.key.to_owned(), value(figure)))
            .collect::<Map<_, _>>()
            .into()
    };
    let spread = |figure: &Figure| json!([rounded(figure.spread().0), rounded(figure.spread().1)]);
    let rivals = |figure: &Figure| {
        let named = figure
            .rivals
            .iter()
            .map(|rival| (format!("{}{}", rival.what, unit(rival.unit)), &rival.value));
        named
            .map(|(name, value)| (name, json!(value.as_ref().ok().map(|value| rounded(*value)))))
            .collect()
    };
    all.insert("mode".to_owned(), json!(outcome.mode));
    all.insert("seconds".to_owned(), json!(rounded(outcome.took.as_secs_f64())));
    all.insert("machine".to_owned(), machine::describe());
    all.insert("what".to_owned(), each(&|figure| json!(figure.what)));
    all.insert("spread".to_owned(), each(&spread));
    all.insert("limits".to_owned(), each(&limit));
    all.insert("met".to_owned(), each(&|figure| json!(figure.aim.is_met_by(figure.value()))));
    all.insert("beside".to_owned(), each(&rivals));
    let reasons =
        outcome.missing.iter().map(|missing| (missing.key.to_owned(), json!(missing.reason)));
    let absent = outcome.figures.iter().flat_map(|figure| &figure.rivals);
    let absent =
        absent.filter_map(|rival| Some((rival.what.clone(), json!(rival.value.as_ref().err()?))));
    all.insert("missing".to_owned(), reasons.chain(absent).collect::<Map<_, _>>().into());
    Value::Object(all).to_string()
}

fn limit(figure: &Figure) -> Value {
    match figure.aim {
        Aim::AtMost(limit) => json!({ "at_most": limit }),
        Aim::AtLeast(limit) => json!({ "at_least": limit }),
        Aim::Beside => Value::Null,
    }
}

fn unit(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!(" ({unit})") }
}

/// Rounds to three decimals: more would claim a precision that no figure here has.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Missing;

    #[test]
    fn every_key_has_its_number_or_null_with_a_reason() {
        let figure = Figure::new("path_ratio", "a", "", vec![3.0, 1.0, 2.00049], Aim::AtMost(5.0))
            .beside("b", &[4.0], "ms");
        let figure = figure.beside_or_missing("d", Err("not in the registry".to_owned()), "ms");
        let missing =
            Missing { key: "reattach_s", reason: "no disk".to_owned(), is_required: true };
        let outcome = Outcome {
            mode: "tiny",
            figures: vec![figure],
            missing: vec![missing],
            took: std::time::Duration::ZERO,
        };
        let object: Value = serde_json::from_str(&render(&outcome)).unwrap();
        assert_eq!(
            (&object["path_ratio"], object.get("reattach_s")),
            (&json!(2.0), Some(&Value::Null))
        );
        assert_eq!(object["spread"], json!({"path_ratio": [1.0, 3.0]}));
        assert_eq!(object["limits"], json!({"path_ratio": {"at_most": 5.0}}));
        assert_eq!(object["beside"], json!({"path_ratio": {"b (ms)": 4.0, "d (ms)": null}}));
        assert_eq!(object["missing"], json!({"reattach_s": "no disk", "d": "not in the registry"}));
    }
}
