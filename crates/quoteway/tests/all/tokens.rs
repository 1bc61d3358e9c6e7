//! Logins by token at a server whose issuer changes its keys.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use net::tcp::{ConnId, SocketOptions};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use rssl::ClientConfig;
use rssl::ws::upgrade::Protocol;
use rssl::ws::{JsonConfig, Limits};
use rssl_io::{Ended, Handler, Opened, RsslIo, WebSocketDial};
use rwf::msg::{Domain, Msg};
use rwf::rdm::login::{self, name_type};
use rwf::wire::Writer;
use serde_json::{Value, json};

use crate::certificates::Server;

/// An elliptic key of an issuer, and the name it goes by.
pub(crate) struct Key(EcdsaKeyPair, &'static str);

impl Key {
    pub(crate) fn new(name: &'static str) -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
        Self(EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).expect("a key"), name)
    }

    fn jwk(&self) -> Value {
        let point = self.0.public_key().as_ref();
        let [x, y] = [&point[1..33], &point[33..]].map(|part| URL_SAFE_NO_PAD.encode(part));
        json!({"kty": "EC", "crv": "P-256", "kid": self.1, "use": "sig", "x": x, "y": y})
    }

    /// For `alice`, until the year 2096.
    pub(crate) fn token(&self) -> String {
        let parts = [json!({"alg": "ES256", "kid": self.1}), json!({"sub": "alice", "exp": 4_000_000_000_u64})];
        let signed = parts.map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
        let signature = self.0.sign(&SystemRandom::new(), signed.as_bytes()).expect("signed");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// Puts a file in place at once, as issuers' tools do.
pub(crate) fn publish(file: &Path, keys: &[&Key]) {
    let beside = file.with_extension("new");
    let keys: Vec<Value> = keys.iter().map(|key| key.jwk()).collect();
    fs::write(&beside, json!({"keys": keys}).to_string()).expect("written");
    fs::rename(beside, file).expect("renamed");
}

#[derive(Debug, Clone, Copy)]
enum By {
    Rssl,
    Json,
}

/// A client that logs in by token: the user it is taken for, or what it was told.
struct Client<'t> {
    token: &'t str,
    opened: bool,
    outcome: Option<Result<String, String>>,
}

impl Client<'_> {
    fn request(&self) -> Vec<u8> {
        let request = login::Request {
            stream_id: 1,
            name: "\0".to_owned(),
            name_type: Some(name_type::AUTHENTICATION_TOKEN),
            authentication_token: Some(self.token.to_owned()),
            ..login::Request::default()
        };
        let mut buffer = [0; 2_048];
        let mut writer = Writer::new(&mut buffer);
        request.encode(&mut writer).expect("room");
        writer.written().to_vec()
    }
}

impl Handler for Client<'_> {
    fn opened(&mut self, _now: u64, _conn: ConnId, _opened: &Opened<'_>) {
        self.opened = true;
    }

    fn message(&mut self, _now: u64, _conn: ConnId, msg: &[u8]) {
        let outcome = match Msg::decode(msg).expect("a message") {
            Msg::Refresh(refresh) if refresh.domain == Domain::LOGIN => {
                let name = refresh.key.and_then(|key| key.name).expect("a name");
                Ok(String::from_utf8_lossy(name).into_owned())
            }
            Msg::Status(status) => Err(status.state.expect("a state").text_lossy().into_owned()),
            other => panic!("{other:?} before the login is answered"),
        };
        self.outcome.get_or_insert(outcome);
    }

    fn text(&mut self, _now: u64, _conn: ConnId, text: &str) {
        let frame: Value = serde_json::from_str(text).expect("JSON");
        let (message, said) = (&frame[0], |value: &Value| value.as_str().unwrap_or_default().to_owned());
        let outcome = match message["Type"].as_str() {
            Some("Refresh") => Ok(said(&message["Key"]["Name"])),
            Some("Status") => Err(said(&message["State"]["Text"])),
            _ => panic!("{text} before the login is answered"),
        };
        self.outcome.get_or_insert(outcome);
    }

    fn closed(&mut self, _now: u64, _conn: ConnId, ended: &Ended) {
        self.outcome.get_or_insert(Err(format!("without an answer: {}", ended.why)));
    }
}

