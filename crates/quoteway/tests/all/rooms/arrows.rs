//! Which file uses which: by names (types, functions, constants, macros), and by methods of structs that stand in several files.

use std::collections::{BTreeSet, HashMap, HashSet};

use syn::visit::{self, Visit};

use super::source::{File, Found, Names, attributes, is_test, leaves};

/// Pairs of files, by their number: the first uses the second.
pub(super) type Pairs = BTreeSet<(usize, usize)>;

#[derive(Debug, Default)]
pub(super) struct Arrows {
    pub(super) by_names: Pairs,
    pub(super) by_methods: Pairs,
    /// The struct with most methods in its own `impl` blocks.
    pub(super) most_methods: (usize, String),
}

/// Methods that std's types have too: called on something whose type is not known here, they say nothing.
const OF_STD: [&str; 32] = [
    "add",
    "as_mut",
    "as_ref",
    "clear",
    "clone",
    "contains",
    "drain",
    "extend",
    "find",
    "first",
    "flush",
    "get",
    "get_mut",
    "insert",
    "is_empty",
    "iter",
    "iter_mut",
    "keys",
    "last",
    "len",
    "next",
    "pop",
    "push",
    "read",
    "remove",
    "retain",
    "send",
    "swap",
    "take",
    "values",
    "values_mut",
    "write",
];

/// A type, as written, and the module whose names it is written in.
type Written<'a> = (&'a syn::Type, usize);

struct Method<'a> {
    file: usize,
    output: Option<Written<'a>>,
}

/// The methods of each struct by its item, from its own `impl` blocks.
#[derive(Default)]
struct Methods<'a> {
    of: HashMap<usize, HashMap<String, Method<'a>>>,
    files: HashMap<usize, BTreeSet<usize>>,
    /// How many types and traits of the crate have a method of this name.
    owners: HashMap<String, HashSet<String>>,
}

pub(super) fn arrows(files: &[File]) -> Arrows {
    let mut names = Names::new(files);
    for (at, file) in files.iter().enumerate() {
        let mut inner = UsesOfFunctions { names: &mut names, module: at };
        inner.visit_file(&file.syntax);
    }
    let mut methods = Methods::default();
    for (at, file) in files.iter().enumerate() {
        methods.collect(&names, at, names.of_file[at], &file.syntax.items);
    }
    let mut found = Arrows::default();
    for (item, of) in &methods.of {
        let name = names.items[*item].name.clone();
        found.most_methods = found.most_methods.max((of.len(), name));
    }
    for (at, file) in files.iter().enumerate() {
        let mut walk = Walk {
            names: &names,
            methods: &methods,
            file: at,
            module: names.of_file[at],
            own: None,
            known: HashMap::new(),
            found: &mut found,
        };
        walk.visit_file(&file.syntax);
    }
    // Uses of a file's own modules are no arrows: `mod` says as much.
    let is_own = |&(from, to): &(usize, usize)| {
        from == to || files[from].root == files[to].root && files[to].module.starts_with(&files[from].module)
    };
    found.by_names.retain(|pair| !is_own(pair));
    found.by_methods.retain(|pair| !is_own(pair));
    found
}

/// A function's own `use` counts as the file's.
struct UsesOfFunctions<'n, 'a> {
    names: &'n mut Names<'a>,
    module: usize,
}

impl<'ast> Visit<'ast> for UsesOfFunctions<'_, '_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let outer = self.module;
        self.module = self.names.in_braces.get(&std::ptr::from_ref(item)).copied().unwrap_or(outer);
        visit::visit_item_mod(self, item);
        self.module = outer;
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        for statement in &block.stmts {
            if let syn::Stmt::Item(syn::Item::Use(item)) = statement {
                self.names.import(self.module, item);
            }
        }
        visit::visit_block(self, block);
    }
}

