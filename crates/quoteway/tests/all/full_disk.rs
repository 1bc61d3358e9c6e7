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

/// Whoever can write where a tool writes could have it overwrite any file that its user may write: no tool follows a link that lies there.
#[test]
fn tools_write_through_no_link() {
    let folder = tempfile::tempdir().expect("a folder");
    let (target, link) = (folder.path().join("target"), folder.path().join("link"));
    std::fs::write(&target, "as it was").expect("written");
    std::os::unix::fs::symlink(&target, &link).expect("a link");
    let cnf = folder.path().join("rmds.cnf");
    std::fs::write(&cnf, "*p2ps*rsslServerPort : 14002\n").expect("written");
    let (_server, port) = source();
    let client = ["test-client", "--port", &port, "--service", "DIRECT_FEED", "--items", "IBM.N", "--seconds", "1"];
    let cnf = cnf.to_str().expect("UTF-8");
    let cases: [(&[&str], &[&str]); 7] = [
        (&client, &["--record"]),
        (&client, &["--latency-file"]),
        (&client, &["--observe"]),
        (&["lbmpub", "--rate", "10", "--seconds", "1"], &["--observe"]),
        (&["lbmsub", "--seconds", "1"], &["--observe"]),
        (&["config", "import", cnf, "--lenient", "--force"], &["-o"]),
        (&["config", "import", cnf, "--lenient"], &["-o"]),
    ];
    for (tool, option) in cases {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quoteway"));
        let output = command.args(tool).args(option).arg(&link).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr);
        let refused = text.contains("symbolic link") || text.contains("is there already");
        assert!(!output.status.success() && refused, "{tool:?} {option:?}: {text}");
        assert_eq!(std::fs::read(&target).expect("readable"), b"as it was", "{tool:?} {option:?}");
    }
    // Manual pages, whose names are known before.
    let page = folder.path().join("quoteway.1");
    std::os::unix::fs::symlink(&target, &page).expect("a link");
    let mut command = Command::new(env!("CARGO_BIN_EXE_quoteway"));
    let output = command.arg("man").arg(folder.path()).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("symbolic link"), "{text}");
    assert_eq!(std::fs::read(&target).expect("readable"), b"as it was");
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
