//! A thread that records services beside whoever started it: sockets, subscribers and recorder of its own.
//!
//! It is a consumer like any other of the server that it connects to, and shares nothing with the server's threads but the loopback: what is
//! slow or fails here is a client that is slow or gone. What it could not write is a gap in the recording and in [`AgentStatus`].

use crate::subscriber::{Limits, LogLine, Progress, Subscriber, TooMany, Wanted};
use net::tcp::ConnId;
use record::{JournalCounters, Recorder, RecorderConfig, RecorderStatus};
use rssl_io::{Ended, Handler, Opened, RsslIo};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

/// How often it is looked at whether it is to end, nanoseconds.
const TURN: u64 = 50_000_000;
/// How often a recorder is asked how it is, nanoseconds.
const LOOK: u64 = 250_000_000;

/// The recording: its services, their server, its folder.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// The folder.
    pub folder: PathBuf,
    /// How it is written.
    pub recorder: RecorderConfig,
    /// The services, each with its items.
    pub wanted: Vec<Wanted>,
    /// Items of each service.
    pub limits: Limits,
    /// Where consumers connect.
    pub server: SocketAddr,
    /// User name of the logins, one for each service.
    pub user: String,
}

/// Why a recording does not begin, or has ended before it was to.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The folder cannot be written, somebody else writes it, or its end could not be written.
    #[error("{0}")]
    Recording(#[from] record::Error),
    /// Too many items are named.
    #[error("{0}")]
    TooMany(#[from] TooMany),
    /// The system gives no thread or no sockets.
    #[error("{0}: {1}")]
    System(&'static str, std::io::Error),
}

/// How a recording is doing.
#[derive(Clone, Debug, Default)]
pub struct AgentStatus {
    /// What is written, lost and waiting.
    pub recorder: RecorderStatus,
    /// Progress by service.
    pub services: Vec<(String, Progress)>,
    /// Why it has ended by itself.
    pub failure: Option<String>,
}

/// A recording that a thread makes.
pub struct Agent {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<JournalCounters, AgentError>>>,
}

#[derive(Default)]
struct Shared {
    ends: AtomicBool,
    status: Mutex<AgentStatus>,
}

impl Shared {
    fn set(&self, change: impl FnOnce(&mut AgentStatus)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Agent {
    /// Begins, or goes on with, the recording of a folder. `tell` takes lines about what is met, from the agent's thread.
    ///
    /// # Errors
    /// The folder cannot be written or has another writer, too many items are named, or the system gives no thread or sockets.
    pub fn start(config: &AgentConfig, tell: impl Fn(&str) + Clone + Send + 'static) -> Result<Self, AgentError> {
        let (recorder, damage) = Recorder::start(&config.folder, config.recorder)?;
        for found in damage {
            tell(&format!("{}: {}", config.folder.display(), net::plain::escaped(&found.to_string())));
        }
        let mut all = Vec::new();
        for wanted in &config.wanted {
            let tell: LogLine = Box::new(tell.clone());
            all.push(Subscriber::new(config.server, &config.user, wanted, config.limits, recorder.handover(), tell)?);
        }
        let io = RsslIo::new(net::clock::now()).map_err(|e| AgentError::System("no sockets", e))?;
        let shared = Arc::new(Shared::default());
        let names = config.wanted.iter().map(|wanted| wanted.service.clone()).collect();
        let work = Work { io, all: Subscribers(all), names, recorder, shared: shared.clone(), trouble: None };
        let run = move || work.run(&tell);
        let thread = Builder::new().name("record".to_owned()).spawn(run);
        let thread = Some(thread.map_err(|e| AgentError::System("no thread", e))?);
        Ok(Self { shared, thread })
    }

    /// How it is doing, as of a quarter of a second ago at most.
    pub fn status(&self) -> AgentStatus {
        self.shared.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Logs out and writes what was heard. What was written over its life is in the answer.
    ///
    /// # Errors
    /// A part could not be written.
    pub fn end(mut self) -> Result<JournalCounters, AgentError> {
        self.shared.ends.store(true, Ordering::Release);
        let gone = || AgentError::System("recording", std::io::Error::other("its thread has panicked"));
        self.thread.take().map_or_else(|| Err(gone()), |thread| thread.join().unwrap_or_else(|_| Err(gone())))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // Errors are told by `end`.
            let _ = thread.join();
        }
    }
}

/// All of them on the same sockets: each knows its connection.
struct Subscribers(Vec<Subscriber<SocketAddr>>);

impl Handler for Subscribers {
    fn opened(&mut self, now: u64, conn: ConnId, opened: &Opened<'_>) {
        self.0.iter_mut().for_each(|it| it.opened(now, conn, opened));
    }

    fn message(&mut self, now: u64, conn: ConnId, msg: &[u8]) {
        self.0.iter_mut().for_each(|it| it.message(now, conn, msg));
    }

    fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended) {
        self.0.iter_mut().for_each(|it| it.closed(now, conn, ended));
    }
}

struct Work {
    io: RsslIo,
    all: Subscribers,
    names: Vec<String>,
    recorder: Recorder,
    shared: Arc<Shared>,
    trouble: Option<String>,
}

impl Work {
    fn run(mut self, tell: &dyn Fn(&str)) -> Result<JournalCounters, AgentError> {
        let mut look_at = 0;
        let mut failed = None;
        while !self.shared.ends.load(Ordering::Acquire) {
            let now = match self.io.turn(Some(net::clock::now() + TURN), &mut self.all) {
                Ok(now) => now,
                Err(e) => {
                    failed = Some(e);
                    break;
                }
            };
            for subscriber in &mut self.all.0 {
                subscriber.work(now, &mut self.io);
            }
            if now >= look_at {
                look_at = now + LOOK;
                self.look(tell);
            }
        }
        let now = net::clock::now();
        self.all.0.iter_mut().for_each(|subscriber| subscriber.end(now, &mut self.io));
        self.look(tell);
        // Hand-overs go before the recorder ends.
        self.all.0.clear();
        let counters = self.recorder.finish();
        let failure = failed.as_ref().map(|e| format!("sockets: {e}"));
        let failure = failure.or_else(|| counters.as_ref().err().map(ToString::to_string));
        if let Some(why) = &failure {
            tell(&format!("the recording has ended: {why}"));
        }
        self.shared.set(|status| {
            if let Ok(counters) = &counters {
                status.recorder.counters = *counters;
                status.recorder.waiting = 0;
            }
            status.failure = failure;
        });
        match failed {
            Some(e) => Err(AgentError::System("sockets", e)),
            None => Ok(counters?),
        }
    }

    /// Takes over how the recorder is, and says it where it has changed.
    fn look(&mut self, tell: &dyn Fn(&str)) {
        let status = self.recorder.status();
        self.all.0.iter_mut().for_each(|subscriber| subscriber.recorder_is(&status));
        if status.trouble != self.trouble {
            match &status.trouble {
                Some(trouble) => {
                    let trouble = net::plain::escaped(trouble);
                    tell(&format!("{trouble}; it is tried again, what comes meanwhile is a gap of the recording"));
                }
                None => tell("the disk takes the recording again"),
            }
            self.trouble.clone_from(&status.trouble);
        }
        let heard = self.names.iter().cloned().zip(self.all.0.iter().map(Subscriber::progress)).collect();
        self.shared.set(|all| (all.recorder, all.services) = (status, heard));
    }
}
