//! Peers that are not taken at a port are named in the log, with address and reason: at every port of every process, whether a peer says what is no
//! message, says nothing, or comes when there is no place.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_mins(1);

/// A process, and all that it prints.
struct Process {
    child: Child,
    printed: Arc<(Mutex<Vec<String>>, Condvar)>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_quoteway"))
            .args(args)
            .env("QUOTEWAY_LOG", "info")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let printed = Arc::<(Mutex<Vec<String>>, Condvar)>::default();
        let streams: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().expect("piped")), Box::new(child.stderr.take().expect("piped"))];
        for stream in streams {
            let printed = Arc::clone(&printed);
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    printed.0.lock().expect("no panic").push(line);
                    printed.1.notify_all();
                }
            });
        }
        Self { child, printed }
    }

    /// The first line with all of these words.
    fn line(&self, words: &[&str]) -> String {
        let begun = Instant::now();
        let mut lines = self.printed.0.lock().expect("no panic");
        loop {
            if let Some(line) = lines.iter().find(|line| words.iter().all(|word| line.contains(word))) {
                return line.clone();
            }
            let left = PATIENCE.checked_sub(begun.elapsed());
            let left = left.unwrap_or_else(|| panic!("no line with {words:?}: {lines:#?}"));
            lines = self.printed.1.wait_timeout(lines, left).expect("no panic").0;
        }
    }

    /// The address behind a word of the line that says that it is ready.
    fn at(&self, word: &str) -> SocketAddr {
        let line = self.line(&[word]);
        let rest = line.split(word).nth(1).expect("it is there").trim_start_matches("http://");
        let end = rest.find([' ', '/']).unwrap_or(rest.len());
        rest[..end].parse().unwrap_or_else(|e| panic!("{e}: {line}"))
    }

    /// A peer that says what is no message is named with the reason, and so is one that says nothing.
    fn names_junk_and_silence(&self, port: SocketAddr, junk: &[u8], [of_junk, of_silence]: [&str; 2]) {
        let (mut noisy, silent) = (connect(port), connect(port));
        noisy.write_all(junk).expect("sent");
        for (peer, why) in [(&noisy, of_junk), (&silent, of_silence)] {
            self.line(&[&peer.local_addr().expect("an address").to_string(), why]);
        }
    }

    /// A peer that comes when all places are taken is named with the reason.
    fn names_who_is_one_too_many(&self, port: SocketAddr) {
        let (_first, answer) = upgrade(port);
        assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
        let (second, _) = upgrade(port);
        self.line(&[&second.local_addr().expect("an address").to_string(), "mounts"]);
    }
}

fn connect(port: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(port).unwrap_or_else(|e| panic!("{port}: {e}"));
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream
}

/// A WebSocket session, or what is answered instead.
fn upgrade(port: SocketAddr) -> (TcpStream, String) {
    let mut stream = connect(port);
    let request = "GET /WebSocket HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: tr_json2\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = [0; 12];
    // A refused connection may be reset.
    let read = stream.read(&mut answer).unwrap_or(0);
    (stream, String::from_utf8_lossy(&answer[..read]).into_owned())
}

fn configured(text: &str, args: &[&str]) -> (tempfile::TempDir, Process) {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("q.toml");
    std::fs::write(&file, text).expect("written");
    let process = Process::start(&[args, &["--config", file.to_str().expect("UTF-8")]].concat());
    (dir, process)
}

const JUNK: &[u8] = b"\x00\x05\xff\xff\xff and what else is no beginning of anything\r\n\r\n";

#[test]
fn a_server_names_those_that_it_does_not_take() {
    let text = "[p2ps]\nhandshake_timeout_s = 1\nmax_mounts = 1\n[source_distributor]\nnip_max_mounts = 1\n\
        [http]\nrequest_timeout_s = 1\n";
    let ports = ["--interface", "127.0.0.1", "--rssl-port", "0", "--nip-port", "0", "--http-port", "0"];
    let (_dir, server) = configured(text, &[&["serve"][..], &ports].concat());
    for port in ["rssl=", "nip="] {
        let port = server.at(port);
        server.names_junk_and_silence(port, JUNK, [" refused: ", "handshake timeout"]);
        server.names_junk_and_silence(
            port,
            b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
            ["answered with", "handshake timeout"],
        );
        server.names_who_is_one_too_many(port);
    }
    // Refusals without a line of their own are summed up in one.
    for _ in 0..30 {
        connect(server.at("rssl=")).write_all(JUNK).expect("sent");
    }
    server.line(&["other connections refused, of one address"]);
    let web = server.at("http=");
    server.names_junk_and_silence(web, JUNK, ["HTTP", "request_timeout_s"]);
    let crowd: Vec<_> = (0..70).map(|_| connect(web)).collect();
    let first = crowd[0].local_addr().expect("an address").to_string();
    server.line(&[&format!("connection of HTTP from {first} is closed"), "others wait"]);
}

