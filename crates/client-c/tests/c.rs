//! C and C++ programs, compiled against the headers and linked with the library, run as processes of their own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of the libraries that were built with this test.
fn libraries() -> PathBuf {
    let deps = std::env::current_exe().expect("this program").parent().expect("a folder").to_owned();
    let found = [deps.clone(), deps.parent().expect("a folder").to_owned()];
    let has_library = |folder: &&PathBuf| folder.join("libquoteway_client.so").exists();
    found.iter().find(has_library).unwrap_or_else(|| panic!("no library is in {}", deps.display())).clone()
}

fn compile(compiler: &str, standard: &str, file: &str, folder: &Path) -> PathBuf {
    let program = folder.join("program");
    let libraries = libraries();
    let mut cc = Command::new(compiler);
    cc.args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-g", "-I"]).arg(here().join("include"));
    cc.arg("-o").arg(&program).arg(here().join("tests/c").join(file)).arg("-L").arg(&libraries);
    cc.args(["-lquoteway_client", "-lpthread"]).arg(format!("-Wl,-rpath,{}", libraries.display()));
    let output = cc.output().expect("there is a compiler (Debian: gcc, g++)");
    assert!(output.status.success(), "{}", text(&output));
    program
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_program_in_c_publishes_watches_and_is_told_of_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("cc", "-std=c99", "roundtrip.c", folder.path());
    let output = Command::new(&program).output().expect("it runs");
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "all as it should be\n");
}

#[test]
fn a_program_in_c_plus_plus_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("c++", "-std=c++17", "roundtrip.cpp", folder.path());
    let output = Command::new(&program).output().expect("it runs");
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "all as it should be\n");
}

/// Where valgrind is there: nothing is read that must not be, and nothing is left behind.
#[test]
fn nothing_is_left_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("cc", "-std=c99", "roundtrip.c", folder.path());
    let checks = ["--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite", "-q"];
    let known = format!("--suppressions={}", here().join("tests/c/valgrind.supp").display());
    let Ok(output) = Command::new("valgrind").args(checks).arg(known).arg(&program).output() else {
        println!("skipped: there is no valgrind");
        return;
    };
    assert!(output.status.success(), "{}", text(&output));
}

/// The functions that a text of C names, in order, each once.
fn functions(text: &str, sign: impl Fn(&str, usize) -> bool) -> Vec<String> {
    let mut found: Vec<String> = text
        .match_indices("qw_")
        .filter_map(|(at, _)| {
            let name: String = text[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            sign(text, at + name.len()).then_some(name)
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

#[test]
fn header_and_library_name_the_same_functions() {
    let header = std::fs::read_to_string(here().join("include/quoteway.h")).expect("the header");
    // Declarations stand at the beginning of a line, behind their type.
    let lines: String = header
        .lines()
        .filter(|line| line.starts_with("int qw_") || line.starts_with("const char *qw_"))
        .fold(String::new(), |all, line| all + line + "\n");
    let declared = functions(&lines, |text, end| text[end..].starts_with('('));
    let mut sources = String::new();
    for file in ["error", "publisher", "session", "subscription"] {
        sources += &std::fs::read_to_string(here().join(format!("src/{file}.rs"))).expect("a source");
    }
    let lines: String = sources
        .lines()
        .filter(|line| line.contains("extern \"C\" fn qw_"))
        .fold(String::new(), |all, line| all + line + "\n");
    let defined = functions(&lines, |text, end| text[end..].starts_with('('));
    assert!(declared.len() > 20 && declared == defined, "{declared:?}\n{defined:?}");
}
