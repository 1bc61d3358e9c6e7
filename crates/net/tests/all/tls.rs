//! TLS sessions against each other, and behind real sockets.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use net::tcp::{Close, CloseReason, Event, RecvOutcome, Scratch, SocketOptions, Tcp, TcpConfig};
use net::tls::{TlsClient, TlsError, TlsServer, TlsSession};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};

/// Certificate and key files of one test, removed afterwards.
struct Files {
    dir: PathBuf,
}

impl Files {
    fn new(test: &str, names: &[&str]) -> Self {
        let dir = std::env::temp_dir().join(format!("quoteway-tls-{test}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("directory");
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).expect("certificate");
        fs::write(dir.join("cert.pem"), cert.pem()).expect("write");
        fs::write(dir.join("key.pem"), signing_key.serialize_pem()).expect("write");
        Self { dir }
    }

    fn cert(&self) -> PathBuf {
        self.dir.join("cert.pem")
    }

    fn key(&self) -> PathBuf {
        self.dir.join("key.pem")
    }

    fn server(&self) -> TlsServer {
        TlsServer::from_files(&self.cert(), &self.key(), None).expect("server")
    }

    fn client(&self) -> TlsClient {
        TlsClient::with_roots_from(&self.cert()).expect("client")
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Carries bytes between two sessions until neither has more to send, in pieces of `piece` bytes. Returns what each got.
fn carry(
    a: &mut TlsSession,
    b: &mut TlsSession,
    to_a: &mut Vec<u8>,
    to_b: &mut Vec<u8>,
    piece: usize,
) -> Result<(Vec<u8>, Vec<u8>), TlsError> {
    let (mut got_a, mut got_b) = (Vec::new(), Vec::new());
    while !to_a.is_empty() || !to_b.is_empty() {
        for part in std::mem::take(to_b).chunks(piece) {
            b.process(part, to_a, |bytes| got_b.extend_from_slice(bytes))?;
        }
        for part in std::mem::take(to_a).chunks(piece) {
            a.process(part, to_b, |bytes| got_a.extend_from_slice(bytes))?;
        }
    }
    Ok((got_a, got_b))
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
}

#[test]
fn plaintext_goes_both_ways_however_the_bytes_arrive() {
    let files = Files::new("both", &["quoteway.test"]);
    let (server, client) = (files.server(), files.client());
    for piece in [1, 7, 100, 16_500, usize::MAX] {
        let (mut a, mut b) = (client.connect("quoteway.test").expect("name"), server.accept().expect("session"));
        let (mut to_a, mut to_b) = (Vec::new(), Vec::new());
        a.process(&[], &mut to_b, |_| ()).expect("first message");
        assert!(!to_b.is_empty());
        a.encrypt(b"login request", &mut to_b).expect("kept until the handshake is done");
        let (_, got) = carry(&mut a, &mut b, &mut to_a, &mut to_b, piece).expect("handshake");
        assert_eq!(got, b"login request");
        assert!(a.is_established() && b.is_established());
        assert!(a.description().expect("agreed").contains("TLSv1_3"));
        // More than a record, and both at once.
        let (up, down) = (pattern(50_000), pattern(100_001));
        a.encrypt(&up, &mut to_b).expect("encrypt");
        b.encrypt(&down, &mut to_a).expect("encrypt");
        let (got_a, got_b) = carry(&mut a, &mut b, &mut to_a, &mut to_b, piece).expect("data");
        assert!(got_a == down && got_b == up, "pieces of {piece}");
    }
}

#[test]
fn an_end_is_told_from_a_cut() {
    let files = Files::new("end", &["quoteway.test"]);
    let (mut a, mut b) = (files.client().connect("quoteway.test").expect("name"), files.server().accept().expect("ok"));
    let (mut to_a, mut to_b) = (Vec::new(), Vec::new());
    a.process(&[], &mut to_b, |_| ()).expect("first message");
    carry(&mut a, &mut b, &mut to_a, &mut to_b, 4096).expect("handshake");
    a.encrypt(b"last", &mut to_b).expect("encrypt");
    a.close(&mut to_b);
    assert!(!b.peer_closed());
    let (_, got) = carry(&mut a, &mut b, &mut to_a, &mut to_b, 4096).expect("end");
    assert_eq!(got, b"last");
    assert!(b.peer_closed());
    // The other direction is still open.
    b.encrypt(b"answer", &mut to_a).expect("encrypt");
    let (got, _) = carry(&mut a, &mut b, &mut to_a, &mut to_b, 4096).expect("answer");
    assert_eq!(got, b"answer");
}

#[test]
fn a_certificate_for_another_name_or_from_nobody_known_is_refused() {
    let files = Files::new("names", &["quoteway.test"]);
    let others = Files::new("others", &["quoteway.test"]);
    for (client, host) in [(files.client(), "elsewhere.test"), (others.client(), "quoteway.test")] {
        let (mut a, mut b) = (client.connect(host).expect("name"), files.server().accept().expect("session"));
        let (mut to_a, mut to_b) = (Vec::new(), Vec::new());
        a.process(&[], &mut to_b, |_| ()).expect("first message");
        let error = carry(&mut a, &mut b, &mut to_a, &mut to_b, 4096).expect_err("refused");
        assert!(error.to_string().contains("certificate"), "{error}");
        // The alert reaches the other side, which then knows why.
        let alert = b.process(&to_b, &mut to_a, |_| ()).expect_err("an alert");
        assert!(alert.to_string().contains("alert"), "{alert}");
    }
}

#[test]
fn an_address_can_be_the_name() {
    let files = Files::new("address", &["127.0.0.1"]);
    let (mut a, mut b) = (files.client().connect("127.0.0.1").expect("name"), files.server().accept().expect("ok"));
    let (mut to_a, mut to_b) = (Vec::new(), Vec::new());
    a.process(&[], &mut to_b, |_| ()).expect("first message");
    carry(&mut a, &mut b, &mut to_a, &mut to_b, 4096).expect("handshake");
    assert!(a.is_established());
    assert!(files.client().connect("no name!").is_err());
}

#[test]
fn what_is_not_tls_is_refused_with_an_alert() {
    let files = Files::new("garbage", &["quoteway.test"]);
    let mut session = files.server().accept().expect("session");
    let mut out = Vec::new();
    let input = b"GET / HTTP/1.1\r\nHost: quoteway.test\r\n\r\n".to_vec();
    session.process(&input, &mut out, |_| ()).expect_err("no TLS");
    assert_eq!(out.first(), Some(&21), "an alert record");
    assert!(session.process(&input, &mut out, |_| ()).is_err(), "and it stays refused");
}

#[test]
fn clients_must_have_a_certificate_if_that_is_asked_for() {
    let files = Files::new("mutual", &["quoteway.test"]);
    let server = TlsServer::from_files(&files.cert(), &files.key(), Some(&files.cert())).expect("server");
    let (mut a, mut b) = (files.client().connect("quoteway.test").expect("name"), server.accept().expect("session"));
    let (mut to_a, mut to_b) = (Vec::new(), Vec::new());
    a.process(&[], &mut to_b, |_| ()).expect("first message");
    assert!(carry(&mut a, &mut b, &mut to_a, &mut to_b, 4096).is_err());
}

#[test]
fn errors_name_the_file_and_what_is_wrong() {
    let files = Files::new("errors", &["quoteway.test"]);
    let other = Files::new("errors-other", &["quoteway.test"]);
    let missing = Path::new("/nonexistent/cert.pem");
    let text = |result: Result<TlsServer, TlsError>| result.expect_err("unusable").to_string();
    let error = text(TlsServer::from_files(missing, &files.key(), None));
    assert!(error.contains("/nonexistent/cert.pem") && error.contains("not there"), "{error}");
    let error = text(TlsServer::from_files(&files.key(), &files.key(), None));
    assert!(error.contains("no certificate in it"), "{error}");
    let error = text(TlsServer::from_files(&files.cert(), &files.cert(), None));
    assert!(error.contains("no private key in it"), "{error}");
    let error = text(TlsServer::from_files(&files.cert(), &other.key(), None));
    assert!(error.contains("cert.pem") && error.contains("key.pem"), "{error}");
}

/// A client of rustls's own, blocking on its socket, against a session behind a [`Tcp`] set: the way an agent joins the two.
#[test]
fn a_session_serves_a_connection() {
    let files = Files::new("socket", &["quoteway.test"]);
    let server = files.server();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut tcp = Tcp::new(TcpConfig::default()).expect("a set");
        let any = "127.0.0.1:0".parse().expect("addr");
        let (_, addr) = tcp.listen(any, &SocketOptions::default()).expect("listen");
        let config = client_config(&files.cert(), version);
        let client = thread::spawn(move || {
            let name = ServerName::try_from("quoteway.test").expect("name");
            let tls = rustls::ClientConnection::new(config, name).expect("client");
            let mut stream = rustls::StreamOwned::new(tls, TcpStream::connect(addr).expect("connect"));
            let sent = pattern(300_000);
            stream.write_all(&sent).expect("write");
            let mut got = vec![0; sent.len()];
            stream.read_exact(&mut got).expect("read");
            assert!(got == sent);
            stream.conn.send_close_notify();
            stream.flush().expect("flush");
            assert_eq!(stream.read(&mut [0]).expect("an end that says so"), 0);
        });
        let (mut events, mut scratch, mut out) = (Vec::new(), Scratch::default(), Vec::new());
        let mut session = server.accept().expect("session");
        let deadline = Instant::now() + Duration::from_secs(20);
        let why = loop {
            tcp.poll(Some(Duration::from_secs(20)), &mut events).expect("poll");
            assert!(Instant::now() < deadline, "time-out");
            let mut end = None;
            for event in &events {
                match *event {
                    Event::Readable { conn } => {
                        let RecvOutcome::Data(bytes) = tcp.recv(conn, &mut scratch) else { continue };
                        let mut plaintext = Vec::new();
                        session.process(bytes, &mut out, |part| plaintext.extend_from_slice(part)).expect("fine");
                        session.encrypt(&plaintext, &mut out).expect("fine");
                        let over = session.peer_closed();
                        if over {
                            session.close(&mut out);
                        }
                        tcp.send(conn, &out);
                        out.clear();
                        if over {
                            tcp.close(conn, Close::Drain(Duration::from_secs(20)));
                        }
                    }
                    Event::Closed { why, .. } => end = Some(why),
                    _ => {}
                }
            }
            if let Some(why) = end {
                break why;
            }
        };
        assert_eq!(why, CloseReason::Local { drained: true });
        assert!(session.description().expect("agreed").contains(&format!("{:?}", version.version)));
        client.join().expect("client");
    }
}

fn client_config(roots: &Path, version: &'static rustls::SupportedProtocolVersion) -> Arc<rustls::ClientConfig> {
    let mut store = rustls::RootCertStore::empty();
    store.add(CertificateDer::from_pem_file(roots).expect("certificate")).expect("usable");
    let builder = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_protocol_versions(&[version]).expect("version");
    Arc::new(builder.with_root_certificates(store).with_no_client_auth())
}

/// Whether a client that trusts what now lies in the file gets a session.
fn is_trusted(server: &TlsServer, client: &TlsClient) -> bool {
    let (mut a, mut b) = (client.connect("quoteway.test").expect("name"), server.accept().expect("session"));
    let (mut to_a, mut to_b) = (Vec::new(), Vec::new());
    a.process(&[], &mut to_b, |_| ()).expect("first message");
    carry(&mut a, &mut b, &mut to_a, &mut to_b, 4096).is_ok()
}

#[test]
fn a_certificate_is_read_again_when_its_files_change() {
    let (files, others) = (Files::new("again", &["quoteway.test"]), Files::new("again-others", &["quoteway.test"]));
    let (server, before, after) = (files.server(), files.client(), others.client());
    // A client that has no session to resume: resuming shows no certificate.
    let newest = files.client();
    assert!(is_trusted(&server, &before) && !is_trusted(&server, &after) && server.news().is_none());
    // Half of a change: certificate and key do not fit, and nothing happens to those who connect.
    fs::copy(others.cert(), files.cert()).expect("copy");
    let patience = Instant::now() + Duration::from_secs(20);
    let news = loop {
        assert!(is_trusted(&server, &before) && Instant::now() < patience);
        if let Some(news) = server.news() {
            break news;
        }
    };
    assert!(news.contains("stays the one of before"), "{news}");
    fs::copy(others.key(), files.key()).expect("copy");
    while !is_trusted(&server, &after) {
        assert!(Instant::now() < patience, "the new certificate is not taken");
    }
    assert!(!is_trusted(&server, &newest));
    assert!(server.news().is_some_and(|news| news.contains("read again")) && server.news().is_none());
}
