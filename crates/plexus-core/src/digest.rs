//! The digest that binds a decision to the input its decider saw: SHA-256, in hex, of the canonical
//! JSON (RFC 8785).

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Returns the digest of `input`: equal for equal JSON values, however they were written.
#[must_use]
pub fn input_digest(input: &Value) -> String {
    let mut canonical = String::new();
    write_canonical(input, &mut canonical);
    let hash = Sha256::digest(canonical.as_bytes());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes `value` in the form of RFC 8785: keys sorted by UTF-16 code units, numbers as ECMAScript
/// prints them, nothing escaped needlessly.
pub fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Null | Value::Bool(_) => out.push_str(&value.to_string()),
        Value::String(text) => write_string(text, out),
        Value::Number(number) => write_number(number, out),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut keys: Vec<_> = map.iter().collect();
            keys.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (i, (key, item)) in keys.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(key, out);
                out.push(':');
                write_canonical(item, out);
            }
            out.push('}');
        }
    }
}

/// Writes a string. serde_json escapes exactly what RFC 8785 wants escaped, with the same short
/// forms, and writes the rest as UTF-8.
fn write_string(text: &str, out: &mut String) {
    out.push_str(&Value::from(text).to_string());
}

/// The largest integer up to which a double holds every integer exactly. Beyond it ECMAScript would
/// print another number than was meant.
const MAX_EXACT: u64 = 1 << 53;

fn write_number(number: &serde_json::Number, out: &mut String) {
    // Integers beyond 2^53 keep their digits: two inputs that differ must never share a digest, and
    // that matters more here than agreement with an engine that cannot tell them apart.
    if let Some(n) = number.as_u64().filter(|n| *n > MAX_EXACT) {
        out.push_str(&n.to_string());
    } else if let Some(n) = number.as_i64() {
        out.push_str(&n.to_string());
    } else if let Some(n) = number.as_f64() {
        write_double(n, out);
    } else {
        out.push_str(&number.to_string());
    }
}

/// Writes a finite double as ECMAScript's Number::toString does.
fn write_double(n: f64, out: &mut String) {
    if n == 0.0 {
        out.push('0');
        return;
    }
    // `{:e}` gives the shortest digits that round-trip, as ECMAScript asks: "d.ddde±x".
    let scientific = format!("{n:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let point = exponent + 1;
    out.push_str(sign);
    let zeros = |n: i32| "0".repeat(usize::try_from(n).unwrap_or(0));
    let at = |n: i32| usize::try_from(n).unwrap_or(0);
    if (count..=21).contains(&point) {
        out.push_str(&digits);
        out.push_str(&zeros(point - count));
    } else if (1..=21).contains(&point) {
        out.push_str(&digits[..at(point)]);
        out.push('.');
        out.push_str(&digits[at(point)..]);
    } else if (-5..=0).contains(&point) {
        out.push_str("0.");
        out.push_str(&zeros(-point));
        out.push_str(&digits);
    } else {
        out.push_str(&digits[..1]);
        if count > 1 {
            out.push('.');
            out.push_str(&digits[1..]);
        }
        let exponent = point - 1;
        out.push_str(&format!("e{}{}", if exponent < 0 { "-" } else { "+" }, exponent.abs()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn canonical(value: &Value) -> String {
        let mut out = String::new();
        write_canonical(value, &mut out);
        out
    }

    #[test]
    fn canonical_json_follows_the_examples_of_the_rfc() {
        let text = r#"{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}"#;
        let value: Value = serde_json::from_str(text).unwrap();
        let expected = "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
        assert_eq!(canonical(&value), expected);
    }

    #[test]
    fn doubles_print_as_ecmascript_prints_them() {
        for (n, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (1e21, "1e+21"),
            (1e20, "100000000000000000000"),
            (123456.789, "123456.789"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (5e-324, "5e-324"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (9007199254740993.0, "9007199254740992"),
        ] {
            assert_eq!(canonical(&json!(n)), text);
        }
    }

    #[test]
    fn order_and_spelling_do_not_change_the_digest_and_content_does() {
        let a: Value = serde_json::from_str(r#"{"a":1,"b":"é"}"#).unwrap();
        let b: Value = serde_json::from_str(r#"{ "b":"\u00e9", "a":1 }"#).unwrap();
        assert_eq!(input_digest(&a), input_digest(&b));
        assert_ne!(input_digest(&a), input_digest(&json!({"a":1,"b":"e"})));
        assert_ne!(
            input_digest(&json!(9007199254740993u64)),
            input_digest(&json!(9007199254740994u64))
        );
        // Keys sort by UTF-16 code units: U+1F600 (a surrogate pair) comes before U+FB33.
        assert_eq!(
            canonical(&json!({"\u{fb33}":1,"\u{1f600}":2})),
            "{\"\u{1f600}\":2,\"\u{fb33}\":1}"
        );
    }

    #[test]
    fn the_digest_of_the_empty_object_is_known() {
        assert_eq!(
            input_digest(&json!({})),
            "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
        );
    }
}
