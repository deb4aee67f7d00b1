//! Walks the index of a scanned line.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::{Kind, Node, RawJson, Text, unescape};

/// A scanned line together with its index.
pub(super) struct Line<'a> {
    text: &'a Arc<str>,
    nodes: &'a [Node],
}

impl<'a> Line<'a> {
    #[inline]
    pub(super) fn new(text: &'a Arc<str>, nodes: &'a [Node]) -> Self {
        Self { text, nodes }
    }

    /// Returns the line's value, if the scan recorded one.
    #[inline]
    pub(super) fn root(&'a self) -> Option<Value<'a>> {
        Value::at(self, 0)
    }
}

/// One value of a scanned line. It borrows the line; [`Value::text`] and [`Value::raw`] return
/// parts that may be kept.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    line: &'a Line<'a>,
    node: Node,
    index: usize,
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.source())
    }
}

impl<'a> Value<'a> {
    #[inline]
    fn at(line: &'a Line<'a>, index: usize) -> Option<Self> {
        line.nodes.get(index).map(|node| Self { line, node: *node, index })
    }

    /// Returns whether the value is an object.
    #[inline]
    pub fn is_object(self) -> bool {
        self.node.kind == Kind::Object
    }

    /// Returns whether the value is a string.
    #[inline]
    pub fn is_string(self) -> bool {
        matches!(self.node.kind, Kind::Plain | Kind::Escaped)
    }

    /// Returns the value's JSON text.
    #[inline]
    pub fn source(self) -> &'a str {
        self.line.text.get(self.node.start as usize..self.node.end as usize).unwrap_or_default()
    }

    /// Returns the bytes between the quotes.
    #[inline]
    fn inner(self) -> &'a str {
        let source = self.source();
        source.get(1..source.len().saturating_sub(1)).unwrap_or_default()
    }

    /// Returns the value as a borrowed string, decoded if it has escapes; `None` when it is not a
    /// string.
    #[inline]
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        match self.node.kind {
            Kind::Plain => Some(Cow::Borrowed(self.inner())),
            Kind::Escaped => Some(Cow::Owned(unescape(self.inner()))),
            _ => None,
        }
    }

    /// Returns the value as a string that shares the line.
    #[inline]
    pub fn text(self) -> Option<Text> {
        let (start, len) =
            (self.node.start + 1, (self.node.end - self.node.start).saturating_sub(2));
        match self.node.kind {
            Kind::Plain => Some(Text::slice(Arc::clone(self.line.text), start, len)),
            Kind::Escaped => Some(Text::escaped(Arc::clone(self.line.text), start, len)),
            _ => None,
        }
    }

    /// Returns the value as JSON that shares the line.
    #[inline]
    pub fn raw(self) -> RawJson {
        RawJson::slice(Arc::clone(self.line.text), self.node.start, self.node.end - self.node.start)
    }

    /// Returns the value as a boolean; `None` when it is not one.
    #[inline]
    pub fn as_bool(self) -> Option<bool> {
        match self.node.kind {
            Kind::True => Some(true),
            Kind::False => Some(false),
            _ => None,
        }
    }

    /// Returns the value as a number; `None` when it is not one or does not fit.
    #[inline]
    pub fn as_number<T: std::str::FromStr>(self) -> Option<T> {
        (self.node.kind == Kind::Number).then(|| self.source().parse().ok()).flatten()
    }

    /// Returns the items of an array; none for any other value.
    pub fn items(self) -> impl Iterator<Item = Value<'a>> {
        let mut at = if self.node.kind == Kind::Array { self.index + 1 } else { usize::MAX };
        let end = self.node.next as usize;
        std::iter::from_fn(move || {
            let item = (at < end).then(|| Value::at(self.line, at)).flatten()?;
            at = item.node.next as usize;
            Some(item)
        })
    }

    /// Returns whether the value is an array.
    #[inline]
    pub fn is_array(self) -> bool {
        self.node.kind == Kind::Array
    }

    /// Calls `each` with every key and value of an object, in order; does nothing for any other
    /// value.
    #[inline]
    pub fn each_field(self, mut each: impl FnMut(&str, Value<'a>)) {
        if !self.is_object() {
            return;
        }
        let (mut at, end) = (self.index + 1, self.node.next as usize);
        while at < end {
            let (Some(key), Some(value)) = (Value::at(self.line, at), Value::at(self.line, at + 1))
            else {
                return;
            };
            match key.node.kind {
                Kind::Plain => each(key.inner(), value),
                // A key that is spelled with escapes means the same.
                _ => each(&unescape(key.inner()), value),
            }
            at = value.node.next as usize;
        }
    }

    /// Returns the last field of that name, the one that a decoder into a tree would keep.
    #[inline]
    pub fn get(self, name: &str) -> Option<Value<'a>> {
        let mut found = None;
        self.each_field(|key, value| {
            if key == name {
                found = Some(value);
            }
        });
        found
    }
}

/// Calls `each` with every key of the outer object, and with its value if that is a string. `None`
/// when there is no object.
pub(super) fn each_outer_string<'a>(
    line: &'a str,
    nodes: &[Node],
    mut each: impl FnMut(&str, Option<Cow<'a, str>>),
) -> Option<()> {
    let root = nodes.first().filter(|root| root.kind == Kind::Object)?;
    let mut at = 1;
    while at < root.next as usize {
        let (key, value) = (nodes.get(at)?, nodes.get(at + 1)?);
        let key = string(line, *key).unwrap_or_default();
        each(&key, string(line, *value));
        at = value.next as usize;
    }
    Some(())
}

/// Returns the string that `node` is, decoded if it has escapes.
#[inline]
fn string(line: &str, node: Node) -> Option<Cow<'_, str>> {
    let inner = line
        .get(node.start as usize + 1..(node.end as usize).saturating_sub(1))
        .unwrap_or_default();
    match node.kind {
        Kind::Plain => Some(Cow::Borrowed(inner)),
        Kind::Escaped => Some(Cow::Owned(unescape(inner))),
        _ => None,
    }
}
