//! A consumer that watches one item in a thread of its own, and how long it hears nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use measure::process::{Fault, pause};
use net::clock::now;
use net::tcp::SocketOptions;
use rwf::msg::{Domain, MsgKey, RequestFlags, RequestMsg};

use super::swarm::Swarm;

/// The consumer.
pub(super) struct Watcher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<(), Fault>>>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    updates: AtomicU64,
    /// Longest silence since it was last asked for, nanoseconds.
    silence: AtomicU64,
}

impl Watcher {
    /// Watches `item` of a service.
    #[must_use]
    pub(super) fn start(server: SocketAddr, service: &'static str, item: &'static str) -> Self {
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        let thread = thread::spawn(move || watch(server, service, item, &seen));
        Self { shared, thread: Some(thread) }
    }

    /// Waits for updates.
    ///
    /// # Errors
    /// None come.
    pub(super) fn wait(&mut self) -> Result<(), Fault> {
        for _ in 0..1_200 {
            if self.shared.updates.load(Ordering::Relaxed) > 10 {
                return Ok(());
            }
            if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
                break;
            }
            pause(0.05)?;
        }
        self.end()?;
        Err(Fault::Failed("the consumer that watches gets no updates".to_owned()))
    }

    /// The longest silence since the last call, milliseconds.
    pub(super) fn silence_ms(&self) -> f64 {
        self.shared.silence.swap(0, Ordering::Relaxed) as f64 / 1e6
    }

    /// Ends it.
    ///
    /// # Errors
    /// It has failed, or was closed.
    pub(super) fn end(&mut self) -> Result<(), Fault> {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        ended.map_or(Ok(()), |ended| {
            ended.unwrap_or_else(|_| Err(Fault::Failed("the watching thread has failed".into())))
        })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn watch(server: SocketAddr, service: &str, item: &str, shared: &Shared) -> Result<(), Fault> {
    let mut swarm = Swarm::new(server, SocketOptions { no_delay: true, ..SocketOptions::default() })?;
    swarm.bring(1)?;
    let service = swarm.service(service)?;
    let request = RequestMsg {
        flags: RequestFlags::STREAMING,
        key: MsgKey { name_type: Some(1), ..MsgKey::item(service, item.as_bytes()) },
        ..RequestMsg::new(Domain::MARKET_PRICE, 5)
    };
    swarm.say(|w| request.encode(w))?;
    let (mut seen, mut last) = (0, 0);
    while !shared.is_over.load(Ordering::Relaxed) {
        swarm.turn(Duration::from_millis(20))?;
        let (updates, at) = (swarm.crowd().updates, now());
        if last > 0 {
            // Also of a silence that is not over.
            shared.silence.fetch_max(at - last, Ordering::Relaxed);
        }
        if updates != seen {
            (seen, last) = (updates, at);
            shared.updates.store(updates, Ordering::Relaxed);
        }
        if swarm.crowd().closed > 0 {
            return Err(Fault::Failed(format!("the consumer that watches is closed: {}", swarm.crowd().why)));
        }
    }
    Ok(())
}
