//! One Rust file: the modules it declares, the files it includes, its identifiers, the lines that are only tests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Attribute, Item, ItemMod, Lit, Macro, Meta};

use crate::problem::{CheckError, read};

/// A `mod name;` whose body is in another file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Declaration {
    /// Names of the inline modules around it, outermost first.
    pub(crate) inside: Vec<String>,
    /// Its name.
    pub(crate) name: String,
    /// Its `#[path]`.
    pub(crate) path: Option<PathBuf>,
    /// Whether it or a module around it is `#[cfg(test)]`.
    pub(crate) test: bool,
}

/// What the checks know about a file.
#[derive(Debug, Default)]
pub(crate) struct SourceFile {
    pub(crate) declarations: Vec<Declaration>,
    /// Paths of `include!("…")`, relative to the file's directory.
    pub(crate) includes: Vec<PathBuf>,
    /// Every identifier.
    pub(crate) identifiers: BTreeSet<String>,
    /// Lines in all.
    pub(crate) lines: usize,
    /// Lines of items under `#[cfg(test)]`.
    pub(crate) test_lines: usize,
}

impl SourceFile {
    /// Reads and parses a file.
    pub(crate) fn load(path: &Path) -> Result<Self, CheckError> {
        Self::parse(&read(path)?).map_err(|error| {
            let start = error.span().start();
            CheckError::Format { path: path.to_owned(), message: format!("line {}: {error}", start.line) }
        })
    }

    /// Reads a file that need not be a whole module: what `include!` takes, or a file that nothing declares.
    pub(crate) fn load_fragment(path: &Path) -> Result<Self, CheckError> {
        let text = read(path)?;
        let tokens: TokenStream = text.parse().map_err(|error: proc_macro2::LexError| CheckError::Format {
            path: path.to_owned(),
            message: format!("line {}: {error}", error.span().start().line),
        })?;
        let mut file = Self { lines: text.lines().count(), ..Self::default() };
        collect_identifiers(tokens, &mut file.identifiers);
        Ok(file)
    }

    /// Parses source text.
    pub(crate) fn parse(text: &str) -> Result<Self, syn::Error> {
        let tokens: TokenStream = text.parse().map_err(syn::Error::from)?;
        let mut file = Self { lines: text.lines().count(), ..Self::default() };
        collect_identifiers(tokens, &mut file.identifiers);
        let mut walk = Walk { file: &mut file, inside: Vec::new(), test: false };
        walk.visit_file(&syn::parse_file(text)?);
        Ok(file)
    }

    /// Lines that are not tests.
    pub(crate) fn own_lines(&self) -> usize {
        self.lines.saturating_sub(self.test_lines)
    }
}

fn collect_identifiers(tokens: TokenStream, into: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                into.insert(ident.to_string());
            }
            TokenTree::Group(group) => collect_identifiers(group.stream(), into),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

struct Walk<'a> {
    file: &'a mut SourceFile,
    inside: Vec<String>,
    test: bool,
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let outermost = !self.test && is_test(attributes(item));
        if outermost {
            let span = item.span();
            self.file.test_lines += span.end().line + 1 - span.start().line;
            self.test = true;
        }
        syn::visit::visit_item(self, item);
        if outermost {
            self.test = false;
        }
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        let name = module.ident.to_string();
        if module.content.is_some() {
            self.inside.push(name);
            syn::visit::visit_item_mod(self, module);
            self.inside.pop();
        } else {
            let path = path_attribute(&module.attrs);
            self.file.declarations.push(Declaration { inside: self.inside.clone(), name, path, test: self.test });
        }
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        if call.path.is_ident("include")
            && let Ok(Lit::Str(path)) = call.parse_body::<Lit>()
        {
            self.file.includes.push(path.value().into());
        }
        syn::visit::visit_macro(self, call);
    }
}

/// The attributes of the items that carry test code; others are looked into by the walk anyway.
fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Mod(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Const(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether `#[cfg(test)]` or `#[cfg(all(test, …))]` is among the attributes.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let Meta::List(list) = &attribute.meta else { return false };
        if !list.path.is_ident("cfg") {
            return false;
        }
        let condition: String = list.tokens.to_string().chars().filter(|c| !c.is_whitespace()).collect();
        condition == "test" || condition.starts_with("all(test,") || condition.starts_with("all(test)")
    })
}

fn path_attribute(attributes: &[Attribute]) -> Option<PathBuf> {
    attributes.iter().find_map(|attribute| {
        let Meta::NameValue(pair) = &attribute.meta else { return None };
        let syn::Expr::Lit(value) = &pair.value else { return None };
        match &value.lit {
            Lit::Str(path) if pair.path.is_ident("path") => Some(path.value().into()),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_know_their_surroundings() {
        let file = SourceFile::parse(
            "mod a;\nmod b { mod c; #[cfg(test)] mod d { mod e; } }\n#[path = \"x/y.rs\"]\nmod z;\n#[cfg(test)]\nmod tests;\n",
        )
        .unwrap();
        let seen: Vec<_> =
            file.declarations.iter().map(|d| (d.inside.join("/"), d.name.as_str(), d.path.clone(), d.test)).collect();
        assert_eq!(
            seen,
            [
                (String::new(), "a", None, false),
                ("b".into(), "c", None, false),
                ("b/d".into(), "e", None, true),
                (String::new(), "z", Some("x/y.rs".into()), false),
                (String::new(), "tests", None, true),
            ]
        );
    }

    #[test]
    fn test_lines_are_those_of_items_under_cfg_test() {
        let file = SourceFile::parse(
            "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    #[cfg(test)]\n    fn b() {}\n}\n\n#[cfg(all(test, unix))]\nfn c() {}\n#[cfg(unix)]\nfn d() {}\n",
        )
        .unwrap();
        assert_eq!((file.lines, file.test_lines, file.own_lines()), (12, 7, 5));
    }

    #[test]
    fn includes_and_identifiers_are_found_in_the_depths() {
        let file =
            SourceFile::parse("fn a() { let x = include!(\"gen/t.rs\"); println!(\"{}\", foo_bar::y(x)); }").unwrap();
        assert_eq!(file.includes, [PathBuf::from("gen/t.rs")]);
        assert!(file.identifiers.contains("foo_bar"));
        assert!(!file.identifiers.contains("gen"));
    }

    #[test]
    fn text_that_is_not_rust_is_an_error_with_its_line() {
        assert_eq!(SourceFile::parse("fn a() {}\nfn {").unwrap_err().span().start().line, 2);
    }
}
