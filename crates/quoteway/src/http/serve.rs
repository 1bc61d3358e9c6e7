//! Sockets, requests and answers: HTTP/1.1 on a TCP port and, if wanted, on a Unix socket, in a thread of its own.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::access::{Access, Denial, Role, User};
use super::api::{self, Answer, Api, Asked, Fault};
use super::history::Histories;
use super::threads::Threads;
use super::{About, assets};
use crate::agents::lifecycle::Lifecycle;
use crate::agents::permissions::Administration;
use crate::config::Http;

/// Connections at a time; further ones wait to be accepted.
const CONNECTIONS: usize = 64;
/// Bytes of a request's body.
const BODY_MAX: usize = 64 << 10;
/// Slice of time sharing of the thread, microseconds: an answer takes several turns of this thread and of others, each of which waits for a
/// processor less than with the kernel's 3,000. Serving threads have less by default (`slice_us`), and so come first.
const SLICE_US: u32 = 300;
/// How long a request's body may take to come.
const BODY_PATIENCE: Duration = Duration::from_secs(10);

/// The thread of HTTP; it ends with the process, and takes its Unix socket away when this is dropped.
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    socket: Option<PathBuf>,
    histories: Arc<Histories>,
}

impl Running {
    /// The address for a browser of this machine.
    pub fn url(&self) -> String {
        format!("http://{}/", crate::roles::process::show(self.address))
    }