/// Logs in by a token.
fn log_in(addr: SocketAddr, by: By, token: &str) -> Result<String, String> {
    let (mut io, options) = (RsslIo::new(1).expect("descriptors"), SocketOptions::default());
    let now = net::clock::now();
    let rssl = Arc::new(ClientConfig::default());
    let conn = match by {
        By::Rssl => io.connect(now, addr, &options, rssl, None),
        By::Json => {
            let (host, protocols) = (addr.to_string(), vec![Protocol::Json]);
            let dial = WebSocketDial { host, protocols, rssl, limits: Limits::default(), json: JsonConfig::default() };
            io.connect_websocket(now, addr, &options, Arc::new(dial), None)
        }
    };
    let conn = conn.expect("a socket");
    let mut client = Client { token, opened: false, outcome: None };
    let deadline = now + 30_000_000_000;
    loop {
        let now = io.turn(Some(deadline), &mut client).expect("sockets");
        assert!(now < deadline, "neither logged in nor refused");
        if std::mem::take(&mut client.opened) {
            match by {
                By::Rssl => io.send(now, conn, |packer| packer.push(&client.request(), None)),
                By::Json => {
                    let elements = json!({"AuthenticationToken": token});
                    let key = json!({"NameType": "AuthnToken", "Elements": elements});
                    let request = json!({"ID": 1, "Domain": "Login", "Key": key}).to_string();
                    io.queue_json(now, conn, |packer| packer.push(&request));
                    io.flush(conn)
                }
            };
        }
        if let Some(outcome) = client.outcome.take() {
            return outcome;
        }
    }
}

/// The issuer's file gets a second key, breaks, and loses the first: each time logins follow it, by RSSL and by JSON.
#[test]
fn logins_follow_the_keys_of_their_issuer() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("issuer.jwks.json");
    let [first, second] = ["first", "second"].map(Key::new);
    publish(&file, &[&first]);
    let server = Server::start(folder.path(), &format!("[p2ps]\ntoken_keys_file = {file:?}\n"));
    let addr = server.addr("rssl=");
    let [old, new] = [&first, &second].map(Key::token);
    let takes = |by, token: &str| log_in(addr, by, token);
    let is_alice = |outcome: &Result<String, String>| outcome.as_deref() == Ok("alice");
    let is_refused = |outcome: &Result<String, String>| {
        outcome.as_ref().is_err_and(|why| why.contains("a key that is not known here"))
    };
    let begun = Instant::now();
    let in_time = |what: &str| assert!(begun.elapsed() < Duration::from_secs(90), "{what}");

    // A client that is not answered in time on a full machine is neither taken nor refused: it asks again.
    let holds = |by, token: &str| loop {
        match takes(by, token) {
            outcome if is_alice(&outcome) => break,
            Err(why) if why.starts_with("without an answer") => in_time(&format!("{by:?}: a key that holds: {why}")),
            outcome => panic!("{by:?}: {outcome:?}"),
        }
    };

    for by in [By::Rssl, By::Json] {
        holds(by, &old);
        let unknown = takes(by, &new);
        assert!(is_refused(&unknown), "{by:?}: {unknown:?}");
    }
    publish(&file, &[&first, &second]);
    while !is_alice(&takes(By::Rssl, &new)) {
        in_time("the second key is not read");
    }
    for by in [By::Rssl, By::Json] {
        holds(by, &old);
        holds(by, &new);
    }
    fs::write(&file, "rubbish").expect("written");
    while server.lines("the keys for tokens stay those of before").is_empty() {
        in_time("nothing is said of a broken file");
        holds(By::Json, &old);
    }
    for by in [By::Rssl, By::Json] {
        holds(by, &old);
        holds(by, &new);
    }
    publish(&file, &[&second]);
    for by in [By::Rssl, By::Json] {
        while !is_refused(&takes(by, &old)) {
            in_time("the first key still holds");
        }
        holds(by, &new);
    }
}