impl<'a> Methods<'a> {
    fn collect(&mut self, names: &Names<'a>, file: usize, module: usize, items: &'a [syn::Item]) {
        for item in items.iter().filter(|item| !is_test(attributes(item))) {
            match item {
                syn::Item::Impl(block) if block.trait_.is_none() => {
                    let Some(own) = item_of(names, (&block.self_ty, module)) else { continue };
                    self.files.entry(own).or_default().insert(file);
                    for method in &block.items {
                        let syn::ImplItem::Fn(method) = method else { continue };
                        if is_test(&method.attrs) {
                            continue;
                        }
                        let output = match &method.sig.output {
                            syn::ReturnType::Type(_, output) => Some((&**output, module)),
                            syn::ReturnType::Default => None,
                        };
                        let name = method.sig.ident.to_string();
                        self.owners.entry(name.clone()).or_default().insert(own.to_string());
                        self.of.entry(own).or_default().insert(name, Method { file, output });
                    }
                }
                syn::Item::Trait(of) => {
                    for method in &of.items {
                        if let syn::TraitItem::Fn(method) = method {
                            let owners = self.owners.entry(method.sig.ident.to_string()).or_default();
                            owners.insert(of.ident.to_string());
                        }
                    }
                }
                syn::Item::Mod(inner) => {
                    if let (Some((_, items)), Some(module)) =
                        (&inner.content, names.in_braces.get(&std::ptr::from_ref(inner)))
                    {
                        self.collect(names, file, *module, items);
                    }
                }
                _ => {}
            }
        }
    }

    /// The file of a method of a struct whose methods stand in several files.
    fn file_of(&self, own: usize, name: &str) -> Option<usize> {
        self.files.get(&own).filter(|files| files.len() > 1)?;
        Some(self.of.get(&own)?.get(name)?.file)
    }

    /// The file of a method whose name nothing else in the crate has.
    fn file_of_name(&self, name: &str) -> Option<usize> {
        let owners = self.owners.get(name).filter(|owners| owners.len() == 1 && !OF_STD.contains(&name))?;
        self.file_of(owners.iter().next()?.parse().ok()?, name)
    }
}

fn segments(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

/// The crate's item that a type is, behind references and boxes.
fn item_of(names: &Names<'_>, (written, module): Written<'_>) -> Option<usize> {
    match written {
        syn::Type::Reference(to) => item_of(names, (&to.elem, module)),
        syn::Type::Paren(inner) => item_of(names, (&inner.elem, module)),
        syn::Type::Path(path) if path.qself.is_none() => {
            if let Some(inner) = argument_of(&path.path, &["Box", "Rc", "Arc"]) {
                return item_of(names, (inner, module));
            }
            let path = segments(&path.path);
            names.resolve(module, &path).into_iter().find_map(|found| match found {
                Found::Item { item, segments } if segments == path.len() => Some(item),
                _ => None,
            })
        }
        _ => None,
    }
}

/// `T` of `Box<T>`, for the names given.
fn argument_of<'a>(path: &'a syn::Path, of: &[&str]) -> Option<&'a syn::Type> {
    let last = path.segments.last().filter(|last| of.iter().any(|name| last.ident == name))?;
    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        syn::GenericArgument::Type(inner) => Some(inner),
        _ => None,
    })
}

