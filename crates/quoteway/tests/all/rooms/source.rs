//! The sources of a crate as syntax: which file is which module, which names a module has, what is counted of its lines.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

/// The texts of a crate's `src` by their path in it (`a/mod.rs`).
pub(super) type Texts = BTreeMap<String, String>;

pub(super) fn read(src: &Path) -> Texts {
    let mut all = BTreeMap::new();
    let mut folders = vec![src.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let name = path.strip_prefix(src).expect("below src").to_string_lossy().into_owned();
                all.insert(name, std::fs::read_to_string(&path).expect("text"));
            }
        }
    }
    all
}

/// A file that is compiled into the product, parsed.
pub(super) struct File {
    pub(super) name: String,
    /// The module whose text this file is.
    pub(super) module: Vec<String>,
    /// Of several programs in one crate (`lib.rs`, `bin/*/main.rs`), the one that this file belongs to.
    pub(super) root: usize,
    pub(super) syntax: syn::File,
    /// Lines that are neither blank nor comment nor test.
    pub(super) source: Vec<String>,
    /// Lines without tests, with blank ones and comments.
    pub(super) all_lines: usize,
}

/// The files of a crate that are reached by `mod` from its roots; what stands below `#[cfg(test)]` is not of the product.
pub(super) fn parse(texts: &Texts) -> Vec<File> {
    let is_root = |name: &str| {
        ["lib.rs", "main.rs"].contains(&name)
            || name.strip_prefix("bin/").is_some_and(|rest| !rest.contains('/') || rest.ends_with("/main.rs"))
    };
    let mut files = Vec::new();
    let mut open: Vec<(String, Vec<String>, usize)> = texts
        .keys()
        .filter(|name| is_root(name))
        .enumerate()
        .map(|(root, name)| (name.clone(), vec![], root))
        .collect();
    while let Some((name, module, root)) = open.pop() {
        let Some(text) = texts.get(&name) else { continue };
        let syntax = syn::parse_file(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (path, child) in children(&name, &module, &syntax.items) {
            let found = path.into_iter().find(|path| texts.contains_key(path));
            open.extend(found.map(|path| (path, child, root)));
        }
        let (source, all_lines) = lines(text, &syntax);
        files.push(File { name, module, root, syntax, source, all_lines });
    }
    files
}

/// Where the modules that a file declares may lie, and what they are called.
fn children(name: &str, module: &[String], items: &[syn::Item]) -> Vec<(Vec<String>, Vec<String>)> {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let is_folder = ["mod", "lib", "main"].contains(&stem);
    let below = if is_folder { folder.to_owned() } else { format!("{folder}/{stem}") };
    let mut found = Vec::new();
    for item in items {
        let syn::Item::Mod(declared) = item else { continue };
        if is_test(&declared.attrs) {
            continue;
        }
        let child: Vec<String> = module.iter().cloned().chain([declared.ident.to_string()]).collect();
        let ident = declared.ident.to_string();
        if let Some((_, inner)) = &declared.content {
            // A module in braces: its own `mod x;` lie in a folder of its name.
            let place = format!("{below}/{ident}/mod.rs");
            found.extend(children(place.trim_start_matches('/'), &child, inner));
        } else {
            let places = [format!("{below}/{ident}.rs"), format!("{below}/{ident}/mod.rs")];
            found.push((places.map(|place| place.trim_start_matches('/').to_owned()).to_vec(), child));
        }
    }
    found
}

/// `#[cfg(test)]` and `#[cfg(all(test, …))]`.
pub(super) fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let text: String = list.tokens.to_string().split_whitespace().collect();
        text == "test" || text.strip_prefix("all(").is_some_and(|all| all.split([',', ')']).any(|word| word == "test"))
    })
}

pub(super) fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    use syn::Item::{
        Const, Enum, ExternCrate, Fn, ForeignMod, Impl, Macro, Mod, Static, Struct, Trait, TraitAlias, Type, Union, Use,
    };
    match item {
        Const(it) => &it.attrs,
        Enum(it) => &it.attrs,
        ExternCrate(it) => &it.attrs,
        Fn(it) => &it.attrs,
        ForeignMod(it) => &it.attrs,
        Impl(it) => &it.attrs,
        Macro(it) => &it.attrs,
        Mod(it) => &it.attrs,
        Static(it) => &it.attrs,
        Struct(it) => &it.attrs,
        Trait(it) => &it.attrs,
        TraitAlias(it) => &it.attrs,
        Type(it) => &it.attrs,
        Union(it) => &it.attrs,
        Use(it) => &it.attrs,
        _ => &[],
    }
}

