//! The request port: late joiners ask there, and replies come there.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use lbm::options::{ContextOption as C, Options};
use lbm::topic::{Replies, Reply, encode_reply};
use lbm::wire::Writer;
use lbm::wire::lbmc::MESSAGE_MAX;
use net::tcp::{Close, ConnId, ListenerId, SendOutcome, SocketOptions};

use crate::error::{ContextError, SendError};
use crate::handles::{FilteredReceiver, Request};
use crate::interface;
use crate::io::{Io, Role};

/// Requesters with a connection at a time.
const LINES_MAX: usize = 4_096;

struct ReplyLine {
    conn: ConnId,
    used_at: u64,
}

/// See the module.
pub(crate) struct Requests {
    pub(crate) listener: Option<ListenerId>,
    address: Option<SocketAddrV4>,
    allowed: bool,
    interface: Ipv4Addr,
    pool: (u16, u16),
    socket: SocketOptions,
    pub(crate) replies: Replies,
    lines: HashMap<SocketAddrV4, ReplyLine>,
    /// Connections of receivers that have said which topics they want: their numbers in the session that filters.
    pub(crate) filtered: HashMap<ConnId, FilteredReceiver>,
    buffer_max: usize,
    idle_ns: u64,
    /// Not after the first line has been idle for so long.
    idle_due: u64,
    scratch: Vec<u8>,
}

impl Requests {
    pub(crate) fn new(options: &Options) -> Result<Self, ContextError> {
        let own = options.get(C::REQUEST_TCP_PORT);
        let pool = (options.get(C::REQUEST_TCP_PORT_LOW), options.get(C::REQUEST_TCP_PORT_HIGH));
        Ok(Self {
            listener: None,
            address: None,
            allowed: options.get(C::REQUEST_TCP_BIND_REQUEST_PORT),
            interface: interface::unicast(options, C::REQUEST_TCP_INTERFACE)?,
            pool: if own == 0 { pool } else { (own, own) },
            socket: SocketOptions {
                backlog: options.get(C::REQUEST_TCP_LISTEN_BACKLOG).max(64) as u32,
                reuse_address: true,
                ..SocketOptions::default()
            },
            replies: Replies::default(),
            lines: HashMap::new(),
            filtered: HashMap::new(),
            buffer_max: options.get(C::RESPONSE_SESSION_MAXIMUM_BUFFER),
            idle_ns: options.get(C::RESPONSE_TCP_DELETION_TIMEOUT),
            idle_due: u64::MAX,
            scratch: Vec::new(),
        })
    }

    /// The request port, opened when it is first needed.
    pub(crate) fn open_port(&mut self, io: &mut Io) -> Result<SocketAddrV4, ContextError> {
        if let Some(address) = self.address {
            return Ok(address);
        }
        if !self.allowed {
            return Err(ContextError::Unsupported(
                "late join, recovery and requests need a request port: request_tcp_bind_request_port is 0".to_owned(),
            ));
        }
        let (listener, address) =
            io.listen("requests", C::REQUEST_TCP_PORT_LOW, self.pool, self.interface, &self.socket)?;
        self.listener = Some(listener);
        self.address = Some(address);
        Ok(address)
    }

    /// The request port, if it is open.
    pub(crate) fn address(&self) -> Option<SocketAddrV4> {
        self.address
    }

    pub(crate) fn respond(
        &mut self,
        io: &mut Io,
        now: u64,
        request: &Request,
        payload: &[u8],
    ) -> Result<(), SendError> {
        self.scratch.resize(MESSAGE_MAX, 0);
        let mut w = Writer::new(&mut self.scratch);
        encode_reply(&mut w, Reply { request: request.number, payload }).map_err(|_| SendError::TooLong)?;
        let conn = if let Some(line) = self.lines.get_mut(&request.from) {
            line.used_at = now;
            line.conn
        } else {
            if self.lines.len() >= LINES_MAX {
                return Err(SendError::NoRequester);
            }
            let to = SocketAddr::V4(request.from);
            let conn = io.tcp.connect(to, &SocketOptions::default()).map_err(|_| SendError::NoRequester)?;
            io.set_role(conn, Role::Replies(request.from));
            self.lines.insert(request.from, ReplyLine { conn, used_at: now });
            self.idle_due = self.idle_due.min(now.saturating_add(self.idle_ns));
            conn
        };
        if io.tcp.queued(conn) > self.buffer_max {
            return Err(SendError::NoRequester);
        }
        match io.tcp.send(conn, w.written()) {
            SendOutcome::Sent | SendOutcome::Queued(_) => Ok(()),
            SendOutcome::Gone => {
                self.lines.remove(&request.from);
                Err(SendError::NoRequester)
            }
        }
    }

    /// A connection for replies is over.
    pub(crate) fn gone(&mut self, to: SocketAddrV4, conn: ConnId) {
        if self.lines.get(&to).is_some_and(|line| line.conn == conn) {
            self.lines.remove(&to);
        }
    }

    pub(crate) fn timeout(&self) -> Option<u64> {
        let idle = (self.idle_due != u64::MAX).then_some(self.idle_due);
        self.replies.timeout().into_iter().chain(idle).min()
    }

    pub(crate) fn on_timer(&mut self, now: u64, io: &mut Io) {
        self.replies.on_timer(now, |_| {});
        if now < self.idle_due {
            return;
        }
        let idle = self.idle_ns;
        self.lines.retain(|_, line| {
            let keep = line.used_at.saturating_add(idle) > now;
            if !keep {
                io.tcp.close(line.conn, Close::Drain(Duration::from_secs(1)));
            }
            keep
        });
        let due = self.lines.values().map(|line| line.used_at.saturating_add(idle)).min();
        self.idle_due = due.unwrap_or(u64::MAX);
    }
}
