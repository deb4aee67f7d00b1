//! Matching of paths: which files and directories a rule is about, after `..` and symbolic links are followed.
//!
//! An allow looks only at where the path really leads. A deny looks at that and at the path as it was written, so that a
//! link into a denied tree and a link out of it are both denied.

use std::cell::OnceCell;
use std::path::{Component, Path};

use globset::{GlobBuilder, GlobMatcher};
use serde_json::Value;

use super::Fit;
use super::call::Call;
use super::paths::resolve;
use super::pattern::{PatternProblem, Refusal};

/// Tools that one kind of path rule covers, as the CLI groups them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Family {
    /// Everything that reads files: `Read(…)`.
    Read,
    /// Everything that changes files: `Edit(…)`.
    Edit,
    /// Only one tool, named by itself.
    Write,
    MultiEdit,
    NotebookEdit,
    Grep,
    Glob,
    Ls,
}

impl Family {
    /// The family that a rule's tool name stands for.
    pub(crate) fn of_rule(tool: &str) -> Option<Self> {
        Some(match tool {
            "Read" => Self::Read,
            "Edit" => Self::Edit,
            "Write" => Self::Write,
            "MultiEdit" => Self::MultiEdit,
            "NotebookEdit" => Self::NotebookEdit,
            "Grep" => Self::Grep,
            "Glob" => Self::Glob,
            "LS" => Self::Ls,
            _ => return None,
        })
    }

    pub(crate) fn tools(self) -> &'static [&'static str] {
        match self {
            Self::Read => &["Read", "NotebookRead", "Grep", "Glob", "LS"],
            Self::Edit => &["Edit", "Write", "MultiEdit", "NotebookEdit"],
            Self::Write => &["Write"],
            Self::MultiEdit => &["MultiEdit"],
            Self::NotebookEdit => &["NotebookEdit"],
            Self::Grep => &["Grep"],
            Self::Glob => &["Glob"],
            Self::Ls => &["LS"],
        }
    }
}

/// The field that holds a tool's path, and whether the tool reads a whole directory.
fn path_field(tool: &str) -> Option<(&'static str, Reach)> {
    Some(match tool {
        "Read" | "Edit" | "Write" | "MultiEdit" => ("file_path", Reach::File),
        "NotebookRead" | "NotebookEdit" => ("notebook_path", Reach::File),
        "Grep" | "Glob" | "LS" => ("path", Reach::Tree),
        _ => return None,
    })
}

/// Names under which tools of today or tomorrow take a path. One that is not the tool's own is a doubt.
const PATH_FIELDS: &[&str] =
    &["file_path", "notebook_path", "path", "paths", "filepath", "file", "filename", "directory"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    File,
    Tree,
}

/// Where a path pattern starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchor {
    Root,
    Home,
    WorkingDir,
}

/// A path pattern: plain directories, then perhaps wildcards.
#[derive(Debug, Clone)]
pub(crate) struct PathPattern {
    anchor: Anchor,
    /// The leading components without wildcards, joined by `/`.
    plain: String,
    /// The same without regard to case.
    folded: String,
    rest: Rest,
}

#[derive(Debug, Clone)]
enum Rest {
    /// Nothing: the pattern names one path.
    Nothing,
    /// `**`: everything below.
    Everything,
    /// Wildcards, and the same without regard to case for rules that deny.
    Glob { exact: GlobMatcher, folded: GlobMatcher },
}

impl PathPattern {
    pub(super) fn parse(text: &str) -> Result<Self, Refusal> {
        let (anchor, body) = if let Some(body) = text.strip_prefix("~/") {
            (Anchor::Home, body)
        } else if text.starts_with('~') {
            return Err((0, PatternProblem::Tilde));
        } else if let Some(body) = text.strip_prefix('/') {
            (Anchor::Root, body)
        } else {
            (Anchor::WorkingDir, text)
        };
        let offset = text.len() - body.len();
        let mut plain: Vec<String> = Vec::new();
        let mut wild: Vec<&str> = Vec::new();
        let mut at = offset;
        for component in body.split('/') {
            match component {
                ".." => return Err((at, PatternProblem::ParentDirectory)),
                "" | "." => {}
                component if component != "**" && component.contains("**") => {
                    return Err((at, PatternProblem::DoubleStar));
                }
                component => match unescaped(component) {
                    Some(name) if wild.is_empty() => plain.push(name),
                    _ => wild.push(component),
                },
            }
            at += component.len() + 1;
        }
        // `src/` is a directory, so everything in it is meant.
        if body.ends_with('/') && wild.is_empty() {
            wild.push("**");
        }
        let rest = match wild.as_slice() {
            [] => Rest::Nothing,
            ["**"] | ["**", "*"] => Rest::Everything,
            _ => {
                let glob = wild.join("/");
                let refuse = |error: globset::Error| (offset, PatternProblem::Glob(error.kind().to_string()));
                let build = |fold: bool| {
                    GlobBuilder::new(&glob)
                        .literal_separator(true)
                        .backslash_escape(true)
                        .case_insensitive(fold)
                        .build()
                };
                let exact = build(false).map_err(refuse)?.compile_matcher();
                let folded = build(true).map_err(refuse)?.compile_matcher();
                Rest::Glob { exact, folded }
            }
        };
        let plain = plain.join("/");
        Ok(Self { anchor, folded: fold(&plain), plain, rest })
    }

