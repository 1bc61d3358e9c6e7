//! What strangers can do at the port of HTTP, and pages of other servers at every port: they hold nobody's place, and nothing that cannot be
//! read counts as if it said nothing.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use crate::http::{PORTS, Process, ask, exchange, start};

fn configured(text: &str, more: &[&str]) -> (tempfile::TempDir, Process) {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("q.toml");
    let text = text.replace("SOCKET", dir.path().join("q.sock").to_str().expect("UTF-8"));
    std::fs::write(&file, text).expect("written");
    let process = start(&[&PORTS[..], &["--config", file.to_str().expect("UTF-8")], more].concat());
    (dir, process)
}

fn over_socket(dir: &Path, path: &str) -> u16 {
    let unix = UnixStream::connect(dir.join("q.sock")).expect("it listens");
    unix.set_read_timeout(Some(Duration::from_mins(1))).expect("set");
    exchange(unix, "localhost", "GET", path, "", &[]).0
}

/// Connections that ask for more than the kernel takes for them, and read nothing.
fn deaf(at: &str, count: usize) -> Vec<TcpStream> {
    let request = format!("GET /api/v1/openapi.json HTTP/1.1\r\nHost: {at}\r\n\r\n").repeat(200);
    let connect = |_| {
        let mut stream = TcpStream::connect(at).expect("it listens");
        stream.set_write_timeout(Some(Duration::from_secs(5))).expect("set");
        // A connection that is closed meanwhile has no need of the rest.
        let _ = stream.write_all(request.as_bytes());
        stream
    };
    (0..count).map(connect).collect()
}

#[test]
fn those_who_ask_and_do_not_read_hold_nobody_else() {
    let (dir, server) = configured("[http]\nsocket = \"SOCKET\"\n", &[]);
    assert_eq!(server.get("/healthz").0, 200);
    let before = net::memory::Memory::of(server.child.id()).expect("it runs").resident;
    let _deaf = deaf(&server.web(), 64);
    let _silent: Vec<_> = (0..64).map(|_| TcpStream::connect(server.web()).expect("it listens")).collect();
    for _ in 0..3 {
        assert_eq!(server.get("/healthz").0, 200);
        assert_eq!(over_socket(dir.path(), "/api/v1/process"), 200);
        server.wait_for("/", |status, _| status == 200);
        server.wait_for("/api/v1/process", |status, _| status == 200);
    }
    let grown = net::memory::Memory::of(server.child.id()).expect("it runs").resident.saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
}

/// Checks that are queued one behind the other, as many as an address may ask for at once: when one has ended and others are served, most of
/// the rest has still to be done, however slow the machine is.
#[test]
fn passwords_are_checked_while_others_are_served() {
    const GUESSES: usize = 10;
    // A hash of some tenths of a second.
    let salt = "c29tZXNhbHRzb21lc2FsdA";
    let hash = format!("$argon2id$v=19$m=19456,t=8,p=1${salt}$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    let (dir, server) = configured(&format!("[http]\nsocket = \"SOCKET\"\nusers = [\"ann:viewer:{hash}\"]\n"), &[]);
    let (answered, answers) = mpsc::channel();
    for n in 0..GUESSES {
        let (web, answered) = (server.web(), answered.clone());
        std::thread::spawn(move || {
            let given = format!("Basic {}", encoded(&format!("ann:wrong {n}")));
            // Without a deadline: how long ten checks take says nothing here.
            let stream = TcpStream::connect(&web).expect("it listens");
            let (status, ..) = exchange(stream, &web, "GET", "/api/v1/process", "", &[("Authorization", &given)]);
            answered.send(status).expect("the test waits for all of them");
        });
    }
    drop(answered);
    let mut statuses = vec![answers.recv().expect("an answer")];
    assert_eq!(server.get("/healthz").0, 200);
    assert_eq!(over_socket(dir.path(), "/api/v1/process"), 200);
    statuses.extend(answers.try_iter());
    assert!(statuses.len() < GUESSES, "all passwords were checked before anybody else was served");
    statuses.extend(answers.iter());
    assert_eq!(statuses, [401; GUESSES]);
}

