//! Texts that know what they may hold, so that reading parameters refuses the others. A parameter
//! stays a `String`; its field names the check that reads it.
//!
//! No text of ours holds a NUL: it becomes an argument or a variable of a process, or a column of a
//! database, and none of these can hold one.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::PathBuf;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::bounds;

/// How long a name, a key or a consumer may be: they are in indexes.
pub const MAX_NAME_BYTES: usize = 256;

/// How long any other text or JSON of a record may be (a message, a reason, metadata).
pub const MAX_FIELD_BYTES: usize = 1024 * 1024;

/// How long a prompt may be: what a person pastes, with room; the CLI's own lines end at 16 MiB.
pub const MAX_PROMPT_BYTES: usize = 10 * 1024 * 1024;

/// How many texts a list may have: each is read, compared with others and perhaps looked up on the
/// disk, while other calls wait.
pub const MAX_LIST_TEXTS: usize = 1_000;

/// How many more directories an agent may work in: each is looked up on the disk, too.
pub const MAX_ADD_DIRS: usize = 64;

/// What a text may be.
pub(crate) trait Check {
    /// Says what is wrong with it.
    fn check(text: &str) -> Result<(), String>;
}

/// A name, a key or a consumer.
pub(crate) struct Name;

impl Check for Name {
    fn check(text: &str) -> Result<(), String> {
        let rule =
            format!("it has 1 to {MAX_NAME_BYTES} bytes, not only spaces, no control characters");
        if let Some(control) = text.chars().find(|c| c.is_control()) {
            return Err(format!("{rule}; U+{:04X} is one", u32::from(control)));
        }
        let fits = !text.trim().is_empty() && text.len() <= MAX_NAME_BYTES;
        fits.then_some(()).ok_or(rule)
    }
}

/// The name that a session gets.
pub(crate) struct SessionName;

impl Check for SessionName {
    fn check(text: &str) -> Result<(), String> {
        Name::check(text)?;
        if crate::ids::may_begin_an_id(text) {
            return Err(format!(
                "{text:?} may be the beginning of a session's id, by which commands would find \
                 another session; choose another name, for example s-{text}"
            ));
        }
        Ok(())
    }
}

/// What an agent is told: never blank.
pub(crate) struct Prompt;

impl Check for Prompt {
    fn check(text: &str) -> Result<(), String> {
        if text.trim().is_empty() {
            return Err("it is empty; say what the agent should do".to_owned());
        }
        LongText::check(text)
    }
}

/// A text that may be as long as a prompt, or empty.
pub(crate) struct LongText;

impl Check for LongText {
    fn check(text: &str) -> Result<(), String> {
        bounded(text, MAX_PROMPT_BYTES)
            .map_err(|said| format!("{said}; put the rest into a file"))?;
        without_nul(text)
    }
}

/// Any other text.
pub(crate) struct Text;

impl Check for Text {
    fn check(text: &str) -> Result<(), String> {
        bounded(text, MAX_FIELD_BYTES)?;
        without_nul(text)
    }
}

/// Any other text that says something.
pub(crate) struct SomeText;

impl Check for SomeText {
    fn check(text: &str) -> Result<(), String> {
        if text.is_empty() { Err("it is empty".to_owned()) } else { Text::check(text) }
    }
}

/// The name of a variable of the environment.
struct Variable;

impl Check for Variable {
    fn check(text: &str) -> Result<(), String> {
        if text.is_empty() || text.contains('=') {
            return Err(format!(
                "{text:?} is not the name of a variable: it must not be empty or hold '='"
            ));
        }
        Text::check(text)
    }
}

/// The name of a header of HTTP.
struct HeaderName;

impl Check for HeaderName {
    fn check(text: &str) -> Result<(), String> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if text.is_empty() || !text.bytes().all(is_part) {
            return Err(format!("{text:?} is not the name of a header"));
        }
        Text::check(text)
    }
}

/// The value of a header of HTTP.
struct HeaderValue;

impl Check for HeaderValue {
    fn check(text: &str) -> Result<(), String> {
        if text.chars().any(char::is_control) {
            return Err("the value of a header has one line and no control characters".to_owned());
        }
        Text::check(text)
    }
}

/// An address of HTTP.
pub(crate) struct HttpAddress;

impl Check for HttpAddress {
    fn check(text: &str) -> Result<(), String> {
        let has_scheme = text.starts_with("http://") || text.starts_with("https://");
        if !has_scheme || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err("it is not an address that begins with http:// or https://".to_owned());
        }
        Text::check(text)
    }
}

