//! A server's recording of itself (`[record]`): begun and ended by configuration and operators.
//!
//! The recorder is a consumer of this very process, with a thread and sockets of its own ([`record_io::Agent`]): no serving thread hands
//! anything over, waits, or knows of it but as of one more client.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use config::{Config, Record};
use names::Pattern;
use record::{JournalConfig, JournalCounters, RecorderConfig, UNPACKED_BYTES};
use record_io::{Agent, AgentConfig, AgentStatus, Limits, Wanted};
use rwf::msg::Domain;

use crate::addresses::reached;

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
    /// The change under way, with the agent taken out: a disk may take its time, and whoever asks meanwhile is not to wait for it.
    change: Option<Change>,
    /// Counts of the agent that was taken out.
    ending: Counts,
    /// Why the last one did not begin, or has ended.
    failure: Option<String>,
    /// Of all that have ended.
    before: Counts,
}

/// A change of a recording that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Starting,
    Stopping,
}

impl Change {
    const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Stopping => "stopping",
        }
    }
}

/// The recorder's counters since the process began.
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
    fn of(counters: &JournalCounters, disconnects: u64) -> Self {
        Self {
            records: counters.written.messages,
            message_bytes: counters.written.bytes,
            file_bytes: counters.file_bytes,
            lost: counters.lost.messages,
            lost_bytes: counters.lost.bytes,
            gaps: counters.gaps,
            disk_failures: counters.failures,
            disconnects,
        }
    }

    fn with_status(self, status: &AgentStatus) -> Self {
        self.and(Self::of(&status.recorder.counters, disconnects(status)))
    }

    fn and(self, more: Self) -> Self {
        Self {
            records: self.records + more.records,
            message_bytes: self.message_bytes + more.message_bytes,
            file_bytes: self.file_bytes + more.file_bytes,
            lost: self.lost + more.lost,
            lost_bytes: self.lost_bytes + more.lost_bytes,
            gaps: self.gaps + more.gaps,
            disk_failures: self.disk_failures + more.disk_failures,
            disconnects: self.disconnects + more.disconnects,
        }
    }
}

