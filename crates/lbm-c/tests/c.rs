//! C programs, compiled against the header and linked with the library, run as processes of their own.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use lbm_io::options::Options;
use lbm_store::store::StoreConfig;
use lbm_store_io::{ServerConfig, StoreServer};
use measure::observer::analysis::analyse;
use measure::observer::{read_received, read_sent};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of the libraries that were built with this test.
fn libraries() -> PathBuf {
    let deps = std::env::current_exe().expect("this program").parent().expect("a folder").to_owned();
    let found = [deps.clone(), deps.parent().expect("a folder").to_owned()];
    let has_library = |folder: &&PathBuf| folder.join("libquoteway_lbm.so").exists();
    found.iter().find(has_library).unwrap_or_else(|| panic!("libquoteway_lbm.so is not in {}", deps.display())).clone()
}

/// Compiles a C file; `shared`: with the shared library, else with the static one.
fn compile(file: &Path, folder: &Path, shared: bool) -> PathBuf {
    let program = folder.join(file.file_stem().expect("a name"));
    let libraries = libraries();
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wstrict-prototypes", "-Werror", "-O1", "-I"]);
    cc.arg(here().join("include"));
    cc.arg("-o").arg(&program).arg(file);
    if shared {
        cc.arg("-L")
            .arg(&libraries)
            .args(["-lquoteway_lbm", "-lpthread"])
            .arg(format!("-Wl,-rpath,{}", libraries.display()));
    } else {
        cc.arg(libraries.join("libquoteway_lbm.a")).args(["-lpthread", "-ldl", "-lm"]);
    }
    let output = cc.output().expect("there is a C compiler (Debian: gcc)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Options by which a test has groups and ports of its own.
fn options(folder: &Path, number: u32) -> PathBuf {
    let n = std::process::id() * 8 + number;
    let (group, port) = (format!("239.67.{}.{}", n >> 8 & 255, n & 255), 20_000 + n % 20_000);
    let lines = format!(
        "context default_interface 127.0.0.1\ncontext resolver_multicast_address {group}\n\
         context resolver_multicast_port {port}\nsource transport_lbtrm_multicast_address {group}\n\
         source transport_lbtrm_destination_port {}\ncontext transport_lbtrm_source_port_low 0\n\
         context transport_lbtrm_source_port_high 0\ncontext transport_tcp_port_low 0\n\
         context transport_tcp_port_high 0\ncontext request_tcp_port_low 0\ncontext request_tcp_port_high 0\n",
        port + 1
    );
    let file = folder.join("lbm.cfg");
    std::fs::write(&file, lines).expect("written");
    file
}

fn start(program: &Path, args: &[&str]) -> Child {
    Command::new(program).args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_publisher_and_a_subscriber_in_c_lose_nothing() {
    for (number, shared) in [(0, true), (1, false)] {
        let folder = tempfile::tempdir().expect("a folder");
        let examples = here().join("examples");
        let publisher = compile(&examples.join("publisher.c"), folder.path(), shared);
        let subscriber = compile(&examples.join("subscriber.c"), folder.path(), shared);
        let options = options(folder.path(), number);
        let options = options.to_str().expect("a path");
        let subscriber = start(&subscriber, &["c.example", options]);
        let publisher = start(&publisher, &["c.example", "20000", options]);
        let publisher = publisher.wait_with_output().expect("it ends");
        let subscriber = subscriber.wait_with_output().expect("it ends");
        let (p, s) = (said(&publisher), said(&subscriber));
        assert!(publisher.status.success() && subscriber.status.success(), "{p}\n{s}");
        assert!(p.contains("answer: 20000 messages, 0 lost") && s.contains("20000 messages, 0 lost"), "{p}\n{s}");
        assert!(s.contains("begin: c.example from LBTRM:127.0.0.1:"), "{s}");
    }
}

/// What both ends of the example write down is what the lab reads: every message, once, in order, with its latency.
#[test]
fn two_ends_observe_every_message() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&here().join("examples/latency.c"), folder.path(), true);
    let options = options(folder.path(), 4);
    let file = |name: &str| folder.path().join(name);
    let run = |end: &str| {
        let (path, options) = (file(end), options.to_str().expect("a path"));
        start(&program, &[end, "c.latency", path.to_str().expect("a path"), "2000", "1", options])
    };
    let ends = [run("receive"), run("send")].map(|end| end.wait_with_output().expect("it ends"));
    assert!(ends.iter().all(|end| end.status.success()), "{}", ends.iter().map(said).collect::<String>());
    let (sender, sent) = read_sent(&file("send")).expect("a sender's file");
    let (receiver, received) = read_received(&file("receive")).expect("a receiver's file");
    assert_eq!((sender.missed, receiver.missed, sender.every), (0, 0, 1));
    assert!(sent.iter().map(|sent| sent.id).eq(0..2000), "each one, in order");
    assert!(sent.iter().all(|sent| sent.at >= sent.intended));
    assert!(received.iter().map(|received| received.id).eq(0..2000), "{} came", received.len());
    assert!(sent.iter().zip(&received).all(|(sent, received)| received.at > sent.at));
    let analysis = analyse(&sent, &[received], 1);
    assert_eq!((analysis.sent, analysis.lost, analysis.out_of_order), (2000, 0, 0));
}

#[test]
fn wrong_arguments_are_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&here().join("tests/c/arguments.c"), folder.path(), true);
    let options = options(folder.path(), 2);
    let output = Command::new(program).arg(options).output().expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn hot_failover_delivers_each_number_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&here().join("tests/c/failover.c"), folder.path(), true);
    let options = options(folder.path(), 5);
    let output = Command::new(program).arg(options).output().expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn receivers_share_what_a_source_with_application_sets_sends() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&here().join("tests/c/queue.c"), folder.path(), true);
    let output = Command::new(program).arg(options(folder.path(), 7)).output().expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
}

