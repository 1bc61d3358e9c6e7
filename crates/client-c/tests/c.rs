//! C and C++ programs, compiled against the headers and linked with the library, run as processes of their own.

use client::publication::{Event, PublicationConfig};
use client_io::Publisher;
use rwf::msg::Domain;
use rwf::wire::Writer;
use rwf::{DataType, MapAction, MapEncoder, MapHead, Primitive};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

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
    compile_with(compiler, &[standard], &here().join("tests/c").join(file), folder)
}

fn compile_with(compiler: &str, more: &[&str], file: &Path, folder: &Path) -> PathBuf {
    let program = folder.join("program");
    let libraries = libraries();
    let mut cc = Command::new(compiler);
    cc.args(more).args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-g", "-I"]).arg(here().join("include"));
    cc.arg("-o").arg(&program).arg(file).arg("-L").arg(&libraries);
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
    round_trip(&program, folder.path(), &[]);
}

/// Runs a program of round trips as `around` says, with the files of a certificate and its key.
fn round_trip(program: &Path, folder: &Path, around: &[&str]) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let mut command = around_program(around, program);
    // Ciphers in assembly look to valgrind as if they read what nobody has written; the sanitizers see the same calls.
    if around.is_empty() {
        command.arg(certificate).arg(key);
    }
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "all as it should be\n");
}

fn around_program(around: &[&str], program: &Path) -> Command {
    match around {
        [] => Command::new(program),
        [checker, arguments @ ..] => {
            let mut command = Command::new(checker);
            command.args(arguments).arg(program);
            command
        }
    }
}

#[test]
fn a_program_in_c_plus_plus_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("c++", "-std=c++17", "roundtrip.cpp", folder.path());
    let output = Command::new(&program).output().expect("it runs");
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "all as it should be\n");
}

/// Publishers whose items change all the time, until they are dropped.
struct Feed {
    publishers: Vec<Arc<Publisher>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

const FEED: &str = "FEED";

impl Feed {
    fn new() -> Self {
        let start = || {
            let domains = vec![Domain::MARKET_PRICE, Domain::MARKET_BY_ORDER, Domain::SYMBOL_LIST];
            let config = PublicationConfig { domains, takes_posts: true, ..PublicationConfig::new(FEED) };
            let publisher = Publisher::listen(config, ([127, 0, 0, 1], 0).into()).expect("a port");
            publisher.publish_image(Domain::MARKET_BY_ORDER, "A", DataType::MAP, &orders()).expect("a map");
            publisher.publish_image(Domain::SYMBOL_LIST, "LIST", DataType::MAP, &list()).expect("a map");
            Arc::new(publisher)
        };
        let publishers = vec![start(), start()];
        let is_over = Arc::new(AtomicBool::new(false));
        let (of_thread, ends) = (publishers.clone(), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            let mut bid = 0.0;
            while !ends.load(Ordering::Relaxed) {
                bid += 0.25;
                let values = [("BID", Primitive::Double(bid)), ("ASK", Primitive::Double(bid + 1.0))];
                for (publisher, name) in of_thread.iter().flat_map(|publisher| [(publisher, "A"), (publisher, "B")]) {
                    publisher.publish(name, &values).expect("fields");
                }
                // The pace of the feed is that of the wait for what consumers say.
                for publisher in &of_thread {
                    if let Some(Event::Generic { by, container, body, .. }) =
                        publisher.next_event(Duration::from_millis(1))
                    {
                        publisher.send_generic(by, container, &body).expect("it goes on");
                    }
                }
            }
        });
        Self { publishers, is_over, thread: Some(thread) }
    }

    fn servers(&self, between: &str) -> String {
        let addresses = self.publishers.iter().map(|publisher| publisher.address().expect("it listens").to_string());
        addresses.collect::<Vec<_>>().join(between)
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok() || std::thread::panicking(), "the feed has panicked");
        }
    }
}

/// An order book without data of its orders.
fn orders() -> Vec<u8> {
    let mut buf = [0; 64];
    let mut w = Writer::new(&mut buf);
    let mut map = MapEncoder::begin(&mut w, MapHead::new(DataType::UINT, DataType::NO_DATA)).expect("room");
    map.entry(MapAction::ADD, &Primitive::UInt(7), |_| Ok(())).expect("room");
    map.finish().expect("room");
    w.written().to_vec()
}

