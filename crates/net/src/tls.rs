//! TLS between a connection and a protocol, without I/O: ciphertext in, plaintext out, and the other way round.
//!
//! A [`TlsServer`] or a [`TlsClient`] holds what all sessions of one side share; each connection has a [`TlsSession`]. TLS 1.2 and
//! 1.3, by rustls with the `ring` provider.

use std::fmt;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, ClientConnection, ConfigBuilder, Connection, RootCertStore, ServerConfig, ServerConnection,
    WantsVerifier,
};

/// Why TLS does not work.
#[derive(Debug)]
#[non_exhaustive]
pub enum TlsError {
    /// A file of ours cannot be read or holds nothing of use.
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Certificate, key or name of ours are not usable.
    Setup(String),
    /// The peer, its certificate or what it sent. The alert for it is in the output that comes with the error.
    Peer(rustls::Error),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, problem } => write!(f, "{}: {problem}", path.display()),
            Self::Setup(problem) => f.write_str(problem),
            Self::Peer(error) => write!(f, "TLS: {}", InWords(error)),
        }
    }
}

impl std::error::Error for TlsError {}

/// What went wrong between two peers, and what to do about it.
struct InWords<'a>(&'a rustls::Error);

impl fmt::Display for InWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use rustls::{AlertDescription as Alert, CertificateError as Bad, Error};
        let advice = match self.0 {
            // The library that looks at certificates has no words for it.
            Error::InvalidCertificate(Bad::Other(other)) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
                return f.write_str(
                    "invalid peer certificate: it is that of a CA (basicConstraints CA:TRUE), which is none of a server or a \
                     client: make one with CA:FALSE, as docs/operating/websocket.md does",
                );
            }
            Error::InvalidCertificate(Bad::UnknownIssuer) => {
                "the CA file here has neither its CA nor, if it is self-signed, itself"
            }
            Error::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => {
                "it is to be renewed, unless the clock here is wrong"
            }
            Error::InvalidCertificate(Bad::NotValidYet | Bad::NotValidYetContext { .. }) => {
                "it counts later, unless the clock here is wrong"
            }
            Error::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => {
                "it is to have the name or address that is connected to (subjectAltName)"
            }
            Error::InvalidCertificate(Bad::BadSignature) => {
                "another CA of the same name has signed it, or it was changed"
            }
            Error::InvalidCertificate(Bad::InvalidPurpose | Bad::InvalidPurposeContext { .. }) => {
                "its extendedKeyUsage is to name what it is shown as: serverAuth or clientAuth"
            }
            Error::NoCertificatesPresented => "one is wanted here that leads to the CA file",
            Error::AlertReceived(Alert::UnknownCA) => {
                "the peer does not trust the certificate that it was shown: it wants its CA"
            }
            Error::AlertReceived(Alert::BadCertificate | Alert::UnsupportedCertificate | Alert::CertificateUnknown) => {
                "the peer does not take the certificate that it was shown: its log says why"
            }
            Error::AlertReceived(Alert::CertificateExpired) => "the certificate that the peer was shown has expired",
            Error::AlertReceived(Alert::CertificateRequired) => "the peer wants a certificate, and was shown none",
            Error::InvalidMessage(_) => "the peer speaks no TLS at this port, or something in between does",
            _ => return fmt::Display::fmt(self.0, f),
        };
        write!(f, "{}: {advice}", self.0)
    }
}

fn bad_file(path: &Path, error: pem::Error, wanted: &str) -> TlsError {
    let problem = match error {
        pem::Error::NoItemsFound => format!("there is no {wanted} in it (PEM is expected)"),
        pem::Error::Io(error) => match error.kind() {
            io::ErrorKind::NotFound => format!("the file with the {wanted} is not there"),
            _ => error.to_string(),
        },
        other => format!("no readable {wanted}: {other:?}"),
    };
    TlsError::File { path: path.to_owned(), problem }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let fail = |error| bad_file(path, error, "certificate");
    let certificates: Vec<_> =
        CertificateDer::pem_file_iter(path).map_err(fail)?.collect::<Result<_, _>>().map_err(fail)?;
    if certificates.is_empty() { Err(fail(pem::Error::NoItemsFound)) } else { Ok(certificates) }
}

fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    let (added, _) = store.add_parsable_certificates(certificates(path)?);
    if added == 0 {
        return Err(TlsError::File { path: path.to_owned(), problem: "none of its certificates is usable".to_owned() });
    }
    Ok(store)
}

/// How often the files of a certificate are looked at, at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A certificate and its key, read again when one of their files has changed. Those who are connected keep what they have.
struct Reloading {
    certificate: PathBuf,
    key: PathBuf,
    provider: Arc<CryptoProvider>,
    current: Mutex<Current>,
    has_news: AtomicBool,
}

struct Current {
    certified: Arc<CertifiedKey>,
    /// When the files changed last, as far as was seen.
    stamps: Stamps,
    looked_at: Instant,
    news: Option<String>,
}

type Stamps = [Option<(SystemTime, u64)>; 2];

impl fmt::Debug for Reloading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloading").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

impl Reloading {
    fn open(certificate: &Path, key: &Path, provider: Arc<CryptoProvider>) -> Result<Self, TlsError> {
        let stamps = stamps(certificate, key);
        let certified = Arc::new(certified(certificate, key, &provider)?);
        let current = Current { certified, stamps, looked_at: Instant::now(), news: None };
        Ok(Self {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            provider,
            current: Mutex::new(current),
            has_news: AtomicBool::new(false),
        })
    }

    /// A thread that failed with the lock left nothing half done.
    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the files, and takes over what is in them if they are others and fit each other.
    fn follow(&self, current: &mut Current) {
        let now = stamps(&self.certificate, &self.key);
        if now == current.stamps {
            return;
        }
        current.stamps = now;
        let news = match certified(&self.certificate, &self.key, &self.provider) {
            Ok(certified) => {
                current.certified = Arc::new(certified);
                format!("the certificate of {} was read again", self.certificate.display())
            }
            // Either file may have come before the other; the next look finds both.
            Err(error) => format!("{error}; the certificate stays the one of before"),
        };
        current.news = Some(news);
        self.has_news.store(true, Ordering::Release);
    }
}

impl ResolvesServerCert for Reloading {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let mut current = self.current();
        if current.looked_at.elapsed() >= LOOK_EVERY {
            current.looked_at = Instant::now();
            self.follow(&mut current);
        }
        Some(Arc::clone(&current.certified))
    }
}

fn stamps(certificate: &Path, key: &Path) -> Stamps {
    [certificate, key].map(|path| {
        let about = std::fs::metadata(path).ok()?;
        Some((about.modified().ok()?, about.len()))
    })
}

fn certified(certificate: &Path, key: &Path, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let chain = certificates(certificate)?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| bad_file(key, error, "private key"))?;
    CertifiedKey::from_der(chain, private, provider)
        .map_err(|error| TlsError::Setup(format!("{} and {}: {error}", certificate.display(), key.display())))
}

/// The accepting side: a certificate and its key. Both are read again when their files change.
#[derive(Clone, Debug)]
pub struct TlsServer {
    config: Arc<ServerConfig>,
    certificate: Arc<Reloading>,
}

