//! Rights from a server: the text of a rights file, or the same as JSON, by HTTP.
//!
//! Each request says what is known (`If-None-Match`) and for how long the server may hold it until there is news (`Prefer: wait=N`). 200
//! brings a text, 304 says that nothing has changed; everything else, and silence, is a server that is not there.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use net::tls::TlsError;
use permissions::rights::Rights;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};
use ureq::{Agent, Body};

use super::{Look, file};

/// The longest text that is taken, bytes: many times the rights of a large site.
const TEXT_MAX: u64 = 64 << 20;
/// Pause before a server that is not there is asked again.
const RETRY: Duration = Duration::from_secs(1);

/// A server of rights, and what it said last.
pub(in crate::agents::permissions) struct RightsServer {
    url: String,
    agent: Agent,
    token_file: String,
    /// How long it may hold a request.
    poll: Duration,
    /// Of the text that it gave last, once there are rights: without any, "nothing has changed" is no answer.
    etag: Option<String>,
    /// `None` until it has answered for the first time.
    rights: Option<Arc<Rights>>,
    text: String,
    pause: Duration,
}

/// A server's answer.
enum Answer {
    NotModified,
    Text { text: String, is_json: bool, etag: Option<String> },
}

impl RightsServer {
    pub(super) fn new(c: &config::Permissions) -> io::Result<Self> {
        let (poll, patience) =
            (Duration::from_secs(c.rights_poll_s.into()), Duration::from_secs(c.rights_timeout_s.into()));
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .root_certs(roots(&c.rights_ca_file)?)
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .timeout_connect(Some(patience))
            .timeout_global(Some(poll + patience))
            .http_status_as_error(false)
            .max_redirects(0)
            .build();
        Ok(Self {
            url: c.rights_url.clone(),
            agent: config.into(),
            token_file: c.rights_token_file.clone(),
            poll,
            etag: None,
            rights: None,
            text: String::new(),
            pause: file::LOOK,
        })
    }

    pub(super) fn rights(&self) -> Option<Arc<Rights>> {
        self.rights.clone()
    }

    pub(super) fn name(&self) -> String {
        format!("the server of rights at {}", self.url)
    }

    /// How long to wait before the next look.
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// Asks the server; takes as long as it takes to answer.
    pub(super) fn look(&mut self) -> Look {
        let asked_at = Instant::now();
        let look = match self.ask() {
            Ok(Answer::NotModified) => Look::Same,
            Ok(Answer::Text { text, is_json, etag }) => self.take(text, is_json, etag),
            Err(why) => Look::Gone(why),
        };
        self.pause = match look {
            Look::New => file::LOOK,
            // A server that does not hold requests is not to be asked all the time.
            Look::Same => self.poll.saturating_sub(asked_at.elapsed()).max(file::LOOK),
            Look::Gone(_) => RETRY,
        };
        look
    }

    fn ask(&self) -> Result<Answer, String> {
        let mut request = self.agent.get(&self.url).header("Accept", "application/toml, application/json, text/plain");
        request = request.header("Prefer", format!("wait={}", self.poll.as_secs()));
        if let Some(etag) = &self.etag {
            request = request.header("If-None-Match", etag);
        }
        if !self.token_file.is_empty() {
            let token = config::read_named_text(self.token_file.as_ref())
                .map_err(|e| format!("permissions.rights_token_file {}: {e}", self.token_file))?;
            request = request.header("Authorization", format!("Bearer {}", token.trim()));
        }
        let response = request.call().map_err(|e| in_words(&e))?;
        match response.status().as_u16() {
            // Without a text that it could mean, the answer means nothing.
            304 if self.etag.is_some() => Ok(Answer::NotModified),
            200 => read(response),
            other => Err(format!("it answers {other}")),
        }
    }

    /// Takes over a text, unless it has faults.
    fn take(&mut self, text: String, is_json: bool, etag: Option<String>) -> Look {
        if text == self.text && self.rights.is_some() {
            self.etag = etag;
            return Look::Same;
        }
        let toml = if is_json { toml_of(&text) } else { Ok(text.clone()) };
        let before = self.rights.as_ref().map(|_| self.text.as_str());
        let read = |toml: String| {
            let rights = Rights::parse(&self.url, &toml).map_err(|e| e.to_string())?;
            if rights.users().next().is_none() {
                return Err(format!("{}: {}", self.url, config::NOBODY_IN_RIGHTS));
            }
            // JSON says by itself where it ends.
            if !is_json {
                super::complete(&text, before).map_err(|why| format!("{}: {why}", self.url))?;
            }
            Ok(rights)
        };
        match toml.and_then(read) {
            Ok(rights) => {
                (self.text, self.rights, self.etag) = (text, Some(rights.into()), etag);
                Look::New
            }
            Err(faults) if self.rights.is_some() => {
                self.etag = etag;
                tracing::error!("the rights stay as they were: {faults}");
                Look::Same
            }
            Err(faults) => Look::Gone(faults),
        }
    }
}

