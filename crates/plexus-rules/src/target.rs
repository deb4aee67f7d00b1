//! The paths of a call: as written, with links followed, and any doubt about them. They are read
//! once for all rules.

use std::cell::OnceCell;
use std::path::{Component, Path};

use plexus_wire::ToolTarget;

use super::call::{Call, is_whole};
use super::files::{Anchor, fold};
use super::paths::{MAX_PATH_BYTES, resolve};
use super::wildcards::Pairs;

/// What a tool reads or changes at its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// One file.
    File,
    /// Everything below a directory.
    Tree,
}

/// One way to write a path, also with case folded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spelling {
    /// Absolute, without `.`, `..` or a trailing slash; the root is the empty text.
    pub(super) text: String,
    pub(super) folded: String,
    /// The letter pairs of the path, with which most wildcards reject it at once.
    pub(super) pairs: Pairs,
}

impl Spelling {
    fn new(text: String) -> Self {
        let text = if text == "/" { String::new() } else { text };
        let folded = fold(&text);
        Self { pairs: Pairs::of_path(&folded, &text), folded, text }
    }
}

/// The path of a call, resolved once for all rules.
pub(super) struct Target<'a> {
    call: Call<'a>,
    /// Absolute, with `.` and `..` removed from the text alone.
    written: Spelling,
    /// The path with links followed; `None` when that is not known.
    real: Option<Spelling>,
    /// Whether `real` differs from `written`.
    leads_elsewhere: bool,
    pub(super) reach: Reach,
    root: [Spelling; 1],
    /// Resolved when the first rule needs it, because it costs a few disk lookups.
    home: OnceCell<Vec<Spelling>>,
    working_dir: OnceCell<Vec<Spelling>>,
    /// Why no allow can cover it.
    pub(super) doubt: Option<String>,
}

impl<'a> Target<'a> {
    /// Reads the paths of a call. A file tool's call whose path cannot be read gets one path with
    /// an unknown destination.
    pub(super) fn all(call: &Call<'a>) -> Vec<Self> {
        match &call.tool.target {
            ToolTarget::Read { path, tree } => {
                let reach = if *tree { Reach::Tree } else { Reach::File };
                vec![Self::of(call, Some(path.as_deref().unwrap_or(".")), reach)]
            }
            ToolTarget::Write { changes } if !changes.is_empty() => {
                // A multi-part edit names its file several times.
                let mut paths: Vec<&str> = changes.iter().map(|it| it.path.as_str()).collect();
                paths.sort_unstable();
                paths.dedup();
                paths.into_iter().map(|path| Self::of(call, Some(path), Reach::File)).collect()
            }
            _ => vec![Self::of(call, None, Reach::File)],
        }
    }

    /// Reads a path that a command names.
    pub(super) fn named(call: &Call<'a>, path: &str) -> Self {
        Self::of(call, Some(path), Reach::File)
    }

    /// Reads a directory that a command reads with everything in it.
    pub(super) fn tree(call: &Call<'a>, path: &str) -> Self {
        Self::of(call, Some(path), Reach::Tree)
    }

    /// Reads the paths of the files that a call writes whole.
    pub(super) fn written_whole(call: &Call<'a>) -> Vec<Self> {
        let ToolTarget::Write { changes } = &call.tool.target else { return Vec::new() };
        let whole = changes.iter().filter(|change| is_whole(change));
        whole.map(|change| Self::of(call, Some(&change.path), Reach::File)).collect()
    }

    fn of(call: &Call<'a>, path: Option<&str>, reach: Reach) -> Self {
        let mut target = Self {
            call: *call,
            written: Spelling::new(String::new()),
            real: None,
            leads_elsewhere: false,
            reach,
            root: [Spelling::new(String::new())],
            home: OnceCell::new(),
            working_dir: OnceCell::new(),
            doubt: None,
        };
        if let Err(doubt) = target.read(call, path) {
            target.real = None;
            target.doubt = Some(doubt);
        }
        target
    }

    fn read(&mut self, call: &Call<'_>, written: Option<&str>) -> Result<(), String> {
        let doubt = || call.tool.doubt.clone();
        let Some(written) = written else {
            return Err(doubt().unwrap_or_else(|| "the call has no path".into()));
        };
        if written.len() > MAX_PATH_BYTES {
            return Err(format!("the path is longer than {MAX_PATH_BYTES} bytes"));
        }
        let path = match written.strip_prefix("~/") {
            Some(rest) => match call.home {
                Some(home) => home.join(rest),
                None => return Err("the home directory is not known".into()),
            },
            None => call.working_dir.join(written),
        };
        self.written = Spelling::new(lexical(&path));
        let odd = written.is_empty()
            || written.trim() != written
            || written.contains('\\')
            || (written.starts_with('~') && !written.starts_with("~/"))
            || written.chars().any(|c| c.is_control() || (!c.is_ascii() && !c.is_alphanumeric()));
        if odd {
            return Err("the path has characters that tools read differently".into());
        }
        if let Some(doubt) = doubt() {
            return Err(doubt);
        }
        let real = resolve(call.paths, &path).map_err(|error| error.to_string())?;
        self.real = Some(Spelling::new(real.to_str().ok_or("the path is not UTF-8")?.to_owned()));
        self.leads_elsewhere = self.real.as_ref() != Some(&self.written);
        Ok(())
    }

    /// Returns the path as it was written.
    pub(super) fn written(&self) -> &Spelling {
        &self.written
    }

    /// Returns the path with links followed; `None` when that is not known.
    pub(super) fn real(&self) -> Option<&Spelling> {
        self.real.as_ref()
    }

    /// Returns the path as written and, if it differs, the path with links followed.
    pub(super) fn spellings(&self) -> impl Iterator<Item = &Spelling> {
        std::iter::once(&self.written).chain(self.real().filter(|_| self.leads_elsewhere))
    }

    /// Returns the directories where a pattern may start: as written, and with links followed.
    /// Empty when they are not known.
    pub(super) fn anchors(&self, anchor: Anchor) -> &[Spelling] {
        match anchor {
            Anchor::Root => &self.root,
            Anchor::Home => self.home.get_or_init(|| {
                self.call.home.map(|home| anchors(home, &self.call)).unwrap_or_default()
            }),
            Anchor::WorkingDir => {
                self.working_dir.get_or_init(|| anchors(self.call.working_dir, &self.call))
            }
        }
    }
}

/// Returns a directory as written and with links followed.
fn anchors(directory: &Path, call: &Call<'_>) -> Vec<Spelling> {
    let mut anchors = Vec::with_capacity(2);
    if !directory.is_absolute() {
        return anchors;
    }
    if directory.to_str().is_some() {
        anchors.push(Spelling::new(lexical(directory)));
    }
    if let Some(real) = resolve(call.paths, directory).ok().as_deref().and_then(Path::to_str) {
        let real = Spelling::new(real.to_owned());
        if anchors.first() != Some(&real) {
            anchors.push(real);
        }
    }
    anchors
}

/// Removes `.` and `..` from the text alone. The root is the empty text.
fn lexical(path: &Path) -> String {
    let mut parts: Vec<std::borrow::Cow<'_, str>> = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => parts.push(name.to_string_lossy()),
            Component::ParentDir => {
                parts.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    parts.iter().fold(String::new(), |path, part| path + "/" + part)
}
