//! The instrument on crates of a few lines: each kind of path, of handing on, of call.

use super::figures::{Figures, count};
use super::limits::Limits;

fn figures(files: &[(&str, &str)]) -> Figures {
    count(&files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect())
}

/// The arrows by names and by methods, as "a.rs -> b.rs".
fn arrows(files: &[(&str, &str)]) -> [Vec<String>; 2] {
    figures(files).arrows.map(|pairs| pairs.iter().map(|(from, to)| format!("{from} -> {to}")).collect())
}

/// What `a.rs` uses when it has this text, beside `b.rs` with some items and a folder `c` that hands on what `c/d.rs` defines.
fn used_by(text: &str) -> Vec<String> {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; mod all; pub use b::Handed;"),
        ("a.rs", text),
        (
            "b.rs",
            "pub struct B; pub struct Handed; pub enum Kind { One } pub fn make() -> B { B } pub const MOST: u8 = 1;\n\
             macro_rules! count { () => {} }\n pub(crate) use count;",
        ),
        ("c/mod.rs", "mod d; pub use d::D; pub use d::D as Renamed; pub use d::*; pub struct C;"),
        ("c/d.rs", "pub struct D; pub struct Starred;"),
        ("all.rs", "pub use crate::b::*; pub use crate::c::{self as inner, D as Again};"),
    ];
    let [names, methods] = arrows(&files);
    assert_eq!(methods, [""; 0]);
    names.into_iter().filter_map(|arrow| arrow.strip_prefix("a.rs -> ").map(str::to_owned)).collect()
}

#[test]
fn an_import_leads_to_the_file_that_defines_the_name() {
    for (text, file) in [
        ("use crate::b::B;", "b.rs"),
        ("use crate::b::{make, MOST as AT_MOST};", "b.rs"),
        ("use super::b::Kind::One;", "b.rs"),
        ("use super::b::Kind::*;", "b.rs"),
        ("use crate::Handed;", "b.rs"),
        ("use super::Handed as Other;", "b.rs"),
        ("use crate::c::C;", "c/mod.rs"),
        ("use crate::c::D;", "c/d.rs"),
        ("use crate::c::Renamed;", "c/d.rs"),
        ("use crate::c::Starred;", "c/d.rs"),
        ("use crate::all::B;", "b.rs"),
        ("use crate::all::Again;", "c/d.rs"),
        ("use crate::all::inner::Starred;", "c/d.rs"),
        ("fn f() { use crate::b::B; }", "b.rs"),
        ("mod inner { use super::super::b::B; }", "b.rs"),
    ] {
        assert_eq!(used_by(text), [file], "{text}");
    }
}

#[test]
fn a_path_in_line_leads_to_the_file_that_defines_the_name() {
    for (text, file) in [
        ("fn f() { crate::b::make(); }", "b.rs"),
        ("fn f() -> u8 { super::b::MOST }", "b.rs"),
        ("fn f(_: &mut crate::c::D) {}", "c/d.rs"),
        ("struct A { d: Option<super::c::Renamed> }", "c/d.rs"),
        ("impl Clone for crate::Handed {}", "b.rs"),
        ("fn f<T: Into<crate::c::C>>() {}", "c/mod.rs"),
        ("fn f(k: u8) { match k { crate::b::MOST => {} _ => {} } }", "b.rs"),
        ("fn f() { println!(\"{}\", crate::b::MOST); }", "b.rs"),
        ("fn f() { assert!(matches!(x, Some(crate::b::Kind::One))); }", "b.rs"),
        ("macro_rules! m { () => { $crate::c::D } }", "c/d.rs"),
        ("fn f() { count!(); }", "b.rs"),
        ("use crate::b; fn f() { b::make(); }", "b.rs"),
        ("use crate::c as other; fn f(_: other::Starred) {}", "c/d.rs"),
        ("use crate::all::*; fn f(_: Again) {}", "c/d.rs"),
        ("use crate::all::*; fn f() { make(); }", "b.rs"),
        ("mod inner { fn f(_: super::super::b::B) {} }", "b.rs"),
        ("use self::inner::B; mod inner { pub use crate::b::B; }", "b.rs"),
    ] {
        assert_eq!(used_by(text), [file], "{text}");
    }
}

#[test]
fn what_names_no_file_of_the_crate_is_no_arrow() {
    for text in [
        "use std::fmt; use ::b::B; fn f(_: ::c::D) {}",
        "use crate::b; use crate::c;",
        "use crate::all::*; fn f(make: u8) -> u8 { make }",
        "use missing::*; use also::missing::*; fn f(_: B) {}",
        "#[cfg(test)] mod tests { use crate::b::B; }",
        "#[cfg(all(test, unix))] use crate::b::B;",
        "/// [`crate::b::B`]\nfn f() {}",
    ] {
        assert_eq!(used_by(text), [""; 0], "{text}");
    }
}

/// `Big` in `lib.rs`, with methods in `a.rs` and `b.rs`, where `b.rs` has the text; `Small` has all of its in `a.rs`.
fn called_by(text: &str) -> Vec<String> {
    let files = [
        ("lib.rs", "mod a; mod b; pub struct Big { pub small: a::Small, pub next: Option<Box<Big>> }"),
        (
            "a.rs",
            "use crate::Big; impl Big { pub fn far(&mut self) -> &mut Self { self } pub fn made() {} pub fn get(&self) {} }\n\
             pub struct Small { pub big: Big } impl Small { pub fn near(&self) {} }",
        ),
        ("b.rs", text),
    ];
    arrows(&files)[1].clone()
}

