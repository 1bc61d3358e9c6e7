//! Where the delayed services of a process consume what they publish later: at the process itself.
//!
//! `quoteway serve` has consumers of its own. A Source Distributor has none: for its delayed services it has a P2PS in a thread, which joins its hub as
//! any other, waits for nobody, and is reached from this host alone.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use config::{Config, HubTransport, P2ps};
use net::Waker;

use crate::addresses::reached;
use crate::agents::consumer_ports::Port;
use crate::agents::p2ps::P2psAgent;

/// Where consumers of the process connect, for threads beside it: told once that is open.
#[derive(Debug, Clone, Default)]
pub struct ConsumersAt(Arc<(Mutex<Option<SocketAddr>>, Condvar)>);

impl ConsumersAt {
    /// Consumers can connect, at this address as this host reaches it.
    pub fn tell(&self, address: SocketAddr) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reached(address));
        self.0.1.notify_all();
    }

    /// The address, waited for as long as this at most.
    pub fn wait(&self, most: Duration) -> Option<SocketAddr> {
        let known = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.1.wait_timeout_while(known, most, |known| known.is_none());
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The P2PS in a thread; it ends with this.
pub(super) struct OwnP2ps {
    over: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl OwnP2ps {
    /// Starts it where there are delayed services, and tells `at` where it is reached. `hubs` is where P2PSs join, one for each thread.
    ///
    /// # Errors
    /// The system gives no thread, or no port.
    pub(super) fn start(
        config: &Config,
        incarnation: u32,
        hubs: &[SocketAddr],
        at: &ConsumersAt,
    ) -> io::Result<Option<Self>> {
        let count = config.delays.values().filter(|delay| delay.delay_enabled).count();
        if count == 0 {
            return Ok(None);
        }
        let config = own_config(config, hubs, count);
        // A life of its own among those that the hub knows of this process.
        let life = (incarnation.wrapping_add(0xFF << 24), 0);
        let port = Port::of(&config.p2ps, false);
        let mut agent = P2psAgent::new(&config, life, Arc::new(AtomicUsize::new(0)), port, None)?;
        at.tell(agent.bound().rssl);
        let (over, waker) = (Arc::new(AtomicBool::new(false)), agent.io().tcp().waker());
        let is_over = Arc::clone(&over);
        let run = move || {
            if let Err(error) = agent.run(|| is_over.load(Ordering::Acquire)) {
                tracing::error!("the P2PS of the delayed services has ended: {error}");
            }
        };
        let thread = Some(Builder::new().name("delay p2ps".to_owned()).spawn(run)?);
        Ok(Some(Self { over, waker, thread }))
    }
}

impl Drop for OwnP2ps {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // Why it has failed, if it has, it has said itself.
            let _ = thread.join();
        }
    }
}

/// A P2PS for this many consumers of this host, which sees what the Source Distributor has and denies nothing: who may see a delayed item is asked where
/// that is watched, by the lock that it has from its source.
fn own_config(config: &Config, hubs: &[SocketAddr], consumers: usize) -> Config {
    let mut own = Config { hub: config.hub.clone(), dictionary: config.dictionary.clone(), ..Config::default() };
    own.aeron.clone_from(&config.aeron);
    own.p2ps = P2ps {
        interface: Ipv4Addr::LOCALHOST.to_string(),
        rssl_port: 0,
        max_mounts: consumers as u32,
        enable_connect_config: false,
        ..P2ps::default()
    };
    own.hub.paces_providers = false;
    own.hub.instance = format!("{} delay", config.hub.instance);
    if own.hub.transport == HubTransport::Tcp {
        own.hub.source_distributors = hubs.iter().map(|hub| reached(*hub).to_string()).collect();
    }
    own
}
