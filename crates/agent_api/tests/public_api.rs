//! No type of a backend's crate is in the public interface.
//!
//! The compiler's own check for this (`exported_private_dependencies`) is not stable, so this one
//! reads the sources. It sees every signature, public field, alias, re-export and implementation in
//! the source. It treats a name as a type of the backend's crate if the file imports it from there
//! or uses its full path. It does not see through macros or through a private alias in another
//! file; there are none here, and `the_check_sees_what_it_looks_for` shows what it does see.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a failed test is allowed to stop loudly"
)]

use std::{collections::BTreeSet, fs, path::Path};

use syn::{
    Attribute, Fields, ImplItem, Item, Signature, TraitItem, Type, UseTree, Visibility,
    visit::{self, Visit},
};

/// The crates whose types must stay inside.
const BACKEND_CRATES: &[&str] = &["acp_lines", "agent_lines", "claude_code", "codex_app"];

#[test]
fn no_type_of_a_backend_crate_is_public() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&sources, &mut files);
    assert!(files.len() > 10, "only {} files were found", files.len());
    let leaks: Vec<_> = files
        .iter()
        .flat_map(|path| {
            leaks_in(&fs::read_to_string(path).unwrap()).into_iter().map(move |leak| (path, leak))
        })
        .collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
}

#[test]
fn the_check_sees_what_it_looks_for() {
    let leaks = [
        "pub use claude_code::ClaudeClient;",
        "pub use ::claude_code::event;",
        "use claude_code::ClaudeClient; pub struct A { pub client: ClaudeClient }",
        "use claude_code::ClaudeClient as C; pub struct A(pub C);",
        "pub enum A { B(claude_code::ClaudeClient) }",
        "pub enum A { B { c: Option<claude_code::ClaudeClient> } }",
        "use claude_code::{ClaudeClient}; pub fn f() -> Box<ClaudeClient> { todo!() }",
        "use claude_code as cc; pub fn f(_: cc::ClaudeClient) {}",
        "use claude_code::event::{self, stream}; pub fn f(_: &stream::Delta) {}",
        "pub type A = claude_code::ClaudeClient;",
        "pub const A: usize = 1; pub static B: Option<claude_code::Text> = None;",
        "pub trait A { fn f(&self, _: claude_code::Text); }",
        "pub trait A { type B: Into<claude_code::Text>; }",
        "pub struct A; impl A { pub fn f(&self) -> claude_code::Text { todo!() } }",
        "pub struct A; impl From<claude_code::Text> for A { fn from(_: claude_code::Text) -> A { \
         A } }",
        "pub fn f<T: Into<claude_code::Text>>(_: T) {}",
        "pub fn f<T>(_: T) where T: Into<claude_code::Text> {}",
        "pub mod m { pub fn f(_: claude_code::Text) {} }",
    ];
    for source in leaks {
        assert!(!leaks_in(source).is_empty(), "nothing was seen in {source}");
    }
    let tight = [
        "use claude_code::Text; struct A { a: Text } pub struct B { a: Text }",
        "use claude_code::Text; pub(crate) fn f(_: Text) {}",
        "pub struct A; impl A { fn f(&self) -> claude_code::Text { todo!() } }",
        "pub mod claude_code; pub use self::claude_code::A; pub fn f(_: \
         crate::backends::claude_code::A) {}",
        "pub fn f() { let _: claude_code::Text; }",
        "#[cfg(test)] mod tests { pub fn f(_: claude_code::Text) {} }",
    ];
    for source in tight {
        assert_eq!(leaks_in(source), Vec::<String>::new(), "in {source}");
    }
}