/// A type behind references, and what an `Option` or `Result` holds.
fn held((written, module): Written<'_>) -> Written<'_> {
    match written {
        syn::Type::Reference(to) => held((&to.elem, module)),
        syn::Type::Path(path) => {
            argument_of(&path.path, &["Option", "Result"]).map_or((written, module), |inner| held((inner, module)))
        }
        _ => (written, module),
    }
}

/// What an expression's type is, as far as it is written somewhere.
#[derive(Clone, Copy)]
enum Known<'a> {
    Own(usize),
    Written(Written<'a>),
}

struct Walk<'n, 'a> {
    names: &'n Names<'a>,
    methods: &'n Methods<'a>,
    file: usize,
    module: usize,
    /// The struct whose `impl` this is: `self` and `Self`.
    own: Option<usize>,
    /// Arguments and variables of the function whose type is written or follows from a field.
    known: HashMap<String, Known<'a>>,
    found: &'n mut Arrows,
}

impl<'a> Walk<'_, 'a> {
    fn uses(&mut self, path: &[String]) {
        if let [own, rest @ ..] = path
            && own == "Self"
        {
            if let (Some(own), Some(method)) = (self.own, rest.first()) {
                self.found.by_methods.extend(self.methods.file_of(own, method).map(|file| (self.file, file)));
            }
            return;
        }
        for found in self.names.resolve(self.module, path) {
            let Found::Item { item, segments } = found else { continue };
            self.found.by_names.insert((self.file, self.names.items[item].file));
            if let Some(method) = path.get(segments) {
                self.found.by_methods.extend(self.methods.file_of(item, method).map(|file| (self.file, file)));
            }
        }
    }

    fn calls(&mut self, receiver: Option<Known<'a>>, method: &str) {
        let file = match receiver {
            Some(known) => self.item(known).and_then(|own| self.methods.file_of(own, method)),
            None => self.methods.file_of_name(method),
        };
        self.found.by_methods.extend(file.map(|file| (self.file, file)));
    }

    fn item(&self, known: Known<'a>) -> Option<usize> {
        match known {
            Known::Own(item) => Some(item),
            Known::Written(written) => item_of(self.names, written),
        }
    }

    fn field(&self, of: Known<'a>, name: &str) -> Option<Known<'a>> {
        let item = &self.names.items[self.item(of)?];
        Some(Known::Written((item.fields.get(name)?, item.module)))
    }

    fn type_of(&self, expression: &syn::Expr) -> Option<Known<'a>> {
        match expression {
            syn::Expr::Path(path) if path.path.is_ident("self") => self.own.map(Known::Own),
            syn::Expr::Path(path) => self.known.get(&path.path.get_ident()?.to_string()).copied(),
            syn::Expr::Field(field) => match &field.member {
                syn::Member::Named(name) => self.field(self.type_of(&field.base)?, &name.to_string()),
                syn::Member::Unnamed(_) => None,
            },
            syn::Expr::Reference(inner) => self.type_of(&inner.expr),
            syn::Expr::Paren(inner) => self.type_of(&inner.expr),
            syn::Expr::Unary(inner) => self.type_of(&inner.expr),
            syn::Expr::Try(inner) => self.type_of(&inner.expr).map(Self::held),
            syn::Expr::MethodCall(call) => {
                let receiver = self.type_of(&call.receiver)?;
                let name = call.method.to_string();
                if ["unwrap", "expect", "as_ref", "as_mut", "as_deref", "as_deref_mut"].contains(&name.as_str()) {
                    return Some(Self::held(receiver));
                }
                Some(Known::Written(self.methods.of.get(&self.item(receiver)?)?.get(&name)?.output?))
            }
            syn::Expr::Struct(of) => {
                let path = segments(&of.path);
                if path == ["Self"] {
                    return self.own.map(Known::Own);
                }
                self.names.resolve(self.module, &path).into_iter().find_map(|found| match found {
                    Found::Item { item, .. } => Some(Known::Own(item)),
                    Found::Module(_) => None,
                })
            }
            _ => None,
        }
    }

    fn held(known: Known<'a>) -> Known<'a> {
        match known {
            Known::Written(written) => Known::Written(held(written)),
            own @ Known::Own(_) => own,
        }
    }

    /// Remembers what the names of a pattern are.
    fn bind(&mut self, pattern: &'a syn::Pat, known: Option<Known<'a>>) {
        match pattern {
            syn::Pat::Ident(name) => {
                match known {
                    Some(known) => self.known.insert(name.ident.to_string(), known),
                    None => self.known.remove(&name.ident.to_string()),
                };
            }
            syn::Pat::Type(typed) => self.bind(&typed.pat, Some(Known::Written((&typed.ty, self.module)))),
            syn::Pat::Reference(inner) => self.bind(&inner.pat, known),
            syn::Pat::TupleStruct(some) if some.path.is_ident("Some") || some.path.is_ident("Ok") => {
                if let Some(inner) = some.elems.first() {
                    self.bind(inner, known.map(Self::held));
                }
            }
            _ => {}
        }
    }

    /// What is written in a macro: as expressions or statements where it is of that kind, else by its words.
    fn tokens(&mut self, tokens: &proc_macro2::TokenStream) {
        let flat = flatten(tokens.clone());
        let word = |at: usize| flat.get(at).map(String::as_str);
        let is_name =
            |at: usize| word(at).is_some_and(|word| word.starts_with(|c: char| c.is_alphabetic() || c == '_'));
        let mut at = 0;
        while at < flat.len() {
            let before = at.checked_sub(1).and_then(word);
            if !is_name(at) || before == Some("::") {
                at += 1;
                continue;
            }
            let start = at;
            while word(at + 1) == Some("::") && is_name(at + 2) {
                at += 2;
            }
            at += 1;
            let is_called = word(at) == Some("(");
            if before == Some(".") {
                if is_called {
                    let receiver = start.checked_sub(2).and_then(word).filter(|receiver| {
                        start.checked_sub(3).and_then(word) != Some(".") && (*receiver == "self" || is_name(start - 2))
                    });
                    let known = match receiver {
                        Some("self") => self.own.map(Known::Own),
                        Some(name) => self.known.get(name).copied(),
                        None => None,
                    };
                    self.calls(known, &flat[start]);
                }
                continue;
            }
            let path: Vec<String> = flat[start..at].iter().filter(|word| *word != "::").cloned().collect();
            if path.len() > 1 || is_called || is_type_or_constant(&path[0]) {
                self.uses(&path);
            }
        }
    }
}

fn is_type_or_constant(name: &str) -> bool {
    name.starts_with(char::is_uppercase)
}

/// The words of a macro, with brackets in line; `::` is one word.
fn flatten(tokens: proc_macro2::TokenStream) -> Vec<String> {
    let mut flat: Vec<String> = Vec::new();
    for token in tokens {
        match token {
            proc_macro2::TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    proc_macro2::Delimiter::Parenthesis => ("(", ")"),
                    proc_macro2::Delimiter::Brace => ("{", "}"),
                    proc_macro2::Delimiter::Bracket => ("[", "]"),
                    proc_macro2::Delimiter::None => ("", ""),
                };
                flat.push(open.to_owned());
                flat.extend(flatten(group.stream()));
                flat.push(close.to_owned());
            }
            proc_macro2::TokenTree::Punct(mark) => {
                if mark.as_char() == ':' && flat.pop_if(|last| last == ":1").is_some() {
                    flat.push("::".to_owned());
                } else if mark.as_char() == ':' && mark.spacing() == proc_macro2::Spacing::Joint {
                    flat.push(":1".to_owned());
                } else {
                    flat.push(mark.to_string());
                }
            }
            proc_macro2::TokenTree::Ident(name) => flat.push(name.to_string()),
            proc_macro2::TokenTree::Literal(_) => flat.push("0".to_owned()),
        }
    }
    flat
}

