//! Ports that ask for certificates: who has a right one gets a login, who has none or another's gets nothing, and the log says why.
//! Certificates of ports that are replaced while they serve.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use net::tcp::{ConnId, SocketOptions};
use net::tls::TlsClient;
use rssl::ClientConfig;
use rssl_io::{Ended, Handler, Opened, RsslIo};
use rwf::msg::{Domain, Msg};
use rwf::rdm::login;
use rwf::wire::Writer;

/// A certificate for this address, with its key.
struct Certificate {
    cert: PathBuf,
    key: PathBuf,
}

impl Certificate {
    fn new(folder: &Path, name: &str) -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
        let (cert, key) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
        std::fs::write(&cert, made.cert.pem()).expect("written");
        std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
        Self { cert, key }
    }
}

pub(crate) struct Server {
    child: Child,
    ready: String,
    log: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    pub(crate) fn start(folder: &Path, config: &str) -> Self {
        let (file, log) = (folder.join("quoteway.toml"), folder.join("log"));
        std::fs::write(&file, config).expect("written");
        let mut child = Command::new(env!("CARGO_BIN_EXE_quoteway"))
            .args(["serve", "--interface", "127.0.0.1", "--rssl-port", "0", "--nip-port", "0", "--config"])
            .arg(&file)
            .env("QUOTEWAY_LOG", "info")
            .stdout(Stdio::piped())
            .stderr(File::create(&log).expect("a file"))
            .spawn()
            .expect("it starts");
        let mut ready = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut ready).expect("a line");
        Self { child, ready, log }
    }

    pub(crate) fn addr(&self, key: &str) -> SocketAddr {
        let at = self.ready.split(key).nth(1).and_then(|rest| rest.split_whitespace().next());
        at.and_then(|at| at.parse().ok()).unwrap_or_else(|| panic!("no {key} in {:?}", self.ready))
    }

    /// The lines of the log that contain `sign`.
    pub(crate) fn lines(&self, sign: &str) -> Vec<String> {
        let text = std::fs::read_to_string(&self.log).expect("readable");
        text.lines().filter(|line| line.contains(sign)).map(str::to_owned).collect()
    }

    /// The lines of the log that contain `sign`, when there are as many as `count`.
    fn wait_for_lines(&self, sign: &str, count: usize) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let lines = self.lines(sign);
            if lines.len() >= count {
                return lines;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "{count} lines with {sign:?}: {:?}", self.lines(""));
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
}

/// The outcome of a login: accepted, or why its connection ended.
struct Peer {
    login: login::Request,
    out: Vec<Vec<u8>>,
    outcome: Option<Result<(), String>>,
}

impl Peer {
    fn ask(&mut self) {
        let mut buffer = [0; 1_024];
        let mut writer = Writer::new(&mut buffer);
        self.login.encode(&mut writer).expect("room");
        self.out.push(writer.written().to_vec());
    }
}

impl Handler for Peer {
    fn opened(&mut self, _now: u64, _conn: ConnId, _opened: &Opened<'_>) {
        self.ask();
    }

    fn message(&mut self, _now: u64, _conn: ConnId, msg: &[u8]) {
        if let Ok(Msg::Refresh(refresh)) = Msg::decode(msg)
            && refresh.domain == Domain::LOGIN
        {
            self.outcome.get_or_insert(Ok(()));
        }
    }

    fn closed(&mut self, _now: u64, _conn: ConnId, ended: &Ended) {
        self.outcome.get_or_insert(Err(ended.why.to_string()));
    }
}

/// A session that is logged in.
struct Session {
    io: RsslIo,
    conn: ConnId,
    peer: Peer,
}

impl Session {
    /// Connects, with TLS or without, and logs in.
    fn open(addr: SocketAddr, tls: Option<&TlsClient>, role: Option<u64>) -> Result<Self, String> {
        let mut io = RsslIo::new(1).expect("descriptors");
        let session = tls.map(|tls| tls.connect("127.0.0.1").expect("a name"));
        let config = Arc::new(ClientConfig::default());
        let conn = io.connect(net::clock::now(), addr, &SocketOptions::default(), config, session).expect("a socket");
        let login = login::Request { stream_id: 1, name: "certificates".into(), role, ..login::Request::default() };
        let mut session = Self { io, conn, peer: Peer { login, out: Vec::new(), outcome: None } };
        session.outcome().map(|()| session)
    }

    /// The login is asked for once more, and answered.
    fn log_in_again(&mut self) -> Result<(), String> {
        self.peer.ask();
        self.outcome()
    }

