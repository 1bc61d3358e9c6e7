//! Sockets, requests and answers: HTTP/1.1 on a TCP port and, if wanted, on a Unix socket, in a thread of its own.
//!
//! The port and the Unix socket have [`Places`] of their own, so that nobody at the one is in the way at the other. When there is no
//! descriptor for a connection, it is taken in on one of those that are kept back ([`net::rlimit`]), for a moment: so a process that is full
//! says so.

use std::convert::Infallible;
use std::future::{Future as _, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll};
use std::time::Duration;

use config::{Http, Role, User};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use net::rlimit;
use rssl::ws::pages::Origin;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::access::{Access, Denial, Sent};
use super::answer::{self, Answer, Fault};
use super::api;
use super::asked::{Asked, Parameter};
use super::endpoint::Api;
use super::history::Histories;
use super::paced::{Paced, WRITE_PATIENCE};
use super::places::{self, Bounds, Place, Places, Whose};
use super::threads::Threads;
use super::{About, asked, assets};
use crate::agents::lifecycle::Lifecycle;
use crate::agents::permissions::Administration;

/// Connections that the port has places for. A browser opens six.
const OF_PORT: Bounds = Bounds { connections: 64, answers: 48, answers_per_address: 24, answer_bytes: 16 << 20 };
/// Connections that the Unix socket has places for.
const OF_SOCKET: Bounds = Bounds { connections: 16, answers: 12, answers_per_address: 12, answer_bytes: 16 << 20 };
/// Connections that there are places for when there are no descriptors.
const OF_KEPT_BACK: Bounds = Bounds { connections: 4, answers: 3, answers_per_address: 3, answer_bytes: 4 << 20 };
/// Descriptors that are kept back: those of the port, those of the socket, and some that another thread may catch in that moment.
const KEPT_BACK: u64 = 16;
/// How long a connection on one of them may last.
const MOMENT: Duration = Duration::from_secs(4);
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
        format!("http://{}/", crate::addresses::show(self.address))
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
    let at = config::listening_address(&config.interface, config.port).map_err(|e| e.to_string())?;
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
            return Err(config::listening_fault("HTTP", at, "--http-port (http.port)", &e).to_string());
        }
    };
    let address = listener.local_addr().map_err(|e| e.to_string())?;
    crate::agents::OWN_PAGE.is_at(address.port());
    if let Err(e) = rlimit::keep_back(KEPT_BACK) {
        tracing::warn!("no descriptors are kept back for those who ask how a process is that has none left: {e}");
    }
    let socket = (!config.socket.is_empty()).then(|| PathBuf::from(&config.socket));
    let unix = socket.as_deref().map(open_socket).transpose()?;
    let threads = Threads::new(life.monitors().to_vec());
    let histories = Arc::new(Histories::new(about.rssl));
    let api = Api {
        threads,
        about,
        life: life.clone(),
        administration,
        histories: histories.clone(),
        shown: Mutex::default(),
    };
    let api = Arc::new(api);
    let listeners = (listener, unix);
    let access = Arc::new(Access::new(users(config), origins(config)));
    let followed = access.clone();
    life.follow(Box::new(move |config| followed.set(users(&config.http), origins(&config.http))));
    let patience = Duration::from_secs(config.request_timeout_s.into());
    let (ready, is_ready) = mpsc::channel();
    let run = move || {
        config::slice("the thread of HTTP", SLICE_US);
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

fn origins(config: &Http) -> Vec<Origin> {
    config.origins.iter().filter_map(|origin| origin.parse().ok()).collect()
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

type Listeners = (std::net::TcpListener, Option<std::os::unix::net::UnixListener>);

async fn serve(
    (tcp, unix): Listeners,
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
        Ok(listeners) => listeners,
        Err(e) => {
            let _ = ready.send(Err(e));
            return Ok(());
        }
    };
    let _ = ready.send(Ok(()));
    if let Some(unix) = unix {
        // Whoever may open the socket is an operator.
        let access = Arc::new(Access::new(Vec::new(), Vec::new()));
        tokio::spawn(let_in(unix, OF_SOCKET, Serving { api: api.clone(), access, patience }));
    }
    let_in(tcp, OF_PORT, Serving { api, access, patience }).await;
    Ok(())
}

/// Where connections come in.
trait Accept {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next connection, whose it is, and how it is called.
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Self::Stream, Whose, String)>>;
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, Whose, String)>> {
        Self::poll_accept(self, cx).map_ok(|(stream, peer)| {
            let _ = stream.set_nodelay(true);
            (stream, Whose::of(peer.ip()), peer.to_string())
        })
    }
}

