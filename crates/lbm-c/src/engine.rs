//! A context behind its lock, and the thread that drives it.
//!
//! A callback runs with its own context locked, and may use others, for which it then waits. Two that wait for each other would wait for
//! ever: who would close such a circle is refused instead (`WAITS`).

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

use lbm_io::options::{ContextOption, OperationalMode, Options, WaitBehavior};
use lbm_io::{RequestId, Sources};
use lbm_queue_io::Queues;
use lbm_store_io::Client;
use net::Waker;
use net::tcp::{Tcp, TcpConfig};
use std::os::fd::AsFd as _;

use crate::callbacks::{self, BesideQueues, Callback, Dispatch, RequestCallbacks, RequestProc, Turn};
use crate::error::{Code, Failure, text_of};
use crate::log;
use crate::requests::PendingRequest;

/// A context sleeps at most so long: what a lost wake-up would cost.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// A thread that waits for a turn of the driver looks again after so long.
const TURN_MAX: Duration = Duration::from_millis(50);

/// Which context's callback waits for which context, by their addresses: at most one line a context, since one thread at a time has it
/// locked.
static WAITS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// A line of `WAITS`, taken back when dropped.
struct Wait(usize);

impl Wait {
    /// Notes that a callback of `holder` waits for `wanted`; `None` if `wanted`, or one that it waits for, waits for `holder`.
    fn begin(holder: usize, wanted: usize) -> Option<Self> {
        let mut waits = unpoisoned(&WAITS);
        let mut at = wanted;
        while let Some((_, next)) = waits.iter().find(|(from, _)| *from == at) {
            at = *next;
            if at == holder {
                return None;
            }
        }
        waits.push((holder, wanted));
        Some(Self(holder))
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        unpoisoned(&WAITS).retain(|(from, _)| *from != self.0);
    }
}

/// See the module.
pub(crate) struct Engine {
    inner: Mutex<Inner>,
    /// Apart from `inner`, since requests can be made from callbacks, which run with that locked.
    requests: Mutex<RequestCallbacks>,
    /// Where the driver waits. Only it has it locked, and not while it has `inner`.
    set: Mutex<Tcp>,
    waker: Waker,
    /// When the driver wakes by itself, monotonic nanoseconds; 0 while it works. Written with `inner` locked.
    sleeps_until: AtomicU64,
    stop: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
    is_embedded: bool,
    is_busy: bool,
    /// Turns of the driver while somebody waits for one, and who is told of them.
    turns: Mutex<u64>,
    turned: Condvar,
    waiting: AtomicUsize,
}

/// What the lock guards.
pub(crate) struct Inner {
    pub(crate) client: Client,
    pub(crate) queues: Queues,
    pub(crate) dispatch: Dispatch,
    /// Why the context is of no use any more.
    broken: Option<String>,
}

impl Inner {
    /// When there is something to do though nothing has come, monotonic nanoseconds.
    pub(crate) fn timeout(&mut self) -> Option<u64> {
        timeout(&mut self.client, &self.queues)
    }
}

impl Engine {
    /// Opens a context, and starts its thread if it is to have one.
    pub(crate) fn new(options: &Options) -> Result<Arc<Self>, Failure> {
        let client = Client::new(options)?;
        let mut set = Tcp::new(TcpConfig::default())?;
        set.watch(client.as_fd(), 0)?;
        let engine = Arc::new(Self {
            waker: set.waker(),
            set: Mutex::new(set),
            inner: Mutex::new(Inner { client, queues: Queues::new(), dispatch: Dispatch::default(), broken: None }),
            requests: Mutex::default(),
            sleeps_until: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            thread: Mutex::new(None),
            is_embedded: options.get(ContextOption::OPERATIONAL_MODE) == OperationalMode::Embedded,
            is_busy: options.get(ContextOption::FILE_DESCRIPTOR_MANAGEMENT_BEHAVIOR) == WaitBehavior::BusyWait,
            turns: Mutex::new(0),
            turned: Condvar::new(),
            waiting: AtomicUsize::new(0),
        });
        if engine.is_embedded {
            let driven = Arc::clone(&engine);
            let thread = std::thread::Builder::new().name("qw-lbm".to_owned()).spawn(move || driven.drive())?;
            *unpoisoned(&engine.thread) = Some(thread);
        }
        Ok(engine)
    }

