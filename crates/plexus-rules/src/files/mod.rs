//! Matching of paths: which files and directories a rule covers, after `..` and symbolic links are
//! followed.
//!
//! An allow looks only at where the path really leads. A deny looks at that and at the path as it
//! was written, so that a link into a denied tree and a link out of it are both denied.
//!
//! An allow of changes covers a file that programs obey only if the pattern names it:
//! `Edit(src/**)` does not cover `src/x/.git/config`.

use std::path::Path;

use plexus_files::obeyed_names;

use super::Fit;
use super::call::Call;
use super::paths::{MAX_PATH_BYTES, resolve};
use super::pattern::{PatternProblem, Refusal};
use super::steps::{Step, marked};
use super::target::{Reach, Spelling, Target};
use super::wildcards::Wildcards;

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
    /// Returns the family that a rule's tool name stands for.
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

    /// Says whether its tools change files.
    pub(super) fn changes_files(self) -> bool {
        matches!(self, Self::Edit | Self::Write | Self::MultiEdit | Self::NotebookEdit)
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

/// Where a path pattern starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Anchor {
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
    /// The components among the wildcards that are names, with case folded.
    names: Vec<String>,
    /// The last step that says which paths are meant.
    last: Step,
}

#[derive(Debug, Clone)]
enum Rest {
    /// Nothing: the pattern names one path.
    Nothing,
    /// `**`: everything below.
    Everything,
    /// Wildcards.
    Glob(Box<Wildcards>),
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
                let refuse = |error: globset::Error| {
                    (offset, PatternProblem::Glob(error.kind().to_string()))
                };
                let wild = wild.join("/");
                if wild.len() > MAX_PATH_BYTES {
                    return Err((offset, PatternProblem::Long));
                }
                Rest::Glob(Box::new(Wildcards::parse(&wild).map_err(refuse)?))
            }
        };
        let last = match wild.iter().rev().find(|step| **step != "**") {
            Some(step) => Step::of(&marked(step)),
            None => plain.last().map_or_else(|| Step::of("\0"), |name| Step::whole(name)),
        };
        let names = wild.iter().filter_map(|step| Some(fold(&unescaped(step)?))).collect();
        let plain = plain.join("/");
        Ok(Self { anchor, folded: fold(&plain), plain, rest, names, last })
    }

    /// Says whether this pattern matches every path that `inner` matches, comparing them as
    /// written, for the tools of a family. Each is relative to its own directory; without one, a
    /// relative pattern may mean anything.
    pub(super) fn includes(
        &self,
        family: Family,
        dir: Option<&Path>,
        inner: &Self,
        inner_dir: Option<&Path>,
    ) -> bool {
        let (Some(base), Some(inner_base)) = (self.base(dir), inner.base(inner_dir)) else {
            return false;
        };
        let same_place = base == inner_base;
        if family.changes_files() && !same_place {
            let beyond = below(&inner_base.1, &base.1).unwrap_or(&inner_base.1);
            if !self.names_all_obeyed(beyond) {
                return false;
            }
        }
        // What the inner pattern names among its wildcards, this one must name too.
        let is_unnamed = |name: &String| !self.names_all_obeyed(name);
        if family.changes_files() && inner.names.iter().any(is_unnamed) {
            return false;
        }
        match (&self.rest, &inner.rest) {
            (Rest::Everything, Rest::Everything | Rest::Glob(_)) => is_or_below(&inner_base, &base),
            (Rest::Everything, Rest::Nothing) => is_or_below(&inner_base, &base) && !same_place,
            (Rest::Nothing, Rest::Nothing) => same_place,
            (Rest::Glob(wild), Rest::Glob(inner)) => same_place && wild == inner,
            (Rest::Glob(wild), Rest::Nothing) => inner_base
                .1
                .strip_prefix(&*base.1)
                .and_then(|rest| rest.strip_prefix('/'))
                .is_some_and(|rest| base.0 == inner_base.0 && wild.fit(rest)),
            (Rest::Nothing | Rest::Glob(_), _) => false,
        }
    }

    /// Returns where the pattern starts, and the directory below there that contains all its paths,
    /// with case folded.
    pub(super) fn place(&self) -> (Anchor, &str) {
        (self.anchor, &self.folded)
    }

    /// Says whether it has wildcards after its directory.
    pub(super) fn has_wildcards(&self) -> bool {
        matches!(self.rest, Rest::Glob(_))
    }

    /// Returns the last step that says which paths are meant.
    pub(super) fn last_step(&self) -> &Step {
        &self.last
    }

    /// Says whether it starts in the session's working directory.
    pub(super) fn is_relative(&self) -> bool {
        self.anchor == Anchor::WorkingDir
    }

    /// Returns where the pattern's wildcards start: below the home directory, or below the root.
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

    /// Returns how the pattern of an allow fits: the path, with links followed, must be inside.
    pub(super) fn covers(&self, target: &Target<'_>, call: &Call<'_>) -> Fit {
        let Some(real) = target.real() else { return Fit::Maybe };
        let inside = target.anchors(self.anchor).iter().any(|anchor| {
            below(&real.text, &anchor.text)
                .and_then(|rest| below_relative(rest, &self.plain))
                .is_some_and(|rest| self.takes(rest, real, target.reach))
        });
        if inside || self.covers_behind_link(target, real, call) { Fit::Yes } else { Fit::No }
    }

    /// Says whether the pattern names everything on the way to a path, as written and with links
    /// followed, that makes programs obey the file there. Its own directory is named, whatever it
    /// is.
    pub(super) fn names_what_is_obeyed(&self, target: &Target<'_>, call: &Call<'_>) -> bool {
        target.spellings().all(|path| {
            // Most paths have no such name at all, and need no lookup on disk.
            self.names_all_obeyed(&path.text)
                || self.beyond(&path.text, target, call).is_some_and(|it| self.names_all_obeyed(it))
        })
    }

    /// Returns the part of a path that the wildcards stand for.
    fn beyond<'p>(&self, path: &'p str, target: &Target<'_>, call: &Call<'_>) -> Option<&'p str> {
        let anchors = target.anchors(self.anchor);
        let written = anchors.iter().find_map(|anchor| {
            below(path, &anchor.text).and_then(|rest| below_relative(rest, &self.plain))
        });
        written.or_else(|| {
            anchors.iter().find_map(|anchor| {
                let base = format!("{}/{}", anchor.text, self.plain);
                let base = resolve(call.paths, Path::new(&base)).ok()?;
                below(path, base.to_str()?)
            })
        })
    }

    fn names_all_obeyed(&self, path: &str) -> bool {
        obeyed_names(Path::new(path)).all(|name| self.names.contains(&fold(&name)))
    }

    /// Returns whether the pattern covers the path when the pattern's own directory is reached by a
    /// link, as `/tmp` is on some systems. The link is resolved only when the path as written is
    /// inside, so that a thousand rules do not cost a thousand lookups on disk.
    fn covers_behind_link(&self, target: &Target<'_>, real: &Spelling, call: &Call<'_>) -> bool {
        let written = target.written();
        target.anchors(self.anchor).iter().any(|anchor| {
            let rest = below(&written.text, &anchor.text)
                .and_then(|rest| below_relative(rest, &self.plain));
            if !rest.is_some_and(|rest| self.takes(rest, written, target.reach)) {
                return false;
            }
            let base = format!("{}/{}", anchor.text, self.plain);
            let Ok(base) = resolve(call.paths, Path::new(&base)) else { return false };
            let rest = base.to_str().and_then(|base| below(&real.text, base));
            rest.is_some_and(|rest| self.takes(rest, real, target.reach))
        })
    }

    /// Returns whether `rest`, the end of `path`, matches the end of this pattern.
    fn takes(&self, rest: &str, path: &Spelling, reach: Reach) -> bool {
        match (&self.rest, reach) {
            (Rest::Everything, Reach::Tree) => true,
            (Rest::Everything, Reach::File) => !rest.is_empty(),
            (Rest::Nothing, Reach::File) => rest.is_empty(),
            (Rest::Glob(wild), Reach::File) => {
                !rest.is_empty() && wild.may_fit_in(path) && wild.fit(rest)
            }
            // The tool reads the whole directory, and this pattern covers only a part of it.
            (Rest::Nothing | Rest::Glob(_), Reach::Tree) => false,
        }
    }

    /// Returns how the pattern of a deny or an ask fits. It may match the path as written or the
    /// resolved path, in upper or lower case.
    pub(super) fn guards(&self, target: &Target<'_>) -> Fit {
        let mut best = if target.real().is_some() { Fit::No } else { Fit::Maybe };
        let anchors = target.anchors(self.anchor);
        if anchors.is_empty() {
            return Fit::Maybe;
        }
        for path in target.spellings().filter(|path| self.may_guard(path, target.reach)) {
            for anchor in anchors {
                let fit = match below(&path.text, &anchor.text)
                    .and_then(|rest| below_relative(rest, &self.plain))
                {
                    Some(rest) => self.guards_below(rest, target.reach),
                    None => self.guards_elsewhere(path, anchor, target.reach),
                };
                best = best.max(fit);
            }
        }
        best
    }

    /// Returns whether the path may match, in any case. This cheap test rejects most wildcard
    /// patterns.
    fn may_guard(&self, path: &Spelling, reach: Reach) -> bool {
        match &self.rest {
            Rest::Glob(wild) => reach == Reach::Tree || wild.may_fit_in(path),
            Rest::Nothing | Rest::Everything => true,
        }
    }

    fn guards_below(&self, rest: &str, reach: Reach) -> Fit {
        match &self.rest {
            // A deny for a directory also covers its contents.
            Rest::Nothing | Rest::Everything => Fit::Yes,
            Rest::Glob(wild) if wild.fit(rest) => Fit::Yes,
            Rest::Glob(wild) if reach == Reach::Tree || wild.fit_in_any_case(rest) => Fit::Maybe,
            Rest::Glob(_) => Fit::No,
        }
    }

    /// Returns the fit for a path that, as written, is not below the pattern's plain part.
    fn guards_elsewhere(&self, path: &Spelling, anchor: &Spelling, reach: Reach) -> Fit {
        if reach == Reach::Tree && self.is_below(&path.text, &anchor.text) {
            return Fit::Maybe;
        }
        match below(&path.folded, &anchor.folded)
            .and_then(|rest| below_relative(rest, &self.folded))
        {
            Some(rest) if self.guards_below(rest, reach) != Fit::No => Fit::Maybe,
            _ => Fit::No,
        }
    }

    /// Returns whether the plain part below `anchor` is in the directory `path`.
    fn is_below(&self, path: &str, anchor: &str) -> bool {
        below(anchor, path).is_some()
            || below(path, anchor)
                .is_some_and(|path| !path.is_empty() && below_relative(&self.plain, path).is_some())
    }
}

/// Folds the case of a text, letter by letter, so that folded parts join to the folded whole. Some
/// letters are the same only as capitals: a file system that ignores case takes `ſ` for `s`.
pub(super) fn fold(text: &str) -> String {
    if text.is_ascii() {
        text.to_ascii_lowercase()
    } else {
        text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
    }
}

/// Returns the component without its backslashes, or `None` when it has wildcards.
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
pub(super) fn below<'a>(path: &'a str, base: &str) -> Option<&'a str> {
    // An empty prefix is not compared: glibc takes longer for that than for a path, and a thousand
    // rules start at the root.
    let rest = if base.is_empty() || base == "/" { path } else { path.strip_prefix(base)? };
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// Returns what remains of `path` below `base`, for paths without a leading slash.
fn below_relative<'a>(path: &'a str, base: &str) -> Option<&'a str> {
    if base.is_empty() {
        return Some(path);
    }
    let rest = path.strip_prefix(base)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

#[cfg(test)]
mod tests;
