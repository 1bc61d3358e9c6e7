//! A server whose log nobody reads goes on serving.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Bytes that a pipe holds on Linux unless it is told otherwise.
const PIPE_BYTES: usize = 65_536;

struct Kill(Child);

impl Drop for Kill {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_reader_of_the_log_that_stops_does_not_stop_the_server() {
    let (mut reader, mut log) = std::io::pipe().expect("a pipe");
    // The pipe is full before the server's first line.
    log.write_all(&vec![b'.'; PIPE_BYTES]).expect("room");
    let mut child = Command::new(env!("CARGO_BIN_EXE_quoteway"))
        .args(["serve", "--rssl-port", "0", "--nip-port", "0"])
        .env("QUOTEWAY_LOG", "info")
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped"));
    let mut server = Kill(child);
    let mut ready = String::new();
    lines.read_line(&mut ready).expect("a line");
    let address = ready.split("rssl=").nth(1).and_then(|rest| rest.split(' ').next()).expect("an address");
    let port: u16 = address.rsplit(':').next().and_then(|port| port.trim().parse().ok()).expect("a port");
    // Each of them is refused, with a line in the log.
    for _ in 0..300 {
        let mut client = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        client.set_read_timeout(Some(Duration::from_mins(1))).expect("set");
        client.write_all(b"GET / HTTP/1.0\r\n\r\n and more that is no session").expect("sent");
        let mut answer = Vec::new();
        match client.read_to_end(&mut answer) {
            Ok(_) => {}
            // Closed with bytes unread.
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "the server is silent"),
        }
    }
    // A reader that goes on gets what waited.
    let drain = std::thread::spawn(move || {
        let mut text = Vec::new();
        reader.read_to_end(&mut text).map(|_| text)
    });
    let stop = Command::new("kill").args(["-TERM", &server.0.id().to_string()]).status().expect("kill runs");
    assert!(stop.success());
    assert!(server.0.wait().expect("it ends").success());
    let text = drain.join().expect("no panic").expect("read");
    let text = String::from_utf8_lossy(&text[PIPE_BYTES..]).into_owned();
    assert!(text.contains(" refused: "), "{text}");
    // 300 at once are more of a kind than are written in a second, or took longer.
    let written = text.lines().filter(|line| line.contains(" refused: ")).count();
    assert!(written <= 300, "{text}");
}
