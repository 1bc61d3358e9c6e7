//! Ports that ask for certificates: who has a right one gets a login, who has none or another's gets nothing, and the log says why.

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

struct Server {
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
    fn start(folder: &Path, config: &str) -> Self {
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

    fn addr(&self, key: &str) -> SocketAddr {
        let at = self.ready.split(key).nth(1).and_then(|rest| rest.split_whitespace().next());
        at.and_then(|at| at.parse().ok()).unwrap_or_else(|| panic!("no {key} in {:?}", self.ready))
    }

    /// The lines of the log that contain `sign`, when there are as many as `count`.
    fn wait_for_lines(&self, sign: &str, count: usize) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(&self.log).expect("readable");
            let lines: Vec<String> = text.lines().filter(|line| line.contains(sign)).map(str::to_owned).collect();
            if lines.len() >= count {
                return lines;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "{count} lines with {sign:?} in {text}");
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
}

/// What a peer has come to that logs in: accepted, or why its connection ended.
struct Peer {
    login: login::Request,
    out: Vec<Vec<u8>>,
    outcome: Option<Result<(), String>>,
}

impl Handler for Peer {
    fn opened(&mut self, _now: u64, _conn: ConnId, _opened: &Opened<'_>) {
        let mut buffer = [0; 1_024];
        let mut writer = Writer::new(&mut buffer);
        self.login.encode(&mut writer).expect("room");
        self.out.push(writer.written().to_vec());
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

/// Connects, with TLS or without, and logs in.
fn log_in(addr: SocketAddr, tls: Option<&TlsClient>, role: Option<u64>) -> Result<(), String> {
    let mut io = RsslIo::new(1).expect("descriptors");
    let session = tls.map(|tls| tls.connect("127.0.0.1").expect("a name"));
    let config = Arc::new(ClientConfig::default());
    let conn = io.connect(net::clock::now(), addr, &SocketOptions::default(), config, session).expect("a socket");
    let login = login::Request { stream_id: 1, name: "certificates".into(), role, ..login::Request::default() };
    let mut peer = Peer { login, out: Vec::new(), outcome: None };
    let deadline = net::clock::now() + 30_000_000_000;
    loop {
        if let Some(outcome) = peer.outcome.take() {
            return outcome;
        }
        let now = io.turn(Some(deadline), &mut peer).expect("sockets");
        assert!(now < deadline, "neither logged in nor refused");
        let out = std::mem::take(&mut peer.out);
        io.send(now, conn, |p| out.iter().for_each(|msg| p.push(msg, None)));
    }
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
    // Who is refused takes nothing from the others.
    assert_eq!(log_in(addr, Some(&with(&ours)), role), Ok(()));
}

#[test]
fn consumers_without_a_certificate_of_ours_stay_out() {
    let config = |server: &Certificate, ours: &Certificate| {
        let (cert, key, ca) = (&server.cert, &server.key, &ours.cert);
        format!("[p2ps]\nserver_cert_file = {cert:?}\nserver_key_file = {key:?}\nclient_ca_file = {ca:?}\n")
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
    let trusting = |who: &Certificate| TlsClient::with_roots_from(&who.cert).expect("usable");
    assert_eq!(log_in(addr, Some(&trusting(&server)), Some(1)), Ok(()));
    assert_eq!(log_in(addr, None, Some(1)), Ok(()), "the port offers TLS, and does not ask for it");
    assert!(log_in(addr, Some(&trusting(&other)), Some(1)).is_err(), "the provider does not know the server");
}