impl TlsServer {
    /// From PEM files: the certificate with its chain, leaf first, and the private key. With `client_roots`, clients must present a
    /// certificate that leads to one of its certificates.
    ///
    /// # Errors
    /// When a file cannot be used, or key and certificate do not belong together.
    pub fn from_files(certificate: &Path, key: &Path, client_roots: Option<&Path>) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let certificate = Arc::new(Reloading::open(certificate, key, Arc::clone(&provider))?);
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Setup(error.to_string()))?;
        let builder = match client_roots {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(path)?), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| TlsError::Setup(error.to_string()))?)
            }
        };
        let config = Arc::new(builder.with_cert_resolver(certificate.clone()));
        Ok(Self { config, certificate })
    }

    /// What an operator should hear of: that the files have changed, once. Cheap to ask.
    pub fn news(&self) -> Option<String> {
        if !self.certificate.has_news.swap(false, Ordering::AcqRel) {
            return None;
        }
        self.certificate.current().news.take()
    }

    /// A session for a connection that has come in.
    ///
    /// # Errors
    /// rustls has no reason to refuse.
    pub fn accept(&self) -> Result<TlsSession, TlsError> {
        let tls = ServerConnection::new(self.config.clone()).map_err(TlsError::Peer)?;
        Ok(TlsSession::new(tls.into()))
    }
}

/// The connecting side: whom it trusts.
#[derive(Clone, Debug)]
pub struct TlsClient(Arc<ClientConfig>);

impl TlsClient {
    /// Trusts what this machine trusts.
    ///
    /// # Errors
    /// When the machine has no usable root certificates.
    pub fn with_system_roots() -> Result<Self, TlsError> {
        let mut store = RootCertStore::empty();
        let loaded = rustls_native_certs::load_native_certs();
        let (added, _) = store.add_parsable_certificates(loaded.certs);
        if added == 0 {
            let why = loaded.errors.first().map_or_else(String::new, |error| format!(" ({error})"));
            return Err(TlsError::Setup(format!("this machine has no root certificates{why}; name a CA file")));
        }
        Self::trusting(store)
    }

    /// Trusts the certificates of a PEM file and nothing else.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub fn with_roots_from(path: &Path) -> Result<Self, TlsError> {
        Self::trusting(roots(path)?)
    }

    /// As [`TlsClient::with_roots_from`], and shows a certificate of its own to servers that ask for one.
    ///
    /// # Errors
    /// When a file cannot be used, or key and certificate do not belong together.
    pub fn with_certificate(roots_file: &Path, certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain = certificates(certificate)?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| bad_file(key, error, "private key"))?;
        let builder = Self::builder()?.with_root_certificates(roots(roots_file)?);
        let config = builder
            .with_client_auth_cert(chain, private)
            .map_err(|error| TlsError::Setup(format!("{} and {}: {error}", certificate.display(), key.display())))?;
        Ok(Self(Arc::new(config)))
    }

    fn trusting(store: RootCertStore) -> Result<Self, TlsError> {
        Ok(Self(Arc::new(Self::builder()?.with_root_certificates(store).with_no_client_auth())))
    }

    fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, TlsError> {
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Setup(error.to_string()))
    }

    /// A session for an outgoing connection to the host of this name (or address), which the server's certificate must carry. Call
    /// [`TlsSession::process`] without input to get its first message.
    ///
    /// # Errors
    /// When this is no host name.
    pub fn connect(&self, host: &str) -> Result<TlsSession, TlsError> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| TlsError::Setup(format!("`{host}` is neither a host name nor an address")))?;
        let tls = ClientConnection::new(self.0.clone(), name).map_err(TlsError::Peer)?;
        Ok(TlsSession::new(tls.into()))
    }
}

/// The TLS of one connection.
pub struct TlsSession {
    tls: Box<Connection>,
    peer_closed: bool,
    /// Why nothing more is taken.
    failed: Option<rustls::Error>,
}

impl TlsSession {
    fn new(mut tls: Connection) -> Self {
        // Bytes given to encrypt leave at once with `out`; before the handshake is done the caller bounds them.
        tls.set_buffer_limit(None);
        Self { tls: Box::new(tls), peer_closed: false, failed: None }
    }