/// Lines of source, and how many there are with blank ones and comments.
fn lines(text: &str, syntax: &syn::File) -> (Vec<String>, usize) {
    struct Tests(HashSet<usize>);
    impl Tests {
        fn leave_out(&mut self, attributes: &[syn::Attribute], whole: proc_macro2::Span) {
            let from = attributes.first().map_or(whole, syn::spanned::Spanned::span);
            self.0.extend(from.start().line..=whole.end().line);
        }
    }
    impl<'a> Visit<'a> for Tests {
        fn visit_item(&mut self, item: &'a syn::Item) {
            if is_test(attributes(item)) {
                self.leave_out(attributes(item), item.span());
            } else {
                visit::visit_item(self, item);
            }
        }
        fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
            if is_test(&function.attrs) {
                self.leave_out(&function.attrs, function.span());
            }
        }
        fn visit_block(&mut self, _: &'a syn::Block) {}
    }
    let mut tests = Tests(HashSet::new());
    tests.visit_file(syntax);
    let product = text.lines().enumerate().filter(|(at, _)| !tests.0.contains(&(at + 1))).map(|(_, line)| line);
    let (mut source, mut all, mut in_comment) = (Vec::new(), 0, false);
    for line in product {
        all += 1;
        let code = line.trim();
        in_comment |= code.starts_with("/*");
        if !in_comment && !code.is_empty() && !code.starts_with("//") {
            source.push(line.to_owned());
        }
        in_comment &= !code.contains("*/");
    }
    (source, all)
}

/// The meaning of a name in a module.
#[derive(Debug, Clone)]
pub(super) enum Name {
    Item(usize),
    Module(usize),
    /// `use path as name`, to be followed from the module where it stands.
    Import(Vec<String>),
}

#[derive(Debug, Default)]
pub(super) struct Module {
    pub(super) parent: Option<usize>,
    root: usize,
    names: HashMap<String, Vec<Name>>,
    globs: Vec<Vec<String>>,
}

pub(super) struct Item<'a> {
    pub(super) name: String,
    pub(super) file: usize,
    /// The variants of an enum, for `use Kind::*`.
    variants: HashSet<String>,
    /// Named fields of a struct, with their types as seen from `module`.
    pub(super) fields: HashMap<String, &'a syn::Type>,
    pub(super) module: usize,
}

/// All modules of a crate with their names.
pub(super) struct Names<'a> {
    pub(super) modules: Vec<Module>,
    pub(super) items: Vec<Item<'a>>,
    /// `macro_rules!` by name: their scope is the order of the text, which one name for one macro makes unnecessary to know.
    macros: HashMap<String, usize>,
    /// The module that each file is.
    pub(super) of_file: Vec<usize>,
    /// Modules in braces, by the address of their syntax.
    pub(super) in_braces: HashMap<*const syn::ItemMod, usize>,
}

/// What a path leads to; what follows an item (`Type::method`) is left to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Item { item: usize, segments: usize },
    Module(usize),
}

impl<'a> Names<'a> {
    pub(super) fn new(files: &'a [File]) -> Self {
        let mut names = Names {
            modules: Vec::new(),
            items: Vec::new(),
            macros: HashMap::new(),
            of_file: Vec::new(),
            in_braces: HashMap::new(),
        };
        let mut by_path = HashMap::new();
        for file in files {
            by_path.insert((file.root, file.module.clone()), names.modules.len());
            names.of_file.push(names.modules.len());
            names.modules.push(Module::default());
        }
        let root = |file: &File| by_path[&(file.root, Vec::new())];
        for (at, file) in files.iter().enumerate() {
            let parent = file.module.split_last().map(|(_, above)| by_path.get(&(file.root, above.to_vec())));
            names.modules[at].parent = parent.flatten().copied();
            names.modules[at].root = root(file);
        }
        for (at, file) in files.iter().enumerate() {
            names.declare(at, at, &file.syntax.items);
        }
        // A file below a module in braces hangs at the file that has the braces; what is written `super` there is not followed.
        for (at, file) in files.iter().enumerate() {
            let (Some((name, _)), Some(parent)) = (file.module.split_last(), names.modules[at].parent) else {
                continue;
            };
            names.modules[parent].names.entry(name.clone()).or_default().push(Name::Module(at));
        }
        names
    }

    fn declare(&mut self, module: usize, file: usize, items: &'a [syn::Item]) {
        use syn::Item::{Const, Enum, Fn, Macro, Mod, Static, Struct, Trait, Type, Union, Use};
        for item in items.iter().filter(|item| !is_test(attributes(item))) {
            let mut here = Item { name: String::new(), file, variants: HashSet::new(), fields: HashMap::new(), module };
            let name = match item {
                Const(it) => &it.ident,
                Enum(it) => {
                    here.variants = it.variants.iter().map(|variant| variant.ident.to_string()).collect();
                    &it.ident
                }
                Fn(it) => &it.sig.ident,
                Static(it) => &it.ident,
                Struct(it) => {
                    let named =
                        it.fields.iter().filter_map(|field| Some((field.ident.as_ref()?.to_string(), &field.ty)));
                    here.fields = named.collect();
                    &it.ident
                }
                Trait(it) => &it.ident,
                Type(it) => &it.ident,
                Union(it) => &it.ident,
                Macro(it) => {
                    if let Some(name) = &it.ident {
                        here.name = name.to_string();
                        self.macros.insert(name.to_string(), self.items.len());
                        self.items.push(here);
                    }
                    continue;
                }
                Use(it) => {
                    self.import(module, it);
                    continue;
                }
                Mod(it) => {
                    if let Some((_, inner)) = &it.content {
                        let child = self.modules.len();
                        let root = self.modules[module].root;
                        self.modules.push(Module { parent: Some(module), root, ..Module::default() });
                        self.in_braces.insert(std::ptr::from_ref(it), child);
                        self.modules[module].names.entry(it.ident.to_string()).or_default().push(Name::Module(child));
                        self.declare(child, file, inner);
                    }
                    continue;
                }
                _ => continue,
            };
            here.name = name.to_string();
            self.modules[module].names.entry(here.name.clone()).or_default().push(Name::Item(self.items.len()));
            self.items.push(here);
        }
    }