    /// Says whether every path of `inner` is one of ours, as they are written. Each is relative to its own directory; without one, a
    /// relative pattern may mean anything.
    pub(super) fn includes(&self, dir: Option<&Path>, inner: &Self, inner_dir: Option<&Path>) -> bool {
        let (Some(base), Some(inner_base)) = (self.base(dir), inner.base(inner_dir)) else { return false };
        let same_place = base == inner_base;
        match (&self.rest, &inner.rest) {
            (Rest::Everything, Rest::Everything | Rest::Glob { .. }) => is_or_below(&inner_base, &base),
            (Rest::Everything, Rest::Nothing) => is_or_below(&inner_base, &base) && !same_place,
            (Rest::Nothing, Rest::Nothing) => same_place,
            (Rest::Glob { exact, .. }, Rest::Glob { exact: inner, .. }) => {
                same_place && exact.glob().glob() == inner.glob().glob()
            }
            (Rest::Glob { exact, .. }, Rest::Nothing) => inner_base
                .1
                .strip_prefix(&*base.1)
                .and_then(|rest| rest.strip_prefix('/'))
                .is_some_and(|rest| base.0 == inner_base.0 && exact.is_match(rest)),
            (Rest::Nothing | Rest::Glob { .. }, _) => false,
        }
    }

    /// Returns the first directory below the root that every path of it is in; nothing when that depends on the caller, or is any.
    pub(super) fn first_step(&self) -> Option<&str> {
        let first = self.plain.split('/').next().filter(|first| !first.is_empty());
        first.filter(|_| self.anchor == Anchor::Root)
    }

    /// Says whether it starts in the session's working directory.
    pub(super) fn is_relative(&self) -> bool {
        self.anchor == Anchor::WorkingDir
    }

    /// Where the pattern's wildcards start: below the home directory, or below the root.
    fn base(&self, dir: Option<&Path>) -> Option<(Anchor, String)> {
        let below = |dir: &str| {
            let dir = dir.trim_end_matches('/');
            if self.plain.is_empty() { dir.to_owned() } else { format!("{dir}/{}", self.plain) }
        };
        match self.anchor {
            Anchor::Root => Some((Anchor::Root, below(""))),
            Anchor::Home => Some((Anchor::Home, below(""))),
            Anchor::WorkingDir => Some((Anchor::Root, below(dir?.to_str()?))),
        }
    }

    /// How the pattern of an allow fits: where the path really leads must be inside.
    pub(super) fn covers(&self, target: &Target<'_>, call: &Call<'_>) -> Fit {
        let Some(real) = &target.real else { return Fit::Maybe };
        let inside = target.anchors(self.anchor).iter().any(|anchor| {
            below(real, anchor)
                .and_then(|rest| below_relative(rest, &self.plain))
                .is_some_and(|rest| self.takes(rest, target))
        });
        if inside || self.covers_behind_link(target, real, call) { Fit::Yes } else { Fit::No }
    }

    /// The pattern's own directory may be reached by a link, as `/tmp` is on some systems. That is looked up only when the
    /// path as written is inside: a thousand rules must not cost a thousand looks at the disk.
    fn covers_behind_link(&self, target: &Target<'_>, real: &str, call: &Call<'_>) -> bool {
        target.anchors(self.anchor).iter().any(|anchor| {
            let written = below(&target.written, anchor).and_then(|rest| below_relative(rest, &self.plain));
            if !written.is_some_and(|rest| self.takes(rest, target)) {
                return false;
            }
            let base = format!("{anchor}/{}", self.plain);
            let Ok(base) = resolve(call.paths, Path::new(&base)) else { return false };
            base.to_str().and_then(|base| below(real, base)).is_some_and(|rest| self.takes(rest, target))
        })
    }

