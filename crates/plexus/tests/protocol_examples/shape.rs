//! Whether an answer has the shape that the page shows, and what the page's ids stand for.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

/// What is cut short on the page.
const CUT: char = '…';

/// Texts at least this long that hold no blank are ids, cursors and digests: the page means one of
/// the story by them.
const NAME_CHARS: usize = 20;

/// What the page's ids, cursors and paths stand for.
#[derive(Clone)]
pub(crate) struct Names {
    home: (String, String),
    known: HashMap<String, String>,
    /// Fields that answers had although the page does not show them, as `method path`.
    pub(crate) added: BTreeSet<String>,
    /// The method whose answer is looked at.
    method: String,
}

impl Names {
    /// Paths below `home` of the page are below `folder` here.
    pub(crate) fn new(home: &str, folder: &str) -> Self {
        Self {
            home: (home.to_owned(), folder.to_owned()),
            known: HashMap::new(),
            added: BTreeSet::new(),
            method: String::new(),
        }
    }

    /// Returns what a request of the page means here.
    pub(crate) fn meant(&self, request: &Value) -> Value {
        match request {
            Value::String(text) => {
                let mut text = text.replace(&self.home.0, &self.home.1);
                for (shown, real) in &self.known {
                    text = text.replace(shown, real);
                }
                text.into()
            }
            Value::Array(items) => items.iter().map(|item| self.meant(item)).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| (name.clone(), self.meant(value))).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => request.clone(),
        }
    }

    /// Compares an answer with what is shown, and learns what the ids in it stand for.
    ///
    /// # Errors
    /// Says where they differ; nothing is learned then.
    pub(crate) fn learn(
        &mut self,
        method: &str,
        shown: &Value,
        real: &Value,
    ) -> Result<(), String> {
        let mut learned = self.clone();
        learned.method = method.to_owned();
        learned.compare(shown, real, "")?;
        *self = learned;
        Ok(())
    }

    fn compare(&mut self, shown: &Value, real: &Value, at: &str) -> Result<(), String> {
        match (shown, real) {
            (Value::Null, Value::Null)
            | (Value::Bool(_), Value::Bool(_))
            | (Value::Number(_), Value::Number(_)) => Ok(()),
            (Value::String(shown), Value::String(real)) => self.compare_text(shown, real, at),
            (Value::Array(shown), Value::Array(real)) => {
                shown.iter().try_for_each(|item| self.find(item, real, &format!("{at}[]")))
            }
            (Value::Object(shown), Value::Object(real)) => {
                for (name, value) in shown.iter().filter(|(name, _)| !name.contains(CUT)) {
                    let real = real
                        .get(name)
                        .ok_or_else(|| format!("{at}.{name} is shown and not there"))?;
                    self.compare(value, real, &format!("{at}.{name}"))?;
                }
                if shown.keys().any(|name| name.contains(CUT)) {
                    return Ok(());
                }
                let more = real.keys().filter(|name| !shown.contains_key(*name));
                self.added.extend(more.map(|name| format!("{} {at}.{name}", self.method)));
                Ok(())
            }
            // A whole value may be cut, whatever it is.
            (Value::String(shown), _) if shown.starts_with(CUT) => Ok(()),
            _ => Err(format!("{at} is {real}, and {shown} is shown")),
        }
    }

    /// Finds an item of the list that is as shown, preferably without further fields; the list may
    /// be longer than on the page.
    fn find(&mut self, shown: &Value, all: &[Value], at: &str) -> Result<(), String> {
        let mut problem = format!("{at} is empty");
        let mut best: Option<Self> = None;
        for real in all {
            let mut learned = self.clone();
            match learned.compare(shown, real, at) {
                Ok(()) if best.as_ref().is_none_or(|it| learned.added.len() < it.added.len()) => {
                    best = Some(learned);
                }
                Ok(()) => {}
                Err(other) => problem = other,
            }
        }
        *self = best.ok_or(problem)?;
        Ok(())
    }

    fn compare_text(&mut self, shown: &str, real: &str, at: &str) -> Result<(), String> {
        if shown.contains(CUT) {
            return Ok(());
        }
        if shown.len() >= NAME_CHARS && !shown.contains([' ', '/', '(', '-']) || is_uuid(shown) {
            return match self.known.insert(shown.to_owned(), real.to_owned()) {
                Some(before) if before != real => {
                    Err(format!("{at} is {real}, and {shown} was {before} before"))
                }
                _ => Ok(()),
            };
        }
        let tells_apart = at.ends_with(".type")
            || at.ends_with(".kind")
            || at.ends_with(".status")
            || at.ends_with(".behavior");
        if tells_apart && shown != real {
            Err(format!("{at} is {real:?}, and {shown:?} is shown"))
        } else {
            Ok(())
        }
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| {
            if matches!(at, 8 | 13 | 18 | 23) { byte == b'-' } else { byte.is_ascii_hexdigit() }
        })
}