/// Why a server cannot be asked; of a certificate that is not taken, what to do about it.
fn in_words(e: &ureq::Error) -> String {
    // The client names no source of an I/O error, and that of what it carries is none either.
    let mut cause: Option<&(dyn std::error::Error + 'static)> = match e {
        ureq::Error::Io(io) => Some(io),
        other => Some(other),
    };
    while let Some(at) = cause {
        let carried = at.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let carried = carried.and_then(|carried| carried.downcast_ref::<rustls::Error>());
        if let Some(tls) = at.downcast_ref::<rustls::Error>().or(carried) {
            return TlsError::Peer(tls.clone()).to_string();
        }
        cause = at.source();
    }
    e.to_string()
}

fn read(mut response: ureq::http::Response<Body>) -> Result<Answer, String> {
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let is_json = header("content-type").is_some_and(|kind| kind.contains("json"));
    let etag = header("etag");
    let text = response.body_mut().with_config().limit(TEXT_MAX).read_to_string().map_err(|e| e.to_string())?;
    Ok(Answer::Text { text, is_json, etag })
}

/// Rights as JSON have the members of the file's tables.
fn toml_of(json: &str) -> Result<String, String> {
    let value: toml::Value = serde_json::from_str(json).map_err(|e| format!("the rights are no JSON: {e}"))?;
    toml::to_string(&value).map_err(|e| format!("the rights cannot be a rights file: {e}"))
}

