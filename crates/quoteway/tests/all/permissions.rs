//! Permissions as an administrator meets them: the worked example of the documentation, word for word.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A process that ends with the test, and what it says when it is ready.
struct Process(Child, String);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(folder: &Path, args: &[&str], on_error: bool, sign: &str) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quoteway"));
    command.args(args).current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let (out, err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let (told, other): (Box<dyn Read + Send>, Box<dyn Read + Send>) =
        if on_error { (Box::new(err), Box::new(out)) } else { (Box::new(out), Box::new(err)) };
    std::thread::spawn(move || BufReader::new(other).lines().for_each(drop));
    let mut lines = BufReader::new(told).lines();
    let line =
        lines.by_ref().map_while(Result::ok).find(|line| line.contains(sign)).expect("the sign that it is ready");
    std::thread::spawn(move || lines.for_each(drop));
    Process(child, line)
}

/// The blocks of the chapter with their languages.
fn blocks() -> Vec<(String, String)> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating/permissions.md");
    let text = std::fs::read_to_string(file).expect("the chapter");
    let mut found: Vec<(String, String)> = Vec::new();
    for (at, part) in text.split("```").enumerate().filter(|(at, _)| at % 2 == 1) {
        let (language, block) = part.split_once('\n').unwrap_or_else(|| panic!("block {at}"));
        found.push((language.to_owned(), block.to_owned()));
    }
    found
}

fn nth(blocks: &[(String, String)], language: &str, n: usize) -> String {
    blocks.iter().filter(|(of, _)| of == language).nth(n).expect("a block").1.clone()
}

/// Runs the commands of a block in which each begins with `$`, and compares what they say.
fn run_commands(folder: &Path, block: &str) {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_quoteway"));
    let path =
        format!("{}:{}", binary.parent().expect("a folder").display(), std::env::var("PATH").unwrap_or_default());
    for command in block.split("$ ").filter(|part| !part.trim().is_empty()) {
        let (line, expected) = command.split_once('\n').expect("a command and what it says");
        let output = Command::new("sh").args(["-c", line]).env("PATH", &path).current_dir(folder).output().expect("sh");
        // A denial is an answer as the other one is; scripts see it by the exit status.
        let (said, fault) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(fault.is_empty(), "{line}: {fault}");
        assert!(expected.trim().ends_with("denied") != output.status.success(), "{line}: {}", output.status);
        assert_eq!(said.trim(), expected.trim(), "{line}");
    }
}

#[test]
fn the_worked_example_ends_with_a_denied_item_in_the_audit() {
    let blocks = blocks();
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let write = |name: &str, text: String| std::fs::write(at.join(name), text).expect("written");
    write("rights.toml", nth(&blocks, "ini", 0));
    run_commands(at, &nth(&blocks, "text", 0));

    write("rights.toml", nth(&blocks, "ini", 1));
    write("site.toml", nth(&blocks, "toml", 0));
    let commands = nth(&blocks, "sh", 0);
    let words = |n: usize| -> Vec<String> {
        let line = commands.lines().nth(n).expect("a command").trim_end_matches(" &");
        line.split(' ').skip(1).map(str::to_owned).collect()
    };
    let refs = |words: &[String]| words.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    let source = refs(&words(0)).replace("14010", "0 --bind 127.0.0.1");
    let source = start(at, &source.split(' ').collect::<Vec<_>>(), true, "is published on");
    let address = source.1.split(" on ").nth(1).and_then(|text| text.split(';').next()).expect("an address");
    let serve =
        refs(&words(1)).replace("localhost:14010", address) + " --rssl-port 0 --nip-port 0 --interface 127.0.0.1";
    let server = start(at, &serve.split(' ').collect::<Vec<_>>(), false, "ready ");
    let port = server.1.split("rssl=127.0.0.1:").nth(1).and_then(|text| text.split(' ').next()).expect("a port");
    let client = refs(&words(2)) + " -h 127.0.0.1 -p " + port;
    let output = Command::new(env!("CARGO_BIN_EXE_quoteway"))
        .args(client.split(' '))
        .current_dir(at)
        .output()
        .expect("the client runs");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("Access Denied: User not permissioned for RATES"), "{said}");

    let mut expected: Value = serde_json::from_str(&nth(&blocks, "json", 0)).expect("JSON");
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let text = std::fs::read_to_string(at.join("audit.jsonl")).expect("an audit");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
        let of = |event: &str, item: &str| {
            lines.iter().find(|line| line["event"] == event && (item.is_empty() || line["item"] == item)).cloned()
        };
        if let (Some(denied), Some(_), Some(_), Some(_)) =
            (of("denied", "RDT0"), of("start_watch", "RDT1"), of("stop_watch", "RDT1"), of("logout", ""))
        {
            for own in ["time", "number", "connection", "position"] {
                assert!(!denied[own].is_null(), "{denied}");
                expected[own] = denied[own].clone();
            }
            assert_eq!(denied, expected);
            return;
        }
        assert!(Instant::now() < until, "the audit does not say all of it:\n{text}");
        std::thread::yield_now();
    }
}