#[test]
fn who_guesses_passwords_is_slowed_and_costs_no_memory() {
    let line = tools::ctl::password_line("ann", tools::ctl::UserRole::Viewer, "open sesame").expect("a hash");
    let (_dir, server) = configured(&format!("[http]\nusers = [{line:?}]\n"), &[]);
    // "ann:open sesame".
    let right = [("Authorization", "Basic YW5uOm9wZW4gc2VzYW1l")];
    assert_eq!(ask(&server.web(), "GET", "/api/v1/process", "", &right).0, 200);
    let before = net::memory::Memory::of(server.child.id()).expect("it runs").resident;
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            let web = server.web();
            std::thread::spawn(move || {
                let guesses = (0..30).map(|n| {
                    let given = format!("Basic {}", encoded(&format!("ann:guess {thread} {n}")));
                    ask(&web, "GET", "/api/v1/process", "", &[("Authorization", &given)]).0
                });
                guesses.collect::<Vec<_>>()
            })
        })
        .collect();
    let answers: Vec<u16> = threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
    assert!(answers.iter().all(|status| matches!(status, 401 | 429 | 503)), "{answers:?}");
    assert!(answers.iter().filter(|status| **status == 429).count() > 100, "{answers:?}");
    assert_eq!(ask(&server.web(), "GET", "/api/v1/process", "", &right).0, 200, "who is known comes in");
    let grown = net::memory::Memory::of(server.child.id()).expect("it runs").resident.saturating_sub(before);
    assert!(grown < 40 << 20, "{grown} bytes more");
}

/// Base64, for a header.
fn encoded(text: &str) -> String {
    use base64ct::Encoding as _;
    base64ct::Base64::encode_string(text.as_bytes())
}

#[test]
fn a_process_without_descriptors_says_how_it_is() {
    let dir = tempfile::tempdir().expect("a folder");
    let (file, socket) = (dir.path().join("q.toml"), dir.path().join("q.sock"));
    std::fs::write(
        &file,
        format!("[p2ps]\nmax_mounts = 50\n[source_distributor]\nnip_max_mounts = 1\n[http]\nsocket = {socket:?}\n"),
    )
    .expect("written");
    let args = [&PORTS[..], &["--config", file.to_str().expect("UTF-8")]].concat();
    let server = Process::of(
        std::process::Command::new("sh")
            .args(["-c", "ulimit -n 256 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_quoteway")])
            .args(args),
    );
    let rssl = server.at("rssl");
    let folder = format!("/proc/{}/fd", server.child.id());
    let open = || std::fs::read_dir(&folder).expect("it runs").count();
    let mut crowd = Vec::new();
    // Connections that are turned away leave their place to the next ones, until there is none.
    for _ in 0..400 {
        crowd.extend(TcpStream::connect(&rssl));
    }
    let mut waited = 0;
    while open() < 235 {
        waited += 1;
        assert!(waited < 600, "{} are open", open());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(server.get("/healthz").0, 200);
    assert_eq!(over_socket(dir.path(), "/api/v1/process"), 200);
    // A silent connection holds its place for a moment only.
    let _silent: Vec<_> = (0..20).map(|_| TcpStream::connect(server.web())).collect();
    assert_eq!(server.get("/healthz").0, 200);
    drop(crowd);
}