    /// Keeps the prices of items from now on, before the page asks for them.
    pub fn remember(&self, service: &str, names: &[String]) {
        self.histories.remember(service, names);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(path) = &self.socket {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Opens the port and serves. `None` where it is off; and where the usual port is taken, which is said with the flag that changes it:
/// no server stays down for its web page.
///
/// # Errors
/// A port that was asked for cannot be had, or the system gives no thread.
pub fn start(
    config: &Http,
    about: About,
    life: &Lifecycle,
    administration: Option<Administration>,
) -> Result<Option<Running>, String> {
    if !config.enabled {
        return Ok(None);
    }
    let at = crate::agents::address(&config.interface, config.port).map_err(|e| e.to_string())?;
    let listener = match std::net::TcpListener::bind(at) {
        Ok(listener) => listener,
        Err(e) if e.kind() == io::ErrorKind::AddrInUse && config.port == Http::default().port => {
            tracing::warn!(
                "no web page and no metrics: port {} ({}) is taken by another program; --http-port PORT (http.port) chooses another, 0 a free one",
                at.port(),
                at.ip()
            );
            return Ok(None);
        }
        Err(e) => {
            return Err(crate::agents::naming("HTTP", at, "--http-port (http.port)", &e).to_string());
        }
    };
    let address = listener.local_addr().map_err(|e| e.to_string())?;
    let socket = (!config.socket.is_empty()).then(|| PathBuf::from(&config.socket));
    let unix = socket.as_deref().map(open_socket).transpose()?;
    let threads = Threads::new(life.askers().to_vec());
    let histories = Arc::new(Histories::new(about.rssl));
    let api = Api { threads, about, life: life.clone(), administration, histories: histories.clone() };
    let api = Arc::new(api);
    let listeners = (listener, unix);
    let access = Arc::new(Access::new(users(config)));
    let followed = access.clone();
    life.follow(Box::new(move |config| followed.set_users(users(&config.http))));
    let patience = Duration::from_secs(config.request_timeout_s.into());
    let (ready, is_ready) = mpsc::channel();
    let run = move || {
        crate::config::slice("the thread of HTTP", SLICE_US);
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build() {
            Ok(runtime) => runtime,
            Err(e) => return drop(ready.send(Err(e))),
        };
        let served = runtime.block_on(serve(listeners, api, (access, patience), ready));
        if let Err(e) = served {
            tracing::error!("the thread of HTTP has ended: {e}");
        }
    };
    std::thread::Builder::new().name("http".into()).spawn(run).map_err(|e| format!("no thread for HTTP: {e}"))?;
    is_ready.recv().map_err(|e| e.to_string())?.map_err(|e| format!("HTTP cannot be served: {e}"))?;
    Ok(Some(Running { address, socket, histories }))
}

fn users(config: &Http) -> Vec<User> {
    config.users.iter().filter_map(|user| user.parse().ok()).collect()
}

/// A Unix socket that the process's user alone may open. One that a dead process has left is taken over.
fn open_socket(path: &Path) -> Result<std::os::unix::net::UnixListener, String> {
    use std::os::unix::net::{UnixListener, UnixStream};
    let failed = |e: io::Error| format!("http.socket {}: {e}", path.display());
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|known| known.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err() {
        std::fs::remove_file(path).map_err(failed)?;
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}

type Doors = (std::net::TcpListener, Option<std::os::unix::net::UnixListener>);

async fn serve(
    (tcp, unix): Doors,
    api: Arc<Api>,
    (access, patience): (Arc<Access>, Duration),
    ready: mpsc::Sender<io::Result<()>>,
) -> io::Result<()> {
    let open = || {
        tcp.set_nonblocking(true)?;
        let unix =
            unix.map(|unix| unix.set_nonblocking(true).and_then(|()| UnixListener::from_std(unix))).transpose()?;
        Ok::<_, io::Error>((TcpListener::from_std(tcp)?, unix))
    };
    let (tcp, unix) = match open() {
        Ok(doors) => doors,
        Err(e) => {
            let _ = ready.send(Err(e));
            return Ok(());
        }
    };
    let _ = ready.send(Ok(()));
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    if let Some(unix) = unix {
        // Whoever may open the socket is an operator.
        let everybody = Serving { api: api.clone(), access: Arc::new(Access::new(Vec::new())), patience };
        let room = room.clone();
        tokio::spawn(async move {
            while let Some(permit) = place(&room).await {
                match unix.accept().await {
                    Ok((stream, _)) => {
                        tokio::spawn(connection(stream, "unix socket".into(), everybody.clone(), permit));
                    }
                    Err(e) => not_accepted(&e).await,
                }
            }
        });
    }
    let serving = Serving { api, access, patience };
    while let Some(permit) = place(&room).await {
        match tcp.accept().await {
            Ok((stream, peer)) => {
                let _ = stream.set_nodelay(true);
                tokio::spawn(connection(stream, peer.to_string(), serving.clone(), permit));
            }
            Err(e) => not_accepted(&e).await,
        }
    }
    Ok(())
}

/// A place for the next connection, when there is one.
async fn place(room: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    if room.available_permits() == 0 {
        tracing::info!("all {CONNECTIONS} connections of HTTP are taken: the next one waits");
    }
    room.clone().acquire_owned().await.ok()
}

/// Out of descriptors, or the peer is gone already.
async fn not_accepted(e: &io::Error) {
    tracing::warn!("a connection of HTTP cannot be accepted: {e}");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// What the requests of a port, or of the Unix socket, are answered from.
#[derive(Clone)]
struct Serving {
    api: Arc<Api>,
    access: Arc<Access>,
    /// For the head of a request.
    patience: Duration,
}

async fn connection<S>(stream: S, peer: String, serving: Serving, permit: OwnedSemaphorePermit)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let has_asked = AtomicBool::new(false);
    let service = service_fn(|request| {
        has_asked.store(true, Ordering::Relaxed);
        let (serving, peer) = (serving.clone(), peer.clone());
        async move { Ok::<_, Infallible>(respond(&serving, &peer, request).await) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(serving.patience).max_buf_size(64 << 10);
    if let Err(e) = builder.serve_connection(TokioIo::new(stream), service).await {
        let e = with_cause(&e);
        if has_asked.load(Ordering::Relaxed) {
            // A browser leaves as it likes.
            tracing::debug!("a connection of HTTP from {peer} has ended: {e}");
        } else {
            tracing::info!("connection of HTTP from {peer} refused: {e}");
        }
    }
    drop(permit);
}

/// An error in words, with what is behind it.
fn with_cause(e: &hyper::Error) -> String {
    let timed_out = if e.is_timeout() { "no request in time (http.request_timeout_s): " } else { "" };
    let cause = std::error::Error::source(e).map_or_else(String::new, |cause| format!(" ({cause})"));
    format!("{timed_out}{e}{cause}")
}

async fn respond(serving: &Serving, peer: &str, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let head_only = request.method() == Method::HEAD;
    let mut response = match answer(serving, peer, request).await {
        Ok(response) => response,
        Err(Refusal { fault, denial }) => {
            let mut response = json(fault.status, &api::fault(&fault));
            if denial == Some(Denial::WhoAreYou) {
                let challenge = HeaderValue::from_static("Basic realm=\"Quoteway\", charset=\"UTF-8\"");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            }
            if denial.is_some() {
                tracing::info!("HTTP request from {peer} refused: {}", fault.why);
            }
            response
        }
    };
    let headers = response.headers_mut();
    // The page talks to this process alone, over HTTP and WebSocket, and is shown in no frame.
    let policy = "default-src 'self'; connect-src 'self' ws: wss:; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if head_only { response.map(|_| Full::default()) } else { response }
}

/// Why a request is not answered.
struct Refusal {
    fault: Fault,
    denial: Option<Denial>,
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self { fault, denial: None }
    }
}

impl From<Denial> for Refusal {
    fn from(denial: Denial) -> Self {
        let (status, why) = match denial {
            Denial::WhoAreYou => (401, "a name and a password are wanted, or others"),
            Denial::MayNot => (403, "this needs an operator"),
            Denial::Foreign => {
                (403, "the request comes from a page of another server, or by a name that is not this machine's")
            }
        };
        Self { fault: Fault::new(status, why), denial: Some(denial) }
    }
}

async fn answer(serving: &Serving, peer: &str, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Refusal> {
    let method = if request.method() == Method::HEAD { "GET".to_owned() } else { request.method().to_string() };
    let path = request.uri().path().to_owned();
    if let Some((kind, bytes)) = assets::find(&path).filter(|_| method == "GET") {
        serving.access.check(request.headers(), Role::Viewer, false)?;
        return Ok(typed(200, kind, Bytes::from_static(bytes)));
    }
    let (endpoint, places) = api::find(&method, &path).map_err(|others| {
        if others.is_empty() {
            Fault::new(404, format!("there is no {path}; /api/v1/openapi.json says what there is"))
        } else {
            Fault::new(405, format!("{path} takes {}", others.join(", ")))
        }
    })?;
    let caller = serving.access.check(request.headers(), endpoint.role, endpoint.method != "GET")?;
    let query = request.uri().query().unwrap_or_default();
    let query = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let caller = format!("{} {} at {peer}", caller.role.name(), caller.name);
    let body = if endpoint.method == "GET" { Value::Null } else { read_body(request).await? };
    let asked = Asked { places, query, body, caller };
    Ok(match (endpoint.handle)(&serving.api, &asked).await? {
        Answer::Json(text) => typed(200, JSON, text.into()),
        Answer::Status(status, value) => json(status, &value),
        Answer::Text(kind, text) => typed(200, kind, text.into()),
    })
}

/// The body of an action: a JSON object, or nothing.
async fn read_body(request: Request<Incoming>) -> Result<Value, Fault> {
    let collected = tokio::time::timeout(BODY_PATIENCE, Limited::new(request.into_body(), BODY_MAX).collect()).await;
    let body = collected.map_err(|_| Fault::new(408, "the body did not come in time"))?;
    let body = body.map_err(|e| Fault::new(413, format!("the body cannot be read: {e}")))?.to_bytes();
    if body.is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let value: Result<Value, _> = serde_json::from_slice(&body);
    value.ok().filter(Value::is_object).ok_or_else(|| Fault::new(400, "the body is no JSON object"))
}

const JSON: &str = "application/json";

fn json(status: u16, value: &Value) -> Response<Full<Bytes>> {
    typed(status, JSON, value.to_string().into())
}

fn typed(status: u16, kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
