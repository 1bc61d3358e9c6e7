//! The life of a running process: its configuration is read again, its clients are sent elsewhere, it ends.
//!
//! ```text
//! SIGHUP, POST /api/v1/reload  ---> reload: the file as a whole or not at all ---> each serving thread, at the end of a turn
//! SIGTERM, POST /api/v1/drain  ---> drain: no new clients; those that are there are told, and closed over drain_time_s
//! second SIGTERM               ---> the end of the turn is the end
//! ```
//!
//! Nothing here runs in a serving thread: reloads and drains have threads of their own, and ask the serving ones.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::monitor::MonitorHandle;
use super::recording::Recording;
use config::{Applies, Config, LogFormat};
use hub::p2ps::BlockedList;

use crate::log::operators;

/// Between two parts of the clients that are sent elsewhere.
const PART: Duration = Duration::from_millis(100);
/// How long closed clients may take to be gone, beyond the time for the drain.
const LAST: Duration = Duration::from_secs(2);

/// Reads the configuration as at the start: file and command line.
pub type Load = Box<dyn Fn() -> anyhow::Result<Config> + Send + Sync>;
/// Hears of each configuration that is taken over.
pub type Follower = Box<dyn Fn(&Config) + Send + Sync>;

/// The life of a process, steered from any of its threads.
#[derive(Clone)]
pub struct Lifecycle(Arc<Inner>);

struct Inner {
    load: Load,
    /// The configuration in force. Locked while a reload is under way: one comes after the other.
    config: Mutex<Config>,
    monitors: Vec<MonitorHandle>,
    followers: Mutex<Vec<Follower>>,
    draining: AtomicBool,
    ending: AtomicBool,
    over: AtomicBool,
    recording: OnceLock<Recording>,
}

/// The result of a reload, in words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// The configuration in force.
    pub applied: Vec<String>,
    /// Parameters that will count when the process starts again.
    pub restart: Vec<String>,
    /// Changes that could not be made.
    pub faults: Vec<String>,
}

impl Reloaded {
    /// In a line.
    pub fn summary(&self) -> String {
        let mut parts = Vec::new();
        for (what, list) in [("applied", &self.applied), ("needs a restart", &self.restart), ("failed", &self.faults)] {
            if !list.is_empty() {
                parts.push(format!("{what}: {}", list.join("; ")));
            }
        }
        if parts.is_empty() { "nothing has changed".to_owned() } else { parts.join(". ") }
    }
}

impl Lifecycle {
    /// The life of a process with this configuration and these serving threads. The log becomes as the configuration says.
    pub fn new(config: Config, monitors: Vec<MonitorHandle>, load: Load) -> Self {
        // QUOTEWAY_LOG wins at the start: who sets it wants to see just this run.
        set_log(&config, std::env::var_os("QUOTEWAY_LOG").is_none());
        Self(Arc::new(Inner {
            load,
            config: Mutex::new(config),
            monitors,
            followers: Mutex::default(),
            draining: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            over: AtomicBool::new(false),
            recording: OnceLock::new(),
        }))
    }

    /// The ways to ask the serving threads.
    pub fn monitors(&self) -> &[MonitorHandle] {
        &self.0.monitors
    }

    /// Records what the configuration says, of the consumers' side at `address`.
    pub fn record(&self, config: &Config, address: SocketAddr) {
        if let Some(recording) = Recording::of(config, address) {
            self.0.recording.get_or_init(|| recording);
        }
    }

    /// The recording of this process, if there is to be one.
    pub fn recording(&self) -> Option<&Recording> {
        self.0.recording.get()
    }

    /// Writes the end of what is recorded.
    pub fn end_recording(&self) {
        // Where it was not being recorded, there is nothing to end.
        if let Some(recording) = self.recording()
            && recording.standing().state != "stopped"
            && let Err(why) = recording.stop()
        {
            tracing::error!("the recording has no end: {why}");
        }
    }

    /// Has somebody told of each configuration that is taken over from now on.
    pub fn follow(&self, follower: Follower) {
        self.0.followers.lock().unwrap_or_else(PoisonError::into_inner).push(follower);
    }

