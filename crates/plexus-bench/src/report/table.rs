//! The figures as a table for people.

use std::fmt::Write as _;

use super::machine;
use crate::figure::{Aim, Figure};
use crate::measure::Outcome;

/// Renders the table, in Markdown that is also readable as plain text.
#[must_use]
pub fn render(outcome: &Outcome) -> String {
    let mut rows = vec![
        ["figure", "value", "spread", "aim", "", "beside it, in the same run"].map(str::to_owned),
    ];
    rows.extend(outcome.figures.iter().map(row));
    rows.extend(outcome.missing.iter().map(|missing| {
        let [value, reason] = ["missing", "see below"].map(str::to_owned);
        [missing.key.to_owned(), value, String::new(), String::new(), String::new(), reason]
    }));
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    };
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        line(&mut text, row, &widths, ' ');
        if index == 0 {
            line(&mut text, &Default::default(), &widths, '-');
        }
    }
    text.push('\n');
    for figure in &outcome.figures {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "- `{}`: {}", figure.key, figure.what);
    }
    for missing in &outcome.missing {
        let _ = writeln!(text, "- `{}` is missing: {}", missing.key, missing.reason);
    }
    let machine = machine::describe();
    let said =
        |key: &str| machine[key].as_str().map_or_else(|| machine[key].to_string(), str::to_owned);
    let _ = write!(
        text,
        "\n{} run of {:.0} s on {} ({} cores, {}), Linux {}, {} build, load {} at the end. Values are medians of the rounds, \
         the spread is their smallest and largest.",
        outcome.mode,
        outcome.took.as_secs_f64(),
        said("cpu"),
        said("cores"),
        said("memory"),
        said("kernel"),
        said("build"),
        said("load_1m"),
    );
    text
}

fn line(text: &mut String, row: &[String; 6], widths: &[usize; 6], fill: char) {
    for (cell, width) in row.iter().zip(widths) {
        let _ = write!(text, "|{fill}{cell}");
        text.extend(std::iter::repeat_n(fill, width - cell.chars().count() + 1));
    }
    text.push_str("|\n");
}

fn row(figure: &Figure) -> [String; 6] {
    let (least, most) = figure.spread();
    let aim = match figure.aim {
        Aim::AtMost(limit) => format!("≤ {}", number(limit)),
        Aim::AtLeast(limit) => format!("≥ {}", number(limit)),
        Aim::Beside => String::new(),
    };
    let verdict = match figure.aim.is_met_by(figure.value()) {
        Some(true) => "met",
        Some(false) => "MISSED",
        None => "",
    };
    let rivals = figure.rivals.iter().map(|rival| match &rival.value {
        Ok(value) => format!("{} {} {}", rival.what, number(*value), rival.unit),
        Err(reason) => format!("{} missing ({reason})", rival.what),
    });
    let rivals: Vec<String> = rivals.map(|rival| rival.trim_end().to_owned()).collect();
    [
        figure.key.to_owned(),
        format!("{} {}", number(figure.value()), figure.unit).trim_end().to_owned(),
        format!("{}–{}", number(least), number(most)),
        aim,
        verdict.to_owned(),
        rivals.join("; "),
    ]
}

/// Shows a number with as many digits as its size justifies.
fn number(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Missing;

    #[test]
    fn a_missed_aim_and_a_missing_figure_are_told() {
        let figure = Figure::new("slow_ms", "something slow", "ms", vec![7.0], Aim::AtMost(5.0))
            .beside("rival", &[250.0], "ms");
        let missing = Missing { key: "absent", reason: "no disk".to_owned(), is_required: true };
        let outcome = Outcome {
            mode: "tiny",
            figures: vec![figure],
            missing: vec![missing],
            took: std::time::Duration::ZERO,
        };
        let table = render(&outcome);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines[2],
            "| slow_ms | 7.00 ms | 7.00–7.00 | ≤ 5.00 | MISSED | rival 250 ms               |"
        );
        assert!(lines[3].starts_with("| absent  | missing |"), "{}", lines[3]);
        assert!(lines.contains(&"- `absent` is missing: no disk"), "{table}");
    }
}
