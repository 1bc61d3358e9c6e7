//! What cannot be written fails: a tool that says it has recorded has recorded.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};

struct Kill(Child);

impl Drop for Kill {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A source for clients, and its port.
fn source() -> (Kill, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_quoteway"))
        .args(["demo", "--no-ui", "--rssl-port", "0", "--nip-port", "0", "IBM.N"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    out.read_line(&mut line).expect("a line");
    let server = Kill(child);
    let port = line.split(" on ").nth(1).and_then(|rest| rest.split(',').next()?.rsplit(':').next());
    let port = port.unwrap_or_else(|| panic!("no port in {line:?}")).to_owned();
    // Its output has to be read until it ends.
    std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
    (server, port)
}

fn client(port: &str, args: &[&str], out: Stdio) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quoteway"))
        .args(["test-client", "--port", port, "--service", "DIRECT_FEED", "--items", "IBM.N", "--seconds", "1"])
        .args(args)
        .stdout(out)
        .stderr(Stdio::piped())
        .spawn()
        .and_then(Child::wait_with_output)
        .expect("it runs")
}

#[test]
fn a_full_disk_fails_the_run_of_a_client() {
    let (_server, port) = source();
    let good = client(&port, &[], Stdio::null());
    assert!(good.status.success(), "{}", String::from_utf8_lossy(&good.stderr));
    let full = |args: &[&str], out: Stdio, what: &str| {
        let output = client(&port, args, out);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(what) && text.contains("No space left"), "{args:?}: {text}");
    };
    full(&["--record", "/dev/full"], Stdio::null(), "the recording cannot be written");
    full(&["--latency-file", "/dev/full"], Stdio::null(), "latency file");
    full(&["--observe", "/dev/full"], Stdio::null(), "observations /dev/full");
    let stdout = File::options().write(true).open("/dev/full").expect("a device");
    full(&[], stdout.into(), "standard output");
}

#[test]
fn observations_without_a_place_fail_before_the_run() {
    for tool in [
        &["test-client", "--port", "1", "--service", "X", "--items", "A"][..],
        &["lbmpub", "--rate", "10", "--seconds", "600"],
        &["lbmsub", "--seconds", "600"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_quoteway"))
            .args(tool)
            .args(["--observe", "/nowhere/at/all"])
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains("/nowhere/at/all"), "{tool:?}: {text}");
    }
}

/// What `dump` and `lbmdump` show has to get where it should, too; only a reader that goes away is no failure.
#[test]
fn a_full_disk_fails_the_tools_that_show_bytes() {
    let run = |args: &[&str], out: Stdio| {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_quoteway"))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(out)
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut capture = vec![0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0];
        capture.extend_from_slice(&[0; 12]);
        capture.extend_from_slice(&[1, 0, 0, 0]);
        let input: &[u8] = if args[0] == "lbmdump" { &capture } else { b"00 01 02 03 04 05 06 07" };
        std::io::Write::write_all(&mut tool.stdin.take().expect("piped"), input).expect("it reads");
        tool.wait_with_output().expect("it ends")
    };
    for args in [&["dump", "--content", "message", "-"][..], &["lbmdump", "-"]] {
        let good = run(args, Stdio::null());
        assert!(good.status.success(), "{args:?}: {}", String::from_utf8_lossy(&good.stderr));
        let device = File::options().write(true).open("/dev/full").expect("a device");
        let full = run(args, device.into());
        let text = String::from_utf8_lossy(&full.stderr);
        assert!(!full.status.success() && text.contains("standard output"), "{args:?}: {text}");
    }
}