impl<'ast> Visit<'ast> for Walk<'_, 'ast> {
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let outer = self.module;
        self.module = self.names.in_braces.get(&std::ptr::from_ref(item)).copied().unwrap_or(outer);
        visit::visit_item_mod(self, item);
        self.module = outer;
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() {
            for leaf in leaves(&item.tree) {
                self.uses(&leaf.path);
            }
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let own = item_of(self.names, (&item.self_ty, self.module));
        let outer = std::mem::replace(&mut self.own, own);
        visit::visit_item_impl(self, item);
        self.own = outer;
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            self.known.clear();
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.known.clear();
        visit::visit_item_fn(self, function);
    }

    fn visit_pat_type(&mut self, typed: &'ast syn::PatType) {
        self.bind(&typed.pat, Some(Known::Written((&typed.ty, self.module))));
        visit::visit_pat_type(self, typed);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        visit::visit_local(self, local);
        if !matches!(local.pat, syn::Pat::Type(_)) {
            let known = local.init.as_ref().and_then(|init| self.type_of(&init.expr));
            self.bind(&local.pat, known);
        }
    }

    fn visit_expr_let(&mut self, tested: &'ast syn::ExprLet) {
        visit::visit_expr_let(self, tested);
        let known = self.type_of(&tested.expr);
        self.bind(&tested.pat, known);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let receiver = self.type_of(&call.receiver);
        self.calls(receiver, &call.method.to_string());
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let syn::Expr::Path(function) = &*call.func
            && function.path.leading_colon.is_none()
        {
            self.uses(&segments(&function.path));
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let names = segments(path);
            // A single small word is a variable, or was taken into scope by a `use`, which is counted there.
            if names.len() > 1 || is_type_or_constant(&names[0]) {
                self.uses(&names);
            }
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        let path = segments(&called.path);
        if called.path.leading_colon.is_none() {
            self.uses(&path);
            if let [name] = path.as_slice()
                && let Some(item) = self.names.macro_item(name)
            {
                self.found.by_names.insert((self.file, self.names.items[item].file));
            }
        }
        self.tokens(&called.tokens);
    }
}
