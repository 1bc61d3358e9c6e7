//! Programs whose reader goes away (`| head`): they end in order, and quietly.

use std::io::pipe;
use std::process::{Command, Output, Stdio};

use crate::chain::{serve, source};
use crate::recording::{end, until_recorded};

/// A pipe that nobody reads.
fn unread() -> Stdio {
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

/// Runs a command with standard output, or standard error, that nobody reads.
fn run(args: &[&str], is_error: bool) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quoteway"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if is_error {
        command.stderr(unread())
    } else {
        command.stdout(unread())
    };
    command.spawn().and_then(std::process::Child::wait_with_output).expect("it runs")
}

#[test]
fn nothing_breaks_with_its_reader() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_source, at) = source(&["-U", "200"]);
    let (_server, port) = serve(&["--route", &at]);
    let path = folder.path().to_str().expect("UTF-8");
    let to = format!("127.0.0.1:{port}");
    let recorder = crate::recording::record(port, folder.path(), &["--item-list", "RDT{0..4}"]);
    until_recorded(folder.path(), 50);
    end(&recorder, folder.path());
    let (port, at) = (port.to_string(), at.as_str());
    for args in [
        &["--help"][..],
        &["replay", "--help"],
        &["no-such-command"],
        &["config"],
        &["config", "check", "/nowhere.toml"],
        &["completions", "bash"],
        &["record", "info", path],
        &["record", "info", path, "--json"],
        &["record", "info", "/nowhere"],
        &["record", "export", path],
        &["record", "export", path, "--as", "csv"],
        &["record", "compact", path],
        &[
            "record",
            path,
            "--server",
            &to,
            "--service",
            "DIRECT_FEED",
            "--item-list",
            "RDT{0..4}",
            "--interval",
            "1",
            "--seconds",
            "3",
        ],
        &["test-client", "-h", "127.0.0.1", "-p", &port, "-il", "RDT0", "--seconds", "2"],
        &["ctl", "--at", "127.0.0.1:1", "services"],
        &["lock", "show", "no"],
        &["dump", "/nowhere"],
        &["feed", "/nowhere"],
        &["sink-driven-src", "--port", "0", "--bind", "127.0.0.1", "--seconds", "2", "--interval", "1"],
        &["lbmpub", "--help"],
        &["tune"],
        &["scenario", "--help"],
        &["serve", "--route", at, "--config", "/nowhere.toml"],
    ] {
        for is_error in [false, true] {
            let output = run(args, is_error);
            let said = String::from_utf8_lossy(&output.stderr);
            let status = output.status.code();
            assert!(
                status.is_some_and(|status| status != 101) && !said.contains("panicked"),
                "{args:?}: {status:?}: {said}"
            );
        }
    }
}

#[test]
fn a_replay_whose_lines_nobody_reads_ends_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_source, at) = source(&["-U", "200"]);
    let (_server, port) = serve(&["--route", &at]);
    let recorder = crate::recording::record(port, folder.path(), &["--item-list", "RDT{0..4}"]);
    until_recorded(folder.path(), 50);
    end(&recorder, folder.path());
    let path = folder.path().to_str().expect("UTF-8");
    let args = ["replay", path, "--port", "0", "--interval", "1"];
    let status = Command::new(env!("CARGO_BIN_EXE_quoteway")).args(args).stdin(Stdio::null()).stderr(unread()).status();
    assert_eq!(status.expect("it ends by itself").code(), Some(0));
}