    /// The thread of an embedded context.
    fn drive(self: Arc<Self>) {
        while !self.stop.load(Ordering::Acquire) {
            let wait = if self.is_busy { Duration::ZERO } else { SLEEP_MAX };
            let turn = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.turn(wait)));
            let fault = match turn {
                Ok(Ok(_)) => continue,
                Ok(Err(failure)) => failure.text,
                Err(panic) => format!("a fault of this library: {}", text_of(&*panic)),
            };
            // Whoever calls next is told.
            unpoisoned(&self.inner).broken = Some(fault);
            return;
        }
    }

    /// Waits at most so long for something to do, and does it. Returns how many messages were delivered.
    pub(crate) fn turn(self: &Arc<Self>, wait: Duration) -> Result<usize, Failure> {
        let mut set = unpoisoned(&self.set);
        let (delivered, next) = self.work()?;
        if delivered > 0 {
            return Ok(delivered);
        }
        let left = Duration::from_nanos(next.saturating_sub(net::clock::now()));
        let mut events = Vec::new();
        set.poll(Some(wait.min(left)), &mut events)?;
        Ok(self.work()?.0)
    }

    /// One turn without waiting: messages delivered, and when the next is due.
    fn work(self: &Arc<Self>) -> Result<(usize, u64), Failure> {
        let mut inner = self.lock()?;
        self.sleeps_until.store(0, Ordering::Relaxed);
        let Inner { client, queues, dispatch, .. } = &mut *inner;
        let mut turn = Turn { engine: self, dispatch };
        let delivered = client
            .poll(Some(Duration::ZERO), &mut BesideQueues { queues, turn: &mut turn })
            .map_err(|e| Failure::new(Code::System, format!("the context broke: {e}")))?;
        queues.turn(client.context(), &mut turn);
        let warnings: Vec<String> = client.context().warnings().map(|warning| warning.to_string()).collect();
        let next = timeout(client, queues).unwrap_or(u64::MAX);
        self.sleeps_until.store(next.max(1), Ordering::Relaxed);
        // What the application does with them must not be done under the lock.
        drop(inner);
        if self.waiting.load(Ordering::Acquire) > 0 {
            *unpoisoned(&self.turns) += 1;
            self.turned.notify_all();
        }
        for warning in &warnings {
            log::tell(warning);
        }
        Ok((delivered, next))
    }

    /// The context, for a call from outside of its callbacks.
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, Inner>, Failure> {
        let holder = callbacks::running().map(|engine| engine as usize);
        let this = std::ptr::from_ref(self) as usize;
        if holder == Some(this) || callbacks::is_in_log() {
            let text = "this function cannot be called from a callback of the same context, nor from that for warnings";
            return Err(Failure::new(Code::InCallback, text));
        }
        let inner = match (self.inner.try_lock(), holder) {
            (Ok(inner), _) => Ok(inner),
            (Err(TryLockError::Poisoned(_)), _) => Err(()),
            (Err(TryLockError::WouldBlock), None) => self.inner.lock().map_err(drop),
            (Err(TryLockError::WouldBlock), Some(holder)) => {
                let Some(_wait) = Wait::begin(holder, this) else {
                    let text = "a callback of that context waits for this one: send from outside of callbacks, or with a third thread";
                    return Err(Failure::new(Code::Deadlock, text));
                };
                self.inner.lock().map_err(drop)
            }
        };
        let inner = inner
            .map_err(|()| Failure::new(Code::Internal, "the context is unusable since a fault of this library"))?;
        match &inner.broken {
            Some(why) => Err(Failure::new(Code::Internal, format!("the context is unusable: {why}"))),
            None => Ok(inner),
        }
    }

    /// Works with the sending half: that of the running callback, or under the lock.
    pub(crate) fn sending<R>(&self, work: impl FnOnce(&mut Sources) -> Result<R, Failure>) -> Result<R, Failure> {
        let mut work = Some(work);
        let mut once = |sources: &mut Sources| match work.take() {
            Some(work) => work(sources),
            None => Err(Failure::new(Code::Internal, "called twice")),
        };
        if let Some(result) = callbacks::with_running(self, &mut once) {
            return result;
        }
        let mut inner = self.lock()?;
        let result = once(inner.client.context().sources());
        self.wake_in_time(&mut inner);
        result
    }

    /// Works with persistent sources and receivers, from outside of callbacks of the context.
    pub(crate) fn persisting<R>(&self, work: impl FnOnce(&mut Client) -> R) -> Result<R, Failure> {
        let mut inner = self.lock()?;
        let result = work(&mut inner.client);
        self.wake_in_time(&mut inner);
        Ok(result)
    }

    /// Works with sources and receivers of queues, from outside of callbacks of the context.
    pub(crate) fn queuing<R>(&self, work: impl FnOnce(&mut Queues, &mut Client) -> R) -> Result<R, Failure> {
        let mut inner = self.lock()?;
        let Inner { client, queues, .. } = &mut *inner;
        let result = work(queues, client);
        self.wake_in_time(&mut inner);
        Ok(result)
    }

    /// Timers may be due earlier now than the driver believes.
    fn wake_in_time(&self, Inner { client, queues, .. }: &mut Inner) {
        let until = self.sleeps_until.load(Ordering::Relaxed);
        if until > 0 && timeout(client, queues).is_some_and(|at| at < until) {
            self.sleeps_until.store(0, Ordering::Relaxed);
            self.waker.wake();
        }
    }

    /// Tries `work` until it has a result, once for each turn of the driver.
    pub(crate) fn until<R>(&self, mut work: impl FnMut() -> Option<R>) -> R {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let result = loop {
            let before = *unpoisoned(&self.turns);
            if let Some(result) = work() {
                break result;
            }
            let turns = unpoisoned(&self.turns);
            if *turns == before {
                // A turn that ended between is made good by the bound.
                let _ = self.turned.wait_timeout(turns, TURN_MAX);
            }
        };
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        result
    }

    /// After something was added: its first timers are due now.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    pub(crate) fn is_embedded(&self) -> bool {
        self.is_embedded
    }

    pub(crate) fn set_request(&self, id: RequestId, callback: Option<Callback<RequestProc, PendingRequest>>) {
        let mut requests = unpoisoned(&self.requests);
        match callback {
            Some(callback) => requests.insert(id, callback),
            None => requests.remove(&id),
        };
    }

    pub(crate) fn request_callback(&self, id: RequestId) -> Option<Callback<RequestProc, PendingRequest>> {
        unpoisoned(&self.requests).get(&id).copied()
    }

    /// Ends the thread. No callback comes after this.
    pub(crate) fn stop(&self) -> io::Result<()> {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        let thread = unpoisoned(&self.thread).take();
        match thread.map(JoinHandle::join) {
            Some(Err(panic)) => Err(io::Error::other(text_of(&*panic).to_owned())),
            _ => Ok(()),
        }
    }
}

/// When a context with its queues has something to do by itself.
fn timeout(client: &mut Client, queues: &Queues) -> Option<u64> {
    client.timeout().into_iter().chain(queues.timeout()).min()
}

/// Locks what is whole even if its last user panicked.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
