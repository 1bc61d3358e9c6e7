//! Between the socket of a unicast connection and its frames: TLS, or nothing.

use std::io;
use std::path::Path;

use net::tcp::{ConnId, SendOutcome, Tcp};
use net::tls::{TlsClient, TlsError, TlsServer, TlsSession};

/// Certificates and keys of connections; none without `hub.tls_ca_file`.
#[derive(Debug, Default)]
pub(crate) struct Encryption {
    server: Option<TlsServer>,
    client: Option<TlsClient>,
}

impl Encryption {
    /// The accepting side's: who connects has to show a certificate that leads to `tls_ca_file`.
    pub(crate) fn server(c: &config::Hub) -> io::Result<Self> {
        let files = files(c);
        let server = files.map(|[ca, cert, key]| TlsServer::from_files(cert, key, Some(ca))).transpose();
        Ok(Self { server: server.map_err(|e| failed(&e))?, client: None })
    }

    /// The connecting side's: it shows a certificate, and checks that of the other side and its address.
    pub(crate) fn client(c: &config::Hub) -> io::Result<Self> {
        let client = files(c).map(|[ca, cert, key]| TlsClient::with_certificate(ca, cert, key)).transpose();
        Ok(Self { server: None, client: client.map_err(|e| failed(&e))? })
    }

    /// For a connection that has come in.
    pub(crate) fn accept(&self) -> Result<Wire, TlsError> {
        Ok(Wire(self.server.as_ref().map(TlsServer::accept).transpose()?))
    }

    /// Says in the log that the files of the accepting side's certificate have changed, once. A handshake is what has them looked at.
    pub(crate) fn log_news(&self) {
        if let Some(news) = self.server.as_ref().and_then(TlsServer::news) {
            tracing::warn!("hub: {news}");
        }
    }

    /// For a connection to `host:port`.
    pub(crate) fn connect(&self, host: &str) -> Result<Wire, TlsError> {
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name).trim_matches(['[', ']']);
        Ok(Wire(self.client.as_ref().map(|client| client.connect(name)).transpose()?))
    }
}

fn files(c: &config::Hub) -> Option<[&Path; 3]> {
    let path = |name: &'_ String| !name.is_empty();
    [&c.tls_ca_file, &c.tls_cert_file, &c.tls_key_file]
        .into_iter()
        .all(path)
        .then(|| [Path::new(&c.tls_ca_file), Path::new(&c.tls_cert_file), Path::new(&c.tls_key_file)])
}

fn failed(e: &TlsError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("hub.tls_...: {e}"))
}

/// The layer between one connection and its frames.
#[derive(Debug, Default)]
pub(crate) struct Wire(Option<TlsSession>);

impl Wire {
    /// Takes bytes of the socket and gives those of the frames; what has to be said in answer is sent.
    ///
    /// # Errors
    /// The peer, its certificate or what it sent.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        (tcp, conn, cipher): (&mut Tcp, ConnId, &mut Vec<u8>),
        mut frames: impl FnMut(&[u8]),
    ) -> Result<(), TlsError> {
        let Some(tls) = &mut self.0 else {
            frames(bytes);
            return Ok(());
        };
        cipher.clear();
        let processed = tls.process(bytes, cipher, frames);
        if !cipher.is_empty() {
            tcp.send(conn, cipher);
        }
        processed
    }

    /// Sends bytes of frames; before a handshake is done they follow it.
    #[inline]
    pub(crate) fn send(&mut self, bytes: &[u8], (tcp, conn, cipher): (&mut Tcp, ConnId, &mut Vec<u8>)) -> SendOutcome {
        let Some(tls) = &mut self.0 else { return tcp.send(conn, bytes) };
        cipher.clear();
        // A connection that has failed is closed where it failed.
        let _ = tls.encrypt(bytes, cipher);
        tcp.send(conn, cipher)
    }
}
