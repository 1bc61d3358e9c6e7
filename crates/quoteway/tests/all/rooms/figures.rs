//! Figures of a crate.

use syn::visit::{self, Visit};

use super::arrows::arrows;
use super::circles::circles;
use super::source::{File, Texts, attributes, is_test, parse};

/// The figures of a crate's `src`, without what stands below `#[cfg(test)]`.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// Lines that are neither blank nor comment.
    pub(super) source: usize,
    pub(super) all_lines: usize,
    /// Groups of files that use each other's names in a circle, by their sizes.
    pub(super) circles: Vec<usize>,
    /// The same, with the methods of structs that stand in several files.
    pub(super) circles_with_methods: Vec<usize>,
    /// Which files these are.
    pub(super) groups: [Vec<Vec<String>>; 2],
    pub(super) arrows: [Vec<(String, String)>; 2],
    /// The struct with most fields.
    pub(super) widest: (usize, String),
    /// The struct with most fields of those that have private ones: the others are data.
    pub(super) widest_closed: (usize, String),
    /// The struct with most methods in its own `impl` blocks.
    pub(super) most_methods: (usize, String),
    /// Functions of more than 60 lines.
    pub(super) long_functions: usize,
    pub(super) longest_function: (usize, String),
    /// `else { return` in one line.
    pub(super) else_returns: usize,
    /// `assert!`, `debug_assert!` and their kin.
    pub(super) assertions: usize,
    /// Results whose error is a text.
    pub(super) text_errors: usize,
    /// Items and methods that are `pub`.
    pub(super) public_items: usize,
}

pub(super) fn count(texts: &Texts) -> Figures {
    let files = parse(texts);
    let mut all = Figures::default();
    for file in &files {
        all.source += file.source.len();
        all.all_lines += file.all_lines;
        all.lines(&file.source);
        let mut shapes = Shapes { all: &mut all, in_trait: false };
        shapes.visit_file(&file.syntax);
    }
    all.uses(&files);
    // Lines of spans are remembered for the thread's life.
    drop(files);
    proc_macro2::extra::invalidate_current_thread_spans();
    all
}

impl Figures {
    fn uses(&mut self, files: &[File]) {
        let found = arrows(files);
        self.most_methods = found.most_methods;
        let with_methods = found.by_names.union(&found.by_methods).copied().collect();
        let name = |file: &usize| files[*file].name.clone();
        let sorted = |mut names: Vec<String>| {
            names.sort();
            names
        };
        let named = |pairs: &super::arrows::Pairs| pairs.iter().map(|(a, b)| (name(a), name(b))).collect();
        self.arrows = [named(&found.by_names), named(&found.by_methods)];
        self.groups = [&found.by_names, &with_methods]
            .map(|pairs| circles(pairs).iter().map(|group| sorted(group.iter().map(name).collect())).collect());
        self.circles = self.groups[0].iter().map(Vec::len).collect();
        self.circles_with_methods = self.groups[1].iter().map(Vec::len).collect();
    }

    fn lines(&mut self, source: &[String]) {
        for line in source {
            self.else_returns += line.matches("else { return").count();
            let assertions = ["assert!(", "assert_eq!(", "assert_ne!("];
            self.assertions += assertions.map(|word| line.matches(word).count()).iter().sum::<usize>();
            self.text_errors += usize::from(line.contains("Result<") && line.contains(", String>"));
        }
    }
}

struct Shapes<'f> {
    all: &'f mut Figures,
    in_trait: bool,
}

impl Shapes<'_> {
    fn function(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let lines = body.brace_token.span.close().end().line - signature.fn_token.span.start().line + 1;
        self.all.long_functions += usize::from(lines > 60);
        let longest = std::mem::take(&mut self.all.longest_function);
        self.all.longest_function = longest.max((lines, signature.ident.to_string()));
    }

    fn is_public(&mut self, visibility: &syn::Visibility) {
        self.all.public_items += usize::from(matches!(visibility, syn::Visibility::Public(_)));
    }
}

impl<'a> Visit<'a> for Shapes<'_> {
    fn visit_item(&mut self, item: &'a syn::Item) {
        if is_test(attributes(item)) {
            return;
        }
        match item {
            syn::Item::Const(it) => self.is_public(&it.vis),
            syn::Item::Enum(it) => self.is_public(&it.vis),
            syn::Item::Static(it) => self.is_public(&it.vis),
            syn::Item::Trait(it) => self.is_public(&it.vis),
            syn::Item::Type(it) => self.is_public(&it.vis),
            syn::Item::Fn(it) => {
                self.is_public(&it.vis);
                self.function(&it.sig, &it.block);
            }
            syn::Item::Struct(it) => {
                self.is_public(&it.vis);
                let named = it.fields.iter().filter(|field| field.ident.is_some()).count();
                let widest = std::mem::take(&mut self.all.widest);
                self.all.widest = widest.max((named, it.ident.to_string()));
                if it.fields.iter().any(|field| matches!(field.vis, syn::Visibility::Inherited)) {
                    let widest = std::mem::take(&mut self.all.widest_closed);
                    self.all.widest_closed = widest.max((named, it.ident.to_string()));
                }
            }
            _ => {}
        }
        let outer = std::mem::replace(&mut self.in_trait, matches!(item, syn::Item::Impl(it) if it.trait_.is_some()));
        visit::visit_item(self, item);
        self.in_trait = outer;
    }

    fn visit_impl_item_fn(&mut self, method: &'a syn::ImplItemFn) {
        if is_test(&method.attrs) {
            return;
        }
        if !self.in_trait {
            self.is_public(&method.vis);
        }
        self.function(&method.sig, &method.block);
        visit::visit_impl_item_fn(self, method);
    }

    fn visit_trait_item_fn(&mut self, method: &'a syn::TraitItemFn) {
        if let Some(body) = &method.default {
            self.function(&method.sig, body);
        }
    }
}