#[test]
fn a_method_of_a_struct_in_several_files_leads_to_the_file_that_has_it() {
    for call in [
        "impl crate::Big { fn f(&mut self) { self.far(); } }",
        "impl crate::Big { fn f(&mut self) { Self::made(); } }",
        "impl crate::Big { fn f(&mut self) { crate::Big::made(); } }",
        "impl crate::Big { fn f(&mut self) { self.small.big.get(); } }",
        "impl crate::Big { fn f(&mut self) { let x = &self.small; x.big.get(); } }",
        "impl crate::Big { fn f(&mut self) { if let Some(next) = &mut self.next { next.get(); } } }",
        "impl crate::Big { fn f(&mut self) { assert!(self.far()); } }",
        "impl crate::Big {} fn f(x: &mut crate::Big) { x.far(); }",
        "impl crate::Big {} fn f(x: &mut crate::Big) { vec![x.get()]; }",
        "impl crate::Big {} fn f() { unknown().far(); }",
    ] {
        assert_eq!(called_by(call), ["b.rs -> a.rs"], "{call}");
    }
}

#[test]
fn other_methods_are_no_arrows() {
    for call in [
        "impl crate::Big { fn f(&self) { self.small.near(); } }",
        "impl crate::Big { fn f(&self) { self.f(); } }",
        "impl crate::Big {} fn f() { unknown().get(); }",
        "impl crate::Big {} fn f(x: &mut Vec<u8>) { x.get(); }",
        "fn f(x: &mut crate::Big) { x.far(); }",
    ] {
        assert_eq!(called_by(call), [""; 0], "{call}");
    }
}

#[test]
fn files_that_use_each_other_are_a_circle() {
    let ring = [
        ("lib.rs", "mod a; mod b; mod c; mod d; mod e; pub use a::A;"),
        ("a.rs", "pub struct A; use crate::b::{self, B};"),
        ("b.rs", "pub struct B; fn f(_: super::c::C) {}"),
        ("c.rs", "pub struct C; use crate::A;"),
        ("d.rs", "use crate::A;"),
        ("e/mod.rs", "mod f; pub struct E; use f::F;"),
        ("e/f.rs", "pub struct F; use super::E; use crate::A;"),
    ];
    let found = figures(&ring);
    assert_eq!((found.circles, found.circles_with_methods), (vec![3], vec![3]));
    assert_eq!(found.groups[0], [["a.rs", "b.rs", "c.rs"]]);
}

#[test]
fn methods_close_circles() {
    let found = figures(&[
        ("lib.rs", "mod a; mod b; struct Big;"),
        ("a.rs", "impl super::Big { fn a(&self) { self.b(); } }"),
        ("b.rs", "impl super::Big { fn b(&self) { self.a(); } }"),
    ]);
    assert_eq!((found.circles, found.circles_with_methods), (vec![], vec![2]));
    assert_eq!(found.most_methods, (2, "Big".to_owned()));
}

#[test]
fn lines_of_source_are_neither_blank_nor_comment_nor_test() {
    let found = figures(&[
        (
            "lib.rs",
            "//! Doc.\n\npub struct A {\n    /// x: y\n    pub b: u32,\n    c: u8, // why\n}\n/* a\nb */\nfn f() {\n    \
             let Some(x) = y else { return };\n    assert!(x);\n}\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n    fn t() {}\n}\n\
             impl A {\n    #[cfg(test)]\n    fn t() {}\n    pub fn g() {}\n}\n#[cfg(test)]\nmod other;\nmod kept;\n",
        ),
        ("other.rs", "fn t() {}\n"),
        ("kept.rs", "#![allow(x)]\npub(crate) struct Data { pub a: u8, pub(crate) b: u8, pub c: u8 }\n"),
        ("bin/program/main.rs", "mod own;\n"),
        ("bin/program/own.rs", "const X: u8 = 1;\n"),
    ]);
    assert_eq!((found.source, found.all_lines), (16, 21));
    assert_eq!((found.else_returns, found.assertions, found.public_items), (1, 1, 2));
    assert_eq!(found.longest_function, (4, "f".to_owned()));
    assert_eq!((found.widest, found.widest_closed), ((3, "Data".to_owned()), (2, "A".to_owned())));
}

#[test]
fn limits_only_fall() {
    let today = Limits::new(17_000, &[18, 2], &[50], 37, 500);
    for below in [
        Limits::new(16_999, &[18, 2], &[50], 37, 500),
        Limits::new(17_000, &[9, 2], &[50], 37, 500),
        Limits::new(17_000, &[18], &[], 37, 500),
        Limits::new(0, &[], &[], 0, 0),
    ] {
        assert!(today.hold(&below) && !below.hold(&today), "{below:?}");
    }
    for above in [
        Limits::new(17_001, &[], &[], 0, 0),
        Limits::new(0, &[19], &[], 0, 0),
        Limits::new(0, &[2, 2, 2], &[], 0, 0),
        Limits::new(0, &[], &[49, 2], 0, 0),
        Limits::new(0, &[], &[], 38, 0),
        Limits::new(0, &[], &[], 0, 501),
    ] {
        assert!(!today.hold(&above), "{above:?}");
    }
    assert_eq!(today.line("x"), "    (\"x\", 17_000, &[18, 2], &[50], 37, 500),");
}
