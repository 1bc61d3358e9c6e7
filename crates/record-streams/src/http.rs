//! HTTP for object stores: hyper on a connection each, over TLS with `ring` as everywhere.
//!
//! Requests are few and long, parts of some megabytes, so connections are not kept.

use crate::target::Access;
use async_trait::async_trait;
use http_body_util::BodyExt as _;
use hyper::Uri;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue};
use hyper_util::rt::TokioIo;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Makes connections to servers by name.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    tls: Arc<ClientConfig>,
}

impl Connector {
    /// Servers are known by the certificates of the system, and those that are named.
    ///
    /// # Errors
    /// The file of certificates cannot be read; the text says why.
    pub(crate) fn new(access: &Access) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(path) = &access.certificates {
            let problem = |what: String| format!("{}: {what}", path.display());
            for certificate in CertificateDer::pem_file_iter(path).map_err(|e| problem(e.to_string()))? {
                let certificate = certificate.map_err(|e| problem(e.to_string()))?;
                roots.add(certificate).map_err(|e| problem(e.to_string()))?;
            }
        }
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(ring)
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { tls: Arc::new(config) })
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Connector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let uri = request.uri().clone();
        let is_encrypted = uri.scheme_str() == Some("https");
        let host = uri.host().ok_or_else(|| no_host(&uri))?;
        let port = uri.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
        // Brackets of an address are the text's, not the address's.
        let name = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((name, port)).await.map_err(|e| HttpError::new(HttpErrorKind::Connect, e))?;
        if !is_encrypted {
            return send(stream, request, &uri).await;
        }
        let server = ServerName::try_from(name.to_owned()).map_err(|e| HttpError::new(HttpErrorKind::Connect, e))?;
        let stream = TlsConnector::from(self.tls.clone()).connect(server, stream).await;
        send(stream.map_err(|e| HttpError::new(HttpErrorKind::Connect, e))?, request, &uri).await
    }
}

/// Sends a request over a new connection, which lives until the answer is read.
async fn send<S>(stream: S, mut request: HttpRequest, uri: &Uri) -> Result<HttpResponse, HttpError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let host = uri.authority().map_or("", |authority| authority.as_str());
    let host = HeaderValue::from_str(host).map_err(|e| HttpError::new(HttpErrorKind::Connect, e))?;
    request.headers_mut().entry(HOST).or_insert(host);
    // A server is asked for a path, only a proxy for all of it.
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse().map_err(|e| HttpError::new(HttpErrorKind::Request, e))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|e| HttpError::new(HttpErrorKind::Request, e))?;
    // What happens to the connection is told by the request and the body that wait for it.
    tokio::spawn(connection);
    let answer = sender.send_request(request).await.map_err(failed)?;
    Ok(answer.map(|body| HttpResponseBody::new(body.map_err(failed))))
}

fn failed(error: hyper::Error) -> HttpError {
    let kind = if error.is_timeout() { HttpErrorKind::Timeout } else { HttpErrorKind::Interrupted };
    HttpError::new(kind, error)
}

fn no_host(uri: &Uri) -> HttpError {
    HttpError::new(HttpErrorKind::Connect, std::io::Error::other(format!("{uri} names no host")))
}