impl Accept for UnixListener {
    type Stream = UnixStream;

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(UnixStream, Whose, String)>> {
        Self::poll_accept(self, cx).map_ok(|(stream, _)| (stream, Whose::Socket, "unix socket".to_owned()))
    }
}

/// Takes in and serves whoever comes.
async fn let_in<D: Accept>(listener: D, bounds: Bounds, serving: Serving) {
    let (places, kept_back) = (Places::new(bounds), Places::new(OF_KEPT_BACK));
    loop {
        match poll_fn(|cx| listener.poll_accept(cx)).await {
            Ok((stream, whose, peer)) => {
                let place = place(&places, bounds, whose).await;
                let pace = Pace { head: serving.patience, write: WRITE_PATIENCE, whole: None };
                tokio::spawn(connection(stream, peer, serving.clone(), (place, pace)));
            }
            Err(e) if rlimit::is_out_of_files(&e) => {
                // Others of this process take each descriptor that is free at once.
                let accepted = poll_fn(|cx| Poll::Ready(rlimit::with_kept_back(|| listener.poll_accept(cx)))).await;
                let Ok(Poll::Ready(Ok((stream, whose, peer)))) = accepted else {
                    not_accepted(&e).await;
                    continue;
                };
                tracing::warn!(
                    "there are no descriptors left (ulimit -n): {peer} is answered on one of those kept back for HTTP"
                );
                if let Some(place) = kept_back.enter(whose) {
                    let pace = Pace { head: MOMENT / 4, write: MOMENT / 4, whole: Some(MOMENT) };
                    tokio::spawn(connection(stream, peer, serving.clone(), (place, pace)));
                }
            }
            Err(e) => not_accepted(&e).await,
        }
        // A connection is read before the next one, which may need its place, is taken in.
        tokio::task::yield_now().await;
    }
}

/// A place for a connection that has come, when there is one.
async fn place(places: &Arc<Places>, bounds: Bounds, whose: Whose) -> Arc<Place> {
    loop {
        if let Some(place) = places.enter(whose) {
            return place;
        }
        tracing::info!("all {} connections of HTTP are being answered: the next one waits", bounds.connections);
        // A peer that takes nothing says nothing when its time is over.
        let _ = tokio::time::timeout(places::STANDSTILL, places.freed()).await;
    }
}

