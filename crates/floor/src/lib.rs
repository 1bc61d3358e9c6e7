//! Bare loops that bound what is possible on a machine, to be run beside a measurement of the product, in the same run.
//!
//! The loops do what any system of this shape must do (receive, look at each message, copy it, send) and nothing else, over loopback TCP,
//! each stage a process of its own. [`relay`] is the chain source -> relays -> sink, whose middle may be joined otherwise ([`Middle`]); [`fan`] is source -> relay -> fan-out writer ->
//! connections in one reader process. Absolute figures differ between machines and between runs; ratios taken in one run do not lie.
//!
//! Those fork: call them before the process has started threads. [`datagrams`] (UDP) and [`log`] (shared memory) are what a messaging
//! layer is measured beside: a side is a function, and the two run in threads or in processes that share a [`board`].
//!
//! No part of the product: the lab runs them, and a peer takes schedule and figures from here.
#![forbid(unsafe_code)]

mod cost;
pub mod datagrams;
pub mod distance;
pub mod fan;
mod frames;
mod latency;
mod link;
pub mod log;
pub mod messaging;
pub mod relay;

pub use latency::{Distribution, Latency};
pub use link::Middle;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::str::FromStr;

pub use net::floor::board;

/// What a stage does when there is nothing to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Block in the system call.
    #[default]
    Block,
    /// Look again after `sched_yield`.
    Yield,
    /// Look again after a pause instruction.
    Spin,
}

impl FromStr for Wait {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "block" => Ok(Self::Block),
            "yield" => Ok(Self::Yield),
            "spin" => Ok(Self::Spin),
            _ => Err(format!("`{text}`: a stage can block, yield or spin")),
        }
    }
}

impl Wait {
    /// Reads some bytes, blocking or not.
    fn read(self, stream: &TcpStream, buf: &mut [u8]) -> io::Result<usize> {
        if self == Self::Block {
            return io::Read::read(&mut &*stream, buf);
        }
        loop {
            match net::floor::receive(stream, buf) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.idle(),
                other => return other,
            }
        }
    }

    fn idle(self) {
        match self {
            Self::Block => {}
            Self::Yield => std::thread::yield_now(),
            Self::Spin => std::hint::spin_loop(),
        }
    }
}

/// What a stage's process has used, a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    /// The stage.
    pub name: String,
    /// CPU a message in user mode, in ns.
    pub user_ns: f64,
    /// CPU a message in the kernel, in ns.
    pub system_ns: f64,
    /// Messages in a call.
    pub batch: f64,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, user_ns, system_ns, batch } = self;
        write!(f, "{name} user {user_ns:.0} system {system_ns:.0} ns, {batch:.1} a call")
    }
}

/// A connected pair on loopback with the socket buffers that were asked for.
fn pair(buffer: Option<usize>) -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let out = TcpStream::connect(listener.local_addr()?)?;
    let (back, _) = listener.accept()?;
    prepare(&out, &back, buffer)?;
    Ok((out, back))
}

fn prepare(sender: &TcpStream, receiver: &TcpStream, buffer: Option<usize>) -> io::Result<()> {
    sender.set_nodelay(true)?;
    if let Some(bytes) = buffer {
        net::floor::set_buffers(sender, receiver, bytes)?;
    }
    Ok(())
}

/// When an open-loop source has to send which message. With no rate, everything is due at once.
struct Schedule {
    start: u64,
    end: u64,
    rate: f64,
    sent: u64,
}

impl Schedule {
    fn new(rate: f64, seconds: f64) -> Self {
        let start = net::clock::now();
        Self { start, end: start + (seconds * 1e9) as u64, rate, sent: 0 }
    }

    /// How many are due now, at most `most`; `None` when the time is over.
    fn due(&self, now: u64, most: u64) -> Option<u64> {
        if now >= self.end {
            return None;
        }
        if self.rate <= 0.0 {
            return Some(most);
        }
        let due = ((now - self.start) as f64 * self.rate / 1e9) as u64;
        Some(due.saturating_sub(self.sent).min(most))
    }

    /// When the next message was intended to be sent: latency counts from here, so that a source that is late is not forgiven.
    fn intended(&mut self, now: u64) -> u64 {
        self.sent += 1;
        if self.rate <= 0.0 { now } else { self.start + (self.sent as f64 * 1e9 / self.rate) as u64 }
    }
}

/// A small generator for item numbers; which ones does not matter, that they jump does.
struct Numbers(u32);

impl Numbers {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0
    }
}