    fn outcome(&mut self) -> Result<(), String> {
        let Self { io, conn, peer } = self;
        let deadline = net::clock::now() + 30_000_000_000;
        let mut now = net::clock::now();
        loop {
            let out = std::mem::take(&mut peer.out);
            if !out.is_empty() {
                io.send(now, *conn, |p| out.iter().for_each(|msg| p.push(msg, None)));
            }
            if let Some(outcome) = peer.outcome.take() {
                return outcome;
            }
            now = io.turn(Some(deadline), peer).expect("sockets");
            assert!(now < deadline, "neither logged in nor refused");
        }
    }
}

fn log_in(addr: SocketAddr, tls: Option<&TlsClient>, role: Option<u64>) -> Result<(), String> {
    Session::open(addr, tls, role).map(drop)
}

/// One port that asks for certificates: ours comes in, none, a foreign one and a plain connection do not, each with its line.
fn only_our_certificates_come_in(config: impl Fn(&Certificate, &Certificate) -> String, port: &str, role: Option<u64>) {
    let folder = tempfile::tempdir().expect("a folder");
    let [server, ours, foreign] = ["server", "ours", "foreign"].map(|name| Certificate::new(folder.path(), name));
    let process = Server::start(folder.path(), &config(&server, &ours));
    let addr = process.addr(port);
    let with =
        |shown: &Certificate| TlsClient::with_certificate(&server.cert, &shown.cert, &shown.key).expect("usable");
    assert_eq!(log_in(addr, Some(&with(&ours)), role), Ok(()));
    let none = TlsClient::with_roots_from(&server.cert).expect("usable");
    let refused = [
        ("no certificate", log_in(addr, Some(&none), role)),
        ("a foreign one", log_in(addr, Some(&with(&foreign)), role)),
        ("no TLS", log_in(addr, None, role)),
    ];
    for (what, outcome) in &refused {
        assert!(outcome.is_err(), "{what} is let in");
    }
    let lines = process.wait_for_lines("TLS", refused.len());
    let said = lines.join("\n");
    assert!(said.contains("sent no certificates") && said.contains("invalid peer certificate"), "{said}");
    // A refused client takes nothing from the others.
    assert_eq!(log_in(addr, Some(&with(&ours)), role), Ok(()));
}

/// The lines of the chapter that make a certificate.
fn documented_lines() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating/websocket.md");
    let text = std::fs::read_to_string(file).expect("the chapter");
    let block = text.split("```sh\n").skip(1).find(|block| block.starts_with("openssl req")).expect("the lines");
    block.split("```").next().expect("an end").to_owned()
}