#[test]
fn what_cannot_be_read_is_a_strangers() {
    let server = start(&PORTS);
    let web = server.web();
    let own = format!("http://{web}");
    let twice: [(&str, &str); 2] = [("Origin", &own), ("Origin", &own)];
    let https = format!("https://{web}");
    let (dotted, user) = (format!("{own}."), own.replace("//", "//a@"));
    for origin in
        ["null", "", &https, &dotted, &user, "http://127.0.0.1", "http://evil.example", "file://", &format!("{own}/")]
    {
        let (status, _, body) = ask(&web, "POST", "/api/v1/drain", "{\"why\":\"x\"}", &[("Origin", origin)]);
        assert_eq!(status, 403, "{origin}: {body}");
    }
    assert_eq!(ask(&web, "POST", "/api/v1/drain", "{\"why\":\"x\"}", &twice).0, 403);
    let foreign = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors")];
    assert_eq!(ask(&web, "GET", "/api/v1/history/A/B", "", &foreign).0, 403);
    for host in ["evil.example", "127.0.0.1.", "127.0.0.1:x", "a@127.0.0.1", ""] {
        assert!(matches!(ask(&web, "GET", "/api/v1/process", "", &[("Host", host)]).0, 400 | 403), "{host}");
    }
    for (path, body, kind) in [
        ("drain", "{\"why\":\"x\",\"clients\":true}", "application/json"),
        ("drain", "{\"why\":\"x\",\"why\":\"y\"}", "application/json"),
        ("drain", "{\"why\":\"x\",\"Clients\":\"close\"}", "application/json"),
        ("switch", "{\"why\":\"x\",\"service\":\"A\",\"provider\":7}", "application/json"),
        ("drain", "{\"why\":\"x\"} x", "application/json"),
    ] {
        let (status, _, said) = ask(&web, "POST", &format!("/api/v1/{path}"), body, &[("Content-Type", kind)]);
        assert_eq!(status, 400, "{body}: {said}");
    }
    assert_eq!(ask(&web, "POST", "/api/v1/drain", "{\"why\":\"x\"}", &[("Content-Type", "text/plain")]).0, 415);
    for query in ["limit=1&limit=2", "limit=x", "servce=A", "contains=%ff", "state=opened", "limit=%31%"] {
        assert_eq!(server.get(&format!("/api/v1/items?{query}")).0, 400, "{query}");
    }
    assert_eq!(server.json("/api/v1/process")["draining"], false);
    let json = [("Origin", own.as_str()), ("Content-Type", "application/json")];
    assert_eq!(ask(&web, "POST", "/api/v1/drain", "{\"why\":\"x\"}", &json).0, 200, "the page itself");
    assert_eq!(server.json("/api/v1/process")["draining"], true);
}

/// The status of the answer to a request for a WebSocket session, of a browser's page if there is an origin.
fn upgrade(port: &str, host: &str, origin: Option<&str>) -> u16 {
    let mut stream = TcpStream::connect(port).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_mins(1))).expect("set");
    let page = origin.map_or_else(String::new, |origin| {
        format!("Origin: {origin}\r\nUser-Agent: Mozilla/5.0 (X11) Firefox/143.0\r\n")
    });
    let request = format!(
        "GET /WebSocket HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{page}\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: tr_json2\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("an answer");
    String::from_utf8_lossy(&answer[9..]).parse().expect("a status")
}

#[test]
fn a_page_of_another_server_gets_no_market_data() {
    let (_dir, server) = configured("[p2ps]\nwebsocket_port = 0\n", &[]);
    let (rssl, nip) = (server.at("rssl"), server.at("nip"));
    let websocket = server.at("websocket").trim_start_matches("ws://").trim_end_matches("/WebSocket").to_owned();
    let page = format!("http://{}", server.web());
    for port in [&rssl, &websocket] {
        assert_eq!(upgrade(port, port, None), 101, "a program");
        assert_eq!(upgrade(port, port, Some(&page)), 101, "the process's own page");
        assert_eq!(upgrade(port, port, Some("http://localhost:3000")), 101, "one of this machine");
        for origin in
            ["http://evil.example", "null", "", "http://localhost@evil.example", "https://127.0.0.1.evil.example"]
        {
            assert_eq!(upgrade(port, port, Some(origin)), 403, "{origin}");
        }
        let rebound = format!("evil.example:{}", port.rsplit(':').next().expect("a port"));
        assert_eq!(upgrade(port, &rebound, Some(&format!("http://{rebound}"))), 403, "a name made to lead here");
    }
    assert_eq!(upgrade(&nip, &nip, None), 101);
    assert_eq!(upgrade(&nip, &nip, Some(&page)), 403, "no page publishes");
}

#[test]
fn no_page_but_its_own_gets_market_data_at_a_desktop() {
    let args = [
        "desktop",
        "--source-distributor",
        "127.0.0.1:9",
        "--rssl-port",
        "0",
        "--websocket-port",
        "0",
        "--http-port",
        "0",
    ];
    let desktop = start(&args);
    let (rssl, page) = (desktop.at("rssl"), format!("http://{}", desktop.web()));
    let by_name = page.replace("127.0.0.1", "localhost");
    assert_eq!(upgrade(&rssl, &rssl, None), 101, "a program");
    assert_eq!(upgrade(&rssl, &rssl, Some(&page)), 101);
    assert_eq!(upgrade(&rssl, &rssl.replace("127.0.0.1", "localhost"), Some(&by_name)), 101);
    for origin in
        ["http://localhost:3000", "http://127.0.0.1", "http://evil.example", "null", &format!("http://{rssl}")]
    {
        assert_eq!(upgrade(&rssl, &rssl, Some(origin)), 403, "{origin}");
    }
}
