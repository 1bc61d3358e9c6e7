//! Asks the administration of a process, over TCP or its Unix socket: for `quoteway ctl` and `quoteway top`.

use anyhow::anyhow;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use base64ct::{Base64, Encoding as _};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Runtime;

/// How long a process may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of an answer.
const ANSWER_MAX: usize = 64 << 20;

/// A provider of a service in a word: its address, the service that a group is served from there, and how many of its items it has, or why it may have none. `None` if it is something
/// else.
pub fn offer_text(value: &Value) -> Option<String> {
    let (address, open) = (value["address"].as_str()?, value["open"].as_u64());
    let items = open.map(|open| open.to_string());
    let standby = value["standby"].as_u64().filter(|items| *items > 0).map(|items| format!("stands by for {items}"));
    let state = match (value["up"].as_bool(), value["silent"].as_bool()) {
        (Some(false), _) => Some("down"),
        (_, Some(true)) => Some("silent"),
        _ => None,
    };
    let served_from = value["served_from"].as_str().filter(|name| !name.is_empty());
    let about: Vec<&str> =
        served_from.into_iter().chain(state).chain(items.as_deref()).chain(standby.as_deref()).collect();
    Some(if about.is_empty() { address.to_owned() } else { format!("{address} ({})", about.join(", ")) })
}

/// Where a process is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// HOST:PORT.
    Tcp(String),
    /// The path of its Unix socket.
    Unix(PathBuf),
}

impl FromStr for Target {
    type Err = String;

    /// `HOST:PORT`, `PORT`, `http://HOST:PORT/`, or a path with a slash in it.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix("http://").unwrap_or(text);
        if text.starts_with(['/', '.']) || text.starts_with("unix:") {
            return Ok(Self::Unix(text.strip_prefix("unix:").unwrap_or(text).into()));
        }
        let text = text.trim_end_matches('/');
        if text.parse::<u16>().is_ok() {
            return Ok(Self::Tcp(format!("127.0.0.1:{text}")));
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(Self::Tcp(text.to_owned())),
            _ => Err("not HOST:PORT, PORT, or the path of a Unix socket".to_owned()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(at) => f.write_str(at),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// One who asks.
pub struct Client {
    target: Target,
    authorization: Option<String>,
    runtime: Runtime,
}

impl Client {
    /// Asks this process, as this user with this password if there is one.
    ///
    /// # Errors
    /// The system gives no descriptors.
    pub fn new(target: Target, user: Option<(&str, &str)>) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let authorization = user.map(|(name, password)| {
            format!("Basic {}", Base64::encode_string(format!("{name}:{password}").as_bytes()))
        });
        Ok(Self { target, authorization, runtime: runtime? })
    }

    /// The answer to a question.
    ///
    /// # Errors
    /// Nobody answers, or what the process says instead.
    pub fn get(&self, path: &str) -> anyhow::Result<Value> {
        Ok(serde_json::from_slice(&self.get_text(path)?).unwrap_or(Value::Null))
    }

    /// The same, as it came: for an answer that is long, and not wanted as a whole.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn get_text(&self, path: &str) -> anyhow::Result<Bytes> {
        self.ask("GET", path, None)
    }

    /// Has something done.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        Ok(serde_json::from_slice(&self.ask("POST", path, Some(body))?).unwrap_or(Value::Null))
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Bytes> {
        let Self { target, runtime, .. } = self;
        let asked = runtime.block_on(async {
            tokio::time::timeout(PATIENCE, async {
                match target {
                    Target::Tcp(at) => {
                        let stream = TcpStream::connect(at).await.map_err(|e| self.unreachable(&e))?;
                        self.exchange(stream, method, path, body).await
                    }
                    Target::Unix(socket) => {
                        let stream = UnixStream::connect(socket).await.map_err(|e| self.unreachable(&e))?;
                        self.exchange(stream, method, path, body).await
                    }
                }
            })
            .await
        });
        asked.unwrap_or_else(|_| Err(anyhow!("{target} has not answered within {} s", PATIENCE.as_secs())))
    }

    fn unreachable(&self, e: &std::io::Error) -> anyhow::Error {
        anyhow!(
            "{}: {e}: is the process running, and is this its HTTP port? Its line \"ready\" ends with it (--at)",
            self.target
        )
    }

    async fn exchange<S>(&self, stream: S, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Bytes>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let failed = |e: &dyn fmt::Display| anyhow!("{}: {e}", self.target);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| failed(&e))?;
        let driven = tokio::spawn(connection);
        let host = match &self.target {
            Target::Tcp(at) => at.as_str(),
            Target::Unix(_) => "localhost",
        };
        let mut request = Request::builder().method(method).uri(path).header("host", host);
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let request = request.body(Full::new(body)).map_err(|e| failed(&e))?;
        let response = sender.send_request(request).await.map_err(|e| failed(&e))?;
        let status = response.status();
        let bytes = Limited::new(response.into_body(), ANSWER_MAX).collect().await.map_err(|e| failed(&e))?.to_bytes();
        driven.abort();
        if status.is_success() {
            return Ok(bytes);
        }
        let value: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let why = value["error"].as_str().map_or_else(|| status.to_string(), str::to_owned);
        let hint = if status.as_u16() == 401 { " (--user NAME, and QUOTEWAY_PASSWORD)" } else { "" };
        Err(anyhow!("{}: {why}{hint}", self.target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_named_by_port_address_or_path() {
        let of = |text: &str| text.parse::<Target>().map(|target| target.to_string());
        assert_eq!(of("8081"), Ok("127.0.0.1:8081".to_owned()));
        assert_eq!(of("http://localhost:8080/"), Ok("localhost:8080".to_owned()));
        assert_eq!(of("/run/q.sock").as_deref(), Ok("/run/q.sock"));
        assert!(of("somewhere").is_err() && of(":1").is_err() && of("a:b").is_err());
        assert_eq!("unix:q".parse::<Target>(), Ok(Target::Unix("q".into())));
    }
}