#[test]
fn the_api_takes_no_body_without_end() {
    let ports = ["--interface", "127.0.0.1", "--rssl-port", "0", "--nip-port", "0", "--http-port", "0"];
    let server = Process::start(&[&["serve"][..], &ports].concat());
    let web = server.at("http=");
    let mut stream = connect(web);
    let head = format!("POST /api/v1/drain HTTP/1.1\r\nHost: {web}\r\nContent-Length: 1000000\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    // A single byte more than is taken: nothing is left unread, so the answer is not lost with a reset.
    stream.write_all(&vec![b' '; (64 << 10) + 1]).expect("sent");
    let mut status = [0; 12];
    stream.read_exact(&mut status).expect("an answer");
    assert_eq!(String::from_utf8_lossy(&status), "HTTP/1.1 413");
}

#[test]
fn a_hub_port_names_those_that_it_does_not_take() {
    let ports = ["--nip-port", "0", "--hub-port", "0", "--http-port", "0", "--interface", "127.0.0.1"];
    let args = [&["source-distributor"][..], &ports].concat();
    let (_dir, distributor) = configured("[hub]\ngreeting_timeout_s = 1\n", &args);
    let port = distributor.at("hub=");
    distributor.names_junk_and_silence(port, JUNK, ["hub port", "not greeted in time"]);
    let crowd: Vec<_> = (0..70).map(|_| connect(port)).collect();
    distributor.line(&[&crowd[0].local_addr().expect("an address").to_string(), "gives way"]);

    let (_dir, distributor) = configured("[hub]\nallow = [\"10.99.0.0/16\"]\n", &args);
    let stranger = connect(distributor.at("hub="));
    distributor.line(&[&stranger.local_addr().expect("an address").to_string(), "hub.allow"]);
}

#[test]
fn a_resolver_daemon_names_those_that_it_does_not_take() {
    let daemon = Process::start(&["lbmrd", "--port", "0"]);
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a port");
    stranger.send_to(JUNK, daemon.at("ready ")).expect("sent");
    daemon.line(&["not taken", &stranger.local_addr().expect("an address").to_string(), "1 malformed"]);
}

#[test]
fn a_port_of_lines_names_those_that_it_does_not_take() {
    let args = ["marketfeed-lines", "--server", "127.0.0.1:9", "--port", "0", "--clients", "1"];
    let lines = Process::start(&args);
    let port = lines.at("are given on ");
    let mut noisy = connect(port);
    lines.line(&[&noisy.local_addr().expect("an address").to_string(), "is up"]);
    let second = connect(port);
    lines.line(&[&second.local_addr().expect("an address").to_string(), "is not taken", "--clients"]);
    noisy.write_all(&vec![b'x'; 1 << 20]).ok();
    lines.line(&[&noisy.local_addr().expect("an address").to_string(), "a line is too long"]);
}

#[test]
fn a_port_of_lines_has_no_place_for_those_who_say_nothing() {
    let args = ["marketfeed-lines", "--server", "127.0.0.1:9", "--port", "0", "--clients-per-address", "1"];
    let lines = Process::start(&[&args[..], &["--handshake-timeout", "1"]].concat());
    let port = lines.at("are given on ");
    let named = |stream: &TcpStream| stream.local_addr().expect("an address").to_string();
    let mut silent = connect(port);
    lines.line(&[&named(&silent), "is up"]);
    // A line that is not over is none.
    silent.write_all(b"user wh").expect("sent");
    let second = connect(port);
    lines.line(&[&named(&second), "is not taken", "--clients-per-address"]);
    lines.line(&[&named(&silent), "no line in time (--handshake-timeout)"]);
    assert_eq!(silent.read(&mut [0; 9]).expect("an end"), 0);
    let mut next = connect(port);
    next.write_all(b"user who\n").expect("sent");
    lines.line(&[&named(&next), "is up"]);
    // Each address has twenty lines in ten seconds, and has had two.
    let _crowd: Vec<_> = (0..30).map(|_| connect(port)).collect();
    lines.line(&["and 12 other connections refused, of one address"]);
    next.shutdown(std::net::Shutdown::Both).expect("it is open");
    lines.line(&[&named(&next), "is gone: it has closed"]);
}