    /// Takes the names of a `use` into a module; those of a function's own `use` as well.
    pub(super) fn import(&mut self, module: usize, item: &syn::ItemUse) {
        if item.leading_colon.is_some() {
            return;
        }
        for leaf in leaves(&item.tree) {
            match leaf.name {
                Some(name) => self.modules[module].names.entry(name).or_default().push(Name::Import(leaf.path)),
                None if leaf.is_glob => self.modules[module].globs.push(leaf.path),
                None => {}
            }
        }
    }

    /// What a path that stands in a module leads to: `crate`, `self`, `super`, names in scope, through all re-exports.
    pub(super) fn resolve(&self, module: usize, path: &[String]) -> Vec<Found> {
        self.follow(module, path, &mut HashSet::new())
    }

    fn follow(&self, module: usize, path: &[String], seen: &mut HashSet<(usize, String)>) -> Vec<Found> {
        let Some((first, rest)) = path.split_first() else { return Vec::new() };
        let counted = |found: Found, segments| match found {
            Found::Item { item, .. } => Found::Item { item, segments },
            module @ Found::Module(_) => module,
        };
        let mut at = match first.as_str() {
            "crate" => vec![Found::Module(self.modules[module].root)],
            "self" => vec![Found::Module(module)],
            "super" => self.modules[module].parent.map(Found::Module).into_iter().collect(),
            name => self.lookup(module, name, seen).into_iter().map(|found| counted(found, 1)).collect(),
        };
        for (segments, next) in (2..).zip(rest) {
            let mut found = Vec::new();
            for one in at {
                match one {
                    Found::Module(inner) if next == "super" => {
                        found.extend(self.modules[inner].parent.map(Found::Module));
                    }
                    Found::Module(inner) => {
                        found.extend(self.lookup(inner, next, seen).into_iter().map(|found| counted(found, segments)));
                    }
                    item @ Found::Item { .. } => found.push(item),
                }
            }
            at = found;
        }
        at
    }

    fn lookup(&self, module: usize, name: &str, seen: &mut HashSet<(usize, String)>) -> Vec<Found> {
        if !seen.insert((module, name.to_owned())) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for one in self.modules[module].names.get(name).into_iter().flatten() {
            match one {
                Name::Item(item) => found.push(Found::Item { item: *item, segments: 1 }),
                Name::Module(inner) => found.push(Found::Module(*inner)),
                Name::Import(path) if path.len() == 1 && path[0] == name => {}
                Name::Import(path) => found.extend(self.follow(module, path, seen)),
            }
        }
        if found.is_empty() {
            for glob in &self.modules[module].globs {
                for one in self.follow(module, glob, seen) {
                    match one {
                        Found::Module(inner) => found.extend(self.lookup(inner, name, seen)),
                        Found::Item { item, .. } if self.items[item].variants.contains(name) => found.push(one),
                        Found::Item { .. } => {}
                    }
                }
            }
        }
        seen.remove(&(module, name.to_owned()));
        found
    }

    pub(super) fn macro_item(&self, name: &str) -> Option<usize> {
        self.macros.get(name).copied()
    }
}

pub(super) struct Leaf {
    pub(super) path: Vec<String>,
    /// The name that is taken into scope; none for globs and `as _`.
    name: Option<String>,
    is_glob: bool,
}

/// The names of a `use` with their whole paths.
pub(super) fn leaves(tree: &syn::UseTree) -> Vec<Leaf> {
    fn walk(tree: &syn::UseTree, before: &mut Vec<String>, all: &mut Vec<Leaf>) {
        let leaf = |before: &[String], last: &str, name: Option<String>| {
            let mut path = before.to_vec();
            if last != "self" || before.is_empty() {
                path.push(last.to_owned());
            }
            let name = name.or_else(|| path.last().cloned()).filter(|name| name != "_");
            Leaf { path, name, is_glob: false }
        };
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                walk(&path.tree, before, all);
                before.pop();
            }
            syn::UseTree::Name(name) => all.push(leaf(before, &name.ident.to_string(), None)),
            syn::UseTree::Rename(name) => {
                all.push(leaf(before, &name.ident.to_string(), Some(name.rename.to_string())));
            }
            syn::UseTree::Glob(_) => all.push(Leaf { path: before.clone(), name: None, is_glob: true }),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| walk(tree, before, all)),
        }
    }
    let mut all = Vec::new();
    walk(tree, &mut Vec::new(), &mut all);
    all
}