    fn takes(&self, rest: &str, target: &Target<'_>) -> bool {
        match (&self.rest, target.reach) {
            (Rest::Everything, Reach::Tree) => true,
            (Rest::Everything, Reach::File) => !rest.is_empty(),
            (Rest::Nothing, Reach::File) => rest.is_empty(),
            (Rest::Glob { exact, .. }, Reach::File) => !rest.is_empty() && exact.is_match(rest),
            // A directory is read whole; a pattern that is not for all of it does not cover that.
            (Rest::Nothing | Rest::Glob { .. }, Reach::Tree) => false,
        }
    }

    /// How the pattern of a deny or an ask fits: by either path, and without regard to case.
    pub(super) fn guards(&self, target: &Target<'_>) -> Fit {
        let mut best = if target.real.is_some() { Fit::No } else { Fit::Maybe };
        let anchors = target.anchors(self.anchor);
        if anchors.is_empty() {
            return Fit::Maybe;
        }
        for (path, folded) in target.spellings() {
            for anchor in anchors {
                let fit = match below(path, anchor).and_then(|rest| below_relative(rest, &self.plain)) {
                    Some(rest) => self.guards_below(rest, target.reach),
                    None => self.guards_elsewhere(path, folded, anchor, target.reach),
                };
                best = best.max(fit);
            }
        }
        best
    }

    fn guards_below(&self, rest: &str, reach: Reach) -> Fit {
        match &self.rest {
            // A deny for a directory is meant for what is in it.
            Rest::Nothing | Rest::Everything => Fit::Yes,
            Rest::Glob { exact, .. } if exact.is_match(rest) => Fit::Yes,
            Rest::Glob { folded, .. } if folded.is_match(rest) => Fit::Maybe,
            Rest::Glob { .. } => match reach {
                Reach::File => Fit::No,
                Reach::Tree => Fit::Maybe,
            },
        }
    }

    /// The path is not below the pattern's plain part as written.
    fn guards_elsewhere(&self, path: &str, folded: &str, anchor: &str, reach: Reach) -> Fit {
        if reach == Reach::Tree {
            let base = if self.plain.is_empty() { anchor.to_owned() } else { format!("{anchor}/{}", self.plain) };
            if below(&base, path).is_some() {
                return Fit::Maybe;
            }
        }
        match below(folded, &fold(anchor)).and_then(|rest| below_relative(rest, &self.folded)) {
            Some(rest) if self.guards_below(rest, reach) != Fit::No => Fit::Maybe,
            _ => Fit::No,
        }
    }
}

/// A text without regard to case, letter by letter, so that what is folded in parts is folded like the whole.
fn fold(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// Returns the component without its backslashes, or nothing when it has wildcards.
fn unescaped(component: &str) -> Option<String> {
    let mut out = String::new();
    let mut characters = component.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => out.push(characters.next()?),
            '*' | '?' | '[' | ']' | '{' | '}' => return None,
            c => out.push(c),
        }
    }
    Some(out)
}

/// Writes a path so that [`PathPattern::parse`] takes it literally.
pub(super) fn escape_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for c in path.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn is_or_below(path: &(Anchor, String), base: &(Anchor, String)) -> bool {
    path.0 == base.0 && below(&path.1, &base.1).is_some()
}

/// Returns what remains of an absolute `path` below `base`; the base of the root is the empty text.
fn below<'a>(path: &'a str, base: &str) -> Option<&'a str> {
    let base = if base == "/" { "" } else { base };
    let rest = path.strip_prefix(base)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// The same for paths without a leading slash.
fn below_relative<'a>(path: &'a str, base: &str) -> Option<&'a str> {
    if base.is_empty() {
        return Some(path);
    }
    let rest = path.strip_prefix(base)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// The path of a call, followed once for all rules.
pub(super) struct Target<'a> {
    call: Call<'a>,
    /// Absolute, `.` and `..` taken away by their text alone.
    written: String,
    /// Where it really leads; nothing when that is not known.
    pub(super) real: Option<String>,
    reach: Reach,
    root: [String; 1],
    /// Looked up when the first rule asks: each costs a few looks at the disk.
    home: OnceCell<Vec<String>>,
    working_dir: OnceCell<Vec<String>>,
    /// `written` and `real` without regard to case, for the first rule that denies or asks.
    folded: OnceCell<(String, Option<String>)>,
    /// Why no allow can cover it.
    pub(super) doubt: Option<String>,
}

