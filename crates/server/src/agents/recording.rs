//! What a server records of itself (`[record]`): begun and ended by configuration and operators.
//!
//! The recorder is a consumer of this very process, with a thread and sockets of its own ([`record_io::Agent`]): no serving thread hands
//! anything over, waits, or knows of it but as of one more client.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use config::{Config, Record};
use permissions::rights::Pattern;
use record::{JournalConfig, JournalCounters, RecorderConfig};
use record_io::{Agent, AgentConfig, Limits, Wanted};
use rwf::msg::Domain;

/// Nanoseconds.
const HOUR: u64 = 3_600_000_000_000;

/// The recording of a process; any thread may ask it and steer it.
#[derive(Clone)]
pub struct Recording(Arc<Inner>);

struct Inner {
    plan: AgentConfig,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    agent: Option<Agent>,
    /// Why the last one did not begin, or has ended.
    failure: Option<String>,
    /// Of all that have ended.
    before: Counts,
}

/// What was recorded since the process began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records that were written.
    pub records: u64,
    /// Bytes of their messages.
    pub message_bytes: u64,
    /// Bytes of files that were written.
    pub file_bytes: u64,
    /// Messages that were lost: nobody could write them as fast as they came.
    pub lost: u64,
    /// Bytes of the messages that were lost.
    pub lost_bytes: u64,
    /// Gaps that were recorded.
    pub gaps: u64,
    /// Failures of the disk.
    pub disk_failures: u64,
    /// Connections that this server has closed to the recorder.
    pub disconnects: u64,
}

impl Counts {
    fn with(self, counters: &JournalCounters, disconnects: u64) -> Self {
        Self {
            records: self.records + counters.written.messages,
            message_bytes: self.message_bytes + counters.written.bytes,
            file_bytes: self.file_bytes + counters.file_bytes,
            lost: self.lost + counters.lost.messages,
            lost_bytes: self.lost_bytes + counters.lost.bytes,
            gaps: self.gaps + counters.gaps,
            disk_failures: self.disk_failures + counters.failures,
            disconnects: self.disconnects + disconnects,
        }
    }
}

/// How a recording is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// `recording`, `troubled` (the disk does not take it), `stopped` or `failed`.
    pub state: &'static str,
    /// What is in the way.
    pub trouble: Option<String>,
    /// The recording's folder.
    pub folder: String,
    /// Service, whether it is up, items, items with an image.
    pub services: Vec<(String, bool, usize, usize)>,
    /// Since the process began.
    pub counts: Counts,
    /// Bytes that wait to be written.
    pub waiting: usize,
}

impl Recording {
    /// What the configuration says is to be recorded, of the consumers' side at `address`; begun at once where it says so. `None` if nothing is.
    /// A recording that cannot begin is told and leaves the server alone.
    pub fn of(config: &Config, address: SocketAddr) -> Option<Self> {
        let record = &config.record;
        if record.folder.is_empty() {
            return None;
        }
        let recording = Self(Arc::new(Inner { plan: plan(record, address), state: Mutex::default() }));
        if record.at_start
            && let Err(why) = recording.start()
        {
            tracing::error!("nothing is recorded: {why}");
        }
        Some(recording)
    }

    /// Begins, or goes on.
    ///
    /// # Errors
    /// Why it cannot; or it is under way.
    pub fn start(&self) -> Result<(), String> {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.agent.as_ref().is_some_and(|agent| agent.status().failure.is_none()) {
            return Err("it is being recorded".to_owned());
        }
        state.end();
        match Agent::start(&self.0.plan, |line| tracing::info!("record: {line}")) {
            Ok(agent) => {
                state.agent = Some(agent);
                state.failure = None;
                Ok(())
            }
            Err(e) => {
                let why = e.to_string();
                state.failure = Some(why.clone());
                Err(why)
            }
        }
    }

    /// Ends, once all that was heard is written.
    ///
    /// # Errors
    /// Nothing is being recorded, or the end could not be written.
    pub fn stop(&self) -> Result<Counts, String> {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.agent.is_none() {
            return Err("nothing is being recorded".to_owned());
        }
        state.failure = None;
        state.end();
        state.failure.clone().map_or(Ok(state.before), Err)
    }

    /// How it is doing.
    pub fn standing(&self) -> Standing {
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = state.agent.as_ref().map(Agent::status);
        let disconnects = now.iter().flat_map(|now| &now.services).map(|(_, heard)| heard.lost).sum();
        let counts = now.as_ref().map_or(state.before, |now| state.before.with(&now.recorder.counters, disconnects));
        let failure = now.as_ref().map_or_else(|| state.failure.clone(), |now| now.failure.clone());
        let disk = now.as_ref().and_then(|now| now.recorder.trouble.clone());
        let name = match (&now, &failure, &disk) {
            (_, Some(_), _) => "failed",
            (None, ..) => "stopped",
            (Some(_), None, Some(_)) => "troubled",
            (Some(_), None, None) => "recording",
        };
        let services = now.iter().flat_map(|now| &now.services);
        Standing {
            state: name,
            trouble: failure.or(disk),
            folder: self.0.plan.folder.display().to_string(),
            services: services.map(|(name, heard)| (name.clone(), heard.is_up, heard.items, heard.open)).collect(),
            counts,
            waiting: now.as_ref().map_or(0, |now| now.recorder.waiting),
        }
    }
}

impl State {
    /// What there is ends; what it has written counts on.
    fn end(&mut self) {
        let Some(agent) = self.agent.take() else { return };
        let status = agent.status();
        let disconnects = status.services.iter().map(|(_, heard)| heard.lost).sum();
        match agent.end() {
            Ok(counters) => self.before = self.before.with(&counters, disconnects),
            Err(e) => {
                self.before = self.before.with(&status.recorder.counters, disconnects);
                self.failure = Some(e.to_string());
            }
        }
    }
}

fn plan(record: &Record, address: SocketAddr) -> AgentConfig {
    let journal = JournalConfig {
        segment_bytes: u64::from(record.segment_megabytes) << 20,
        keep_bytes: (record.keep_megabytes > 0).then(|| u64::from(record.keep_megabytes) << 20),
        keep_age: (record.keep_hours > 0).then(|| u64::from(record.keep_hours) * HOUR),
        ..JournalConfig::default()
    };
    // Patterns that are none are a fault of the file.
    let patterns: Vec<Pattern> = record.patterns.iter().filter_map(|text| Pattern::parse(text).ok()).collect();
    let domains: Vec<u8> = (0..=u8::MAX).filter(|&domain| record.domains.0.has(Domain(domain))).collect();
    let wanted = record.services.iter().map(|service| Wanted {
        service: service.clone(),
        names: record.items.clone(),
        lists: record.symbol_lists.clone(),
        patterns: patterns.clone(),
        domains: domains.clone(),
    });
    AgentConfig {
        folder: record.folder.clone().into(),
        recorder: RecorderConfig { journal, queue_bytes: (record.queue_megabytes as usize) << 20 },
        wanted: wanted.collect(),
        limits: Limits { items: record.items_max as usize, generic: record.generic },
        server: reached(address),
        user: record.user.clone(),
    }
}

/// An address that is listened on, as this host reaches it.
fn reached(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}