/// A symbol list of both items.
fn list() -> Vec<u8> {
    let mut buf = [0; 64];
    let mut w = Writer::new(&mut buf);
    let mut map = MapEncoder::begin(&mut w, MapHead::new(DataType::ASCII_STRING, DataType::NO_DATA)).expect("room");
    for name in ["A", "B"] {
        map.entry(MapAction::ADD, &Primitive::Ascii(name.as_bytes()), |_| Ok(())).expect("room");
    }
    map.finish().expect("room");
    w.written().to_vec()
}

/// Runs examples of the training series, all where none are named, as `around` says.
fn run_training(program: &Path, around: &[&str], only: &[&str]) {
    let feed = Feed::new();
    let list = Command::new(program).arg("list").output().expect("it runs");
    let numbers = text(&list);
    assert!(numbers.lines().count() > 15, "{numbers}");
    for number in numbers.lines().filter(|number| only.is_empty() || only.contains(number)) {
        let servers = match number {
            "470" | "510" => feed.servers("|"),
            "500" => feed.servers(","),
            _ => feed.servers("\n").lines().next().expect("one").to_owned(),
        };
        let items: &[&str] = match number {
            "140" | "210" => &["A"],
            "270" => &["LIST"],
            _ => &["A", "B"],
        };
        let output =
            around_program(around, program).args([number, &servers, FEED]).args(items).output().expect("it runs");
        assert!(output.status.success(), "{number}: {}", text(&output));
        assert!(!output.stdout.is_empty(), "{number} prints nothing");
    }
}

fn training(folder: &Path, more: &[&str]) -> PathBuf {
    compile_with("cc", &[&["-std=c99"], more].concat(), &here().join("examples/training.c"), folder)
}

#[test]
fn the_training_examples_run() {
    let folder = tempfile::tempdir().expect("a folder");
    run_training(&training(folder.path(), &[]), &[], &[]);
}

/// The sanitizer sees what the programs do with memory that the library gives and takes, and what neither gives back.
#[test]
fn all_programs_run_under_the_address_sanitizer() {
    let folder = tempfile::tempdir().expect("a folder");
    let probe = folder.path().join("probe.c");
    std::fs::write(&probe, "int main(void) { return 0; }\n").expect("written");
    let mut cc = Command::new("cc");
    cc.args(["-fsanitize=address,undefined", "-o"]).arg(folder.path().join("probe")).arg(&probe);
    if !cc.output().is_ok_and(|output| output.status.success()) {
        println!("skipped: the compiler has no sanitizers");
        return;
    }
    let sanitized = ["-std=c99", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    run_training(&training(folder.path(), &sanitized[1..]), &[], &[]);
    let program = compile_with("cc", &sanitized, &here().join("tests/c/roundtrip.c"), folder.path());
    round_trip(&program, folder.path(), &[]);
}

/// Where valgrind is there: nothing is read that must not be, and nothing is left behind.
#[test]
fn nothing_is_left_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("cc", "-std=c99", "roundtrip.c", folder.path());
    let checks = ["--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite", "-q"];
    let known = format!("--suppressions={}", here().join("tests/c/valgrind.supp").display());
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: there is no valgrind");
        return;
    }
    let arguments: Vec<&str> = ["valgrind"].into_iter().chain(checks).chain([known.as_str()]).collect();
    round_trip(&program, folder.path(), &arguments);
    let folder = tempfile::tempdir().expect("a folder");
    // Examples that take different ways through the library; a checked program is slow.
    run_training(
        &training(folder.path(), &[]),
        &arguments,
        &["102", "180", "270", "300", "301", "320", "340", "360", "470"],
    );
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
    for file in ["error", "posts", "publisher", "session", "subscription"] {
        sources += &std::fs::read_to_string(here().join(format!("src/{file}.rs"))).expect("a source");
    }
    let lines: String = sources
        .lines()
        .filter(|line| line.contains("extern \"C\" fn qw_"))
        .fold(String::new(), |all, line| all + line + "\n");
    let defined = functions(&lines, |text, end| text[end..].starts_with('('));
    assert!(declared.len() > 20 && declared == defined, "{declared:?}\n{defined:?}");
}