/// Out of descriptors, or the peer is gone already.
async fn not_accepted(e: &io::Error) {
    tracing::warn!("a connection of HTTP cannot be accepted: {e}");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// The state that requests of a port, or of the Unix socket, are answered from.
#[derive(Clone)]
struct Serving {
    api: Arc<Api>,
    access: Arc<Access>,
    /// For the head of a request.
    patience: Duration,
}

/// How much time a connection has.
#[derive(Clone, Copy)]
struct Pace {
    /// For the head of a request.
    head: Duration,
    /// For an answer that is not taken.
    write: Duration,
    /// For all of it: one request, then.
    whole: Option<Duration>,
}

async fn connection<S>(stream: S, peer: String, serving: Serving, (place, pace): (Arc<Place>, Pace))
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let has_asked = AtomicBool::new(false);
    let service = service_fn(|request| {
        has_asked.store(true, Ordering::Relaxed);
        place.is_asked();
        let (serving, peer, place) = (serving.clone(), peer.clone(), Arc::clone(&place));
        async move {
            let response = respond(&serving, &peer, &place, request).await;
            place.is_made();
            Ok::<_, Infallible>(response)
        }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(pace.head).max_buf_size(64 << 10);
    builder.keep_alive(pace.whole.is_none());
    let stream = TokioIo::new(Paced::new(stream, Arc::clone(&place), pace.write));
    let mut served = pin!(builder.serve_connection(stream, service));
    let mut has_to_go = pin!(place.has_to_go());
    let mut is_over = pin!(tokio::time::sleep(pace.whole.unwrap_or(Duration::MAX)));
    let ended = poll_fn(|cx| {
        if has_to_go.as_mut().poll(cx).is_ready() || (pace.whole.is_some() && is_over.as_mut().poll(cx).is_ready()) {
            return Poll::Ready(None);
        }
        served.as_mut().poll(cx).map(Some)
    });
    match ended.await {
        Some(Ok(())) => {}
        Some(Err(e)) => log_end(&peer, &e, has_asked.load(Ordering::Relaxed)),
        None => tracing::info!(
            "connection of HTTP from {peer} is closed: it said nothing, or took nothing, and others wait"
        ),
    }
}

fn log_end(peer: &str, e: &hyper::Error, has_asked: bool) {
    let e = with_cause(e);
    if has_asked {
        // A browser leaves as it likes.
        tracing::debug!("a connection of HTTP from {peer} has ended: {e}");
    } else {
        tracing::info!("connection of HTTP from {peer} refused: {e}");
    }
}

/// An error in words, with what is behind it.
fn with_cause(e: &hyper::Error) -> String {
    let timed_out = if e.is_timeout() { "no request in time (http.request_timeout_s): " } else { "" };
    let cause = std::error::Error::source(e).map_or_else(String::new, |cause| format!(" ({cause})"));
    format!("{timed_out}{e}{cause}")
}

async fn respond(serving: &Serving, peer: &str, place: &Place, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let head_only = request.method() == Method::HEAD;
    let mut response = match answer(serving, peer, place, request).await {
        Ok(response) => response,
        Err(Refusal { fault, denial }) => {
            let mut response = json(fault.status, &answer::fault(&fault));
            if denial == Some(Denial::WhoAreYou) {
                let challenge = HeaderValue::from_static("Basic realm=\"Quoteway\", charset=\"UTF-8\"");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            }
            if matches!(fault.status, 429 | 503) {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
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
            Denial::Foreign => (
                403,
                "the request comes from a page of another server, or by a name that is not this machine's (http.origins names where else the page is)",
            ),
            Denial::NoHost => (400, "the request does not say once and readably which server it is for (Host)"),
            Denial::TooMany => (429, "this address has tried too many passwords: one a second is looked at"),
            Denial::Busy => (503, "too many passwords wait to be checked"),
        };
        Self { fault: Fault::new(status, why), denial: Some(denial) }
    }
}

impl From<places::Full> for Refusal {
    fn from(places::Full: places::Full) -> Self {
        Fault::new(503, "too many answers are being made, or wait to be taken, at this address or in all").into()
    }
}

async fn answer(
    serving: &Serving,
    peer: &str,
    place: &Place,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Refusal> {
    let method = if request.method() == Method::HEAD { "GET".to_owned() } else { request.method().to_string() };
    let path = request.uri().path().to_owned();
    let sent = |acts| Sent {
        headers: request.headers(),
        uri: request.uri(),
        version: request.version(),
        acts,
        whose: place.whose(),
    };
    if let Some((kind, bytes)) = assets::find(&path).filter(|_| method == "GET") {
        place.take_answer()?;
        serving.access.check(sent(false), Role::Viewer).await?;
        return Ok(typed(200, kind, Bytes::from_static(bytes)));
    }
    let (endpoint, places) = api::find(&method, &path)?;
    if endpoint.role != Role::Anybody {
        place.take_answer()?;
    }
    let caller = serving.access.check(sent(endpoint.method != "GET"), endpoint.role).await?;
    let query = request.uri().query().unwrap_or_default();
    let query = if path.starts_with("/api/") { asked::query(query, endpoint.query)? } else { Vec::new() };
    let accept = request.headers().get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let accept = accept.collect::<Vec<_>>().join(",");
    let body = if endpoint.method == "GET" { Value::Null } else { read_body(place, request, endpoint.body).await? };
    let caller = format!("{} {} at {peer}", caller.role.name(), caller.name);
    let asked = Asked { places, query, accept, body, caller };
    let (status, kind, text) = match (endpoint.handle)(&serving.api, &asked).await? {
        Answer::Json(text) => (200, JSON, text),
        Answer::Status(status, value) => (status, JSON, value.to_string()),
        Answer::Text(kind, text) => (200, kind, text),
    };
    if endpoint.role != Role::Anybody {
        place.take_bytes(text.len())?;
    }
    Ok(typed(status, kind, text.into()))
}

/// The body of an action: a JSON object, or nothing.
async fn read_body(place: &Place, request: Request<Incoming>, known: &[Parameter]) -> Result<Value, Fault> {
    let (head, body) = request.into_parts();
    place.awaits_body();
    let collected = tokio::time::timeout(BODY_PATIENCE, Limited::new(body, BODY_MAX).collect()).await;
    place.is_asked();
    let body = collected.map_err(|_| Fault::new(408, "the body did not come in time"))?;
    let body = body.map_err(|e| Fault::new(413, format!("the body cannot be read: {e}")))?.to_bytes();
    asked::body(&head.headers, &body, known)
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