impl<'a> Target<'a> {
    /// Reads the path of a call; nothing when the tool is not one of files.
    pub(super) fn of(call: &Call<'a>) -> Option<Self> {
        let (field, reach) = path_field(call.tool_name)?;
        let mut target = Self {
            call: *call,
            written: String::new(),
            real: None,
            reach,
            root: [String::new()],
            home: OnceCell::new(),
            working_dir: OnceCell::new(),
            folded: OnceCell::new(),
            doubt: None,
        };
        if let Err(doubt) = target.read(call, field) {
            target.real = None;
            target.doubt = Some(doubt);
        }
        Some(target)
    }

    fn read(&mut self, call: &Call<'_>, field: &str) -> Result<(), String> {
        let written = match call.input.get(field) {
            // Readers of directories start in the working directory when they are not told otherwise.
            None | Some(Value::Null) if self.reach == Reach::Tree => ".",
            None => return Err(format!("the call has no `{field}`")),
            Some(Value::String(path)) => path,
            Some(_) => return Err(format!("`{field}` is not a text")),
        };
        let path = match written.strip_prefix("~/") {
            Some(rest) => match call.home {
                Some(home) => home.join(rest),
                None => return Err("the home directory is not known".into()),
            },
            None => call.working_dir.join(written),
        };
        self.written = lexical(&path);
        let odd = written.is_empty()
            || written.trim() != written
            || written.contains('\\')
            || (written.starts_with('~') && !written.starts_with("~/"))
            || written.chars().any(|c| c.is_control() || (!c.is_ascii() && !c.is_alphanumeric()));
        if odd {
            return Err("the path has characters that tools read differently".into());
        }
        if let Some(other) = PATH_FIELDS.iter().find(|&&other| other != field && call.input.get(other).is_some()) {
            return Err(format!("the call carries a second path, `{other}`"));
        }
        if call.tool_name == "Glob" && call.input.get("pattern").is_none_or(|pattern| !stays_below(pattern)) {
            return Err("the file pattern may lead out of its directory".into());
        }
        let real = resolve(call.paths, &path).map_err(|error| error.to_string())?;
        self.real = Some(real.to_str().ok_or("the path is not UTF-8")?.to_owned());
        // The root is the empty text everywhere else.
        if self.real.as_deref() == Some("/") {
            self.real = Some(String::new());
        }
        Ok(())
    }

    /// The path as written and where it really leads, each also without regard to case.
    fn spellings(&self) -> impl Iterator<Item = (&str, &str)> {
        let (written, real) = self.folded.get_or_init(|| (fold(&self.written), self.real.as_deref().map(fold)));
        let real = self.real.as_deref().zip(real.as_deref());
        std::iter::once((self.written.as_str(), written.as_str())).chain(real)
    }

    /// The first directory below the root, as written and, where that is another, really.
    pub(super) fn first_steps(&self) -> impl Iterator<Item = &str> {
        let written = first_step(&self.written);
        let real = self.real.as_deref().and_then(first_step).filter(|real| written != Some(*real));
        written.into_iter().chain(real)
    }

    fn anchors(&self, anchor: Anchor) -> &[String] {
        match anchor {
            Anchor::Root => &self.root,
            Anchor::Home => {
                self.home.get_or_init(|| self.call.home.map(|home| anchors(home, &self.call)).unwrap_or_default())
            }
            Anchor::WorkingDir => self.working_dir.get_or_init(|| anchors(self.call.working_dir, &self.call)),
        }
    }
}

/// The first directory of an absolute path.
fn first_step(path: &str) -> Option<&str> {
    path.strip_prefix('/').and_then(|path| path.split('/').next())
}

/// A directory as written, and where it really is.
fn anchors(directory: &Path, call: &Call<'_>) -> Vec<String> {
    let mut anchors = Vec::with_capacity(2);
    if !directory.is_absolute() {
        return anchors;
    }
    if directory.to_str().is_some() {
        anchors.push(lexical(directory));
    }
    if let Some(real) = resolve(call.paths, directory).ok().as_deref().and_then(Path::to_str) {
        let real = if real == "/" { "" } else { real };
        if anchors.iter().all(|anchor| anchor != real) {
            anchors.push(real.to_owned());
        }
    }
    anchors
}

/// Takes `.` and `..` away by text alone. The root is the empty text.
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

/// Whether the pattern of a Glob call finds only files below its directory.
fn stays_below(pattern: &Value) -> bool {
    pattern.as_str().is_some_and(|pattern| {
        !pattern.is_empty()
            && !pattern.starts_with(['/', '~'])
            && !pattern.contains("..")
            && !pattern.contains(['\\', '{', '(', '$'])
            && !pattern.chars().any(char::is_control)
    })
}