fn shell(folder: &Path, lines: &str) {
    let output = Command::new("sh").args(["-ec", lines]).current_dir(folder).output().expect("sh");
    assert!(output.status.success(), "{lines}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_certificate_of_the_chapter_is_taken_and_one_of_a_ca_is_refused_in_words() {
    if Command::new("openssl").arg("version").output().is_err() {
        println!("openssl is not installed: the lines of the chapter were not tried");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    shell(folder.path(), &documented_lines());
    let serve = |cert: &str, key: &str| {
        let (cert, key) = (folder.path().join(cert), folder.path().join(key));
        let config = format!("[p2ps]\nencrypted_port = 0\nserver_cert_file = {cert:?}\nserver_key_file = {key:?}\n");
        Server::start(folder.path(), &config)
    };
    let roots = |cert: &str| TlsClient::with_roots_from(&folder.path().join(cert)).expect("usable");
    let process = serve("cert.pem", "key.pem");
    assert_eq!(log_in(process.addr("encrypted="), Some(&roots("cert.pem")), None), Ok(()));
    // As everybody makes one first.
    let usual = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -keyout usual.key -out usual.pem -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1";
    shell(folder.path(), usual);
    let refused = log_in(process.addr("encrypted="), Some(&roots("usual.pem")), None).expect_err("another one");
    assert!(refused.contains("the CA file here has neither its CA"), "{refused}");
    drop(process);
    let process = serve("usual.pem", "usual.key");
    let refused = log_in(process.addr("encrypted="), Some(&roots("usual.pem")), None).expect_err("that of a CA");
    assert!(refused.contains("CA:FALSE") && !refused.contains("OtherError"), "{refused}");
}

#[test]
fn consumers_without_a_certificate_of_ours_stay_out() {
    let config = |server: &Certificate, ours: &Certificate| {
        let (cert, key, ca) = (&server.cert, &server.key, &ours.cert);
        format!(
            "[p2ps]\nencrypted_port = 0\nserver_cert_file = {cert:?}\nserver_key_file = {key:?}\nclient_ca_file = {ca:?}\n"
        )
    };
    only_our_certificates_come_in(config, "rssl=", None);
}

#[test]
fn providers_without_a_certificate_of_ours_stay_out() {
    let config = |server: &Certificate, ours: &Certificate| {
        let (cert, key, ca) = (&server.cert, &server.key, &ours.cert);
        format!("[source_distributor]\nnip_cert_file = {cert:?}\nnip_key_file = {key:?}\nnip_client_ca_file = {ca:?}\n")
    };
    only_our_certificates_come_in(config, "nip=", Some(1));
}

/// TLS on the port for providers without certificates of theirs: it is taken, and who does not know the server's stays away.
#[test]
fn providers_may_encrypt_where_the_port_has_a_certificate() {
    let folder = tempfile::tempdir().expect("a folder");
    let [server, other] = ["server", "other"].map(|name| Certificate::new(folder.path(), name));
    let (cert, key) = (&server.cert, &server.key);
    let config = format!("[source_distributor]\nnip_cert_file = {cert:?}\nnip_key_file = {key:?}\n");
    let process = Server::start(folder.path(), &config);
    let addr = process.addr("nip=");
    assert_eq!(log_in(addr, Some(&trusting(&server)), Some(1)), Ok(()));
    assert_eq!(log_in(addr, None, Some(1)), Ok(()), "the port offers TLS, and does not ask for it");
    assert!(log_in(addr, Some(&trusting(&other)), Some(1)).is_err(), "the provider does not know the server");
}

fn trusting(who: &Certificate) -> TlsClient {
    TlsClient::with_roots_from(&who.cert).expect("usable")
}

/// The files of a port's certificate are replaced one after the other: in between the old one goes on and the log says why; then who
/// comes is shown the new one, and who was there stays.
fn a_replaced_certificate_is_shown(config: impl Fn(&Certificate) -> String, port: &str, role: Option<u64>) {
    let folder = tempfile::tempdir().expect("a folder");
    let [served, before, after] = ["served", "before", "after"].map(|name| Certificate::new(folder.path(), name));
    let replace = |from: &Path, to: &Path| {
        // At once, as certbot and Kubernetes do it.
        let beside = folder.path().join("beside");
        std::fs::copy(from, &beside).expect("copied");
        std::fs::rename(&beside, to).expect("renamed");
    };
    replace(&before.cert, &served.cert);
    replace(&before.key, &served.key);
    let process = Server::start(folder.path(), &config(&served));
    let addr = process.addr(port);
    let mut stays = Session::open(addr, Some(&trusting(&before)), role).expect("logged in");
    assert!(log_in(addr, Some(&trusting(&after)), role).is_err(), "nobody has the new certificate yet");

    replace(&after.cert, &served.cert);
    let begun = Instant::now();
    while process.lines("stays the one of before").is_empty() {
        assert_eq!(log_in(addr, Some(&trusting(&before)), role), Ok(()), "half of a change");
        assert!(begun.elapsed() < Duration::from_secs(30), "the log says nothing of the change");
    }
    replace(&after.key, &served.key);
    while log_in(addr, Some(&trusting(&after)), role).is_err() {
        assert!(begun.elapsed() < Duration::from_mins(1), "the new certificate is not shown");
    }
    assert!(log_in(addr, Some(&trusting(&before)), role).is_err(), "the old certificate is still shown");
    process.wait_for_lines("was read again", 1);
    assert_eq!(stays.log_in_again(), Ok(()), "who was connected stays so");
    for line in ["stays the one of before", "was read again"] {
        assert_eq!(process.lines(line).len(), 1, "{line} is said once");
    }
}

#[test]
fn consumers_are_shown_a_certificate_that_was_replaced() {
    let config = |served: &Certificate| {
        let (cert, key) = (&served.cert, &served.key);
        format!("[p2ps]\nencrypted_port = 0\nserver_cert_file = {cert:?}\nserver_key_file = {key:?}\n")
    };
    a_replaced_certificate_is_shown(config, "encrypted=", None);
}

#[test]
fn providers_are_shown_a_certificate_that_was_replaced() {
    let config = |served: &Certificate| {
        format!("[source_distributor]\nnip_cert_file = {:?}\nnip_key_file = {:?}\n", served.cert, served.key)
    };
    a_replaced_certificate_is_shown(config, "nip=", Some(1));
}