fn bounded(text: &str, most: usize) -> Result<(), String> {
    let found = text.len();
    if found > most { Err(format!("{found} bytes are too many: at most {most}")) } else { Ok(()) }
}

fn without_nul(text: &str) -> Result<(), String> {
    if text.contains('\0') { Err("it holds a NUL character (U+0000)".to_owned()) } else { Ok(()) }
}

/// A text that passed its check. It is read as an element, so that a refusal says its index.
struct Checked<C>(String, PhantomData<C>);

impl<'de, C: Check> Deserialize<'de> for Checked<C> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        C::check(&text).map_err(D::Error::custom)?;
        Ok(Self(text, PhantomData))
    }
}

impl<C> PartialEq for Checked<C> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<C> Eq for Checked<C> {}

impl<C> PartialOrd for Checked<C> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<C> Ord for Checked<C> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

/// Reads a text.
pub(crate) fn one<'de, C: Check, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<String, D::Error> {
    Checked::<C>::deserialize(deserializer).map(|checked| checked.0)
}

/// Reads a text that may be left out.
pub(crate) fn maybe<'de, C: Check, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    Option::<Checked<C>>::deserialize(deserializer).map(|text| text.map(|checked| checked.0))
}

/// Reads a list of texts that may be left out.
pub(crate) fn maybe_list<'de, C: Check, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<String>>, D::Error> {
    let list = bounds::maybe_list::<MAX_LIST_TEXTS, Checked<C>, D>(deserializer)?;
    Ok(list.map(|list| list.into_iter().map(|checked| checked.0).collect()))
}

/// Reads variables of an environment, which may be left out.
pub(crate) fn maybe_variables<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, String>>, D::Error> {
    maybe_map::<Variable, Text, D>(deserializer)
}

/// Reads headers of HTTP, which may be left out.
pub(crate) fn maybe_headers<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, String>>, D::Error> {
    maybe_map::<HeaderName, HeaderValue, D>(deserializer)
}

fn maybe_map<'de, K: Check, V: Check, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, String>>, D::Error> {
    let map = Option::<BTreeMap<Checked<K>, Checked<V>>>::deserialize(deserializer)?;
    Ok(map.map(|map| map.into_iter().map(|(name, value)| (name.0, value.0)).collect()))
}

/// Reads the answers to a question, which may be left out.
pub(crate) fn maybe_answers<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, Vec<String>>>, D::Error> {
    let map = Option::<BTreeMap<String, Vec<Checked<Text>>>>::deserialize(deserializer)?;
    let texts = |list: Vec<Checked<Text>>| list.into_iter().map(|text| text.0).collect();
    Ok(map.map(|map| map.into_iter().map(|(id, list)| (id, texts(list))).collect()))
}

/// A path from the root.
struct Absolute(PathBuf);

impl<'de> Deserialize<'de> for Absolute {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let path = PathBuf::from(one::<Text, D>(deserializer)?);
        if path.is_absolute() {
            return Ok(Self(path));
        }
        Err(D::Error::custom("it is not an absolute path: give the whole path, from / on"))
    }
}

/// Reads a path from the root.
pub(crate) fn path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Absolute::deserialize(deserializer).map(|path| path.0)
}

/// Reads such a path, which may be left out.
pub(crate) fn maybe_path<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<PathBuf>, D::Error> {
    Option::<Absolute>::deserialize(deserializer).map(|path| path.map(|path| path.0))
}

/// A path from the root, or from the home directory of the server's user.
struct FromRootOrHome(PathBuf);

impl<'de> Deserialize<'de> for FromRootOrHome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let path = PathBuf::from(one::<Text, D>(deserializer)?);
        // Only a whole first name: `~other`, the home of somebody else, is a relative path here.
        if path.is_absolute() || path.starts_with("~") {
            return Ok(Self(path));
        }
        Err(D::Error::custom("it is not an absolute path: give the whole path, from / or ~ on"))
    }
}

/// Reads a directory in which an agent may work.
pub(crate) fn work_dir<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    FromRootOrHome::deserialize(deserializer).map(|path| path.0)
}

/// Reads a list of such directories, which may be left out.
pub(crate) fn maybe_work_dirs<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<PathBuf>>, D::Error> {
    let list = bounds::maybe_list::<MAX_ADD_DIRS, FromRootOrHome, D>(deserializer)?;
    Ok(list.map(|list| list.into_iter().map(|path| path.0).collect()))
}