/// The certificates to which a server's must lead.
fn roots(ca_file: &str) -> io::Result<RootCerts> {
    if ca_file.is_empty() {
        let found = rustls_native_certs::load_native_certs().certs;
        let certificates: Vec<_> = found.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
        return Ok(RootCerts::new_with_certs(&certificates));
    }
    let wrong = |what: String| io::Error::other(format!("permissions.rights_ca_file {ca_file}: {what}"));
    let pem = config::read_named(Path::new(ca_file)).map_err(|e| wrong(e.to_string()))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|e| wrong(e.to_string()))? {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        return Err(wrong("has no certificate".to_owned()));
    }
    Ok(RootCerts::new_with_certs(&certificates))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::sync::mpsc::{Receiver, channel};
    use std::thread::JoinHandle;

    const ALICE: &str = "version = \"1\"\n[services.FEED]\nid = 1\n[users.alice]\n";

    /// Reads a request, without its body: it has none.
    fn request(stream: &mut impl Read) -> String {
        let mut lines = BufReader::new(stream).lines();
        let head: Vec<String> = lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
        head.join("\n").to_lowercase()
    }

    fn answer(status: &str, headers: &str, body: &str) -> String {
        format!("HTTP/1.1 {status}\r\n{headers}Connection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    /// A server that gives these answers, one a connection, and tells what it was asked.
    fn serve(listener: TcpListener, answers: Vec<String>) -> (JoinHandle<()>, Receiver<String>) {
        let (asked, requests) = channel();
        let thread = std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().expect("a connection");
                asked.send(request(&mut stream)).expect("the test listens");
                stream.write_all(answer.as_bytes()).expect("written");
            }
        });
        (thread, requests)
    }

    fn source(address: SocketAddr, scheme: &str, ca_file: &str) -> config::Permissions {
        config::Permissions {
            rights_url: format!("{scheme}://localhost:{}/rights", address.port()),
            rights_poll_s: 2,
            rights_timeout_s: 5,
            rights_ca_file: ca_file.to_owned(),
            ..config::Permissions::default()
        }
    }

    fn users(server: &RightsServer) -> Vec<String> {
        server.rights().expect("rights").users().map(str::to_owned).collect()
    }

    #[test]
    fn news_come_with_an_etag_and_a_server_that_is_away_comes_back() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        std::fs::write(&token, "secret\n").unwrap();
        let c = config::Permissions { rights_token_file: token.display().to_string(), ..source(address, "http", "") };
        let json = r#"{"version": "2", "services": {"FEED": {"id": 1}}, "users": {"alice": {}, "bob": {}}}"#;
        let (thread, requests) = serve(
            listener,
            vec![
                answer("200 OK", "ETag: \"a\"\r\n", ALICE),
                answer("304 Not Modified", "ETag: \"a\"\r\n", ""),
                answer("200 OK", "ETag: \"b\"\r\nContent-Type: application/json\r\n", json),
                answer("200 OK", "ETag: \"x\"\r\n", ""),
                answer("200 OK", "ETag: \"x\"\r\nContent-Type: application/json\r\n", "{}"),
                answer("200 OK", "ETag: \"x\"\r\n", "version = \"3\"\n[users.alice]\nitem_limit = 1"),
                answer("200 OK", "ETag: \"c\"\r\n", "[users.alice]\ngruops = []\n"),
                answer("503 Service Unavailable", "", ""),
            ],
        );
        let mut server = RightsServer::new(&c).unwrap();
        assert_eq!(server.look(), Look::New);
        let asked = requests.recv().unwrap();
        assert!(asked.starts_with("get /rights http/1.1") && asked.contains("prefer: wait=2"), "{asked}");
        assert!(asked.contains("authorization: bearer secret") && !asked.contains("if-none-match"), "{asked}");
        assert_eq!((users(&server), server.pause()), (vec!["alice".to_owned()], file::LOOK));
        assert_eq!(server.look(), Look::Same);
        assert!(requests.recv().unwrap().contains("if-none-match: \"a\""));
        assert!(server.pause() > Duration::from_secs(1), "it does not hold requests: {:?}", server.pause());
        assert_eq!(server.look(), Look::New);
        assert_eq!(users(&server), ["alice", "bob"]);
        for what in ["nothing", "an empty object", "a line that may go on", "faults"] {
            assert_eq!(server.look(), Look::Same, "{what} is no rights");
        }
        assert_eq!(users(&server), ["alice", "bob"]);
        assert!(matches!(server.look(), Look::Gone(why) if why.contains("503")));
        thread.join().unwrap();
        // Nobody listens.
        assert!(matches!(server.look(), Look::Gone(_)));
        assert_eq!(server.pause(), RETRY);
        let listener = TcpListener::bind(address).unwrap();
        let (thread, requests) = serve(listener, vec![answer("304 Not Modified", "", "")]);
        assert_eq!(server.look(), Look::Same);
        assert!(requests.recv().unwrap().contains("if-none-match: \"c\""));
        thread.join().unwrap();
    }

    #[test]
    fn a_server_that_never_said_anything_that_can_be_read_is_not_there() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let c = source(listener.local_addr().unwrap(), "http", "");
        let (thread, _requests) =
            serve(listener, vec![answer("304 Not Modified", "", ""), answer("200 OK", "ETag: \"a\"\r\n", "nonsense")]);
        let mut server = RightsServer::new(&c).unwrap();
        assert!(matches!(server.look(), Look::Gone(why) if why.contains("304")));
        assert!(matches!(server.look(), Look::Gone(_)) && server.rights().is_none());
        thread.join().unwrap();
    }

    #[test]
    fn the_etag_of_a_first_text_with_faults_is_forgotten() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let c = source(listener.local_addr().unwrap(), "http", "");
        let answers = [("200 OK", "ETag: \"a\"\r\n", "nonsense"), ("304 Not Modified", "", ""), ("200 OK", "", ALICE)];
        let answers = answers.map(|(status, headers, body)| answer(status, headers, body)).to_vec();
        let (thread, requests) = serve(listener, answers);
        let mut server = RightsServer::new(&c).unwrap();
        assert!(matches!(server.look(), Look::Gone(_)));
        requests.recv().unwrap();
        assert!(matches!(server.look(), Look::Gone(_)), "there are no rights that could be the same");
        assert!(!requests.recv().unwrap().contains("if-none-match"));
        assert_eq!((server.look(), users(&server)), (Look::New, vec!["alice".to_owned()]));
        thread.join().unwrap();
    }

    #[test]
    fn a_certificate_has_to_lead_to_the_file() {
        let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (right, wrong) = (folder.path().join("right.pem"), folder.path().join("wrong.pem"));
        std::fs::write(&right, key.cert.pem()).unwrap();
        std::fs::write(&wrong, other.cert.pem()).unwrap();
        let private = rustls::pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![key.cert.der().clone()], private)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let tls = Arc::new(tls);
            for _ in 0..2 {
                let (stream, _) = listener.accept().expect("a connection");
                let session = rustls::ServerConnection::new(tls.clone()).expect("a session");
                let mut stream = rustls::StreamOwned::new(session, stream);
                if request(&mut stream).is_empty() {
                    continue;
                }
                let _ = stream.write_all(answer("200 OK", "ETag: \"a\"\r\n", ALICE).as_bytes());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        });
        let server = |ca: &Path| RightsServer::new(&source(address, "https", &ca.display().to_string())).unwrap();
        let Look::Gone(why) = server(&wrong).look() else { panic!("it is trusted") };
        // Both are their own CAs, and of one name.
        assert!(why.contains("another CA of the same name has signed it"), "{why}");
        let mut trusted = server(&right);
        assert_eq!(trusted.look(), Look::New);
        assert_eq!(users(&trusted), ["alice"]);
        thread.join().unwrap();
        let missing = source(address, "https", &folder.path().join("none.pem").display().to_string());
        assert!(RightsServer::new(&missing).is_err_and(|e| e.to_string().contains("rights_ca_file")));
    }
}