    /// No new clients are taken.
    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Relaxed)
    }

    /// Whether a serving thread, which asks after each turn, is to end. Signals are looked at here, and acted on elsewhere.
    pub fn is_over(&self) -> bool {
        if net::signal::take_reload() {
            self.elsewhere("reload", |life| match life.reload() {
                Ok(reloaded) => {
                    let summary = reloaded.summary();
                    operators::acted("SIGHUP", &format!("the configuration is read again: {summary}"));
                }
                Err(why) => {
                    tracing::error!("SIGHUP: the configuration stays as it was: {why}");
                    operators::acted("SIGHUP", &format!("the configuration stays as it was: {why}"));
                }
            });
        }
        match net::signal::stop_requested() {
            0 => self.0.over.load(Ordering::Acquire),
            1 => {
                if !self.0.ending.swap(true, Ordering::AcqRel) {
                    self.elsewhere("end", Self::end);
                }
                self.0.over.load(Ordering::Acquire)
            }
            _ => true,
        }
    }

    /// Does something in a thread of its own; where there is none to be had, the process ends without it.
    fn elsewhere(&self, name: &str, work: impl FnOnce(&Self) + Send + 'static) {
        let life = self.clone();
        let work = move || work(&life);
        if let Err(e) = Builder::new().name(name.to_owned()).spawn(work) {
            tracing::error!("no thread to {name}: {e}");
            self.0.over.store(name == "end", Ordering::Release);
        }
    }

    /// Reads the configuration again and takes over what may change. A configuration with a fault changes nothing.
    ///
    /// # Errors
    /// Every fault of the file, with its line; a serving thread that does not answer.
    pub fn reload(&self) -> Result<Reloaded, String> {
        let mut current = self.0.config.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = (self.0.load)().map_err(|e| format!("{e:#}"))?;
        let next = current.reloaded(&wanted);
        let blocked = config::blocked_list(&next)?;
        config::item_priorities(&next)?;
        let mut reloaded = Reloaded::default();
        for change in config::changes(&current, &wanted) {
            let list = if change.applies == Applies::Reload { &mut reloaded.applied } else { &mut reloaded.restart };
            list.push(change.what);
        }
        let both = Arc::new((current.clone(), next));
        for handle in &self.0.monitors {
            let both = both.clone();
            let answer = handle.answer(move |thread| {
                let (old, new) = &*both;
                thread.consumers.iter_mut().for_each(|consumers| consumers.reconfigure(new));
                let reconfigured = thread.providers.as_mut().map(|p| p.reconfigure(thread.now, (old, new), thread.io));
                reconfigured.unwrap_or_default()
            });
            reloaded.faults.extend(answer.unwrap_or_else(|silent| vec![silent]));
        }
        self.block(&blocked, &mut reloaded);
        let (old, new) = &*both;
        if old.log != new.log {
            set_log(new, true);
        }
        for follower in self.0.followers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            follower(new);
        }
        current.clone_from(new);
        Ok(reloaded)
    }

    /// Takes over the list of blocked items.
    fn block(&self, blocked: &BlockedList, reloaded: &mut Reloaded) {
        let (items, mut watchers) = (blocked.len(), 0);
        for handle in &self.0.monitors {
            let list = blocked.clone();
            let answer = handle.answer(move |thread| match thread.consumers.as_mut() {
                Some(consumers) => consumers.block_list(thread.now, list, thread.io),
                None => 0,
            });
            match answer {
                Ok(told) => watchers += told,
                Err(silent) => reloaded.faults.push(silent),
            }
        }
        if watchers > 0 {
            reloaded.applied.push(format!("{items} items are blocked by files: {watchers} watchers are told"));
        }
    }

    /// Takes no new clients from now on, and tells those that are there why; with `close`, they are sent elsewhere as `drain_time_s` says.
    /// Tells how many there are.
    ///
    /// # Errors
    /// A serving thread does not answer.
    pub fn drain(&self, why: &str, close: bool) -> Result<usize, String> {
        let text = self.farewell(why);
        let clients = self.refuse_new(&text, !close)?;
        if close {
            self.elsewhere("drain", move |life| life.close_clients(&text));
        }
        Ok(clients)
    }

    /// Takes new clients again.
    ///
    /// # Errors
    /// A serving thread does not answer.
    pub fn undrain(&self) -> Result<(), String> {
        self.0.draining.store(false, Ordering::Relaxed);
        for handle in &self.0.monitors {
            handle.answer(|thread| thread.consumers.iter_mut().for_each(|consumers| consumers.drain(None)))?;
        }
        Ok(())
    }

    /// The message for clients: why, and where else to go.
    fn farewell(&self, why: &str) -> String {
        let config = self.0.config.lock().unwrap_or_else(PoisonError::into_inner);
        let redirect = &config.p2ps.redirect_text;
        if redirect.is_empty() { why.to_owned() } else { format!("{why}. {redirect}") }
    }

    fn refuse_new(&self, text: &str, tell: bool) -> Result<usize, String> {
        self.0.draining.store(true, Ordering::Relaxed);
        let mut clients = 0;
        for handle in &self.0.monitors {
            let text = text.to_owned();
            clients += handle.answer(move |thread| {
                let Some(consumers) = thread.consumers.as_mut() else { return 0 };
                consumers.drain(Some(&text));
                if tell {
                    consumers.p2ps.tell_logins(thread.now, &text);
                    consumers.flush(thread.now, &[], thread.io);
                }
                consumers.connections().count()
            })?;
        }
        Ok(clients)
    }

    /// Sends the clients elsewhere, evenly over `drain_time_s`, and waits until they are gone.
    fn close_clients(&self, text: &str) {
        let seconds = self.0.config.lock().unwrap_or_else(PoisonError::into_inner).p2ps.drain_time_s;
        let (begun, time) = (Instant::now(), Duration::from_secs(seconds.into()));
        // By thread: clients at the beginning, and those that were sent away.
        let mut threads = vec![(None, 0); self.0.monitors.len()];
        while self.is_draining() && begun.elapsed() < time + LAST {
            let left = time.saturating_sub(begun.elapsed());
            let stay = if left.is_zero() { 0.0 } else { left.as_secs_f64() / time.as_secs_f64() };
            let mut there = 0;
            for (handle, (first, gone)) in self.0.monitors.iter().zip(&mut threads) {
                let (text, known, sent) = (text.to_owned(), *first, *gone);
                let answer = handle.answer(move |thread| {
                    let consumers = thread.consumers.as_mut()?;
                    let first = known.unwrap_or_else(|| consumers.connections().count());
                    let due = (first as f64 * (1.0 - stay)) as usize;
                    let (dismissed, there) = consumers.dismiss(thread.now, due.saturating_sub(sent), &text, thread.io);
                    Some((first, dismissed, there))
                });
                let Ok(Some((clients, dismissed, present))) = answer else { continue };
                (*first, *gone) = (Some(clients), *gone + dismissed);
                there += present;
            }
            if there == 0 {
                return;
            }
            std::thread::sleep(if left.is_zero() { PART / 10 } else { PART });
        }
    }

    /// A signal has asked for the end: clients first, then the serving threads.
    fn end(&self) {
        operators::acted("SIGINT or SIGTERM", "the process is being stopped");
        let text = self.farewell("This server is being stopped");
        match self.refuse_new(&text, false) {
            Ok(0) => {}
            Ok(clients) => {
                tracing::info!(
                    "the process is being stopped: its {clients} clients are sent elsewhere; a second signal ends it at once"
                );
                self.close_clients(&text);
            }
            // The serving threads end at a second signal, and answer nothing from then on.
            Err(_) if net::signal::stop_requested() > 1 => {
                operators::acted("a second signal", "ends the process at once, without a word to its clients");
            }
            Err(why) => tracing::warn!("the process ends without a word to its clients: {why}"),
        }
        self.0.over.store(true, Ordering::Release);
        for handle in &self.0.monitors {
            // A thread that has ended needs no waking.
            let _ = handle.ask(Box::new(|_| ()));
        }
    }
}

/// The log as a configuration says; the level only where the environment has not said another.
fn set_log(config: &Config, level_too: bool) {
    crate::log::set_format(config.log.format == LogFormat::Json);
    if let Err(why) = crate::log::files::write_to(&config.log) {
        tracing::error!("lines go where they went: {why}");
    }
    if let Err(why) = operators::write_to(&config.log.operators_file) {
        tracing::error!("what operators do is in the log alone: {why}");
    }
    let level = if config.log.level.is_empty() { "info" } else { &config.log.level };
    if level_too && let Err(why) = crate::log::set_level(level) {
        tracing::debug!("the level of the log stays as it is: {why}");
    }
}