    /// Takes ciphertext from the peer: all of it; an incomplete record is kept. Plaintext goes to `plaintext`, in pieces of at most
    /// 16 KB; what must be sent to the peer is appended to `out`.
    ///
    /// # Errors
    /// When the peer or what it sent is not acceptable: send `out`, which ends with the alert, and close.
    pub fn process(
        &mut self,
        mut input: &[u8],
        out: &mut Vec<u8>,
        mut plaintext: impl FnMut(&[u8]),
    ) -> Result<(), TlsError> {
        self.check()?;
        while !input.is_empty() && !self.peer_closed {
            // Takes a few KB of the input at a time, so that there is never more than a record or two of plaintext in between.
            let taken = self.tls.read_tls(&mut input).map_err(|error| TlsError::Setup(error.to_string()))?;
            match self.tls.process_new_packets() {
                Ok(state) => self.peer_closed = state.peer_has_closed(),
                Err(error) => {
                    self.failed = Some(error.clone());
                    self.flush(out);
                    return Err(TlsError::Peer(error));
                }
            }
            let mut reader = self.tls.reader();
            // An error is "nothing now" or "the end": neither is one here.
            while let Ok(bytes) = reader.fill_buf() {
                let count = bytes.len();
                if count == 0 {
                    break;
                }
                plaintext(bytes);
                reader.consume(count);
            }
            if taken == 0 {
                break;
            }
        }
        self.flush(out);
        Ok(())
    }

    /// Appends the ciphertext of `plaintext` to `out`. Before the handshake is done the plaintext is kept, and follows with it.
    ///
    /// # Errors
    /// When the session has failed.
    pub fn encrypt(&mut self, plaintext: &[u8], out: &mut Vec<u8>) -> Result<(), TlsError> {
        self.check()?;
        self.tls.writer().write_all(plaintext).map_err(|error| TlsError::Setup(error.to_string()))?;
        self.flush(out);
        Ok(())
    }

    /// Appends the message that says that nothing more will be sent; close after it has been sent.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        if self.failed.is_none() {
            self.tls.send_close_notify();
            self.flush(out);
        }
    }

    fn check(&self) -> Result<(), TlsError> {
        self.failed.as_ref().map_or(Ok(()), |error| Err(TlsError::Peer(error.clone())))
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        while self.tls.wants_write() {
            // A vector takes everything.
            if !matches!(self.tls.write_tls(out), Ok(1..)) {
                break;
            }
        }
    }

    /// Whether the handshake is done.
    pub fn is_established(&self) -> bool {
        !self.tls.is_handshaking()
    }

    /// Whether the peer has said that it sends nothing more. A connection that ends without may have been cut.
    pub fn peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// Protocol version and cipher suite, when they have been agreed on.
    pub fn description(&self) -> Option<String> {
        let (version, suite) = (self.tls.protocol_version()?, self.tls.negotiated_cipher_suite()?);
        Some(format!("{version:?} {:?}", suite.suite()))
    }
}

impl fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSession").field("established", &self.is_established()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::{AlertDescription, CertificateError, Error, OtherError};

    use super::*;

    #[test]
    fn a_certificate_that_is_not_taken_is_told_in_words() {
        #[derive(Debug)]
        struct CaUsedAsEndEntity;
        impl fmt::Display for CaUsedAsEndEntity {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("CaUsedAsEndEntity")
            }
        }
        impl std::error::Error for CaUsedAsEndEntity {}
        let other = CertificateError::Other(OtherError(Arc::new(CaUsedAsEndEntity)));
        for (error, words) in [
            (Error::InvalidCertificate(other), "CA:FALSE"),
            (Error::InvalidCertificate(CertificateError::UnknownIssuer), "the CA file here"),
            (Error::InvalidCertificate(CertificateError::Expired), "renewed"),
            (Error::InvalidCertificate(CertificateError::NotValidForName), "subjectAltName"),
            (Error::NoCertificatesPresented, "one is wanted"),
            (Error::AlertReceived(AlertDescription::UnknownCA), "does not trust"),
            (Error::HandshakeNotComplete, "handshake"),
        ] {
            let said = TlsError::Peer(error).to_string();
            assert!(said.starts_with("TLS: ") && said.contains(words) && !said.contains("OtherError"), "{said}");
        }
    }
}