/// How a recording is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// `recording`, `troubled` (the disk does not take it), `starting`, `stopping`, `stopped` or `failed`.
    pub state: &'static str,
    /// The obstacle.
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
    /// The recording that the configuration asks for, of the consumers' side at `address`; begun at once where it says so. `None` if it asks for none.
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

    /// Begins, or goes on. Takes as long as the disk does to open the recording; nobody else waits for that.
    ///
    /// # Errors
    /// Why it cannot; or it is under way.
    pub fn start(&self) -> Result<(), String> {
        let failed = self.change(Change::Starting, |state| {
            let is_recording = state.agent.as_ref().is_some_and(|agent| agent.status().failure.is_none());
            if is_recording { Err("it is being recorded".to_owned()) } else { Ok(()) }
        })?;
        let ended = failed.map(Ended::of);
        let started = Agent::start(&self.0.plan, |line| tracing::info!("record: {line}")).map_err(|e| e.to_string());
        let mut state = self.changed(ended);
        state.failure = started.as_ref().err().cloned();
        started.map(|agent| state.agent = Some(agent))
    }

    /// Ends, once all that was heard is written. Nobody else waits for that.
    ///
    /// # Errors
    /// Nothing is being recorded, or the end could not be written.
    pub fn stop(&self) -> Result<Counts, String> {
        let agent = self.change(Change::Stopping, |state| {
            if state.agent.is_some() { Ok(()) } else { Err("nothing is being recorded".to_owned()) }
        })?;
        let state = self.changed(agent.map(Ended::of));
        state.failure.clone().map_or(Ok(state.before), Err)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the agent out for a change, if none is under way and `may` allows it. Until [`Recording::changed`] its counts stand still.
    fn change(&self, change: Change, may: impl Fn(&State) -> Result<(), String>) -> Result<Option<Agent>, String> {
        let mut state = self.state();
        if let Some(other) = state.change {
            return Err(format!("it is {}: ask again when that is done", other.name()));
        }
        may(&state)?;
        state.change = Some(change);
        let agent = state.agent.take();
        state.ending = agent.as_ref().map_or(Counts::default(), |agent| Counts::default().with_status(&agent.status()));
        Ok(agent)
    }

    /// The change is over; `ended` is what came of the agent that was there.
    fn changed(&self, ended: Option<Ended>) -> MutexGuard<'_, State> {
        let mut state = self.state();
        (state.change, state.ending, state.failure) = (None, Counts::default(), None);
        if let Some(Ended { counts, failure }) = ended {
            state.before = state.before.and(counts);
            state.failure = failure;
        }
        state
    }

    /// How it is doing.
    pub fn standing(&self) -> Standing {
        let state = self.state();
        let now = state.agent.as_ref().map(Agent::status);
        let before = state.before.and(state.ending);
        let counts = now.as_ref().map_or(before, |now| before.with_status(now));
        let failure = now.as_ref().map_or_else(|| state.failure.clone(), |now| now.failure.clone());
        let disk = now.as_ref().and_then(|now| now.recorder.trouble.clone());
        let name = match (state.change, &now, &failure, &disk) {
            (Some(change), ..) => change.name(),
            (None, _, Some(_), _) => "failed",
            (None, None, ..) => "stopped",
            (None, Some(_), None, Some(_)) => "troubled",
            (None, Some(_), None, None) => "recording",
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

/// An agent that has ended: its counts, and why it failed if it did.
struct Ended {
    counts: Counts,
    failure: Option<String>,
}

impl Ended {
    /// Ends the agent, once all that it has heard is written.
    fn of(agent: Agent) -> Self {
        let status = agent.status();
        let disconnects = disconnects(&status);
        match agent.end() {
            Ok(counters) => Self { counts: Counts::of(&counters, disconnects), failure: None },
            Err(e) => Self { counts: Counts::default().with_status(&status), failure: Some(e.to_string()) },
        }
    }
}

/// Connections that this server has closed to the recorder.
fn disconnects(status: &AgentStatus) -> u64 {
    status.services.iter().map(|(_, heard)| heard.lost).sum()
}

fn plan(record: &Record, address: SocketAddr) -> AgentConfig {
    let journal = JournalConfig {
        segment_bytes: u64::from(record.segment_megabytes) << 20,
        keep_bytes: (record.keep_megabytes > 0).then(|| u64::from(record.keep_megabytes) << 20),
        keep_age_ns: (record.keep_hours > 0).then(|| u64::from(record.keep_hours) * HOUR),
        unpacked_bytes: (!record.pack).then_some(UNPACKED_BYTES),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(folder: &std::path::Path) -> Recording {
        let record =
            Record { folder: folder.display().to_string(), services: vec!["A".to_owned()], ..Record::default() };
        Recording(Arc::new(Inner { plan: plan(&record, ([127, 0, 0, 1], 1).into()), state: Mutex::default() }))
    }

    #[test]
    fn nobody_who_asks_waits_for_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let recording = recording(&folder.path().join("r"));
        recording.start().unwrap();
        assert_eq!(recording.standing().state, "recording");
        // As while a slow disk is written to: the agent is out, and the lock is free.
        let agent = recording.change(Change::Stopping, |_| Ok(())).unwrap();
        assert_eq!(recording.standing().state, "stopping");
        let told = "it is stopping: ask again when that is done";
        assert_eq!((recording.start(), recording.stop().map(drop)), (Err(told.to_owned()), Err(told.to_owned())));
        drop(recording.changed(agent.map(Ended::of)));
        assert_eq!(recording.standing().state, "stopped");
        assert_eq!(recording.stop().map(drop), Err("nothing is being recorded".to_owned()));
        recording.start().unwrap();
        assert_eq!(recording.start(), Err("it is being recorded".to_owned()));
        recording.stop().unwrap();
    }
}