fn rust_files(folder: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn leaks_in(source: &str) -> Vec<String> {
    let file = syn::parse_file(source).unwrap();
    let mut finder = Finder::default();
    for item in &file.items {
        finder.note_imports(item);
    }
    for item in &file.items {
        finder.item(item);
    }
    finder.leaks
}

/// Checks one file.
#[derive(Default)]
struct Finder {
    /// Names in this file that refer to a backend's crate.
    foreign: BTreeSet<String>,
    leaks: Vec<String>,
}

impl Finder {
    fn note_imports(&mut self, item: &Item) {
        if let Item::Use(item) = item
            && let UseTree::Path(root) = &item.tree
            && BACKEND_CRATES.iter().any(|name| root.ident == name)
        {
            self.note_tree(&root.tree);
        }
        if let Item::Use(item) = item
            && let UseTree::Rename(root) = &item.tree
            && BACKEND_CRATES.iter().any(|name| root.ident == name)
        {
            self.foreign.insert(root.rename.to_string());
        }
    }

    fn note_tree(&mut self, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => self.note_tree(&path.tree),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.note_tree(tree)),
            UseTree::Name(name) => drop(self.foreign.insert(name.ident.to_string())),
            UseTree::Rename(name) => drop(self.foreign.insert(name.rename.to_string())),
            UseTree::Glob(_) => {
                self.leaks.push("a glob import hides where names come from".to_owned())
            }
        }
    }

    fn is_foreign(&self, first: &str) -> bool {
        BACKEND_CRATES.contains(&first) || self.foreign.contains(first)
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Use(item) if is_public(&item.vis) => self.re_export(&item.tree),
            Item::Struct(item) if is_public(&item.vis) => {
                self.visit_generics(&item.generics);
                self.fields(&item.fields);
            }
            Item::Enum(item) if is_public(&item.vis) => {
                self.visit_generics(&item.generics);
                // The fields of a variant are as public as their enum.
                item.variants.iter().for_each(|variant| self.visit_fields(&variant.fields));
            }
            Item::Fn(item) if is_public(&item.vis) => self.signature(&item.sig),
            Item::Type(item) if is_public(&item.vis) => self.visit_item_type(item),
            Item::Const(item) if is_public(&item.vis) => self.visit_type(&item.ty),
            Item::Static(item) if is_public(&item.vis) => self.visit_type(&item.ty),
            Item::Trait(item) if is_public(&item.vis) => {
                self.visit_generics(&item.generics);
                item.supertraits.iter().for_each(|bound| self.visit_type_param_bound(bound));
                item.items.iter().for_each(|item| self.trait_item(item));
            }
            Item::Impl(item) => {
                // An implementation of a trait is public if its parts are; a private one is checked
                // all the same.
                if let Some((_, path, _)) = &item.trait_ {
                    self.visit_path(path);
                }
                for inner in &item.items {
                    match inner {
                        ImplItem::Fn(method) if item.trait_.is_some() || is_public(&method.vis) => {
                            self.signature(&method.sig);
                        }
                        ImplItem::Type(alias) => self.visit_type(&alias.ty),
                        _ => {}
                    }
                }
            }
            Item::Mod(item) if !is_test(&item.attrs) => {
                if let Some((_, items)) = &item.content {
                    items.iter().for_each(|item| self.item(item));
                }
            }
            _ => {}
        }
    }

    fn re_export(&mut self, tree: &UseTree) {
        let first = match tree {
            UseTree::Path(path) => path.ident.to_string(),
            UseTree::Name(name) => name.ident.to_string(),
            UseTree::Rename(name) => name.ident.to_string(),
            UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.re_export(tree));
            }
            UseTree::Glob(_) => return,
        };
        if self.is_foreign(&first) {
            self.leaks.push(format!("re-export of {first}"));
        }
    }

    fn fields(&mut self, fields: &Fields) {
        fields
            .iter()
            .filter(|field| is_public(&field.vis))
            .for_each(|field| self.visit_type(&field.ty));
    }

    fn signature(&mut self, signature: &Signature) {
        self.visit_signature(signature);
    }

    fn trait_item(&mut self, item: &TraitItem) {
        match item {
            TraitItem::Fn(method) => self.signature(&method.sig),
            TraitItem::Type(alias) => {
                alias.bounds.iter().for_each(|bound| self.visit_type_param_bound(bound))
            }
            TraitItem::Const(constant) => self.visit_type(&constant.ty),
            _ => {}
        }
    }
}

/// Every path that is reached from one of the above is part of the interface.
impl Visit<'_> for Finder {
    fn visit_path(&mut self, path: &syn::Path) {
        if let Some(first) = path.segments.first()
            && self.is_foreign(&first.ident.to_string())
        {
            self.leaks.push(
                path.segments
                    .iter()
                    .map(|segment| segment.ident.to_string())
                    .collect::<Vec<_>>()
                    .join("::"),
            );
        }
        visit::visit_path(self, path);
    }

    fn visit_type(&mut self, ty: &Type) {
        visit::visit_type(self, ty);
    }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}