/// A store in this process, for a program that has a source and a receiver of it.
#[test]
fn stores_keep_messages_for_a_receiver_that_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&here().join("tests/c/persistence.c"), folder.path(), true);
    let file = options(folder.path(), 6);
    let mut lines = Options::new();
    lines.parse("lbm.cfg", &std::fs::read_to_string(&file).expect("written")).expect("options");
    let config = ServerConfig {
        address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0),
        allow: Vec::new(),
        folder: None,
        log_bytes_min: 0,
        store: StoreConfig::default(),
    };
    let mut server = StoreServer::new(&config, &lines).expect("a store");
    let mut program = start(&program, &[file.to_str().expect("a path"), &server.address().to_string()]);
    while program.try_wait().expect("it runs").is_none() {
        server.poll(Some(Duration::from_millis(20))).expect("a turn");
    }
    let output = program.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", said(&output));
}

/// Contexts that relay to each other from their callbacks do not wait for each other, and the header's table holds.
#[test]
fn callbacks_neither_nest_nor_wait_for_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(&here().join("tests/c/callbacks.c"), folder.path(), true);
    let options = options(folder.path(), 3);
    let output = Command::new(program).arg(options).output().expect("it runs");
    assert!(output.status.success(), "{:?}: {}", output.status, said(&output));
}

/// Also as C++, in the oldest and in newer dialects; C only from C99 on, for its integers of fixed size.
#[test]
fn the_header_compiles_alone_in_every_dialect() {
    let folder = tempfile::tempdir().expect("a folder");
    let uses = "#include <quoteway_lbm.h>\nint main(void) { return qw_lbm_version() == 0; }\n";
    for (compiler, suffix, dialects) in
        [("cc", "c", &["c99", "c11", "c17"][..]), ("c++", "cc", &["c++98", "c++11", "c++17", "c++20"])]
    {
        let file = folder.path().join("header").with_extension(suffix);
        std::fs::write(&file, uses).expect("written");
        for dialect in dialects {
            let mut command = Command::new(compiler);
            command.arg(format!("-std={dialect}")).args([
                "-Wall",
                "-Wextra",
                "-Wpedantic",
                "-Werror",
                "-fsyntax-only",
                "-I",
            ]);
            let output = match command.arg(here().join("include")).arg(&file).output() {
                Ok(output) => output,
                Err(error) => {
                    println!("not run with {dialect}: {compiler}: {error}");
                    continue;
                }
            };
            assert!(output.status.success(), "{dialect}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

/// `make install-c` puts everything where compilers and pkg-config look.
#[test]
fn an_installed_library_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new("make")
        .args(["-C", "../..", "--old-file=build-c", "install-c", "PREFIX=/opt/qw"])
        .arg(format!("DESTDIR={}", folder.path().display()))
        .arg(format!("LIBRARIES={}", libraries().display()))
        .env_remove("MAKEFLAGS")
        .current_dir(here())
        .output()
        .expect("make runs");
    assert!(output.status.success(), "{}", said(&output));
    let at = folder.path().join("opt/qw");
    let program = folder.path().join("subscriber");
    let output = Command::new("cc")
        .arg("-I")
        .arg(at.join("include"))
        .arg(here().join("examples/subscriber.c"))
        .arg("-L")
        .arg(at.join("lib"))
        .args(["-lquoteway_lbm", "-o"])
        .arg(&program)
        .output()
        .expect("there is a C compiler (Debian: gcc)");
    assert!(output.status.success(), "{}", said(&output));
    let output = Command::new(&program).env("LD_LIBRARY_PATH", at.join("lib")).output().expect("it runs");
    assert!(said(&output).starts_with("usage: "), "{}", said(&output));
    assert!(at.join("lib/libquoteway_lbm.a").exists());
    let pc = std::fs::read_to_string(at.join("lib/pkgconfig/quoteway-lbm.pc")).expect("for pkg-config");
    assert!(pc.contains("prefix=/opt/qw\n") && pc.contains("Version: ") && !pc.contains('@'), "{pc}");
}

#[test]
fn header_and_library_name_the_same_functions() {
    let header = std::fs::read_to_string(here().join("include/quoteway_lbm.h")).expect("the header");
    let mut declared: Vec<String> = Vec::new();
    for word in header.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '(')) {
        if let Some((name, _)) = word.split_once('(')
            && name.starts_with("qw_lbm_")
        {
            declared.push(name.to_owned());
        }
    }
    let mut defined: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(here().join("src")).expect("sources").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("a source");
        for line in text.lines() {
            let name = line.trim().strip_suffix([',', '(']).unwrap_or(line.trim());
            let name = name.split_once("extern \"C\" fn ").map_or(name, |(_, rest)| rest);
            let name = name.split('(').next().unwrap_or_default();
            let is_one = line.contains("extern \"C\" fn qw_lbm_")
                || (line.starts_with("    qw_lbm_") && name.contains("_attr_"));
            if is_one {
                defined.push(name.to_owned());
            }
        }
    }
    for list in [&mut declared, &mut defined] {
        list.sort();
        list.dedup();
    }
    assert_eq!(declared, defined);
    assert!(declared.len() > 30);
}
